/* pat_reduce_scatter -- a binomial tree a block, all at once: near and large first, far and small
 * last.
 * Idea:   pat_all_gather backwards. In the rounds of distance d = 1, 2, 4, ... a rank sends to
 *         the rank d below its sums of all blocks in whose trees that is its parent, and adds
 *         what comes from the rank d above. Scratch is bounded: a round's blocks travel in parts
 *         of at most PART_ELEMENTS, one received and added after another.
 * Order:  in the tree of block b rank b+m adds to its own term the sums of ranks b+m+1, b+m+2,
 *         b+m+4, ... (mod P) as far as they are its children: d below m's lowest bit, m+d < P.
 * Cost:   ceil(log2 P) rounds, more where parts are full; n(P-1)/P elements sent and added when
 *         even; scratch for a part.
 * Source: Jeaugey, arXiv 2506.20252, 2025 (parallel aggregated trees), all branches of a tree at
 *         once; parts bound scratch in another way than there. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"
#include "collectives/tree.h"

enum { PART_ELEMENTS = 1 << 20 };

/* Send `out` to the rank below, and receive as what is above's: to <- term (+ or max) that. */
static void exchange(pl_schedule *s, int below, pl_region out, int above, pl_region to,
                     pl_region term, pl_reduction reduction)
{
    const int64_t n_out = pl_region_elements(out), n_in = pl_region_elements(to);
    const int64_t n = n_out > n_in ? n_out : n_in;

    for (int64_t i = 0; i < pl_chunk_count(n, PART_ELEMENTS); i++) {
        const int64_t begin = i * PART_ELEMENTS;
        const int64_t left_out = n_out - begin, left_in = n_in - begin;

        if (left_out > 0)
            pl_schedule_send(
                s, below,
                pl_region_part(s, out, begin, left_out < PART_ELEMENTS ? left_out : PART_ELEMENTS));
        if (left_in > 0) {
            const int64_t n_part = left_in < PART_ELEMENTS ? left_in : PART_ELEMENTS;

            pl_schedule_recv_term(s, above, pl_region_part(s, to, begin, n_part),
                                  pl_region_part(s, term, begin, n_part), reduction);
        }
        pl_schedule_next_round(s);
    }
}

/* Where this rank's sums are after the first round: in `blocks`, but in the tree of the rank above
 * it is a leaf and has its own term only. */
static pl_blocks sums_of(pl_schedule *s, pl_blocks x, pl_blocks terms, int rank)
{
    const int P = x.n_ranks, above = (rank + 1) % P;
    pl_region *of = pl_arena_alloc(pl_schedule_arena(s), (size_t)P * sizeof *of);

    for (int b = 0; b < P; b++)
        of[b] = pl_blocks_at(b == above ? terms : x, b);
    return (pl_blocks){.n_ranks = P, .of = of};
}

void pl_pat_reduce_scatter(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                           int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks, top = pl_tree_top(P);
    const pl_blocks terms = pl_call_terms(call), sums = sums_of(s, x, terms, rank);

    (void)site;
    if (P == 1)
        pl_schedule_move(s, pl_call_own(call, rank), pl_blocks_at(terms, rank));
    for (int d = 1; d < P; d *= 2) {
        const int below = (rank + P - d) % P, above = (rank + d) % P;
        const pl_region to = d == top ? pl_call_own(call, rank) : pl_tree_blocks(s, x, rank, d);

        exchange(s, below, pl_tree_blocks(s, d == 1 ? terms : sums, below, d), above, to,
                 pl_tree_blocks(s, d == 1 ? terms : x, rank, d), call->reduction);
    }
    pl_schedule_next_round(s);
}
