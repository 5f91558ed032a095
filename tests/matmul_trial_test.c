/* matmul_trial_test -- who is chosen by given times, that pl_matmul() obeys, and the file that keeps
 * it. No test depends on what takes how long here. */
#include "config.h"

#include "kernels/matmul_trial.h"

#include "kernels/isa.h"
#include "src/base/memory.h"
#include "src/program/kinds.h"
#include "src/roofline/price.h"
#include "src/roofline/trial.h"
#include "src/roofline/trial_file.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the verdict --- */

static bool prefers_openblas(const double *own_s, const double *openblas_s, int n)
{
    pl_matmul_tried tried = {0};

    pl_matmul_judge(own_s, openblas_s, n, &tried);
    return tried.openblas;
}

START_TEST(openblas_is_chosen_when_faster_by_more_than_the_spread)
{
    const double own_s[] = {1.00, 1.02, 1.01, 1.00, 9.00}; /* one sample was disturbed */
    const double openblas_s[] = {0.90, 0.91, 0.90, 0.92, 0.91};
    pl_matmul_tried tried = {0};

    pl_matmul_judge(own_s, openblas_s, 5, &tried);
    ck_assert(tried.openblas && tried.own_s == 1.01 && tried.openblas_s == 0.91);
}
END_TEST

START_TEST(own_is_kept_when_the_spread_of_either_hides_the_gain)
{
    const double calm_s[] = {1.00, 1.01, 1.00, 1.01, 1.00};
    const double wide_s[] = {0.80, 0.80, 0.90, 1.05, 1.05};
    const double slow_wide_s[] = {1.00, 1.00, 1.20, 1.30, 1.30};

    ck_assert(!prefers_openblas(calm_s, wide_s, 5));      /* gain .10, spread .25 */
    ck_assert(!prefers_openblas(slow_wide_s, calm_s, 5)); /* gain .20, spread .30 */
}
END_TEST

START_TEST(own_is_kept_when_equal_slower_or_hardly_slower)
{
    const double own_s[] = {1.0, 1.0, 1.0}, equal_s[] = {1.0, 1.0, 1.0};
    const double hardly_s[] = {0.99, 0.99, 0.99}, slower_s[] = {1.5, 1.5, 1.5};
    const double faster_s[] = {0.97, 0.97, 0.97};

    ck_assert(!prefers_openblas(own_s, equal_s, 3));
    ck_assert(!prefers_openblas(own_s, slower_s, 3));
    ck_assert(!prefers_openblas(own_s, hardly_s, 3));
    ck_assert(prefers_openblas(own_s, faster_s, 3));
}
END_TEST

/* --- the table --- */

enum { M = 5, N = 40, K = 700 };

static float *random_floats(int64_t n, uint32_t seed)
{
    float *x = pl_alloc((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++) {
        seed = 1664525 * seed + 1013904223;
        x[i] = (float)seed / 4294967296.0f - 0.5f;
    }
    return x;
}

static const pl_matmul_shape plain = {.M = M, .N = N, .K = K, .lda = K, .ldb = N, .ldc = N};

/* What pl_matmul() makes of the plain shape, and each of both by itself. */
typedef struct {
    float chosen[M * N], own[M * N], openblas[M * N];
} results;

static void multiply(const float *a, const float *b, float *c)
{
    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, c, N, NULL);
}

static void multiply_by_all(results *r)
{
    float *a = random_floats(M * K, 1), *b = random_floats(K * N, 2);

    pl_matmul_set_backend(PL_MATMUL_AUTO);
    multiply(a, b, r->chosen);
    pl_matmul_set_backend(PL_MATMUL_OWN);
    multiply(a, b, r->own);
    pl_matmul_set_backend(PL_MATMUL_OPENBLAS);
    multiply(a, b, r->openblas);
    pl_matmul_set_backend(PL_MATMUL_AUTO);
    pl_free(a);
    pl_free(b);
    /* else nothing could be told from the result */
    ck_assert_mem_ne(r->own, r->openblas, sizeof r->own);
}

static void ck_multiplies_by(bool openblas)
{
    results r;

    multiply_by_all(&r);
    ck_assert_mem_eq(r.chosen, openblas ? r.openblas : r.own, sizeof r.chosen);
}

START_TEST(auto_computes_a_shape_by_whom_the_trial_chose)
{
    pl_matmul_tried tried[] = {{.shape = {.M = 9, .N = 9, .K = 9}, .own_s = 1, .openblas_s = 2},
                               {.shape = plain, .own_s = 2, .openblas_s = 1, .openblas = true}};

    pl_matmul_use_tried(tried, 2);
    ck_multiplies_by(true);
    tried[1].openblas = false;
    pl_matmul_use_tried(tried, 2);
    ck_multiplies_by(false);
}
END_TEST

START_TEST(a_trial_of_another_shape_chooses_nothing)
{
    pl_matmul_tried others[9];

    for (int i = 0; i < 9; i++)
        others[i] = (pl_matmul_tried){.shape = plain, .own_s = 2, .openblas_s = 1, .openblas = true};
    others[0].shape.M++;
    others[1].shape.N++;
    others[2].shape.K++;
    others[3].shape.lda++;
    others[4].shape.ldb++;
    others[5].shape.ldc++;
    others[6].shape.accumulate = true;
    others[7].shape.trans_a = PL_TRANS;
    others[8].shape.trans_b = PL_TRANS;
    pl_matmul_use_tried(others, 9);
    ck_assert_ptr_null(pl_matmul_find_tried(&plain));
    if (pl_isa_best() != PL_ISA_GENERIC)
        ck_multiplies_by(false);
}
END_TEST

START_TEST(a_shape_is_timed_whole_or_in_part)
{
    const pl_matmul_shape large = {.trans_a = PL_TRANS,
                                   .M = 700,
                                   .N = 300,
                                   .K = 900,
                                   .lda = 700,
                                   .ldb = 300,
                                   .ldc = 300,
                                   .accumulate = true};

    for (int i = 0; i < 2; i++) {
        pl_matmul_trial *trial = pl_matmul_trial_create(&large, i == 0 ? 1e12 : 1e6);

        pl_matmul_trial_run(trial, false, true, 1); /* by the sanitizers: within its arrays */
        pl_matmul_trial_run(trial, true, true, 1);
        pl_matmul_trial_destroy(trial);
    }
}
END_TEST

/* --- prices --- */

START_TEST(a_product_costs_what_whom_the_trial_chose_takes)
{
    const pl_coords origin = {{0}};
    const pl_plan plan = toy_plan("dp:1", 1, 2, 0);
    const pl_machine machine = {.matmul_flops_per_s = {.n_points = 1, .size = {1}, .rate = {1e9}},
                                .memory_bytes_per_s = {.n_points = 1, .size = {1}, .rate = {1e12}},
                                .peak_flops_per_s = 1e9};
    pl_matmul_shape shapes[PL_MAX_OPERANDS / 2];
    pl_mesh mesh;
    pl_program *p = toy_program(&plan, &mesh, 0);
    int i = 0;

    while (pl_op_products(p, &p->ops[i], origin, shapes) == 0)
        i++;
    pl_pricer *pricer = pl_pricer_create(&machine);
    const pl_matmul_tried tried = {
        .shape = shapes[0], .own_s = 4, .openblas_s = 3, .openblas = true};
    const double by_rule_s = pl_price_op(pricer, p, &p->ops[i], origin).time_s;
    pl_matmul_use_tried(&tried, 1);
    ck_assert_double_eq(pl_price_op(pricer, p, &p->ops[i], origin).time_s, 0.75 * by_rule_s);
    ck_assert(by_rule_s > 0);
    pl_matmul_use_tried(NULL, 0);
    ck_assert_double_eq(pl_price_op(pricer, p, &p->ops[i], origin).time_s, by_rule_s);
    pl_pricer_destroy(pricer);
    pl_program_destroy(p);
}
END_TEST

/* --- the file --- */

static const pl_matmul_tried two[] = {
    {.shape = {.trans_b = PL_TRANS, .M = 1, .N = 2, .K = 3, .lda = 4, .ldb = 5, .ldc = 6},
     .own_s = 1.0 / 3,
     .openblas_s = 2.0 / 7,
     .openblas = true},
    {.shape = {.trans_a = PL_TRANS, .accumulate = true, .M = 7, .N = 8, .K = 9, .lda = 10, .ldb = 11,
               .ldc = 12},
     .own_s = 1e-6,
     .openblas_s = 2e-6},
};

static void write_two(const char *path)
{
    pl_trials trials = {0};

    for (int i = 0; i < 2; i++)
        pl_trials_put(&trials, &two[i]);
    ck_accepted(pl_trials_write(path, &trials));
    pl_trials_free(&trials);
}

START_TEST(what_was_tried_is_read_back_bit_for_bit)
{
    char path[SCRATCH_PATH];
    pl_trials trials;

    write_two(scratch_path("trials.json", path));
    ck_accepted(pl_trials_read(path, &trials));
    ck_assert_int_eq(trials.n, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert(pl_matmul_shape_equal(&trials.entry[i].shape, &two[i].shape));
        ck_assert(trials.entry[i].own_s == two[i].own_s);
        ck_assert(trials.entry[i].openblas_s == two[i].openblas_s);
        ck_assert(trials.entry[i].openblas == two[i].openblas);
    }
    pl_trials_free(&trials);
}
END_TEST

START_TEST(a_full_file_gives_up_what_was_added_first)
{
    pl_trials trials = {0};
    pl_matmul_tried tried = two[0];

    for (int64_t m = 1; m <= PL_TRIALS_MOST + 2; m++) {
        tried.shape.M = m;
        pl_trials_put(&trials, &tried);
    }
    ck_assert_int_eq(trials.n, PL_TRIALS_MOST);
    for (int64_t m = 1; m <= PL_TRIALS_MOST + 2; m++) {
        tried.shape.M = m;
        ck_assert((pl_trials_find(&trials, &tried.shape) != NULL) == (m > 2));
    }
    pl_trials_free(&trials);
}
END_TEST

/* What one edit of a good file makes of it, and what the refusal says. */
static const struct {
    const char *from, *to, *says;
} faults[] = {
    {"\"own_s\"", "\"own\"", "own_s"},
    {"\"ldc\": 6", "\"ldc\": 0", "ldc"},
    {"\"trans_b\": true", "\"trans_b\": 1", "trans_b"},
    {"\"openblas\": false", "\"openblas\": true", "trials[1]"}, /* although it is slower */
    {"\"openblas\": \"", "\"openblas\": \"another ", "another "},
    {"\"trials\"", "\"trial\"", "trials"},
    {"\"M\": 7", "\"M\": ", "trials.json"},
};

START_TEST(a_file_with_a_fault_is_refused_by_name)
{
    char path[SCRATCH_PATH];
    size_t n;
    pl_trials trials;

    write_two(scratch_path("trials.json", path));
    char *good = scratch_read(path, &n);
    const char *at = strstr(good, faults[_i].from);
    char *bad = calloc(n + 32, 1);

    ck_assert_ptr_nonnull(at);
    snprintf(bad, n + 32, "%.*s%s%s", (int)(at - good), good, faults[_i].to,
             at + strlen(faults[_i].from));
    scratch_write("trials.json", bad, strlen(bad));
    ck_refused(pl_trials_read(path, &trials), "trials.json", faults[_i].says, NULL);
    ck_assert(trials.n == 0 && trials.entry == NULL);
    free(good);
    free(bad);
}
END_TEST

START_TEST(a_shape_that_is_there_twice_is_refused)
{
    char path[SCRATCH_PATH];
    pl_matmul_tried twice[] = {two[0], two[0]};
    pl_trials trials = {.n = 2, .entry = twice};

    ck_accepted(pl_trials_write(scratch_path("trials.json", path), &trials));
    ck_refused(pl_trials_read(path, &trials), "trials[1]", "twice", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul trial");
    TCase *choice = tcase_create("choice"), *file = tcase_create("file");

    tcase_add_test(choice, openblas_is_chosen_when_faster_by_more_than_the_spread);
    tcase_add_test(choice, own_is_kept_when_the_spread_of_either_hides_the_gain);
    tcase_add_test(choice, own_is_kept_when_equal_slower_or_hardly_slower);
    tcase_add_test(choice, auto_computes_a_shape_by_whom_the_trial_chose);
    tcase_add_test(choice, a_trial_of_another_shape_chooses_nothing);
    tcase_add_test(choice, a_shape_is_timed_whole_or_in_part);
    tcase_add_test(choice, a_product_costs_what_whom_the_trial_chose_takes);
    tcase_add_checked_fixture(file, scratch_create, scratch_remove);
    tcase_add_test(file, what_was_tried_is_read_back_bit_for_bit);
    tcase_add_test(file, a_full_file_gives_up_what_was_added_first);
    tcase_add_loop_test(file, a_file_with_a_fault_is_refused_by_name, 0,
                        sizeof faults / sizeof faults[0]);
    tcase_add_test(file, a_shape_that_is_there_twice_is_refused);
    suite_add_tcase(suite, choice);
    suite_add_tcase(suite, file);
    return ck_main(suite);
}
