/* embed -- x[T, B, D] = rows of e[V, D] from (tokens[T, B], e): a product with one-hot tokens, so a
 * table split over V gives terms of a sum.
 * embed_backward -- de[V, D] from (tokens, dx). */
#include "config.h"

#include "kernels/embed.h"
#include "src/program/ops/ops.h"

static void run(const pl_op_view *view)
{
    const pl_extents *e = &view->in[1].extents;

    if (view->out[0].dtype == PL_BF16)
        pl_embed_forward_bf16(view->in[0].n, e->n[0], e->n[1], e->begin[0], view->in[0].data,
                              view->in[1].data, view->out[0].data);
    else
        pl_embed_forward(view->in[0].n, e->n[0], e->n[1], e->begin[0], view->in[0].data,
                         view->in[1].data, view->out[0].data);
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    cost->bytes = 2 * pl_array_bytes(&view->out[0]); /* rows of the table, of the same type */
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int dx = pl_tape_gradient(tape, op->out[0]);

    if (dx == PL_NONE)
        return;
    const int in[2] = {op->in[0], dx};
    const int de = pl_tape_new_gradient(tape, op->in[1]);

    pl_tape_op(tape, op, PL_EMBED_BACKWARD, 2, in, 1, &de);
    pl_tape_contribute(tape, op->in[1], de);
}

const pl_kind_info pl_op_embed = {.name = "embed",
                                  .whole = "D",
                                  .in_place = PL_NONE,
                                  .differentiate = differentiate,
                                  .cost = cost,
                                  .run = run};

static void run_backward(const pl_op_view *view)
{
    const pl_extents *e = &view->out[0].extents;

    if (view->in[1].dtype == PL_BF16)
        pl_embed_backward_bf16(view->in[0].n, e->n[0], e->n[1], e->begin[0], view->in[0].data,
                               view->in[1].data, view->op->accumulate, view->out[0].data);
    else
        pl_embed_backward(view->in[0].n, e->n[0], e->n[1], e->begin[0], view->in[0].data,
                          view->in[1].data, view->op->accumulate, view->out[0].data);
}

static void cost_backward(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = (double)view->in[1].n;
    /* Rows of de are read and written for each of dx; a sum that starts here is zeroed. */
    cost->bytes = pl_array_bytes(&view->in[1]) +
                  2.0 * (double)view->in[1].n * (double)pl_dtype_bytes(view->out[0].dtype) +
                  (view->op->accumulate ? 0 : pl_array_bytes(&view->out[0]));
}

const pl_kind_info pl_op_embed_backward = {.name = "embed_backward",
                                           .whole = "D",
                                           .in_place = PL_NONE,
                                           .cost = cost_backward,
                                           .run = run_backward};
