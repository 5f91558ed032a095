/* binomial_broadcast -- root's data to everyone.
 * Idea:   counted from the root, a rank receives from the one that differs in its highest bit and
 *         then sends to those that differ in one higher bit.
 * Cost:   ceil(log2 P) rounds of n elements; the root sends n ceil(log2 P), most ranks nothing.
 * Source: Chan, Heimlich, Purkayastha & van de Geijn, Concurrency and Computation 19(13), 2007. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_binomial_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                           int rank)
{
    const int P = call->blocks.n_ranks, place = (rank + P - call->root) % P;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    const pl_region data = pl_call_data(call, all, rank);

    (void)site;
    pl_schedule_move(s, all, data);
    for (int d = 1; d < P; d *= 2) {
        if (place < d && place + d < P)
            pl_schedule_send(s, (rank + d) % P, data);
        else if (place >= d && place < 2 * d)
            pl_schedule_recv(s, (rank + P - d) % P, all);
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
