/* toy -- a model small enough to count by hand. */
#include "config.h"

#include "tests/toy.h"

#include <check.h>

pl_plan toy_plan(const char *spec, int n_layers, int64_t batch, int64_t micro_batch)
{
    pl_plan plan = {.batch = batch,
                    .micro_batch = micro_batch,
                    .seq = TOY_T,
                    .pipeline = PL_GPIPE,
                    .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                    .model = {.name = "toy",
                              .n_layers = n_layers,
                              .d_model = TOY_D,
                              .n_heads = TOY_N,
                              .n_kv_heads = TOY_K,
                              .head_dim = TOY_H,
                              .d_ff = TOY_F,
                              .vocab = TOY_V,
                              .max_seq = TOY_T,
                              .rms_eps = 1e-5,
                              .rope_theta = 10000}};

    ck_assert_int_eq(pl_spec_parse(spec, &plan.spec), PL_OK);
    return plan;
}

pl_program *toy_program(const pl_plan *plan, pl_mesh *mesh, int stage)
{
    ck_assert_int_eq(pl_spec_mesh(&plan->spec, &plan->model, mesh), PL_OK);
    return pl_build(plan, mesh, stage);
}

/* The n-th op that communicates (or does not). */
static int nth_op(const pl_program *p, bool communicates, int n)
{
    for (int i = 0; i < p->n_ops; i++)
        if (pl_kind_is_communication(p->ops[i].kind) == communicates && n-- == 0)
            return i;
    ck_abort_msg("the toy has too few ops");
    return -1;
}

void toy_spans(pl_span_buffer *spans, const pl_program *p, double zero_s)
{
    const double z = zero_s;

    pl_span_add(spans, PL_TRACK_COMPUTE, nth_op(p, false, 0), 0, z + 0.0, z + 0.2);
    pl_span_add(spans, PL_TRACK_COMPUTE, nth_op(p, true, 0), 0, z + 0.2, z + 0.4);
    pl_span_add(spans, PL_TRACK_COMM, nth_op(p, true, 2), 0, z + 0.5, z + 0.6);
    pl_span_add(spans, PL_TRACK_COMM, nth_op(p, true, 0), 0, z + 0.1, z + 0.4);
    pl_span_add(spans, PL_TRACK_COMM, nth_op(p, true, 1), 0, z + 0.15, z + 0.5);
    pl_span_add(spans, PL_TRACK_COMPUTE, nth_op(p, false, 1), 0, z + 0.4, z + 1.0);
    pl_span_add(spans, PL_TRACK_STEP, 12, 0, z + 0.0, z + 1.0);
}
