/* estimate_test -- steps estimated from a few layers against the replay of whole programs. */
#include "config.h"

#include "src/roofline/choose.h"
#include "src/roofline/estimate.h"
#include "src/roofline/slots.h"
#include "tests/check_main.h"
#include "tests/search_case.h"

#include <math.h>

typedef struct {
    const char *hw, *spec;
    int n_layers;
    int64_t batch, micro_batch;
} example;

/* Wires that no placement would give, but every axis its own level. */
typedef struct {
    pl_plan plan;
    pl_mesh mesh;
    pl_wires wires[PL_MAX_AXES];
    pl_machine machine;
} setting;

static void open_setting(setting *s, const example *x)
{
    pl_hardware hw;

    ck_assert_msg(pl_hardware_find(x->hw, &hw) == PL_OK, "%s", pl_status_message());
    *s = (setting){.plan = {.model = case_model,
                            .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                            .batch = x->batch,
                            .micro_batch = x->micro_batch,
                            .seq = case_model.max_seq,
                            .pipeline = PL_1F1B,
                            .dtype = PL_BF16}};
    s->plan.model.n_layers = x->n_layers;
    ck_assert(pl_hardware_machine(&hw, PL_PEAK_BF16, &s->machine) == PL_OK);
    ck_assert(pl_spec_parse(x->spec, &s->plan.spec) == PL_OK);
    ck_assert(pl_spec_mesh(&s->plan.spec, &s->plan.model, &s->mesh) == PL_OK);
    for (int a = 0; a < s->mesh.n_axes; a++) {
        const int level =
            s->mesh.n_axes - 1 - a < hw.n_levels ? s->mesh.n_axes - 1 - a : hw.n_levels - 1;

        pl_wires_add(&s->wires[a], pl_wire_dim_of(&hw, level, s->mesh.axes[a].size, 1, 0));
    }
    s->plan.fabric.wires = s->wires;
}

static double memory_of(const pl_prediction *p)
{
    double sum = 0;

    for (int c = 0; c < PL_N_CLASSES; c++)
        sum += (double)p->memory_bytes[c];
    return sum;
}

/* Estimate and replay, within the given shares of each other. */
static void ck_estimates(const example *examples, int n, double step, double memory)
{
    for (int i = 0; i < n; i++) {
        setting s;
        pl_estimate e;

        open_setting(&s, &examples[i]);
        pl_prediction *p = pl_plan_predict(&s.plan, &s.machine);
        pl_estimate_step(&s.plan, NULL, &s.machine, &e);
        ck_assert_msg(fabs(e.step_s / p->step_s - 1) <= step, "%s: %.9g s, replayed %.9g s",
                      examples[i].spec, e.step_s, p->step_s);
        ck_assert_msg(fabs(e.total_bytes / memory_of(p) - 1) <= memory, "%s: %.9g bytes, not %.9g",
                      examples[i].spec, e.total_bytes, memory_of(p));
        if (p->n_stages == 1) /* the first microbatch stores gradients, those after it add */
            ck_assert(fabs(e.math_s / p->stages[0].math_s - 1) < 1e-3);
        pl_prediction_destroy(p);
    }
}

/* Layers in a row: all that is not linear is the scalars of sums of squares, one for 64 arrays.
 * Buffers are those of a window over the layers, and pack better or worse: a fiftieth of all
 * memory. */
START_TEST(without_a_pipeline_a_step_is_linear_in_its_layers)
{
    static const example examples[] = {
        {"h100", "fsdp:8", 12, 8, 0},           {"h100", "fsdp:8+tp:4", 9, 8, 0},
        {"tpu-v5p", "fsdp:64+tp:4", 24, 64, 0}, {"tpu-v5p", "tp:8", 10, 4, 2},
        {"tpu-v5e", "fsdp:64", 32, 64, 0},      {"h100", "dp:2", 1, 2, 0},
    };

    ck_estimates(examples, sizeof examples / sizeof examples[0], 1e-9, 0.02);
}
END_TEST

/* Where what the first layers leave on the links is hidden by later ones, few layers show too much
 * of it. */
START_TEST(a_backlog_on_the_links_is_overestimated_by_at_most_three_percent)
{
    static const example examples[] = {{"h100", "dp:4", 16, 4, 0},
                                       {"h100", "fsdp:8+tp:4", 5, 64, 2},
                                       {"tpu-v5e", "dp:4+fsdp:4", 7, 64, 0}};

    ck_estimates(examples, sizeof examples / sizeof examples[0], 0.03, 0.02);
}
END_TEST

START_TEST(a_pipeline_is_estimated_within_two_percent)
{
    static const example examples[] = {
        {"h100", "pp:2", 8, 8, 1},
        {"h100", "pp:4", 12, 16, 1},
        {"h100", "pp:4+fsdp:2", 8, 24, 1},
        {"h100", "pp:4+dp:2+tp:4", 10, 32, 2},
        {"h100", "pp:8+dp:8+tp:8", 16, 128, 1},
    };

    ck_estimates(examples, sizeof examples / sizeof examples[0], 0.02, 0.03);
}
END_TEST

START_TEST(equal_stages_leave_the_books_bubble)
{
    for (int n = 1; n <= 64; n *= 4)
        for (int m = n; m <= 4 * n; m *= 2) {
            double forward[64], backward[64], hop[64] = {0};

            for (int s = 0; s < n; s++) {
                forward[s] = 1;
                backward[s] = 2;
            }
            const pl_slot_times t = {PL_1F1B, n, m, forward, backward, backward, hop};
            ck_assert(pl_slots_replay(&t, NULL, NULL, NULL) == 3.0 * (m + n - 1));
        }
}
END_TEST

/* The last microbatch's backward pass goes through all stages one after another. */
START_TEST(reductions_behind_the_last_microbatch_add_up_over_the_stages)
{
    double forward[8], backward[8], last[8], hop[8] = {0};

    for (int s = 0; s < 8; s++) {
        forward[s] = 1;
        backward[s] = 2;
        last[s] = 5;
    }
    for (int n = 1; n <= 8; n++) {
        const pl_slot_times t = {PL_1F1B, n, 16, forward, backward, last, hop};

        ck_assert(pl_slots_replay(&t, NULL, NULL, NULL) == 3.0 * (16 + n - 1) + 3.0 * n);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("estimate");
    TCase *tc = tcase_create("steps");

    tcase_add_test(tc, without_a_pipeline_a_step_is_linear_in_its_layers);
    tcase_add_test(tc, a_backlog_on_the_links_is_overestimated_by_at_most_three_percent);
    tcase_add_test(tc, a_pipeline_is_estimated_within_two_percent);
    tcase_add_test(tc, reductions_behind_the_last_microbatch_add_up_over_the_stages);
    tcase_add_test(tc, equal_stages_leave_the_books_bubble);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
