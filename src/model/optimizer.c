#include "config.h"

#include "src/model/optimizer.h"

#include "src/program/kinds.h"
#include "src/model/transformer.h"

#include "src/base/panic.h"

static int scalar(pl_program *p, const char *name, bool is_input)
{
    const int v = pl_value_add(p, PL_SCALAR, PL_LAYER_ALL, "", NULL, name);

    p->values[v].is_input = is_input;
    p->values[v].persists = is_input;
    return v;
}

static int update_op(pl_program *p, pl_kind kind, int layer, int n_in, const int *in, int n_out,
                     const int *out)
{
    return pl_op_add(p, kind, PL_UPDATE, layer, n_in, in, n_out, out);
}

void pl_optimizer_total_loss(pl_program *p)
{
    const int loss = pl_value_find(p, PL_NAME_LOSS), mean = scalar(p, PL_NAME_TOTAL_LOSS, false);

    p->values[mean].is_output = true;
    update_op(p, PL_RESHARD, PL_LAYER_ALL, 1, &loss, 1, &mean);
}

/* A value like v, of another class, its name behind the prefix. */
static int like(pl_program *p, int v, pl_class class, const char *prefix)
{
    const int copy = pl_value_clone(p, v);
    pl_value *value = &p->values[copy];

    value->name = pl_arena_join(p->arena, prefix, p->values[v].name);
    value->class = class;
    value->dtype = PL_F32;
    value->persists = false;
    value->sharding = (pl_sharding){0};
    return copy;
}

void pl_optimizer_reduce(pl_program *p, const int *accumulator, int n_values, int *reduced)
{
    /* Last layers first: that is the order in which the backward pass finishes them. */
    for (int w = n_values - 1; w >= 0; w--) {
        reduced[w] = PL_NONE;
        if (accumulator[w] == PL_NONE)
            continue;
        reduced[w] = like(p, w, PL_MOMENT, "g.");
        update_op(p, PL_RESHARD, p->values[w].layer, 1, &accumulator[w], 1, &reduced[w]);
    }
}

/* One sum of squares for the gradients that are split over exactly `axes`, in calls of as many
 * operands as an op may have. Returns the resolved sum. */
static int sum_over(pl_program *p, pl_axes axes, const int *reduced, int n_values)
{
    const int sum = scalar(p, "grad.squares", false), total = scalar(p, "grad.squares", false);
    int in[PL_MAX_OPERANDS], n = 0;
    bool begun = false;

    p->values[sum].defers_sums = true;
    p->values[sum].sharding.sum = pl_mesh_family(p->mesh, "pp"); /* every stage has its layers' */
    for (int w = n_values - 1; w >= -1; w--) {
        if (w >= 0 && reduced[w] != PL_NONE &&
            pl_sharding_axes(&p->values[reduced[w]].sharding, p->values[reduced[w]].shape.n_dims) ==
                axes)
            in[n++] = reduced[w];
        if (n == PL_MAX_OPERANDS || (w < 0 && n > 0)) {
            const int id = update_op(p, PL_SUM_SQUARES, PL_LAYER_ALL, n, in, 1, &sum);

            p->ops[id].accumulate = begun;
            begun = true;
            n = 0;
        }
    }
    update_op(p, PL_RESHARD, PL_LAYER_ALL, 1, &sum, 1, &total);
    return total;
}

static int norm_and_clip(pl_program *p, const int *reduced, int n_values)
{
    pl_axes seen[PL_MAX_OPERANDS];
    int sums[PL_MAX_OPERANDS], n = 0;

    for (int w = 0; w < n_values; w++) {
        if (reduced[w] == PL_NONE)
            continue;
        const pl_value *g = &p->values[reduced[w]];
        const pl_axes axes = pl_sharding_axes(&g->sharding, g->shape.n_dims);
        bool known = false;

        for (int i = 0; i < n; i++)
            known = known || seen[i] == axes;
        if (!known) {
            PL_ASSERT(n + 1 < PL_MAX_OPERANDS);
            seen[n] = axes;
            sums[n++] = sum_over(p, axes, reduced, n_values);
        }
    }
    const int out[2] = {scalar(p, PL_NAME_NORM, false), scalar(p, "clip.factor", false)};
    p->values[out[0]].is_output = true;
    sums[n] = scalar(p, PL_NAME_CLIP, true);
    update_op(p, PL_CLIP, PL_LAYER_ALL, n + 1, sums, 2, out);
    return out[1];
}

/* AdamW of weight w: it updates w, or, where w is not f32, its master, and rounds that into w. */
static void update_weight(pl_program *p, const pl_adamw_config *config, int w, const int in[5])
{
    static const int updated[] = {0, 2, 3, 8}; /* which inputs the outputs overwrite */
    const bool has_master = p->values[w].dtype != PL_F32;
    const int m = like(p, w, PL_MOMENT, "m."), v = like(p, w, PL_MOMENT, "v.");
    const int master = has_master ? like(p, w, PL_MASTER, PL_MASTER_PREFIX) : PL_NONE;
    const int all[9] = {w, in[0], m, v, in[1], in[2], in[3], in[4], master};
    const int n_in = has_master ? 9 : 8, n_out = has_master ? 4 : 3;
    int out[4];

    for (int i = 0; i < n_out; i++) {
        out[i] = pl_value_clone(p, all[updated[i]]);
        p->values[all[updated[i]]].persists = true;
        p->values[out[i]].alias_of = all[updated[i]];
        p->values[out[i]].persists = false;
    }
    const int id = update_op(p, PL_ADAMW, p->values[w].layer, n_in, all, n_out, out);
    p->ops[id].number[0] = config->beta1;
    p->ops[id].number[1] = config->beta2;
    p->ops[id].number[2] = config->eps;
    p->ops[id].number[3] = p->values[w].shape.n_dims >= 2 ? config->weight_decay : 0;
}

void pl_optimizer_update(pl_program *p, const pl_adamw_config *config, const int *reduced,
                         int n_values)
{
    const int factor = norm_and_clip(p, reduced, n_values);
    const int lr = scalar(p, PL_NAME_LR, true), bias1 = scalar(p, PL_NAME_BIAS1, true),
              bias2 = scalar(p, PL_NAME_BIAS2, true);

    for (int w = 0; w < n_values; w++)
        if (reduced[w] != PL_NONE)
            update_weight(p, config, w, (int[5]){reduced[w], factor, lr, bias1, bias2});
}
