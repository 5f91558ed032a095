#include "config.h"

#include "src/roofline/known_prices.h"

#include "src/base/memory.h"
#include "src/program/communicate.h"

#include <string.h>

/* All that the price of a communication depends on, as numbers. */
typedef struct {
    int n, room;
    int64_t *word;
} key;

typedef struct {
    int n;
    const int64_t *word;
    pl_price_pair price;
} known_price;

struct pl_known_prices {
    pl_arena *arena; /* of the keys' words */
    key key;         /* of the op in hand */
    int n, room;
    known_price *all;
};

pl_known_prices *pl_known_prices_create(void)
{
    pl_known_prices *known = pl_alloc(sizeof *known);

    known->arena = pl_arena_create();
    return known;
}

void pl_known_prices_destroy(pl_known_prices *known)
{
    if (known == NULL)
        return;
    pl_arena_destroy(known->arena);
    pl_free(known->key.word);
    pl_free(known->all);
    pl_free(known);
}

static void key_add(key *k, int64_t word)
{
    if (k->n == k->room) {
        const int room = k->room > 0 ? 2 * k->room : 64;

        k->word =
            pl_realloc(k->word, (size_t)k->room * sizeof *k->word, (size_t)room * sizeof *k->word);
        k->room = room;
    }
    k->word[k->n++] = word;
}

/* Local extents and splits: with the rank's place in its group they determine what every member
 * holds, since blocks are balanced. */
static void key_add_value(key *k, const pl_program *p, int v, pl_coords coords)
{
    const pl_value *value = &p->values[v];
    const pl_extents e = pl_local_extents(p, v, coords);

    key_add(k, e.n_dims);
    for (int d = 0; d < e.n_dims; d++) {
        const pl_split *split = &value->sharding.split[d];
        int64_t axes = 0;

        for (int i = 0; i < split->n; i++)
            axes = axes * (PL_MAX_AXES + 1) + split->axis[i] + 1;
        key_add(k, e.n[d]);
        key_add(k, axes);
    }
}

/* Hosts of the group's ranks; whether they share memory, and the choice, are the program's. */
static void key_add_site(key *k, const pl_program *p, const pl_op *op, pl_coords coords)
{
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_op_site(p, op, coords, arena);

    key_add(k, site.shared);
    key_add(k, (int64_t)(intptr_t)p->fabric.chooser.machine);
    key_add(k, (int64_t)(intptr_t)p->fabric.chooser.algo);
    key_add(k, site.n_hosts);
    for (int r = 0; site.n_hosts > 1 && r < site.n_ranks; r++)
        key_add(k, site.host[r]);
    pl_arena_destroy(arena);
}

static void key_fill(key *k, const pl_program *p, const pl_op *op, pl_coords coords)
{
    const pl_axes group = pl_op_group(p, op);
    int64_t offset;

    k->n = 0;
    key_add(k, op->kind);
    key_add(k, pl_op_dtype(p, op));
    key_add(k, group);
    key_add(k, pl_mesh_position(p->mesh, group, coords));
    key_add_site(k, p, op, coords);
    key_add(k, op->kind == PL_KIND_ALL_REDUCE && op->is_max);
    key_add(k, op->n_in);
    key_add(k, op->n_out);
    for (int i = 0; i < op->n_in; i++) {
        key_add_value(k, p, op->in[i], coords);
        key_add(k, op->dim != NULL ? op->dim[i] : 0);
        key_add(k, op->to_dim != NULL ? op->to_dim[i] : 0);
    }
    for (int o = 0; o < op->n_out; o++)
        key_add_value(k, p, op->out[o], coords);
    if (op->kind == PL_KIND_ALL_GATHER || op->kind == PL_KIND_REDUCE_SCATTER) /* in place or not */
        key_add(k, pl_value_storage(p, op->in[0], coords, &offset) ==
                       pl_value_storage(p, op->out[0], coords, &offset));
}

const pl_price_pair *pl_known_prices_find(pl_known_prices *known, const pl_program *p,
                                          const pl_op *op, pl_coords coords)
{
    const key *k = &known->key;

    key_fill(&known->key, p, op, coords);
    for (int i = 0; i < known->n; i++)
        if (known->all[i].n == k->n &&
            memcmp(known->all[i].word, k->word, (size_t)k->n * sizeof *k->word) == 0)
            return &known->all[i].price;
    return NULL;
}

void pl_known_prices_add(pl_known_prices *known, pl_price_pair price)
{
    const key *k = &known->key;
    const size_t bytes = (size_t)k->n * sizeof *k->word;
    int64_t *word = pl_arena_alloc(known->arena, bytes);

    if (known->n == known->room) {
        const int room = known->room > 0 ? 2 * known->room : 64;

        known->all = pl_realloc(known->all, (size_t)known->room * sizeof *known->all,
                                (size_t)room * sizeof *known->all);
        known->room = room;
    }
    memcpy(word, k->word, bytes);
    known->all[known->n++] = (known_price){k->n, word, price};
}
