/* The ops of the update phase.
 *   accumulate   out (+)= in[0]: a microbatch's gradient into its accumulator
 *   fill         out = number[0]
 *   sum_squares  out = sum of the squares of all elements of all inputs
 *   clip         (norm, factor) from sums of squares and in[last], the limit: norm is the root of
 *                their sum, factor = min(1, limit / norm) as f32 training loops have it; a limit of
 *                0 leaves gradients alone
 *   adamw        (w, m, v) from (w, g, m, v, factor, lr, bias1, bias2), in place; number: beta1,
 *                beta2, eps, weight decay. A bf16 w has a master, the f32 weight that is updated:
 *                (w, m, v, master) from (w, g, ..., bias2, master), where w is not read */
#include "config.h"

#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "src/program/ops/ops.h"

#include <math.h>

static void run_accumulate(const pl_op_view *view)
{
    if (view->op->accumulate)
        pl_add(view->out[0].n, view->out[0].data, view->in[0].data, view->out[0].data);
    else
        pl_copy(view->out[0].n, view->in[0].data, view->out[0].data);
}

static void cost_accumulate(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = view->op->accumulate ? (double)view->out[0].n : 0;
    cost->bytes = pl_array_bytes(&view->in[0]) +
                  (view->op->accumulate ? 2 : 1) * pl_array_bytes(&view->out[0]);
}

const pl_kind_info pl_op_accumulate = {.name = "accumulate",
                                       .whole = "",
                                       .linear = true,
                                       .in_place = PL_NONE,
                                       .cost = cost_accumulate,
                                       .run = run_accumulate};

static void run_fill(const pl_op_view *view)
{
    float *out = view->out[0].data;

    for (int64_t i = 0; i < view->out[0].n; i++)
        out[i] = (float)view->op->number[0];
}

static void cost_fill(const pl_op_view *view, pl_op_cost *cost)
{
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_fill = {
    .name = "fill", .whole = "", .in_place = PL_NONE, .cost = cost_fill, .run = run_fill};

static void run_sum_squares(const pl_op_view *view)
{
    float *out = view->out[0].data;
    double sum = view->op->accumulate ? *out : 0;

    for (int i = 0; i < view->op->n_in; i++)
        sum += pl_sum_of_squares(view->in[i].data, view->in[i].n);
    *out = (float)sum;
}

static void cost_sum_squares(const pl_op_view *view, pl_op_cost *cost)
{
    cost->bytes = pl_view_bytes(view);
    for (int i = 0; i < view->op->n_in; i++)
        cost->flops += 2.0 * (double)view->in[i].n;
}

const pl_kind_info pl_op_sum_squares = {.name = "sum_squares",
                                        .whole = "",
                                        .term = 1,
                                        .in_place = PL_NONE,
                                        .cost = cost_sum_squares,
                                        .run = run_sum_squares};

static void run_clip(const pl_op_view *view)
{
    const int n_sums = view->op->n_in - 1;
    const float limit = *(const float *)view->in[n_sums].data;
    double sum = 0;

    for (int i = 0; i < n_sums; i++)
        sum += *(const float *)view->in[i].data;
    const double norm = sqrt(sum);

    *(float *)view->out[0].data = (float)norm;
    *(float *)view->out[1].data = limit > 0 && norm > limit ? (float)(limit / norm) : 1.0f;
}

static void cost_clip(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = view->op->n_in + 1;
    cost->bytes = pl_view_bytes(view);
}

const pl_kind_info pl_op_clip = {
    .name = "clip", .whole = "", .in_place = PL_NONE, .cost = cost_clip, .run = run_clip};

/* Whether f32 weights of their own are updated, and the weight is what they round to. */
static bool has_master(const pl_op_view *view)
{
    return view->op->n_out == 4;
}

static void run_adamw(const pl_op_view *view)
{
    const double *number = view->op->number;
    const pl_adamw_scalars scalars = {.gradient_scale = *(const float *)view->in[4].data,
                                      .lr = *(const float *)view->in[5].data,
                                      .bias1 = *(const float *)view->in[6].data,
                                      .bias2 = *(const float *)view->in[7].data,
                                      .beta1 = number[0],
                                      .beta2 = number[1],
                                      .eps = number[2],
                                      .weight_decay = number[3]};

    const pl_array *out = view->out;

    if (has_master(view))
        pl_adamw_bf16(out[0].n, &scalars, view->in[1].data, out[3].data, out[1].data, out[2].data,
                      out[0].data);
    else
        pl_adamw(out[0].n, &scalars, view->in[1].data, out[0].data, out[1].data, out[2].data);
}

static void cost_adamw(const pl_op_view *view, pl_op_cost *cost)
{
    cost->flops = 15.0 * (double)view->out[0].n;
    /* The gradient and the moments are read, and the master or, without one, the weight. */
    cost->bytes = pl_array_bytes(&view->in[has_master(view) ? 8 : 0]);
    for (int i = 1; i <= 3; i++)
        cost->bytes += pl_array_bytes(&view->in[i]);
    for (int i = 0; i < view->op->n_out; i++)
        cost->bytes += pl_array_bytes(&view->out[i]);
}

const pl_kind_info pl_op_adamw = {
    .name = "adamw", .whole = "", .in_place = PL_NONE, .cost = cost_adamw, .run = run_adamw};
