#include "config.h"

#include "src/program/fuse.h"

static bool can_accumulate(pl_kind kind)
{
    return kind == PL_EINSUM || kind == PL_EMBED_BACKWARD;
}

/* The only op that touches v besides `reader`, if it makes v and can add to it; else PL_NONE. */
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
    if (maker == PL_NONE || n_uses > 0 || !can_accumulate(p->ops[maker].kind) ||
        p->values[v].alias_of != PL_NONE)
        return PL_NONE;
    return maker;
}

void pl_fuse_accumulate(pl_program *p)
{
    int kept = 0;

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        const int maker = op->kind == PL_ACCUMULATE ? sole_maker(p, op->in[0], i) : PL_NONE;

        if (maker != PL_NONE && maker < i)
            p->ops[maker].out[0] = op->out[0];
    }
    /* An accumulation whose input nothing makes any more has been fused. */
    for (int i = 0; i < p->n_ops; i++) {
        bool made = p->ops[i].kind != PL_ACCUMULATE;

        for (int j = 0; j < kept && !made; j++)
            for (int k = 0; k < p->ops[j].n_out; k++)
                made = made || p->ops[j].out[k] == p->ops[i].in[0];
        if (made)
            p->ops[kept++] = p->ops[i];
    }
    p->n_ops = kept;
}
