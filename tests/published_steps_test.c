/* published_steps_test -- step times that others measured on TPU and GPU pods, predicted from the
 * files of doc/hardware by the code that plans are made of, with one set of efficiencies for all
 * (tests/published_steps.json says it, and the rows).
 *
 * Beside it the trivial predictor: one MFU per machine, the one that fits its rows best. */
#include "config.h"

#include "src/base/json.h"
#include "src/plan/search.h"
#include "src/roofline/predict.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 256, MOST_MACHINES = 16, LEAST_GAIN_PERCENT = 30 };

typedef struct {
    const char *id, *machine;
    double measured_s, predicted_s, trivial_s, mfu;
    double math_s, exposed_s, bubble_s; /* of the prediction */
} run;

static double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));

    ck_assert_msg(value != NULL, "%s", key);
    return value;
}

/* A model without a gate has two matrices of D x F; three of D x 2F/3 are as many FLOPs. */
static pl_model_config model_of(const json_t *row)
{
    const double F = number(row, "F");
    pl_model_config m = {.n_layers = (int)number(row, "L"),
                         .d_model = (int64_t)number(row, "D"),
                         .n_heads = (int64_t)number(row, "N"),
                         .n_kv_heads = (int64_t)number(row, "K"),
                         .head_dim = (int64_t)number(row, "H"),
                         .d_ff = (int64_t)(number(row, "gated") > 0 ? F : 2 * F / 3),
                         .vocab = (int64_t)number(row, "V"),
                         .max_seq = (int64_t)number(row, "T"),
                         .rms_eps = 1e-5,
                         .rope_theta = 1e4};

    snprintf(m.name, sizeof m.name, "%s", text(row, "id"));
    return m;
}

/* Memory does not limit what has run. */
static void set_machine(const json_t *row, pl_search_options *o)
{
    const pl_peak peak = pl_peak_find(text(row, "peak"));

    ck_assert_msg(pl_hardware_find(text(row, "hw"), &o->hw) == PL_OK, "%s", pl_status_message());
    o->hw.efficiency = pl_efficiency_typical;
    o->hw.chip.hbm_bytes = 1e18;
    ck_assert_msg(pl_hardware_machine(&o->hw, peak, &o->machine) == PL_OK, "%s",
                  pl_status_message());
    o->peak_flops_per_s = o->hw.chip.peak_flops_per_s[peak];
    if (peak == PL_PEAK_FP8) /* products are in fp8; attention is not */
        o->machine.attention_bf16_flops_per_s =
            o->hw.chip.peak_flops_per_s[PL_PEAK_BF16] * o->hw.efficiency.attention;
}

/* Before attention was fused, its scores passed through memory: written, read and written by
 * softmax and by dropout (with a byte of mask), read; and more often on the way back. Passes of two
 * bytes an element of [B, N, T, T]; done again where layers, or attention alone, are. */
static double scores_s(const json_t *row, const pl_search_options *o, const pl_candidate *c)
{
    const double forward = 6.5, backward = 9.5, tp = pl_spec_degree(&c->plan.spec, "tp");
    const double p = pl_spec_degree(&c->plan.spec, "pp"), T = (double)o->seq;
    const double m = c->estimate.n_microbatches, v = number(row, "interleave");
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    const double elements = (double)batch.micro_batch * (double)o->model.n_heads / tp * T * T;
    const double layer_s = 2 * (2 * forward + backward) * elements /
                           (o->hw.chip.hbm_bytes_per_s * o->hw.efficiency.memory);

    return number(row, "fused") > 0 ? 0 : layer_s * o->model.n_layers / p * (m + (p - 1) / v);
}

static void predict(const json_t *row, run *r)
{
    static pl_search_result result;
    pl_search_options o = {.model = model_of(row),
                           .dtype = PL_BF16,
                           .chips = (int64_t)number(row, "chips"),
                           .sequences = (int64_t)number(row, "sequences"),
                           .seq = (int64_t)number(row, "T"),
                           .cp = number(row, "cp") > 1 ? (int)number(row, "cp") : 0,
                           .typed = text(row, "spec"),
                           .zero = number(row, "zero") < 0 ? PL_AUTO : (int)number(row, "zero"),
                           .micro_batch = (int64_t)number(row, "micro"),
                           .remat = (int)number(row, "remat"),
                           .pipeline = PL_1F1B,
                           .interleave = (int)number(row, "interleave"),
                           .n_plans = 1};

    set_machine(row, &o);
    ck_assert_msg(pl_spec_parse(text(row, "spec"), &o.fixed) == PL_OK, "%s", pl_status_message());
    ck_assert_msg(pl_search(&o, &result) == PL_OK, "%s: %s", text(row, "id"), pl_status_message());
    const pl_estimate *e = &result.best[0].estimate;

    *r = (run){.id = text(row, "id"),
               .machine = text(row, "hw"),
               .measured_s = number(row, "measured_s"),
               .predicted_s = e->step_s + scores_s(row, &o, &result.best[0]),
               .math_s = e->math_s,
               .exposed_s = e->exposed_s,
               .bubble_s = e->bubble_s};
    r->mfu = pl_model_flops(&o.model, o.sequences, o.seq, true) /
             ((double)o.chips * o.peak_flops_per_s * r->measured_s);
}

/* For each machine the constant MFU with the least mean error over its rows: one of the rows' own.
 */
static void predict_trivially(run *runs, int n)
{
    for (int i = 0; i < n; i++) {
        double least = INFINITY, best = 1;

        for (int c = 0; c < n; c++) {
            double sum = 0;

            if (strcmp(runs[c].machine, runs[i].machine) != 0)
                continue;
            for (int j = 0; j < n; j++)
                if (strcmp(runs[j].machine, runs[i].machine) == 0)
                    sum += fabs(runs[j].mfu / runs[c].mfu - 1);
            if (sum < least) {
                least = sum;
                best = runs[c].mfu;
            }
        }
        runs[i].trivial_s = runs[i].measured_s * runs[i].mfu / best;
    }
}

START_TEST(steps_are_predicted_better_than_by_a_constant_mfu)
{
    static run runs[MOST_ROWS];
    const char *srcdir = getenv("srcdir");
    char path[4096];
    json_t *root, *row;
    size_t i;
    int n = 0, worst = 0;
    double sum = 0, trivial = 0, at_worst = 0;

    snprintf(path, sizeof path, "%s/tests/published_steps.json", srcdir != NULL ? srcdir : ".");
    ck_assert_msg(pl_json_load(path, &root) == PL_OK, "%s", pl_status_message());
    json_array_foreach(json_object_get(root, "rows"), i, row)
    {
        ck_assert_int_lt(n, MOST_ROWS);
        predict(row, &runs[n++]);
    }
    predict_trivially(runs, n);
    printf("%-42s %-8s %10s %10s %7s %8s   (math, exposed, bubble: s)\n", "run", "machine",
           "measured", "predicted", "error", "trivial");
    for (int k = 0; k < n; k++) {
        const run *r = &runs[k];
        const double error = r->predicted_s / r->measured_s - 1;

        sum += fabs(error);
        trivial += fabs(r->trivial_s / r->measured_s - 1);
        worst = fabs(error) > at_worst ? k : worst;
        at_worst = fmax(at_worst, fabs(error));
        printf("%-42s %-8s %8.3f s %8.3f s %6.1f%% %7.1f%%   (%.3g, %.3g, %.3g)\n", r->id,
               r->machine, r->measured_s, r->predicted_s, 100 * error,
               100 * (r->trivial_s / r->measured_s - 1), r->math_s, r->exposed_s, r->bubble_s);
    }
    printf("%d runs: mean error %.1f%%, worst %.1f%% (%s); one MFU per machine: mean %.1f%%\n", n,
           100 * sum / n, 100 * at_worst, runs[worst].id, 100 * trivial / n);
    fflush(stdout); /* a failure ends the process at once */
    ck_assert_int_gt(n, 20);
    ck_assert(sum <= (100 - LEAST_GAIN_PERCENT) / 100.0 * trivial);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("published steps");
    TCase *steps = tcase_create("steps");

    tcase_add_test(steps, steps_are_predicted_better_than_by_a_constant_mfu);
    tcase_set_timeout(steps, 240);
    suite_add_tcase(suite, steps);
    return ck_main(suite);
}
