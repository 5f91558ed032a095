/* collective -- the collectives by name, and which algorithm each uses.
 *
 * All are written on the blocks of the whole array (regions in one or more arrays, base f32):
 *
 *   AllGather      each rank holds its block; afterwards every rank holds all blocks
 *   ReduceScatter  each rank holds a term of every block; afterwards rank r's block r holds the
 * sum, in place (its other blocks hold partial sums: garbage) AllReduce      afterwards every block
 * holds the sum (or maximum) on every rank, in place AllToAll       rank r's `from` block p goes to
 * rank p's `to` block r Permute        the region `from` goes to rank to_rank; `to` is filled by
 * from_rank (either may be absent: -1) Broadcast      root's blocks to everyone
 *
 * Sums on all ranks have the same bits, and the same from run to run. */
#ifndef PURLIN_COLLECTIVES_COLLECTIVE_H
#define PURLIN_COLLECTIVES_COLLECTIVE_H

#include "collectives/schedule.h"

typedef enum {
    PL_ALL_GATHER,
    PL_REDUCE_SCATTER,
    PL_ALL_REDUCE,
    PL_ALL_TO_ALL,
    PL_PERMUTE,
    PL_BROADCAST,
    PL_N_COLLECTIVES,
} pl_collective;

/** "AllGather", as the book writes it. */
const char *pl_collective_name(pl_collective c);

typedef struct {
    pl_collective collective;
    pl_reduction reduction; /* ReduceScatter, AllReduce */
    pl_blocks blocks;       /* all but AllToAll and Permute */
    pl_region own;          /* AllGather: where this rank's block lies before the call; empty
                             * (n_pieces 0) when it is already in its place in `blocks` */
    pl_blocks from, to;     /* AllToAll */
    pl_region send, recv;   /* Permute */
    int to_rank, from_rank; /* Permute; -1 for none */
    int root;               /* Broadcast */
} pl_collective_call;

/** Write this rank's schedule with the algorithm chosen by size (documented in choose.c; the choice
 * must be equal on all ranks, so it may depend only on what they all know: sizes of all blocks).
 * *algorithm receives its name ("ring", "recursive doubling", ...). Local. */
pl_schedule *pl_collective_schedule(const pl_collective_call *call, int n_ranks, int rank,
                                    const char **algorithm);

#endif
