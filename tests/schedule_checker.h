/* schedule_checker -- runs the schedules of all ranks without MPI, on symbols instead of numbers.
 *
 * An element holds an identity (which element of the whole array it is) and the set of ranks whose
 * terms it sums. Moving carries both; reducing needs equal identities and disjoint terms. Messages
 * are synchronous: a send completes only when its receive is posted, so that a schedule which needs
 * buffering inside MPI is found to deadlock. */
#ifndef PURLIN_TESTS_SCHEDULE_CHECKER_H
#define PURLIN_TESTS_SCHEDULE_CHECKER_H

#include "collectives/schedule.h"

enum { SC_MAX_RANKS = 64, SC_NOTHING = -1 };

typedef struct {
    int64_t id;     /* SC_NOTHING: nothing was ever put here */
    uint64_t terms; /* bit r: rank r's term is in the sum */
    uint64_t tree;  /* hash of the tree of additions; operands of one may be swapped */
} sc_symbol;

typedef struct {
    int n_ranks, n_arrays;
    int64_t n_elements; /* of every array on every rank */
    sc_symbol *cells;   /* [n_ranks][n_arrays][n_elements] */
} sc_world;

/** All cells hold nothing. */
void sc_world_init(sc_world *w, int n_ranks, int n_arrays, int64_t n_elements);
void sc_world_free(sc_world *w);
sc_symbol *sc_cell(const sc_world *w, int rank, int array, int64_t offset);

/** Cell k of a region, counted as its elements are. */
sc_symbol *sc_region_cell(const sc_world *w, int rank, pl_region region, int64_t k);
/** Put rank's own term of elements first_id, first_id + 1, ... in the region. */
void sc_region_fill(const sc_world *w, int rank, pl_region region, int64_t first_id);

/** Run them; NULL when all went well, otherwise what was wrong (static text, good until the next
 * call): deadlock, sizes that differ at the two ends of a message, messages left over, steps of one
 * round that disturb each other, a term summed twice or to another element, scratch overrun. */
const char *sc_run(sc_world *w, pl_schedule *const *schedules);

#endif
