/* predict_test -- whole steps as they are predicted: bounds, bytes on the wire, memory, bubbles, FLOPs.
 * No MPI: nothing here runs. */
#include "config.h"

#include "src/roofline/predict.h"

#include "src/program/communicate.h"
#include "src/roofline/choose.h"
#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/tiny_plan.h"

#include <math.h>

enum { MAX_STAGES = 8 };

/* The stages' programs of a plan. */
typedef struct {
    pl_mesh mesh;
    int n;
    const pl_program *stage[MAX_STAGES];
} stages;

static void stages_build(stages *st, const pl_plan *plan)
{
    ck_assert(pl_spec_mesh(&plan->spec, &plan->model, &st->mesh) == PL_OK);
    st->n = pl_spec_degree(&plan->spec, "pp");
    for (int s = 0; s < st->n; s++)
        st->stage[s] = pl_build(plan, &st->mesh, s);
}

static void stages_destroy(stages *st)
{
    for (int s = 0; s < st->n; s++)
        pl_program_destroy((pl_program *)st->stage[s]);
}

static const char *const specs[] = {
    "dp:1",
    "dp:2",
    "dp:3",
    "fsdp:2",
    "fsdp:3",
    "fsdp:5",
    "tp:2",
    "tp:8",
    "pp:2",
    "pp:5",
    "fsdp:2+tp:2",
    "fsdp:1+dp:2",
    "dp:2+fsdp:2+tp:2",
    "dp:2+pp:3",
    "pp:2+fsdp:2+tp:2",
};
enum { N_SPECS = sizeof specs / sizeof *specs };

START_TEST(a_step_lies_between_its_bounds)
{
    const pl_machine machine = synthetic();

    for (int pipeline = PL_GPIPE; pipeline <= PL_1F1B; pipeline++)
        for (int micro = 1; micro <= 4; micro++) {
            pl_plan plan = tiny_plan(specs[_i], 10, micro);

            plan.pipeline = (pl_pipeline_kind)pipeline;
            pl_prediction *prediction = pl_plan_predict(&plan, &machine);
            const int n = prediction->stages[0].n_ops * prediction->n_stages * 4;

            ck_assert_msg(prediction->lower_s <= prediction->step_s ||
                              agrees(prediction->lower_s, prediction->step_s, n),
                          "%s: %g s is below %g s", specs[_i], prediction->step_s,
                          prediction->lower_s);
            ck_assert_msg(prediction->step_s <= prediction->upper_s ||
                              agrees(prediction->upper_s, prediction->step_s, n),
                          "%s: %g s is above %g s", specs[_i], prediction->step_s,
                          prediction->upper_s);
            ck_assert(prediction->lower_s > 0);
            pl_prediction_destroy(prediction);
        }
}
END_TEST

START_TEST(wire_bytes_are_those_of_every_ranks_schedules)
{
    for (int zero = 0; zero <= 2; zero++) {
        pl_plan plan = tiny_plan(specs[_i], 11, 2); /* uneven shares, uneven microbatches */
        stages st;

        plan.spec.zero = zero;
        stages_build(&st, &plan);
        const pl_wire wire = pl_predict_wire(st.stage, st.n);
        for (int w = 0; w < wire.n; w++) {
            int64_t bytes = 0;

            for (int64_t r = 0; r < pl_mesh_size(&st.mesh); r++) {
                const pl_coords coords = pl_mesh_coords(&st.mesh, r);
                const int pp = pl_mesh_axis(&st.mesh, "pp");
                const pl_program *p = st.stage[pp >= 0 ? coords.at[pp] : 0];

                for (int i = 0; i < p->n_ops; i++) {
                    if (!pl_kind_is_communication(p->ops[i].kind) ||
                        pl_op_group(p, &p->ops[i]) != wire.axes[w])
                        continue;
                    pl_schedule *s = pl_op_schedule(p, &p->ops[i], coords, NULL);
                    bytes += pl_schedule_count(s, PL_F32).wire_bytes;
                    pl_schedule_destroy(s);
                }
            }
            ck_assert_int_eq(wire.bytes[w], bytes);
        }
        stages_destroy(&st);
    }
}
END_TEST

/* Bytes of a plan over all axes. */
static int64_t all_wire_bytes(const pl_plan *plan)
{
    stages st;
    int64_t bytes = 0;

    stages_build(&st, plan);
    const pl_wire wire = pl_predict_wire(st.stage, st.n);
    for (int w = 0; w < wire.n; w++)
        bytes += wire.bytes[w];
    stages_destroy(&st);
    return bytes;
}

START_TEST(dp_reduces_every_gradient_once)
{
    const pl_plan plan = tiny_plan("dp:4", 8, 1);
    const int64_t n_params = pl_model_n_params(&plan.model);

    /* A ring AllReduce moves 2 (P-1) n elements over all ranks; the loss is one more number. */
    ck_assert_int_eq(all_wire_bytes(&plan), 4 * 2 * 3 * (n_params + 1));
}
END_TEST

START_TEST(fsdp_gathers_weights_twice_and_scatters_gradients_once)
{
    const pl_plan plan = tiny_plan("fsdp:2", 8, 0);
    const int64_t n_params = pl_model_n_params(&plan.model);
    const int64_t n_embed = plan.model.vocab * plan.model.d_model;

    /* (P-1) n elements each time over all ranks; the backward pass needs no embedding. The loss
     * and the sum of squares: a number to the other and back. */
    ck_assert_int_eq(all_wire_bytes(&plan), 4 * (3 * n_params - n_embed + 2 * 2));
}
END_TEST

START_TEST(accumulation_does_not_add_to_dps_bytes)
{
    const pl_plan whole = tiny_plan("dp:2", 8, 0), cut = tiny_plan("dp:2", 8, 1);

    ck_assert_int_eq(all_wire_bytes(&whole), all_wire_bytes(&cut));
}
END_TEST

/* A model whose layers are nearly all of its work, and a machine that only matmuls cost. */
static pl_plan even_plan(const char *spec, int64_t batch)
{
    pl_plan plan = tiny_plan(spec, batch, 1);

    plan.model = (pl_model_config){.n_layers = 8,
                                   .d_model = 64,
                                   .n_heads = 4,
                                   .n_kv_heads = 4,
                                   .head_dim = 16,
                                   .d_ff = 128,
                                   .vocab = 2,
                                   .max_seq = 64,
                                   .rms_eps = 1e-5,
                                   .rope_theta = 10000};
    plan.seq = 64;
    return plan;
}

START_TEST(a_pipeline_of_equal_stages_has_the_bubble_of_the_book)
{
    pl_machine machine = round_machine();
    const pl_link free_link = {
        .latency_s = 0, .one_way_bytes_per_s = INFINITY, .both_ways_bytes_per_s = INFINITY};
    const int p = 4, m = 6;
    pl_plan plan = even_plan("pp:4", m);

    machine.op_overhead_s = machine.comm_overhead_s = 0;
    machine.peak_flops_per_s = machine.memory_bytes_per_s.rate[0] = INFINITY;
    machine.reduce_bytes_per_s = machine.copy_bytes_per_s = INFINITY;
    machine.link[0] = machine.link[1] = free_link;
    plan.pipeline = (pl_pipeline_kind)_i;
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    double least_s = INFINITY, most_s = 0;
    for (int s = 0; s < p; s++) {
        least_s = fmin(least_s, prediction->stages[s].math_s);
        most_s = fmax(most_s, prediction->stages[s].math_s);
    }
    /* Only the head tells the last stage from the others. */
    ck_assert(most_s < 1.01 * least_s);
    const double drawn_out = (double)(m + p - 1) / m;
    ck_assert_double_ge(prediction->step_s, drawn_out * least_s);
    ck_assert_double_le(prediction->step_s, drawn_out * most_s);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(memory_is_that_of_the_largest_stage)
{
    const pl_machine machine = synthetic();
    const pl_plan plan = tiny_plan("pp:3", 4, 1);
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    stages st;

    stages_build(&st, &plan);
    for (int c = 0; c < PL_N_CLASSES; c++) {
        size_t most = 0;

        for (int s = 0; s < st.n; s++)
            most = st.stage[s]->pool_bytes[c] > most ? st.stage[s]->pool_bytes[c] : most;
        ck_assert_uint_eq(prediction->memory_bytes[c], most);
    }
    stages_destroy(&st);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(evaluation_needs_no_gradients)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("fsdp:2+tp:2", 4, 1);

    plan.forward_only = true;
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    ck_assert_uint_eq(prediction->memory_bytes[PL_GRADIENT], 0);
    ck_assert_uint_eq(prediction->memory_bytes[PL_MOMENT], 0);
    ck_assert(prediction->memory_bytes[PL_WEIGHT] > 0);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(a_share_that_does_not_divide_makes_one_more_microbatch)
{
    const pl_plan plan = tiny_plan("dp:2", 7, 3); /* shares of 4 and 3 */
    pl_mesh mesh;

    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).n_microbatches, 2);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).micro_batch, 3);
}
END_TEST

START_TEST(without_a_microbatch_size_a_share_is_one_microbatch)
{
    const pl_plan plan = tiny_plan("dp:2", 7, 0);
    pl_mesh mesh;

    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).n_microbatches, 1);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).micro_batch, 4);
}
END_TEST

START_TEST(model_flops_are_six_per_weight_and_token_and_causal_attention)
{
    /* tiny, per layer: wq, wo 2 x 72 x 8 x 18; wk, wv 2 x 72 x 4 x 18; 3 x 72 x 172; head 257 x 72.
     */
    const pl_plan plan = tiny_plan("dp:1", 1, 0);
    const double weights = 5.0 * (20736 + 10368 + 37152) + 18504;
    const double attention = 5.0 * 4 * 8 * 18 * (63 * 64 / 2);

    ck_assert(pl_model_flops(&plan.model, 10, 63, true) == 10 * (6 * weights * 63 + 3 * attention));
    ck_assert(pl_model_flops(&plan.model, 10, 63, false) == 10 * (2 * weights * 63 + attention));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("predict");
    TCase *steps = tcase_create("steps");

    tcase_add_loop_test(steps, a_step_lies_between_its_bounds, 0, N_SPECS);
    tcase_add_loop_test(steps, wire_bytes_are_those_of_every_ranks_schedules, 0, N_SPECS);
    tcase_add_test(steps, dp_reduces_every_gradient_once);
    tcase_add_test(steps, fsdp_gathers_weights_twice_and_scatters_gradients_once);
    tcase_add_test(steps, accumulation_does_not_add_to_dps_bytes);
    tcase_add_loop_test(steps, a_pipeline_of_equal_stages_has_the_bubble_of_the_book, PL_GPIPE,
                        PL_1F1B + 1);
    tcase_add_test(steps, memory_is_that_of_the_largest_stage);
    tcase_add_test(steps, evaluation_needs_no_gradients);
    tcase_add_test(steps, a_share_that_does_not_divide_makes_one_more_microbatch);
    tcase_add_test(steps, without_a_microbatch_size_a_share_is_one_microbatch);
    tcase_add_test(steps, model_flops_are_six_per_weight_and_token_and_causal_attention);
    suite_add_tcase(suite, steps);
    return ck_main(suite);
}
