/* pipelined_chain_broadcast -- root's data to everyone, chunk after chunk along a chain.
 * Idea:   the root sends one chunk after another to the next rank, which passes on each while it
 *         receives the one after.
 * Cost:   K rounds for K chunks, and P-2 more until the last rank has them; n elements sent by all
 *         but the last.
 * Source: the pipelined chain of Worringen, IEEE LCN 2003. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

/* A chunk outlasts the start of its message many times; a schedule of more chunks costs more to
 * write than it gains. */
enum { CHUNK_ELEMENTS = 1 << 15, MOST_CHUNKS = 1 << 12 };

void pl_pipelined_chain_broadcast(pl_schedule *s, const pl_collective_call *call,
                                  const pl_site *site, int rank)
{
    const int P = call->blocks.n_ranks, place = (rank + P - call->root) % P;
    const int next = (rank + 1) % P, before = (rank + P - 1) % P;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    const pl_region data = pl_call_data(call, all, rank);
    const int64_t n = pl_chunk_count(pl_region_elements(all), CHUNK_ELEMENTS);
    const int K = n < MOST_CHUNKS ? (int)n : MOST_CHUNKS;

    (void)site;
    pl_schedule_move(s, all, data);
    for (int i = 0; i <= K; i++) {
        if (place > 0 && i < K)
            pl_schedule_recv(s, before, pl_region_share(s, all, K, i));
        if (place < P - 1 && i > 0)
            pl_schedule_send(s, next, pl_region_share(s, data, K, i - 1));
        pl_schedule_next_round(s);
    }
}
