/* terms -- where the terms of a reduction lie and its sum goes; steps that all algorithms by
 * messages share.
 *
 * A ReduceScatter that is half of an AllReduce may have `from` too: its terms are read there, and
 * its partial sums kept in `blocks`. All are local. */
#ifndef PURLIN_COLLECTIVES_TERMS_H
#define PURLIN_COLLECTIVES_TERMS_H

#include "collectives/collective.h"

/** This rank's terms: `from` where it is given, else `blocks`. */
static inline pl_blocks pl_call_terms(const pl_collective_call *call)
{
    return call->from.n_ranks > 0 ? call->from : call->blocks;
}

/** `own` where it is given, else rank's block: what an AllGather sets out from, and where a
 * ReduceScatter ends. */
static inline pl_region pl_call_own(const pl_collective_call *call, int rank)
{
    return call->own.n_pieces > 0 ? call->own : pl_blocks_at(call->blocks, rank);
}

/** Broadcast: what root sends, `own` where it is given; elsewhere, and otherwise, `all`. */
static inline pl_region pl_call_data(const pl_collective_call *call, pl_region all, int rank)
{
    return rank == call->root && call->own.n_pieces > 0 ? call->own : all;
}

/** The call's ReduceScatter or AllGather, being an AllReduce's halves, both ending in `blocks`. */
pl_collective_call pl_call_reduce_scatter_half(const pl_collective_call *call);
pl_collective_call pl_call_all_gather_half(const pl_collective_call *call);

/** `to` <- `from`, this rank's, while the open round's messages fly; nothing if they are the same.
 */
void pl_schedule_move(pl_schedule *s, pl_region to, pl_region from);

/** `to` <- `term` (+ or max) what peer sends; `to` may be `term`. If it isn't, the message lands in
 * `to`, the round is closed, and the reduction is written to the next. */
void pl_schedule_recv_term(pl_schedule *s, int peer, pl_region to, pl_region term,
                           pl_reduction reduction);

#endif
