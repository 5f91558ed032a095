/* flight -- when transfers of a replay are under way, and what they and kernels beside them cost
 * each other. All functions are local. */
#ifndef PURLIN_ROOFLINE_FLIGHT_H
#define PURLIN_ROOFLINE_FLIGHT_H

#include "src/roofline/replay.h"

/* When a transfer is under way. Infinite: it depends on a start that has not been replayed yet. */
typedef struct {
    double begin_s, end_s;
} pl_flight;

/** The op of `other` at the other end of communication i of r: the send or the receive of the same
 * move, or the same collective; PL_NONE: `other` has no part in it. */
int pl_op_there(const pl_simulation *sim, const pl_replay *r, int i, const pl_replay *other);

/** The replay of the rank that op, a move of r, sends to or receives from. */
const pl_replay *pl_peer_of(const pl_simulation *sim, const pl_replay *r, const pl_op *op);

/** Whether the op is a collective in which several stages take part. */
bool pl_is_collective_over_stages(const pl_program *p, const pl_op *op);

/** Whether the simulation is of one stage of a pipeline, without the others. */
bool pl_is_alone(const pl_simulation *sim);

/** Of communication i of r, if r does nothing but wait for it from now_s on. */
pl_flight pl_flight_awaited(const pl_simulation *sim, const pl_replay *r, int i);

/** r waits from now_s to end_s: what is in flight gets on meanwhile as if there were no kernels. */
void pl_note_idle(const pl_simulation *sim, pl_replay *r, double end_s);

/* When work is over, and what messages took of the core meanwhile in calls that make progress. */
typedef struct {
    double end_s, polled_s;
} pl_work;

/** A kernel that takes work_s by itself and begins at now_s: messages that fly meanwhile take their
 * share of the core. */
pl_work pl_work_beside(const pl_simulation *sim, const pl_replay *r, double now_s, double work_s);

#endif
