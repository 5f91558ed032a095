#include "config.h"

#include "src/program/program.h"

#include "src/base/panic.h"

#include <string.h>

const char *pl_class_name(pl_class c)
{
    static const char *const names[PL_N_CLASSES] = {
        [PL_WEIGHT] = "weights",           [PL_GRADIENT] = "gradients",  [PL_MOMENT] = "moments",
        [PL_MASTER] = "masters",
        [PL_ACTIVATION] = "activations",   [PL_TOKEN] = "tokens",        [PL_SCALAR] = "scalars",
        [PL_COMM_BUFFER] = "comm_buffers", [PL_WORKSPACE] = "workspace",
    };
    return names[c];
}

const char *pl_phase_name(pl_phase phase)
{
    static const char *const names[] = {"forward", "backward", "update"};
    return names[phase];
}

pl_program *pl_program_create(const pl_mesh *mesh, const pl_batch *batch)
{
    pl_arena *arena = pl_arena_create();
    pl_program *p = pl_arena_alloc(arena, sizeof *p);

    p->arena = arena;
    p->mesh = mesh;
    p->batch = *batch;
    p->n_stages = 1;
    return p;
}

void pl_program_destroy(pl_program *p)
{
    if (p == NULL)
        return;
    pl_free(p->values);
    pl_free(p->ops);
    pl_free(p->actions);
    pl_arena_destroy(p->arena);
}

static int append_value(pl_program *p, const pl_value *v)
{
    p->values = pl_room_for_one(p->values, p->n_values, &p->value_room, sizeof *p->values);
    p->values[p->n_values] = *v;
    return p->n_values++;
}

pl_program *pl_program_copy_values(const pl_program *p)
{
    pl_program *copy = pl_program_create(p->mesh, &p->batch);

    copy->stage = p->stage;
    copy->n_stages = p->n_stages;
    copy->n_values = p->n_values;
    copy->value_room = p->value_room;
    copy->values = pl_alloc((size_t)p->value_room * sizeof *copy->values);
    for (int v = 0; v < p->n_values; v++) {
        copy->values[v] = p->values[v];
        /* Programs are destroyed apart: each has its names in its own arena. */
        copy->values[v].name = pl_arena_join(copy->arena, p->values[v].name, "");
    }
    return copy;
}

int pl_value_add(pl_program *p, pl_class class, int layer, const char *dims, const int64_t *extents,
                 const char *name)
{
    pl_value v = {.name = name,
                  .class = class,
                  .layer = layer,
                  .microbatch = PL_NO_MICROBATCH,
                  .alias_of = PL_NONE,
                  .offset = -1};

    v.shape.n_dims = (int)strlen(dims);
    PL_ASSERT(v.shape.n_dims <= PL_MAX_DIMS);
    for (int d = 0; d < v.shape.n_dims; d++) {
        v.shape.name[d] = dims[d];
        v.shape.extent[d] = extents[d];
    }
    return append_value(p, &v);
}

int pl_value_clone(pl_program *p, int v)
{
    const pl_value copy = p->values[v];

    return append_value(p, &copy);
}

int pl_value_find(const pl_program *p, const char *name)
{
    for (int v = 0; v < p->n_values; v++)
        if (strcmp(p->values[v].name, name) == 0)
            return v;
    return PL_NONE;
}

static int *owned_list(pl_program *p, const int *list, int n)
{
    int *copy = pl_arena_alloc(p->arena, (size_t)(n > 0 ? n : 1) * sizeof *copy);

    if (n > 0 && list != NULL)
        memcpy(copy, list, (size_t)n * sizeof *copy);
    return copy;
}

static int append_op(pl_program *p, const pl_op *op)
{
    p->ops = pl_room_for_one(p->ops, p->n_ops, &p->op_room, sizeof *p->ops);
    p->ops[p->n_ops] = *op;
    return p->n_ops++;
}

int pl_op_append(pl_program *p, const pl_op *op)
{
    pl_op copy = *op;

    copy.in = owned_list(p, op->in, op->n_in);
    copy.out = owned_list(p, op->out, op->n_out);
    if (op->dim != NULL)
        copy.dim = owned_list(p, op->dim, op->n_in);
    if (op->to_dim != NULL)
        copy.to_dim = owned_list(p, op->to_dim, op->n_in);
    return append_op(p, &copy);
}

int pl_op_add(pl_program *p, pl_kind kind, pl_phase phase, int layer, int n_in, const int *in,
              int n_out, const int *out)
{
    const pl_op op = {.kind = kind,
                      .n_in = n_in,
                      .n_out = n_out,
                      .in = owned_list(p, in, n_in),
                      .out = owned_list(p, out, n_out),
                      .phase = phase,
                      .layer = layer,
                      .microbatch = PL_NO_MICROBATCH,
                      .origin = PL_NONE,
                      .scratch = PL_NONE};
    return append_op(p, &op);
}

bool pl_kind_is_communication(pl_kind kind)
{
    return kind >= PL_KIND_ALL_GATHER && kind <= PL_KIND_RECV;
}

bool pl_kind_is_move(pl_kind kind)
{
    return kind == PL_KIND_SEND || kind == PL_KIND_RECV;
}

int pl_shape_dim(const pl_shape *shape, char name)
{
    for (int d = 0; d < shape->n_dims; d++)
        if (shape->name[d] == name)
            return d;
    return -1;
}

pl_range pl_batch_range(const pl_mesh *mesh, const pl_batch *batch, pl_coords coords, int m)
{
    const pl_range mine = pl_split_range(mesh, &batch->split, coords, batch->n_sequences);
    const int64_t skipped = (int64_t)m * batch->micro_batch;
    int64_t left = mine.count - skipped;

    if (left < 0)
        left = 0;
    return (pl_range){.begin = mine.begin + (skipped < mine.count ? skipped : mine.count),
                      .count = left < batch->micro_batch ? left : batch->micro_batch};
}

int pl_batch_microbatches(const pl_mesh *mesh, const pl_batch *batch)
{
    const int64_t most = pl_split_largest(mesh, &batch->split, batch->n_sequences);
    const int64_t n = (most + batch->micro_batch - 1) / batch->micro_batch;

    return n > 0 ? (int)n : 1;
}

pl_extents pl_local_extents(const pl_program *p, int v, pl_coords coords)
{
    const pl_value *value = &p->values[v];
    pl_extents e = {.n_dims = value->shape.n_dims};

    for (int d = 0; d < e.n_dims; d++) {
        pl_range r;

        if (value->shape.name[d] == 'B') {
            const int m = value->microbatch == PL_NO_MICROBATCH ? 0 : value->microbatch;

            r = pl_batch_range(p->mesh, &p->batch, coords, m);
        } else {
            r = pl_split_range(p->mesh, &value->sharding.split[d], coords, value->shape.extent[d]);
        }
        e.n[d] = r.count;
        e.begin[d] = r.begin;
    }
    return e;
}

int64_t pl_local_elements(const pl_program *p, int v, pl_coords coords)
{
    const pl_extents e = pl_local_extents(p, v, coords);
    int64_t n = 1;

    for (int d = 0; d < e.n_dims; d++)
        if (__builtin_mul_overflow(n, e.n[d], &n))
            return INT64_MAX;
    return n;
}

size_t pl_value_element_bytes(const pl_program *p, int v)
{
    return pl_dtype_bytes(p->values[v].dtype);
}

size_t pl_value_bytes(const pl_program *p, int v)
{
    const pl_coords origin = {{0}};

    return (size_t)pl_local_elements(p, v, origin) * pl_value_element_bytes(p, v);
}

size_t pl_value_room(const pl_program *p, int v)
{
    return (pl_value_bytes(p, v) + PL_ALIGNMENT - 1) / PL_ALIGNMENT * PL_ALIGNMENT;
}

int pl_value_owner(const pl_program *p, int v)
{
    while (p->values[v].alias_of != PL_NONE)
        v = p->values[v].alias_of;
    return v;
}

int pl_value_storage(const pl_program *p, int v, pl_coords coords, int64_t *offset)
{
    *offset = 0;
    while (p->values[v].alias_of != PL_NONE) {
        const int whole = p->values[v].alias_of;

        if (p->values[v].alias_is_block) {
            /* A block of the outermost dim: everything before it is whole rows. */
            const pl_extents part = pl_local_extents(p, v, coords);
            const pl_extents all = pl_local_extents(p, whole, coords);
            int64_t row = 1;

            for (int d = 1; d < all.n_dims; d++)
                row *= all.n[d];
            if (part.n_dims > 0)
                *offset += (part.begin[0] - all.begin[0]) * row;
        }
        v = whole;
    }
    return v;
}
