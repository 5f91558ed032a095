#include "config.h"

#include "src/program/fuse.h"

#include "src/program/bucket.h"

#include <string.h>

/* Who touches each value, kept up to date while ops are fused; those that are gone stay in the list
 * until close_fuser(). */
typedef struct {
    pl_program *p;
    int *maker;     /* [n_values] the last op that makes it, or PL_NONE */
    int *n_touches; /* [n_values] by ops, and by values that are aliases of it */
    bool *is_gone;  /* [n_ops] */
} fuser;

static fuser open_fuser(pl_program *p)
{
    fuser f = {.p = p};

    f.maker = pl_alloc((size_t)p->n_values * sizeof *f.maker);
    f.n_touches = pl_alloc((size_t)p->n_values * sizeof *f.n_touches);
    f.is_gone = pl_alloc((size_t)p->n_ops * sizeof *f.is_gone);
    for (int v = 0; v < p->n_values; v++)
        f.maker[v] = PL_NONE;
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].alias_of != PL_NONE)
            f.n_touches[p->values[v].alias_of]++;
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        for (int k = 0; k < op->n_in; k++)
            f.n_touches[op->in[k]]++;
        for (int k = 0; k < op->n_out; k++) {
            f.n_touches[op->out[k]]++;
            f.maker[op->out[k]] = i;
        }
    }
    return f;
}

static void close_fuser(fuser *f)
{
    int kept = 0;

    for (int i = 0; i < f->p->n_ops; i++)
        if (!f->is_gone[i])
            f->p->ops[kept++] = f->p->ops[i];
    f->p->n_ops = kept;
    pl_free(f->maker);
    pl_free(f->n_touches);
    pl_free(f->is_gone);
}

/* The op that makes v, if it comes before `reader`, no op but these two touches v, and v is nothing
 * else either; else PL_NONE. */
static int sole_maker(const fuser *f, int v, int reader)
{
    const bool is_theirs = f->n_touches[v] == 2 && f->maker[v] < reader;

    if (!is_theirs || f->p->values[v].alias_of != PL_NONE || f->p->values[v].is_output)
        return PL_NONE;
    return f->maker[v];
}

/* Let op `maker` write what op i makes; op i goes. */
static void take_over(fuser *f, int maker, int i)
{
    const int out = f->p->ops[i].out[0];

    f->p->ops[maker].out[0] = out;
    if (f->maker[out] == i)
        f->maker[out] = maker;
    f->is_gone[i] = true;
}

static bool can_accumulate(pl_kind kind)
{
    return kind == PL_EINSUM || kind == PL_EMBED_BACKWARD;
}

void pl_fuse_accumulations(pl_program *p)
{
    fuser f = open_fuser(p);

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        const int maker = op->kind == PL_ACCUMULATE ? sole_maker(&f, op->in[0], i) : PL_NONE;

        if (maker != PL_NONE && can_accumulate(p->ops[maker].kind))
            take_over(&f, maker, i);
    }
    close_fuser(&f);
}

/* Whether some op from `first` to before `last` makes v. */
static bool is_made_within(const fuser *f, int v, int first, int last)
{
    for (int i = first; i < last; i++)
        for (int k = 0; k < f->p->ops[i].n_out && !f->is_gone[i]; k++)
            if (f->p->ops[i].out[k] == v)
                return true;
    return false;
}

/* The product that may write the sum which op `i` makes: that of one of its terms; *residual is the
 * other. PL_NONE: there is none. */
static int product_to_add(const fuser *f, int i, int *residual)
{
    const pl_program *p = f->p;
    const pl_op *add = &p->ops[i];

    for (int k = 0; k < 2; k++) {
        const int term = add->in[k], other = add->in[1 - k], maker = sole_maker(f, term, i);

        if (maker == PL_NONE || p->ops[maker].kind != PL_EINSUM || p->ops[maker].n_in % 2 != 0 ||
            !pl_same_segment(&p->ops[maker], add) || is_made_within(f, other, maker, i) ||
            p->values[other].dtype != p->values[add->out[0]].dtype)
            continue;
        *residual = other;
        return maker;
    }
    return PL_NONE;
}

void pl_fuse_additions(pl_program *p)
{
    fuser f = open_fuser(p);

    for (int i = 0; i < p->n_ops; i++) {
        int residual, maker = p->ops[i].kind == PL_ADD ? product_to_add(&f, i, &residual) : PL_NONE;

        if (maker == PL_NONE)
            continue;
        pl_op *product = &p->ops[maker];
        int *in = pl_arena_alloc(p->arena, (size_t)(product->n_in + 1) * sizeof *in);

        memcpy(in, product->in, (size_t)product->n_in * sizeof *in);
        in[product->n_in++] = residual;
        product->in = in;
        take_over(&f, maker, i);
    }
    close_fuser(&f);
}
