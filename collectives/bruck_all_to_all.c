/* bruck_all_to_all -- every rank has a block for every rank, in the fewest rounds.
 * Idea:   the block for the rank i above waits in slot i; in the rounds of distance d = 1, 2, 4,
 *         ... all slots whose number has that bit go to the rank d above, into the same slots
 *         there. After the last round slot i holds the block from the rank i below. A block of
 *         the largest size leaves from and arrives in its place; a smaller one is carried in a
 *         slot of the largest size, its rest meaningless, since the ranks between don't know its
 *         size.
 * Needs:  to know the largest block of any rank; otherwise it is pairwise_all_to_all.
 * Cost:   ceil(log2 P) rounds of about P/2 of the largest blocks; scratch for at most 2P of them.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

typedef struct {
    pl_region at, spare; /* where the slot's block is; free scratch as large, or nothing yet */
    pl_region to;        /* where it belongs in the end */
    int last;            /* the distance of its last journey */
} slot;

static slot slot_of(pl_schedule *s, pl_region from, pl_region to, int64_t size, int i)
{
    slot k = {.at = from, .to = to, .last = 1};

    while (2 * k.last <= i)
        k.last *= 2;
    if (pl_region_elements(from) < size) {
        k.at = pl_schedule_scratch(s, size);
        pl_schedule_copy(s, pl_region_first(s, k.at, pl_region_elements(from)), from);
    }
    return k;
}

/* The slot's block goes on its journey of distance d; returns whence. `at` is where the next one
 * lands. */
static pl_region leave(pl_schedule *s, slot *k, int64_t size, int d)
{
    const pl_region left = k->at;

    if (d == k->last && pl_region_elements(k->to) == size) {
        k->at = k->to;
    } else {
        k->at = k->spare.n_pieces > 0 ? k->spare : pl_schedule_scratch(s, size);
        k->spare = left.pieces[0].array == PL_SCRATCH ? left : (pl_region){0};
    }
    return left;
}

/* All slots with bit d. */
static void write_round(pl_schedule *s, slot *slots, int P, int64_t size, int d, int rank)
{
    pl_arena *arena = pl_schedule_arena(s);
    pl_region *out = pl_arena_alloc(arena, 2 * (size_t)P * sizeof *out), *in = out + P;
    int n = 0;

    for (int i = d; i < P; i++) {
        if ((i & d) == 0)
            continue;
        out[n] = leave(s, &slots[i], size, d);
        in[n++] = slots[i].at;
    }
    pl_schedule_send(s, (rank + d) % P, pl_region_join(arena, out, n));
    pl_schedule_recv(s, (rank + P - d) % P, pl_region_join(arena, in, n));
    pl_schedule_next_round(s);
}

void pl_bruck_all_to_all(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                         int rank)
{
    const pl_blocks from = call->from, to = call->to;
    const int P = from.n_ranks;
    const int64_t size = call->largest;
    slot *slots = pl_arena_alloc(pl_schedule_arena(s), (size_t)P * sizeof *slots);

    if (size == 0) {
        pl_pairwise_all_to_all(s, call, site, rank);
        return;
    }
    pl_schedule_move(s, pl_blocks_at(to, rank), pl_blocks_at(from, rank));
    for (int i = 1; i < P; i++)
        slots[i] = slot_of(s, pl_blocks_at(from, (rank + i) % P),
                           pl_blocks_at(to, (rank + P - i) % P), size, i);
    for (int d = 1; d < P; d *= 2)
        write_round(s, slots, P, size, d, rank);
    for (int i = 1; i < P; i++)
        pl_schedule_move(s, slots[i].to,
                         pl_region_first(s, slots[i].at, pl_region_elements(slots[i].to)));
    pl_schedule_next_round(s);
}
