#include "config.h"

#include "collectives/hierarchy.h"

#include "collectives/together.h"

pl_hierarchy pl_hierarchy_of(pl_schedule *s, const pl_site *site, int rank)
{
    const int H = site->n_hosts, L = site->n_ranks / H;
    int *const ranks = pl_arena_alloc(pl_schedule_arena(s), (size_t)site->n_ranks * sizeof *ranks);

    for (int r = 0; r < site->n_ranks; r++)
        ranks[site->host[r] * L + site->local[r]] = r;
    return (pl_hierarchy){.n_hosts = H,
                          .n_locals = L,
                          .host = site->host[rank],
                          .local = site->local[rank],
                          .ranks = ranks,
                          .mates = ranks + site->host[rank] * L};
}

int pl_hierarchy_signal(pl_schedule *s, const pl_hierarchy *k)
{
    return pl_together_signal(s, k->n_locals);
}

void pl_hierarchy_await(pl_schedule *s, const pl_hierarchy *k, int stage)
{
    pl_schedule_among(s, k->mates);
    pl_together_await(s, k->n_locals, k->local, stage);
    pl_schedule_among(s, NULL);
}

/* Read from the others of this host the blocks that their lanes got i hosts back. */
static void read_mates(pl_schedule *s, const pl_hierarchy *k, int i, pl_blocks x, pl_blocks lie)
{
    for (int j = 1; j < k->n_locals; j++) {
        const int local = (k->local + j) % k->n_locals, block = pl_hierarchy_at(k, -i, local);

        pl_schedule_read(s, pl_blocks_at(x, block), k->mates[local], pl_blocks_at(lie, block));
    }
}

void pl_hierarchy_gather(pl_schedule *s, const pl_hierarchy *k, pl_blocks x, pl_region own,
                         pl_blocks own_of)
{
    int stage = pl_schedule_stage(s);

    for (int i = 0; i < k->n_hosts; i++) {
        pl_hierarchy_await(s, k, stage);
        if (i + 1 < k->n_hosts) {
            const int to = pl_hierarchy_at(k, i + 1, k->local);
            const int from = pl_hierarchy_at(k, -i - 1, k->local);

            pl_schedule_send(s, to, own);
            pl_schedule_recv(s, from, pl_blocks_at(x, from));
        }
        read_mates(s, k, i, x, i == 0 ? own_of : x);
        stage = pl_hierarchy_signal(s, k);
    }
    pl_hierarchy_await(s, k, stage);
    pl_schedule_next_round(s);
}

/* `to` <- the sum of the terms of the ranks of this host. */
static void reduce_mates(pl_schedule *s, const pl_hierarchy *k, pl_region to, pl_region term,
                         pl_reduction reduction)
{
    const pl_place sum = {PL_SELF, to};

    pl_schedule_among(s, k->mates);
    pl_schedule_combine(s, reduction, &sum, 1, pl_together_places(s, k->n_locals, k->local, term),
                        k->n_locals);
    pl_schedule_among(s, NULL);
}

void pl_hierarchy_reduce(pl_schedule *s, const pl_hierarchy *k, pl_blocks x, pl_blocks terms,
                         pl_region own, bool publishes, pl_reduction reduction)
{
    const int H = k->n_hosts, me = k->mates[k->local];
    const bool alone = k->n_locals == 1; /* a rank's term is its host's sum */
    const int64_t n = pl_region_elements(own);
    pl_place *const hosts = pl_arena_alloc(pl_schedule_arena(s), (size_t)H * sizeof *hosts);
    const pl_place sum = {PL_SELF, own};

    pl_hierarchy_await(s, k, pl_hierarchy_signal(s, k));
    hosts[0] = (pl_place){PL_SELF, alone ? pl_blocks_at(terms, me) : own};
    for (int i = 0; i < H; i++) {
        const int next = pl_hierarchy_at(k, i + 1, k->local);

        if (i > 0) {
            const int to = pl_hierarchy_at(k, i, k->local);

            hosts[i] = (pl_place){PL_SELF, pl_schedule_scratch(s, n)};
            pl_schedule_send(s, to, pl_blocks_at(alone ? terms : x, to));
            pl_schedule_recv(s, pl_hierarchy_at(k, -i, k->local), hosts[i].region);
        }
        if (!alone)
            reduce_mates(s, k, next == me ? own : pl_blocks_at(x, next), pl_blocks_at(terms, next),
                         reduction);
        pl_schedule_next_round(s);
    }
    pl_schedule_publish(s, publishes);
    pl_schedule_combine(s, reduction, &sum, 1, hosts, H);
    pl_schedule_publish(s, false);
}
