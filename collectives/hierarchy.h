/* hierarchy -- H hosts of L ranks each: what hierarchical algorithms are made of.
 *
 * Inside a host ranks read each other's memory; across hosts local rank l exchanges messages with
 * the ranks at the same place of the other hosts, its lane. So all ranks drive the link at once,
 * and no byte crosses it twice. With one rank a host the lanes are everything and nothing is
 * shared. All are local. */
#ifndef PURLIN_COLLECTIVES_HIERARCHY_H
#define PURLIN_COLLECTIVES_HIERARCHY_H

#include "collectives/schedule.h"
#include "collectives/site.h"

typedef struct {
    int n_hosts, n_locals; /* H, L */
    int host, local;       /* this rank's */
    const int *ranks;      /* [H][L] */
    const int *mates;      /* [L] those of this host */
} pl_hierarchy;

/** Memory lives as long as the schedule. */
pl_hierarchy pl_hierarchy_of(pl_schedule *s, const pl_site *site, int rank);

/** The rank at place `local` i hosts further on, -H <= i <= H; negative: back. */
static inline int pl_hierarchy_at(const pl_hierarchy *k, int i, int local)
{
    return k->ranks[(k->host + i + k->n_hosts) % k->n_hosts * k->n_locals + local];
}

/** Signal to this host's ranks, and begin a new round; returns the stage. */
int pl_hierarchy_signal(pl_schedule *s, const pl_hierarchy *k);
/** Await that stage of the other ranks of this host, in the open round. */
void pl_hierarchy_await(pl_schedule *s, const pl_hierarchy *k, int stage);

/** AllGather of blocks x; `own` is where this rank's block lies and own_of where those of all ranks
 * of the host do. The last signal, with which the last round was closed, said that `own` is ready.
 * H rounds: a lane's messages go to the next host, then to the one after it, ..., while the ranks
 * of the host read from each other what came the round before. Ends when nobody reads this rank's
 * memory any more. A rank sends (H-1) times its own block and reads all those of other lanes. */
void pl_hierarchy_gather(pl_schedule *s, const pl_hierarchy *k, pl_blocks x, pl_region own,
                         pl_blocks own_of);

/** ReduceScatter: `own` <- this rank's block of the sum over all ranks of `terms`. Sums of one host
 * for its lane's other blocks are left in x, which may be `terms`. H+1 rounds: a rank reads the L
 * terms of the lane's blocks one after another, that of its own host last, while the messages with
 * those before fly; the last round, left open, adds what has come. A block adds the sums of hosts
 * h, h-1, h-2, ... (mod H), its own first, each the sum of its local ranks 0, 1, ..., L-1. A rank
 * sends (H-1) blocks of its lane. `publishes`: peers will read `own`. The next signal says that
 * this rank has read what it needs. */
void pl_hierarchy_reduce(pl_schedule *s, const pl_hierarchy *k, pl_blocks x, pl_blocks terms,
                         pl_region own, bool publishes, pl_reduction reduction);

#endif
