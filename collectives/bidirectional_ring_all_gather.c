/* bidirectional_ring_all_gather -- round the ring both ways at once, half as many rounds.
 * Idea:   blocks go the shorter way: every round passes on to the right what came from the left,
 *         and to the left what came from the right. When P is even, the block from opposite comes
 *         in halves, one each way.
 * Cost:   P/2 rounds (rounded down) of two messages; n(P-1)/P elements sent when even, half of
 *         them each way: T = V / W with W the rate of a link both ways.
 * Source: the book, section 3. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_bidirectional_ring_all_gather(pl_schedule *s, const pl_collective_call *call,
                                      const pl_site *site, int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks, n_rounds = P / 2;
    const pl_region own = pl_call_own(call, rank);

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int round = 1; round <= n_rounds; round++) {
        const bool in_halves = 2 * round == P;

        for (int way = 0; way < 2; way++) {
            const int step = way == 0 ? 1 : -1, to = (rank + step + P) % P;
            const int from = (rank - step + P) % P, got = (rank - step * round + P) % P;
            pl_region out = own, in = pl_blocks_at(x, got);

            if (round > 1)
                out = pl_blocks_at(x, (rank - step * (round - 1) + P) % P);
            if (in_halves) {
                out = pl_region_share(s, out, 2, way);
                in = pl_region_share(s, in, 2, way);
            }
            pl_schedule_send(s, to, out);
            pl_schedule_recv(s, from, in);
        }
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
