#include "config.h"

#include "src/program/fuse.h"

#include "src/program/bucket.h"

#include <string.h>

/* The op that makes v, if it comes before `reader`, no op but that touches v, and v is nothing else
 * either; else PL_NONE. */
static int sole_maker(const pl_program *p, int v, int reader)
{
    int maker = PL_NONE, n_uses = 0;

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        if (i == reader)
            continue;
        for (int k = 0; k < op->n_in; k++)
            n_uses += op->in[k] == v;
        for (int k = 0; k < op->n_out; k++)
            if (op->out[k] == v)
                maker = i;
    }
    for (int u = 0; u < p->n_values; u++)
        n_uses += p->values[u].alias_of == v;
    if (maker > reader || n_uses > 0 || p->values[v].alias_of != PL_NONE || p->values[v].is_output)
        return PL_NONE;
    return maker;
}

static bool can_accumulate(pl_kind kind)
{
    return kind == PL_EINSUM || kind == PL_EMBED_BACKWARD;
}

static void remove_op(pl_program *p, int i)
{
    p->n_ops--;
    memmove(&p->ops[i], &p->ops[i + 1], (size_t)(p->n_ops - i) * sizeof *p->ops);
}

void pl_fuse_accumulations(pl_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        const int maker = op->kind == PL_ACCUMULATE ? sole_maker(p, op->in[0], i) : PL_NONE;

        if (maker == PL_NONE || !can_accumulate(p->ops[maker].kind))
            continue;
        p->ops[maker].out[0] = op->out[0];
        remove_op(p, i--);
    }
}

/* Whether some op from `first` to before `last` makes v. */
static bool is_made_within(const pl_program *p, int v, int first, int last)
{
    for (int i = first; i < last; i++)
        for (int k = 0; k < p->ops[i].n_out; k++)
            if (p->ops[i].out[k] == v)
                return true;
    return false;
}

/* The product that may write the sum which op `i` makes: that of one of its terms; *residual is the
 * other. PL_NONE: there is none. */
static int product_to_add(const pl_program *p, int i, int *residual)
{
    const pl_op *add = &p->ops[i];

    for (int k = 0; k < 2; k++) {
        const int term = add->in[k], other = add->in[1 - k];
        const int maker = term != other ? sole_maker(p, term, i) : PL_NONE;

        if (maker == PL_NONE || p->ops[maker].kind != PL_EINSUM || p->ops[maker].n_in % 2 != 0 ||
            !pl_same_segment(&p->ops[maker], add) || is_made_within(p, other, maker, i) ||
            p->values[other].dtype != p->values[add->out[0]].dtype)
            continue;
        *residual = other;
        return maker;
    }
    return PL_NONE;
}

void pl_fuse_additions(pl_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        int residual, maker = op->kind == PL_ADD ? product_to_add(p, i, &residual) : PL_NONE;

        if (maker == PL_NONE)
            continue;
        pl_op *product = &p->ops[maker];
        int *in = pl_arena_alloc(p->arena, (size_t)(product->n_in + 1) * sizeof *in);

        memcpy(in, product->in, (size_t)product->n_in * sizeof *in);
        in[product->n_in++] = residual;
        product->in = in;
        product->out[0] = op->out[0];
        remove_op(p, i--);
    }
}
