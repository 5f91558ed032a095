/* schedule -- a collective as data: rounds of send, receive, copy, combine and signal for one rank.
 *
 * An algorithm is a function that writes a schedule and never touches MPI (one file each, headed by
 * idea, order of summation, cost, source). One engine (collectives/engine.h) runs any schedule, one
 * function (collectives/cost.h) counts and prices it, and a checker can run it symbolically.
 *
 * Arrays. A schedule names arrays by index; whoever runs it supplies the pointers. Two more are
 * supplied by the engine: PL_SCRATCH, private to this rank, and PL_STAGING, in shared memory, where
 * peers on the host may read; staging is double: runs use its two halves in turn.
 *
 * Regions. What a step touches is a list of pieces, each of `count` runs of `length` elements,
 * `stride` elements apart, at `offset` in array `array`. A block of a multi-array collective is one
 * region with a piece per array, so a layer's weights travel as one collective.
 *
 * Rounds. A round
 *   1. waits until every peer that it awaits has signalled                          (await)
 *   2. does its copies, in the order written                                        (copy)
 *   3. puts all its sends and receives in flight                                    (send, recv)
 *   4. does its combinations, in the order written, while they fly                  (combine)
 *   5. waits for the messages, then reduces what was received to be reduced, in order
 *   6. signals, if it is told to                                                    (signal)
 * and the next round begins. Within a round no step may write what another step of it reads or
 * writes, except that copies may feed what follows them, and that a reduction, coming last, may
 * write what the round has sent, or reduced before.
 *
 * Shared memory. Ranks of one host reach each other's arrays where they lie. A rank's signals are
 * numbered from 1 in every run (its stages); the end of a run is stage PL_STAGE_END. Whatever a
 * rank wrote before a signal is seen by a peer that awaited it. A rank that reads or writes a
 * peer's memory must await that peer somewhere before, and the peer must learn when it is done:
 * by awaiting a later signal of this run or, for staging, the end of the run before last (lag 2).
 *
 * Messages. A step's region is one message, whatever its pieces (cut only where it would exceed
 * MPI's int, and between hosts); messages between two ranks match in the order written. */
#ifndef PURLIN_COLLECTIVES_SCHEDULE_H
#define PURLIN_COLLECTIVES_SCHEDULE_H

#include "src/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_SCRATCH = -1, PL_STAGING = -2 };

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
    PL_STEP_AWAIT,       /* until peer has signalled `stage` of the run `lag` before this one */
    PL_STEP_COMBINE,     /* every `to` <- the reduction of all `from`, in the order listed */
    PL_STEP_SIGNAL,      /* this rank's next stage */
} pl_step_kind;

enum { PL_SELF = -1, PL_STAGE_END = 65535 };

/* A region of this rank's memory (PL_SELF), or of a peer's: with the peer's array numbers. */
typedef struct {
    int rank;
    pl_region region;
} pl_place;

typedef struct {
    pl_step_kind kind;
    int peer;         /* rank in the group; messages and awaits */
    pl_region region; /* what is written, or sent */
    pl_region source; /* copies: what is read; receives to reduce: where in scratch it lands */
    pl_reduction reduction; /* receives to reduce, combinations */
    int n_to, n_from;       /* combinations */
    const pl_place *to, *from;
    int stage, lag;    /* awaits; signals: stage */
    bool is_published; /* copies, combinations: peers will read what is written */
    bool has_news;     /* this rank has written and then signalled in rounds before, as have its
                        * peers: what lies in their memory is new */
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
void pl_schedule_await(pl_schedule *s, int peer, int stage, int lag);
/** All places have equally many elements; a `to` may be one of the `from`, else they are apart.
 * With one `from` it is a copy. */
void pl_schedule_combine(pl_schedule *s, pl_reduction reduction, const pl_place *to, int n_to,
                         const pl_place *from, int n_from);
/** Copy a peer's region (its array numbers) to this rank's. */
void pl_schedule_read(pl_schedule *s, pl_region to, int peer, pl_region from);
/** Say of the copies and combinations written next (or no longer) that peers of the host will read
 * what they write: it then goes past the caches, since lines that a peer's cache holds are slow to
 * write to. Staging and peers' memory need not be told. */
void pl_schedule_publish(pl_schedule *s, bool on);
/** Signal at the end of the open round; returns the stage's number. */
int pl_schedule_signal(pl_schedule *s);
/** Signals written so far: the stage that this rank will have reached. */
int pl_schedule_stage(const pl_schedule *s);
void pl_schedule_next_round(pl_schedule *s); /* a round with no steps is dropped */

/** n elements of scratch, the algorithm's own for the whole run. */
pl_region pl_schedule_scratch(pl_schedule *s, int64_t n);
/** n elements of staging; all ranks that share must ask for the same in the same order. */
pl_region pl_schedule_staging(pl_schedule *s, int64_t n);

/** Say what the schedule does, for checks between ranks: a number for the operation and the
 * elements that all ranks know it to be about (0: unknown). */
void pl_schedule_describe(pl_schedule *s, int operation, int64_t elements);
int pl_schedule_operation(const pl_schedule *s);
int64_t pl_schedule_whole_elements(const pl_schedule *s);

/** Say on which host each rank is, host[n_ranks] (copied): messages to and from ranks of other
 * hosts than `rank`'s own travel in parts (collectives/message.h). Until then all are on one. */
void pl_schedule_set_hosts(pl_schedule *s, const int *host, int n_ranks, int rank);
bool pl_schedule_leaves_host(const pl_schedule *s, int peer);

/** From now on peers are named by their index in members[] (kept, not copied), so that an algorithm
 * can be used on some ranks of the group; NULL: by their rank again. */
void pl_schedule_among(pl_schedule *s, const int *members);

/* Reading. */
int pl_schedule_n_rounds(const pl_schedule *s);
/** Steps of round r; *n_steps is how many. */
const pl_step *pl_schedule_round(const pl_schedule *s, int r, int *n_steps);
/** Private scratch that a run needs. */
int64_t pl_schedule_scratch_elements(const pl_schedule *s);
/** Shared staging that a run needs (one half). */
int64_t pl_schedule_staging_elements(const pl_schedule *s);
/** Whether it reads or writes peers' memory, or signals. */
bool pl_schedule_shares(const pl_schedule *s);

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
