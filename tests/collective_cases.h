/* collective_cases -- what tests of collectives go through: calls of every kind, with what each
 * rank puts in and should get out; the ways in which arrays lie in memory; the sites. */
#ifndef PURLIN_TESTS_COLLECTIVE_CASES_H
#define PURLIN_TESTS_COLLECTIVE_CASES_H

#include "collectives/collective.h"
#include "collectives/region.h"
#include "collectives/site.h"

typedef enum {
    LAYOUT_ONE,     /* one array, balanced blocks */
    LAYOUT_THREE,   /* blocks run on through three arrays */
    LAYOUT_STRIDED, /* runs of 3 elements 5 apart, a second array for the rest */
    LAYOUT_UNEVEN,  /* sizes in ratio 3 0 1 2 3 0 1 2 ..., strided as above */
    N_LAYOUTS,
} layout;

/* Two sets of arrays: what a call is about, and what lies apart from it. */
enum { LAYOUT_ARRAYS = 3, CASE_ARRAYS = 2 * LAYOUT_ARRAYS };

typedef enum {
    CASE_IN_PLACE,
    CASE_APART, /* AllGather's and Broadcast's data come from, ReduceScatter's sum goes to `own`;
                 * AllReduce's terms lie in `from` */
    CASE_KNOWN, /* the same, and where the peers' lie is known; AllToAll and Permute, which are
                 * always apart, know it or (in place) don't */
    N_PLACINGS,
} placing;

typedef struct {
    pl_collective collective;
    pl_dtype dtype;
    pl_reduction reduction;
    int n_ranks;
    int64_t n; /* elements: of all blocks; AllToAll: of a rank's blocks, about; Permute: sent */
    layout layout;
    placing placing;
    int variant; /* Broadcast: the root; Permute: who sends to whom; otherwise 0 */
} case_spec;

enum { CASE_ALL = -1 };

/* Elements first_id, first_id + 1, ... of the whole array, as a region holds them. */
typedef struct {
    pl_region region;
    int64_t first_id;
    int term; /* whose: a rank's, or CASE_ALL: reduced over all ranks */
} case_part;

/* The call of one rank; what it puts into its arrays before, and must find there after. What is
 * neither must be left alone; inputs that are not to be found again may be lost. */
typedef struct {
    pl_collective_call call;
    int n_inputs, n_outputs;
    case_part *inputs, *outputs;
} case_call;

/** Whether the collective can be placed so. */
bool case_has_placing(pl_collective collective, placing where);
/** How many variants there are: 0, 1, .... */
int case_variants(pl_collective collective, int n_ranks);
/** Elements that each of the CASE_ARRAYS arrays needs. */
int64_t case_room(const case_spec *spec);
/** What `rank` does. Memory is the arena's. */
case_call case_call_of(pl_arena *arena, const case_spec *spec, int rank);
/** The call with every element made `grain` elements. */
pl_collective_call case_scaled(pl_arena *arena, const pl_collective_call *call, int64_t grain);
/** "AllGather of 73 elements, layout 2, placing 1, variant 0 on 5 ranks"; good until the next. */
const char *case_name(const case_spec *spec);

/** Elements that each of the LAYOUT_ARRAYS arrays needs for n elements in any layout. */
int64_t layout_room(int64_t n);
/** All n elements as one region of arrays first_array and on, everything `shift` elements later. */
pl_region layout_whole(pl_arena *arena, layout kind, int64_t n, int first_array, int64_t shift);
/** The whole in arrays 0 and on, cut into blocks. */
pl_blocks layout_blocks(pl_arena *arena, layout kind, int64_t n, int n_ranks);
/** The first elements of `whole` cut into regions of the given sizes, in order. */
pl_blocks layout_cut(pl_arena *arena, pl_region whole, const int64_t *sizes, int n_regions);

typedef struct {
    char name[64];
    pl_site site;
} case_site;

enum { CASE_MAX_SITES = 48 };

/** Sites of n_ranks ranks: one host, with and without shared memory; several hosts, equally large
 * and not, with ranks in blocks and dealt in turn; several axes, on one and on several hosts. */
int case_sites(pl_arena *arena, int n_ranks, case_site sites[CASE_MAX_SITES]);

#endif
