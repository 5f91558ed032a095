#include "config.h"

#include "src/program/bucket.h"

#include <string.h>

bool pl_same_segment(const pl_op *a, const pl_op *b)
{
    return a->phase == b->phase && a->layer == b->layer && a->microbatch == b->microbatch;
}

/* Move each accumulation to the end of its segment; order among them is kept. */
static void accumulate_last(pl_program *p)
{
    pl_op *moved = pl_alloc((size_t)(p->n_ops + 1) * sizeof *moved);

    for (int begin = 0, end; begin < p->n_ops; begin = end) {
        int n_moved = 0, kept = begin;

        for (end = begin; end < p->n_ops && pl_same_segment(&p->ops[begin], &p->ops[end]); end++)
            ;
        for (int i = begin; i < end; i++) {
            if (p->ops[i].kind == PL_ACCUMULATE)
                moved[n_moved++] = p->ops[i];
            else
                p->ops[kept++] = p->ops[i];
        }
        memcpy(p->ops + kept, moved, (size_t)n_moved * sizeof *moved);
    }
    pl_free(moved);
}

static bool may_join(const pl_program *p, const pl_op *op)
{
    if (op->kind != PL_KIND_ALL_GATHER && op->kind != PL_KIND_REDUCE_SCATTER &&
        op->kind != PL_KIND_ALL_REDUCE)
        return false;
    const pl_class class = p->values[op->out[0]].class;
    return class != PL_ACTIVATION && class != PL_SCALAR;
}

/* Gathers of stored weights: their inputs are there from the start. */
static bool is_ready_from_start(const pl_program *p, const pl_op *op)
{
    return op->kind == PL_KIND_ALL_GATHER && op->phase != PL_UPDATE &&
           p->values[op->in[0]].persists;
}

static bool alike(const pl_program *p, const pl_op *a, const pl_op *b)
{
    return a->kind == b->kind && a->axes == b->axes && a->is_max == b->is_max &&
           p->values[a->out[0]].dtype == p->values[b->out[0]].dtype &&
           pl_same_segment(a, b) && is_ready_from_start(p, a) == is_ready_from_start(p, b) &&
           (p->values[a->out[0]].alias_of == PL_NONE) == (p->values[b->out[0]].alias_of == PL_NONE);
}

static bool reads_any(const pl_op *reader, const pl_op *maker)
{
    for (int i = 0; i < reader->n_in; i++)
        for (int o = 0; o < maker->n_out; o++)
            if (reader->in[i] == maker->out[o])
                return true;
    return false;
}

/* The op after `i` that op i can join: alike, in its segment, with no reader of op i before it. */
static int partner_after(const pl_program *p, const bool *joined_other, int i)
{
    for (int j = i + 1; j < p->n_ops && pl_same_segment(&p->ops[i], &p->ops[j]); j++) {
        if (joined_other[j])
            continue;
        if (may_join(p, &p->ops[j]) && alike(p, &p->ops[i], &p->ops[j]))
            return j;
        if (!is_ready_from_start(p, &p->ops[i]) && reads_any(&p->ops[j], &p->ops[i]))
            return PL_NONE;
    }
    return PL_NONE;
}

/* Both lists, a's first. */
static int *joined(pl_program *p, const int *a, int n_a, const int *b, int n_b)
{
    int *list = pl_arena_alloc(p->arena, (size_t)(n_a + n_b) * sizeof *list);

    memcpy(list, a, (size_t)n_a * sizeof *list);
    memcpy(list + n_a, b, (size_t)n_b * sizeof *list);
    return list;
}

static pl_op join(pl_program *p, const pl_op *a, const pl_op *b)
{
    pl_op op = *a;

    op.in = joined(p, a->in, a->n_in, b->in, b->n_in);
    op.out = joined(p, a->out, a->n_out, b->out, b->n_out);
    op.dim = joined(p, a->dim, a->n_in, b->dim, b->n_in);
    op.to_dim = joined(p, a->to_dim, a->n_in, b->to_dim, b->n_in);
    op.n_in += b->n_in;
    op.n_out += b->n_out;
    return op;
}

/* Ops that have joined another are marked, and dropped together at the end. */
static void drop_joined(pl_program *p, const bool *joined_other)
{
    int kept = 0;

    for (int i = 0; i < p->n_ops; i++)
        if (!joined_other[i])
            p->ops[kept++] = p->ops[i];
    p->n_ops = kept;
}

void pl_bucket(pl_program *p)
{
    bool *joined_other = pl_alloc((size_t)(p->n_ops + 1) * sizeof *joined_other);

    accumulate_last(p);
    for (int i = 0; i < p->n_ops; i++) {
        int j;

        while (!joined_other[i] && may_join(p, &p->ops[i]) &&
               (j = partner_after(p, joined_other, i)) != PL_NONE) {
            const pl_op both = join(p, &p->ops[i], &p->ops[j]);
            const bool at_first = is_ready_from_start(p, &both);

            p->ops[at_first ? i : j] = both;
            joined_other[at_first ? j : i] = true;
        }
    }
    drop_joined(p, joined_other);
    pl_free(joined_other);
}
