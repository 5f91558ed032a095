/* attention -- causal grouped-query attention: (o[T, B, N, H], lse[T, B, N]) from q[T, B, N, H],
 * k[T, B, K, H], v[T, B, K, H].
 * attention_backward -- (dq, dk, dv) from (q, k, v, o, do, lse).
 *
 * When N is split over more axes than K, each rank holds some query heads of its key/value heads'
 * groups, and its dk and dv are terms of a sum over the axes that only N is split over: the sum
 * stays pending (defers_sums) through rope and the projections, down to the weights' gradients. */
#include "config.h"

#include "kernels/attention.h"
#include "src/program/ops/ops.h"

#include <math.h>

static int64_t workspace(const pl_op_view *view)
{
    return pl_attention_scratch(view->in[0].extents.n[0], view->in[0].extents.n[3]);
}

static void run(const pl_op_view *view)
{
    const pl_extents *q = &view->in[0].extents;
    const int64_t T = q->n[0], B = q->n[1], N = q->n[2], K = view->in[1].extents.n[2], H = q->n[3];
    const float scale = (float)(1.0 / sqrt((double)H));
    const pl_array *in = view->in, *out = view->out;

    if (in[0].dtype == PL_BF16)
        pl_attention_forward_bf16(T, B, N, K, H, scale, in[0].data, in[1].data, in[2].data,
                                  out[0].data, out[1].data, view->workspace, view->progress);
    else
        pl_attention_forward(T, B, N, K, H, scale, in[0].data, in[1].data, in[2].data, out[0].data,
                             out[1].data, view->workspace, view->progress);
}

/* The pairs (query, key) that the mask lets through, times heads and head size. */
static double visible_pairs(const pl_extents *q)
{
    const double T = (double)q->n[0];

    return T * (T + 1) / 2 * (double)q->n[1] * (double)q->n[2] * (double)q->n[3];
}

/* Rows of a head lie [B, N, H] elements apart: how many pages begin from one to the next, at
 * most 1. */
static double pages_a_row(const pl_extents *x, pl_dtype dtype)
{
    const double page = 4096;

    return fmin(1, (double)(x->n[1] * x->n[2] * x->n[3]) * (double)pl_dtype_bytes(dtype) / page);
}

/* What forward and backward share. Returns what the kernel computes of a head; *heads of them. */
static pl_attention_work cost_both(const pl_op_view *view, pl_op_cost *cost, double *heads)
{
    const pl_extents *q = &view->in[0].extents, *k = &view->in[1].extents;
    const pl_attention_work work = pl_attention_count(view->in[0].dtype, q->n[0], q->n[3]);
    const double rows = (double)(q->n[0] * q->n[1]);
    const double q_pages = pages_a_row(q, view->in[0].dtype),
                 k_pages = pages_a_row(k, view->in[1].dtype);

    *heads = (double)(q->n[1] * q->n[2]);
    cost->a_elements = *heads * work.weights;
    cost->b_elements = rows * (double)((q->n[2] + k->n[2]) * work.padded_head);
    cost->c_elements = rows * ((double)q->n[2] * q_pages + (double)k->n[2] * k_pages);
    cost->bytes = pl_view_bytes(view);
    cost->is_attention = true;
    cost->dtype = view->in[0].dtype;
    return work;
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    double heads;
    const pl_attention_work work = cost_both(view, cost, &heads);

    cost->flops = 4.0 * visible_pairs(&view->in[0].extents);
    cost->done_flops = heads * work.forward_flops;
}

static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int d_o = pl_tape_gradient(tape, op->out[0]);

    if (d_o == PL_NONE)
        return;
    pl_program *p = pl_tape_program(tape);
    const int in[6] = {op->in[0], op->in[1], op->in[2], op->out[0], d_o, op->out[1]};
    int out[3];

    for (int i = 0; i < 3; i++)
        out[i] = pl_tape_new_gradient(tape, op->in[i]);
    p->values[out[1]].defers_sums = true;
    p->values[out[2]].defers_sums = true;
    pl_tape_op(tape, op, PL_ATTENTION_BACKWARD, 6, in, 3, out);
    for (int i = 0; i < 3; i++)
        pl_tape_contribute(tape, op->in[i], out[i]);
}

const pl_kind_info pl_op_attention = {.name = "attention",
                                      .whole = "TH",
                                      .linked = "NK",
                                      .n_statistics = 1,
                                      .in_place = PL_NONE,
                                      .differentiate = differentiate,
                                      .cost = cost,
                                      .run = run,
                                      .workspace = workspace};

static void run_backward(const pl_op_view *view)
{
    const pl_extents *q = &view->in[0].extents;
    const int64_t T = q->n[0], B = q->n[1], N = q->n[2], K = view->in[1].extents.n[2], H = q->n[3];
    const float scale = (float)(1.0 / sqrt((double)H));
    const pl_array *in = view->in, *out = view->out;

    if (in[0].dtype == PL_BF16)
        pl_attention_backward_bf16(T, B, N, K, H, scale, in[0].data, in[1].data, in[2].data,
                                   in[3].data, in[4].data, in[5].data, out[0].data, out[1].data,
                                   out[2].data, view->workspace, view->progress);
    else
        pl_attention_backward(T, B, N, K, H, scale, in[0].data, in[1].data, in[2].data, in[3].data,
                              in[4].data, in[5].data, out[0].data, out[1].data, out[2].data,
                              view->workspace, view->progress);
}

static void cost_backward(const pl_op_view *view, pl_op_cost *cost)
{
    double heads;
    const pl_attention_work work = cost_both(view, cost, &heads);

    cost->flops = 10.0 * visible_pairs(&view->in[0].extents);
    cost->done_flops = heads * work.backward_flops;
}

const pl_kind_info pl_op_attention_backward = {.name = "attention_backward",
                                               .whole = "TH",
                                               .linked = "NK",
                                               .in_place = PL_NONE,
                                               .cost = cost_backward,
                                               .run = run_backward,
                                               .workspace = workspace};
