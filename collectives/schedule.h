/* schedule -- a collective as data: rounds of send, receive, copy and reduce for one rank.
 *
 * An algorithm is a function that writes a schedule and never touches MPI (one file each, headed by
 * idea, order of summation, cost, source). One engine (collectives/engine.h) runs any schedule, one
 * function (collectives/cost.h) counts and prices it, and a checker can run it symbolically.
 *
 * Arrays. A schedule names arrays by index; whoever runs it supplies the pointers. Array
 * PL_SCRATCH is scratch memory of schedule->scratch_elements elements, also supplied.
 *
 * Regions. What a step touches is a list of pieces, each of `count` runs of `length` elements,
 * `stride` elements apart, at `offset` in array `array`. A block of a multi-array collective is one
 * region with a piece per array, so a layer's weights travel as one collective.
 *
 * Rounds. In a round, copies happen first, then all sends and receives are in flight together;
 * when all have completed, the reductions of what was received are done, in the order written, and
 * the next round begins. Within a round no step may write what another step of it reads or writes,
 * except that a reduction, coming last, may write what the round has sent, or reduced before (a
 * send's source may be overwritten from the next round on).
 *
 * Messages. A step's region is one message, whatever its pieces (cut only where it would exceed
 * MPI's int); messages between two ranks match in the order written. */
#ifndef PURLIN_COLLECTIVES_SCHEDULE_H
#define PURLIN_COLLECTIVES_SCHEDULE_H

#include "src/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_SCRATCH = -1 };

typedef struct {
    int array;
    int64_t offset, count, stride, length; /* in elements */
} pl_piece;

typedef struct {
    int n_pieces;
    const pl_piece *pieces;
} pl_region;

typedef enum { PL_SUM, PL_MAX } pl_reduction;

typedef enum {
    PL_STEP_COPY,        /* region <- source, local */
    PL_STEP_SEND,        /* region -> peer */
    PL_STEP_RECV,        /* region <- peer */
    PL_STEP_RECV_REDUCE, /* region <- region (+ or max) what peer sent, by way of scratch */
} pl_step_kind;

typedef struct {
    pl_step_kind kind;
    int peer;         /* rank in the group; unused by copies */
    pl_region region; /* what is written, or sent */
    pl_region source; /* copies: what is read; receives to reduce: where in scratch it lands */
    pl_reduction reduction; /* receives to reduce */
} pl_step;

typedef struct pl_schedule pl_schedule;

/** An empty schedule. Local, as is everything here. */
pl_schedule *pl_schedule_create(void);
void pl_schedule_destroy(pl_schedule *s);

/* Writing (used by algorithms). Regions are copied into the schedule. Empty regions add nothing. */
void pl_schedule_copy(pl_schedule *s, pl_region to, pl_region from);
void pl_schedule_send(pl_schedule *s, int to, pl_region from);
void pl_schedule_recv(pl_schedule *s, int from, pl_region to);
void pl_schedule_recv_reduce(pl_schedule *s, int from, pl_region to, pl_reduction reduction);
static inline void pl_schedule_recv_add(pl_schedule *s, int from, pl_region to)
{
    pl_schedule_recv_reduce(s, from, to, PL_SUM);
}
void pl_schedule_next_round(pl_schedule *s); /* a round with no steps is dropped */

/* Reading. */
int pl_schedule_n_rounds(const pl_schedule *s);
/** Steps of round r; *n_steps is how many. */
const pl_step *pl_schedule_round(const pl_schedule *s, int r, int *n_steps);
/** Scratch that a run needs: the most that one round receives to reduce. */
int64_t pl_schedule_scratch_elements(const pl_schedule *s);

/** Memory that lives as long as the schedule. */
pl_arena *pl_schedule_arena(pl_schedule *s);

int64_t pl_region_elements(pl_region region);

/* The blocks of a collective: block b belongs to rank b; a region each. */
typedef struct {
    int n_ranks;
    const pl_region *of; /* [n_ranks] */
} pl_blocks;

/** Block b. */
static inline pl_region pl_blocks_at(pl_blocks x, int b)
{
    return x.of[b];
}

#endif
