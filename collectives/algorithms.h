/* algorithms -- every collective algorithm, one file each; all write one rank's schedule.
 *
 * Any number of ranks and any sizes, unless a file's head says otherwise. Costs are per rank, n the
 * elements of all blocks, P the ranks. All are local. */
#ifndef PURLIN_COLLECTIVES_ALGORITHMS_H
#define PURLIN_COLLECTIVES_ALGORITHMS_H

#include "collectives/collective.h"
#include "collectives/site.h"

typedef void pl_algorithm_write(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                                int rank);

/* What a site must offer. */
typedef enum {
    PL_NEEDS_NOTHING,
    PL_NEEDS_ONE_HOST, /* all ranks on one host, sharing memory */
    PL_NEEDS_HOSTS,    /* two hosts or more, equally many ranks on each, sharing memory inside */
    PL_NEEDS_AXES,     /* two axes or more */
} pl_algorithm_needs;

typedef struct {
    pl_collective collective;
    const char *name; /* "ring", unique for its collective */
    pl_algorithm_needs needs;
    int64_t most_bytes; /* of all blocks together; 0: any */
    int most_ranks;     /* 0: any */
    pl_algorithm_write *write;
} pl_algorithm;

/** All algorithms, by collective; of a collective, the first applies everywhere. */
extern const pl_algorithm pl_algorithms[];
extern const int pl_n_algorithms;

/** Whether `a` can do this call there. */
bool pl_algorithm_applies(const pl_algorithm *a, const pl_collective_call *call,
                          const pl_site *site);
/** The algorithm of that name; NULL if there is none. */
const pl_algorithm *pl_algorithm_find(pl_collective collective, const char *name);

/* By messages. */
pl_algorithm_write pl_ring_all_gather, pl_bidirectional_ring_all_gather, pl_direct_all_gather;
pl_algorithm_write pl_bruck_all_gather, pl_recursive_doubling_all_gather, pl_pat_all_gather;
pl_algorithm_write pl_ring_reduce_scatter, pl_bidirectional_ring_reduce_scatter;
pl_algorithm_write pl_pipelined_ring_reduce_scatter, pl_direct_reduce_scatter;
pl_algorithm_write pl_recursive_halving_reduce_scatter, pl_pat_reduce_scatter;
pl_algorithm_write pl_ring_all_reduce, pl_bidirectional_ring_all_reduce;
pl_algorithm_write pl_pipelined_ring_all_reduce, pl_direct_all_reduce;
pl_algorithm_write pl_recursive_doubling_all_reduce, pl_rabenseifner_all_reduce, pl_pat_all_reduce;
pl_algorithm_write pl_pairwise_all_to_all, pl_direct_all_to_all, pl_bruck_all_to_all;
pl_algorithm_write pl_permute;
pl_algorithm_write pl_binomial_broadcast, pl_direct_broadcast, pl_scatter_ring_broadcast;
pl_algorithm_write pl_pipelined_chain_broadcast;

/* In shared memory. */
pl_algorithm_write pl_shared_all_gather, pl_staged_all_gather;
pl_algorithm_write pl_shared_reduce_scatter, pl_staged_reduce_scatter;
pl_algorithm_write pl_shared_all_reduce, pl_pulled_all_reduce, pl_staged_all_reduce;
pl_algorithm_write pl_shared_all_to_all, pl_staged_all_to_all;
pl_algorithm_write pl_shared_permute, pl_staged_permute;
pl_algorithm_write pl_shared_broadcast, pl_staged_broadcast;

/* Over hosts and axes. */
pl_algorithm_write pl_hierarchical_all_gather, pl_multi_axis_all_gather;
pl_algorithm_write pl_hierarchical_reduce_scatter, pl_multi_axis_reduce_scatter;
pl_algorithm_write pl_hierarchical_all_reduce, pl_multi_axis_all_reduce;
pl_algorithm_write pl_hierarchical_all_to_all;
pl_algorithm_write pl_hierarchical_broadcast;

#endif
