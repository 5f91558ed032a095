/* collective_cases -- what tests of collectives go through: the algorithms, and the ways in which
 * an array's blocks can lie in memory. */
#ifndef PURLIN_TESTS_COLLECTIVE_CASES_H
#define PURLIN_TESTS_COLLECTIVE_CASES_H

#include "collectives/region.h"

typedef enum { GATHERS, SCATTERS, REDUCES } effect_kind;

typedef struct {
    const char *name;
    effect_kind effect;
    void (*gather)(pl_schedule *s, pl_blocks x, pl_region own, int rank);
    void (*reduce)(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank);
} algorithm;

/* RECURSIVE_DOUBLING is the one whose bytes are not those of a gather or scatter. */
enum {
    RING_GATHER,
    BRUCK_GATHER,
    DIRECT_GATHER,
    RING_SCATTER,
    DIRECT_SCATTER,
    RING_REDUCE,
    DIRECT_REDUCE,
    RECURSIVE_DOUBLING,
    N_ALGORITHMS
};
extern const algorithm algorithms[N_ALGORITHMS];

typedef enum {
    LAYOUT_ONE,     /* one array, balanced blocks */
    LAYOUT_THREE,   /* blocks run on through three arrays */
    LAYOUT_STRIDED, /* runs of 3 elements 5 apart, a second array for the rest */
    LAYOUT_UNEVEN,  /* sizes in ratio 3 0 1 2 3 0 1 2 ..., strided as above */
    N_LAYOUTS,
} layout;

enum { LAYOUT_ARRAYS = 3 };

/** Elements that each of the LAYOUT_ARRAYS arrays needs for n elements in any layout. */
int64_t layout_room(int64_t n);
/** All n elements as one region. */
pl_region layout_whole(pl_arena *arena, layout kind, int64_t n);
/** The whole, cut into blocks. */
pl_blocks layout_blocks(pl_arena *arena, layout kind, int64_t n, int n_ranks);
/** The first elements of `whole` cut into regions of the given sizes, in order. */
pl_blocks layout_cut(pl_arena *arena, pl_region whole, const int64_t *sizes, int n_regions);

#endif
