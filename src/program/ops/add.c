/* add -- out = in[0] + in[1], elementwise. */
#include "config.h"

#include "kernels/elementwise.h"
#include "src/program/ops/ops.h"

static void run(const pl_op_view *view)
{
    if (view->out[0].dtype == PL_BF16)
        pl_add_bf16(view->out[0].n, view->in[0].data, view->in[1].data, view->out[0].data);
    else
        pl_add(view->out[0].n, view->in[0].data, view->in[1].data, view->out[0].data);
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = (double)view->out[0].n;
    cost->bytes = pl_view_bytes(view);
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int dy = pl_tape_gradient(tape, op->out[0]);

    if (dy == PL_NONE)
        return;
    pl_tape_contribute(tape, op->in[0], dy);
    pl_tape_contribute(tape, op->in[1], dy);
}

const pl_kind_info pl_op_add_arrays = {.name = "add",
                                       .whole = "",
                                       .linear = true,
                                       .term = 1,
                                       .in_place = 1,
                                       .differentiate = differentiate,
                                       .cost = cost,
                                       .run = run};
