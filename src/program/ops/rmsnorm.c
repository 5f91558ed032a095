/* rmsnorm -- (y[.., D], rstd[..]) from (x[.., D], g[D]); number[0] is eps.
 * rmsnorm_backward -- (dx, dg) from (dy, x, g, rstd, base): base, what dx is added to, may be
 * absent.
 */
#include "config.h"

#include "kernels/norm.h"
#include "src/program/ops/ops.h"

static void run(const pl_op_view *view)
{
    const int64_t R = view->out[1].n, D = view->in[1].n;
    const float eps = (float)view->op->number[0];
    const pl_array *in = view->in, *out = view->out;

    if (in[0].dtype == PL_BF16)
        pl_rmsnorm_forward_bf16(R, D, eps, in[0].data, in[1].data, out[0].data, out[1].data);
    else
        pl_rmsnorm_forward(R, D, eps, in[0].data, in[1].data, out[0].data, out[1].data);
}

static double rows_of(const pl_op_view *view)
{
    const int64_t D = pl_array_dim(view, false, 0, 'D');

    return D > 0 ? (double)view->in[0].n / (double)D : 0;
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    cost->a_elements = rows_of(view);
    cost->flops = 4.0 * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int dy = pl_tape_gradient(tape, op->out[0]);

    if (dy == PL_NONE)
        return;
    const int base = pl_tape_take(tape, op->in[0]);
    const int out[2] = {pl_tape_new_gradient(tape, op->in[0]),
                        pl_tape_new_gradient(tape, op->in[1])};
    const int in[5] = {dy, op->in[0], op->in[1], op->out[1], base};

    pl_tape_op(tape, op, PL_RMSNORM_BACKWARD, base == PL_NONE ? 4 : 5, in, 2, out);
    pl_tape_contribute(tape, op->in[0], out[0]);
    pl_tape_contribute(tape, op->in[1], out[1]);
}

const pl_kind_info pl_op_rmsnorm = {.name = "rmsnorm",
                                    .whole = "D",
                                    .n_statistics = 1,
                                    .in_place = PL_NONE,
                                    .differentiate = differentiate,
                                    .cost = cost,
                                    .run = run};

static void run_backward(const pl_op_view *view)
{
    const int64_t R = view->in[3].n, D = view->in[2].n;
    const pl_array *in = view->in, *out = view->out;
    const void *base = view->op->n_in == 5 ? in[4].data : NULL;

    if (in[0].dtype == PL_BF16)
        pl_rmsnorm_backward_bf16(R, D, in[1].data, in[2].data, in[3].data, in[0].data, base,
                                 out[0].data, false, out[1].data);
    else
        pl_rmsnorm_backward(R, D, in[1].data, in[2].data, in[3].data, in[0].data, base, out[0].data,
                            false, out[1].data);
}

static void cost_backward(const pl_op_view *view, pl_op_cost *cost)
{
    cost->a_elements = rows_of(view);
    cost->flops = (view->op->n_in == 5 ? 11.0 : 10.0) * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_rmsnorm_backward = {.name = "rmsnorm_backward",
                                             .whole = "D",
                                             .in_place = 0,
                                             .cost = cost_backward,
                                             .run = run_backward};
