/* scatter_ring_broadcast -- root's data to everyone with few bytes.
 * Idea:   scatter the blocks down a binomial tree from the root, then pass them round the ring.
 *         The root has them all: it only sends, and its left neighbour only receives.
 * Cost:   ceil(log2 P) + P-1 rounds; the root sends 2n(P-1)/P elements when even, no rank more;
 *         the others receive less than that, some blocks twice.
 * Source: Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, SHPCC 1994; Thakur, Rabenseifner &
 *         Gropp, IJHPCA 19(1), 2005. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

/* Root's data cut as the blocks are; elsewhere the blocks. */
static pl_blocks cut_data(pl_schedule *s, const pl_collective_call *call, int rank)
{
    const pl_blocks x = call->blocks;
    pl_region *of = pl_arena_alloc(pl_schedule_arena(s), (size_t)x.n_ranks * sizeof *of);
    int64_t begin = 0;

    if (rank != call->root || call->own.n_pieces == 0)
        return x;
    for (int b = 0; b < x.n_ranks; b++) {
        const int64_t n = pl_region_elements(pl_blocks_at(x, b));

        of[b] = pl_region_part(s, call->own, begin, n);
        begin += n;
    }
    return (pl_blocks){.n_ranks = x.n_ranks, .of = of};
}

/* A rank whose place counted from the root has `low` for lowest bit gets the blocks of the next
 * `low` ranks, its own first, and hands on the upper half, and half of the rest, .... */
static void scatter(pl_schedule *s, pl_blocks x, int place, int rank)
{
    const int P = x.n_ranks;
    pl_arena *arena = pl_schedule_arena(s);
    int d = 1;

    while (d < P && (place & d) == 0)
        d *= 2;
    if (place > 0) {
        pl_schedule_recv(s, (rank + P - d) % P,
                         pl_blocks_join(arena, x, rank, d < P - place ? d : P - place));
        pl_schedule_next_round(s);
    }
    for (d /= 2; d > 0; d /= 2) {
        const int left = P - place - d; /* ranks from the receiver on */

        if (left > 0)
            pl_schedule_send(s, (rank + d) % P,
                             pl_blocks_join(arena, x, (rank + d) % P, d < left ? d : left));
        pl_schedule_next_round(s);
    }
}

void pl_scatter_ring_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                               int rank)
{
    const pl_blocks x = cut_data(s, call, rank);
    const int P = x.n_ranks, place = (rank + P - call->root) % P;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);

    (void)site;
    pl_schedule_move(s, all, pl_call_data(call, all, rank));
    scatter(s, x, place, rank);
    for (int round = 0; round < P - 1; round++) {
        if (place < P - 1)
            pl_schedule_send(s, (rank + 1) % P, pl_blocks_at(x, (rank + P - round) % P));
        if (place > 0)
            pl_schedule_recv(s, (rank + P - 1) % P, pl_blocks_at(x, (rank + P - round - 1) % P));
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
