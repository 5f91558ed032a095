/* choose -- which algorithm a collective uses.
 *
 *   AllGather, ReduceScatter   direct (one round) up to a size, then ring
 *   AllReduce                  recursive doubling while tiny, direct (two rounds), then ring
 *   AllToAll                   pairwise        Permute   direct        Broadcast   binomial
 *
 * The choice looks at the number of ranks and the elements of all blocks, which all ranks know, so
 * that all choose alike. The limits are where the measured times of 8 ranks on 2 cores cross (ring
 * pays a switch of ranks per round, direct pays in scratch that leaves the caches); with many ranks
 * one round of P-1 messages would swamp the receivers, so ring and doubling take over. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "src/base/panic.h"

/* Elements of the whole array up to which an algorithm is used. */
enum {
    DIRECT_GATHER = 1 << 20,
    DIRECT_REDUCE = 1 << 18,
    DOUBLING_REDUCE = 1 << 8,       /* while direct could be used */
    DOUBLING_REDUCE_MANY = 1 << 14, /* with too many ranks for direct */
    DIRECT_RANKS = 32,              /* direct: at most so many */
};

const char *pl_collective_name(pl_collective c)
{
    static const char *const names[PL_N_COLLECTIVES] = {
        [PL_ALL_GATHER] = "AllGather", [PL_REDUCE_SCATTER] = "ReduceScatter",
        [PL_ALL_REDUCE] = "AllReduce", [PL_ALL_TO_ALL] = "AllToAll",
        [PL_PERMUTE] = "Permute",      [PL_BROADCAST] = "Broadcast",
    };

    return names[c];
}

static int64_t elements_of(pl_blocks x)
{
    int64_t n = 0;

    for (int b = 0; b < x.n_ranks; b++)
        n += pl_region_elements(pl_blocks_at(x, b));
    return n;
}

static const char *write_all_gather(pl_schedule *s, const pl_collective_call *call, int rank)
{
    if (call->blocks.n_ranks <= DIRECT_RANKS && elements_of(call->blocks) <= DIRECT_GATHER) {
        pl_direct_all_gather(s, call->blocks, call->own, rank);
        return "direct";
    }
    pl_ring_all_gather(s, call->blocks, call->own, rank);
    return "ring";
}

static const char *write_reduce_scatter(pl_schedule *s, const pl_collective_call *call, int rank)
{
    if (call->blocks.n_ranks <= DIRECT_RANKS && elements_of(call->blocks) <= DIRECT_REDUCE) {
        pl_direct_reduce_scatter(s, call->blocks, call->reduction, rank);
        return "direct";
    }
    pl_ring_reduce_scatter(s, call->blocks, call->reduction, rank);
    return "ring";
}

static const char *write_all_reduce(pl_schedule *s, const pl_collective_call *call, int rank)
{
    const bool many = call->blocks.n_ranks > DIRECT_RANKS;
    const int64_t n = elements_of(call->blocks);

    if (n <= (many ? DOUBLING_REDUCE_MANY : DOUBLING_REDUCE)) {
        pl_recursive_doubling_all_reduce(s, call->blocks, call->reduction, rank);
        return "recursive doubling";
    }
    if (!many && n <= DIRECT_REDUCE) {
        pl_direct_all_reduce(s, call->blocks, call->reduction, rank);
        return "direct";
    }
    pl_ring_all_reduce(s, call->blocks, call->reduction, rank);
    return "ring";
}

static const char *write_schedule(pl_schedule *s, const pl_collective_call *call, int rank)
{
    switch (call->collective) {
    case PL_ALL_GATHER:
        return write_all_gather(s, call, rank);
    case PL_REDUCE_SCATTER:
        return write_reduce_scatter(s, call, rank);
    case PL_ALL_REDUCE:
        return write_all_reduce(s, call, rank);
    case PL_ALL_TO_ALL:
        pl_pairwise_all_to_all(s, call->from, call->to, rank);
        return "pairwise";
    case PL_PERMUTE:
        pl_permute(s, call->send, call->to_rank, call->recv, call->from_rank, rank);
        return "direct";
    case PL_BROADCAST:
        pl_binomial_broadcast(s, call->blocks, call->root, rank);
        return "binomial";
    case PL_N_COLLECTIVES:
        break;
    }
    PL_PANIC("no collective %d", (int)call->collective);
}

pl_schedule *pl_collective_schedule(const pl_collective_call *call, int n_ranks, int rank,
                                    const char **algorithm)
{
    const pl_collective c = call->collective;
    pl_schedule *s = pl_schedule_create();
    const char *name;

    PL_ASSERT(c == PL_PERMUTE ||
              (c == PL_ALL_TO_ALL ? call->from.n_ranks == n_ranks && call->to.n_ranks == n_ranks
                                  : call->blocks.n_ranks == n_ranks));
    name = write_schedule(s, call, rank);
    if (algorithm)
        *algorithm = name;
    return s;
}
