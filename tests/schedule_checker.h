/* schedule_checker -- runs the schedules of all ranks without MPI, on symbols instead of numbers,
 * several times back to back.
 *
 * An element holds an identity (which element of the whole array it is) and the set of ranks whose
 * terms it sums. Moving carries both; reducing needs equal identities and disjoint terms. Messages
 * are synchronous: a send completes only when its receive is posted, so that a schedule which needs
 * buffering inside MPI is found to deadlock.
 *
 * Ranks run ahead of each other as far as their schedules let them. Every access is stamped with a
 * vector clock, which knows what must have happened before it: what this rank did earlier, what a
 * peer did before the signal that was awaited (that one, not a later one which may have been seen),
 * what a sender did before it posted the message received. Two accesses to one element that these
 * do not order, one of them a write, are a race, in whatever order they happened to be run here.
 * The caller takes part: between two runs it overwrites all arrays of its rank. */
#ifndef PURLIN_TESTS_SCHEDULE_CHECKER_H
#define PURLIN_TESTS_SCHEDULE_CHECKER_H

#include "collectives/schedule.h"
#include "collectives/site.h"

/* Three runs: the third meets the first in its half of staging. */
enum { SC_MAX_RANKS = 64, SC_NOTHING = -1, SC_RUNS = 3 };

typedef struct {
    int64_t id;     /* SC_NOTHING: nothing was ever put here */
    uint64_t terms; /* bit r: rank r's term is in the sum */
    uint64_t tree;  /* hash of the tree of additions and roundings; operands may be swapped */
} sc_symbol;

typedef struct {
    int n_ranks, n_arrays;
    int64_t n_elements;            /* of every array on every rank */
    pl_schedule *const *schedules; /* [n_ranks] */
    pl_reduction reduction;        /* what every reduction has to be; PL_SUM unless set */
    const pl_site *site;           /* who reaches whose memory; NULL (unless set): all reach all */
    int64_t grain;    /* elements of schedules to a cell: those of a cell stay together */
    int64_t stride;   /* cells of one rank: arrays, two halves of staging, scratch */
    sc_symbol *cells; /* [n_ranks][stride] */
} sc_world;

/* What the caller of each rank does: put the inputs of run 1, 2, ... into arrays that hold nothing;
 * count the elements that are not as that run should have left them (NULL: no matter). */
typedef struct {
    void (*fill)(const sc_world *w, int rank, int run, void *context);
    int64_t (*count_wrong)(const sc_world *w, int rank, int run, void *context);
    void *context;
} sc_callers;

/* Who goes on when several ranks can. */
typedef enum {
    SC_IN_TURN,    /* everyone by one round */
    SC_LOW_FIRST,  /* the lowest rank that can, as far as it can */
    SC_HIGH_FIRST, /* the highest */
    SC_N_ORDERS
} sc_order;

/** All cells hold nothing. The schedules (kept, not owned) are complete; where they are about long
 * arrays, `grain` of their elements can be one cell, which everything else here calls an element.
 */
void sc_world_init(sc_world *w, int n_ranks, int n_arrays, int64_t n_elements, int64_t grain,
                   pl_schedule *const *schedules);
void sc_world_free(sc_world *w);
sc_symbol *sc_cell(const sc_world *w, int rank, int array, int64_t offset);

/** Cell k of a region of the rank's arrays, counted as its elements are. */
sc_symbol *sc_region_cell(const sc_world *w, int rank, pl_region region, int64_t k);
/** Put rank's own term of elements first_id, first_id + 1, ... in the region. */
void sc_region_fill(const sc_world *w, int rank, pl_region region, int64_t first_id);

/** Run them SC_RUNS times; NULL when all went well, otherwise what was wrong (static text, good
 * until the next call), which holds one of these words:
 *   deadlock   nobody can go on
 *   race       accesses of two ranks that nothing orders
 *   twice      a term is summed twice
 *   adds       elements of different identities, or nothing, are summed
 *   operation  a sum where a maximum was asked for, or the other way round
 *   wrong      the caller finds other results than it should
 *   elements   different sizes at the ends of a message, or among the places of a combination
 *   left       a message is left over for the next run
 *   disturb    steps of one round, or places of one combination, that disturb each other
 *   outside    an access outside of memory: arrays, staging, scratch, a peer's scratch
 *   itself     a step that takes its own rank for a peer, or no rank at all
 *   reach      a peer's memory on another host, or where there is no shared memory
 *   partner    a rank awaits a peer or touches its memory, and not both await each other
 *   staging    partners with different amounts of it
 *   grain      a cut within a cell
 *   never      an await for a stage that the peer never signals
 *   unpublished  a peer reads what a copy or combination wrote that was not to be published */
const char *sc_run(sc_world *w, const sc_callers *callers, sc_order order);

#endif
