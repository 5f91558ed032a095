/* published_test -- what others measured and printed: MFU from tokens/s, parameters.
 *
 * Each publisher counts FLOPs by a convention of its own (src/model/architecture.h) and divides by
 * the dense peak of the data sheet. */
#include "config.h"

#include "src/base/json.h"
#include "src/model/architecture.h"
#include "src/roofline/formula.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* bf16 unless said otherwise; NVIDIA's and Google's data sheets. */
#define A100 312e12
#define H100 989e12
#define H100_FP8 1979e12
#define V6E 918e12

enum { WITHIN_POINTS_PERCENT = 20 }; /* 0.2 points of MFU */

/* Rows of three public tables: mosaicml/llm-foundry scripts/train/benchmarking/README.md (PaLM's
 * convention), AI-Hypercomputer/maxtext docs/reference/models/tiering.md, and table 3 of the PaLM
 * paper. */
static const struct {
    const char *model;
    pl_flops_convention convention;
    double peak_flops_per_s, seq, chips, tokens_per_s, mfu_percent;
} rows[] = {
    {"mpt-70b", PL_FLOPS_PALM, H100, 2048, 512, 515636, 41.25},
    {"mpt-7b", PL_FLOPS_PALM, H100, 2048, 512, 4951479, 42.2},
    {"mpt-3b", PL_FLOPS_PALM, H100_FP8, 2048, 8, 244692, 27.7},
    {"mpt-13b", PL_FLOPS_PALM, A100, 2048, 8, 18097, 59.57},
    {"mpt-13b", PL_FLOPS_PALM, A100, 1024, 8, 18647, 59.48},
    {"mpt-760m", PL_FLOPS_PALM, A100, 8192, 8, 167471, 55.31},
    {"mpt-125m", PL_FLOPS_PALM, A100, 16384, 8, 480322, 50.61},
    {"mpt-1b", PL_FLOPS_PALM, A100, 16384, 8, 77723, 55.23},
    {"mpt-350m", PL_FLOPS_PALM, A100, 2048, 128, 6647647, 45.61},
    {"llama3.1-8b", PL_FLOPS_FULL, V6E, 8192, 1, 7207, 45.46},
    {"mt-nlg-530b", PL_FLOPS_PALM, A100, 2048, 2240, 65430, 30.2},
};

static pl_architecture find(const char *name, double seq)
{
    pl_architecture a;

    ck_assert_msg(pl_architecture_find(name, &a) == PL_OK, "%s", pl_status_message());
    if (a.learned_positions) /* the table is as long as the sequences are */
        a.max_seq = (int64_t)seq;
    return a;
}

static double mfu_percent(const pl_architecture *a, pl_flops_convention convention, double peak,
                          double seq, double chips, double tokens_per_s)
{
    return 100 * pl_formula_value("mfu", "mfu", "train_flops_per_token",
                                  pl_architecture_train_flops(a, seq, convention), "flops_per_s",
                                  peak, "tokens_per_s", tokens_per_s, "chips", chips, NULL);
}

START_TEST(mfu_follows_from_tokens_per_s)
{
    const pl_architecture a = find(rows[_i].model, rows[_i].seq);
    const double mfu = mfu_percent(&a, rows[_i].convention, rows[_i].peak_flops_per_s, rows[_i].seq,
                                   rows[_i].chips, rows[_i].tokens_per_s);

    ck_assert_msg(fabs(mfu - rows[_i].mfu_percent) <= WITHIN_POINTS_PERCENT / 100.0,
                  "%s: %.2f%%, published %.2f%%", rows[_i].model, mfu, rows[_i].mfu_percent);
}
END_TEST

/* --- the facts file, where it is --- */

/* Rows whose own figures do not agree, under any convention. */
static const struct {
    const char *id, *why;
} contradictory[] = {
    {"maxtext-tier-Llama 3.1 405B-TPU v6e (Trillium)",
     "123 tokens/s a chip are 33% to 36% of the peak, it says 38.55%"},
    {"maxtext-tier-Llama 2 70B-TPU v5p", "692 tokens/s a chip are 64.6% with half of attention and "
                                         "67.0% with all of it, it says 65.4%"},
};

static const char *contradiction(const char *id)
{
    for (size_t i = 0; i < sizeof contradictory / sizeof *contradictory; i++)
        if (strcmp(contradictory[i].id, id) == 0)
            return contradictory[i].why;
    return NULL;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value != NULL ? value : "";
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double peak_of(const json_t *row)
{
    const double given = 1e12 * number(row, "peak_tflops_per_chip");
    const bool fp8 = strstr(text(row, "precision"), "fp8") != NULL;

    if (!isnan(given))
        return given;
    if (strstr(text(row, "hardware"), "h100") != NULL)
        return fp8 ? H100_FP8 : H100;
    ck_assert_msg(strstr(text(row, "hardware"), "a100") != NULL, "%s: whose peak?",
                  text(row, "id"));
    return A100;
}

/* Both figures of the row; NaN without them. */
static double error_points(const json_t *row)
{
    const json_t *measured = json_object_get(row, "measured");
    const double published = number(measured, "mfu_pct"), seq = number(row, "seq");
    const bool maxtext = strncmp(text(row, "id"), "maxtext", 7) == 0;
    double chips = number(row, "chips"), rate = number(measured, "tokens_per_s");

    if (isnan(rate)) {
        rate = number(measured, "tokens_per_s_per_chip");
        chips = 1;
    }
    if (isnan(published) || isnan(rate))
        return NAN;
    const pl_architecture a = find(text(json_object_get(row, "model"), "name"), seq);
    const double params = number(json_object_get(row, "model"), "params");

    if (!isnan(params))
        ck_assert_int_eq(pl_architecture_params(&a).total, (int64_t)params);
    return mfu_percent(&a, maxtext ? PL_FLOPS_FULL : PL_FLOPS_PALM, peak_of(row), seq, chips,
                       rate) -
           published;
}

START_TEST(facts_agree)
{
    char path[4096];
    json_t *root, *list, *row;
    size_t i;
    double worst = 0;
    int n = 0, n_wrong = 0;

    if (!ck_testdata_path("../facts/published_runs.json", path, sizeof path))
        ck_skip("no file of published runs beside the test data");
    ck_assert_msg(pl_json_load(path, &root) == PL_OK, "%s", pl_status_message());
    list = json_object_get(root, "rows");
    json_array_foreach(list, i, row)
    {
        const double error = fabs(error_points(row));
        const char *why = contradiction(text(row, "id"));

        if (isnan(error))
            continue;
        if (why != NULL) {
            printf("%s left out: %s\n", text(row, "id"), why);
            continue;
        }
        n++;
        worst = fmax(worst, error);
        if (error > WITHIN_POINTS_PERCENT / 100.0) {
            printf("%s: MFU off by %.2f points\n", text(row, "id"), error);
            n_wrong++;
        }
    }
    printf("MFU of %d published runs recomputed: at most %.3f points off\n", n, worst);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(n_wrong, 0);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("published");
    TCase *mfu = tcase_create("mfu");

    tcase_add_loop_test(mfu, mfu_follows_from_tokens_per_s, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(mfu, facts_agree);
    suite_add_tcase(suite, mfu);
    return ck_main(suite);
}
