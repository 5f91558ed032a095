/* xent -- cross-entropy over a vocabulary that may be split, as three partials of [T, B]:
 *   xent_max   m = max over V of logits                                 ({max} over V's axes)
 *   xent_sum   (s, picked) from (logits, targets, m)                    ({U} over V's axes)
 *   xent_loss  loss = scale * sum of log s + m - picked, from (m, s, picked, scale)
 *   xent_grad  dlogits from (logits, targets, m, s, scale)
 * `scale` is 1 / tokens of the global batch, a scalar that the host sets: the loss is the mean over
 * all tokens however the batch is cut. xent_loss starts the backward pass. */
#include "config.h"

#include "kernels/xent.h"
#include "src/base/panic.h"
#include "src/program/ops/ops.h"

/* V's range in this rank's logits[T, B, V]. */
static int64_t v_count(const pl_op_view *view)
{
    return view->in[0].extents.n[2];
}

static int64_t v_begin(const pl_op_view *view)
{
    return view->in[0].extents.begin[2];
}

static void run_max(const pl_op_view *view)
{
    if (view->in[0].dtype == PL_BF16)
        pl_xent_max_bf16(view->out[0].n, v_count(view), view->in[0].data, view->out[0].data);
    else
        pl_xent_max(view->out[0].n, v_count(view), view->in[0].data, view->out[0].data);
}

static double rows_of(const pl_op_view *view)
{
    const int64_t V = v_count(view);

    return V > 0 ? (double)view->in[0].n / (double)V : 0;
}

static void cost_max(const pl_op_view *view, pl_op_cost *cost)
{
    cost->a_elements = rows_of(view);
    cost->flops = (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_xent_max = {
    .name = "xent_max", .whole = "", .in_place = PL_NONE, .cost = cost_max, .run = run_max};

static void run_sum(const pl_op_view *view)
{
    const pl_array *in = view->in, *out = view->out;

    if (in[0].dtype == PL_BF16)
        pl_xent_sum_bf16(out[0].n, v_count(view), v_begin(view), in[0].data, in[1].data, in[2].data,
                         out[0].data, out[1].data);
    else
        pl_xent_sum(out[0].n, v_count(view), v_begin(view), in[0].data, in[1].data, in[2].data,
                    out[0].data, out[1].data);
}

static void cost_sum(const pl_op_view *view, pl_op_cost *cost)
{
    cost->a_elements = rows_of(view);
    cost->flops = 2.0 * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_xent_sum = {
    .name = "xent_sum", .whole = "", .in_place = PL_NONE, .cost = cost_sum, .run = run_sum};

static void run_loss(const pl_op_view *view)
{
    const float *scale = view->in[3].data;

    pl_xent_loss(view->in[0].n, view->in[0].data, view->in[1].data, view->in[2].data, *scale,
                 view->op->accumulate, view->out[0].data);
}

static void cost_loss(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = 4.0 * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

/* The op that made `value`. */
static const pl_op *maker_of(const pl_program *p, int value)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].out[0] == value)
            return &p->ops[i];
    PL_PANIC("nothing makes %s", p->values[value].name);
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const pl_op *sum = maker_of(pl_tape_program(tape), op->in[1]);
    const int logits = sum->in[0], targets = sum->in[1];
    const int in[5] = {logits, targets, op->in[0], op->in[1], op->in[3]};
    const int dlogits = pl_tape_new_gradient(tape, logits);

    pl_tape_op(tape, op, PL_XENT_GRAD, 5, in, 1, &dlogits);
    pl_tape_contribute(tape, logits, dlogits);
}

const pl_kind_info pl_op_xent_loss = {.name = "xent_loss",
                                      .whole = "",
                                      .in_place = PL_NONE,
                                      .differentiate = differentiate,
                                      .cost = cost_loss,
                                      .run = run_loss};

static void run_grad(const pl_op_view *view)
{
    const pl_array *in = view->in;
    const float *scale = in[4].data;

    if (in[0].dtype == PL_BF16)
        pl_xent_grad_bf16(in[2].n, v_count(view), v_begin(view), in[0].data, in[1].data, in[2].data,
                          in[3].data, *scale, view->out[0].data);
    else
        pl_xent_grad(in[2].n, v_count(view), v_begin(view), in[0].data, in[1].data, in[2].data,
                     in[3].data, *scale, view->out[0].data);
}

static void cost_grad(const pl_op_view *view, pl_op_cost *cost)
{
    cost->a_elements = rows_of(view);
    cost->flops = 2.0 * (double)view->in[0].n;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_xent_grad = {
    .name = "xent_grad", .whole = "", .in_place = 0, .cost = cost_grad, .run = run_grad};
