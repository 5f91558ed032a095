/* hierarchical_broadcast -- one slice a lane, along the chain of hosts.
 * Idea:   local rank l carries slice l of the data from host to host: on root's host it reads the
 *         slice from root, then every host passes it on to the next. With more than two hosts a
 *         slice travels in chunks, one passed on while the next arrives. On root's host all read
 *         from root, on the others from the ranks whose slices have come.
 * Needs:  H hosts of L ranks.
 * Cost:   for slices of K chunks about K+H rounds until the last host has all, K+1 stages on each
 *         host but root's; a slice sent, n/L elements, by all ranks but the last host's; n(L-1)/L
 *         read from peers, n on root's host.
 * Source: the pipelined chain of Worringen, IEEE LCN 2003, a lane each. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/hierarchy.h"
#include "collectives/region.h"

/* A chunk's transfer should far outlast the start of a message. */
enum { CHUNK_ELEMENTS = 1 << 16, MOST_CHUNKS = 64 };

typedef struct {
    pl_hierarchy k;
    int n_chunks;
    const pl_blocks *slices; /* [L], each cut into chunks */
} carriage;

static carriage carriage_of(pl_schedule *s, const pl_hierarchy *k, pl_region all)
{
    pl_arena *const arena = pl_schedule_arena(s);
    const int64_t n = pl_region_elements(all) / k->n_locals / CHUNK_ELEMENTS;
    const int n_chunks = k->n_hosts == 2 || n < 1 ? 1 : n < MOST_CHUNKS ? (int)n : MOST_CHUNKS;
    const pl_blocks cut = pl_blocks_of_region(arena, all, k->n_locals);
    pl_blocks *const slices = pl_arena_alloc(arena, (size_t)k->n_locals * sizeof *slices);

    for (int l = 0; l < k->n_locals; l++)
        slices[l] = pl_blocks_of_region(arena, pl_blocks_at(cut, l), n_chunks);
    return (carriage){.k = *k, .n_chunks = n_chunks, .slices = slices};
}

static pl_region chunk_at(const carriage *c, int local, int t)
{
    return pl_blocks_at(c->slices[local], t);
}

static void read_chunk(pl_schedule *s, const carriage *c, int peer, int local, int t)
{
    pl_schedule_read(s, chunk_at(c, local, t), peer, chunk_at(c, local, t));
}

static void send_on(pl_schedule *s, const carriage *c, int t)
{
    pl_schedule_send(s, pl_hierarchy_at(&c->k, 1, c->k.local), chunk_at(c, c->k.local, t));
}

/* Root: `all` is ready. */
static void write_root(pl_schedule *s, const carriage *c)
{
    const int ready = pl_hierarchy_signal(s, &c->k);

    for (int t = 0; t < c->n_chunks; t++) {
        send_on(s, c, t);
        pl_schedule_next_round(s);
    }
    pl_hierarchy_await(s, &c->k, ready); /* their first signal, too, says that they have read */
    pl_schedule_next_round(s);
}

/* The others of root's host: the own slice first, since it has to travel on. */
static void write_beside_root(pl_schedule *s, const carriage *c, int root)
{
    const pl_hierarchy *const k = &c->k;

    pl_schedule_await(s, root, 1, 0);
    read_chunk(s, c, root, k->local, 0);
    pl_schedule_next_round(s);
    for (int t = 0; t < c->n_chunks; t++) {
        send_on(s, c, t);
        if (t + 1 < c->n_chunks)
            read_chunk(s, c, root, k->local, t + 1);
        for (int j = 1; j < k->n_locals; j++)
            read_chunk(s, c, root, (k->local + j) % k->n_locals, t);
        if (t + 1 < c->n_chunks)
            pl_schedule_next_round(s);
    }
    pl_hierarchy_signal(s, k);
}

/* Other hosts. */
static void write_along_chain(pl_schedule *s, const carriage *c, bool is_last)
{
    const pl_hierarchy *const k = &c->k;
    int stage = 0;

    for (int t = 0; t <= c->n_chunks; t++) {
        if (t < c->n_chunks)
            pl_schedule_recv(s, pl_hierarchy_at(k, -1, k->local), chunk_at(c, k->local, t));
        if (t > 0) {
            pl_hierarchy_await(s, k, stage);
            if (!is_last)
                send_on(s, c, t - 1);
            for (int j = 1; j < k->n_locals; j++) {
                const int local = (k->local + j) % k->n_locals;

                read_chunk(s, c, k->mates[local], local, t - 1);
            }
        }
        stage = pl_hierarchy_signal(s, k);
    }
    pl_hierarchy_await(s, k, stage);
    pl_schedule_next_round(s);
}

void pl_hierarchical_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                               int rank)
{
    const pl_hierarchy k = pl_hierarchy_of(s, site, rank);
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, site->n_ranks);
    const carriage c = carriage_of(s, &k, all);
    const int from_root = (k.host - site->host[call->root] + k.n_hosts) % k.n_hosts;

    pl_schedule_publish(s, true);
    if (rank == call->root && call->own.n_pieces > 0)
        pl_schedule_copy(s, all, call->own);
    pl_schedule_publish(s, false);
    if (rank == call->root)
        write_root(s, &c);
    else if (from_root == 0)
        write_beside_root(s, &c, call->root);
    else
        write_along_chain(s, &c, from_root == k.n_hosts - 1);
}
