/* collective -- the collectives by name, and which algorithm each uses.
 *
 * All are written on the blocks of the whole array (regions in one or more arrays):
 *
 *   AllGather      each rank holds its block; afterwards every rank holds all blocks
 *   ReduceScatter  each rank holds a term of every block; afterwards rank r has the sum of block r
 *   AllReduce      afterwards every block holds the sum (or maximum) on every rank
 *   AllToAll       rank r's `from` block p goes to rank p's `to` block r
 *   Permute        the region `send` goes to rank to_rank; `recv` is filled by from_rank (either may
 *                  be absent: -1)
 *   Broadcast      root's blocks to everyone
 *
 * In place or not: AllGather and Broadcast read `own` where it is given, ReduceScatter writes its
 * sum there; AllReduce reads `from` where it is given and leaves it alone. ReduceScatter by messages
 * leaves partial sums (garbage) in the other blocks.
 *
 * Sums on all ranks have the same bits, and the same from run to run. */
#ifndef PURLIN_COLLECTIVES_COLLECTIVE_H
#define PURLIN_COLLECTIVES_COLLECTIVE_H

#include "collectives/schedule.h"
#include "collectives/site.h"
#include "src/base/dtype.h"
#include "src/base/status.h"
#include "src/machine/machine.h"

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
/** "all_gather", as options and files write it. */
const char *pl_collective_key(pl_collective c);
/** By its key or its name; PL_N_COLLECTIVES if it is neither. */
pl_collective pl_collective_find(const char *text);

typedef struct {
    pl_collective collective;
    pl_dtype dtype;
    pl_reduction reduction; /* ReduceScatter, AllReduce */
    pl_blocks blocks;       /* all but AllToAll and Permute */
    pl_region own;          /* AllGather: where this rank's block lies before the call; Broadcast:
                             * where root's data lie; ReduceScatter: where the sum is wanted. No
                             * pieces: in its place in `blocks` */
    pl_blocks from, to;     /* AllToAll; AllReduce: `from`, n_ranks 0 for in place */
    pl_region send, recv;   /* Permute */
    int to_rank, from_rank; /* Permute; -1 for none */
    int root;               /* Broadcast */
    /* What shared memory needs to know of the peers' arrays (their array numbers); whether it is
     * known must be equal on all ranks. AllToAll and Permute go by messages where it isn't. */
    bool knows_peers;
    pl_blocks there; /* AllGather, Broadcast: where rank p's (the root's) `own` lies, if apart;
                      * AllToAll: rank p's `from` block for this rank */
    pl_region peer_send; /* Permute: `send` of from_rank */
    int64_t largest;     /* AllToAll: elements of the largest block of any rank; 0: not known */
} pl_collective_call;

/** Elements of all blocks that the call is about: of the whole array; AllToAll: of `from`, were all
 * blocks as large as `largest` (where that is given); Permute: the larger of both regions. */
int64_t pl_collective_elements(const pl_collective_call *call);

/* What a choice is made by; equal on all ranks. */
typedef struct {
    const pl_machine *machine; /* NULL: no prices, the first algorithm that applies */
    const char *algo;          /* "all_gather=ring,all_reduce=shared": overrides; NULL or "": none */
} pl_chooser;

/* Where programs look for `algo` when no option gives it, and how long it may be. */
#define PL_ALGO_VARIABLE "PURLIN_ALGO"
enum { PL_ALGO_TEXT = 512 };

/** Refuses an override list with an unknown collective or algorithm, listing those known. */
pl_status pl_chooser_check(const char *algo);

/** Write this rank's schedule with the algorithm that the override names (where it applies) or else
 * with the one of the lowest predicted time. All ranks choose alike (collectives/choose.c).
 * *algorithm receives its name ("ring", "recursive doubling", ...) unless
 * NULL. Local. */
pl_schedule *pl_collective_schedule(const pl_collective_call *call, const pl_chooser *chooser,
                                    const pl_site *site, int rank, const char **algorithm);

#endif
