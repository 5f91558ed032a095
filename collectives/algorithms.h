/* algorithms -- every collective algorithm, one file each; all write one rank's schedule.
 *
 * `x` are the blocks of the whole array; any number of ranks, any sizes, unless a file's head says
 * otherwise. Costs are per rank, n the elements of all blocks, P the ranks. All are local. */
#ifndef PURLIN_COLLECTIVES_ALGORITHMS_H
#define PURLIN_COLLECTIVES_ALGORITHMS_H

#include "collectives/schedule.h"

/* AllGather. `own` is where this rank's block lies; empty (no pieces): in its place in x. */
void pl_ring_all_gather(pl_schedule *s, pl_blocks x, pl_region own, int rank);
void pl_bruck_all_gather(pl_schedule *s, pl_blocks x, pl_region own, int rank);
void pl_direct_all_gather(pl_schedule *s, pl_blocks x, pl_region own, int rank);

/* ReduceScatter, in place: block `rank` ends as the sum (or maximum), the others as garbage. */
void pl_ring_reduce_scatter(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank);
void pl_direct_reduce_scatter(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank);

/* AllReduce, in place. */
void pl_ring_all_reduce(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank);
void pl_direct_all_reduce(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank);
void pl_recursive_doubling_all_reduce(pl_schedule *s, pl_blocks x, pl_reduction reduction,
                                      int rank);

/* AllToAll: block p of `from` goes to rank p's block `rank` of `to`; different memory. */
void pl_pairwise_all_to_all(pl_schedule *s, pl_blocks from, pl_blocks to, int rank);

/* Permute: `send` goes to to_rank, `recv` comes from from_rank; -1 for none. */
void pl_permute(pl_schedule *s, pl_region send, int to_rank, pl_region recv, int from_rank,
                int rank);

/* Broadcast of all blocks from `root`. */
void pl_binomial_broadcast(pl_schedule *s, pl_blocks x, int root, int rank);

#endif
