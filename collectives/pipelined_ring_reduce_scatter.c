/* pipelined_ring_reduce_scatter -- a ring that adds while it transfers.
 * Idea:   as the ring, but blocks are cut into K chunks, which follow each other round the ring:
 *         what came in one round is added while the next chunk flies, and goes on K rounds after it
 *         came, which is why there are two chunks at least.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P).
 * Cost:   (P-1)K rounds and the last addition; n(P-1)/P elements sent and added when even; scratch
 *         for two chunks.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009; the overlap is the usual one of segmented rings. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"
#include "src/base/block.h"

/* A chunk outlasts the start of its message many times, and stays in a core's cache until it has
 * been added; a schedule of more rounds costs more to write than it gains. */
enum { CHUNK_ELEMENTS = 1 << 15, MOST_ROUNDS = 1 << 13 };

static int chunks_of(pl_blocks x)
{
    const int64_t n = pl_chunk_count(pl_blocks_largest(x), CHUNK_ELEMENTS);
    const int64_t most = MOST_ROUNDS / x.n_ranks, fits = n < most ? n : most;

    return fits < 2 ? 2 : (int)fits;
}

/* The chunk of a block that comes in as number i; block b, chunk c. */
typedef struct {
    int b, c;
} item;

static item item_at(int64_t i, int rank, int P, int K)
{
    return (item){.b = (int)((rank + 2 * P - 2 - i / K) % P), .c = (int)(i % K)};
}

void pl_pipelined_ring_reduce_scatter(pl_schedule *s, const pl_collective_call *call,
                                      const pl_site *site, int rank)
{
    const pl_blocks x = call->blocks, terms = pl_call_terms(call);
    const int P = x.n_ranks, K = chunks_of(x), right = (rank + 1) % P, left = (rank + P - 1) % P;
    const int64_t n_items = (int64_t)(P - 1) * K;
    pl_region landing[2] = {{0}}, landed = {0};

    (void)site;
    if (P == 1)
        pl_schedule_move(s, pl_call_own(call, rank), pl_blocks_at(terms, rank));
    for (int i = 0; i < 2 && P > 1; i++)
        landing[i] = pl_schedule_scratch(s, pl_block_largest(pl_blocks_largest(x), K));
    for (int64_t i = 0; i <= n_items; i++) {
        const item in = item_at(i, rank, P, K), before = item_at(i - 1, rank, P, K);
        const pl_region came = landed;

        if (i < n_items) {
            const pl_region out = pl_blocks_at(i < K ? terms : x, (in.b + 1) % P);
            const int64_t n = pl_block_count(pl_region_elements(pl_blocks_at(x, in.b)), K, in.c);

            landed = pl_region_first(s, landing[i % 2], n);
            pl_schedule_send(s, right, pl_region_share(s, out, K, in.c));
            pl_schedule_recv(s, left, landed);
        }
        if (i > 0) {
            const pl_region block =
                before.b == rank ? pl_call_own(call, rank) : pl_blocks_at(x, before.b);
            const pl_region term = pl_blocks_at(terms, before.b);
            const pl_place to = {PL_SELF, pl_region_share(s, block, K, before.c)};
            const pl_place of[] = {{PL_SELF, pl_region_share(s, term, K, before.c)},
                                   {PL_SELF, came}};

            pl_schedule_combine(s, call->reduction, &to, 1, of, 2);
        }
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
