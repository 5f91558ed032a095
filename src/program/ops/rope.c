/* rope -- rotary positions: y[T, B, heads, H] from (x, positions[T, B], cosine, sine).
 * rope_backward -- dx from (dy, positions, cosine, sine): the inverse rotation. */
#include "config.h"

#include "kernels/rope.h"
#include "src/program/ops/ops.h"

static void run(const pl_op_view *view)
{
    const pl_extents *e = &view->in[0].extents;
    const pl_array *in = view->in;

    if (in[0].dtype == PL_BF16)
        pl_rope_forward_bf16(e->n[0] * e->n[1], e->n[2], e->n[3], in[1].data, in[2].data,
                             in[3].data, in[0].data, view->out[0].data);
    else
        pl_rope_forward(e->n[0] * e->n[1], e->n[2], e->n[3], in[1].data, in[2].data, in[3].data,
                        in[0].data, view->out[0].data);
}

static void run_backward(const pl_op_view *view)
{
    const pl_extents *e = &view->in[0].extents;
    const pl_array *in = view->in;

    if (in[0].dtype == PL_BF16)
        pl_rope_backward_bf16(e->n[0] * e->n[1], e->n[2], e->n[3], in[1].data, in[2].data,
                              in[3].data, in[0].data, view->out[0].data);
    else
        pl_rope_backward(e->n[0] * e->n[1], e->n[2], e->n[3], in[1].data, in[2].data, in[3].data,
                         in[0].data, view->out[0].data);
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = 3.0 * (double)view->in[0].n;
    cost->bytes = pl_array_bytes(&view->in[0]) + pl_array_bytes(&view->out[0]);
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int dy = pl_tape_gradient(tape, op->out[0]);

    if (dy == PL_NONE)
        return;
    pl_program *p = pl_tape_program(tape);
    const int dx = pl_tape_new_gradient(tape, op->in[0]);
    const int in[4] = {dy, op->in[1], op->in[2], op->in[3]};

    p->values[dx].defers_sums = p->values[dy].defers_sums;
    pl_tape_op(tape, op, PL_ROPE_BACKWARD, 4, in, 1, &dx);
    pl_tape_contribute(tape, op->in[0], dx);
}

const pl_kind_info pl_op_rope = {.name = "rope",
                                 .whole = "H",
                                 .linear = true,
                                 .in_place = 0,
                                 .differentiate = differentiate,
                                 .cost = cost,
                                 .run = run};

const pl_kind_info pl_op_rope_backward = {.name = "rope_backward",
                                          .whole = "H",
                                          .linear = true,
                                          .in_place = 0,
                                          .cost = cost,
                                          .run = run_backward};
