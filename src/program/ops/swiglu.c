/* swiglu -- a = silu(g) * u from (g, u).
 * swiglu_backward -- (dg, du) from (da, g, u). */
#include "config.h"

#include "kernels/swiglu.h"
#include "src/program/ops/ops.h"

static void run(const pl_op_view *view)
{
    if (view->out[0].dtype == PL_BF16)
        pl_swiglu_forward_bf16(view->out[0].n, view->in[0].data, view->in[1].data,
                               view->out[0].data);
    else
        pl_swiglu_forward(view->out[0].n, view->in[0].data, view->in[1].data, view->out[0].data);
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = 5.0 * (double)view->out[0].n;
    cost->bytes = pl_view_bytes(view);
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int da = pl_tape_gradient(tape, op->out[0]);

    if (da == PL_NONE)
        return;
    const int in[3] = {da, op->in[0], op->in[1]};
    const int out[2] = {pl_tape_new_gradient(tape, op->in[0]),
                        pl_tape_new_gradient(tape, op->in[1])};

    pl_tape_op(tape, op, PL_SWIGLU_BACKWARD, 3, in, 2, out);
    pl_tape_contribute(tape, op->in[0], out[0]);
    pl_tape_contribute(tape, op->in[1], out[1]);
}

const pl_kind_info pl_op_swiglu = {.name = "swiglu",
                                   .whole = "",
                                   .in_place = PL_NONE,
                                   .differentiate = differentiate,
                                   .cost = cost,
                                   .run = run};

static void run_backward(const pl_op_view *view)
{
    const pl_array *in = view->in, *out = view->out;

    if (in[0].dtype == PL_BF16)
        pl_swiglu_backward_bf16(in[0].n, in[1].data, in[2].data, in[0].data, out[0].data,
                                out[1].data);
    else
        pl_swiglu_backward(in[0].n, in[1].data, in[2].data, in[0].data, out[0].data, out[1].data);
}

static void cost_backward(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = 10.0 * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_swiglu_backward = {.name = "swiglu_backward",
                                            .whole = "",
                                            .in_place = 0,
                                            .cost = cost_backward,
                                            .run = run_backward};
