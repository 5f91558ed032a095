#include "config.h"

#include "collectives/algorithms.h"

#include <string.h>

/* Messages to all at once swamp the receivers when there are many; a schedule of so many steps
 * costs more to write than to run. */
enum { FEW = 32 };
/* Staging is memory that every transfer keeps. */
enum { STAGED_BYTES = 1 << 17 };
/* Blocks that travel by way of other ranks take up to twice their size in scratch. */
enum { CARRIED_BYTES = 1 << 20 };

const pl_algorithm pl_algorithms[] = {
    {PL_ALL_GATHER, "ring", PL_NEEDS_NOTHING, 0, 0, pl_ring_all_gather},
    {PL_ALL_GATHER, "bidirectional-ring", PL_NEEDS_NOTHING, 0, 0, pl_bidirectional_ring_all_gather},
    {PL_ALL_GATHER, "direct", PL_NEEDS_NOTHING, 0, FEW, pl_direct_all_gather},
    {PL_ALL_GATHER, "bruck", PL_NEEDS_NOTHING, 0, 0, pl_bruck_all_gather},
    {PL_ALL_GATHER, "recursive-doubling", PL_NEEDS_NOTHING, 0, 0, pl_recursive_doubling_all_gather},
    {PL_ALL_GATHER, "pat", PL_NEEDS_NOTHING, 0, 0, pl_pat_all_gather},
    {PL_ALL_GATHER, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_all_gather},
    {PL_ALL_GATHER, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_all_gather},
    {PL_ALL_GATHER, "hierarchical", PL_NEEDS_HOSTS, 0, 0, pl_hierarchical_all_gather},
    {PL_ALL_GATHER, "multi-axis", PL_NEEDS_AXES, 0, 0, pl_multi_axis_all_gather},

    {PL_REDUCE_SCATTER, "ring", PL_NEEDS_NOTHING, 0, 0, pl_ring_reduce_scatter},
    {PL_REDUCE_SCATTER, "bidirectional-ring", PL_NEEDS_NOTHING, 0, 0,
     pl_bidirectional_ring_reduce_scatter},
    {PL_REDUCE_SCATTER, "pipelined-ring", PL_NEEDS_NOTHING, 0, 0, pl_pipelined_ring_reduce_scatter},
    {PL_REDUCE_SCATTER, "direct", PL_NEEDS_NOTHING, 0, FEW, pl_direct_reduce_scatter},
    {PL_REDUCE_SCATTER, "recursive-halving", PL_NEEDS_NOTHING, 0, 0,
     pl_recursive_halving_reduce_scatter},
    {PL_REDUCE_SCATTER, "pat", PL_NEEDS_NOTHING, 0, 0, pl_pat_reduce_scatter},
    {PL_REDUCE_SCATTER, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_reduce_scatter},
    {PL_REDUCE_SCATTER, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_reduce_scatter},
    {PL_REDUCE_SCATTER, "hierarchical", PL_NEEDS_HOSTS, 0, 0, pl_hierarchical_reduce_scatter},
    {PL_REDUCE_SCATTER, "multi-axis", PL_NEEDS_AXES, 0, 0, pl_multi_axis_reduce_scatter},

    {PL_ALL_REDUCE, "ring", PL_NEEDS_NOTHING, 0, 0, pl_ring_all_reduce},
    {PL_ALL_REDUCE, "bidirectional-ring", PL_NEEDS_NOTHING, 0, 0, pl_bidirectional_ring_all_reduce},
    {PL_ALL_REDUCE, "pipelined-ring", PL_NEEDS_NOTHING, 0, 0, pl_pipelined_ring_all_reduce},
    {PL_ALL_REDUCE, "direct", PL_NEEDS_NOTHING, 0, FEW, pl_direct_all_reduce},
    {PL_ALL_REDUCE, "recursive-doubling", PL_NEEDS_NOTHING, 0, 0, pl_recursive_doubling_all_reduce},
    {PL_ALL_REDUCE, "rabenseifner", PL_NEEDS_NOTHING, 0, 0, pl_rabenseifner_all_reduce},
    {PL_ALL_REDUCE, "pat", PL_NEEDS_NOTHING, 0, 0, pl_pat_all_reduce},
    {PL_ALL_REDUCE, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_all_reduce},
    {PL_ALL_REDUCE, "pulled", PL_NEEDS_ONE_HOST, 0, 0, pl_pulled_all_reduce},
    {PL_ALL_REDUCE, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_all_reduce},
    {PL_ALL_REDUCE, "hierarchical", PL_NEEDS_HOSTS, 0, 0, pl_hierarchical_all_reduce},
    {PL_ALL_REDUCE, "multi-axis", PL_NEEDS_AXES, 0, 0, pl_multi_axis_all_reduce},

    {PL_ALL_TO_ALL, "pairwise", PL_NEEDS_NOTHING, 0, 0, pl_pairwise_all_to_all},
    {PL_ALL_TO_ALL, "direct", PL_NEEDS_NOTHING, 0, FEW, pl_direct_all_to_all},
    {PL_ALL_TO_ALL, "bruck", PL_NEEDS_NOTHING, CARRIED_BYTES, 0, pl_bruck_all_to_all},
    {PL_ALL_TO_ALL, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_all_to_all},
    {PL_ALL_TO_ALL, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_all_to_all},
    {PL_ALL_TO_ALL, "hierarchical", PL_NEEDS_HOSTS, 0, 0, pl_hierarchical_all_to_all},

    {PL_PERMUTE, "message", PL_NEEDS_NOTHING, 0, 0, pl_permute},
    {PL_PERMUTE, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_permute},
    {PL_PERMUTE, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_permute},

    {PL_BROADCAST, "binomial", PL_NEEDS_NOTHING, 0, 0, pl_binomial_broadcast},
    {PL_BROADCAST, "direct", PL_NEEDS_NOTHING, 0, FEW, pl_direct_broadcast},
    {PL_BROADCAST, "scatter-ring", PL_NEEDS_NOTHING, 0, 0, pl_scatter_ring_broadcast},
    {PL_BROADCAST, "pipelined-chain", PL_NEEDS_NOTHING, 0, 0, pl_pipelined_chain_broadcast},
    {PL_BROADCAST, "shared", PL_NEEDS_ONE_HOST, 0, 0, pl_shared_broadcast},
    {PL_BROADCAST, "staged", PL_NEEDS_ONE_HOST, STAGED_BYTES, 0, pl_staged_broadcast},
    {PL_BROADCAST, "hierarchical", PL_NEEDS_HOSTS, 0, 0, pl_hierarchical_broadcast},
};
const int pl_n_algorithms = sizeof pl_algorithms / sizeof pl_algorithms[0];

static bool offers(const pl_site *site, pl_algorithm_needs needs)
{
    switch (needs) {
    case PL_NEEDS_NOTHING:
        return true;
    case PL_NEEDS_ONE_HOST:
        return site->shared && site->n_hosts == 1;
    case PL_NEEDS_HOSTS:
        return site->shared && site->n_hosts > 1 && pl_site_is_even(site);
    case PL_NEEDS_AXES:
        return site->n_axes > 1;
    }
    return false;
}

bool pl_algorithm_applies(const pl_algorithm *a, const pl_collective_call *call,
                          const pl_site *site)
{
    const int64_t bytes = pl_collective_elements(call) * (int64_t)pl_dtype_bytes(call->dtype);

    const bool is_all_to_all = call->collective == PL_ALL_TO_ALL;
    const bool asks_peers = is_all_to_all || call->collective == PL_PERMUTE;
    const bool needs_slots = is_all_to_all && a->most_bytes > 0; /* of one size */

    return a->collective == call->collective && offers(site, a->needs) &&
           (a->most_bytes == 0 || bytes <= a->most_bytes) &&
           (a->most_ranks == 0 || site->n_ranks <= a->most_ranks) &&
           (a->needs == PL_NEEDS_NOTHING || !asks_peers || call->knows_peers) &&
           (!needs_slots || call->largest > 0);
}

const pl_algorithm *pl_algorithm_find(pl_collective collective, const char *name)
{
    for (int i = 0; i < pl_n_algorithms; i++)
        if (pl_algorithms[i].collective == collective && strcmp(pl_algorithms[i].name, name) == 0)
            return &pl_algorithms[i];
    return NULL;
}
