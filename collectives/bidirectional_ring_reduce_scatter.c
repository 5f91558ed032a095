/* bidirectional_ring_reduce_scatter -- round the ring both ways at once, half as many rounds.
 * Idea:   two sums of each block set out from opposite its owner and gain a term a round, one
 *         coming up to the owner from below, one down from above. When P is even, the term of the
 *         rank right opposite goes in halves, one each way.
 * Order:  with d = P/2 (rounded down), block b adds (b-d + b-d+1 + ... + b-1) and then (b+d +
 *         b+d-1 + ... + b+1) to rank b's term (mod P); when P is even, b-d is left out of the
 *         second half of the block, and b+d, the same rank, of the first.
 * Cost:   P/2 rounds (rounded down) of two messages; n(P-1)/P elements sent and added when even,
 *         half of them each way; scratch for two blocks.
 * Source: the book, section 3: its AllGather backwards. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

typedef struct {
    pl_schedule *s;
    pl_blocks x, terms;
    pl_region landing[2];
} both_ways;

/* What goes on of block b: its terms at first, and then the sums, which in the second round have
 * only come in for half the block when P is even. */
static pl_region outgoing(const both_ways *k, int b, int round, int way)
{
    const pl_region term = pl_blocks_at(k->terms, b), sum = pl_blocks_at(k->x, b);
    pl_region halves[2];

    if (k->x.n_ranks % 2 != 0 || round > 2)
        return round == 1 ? term : sum;
    if (round == 1)
        return pl_region_share(k->s, term, 2, way);
    halves[way] = pl_region_share(k->s, sum, 2, way);
    halves[1 - way] = pl_region_share(k->s, term, 2, 1 - way);
    return pl_region_join(pl_schedule_arena(k->s), halves, 2);
}

/* What came in of block b, where it landed; as many elements as in its place. */
static pl_region landed(const both_ways *k, pl_region place, int way)
{
    return pl_region_first(k->s, k->landing[way], pl_region_elements(place));
}

/* The block's place, or half of it where only that travels. */
static pl_region incoming(const both_ways *k, pl_region block, int round, int way)
{
    return k->x.n_ranks % 2 == 0 && round == 1 ? pl_region_share(k->s, block, 2, way) : block;
}

/* to <- term (+ or max) what landed on the ways first..last. */
static void add(const both_ways *k, pl_region to, pl_region term, int first, int last,
                pl_reduction reduction)
{
    const pl_place sum = {PL_SELF, to};
    pl_place of[3] = {{PL_SELF, term}};
    int n = 1;

    for (int way = first; way <= last; way++)
        of[n++] = (pl_place){PL_SELF, landed(k, to, way)};
    pl_schedule_combine(k->s, reduction, &sum, 1, of, n);
}

void pl_bidirectional_ring_reduce_scatter(pl_schedule *s, const pl_collective_call *call,
                                          const pl_site *site, int rank)
{
    const int P = call->blocks.n_ranks, n_rounds = P / 2;
    const pl_region own = pl_call_own(call, rank);
    both_ways k = {.s = s, .x = call->blocks, .terms = pl_call_terms(call)};

    (void)site;
    if (P == 1)
        pl_schedule_move(s, own, pl_blocks_at(k.terms, rank));
    for (int way = 0; way < 2 && P > 1; way++)
        k.landing[way] = pl_schedule_scratch(s, pl_blocks_largest(k.x));
    for (int round = 1; round <= n_rounds; round++) {
        int got[2];

        for (int way = 0; way < 2; way++) {
            const int step = way == 0 ? 1 : -1, left = n_rounds - round; /* rounds to go */
            const int b = (rank + step * (left + 1) + P) % P;

            got[way] = (rank + step * left + P) % P;
            pl_schedule_send(s, (rank + step + P) % P, outgoing(&k, b, round, way));
            pl_schedule_recv(
                s, (rank - step + P) % P,
                landed(&k, incoming(&k, pl_blocks_at(k.x, got[way]), round, way), way));
        }
        pl_schedule_next_round(s);
        if (round == n_rounds && P > 2) {
            add(&k, own, pl_blocks_at(k.terms, rank), 0, 1, call->reduction);
        } else {
            for (int way = 0; way < 2; way++) {
                const int b = got[way];
                const pl_region to = b == rank ? own : pl_blocks_at(k.x, b);

                add(&k, incoming(&k, to, round, way),
                    incoming(&k, pl_blocks_at(k.terms, b), round, way), way, way, call->reduction);
            }
        }
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
