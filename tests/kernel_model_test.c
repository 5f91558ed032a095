/* kernel_model_test -- kernels' times from terms: the fit finds what made the samples, operands come
 * from where their last use says, prices are the sum of their terms. */
#include "config.h"

#include "src/base/panic.h"
#include "src/roofline/build.h"
#include "src/roofline/kernel_model.h"
#include "src/roofline/kernel_samples.h"
#include "src/roofline/price.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <string.h>

enum { N_ROWS = 40 };

static double rows[N_ROWS][PL_N_KERNEL_TERMS], time_s[N_ROWS];

/* Rows in which four terms vary, each in its own way. */
static void make_samples(const double *term_s)
{
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < N_ROWS; i++) {
        rows[i][PL_TERM_CALL] = 1;
        rows[i][PL_TERM_FLOP] = 1e6 * (1 + i % 7) * (1 + i % 5);
        rows[i][PL_TERM_A] = 1e4 * (1 + i % 3);
        rows[i][PL_TERM_FAR] = 1e5 * (1 + i % 11);
        time_s[i] = 0;
        for (int t = 0; t < PL_N_KERNEL_TERMS; t++)
            time_s[i] += term_s[t] * rows[i][t];
    }
}

START_TEST(the_fit_finds_the_terms_that_made_the_samples)
{
    const double term_s[PL_N_KERNEL_TERMS] = {[PL_TERM_CALL] = 1e-5,
                                              [PL_TERM_FLOP] = 1e-11,
                                              [PL_TERM_A] = 2e-9,
                                              [PL_TERM_FAR] = 3e-10};
    pl_kernel_fit fit = {.n_samples = 0};

    make_samples(term_s);
    pl_kernel_fit_terms(N_ROWS, rows, time_s, &fit);
    ck_assert_int_eq(fit.n_samples, N_ROWS);
    /* The sweeps end when they have come so near: times within a millionth. */
    ck_assert(fit.residual < 1e-6);
    for (int i = 0; i < N_ROWS; i++)
        ck_assert_double_eq_tol(pl_kernel_time_s(&fit, rows[i]) / time_s[i], 1, 1e-6);
    ck_assert(fit.term_s[PL_TERM_B] == 0 && fit.term_s[PL_TERM_NEAR] == 0);
}
END_TEST

/* Samples of two kernels in turn, made by two sets of terms; every `every`-th is disturbed: it takes
 * three times as long as it should, or, each other time, no time that the clock can tell. */
static void add_round(pl_kernel_samples *s, const double *even, const double *odd, int every)
{
    pl_kernel_samples_begin_round(s);
    for (int i = 0; i < N_ROWS; i++) {
        make_samples(i % 2 == 0 ? even : odd);
        pl_kernel_samples_add(s, i % 2 == 0 ? "even" : "odd", rows[i],
                              i % every == 0 ? i % 2 * 3 * time_s[i] : time_s[i]);
    }
}

START_TEST(of_two_rounds_each_sample_counts_with_its_least_time)
{
    const double even[PL_N_KERNEL_TERMS] = {[PL_TERM_CALL] = 1e-5, [PL_TERM_FLOP] = 1e-11};
    const double odd[PL_N_KERNEL_TERMS] = {[PL_TERM_CALL] = 2e-6, [PL_TERM_FAR] = 3e-10};
    static pl_machine disturbed, calm;
    pl_kernel_samples s = {0};

    add_round(&s, even, odd, 3);
    pl_kernel_samples_fit(&s, &disturbed);
    add_round(&s, even, odd, 5); /* samples 0, 15 and 30 were disturbed before */
    add_round(&s, even, odd, 7);
    pl_kernel_samples_fit(&s, &calm);
    ck_assert_int_eq(s.n, N_ROWS);
    ck_assert(disturbed.n_kernels == 2 && calm.n_kernels == 2);
    ck_assert_str_eq(calm.kernel[0].name, "even");
    ck_assert_str_eq(calm.kernel[1].name, "odd");
    /* sample 0 takes no time in any round */
    ck_assert_int_eq(calm.kernel[0].n_samples, N_ROWS / 2 - 1);
    ck_assert_int_eq(calm.kernel[1].n_samples, N_ROWS / 2);
    ck_assert(disturbed.kernel[0].n_samples < calm.kernel[0].n_samples);
    ck_assert(disturbed.kernel[1].residual > 1e-3);
    for (int k = 0; k < 2; k++) /* as near as the fit comes */
        ck_assert(calm.kernel[k].residual < 1e-6);
    for (int i = 1; i < N_ROWS; i++) {
        make_samples(i % 2 == 0 ? even : odd);
        ck_assert_double_eq_tol(pl_kernel_time_s(&calm.kernel[i % 2], rows[i]) / time_s[i], 1, 1e-6);
    }
    pl_kernel_samples_free(&s);
}
END_TEST

START_TEST(what_a_machine_has_terms_of_keeps_them)
{
    static pl_machine machine;
    pl_kernel_samples s = {0};
    const double one[PL_N_KERNEL_TERMS] = {[PL_TERM_CALL] = 1};

    machine.n_kernels = 1;
    machine.kernel[0] = (pl_kernel_fit){.name = "known", .term_s = {[PL_TERM_CALL] = 5}};
    pl_kernel_samples_add(&s, "known", one, 7);
    pl_kernel_samples_add(&s, "news", one, 9);
    pl_kernel_samples_fit(&s, &machine);
    ck_assert_int_eq(machine.n_kernels, 2);
    ck_assert(machine.kernel[0].term_s[PL_TERM_CALL] == 5 && machine.kernel[0].n_samples == 0);
    ck_assert_str_eq(machine.kernel[1].name, "news");
    ck_assert_double_eq_tol(machine.kernel[1].term_s[PL_TERM_CALL] / 9, 1, 1e-6);
    pl_kernel_samples_free(&s);
}
END_TEST

START_TEST(terms_are_never_negative)
{
    const double term_s[PL_N_KERNEL_TERMS] = {
        [PL_TERM_CALL] = 1e-3, [PL_TERM_FLOP] = 1e-11, [PL_TERM_A] = -5e-9, [PL_TERM_FAR] = 3e-10};
    pl_kernel_fit fit = {.n_samples = 0};

    make_samples(term_s);
    pl_kernel_fit_terms(N_ROWS, rows, time_s, &fit);
    for (int t = 0; t < PL_N_KERNEL_TERMS; t++)
        ck_assert(fit.term_s[t] >= 0);
    ck_assert(fit.term_s[PL_TERM_A] == 0);
    ck_assert(fit.residual > 0);
}
END_TEST

START_TEST(the_residual_is_the_median_error)
{
    /* one term, samples of 1 and one of 3: half of the errors are those of the ones */
    double ones[3][PL_N_KERNEL_TERMS] = {{1}, {1}, {1}}, times_s[3] = {1, 1, 3};
    pl_kernel_fit fit = {.n_samples = 0};

    pl_kernel_fit_terms(3, ones, times_s, &fit);
    /* sum of (x - t)^2 / t is least at x = 3 / (1 + 1 + 1/3) = 9/7 */
    ck_assert_double_eq_tol(fit.term_s[PL_TERM_CALL], 9.0 / 7, 1e-12);
    ck_assert_double_eq_tol(fit.residual, 2.0 / 7, 1e-12);
}
END_TEST

/* A program over arrays of n f32, laid out one after the other:  c = a + b;  d = c + b. */
static pl_program *make_adds(int64_t n)
{
    static pl_mesh mesh;
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(&mesh, &batch);
    int v[4];

    for (int i = 0; i < 4; i++) {
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, pl_arena_printf(p->arena, "v%d", i));
        p->values[v[i]].offset = i * n * 4;
    }
    p->pool_bytes[PL_ACTIVATION] = (size_t)(4 * n * 4);
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, (int[]){v[0], v[1]}, 1, &v[2]);
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, (int[]){v[2], v[1]}, 1, &v[3]);
    p->n_actions = 2;
    p->actions = pl_alloc(2 * sizeof *p->actions);
    for (int a = 0; a < 2; a++)
        p->actions[a] = (pl_action){PL_ACTION_RUN, a};
    return p;
}

START_TEST(what_fits_in_the_nearest_cache_comes_from_there)
{
    enum { N = 1 << 20 };
    pl_program *p = make_adds(N);
    pl_reuse reuse[2];

    pl_reuse_find(p, (pl_coords){{0}}, 1e12, 1e12, reuse);
    for (int i = 0; i < 2; i++) {
        ck_assert(reuse[i].bytes[0] == 3.0 * N * 4);
        ck_assert(reuse[i].bytes[1] == 0 && reuse[i].bytes[2] == 0);
    }
    pl_program_destroy(p);
}
END_TEST

START_TEST(what_fits_in_no_cache_comes_from_memory)
{
    enum { N = 1 << 20 };
    pl_program *p = make_adds(N);
    pl_reuse reuse[2];

    pl_reuse_find(p, (pl_coords){{0}}, 1, 1, reuse);
    for (int i = 0; i < 2; i++) {
        ck_assert(reuse[i].bytes[2] == 3.0 * N * 4);
        ck_assert(reuse[i].bytes[0] == 0 && reuse[i].bytes[1] == 0);
    }
    pl_program_destroy(p);
}
END_TEST

/* An add touches `step` bytes. In the second, c and b were touched a step ago, d two steps ago: in
 * the step before. */
START_TEST(the_distance_since_the_last_use_decides)
{
    enum { N = 1 << 20 };
    const double step = 3.0 * N * 4;
    pl_program *p = make_adds(N);
    pl_reuse reuse[2];

    /* 4 steps: all lie within half of that */
    pl_reuse_find(p, (pl_coords){{0}}, step / 4, 4 * step, reuse);
    ck_assert(reuse[1].bytes[0] == 0 && reuse[1].bytes[1] == step && reuse[1].bytes[2] == 0);
    /* 2 steps: d lies half way, in octaves, from half of that to twice that */
    pl_reuse_find(p, (pl_coords){{0}}, step / 4, 2 * step, reuse);
    ck_assert(reuse[1].bytes[2] == step / 3 / 2 && reuse[1].bytes[1] == step - step / 3 / 2);
    pl_program_destroy(p);
}
END_TEST

static pl_program *small_step(pl_mesh *mesh)
{
    pl_plan plan = {.batch = 2, .seq = 8, .adamw = {.beta1 = 0.9}};

    PL_ASSERT(pl_model_config_preset("tiny", &plan.model) == PL_OK);
    PL_ASSERT(pl_spec_parse("dp:1", &plan.spec) == PL_OK);
    PL_ASSERT(pl_spec_mesh(&plan.spec, &plan.model, mesh) == PL_OK);
    return pl_build(&plan, mesh, 0);
}

static void set_kernel(pl_machine *m, const char *name, pl_kernel_term term, double each_s)
{
    pl_kernel_fit *fit = &m->kernel[m->n_kernels++];

    snprintf(fit->name, sizeof fit->name, "%s", name);
    fit->term_s[PL_TERM_CALL] = 1;
    fit->term_s[term] = each_s;
}

START_TEST(a_price_is_the_sum_of_the_kernels_terms)
{
    static pl_machine machine;
    pl_mesh mesh;
    pl_program *p = small_step(&mesh);
    int n_products = 0, n_norms = 0;

    machine.near_bytes = machine.mid_bytes = 1; /* bytes are far, but for what an op touches twice */
    set_kernel(&machine, "einsum.nn", PL_TERM_FLOP, 1);
    set_kernel(&machine, "rmsnorm", PL_TERM_FAR, 2);
    machine.op_overhead_s = machine.peak_flops_per_s = machine.attention_flops_per_s = 1;
    machine.matmul_flops_per_s = machine.memory_bytes_per_s =
        (pl_curve){.n_points = 1, .size = {1}, .rate = {1}};
    pl_reuse *reuse = pl_alloc((size_t)p->n_ops * sizeof *reuse);
    pl_reuse_find(p, (pl_coords){{0}}, 1, 1, reuse);
    pl_pricer *pricer = pl_pricer_create(&machine);
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op_cost cost = pl_op_cost_at(p, &p->ops[i], (pl_coords){{0}});
        const pl_op_price price = pl_price_op(pricer, p, &p->ops[i], (pl_coords){{0}});

        if (p->ops[i].kind == PL_EINSUM && !cost.trans_a && !cost.trans_b) {
            ck_assert(price.time_s == 1 + cost.flops && price.bound == PL_BOUND_FLOPS);
            n_products++;
        } else if (p->ops[i].kind == PL_RMSNORM) {
            ck_assert(price.time_s == 1 + 2 * reuse[i].bytes[2] && reuse[i].bytes[2] > 0);
            ck_assert(price.bound == PL_BOUND_MEMORY);
            n_norms++;
        }
    }
    ck_assert(n_products > 0 && n_norms > 0);
    pl_pricer_destroy(pricer);
    pl_free(reuse);
    pl_program_destroy(p);
}
END_TEST

START_TEST(a_product_counts_the_elements_of_its_operands)
{
    pl_mesh mesh;
    pl_program *p = small_step(&mesh);
    int n = 0, n_adds = 0;

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op_cost cost = pl_op_cost_at(p, &p->ops[i], (pl_coords){{0}});
        const double mnk = (double)cost.m * (double)cost.n * (double)cost.k;

        const bool adds = p->ops[i].n_in == 3; /* a residual */

        if (!cost.is_matmul || (p->ops[i].n_in != 2 && !adds))
            continue;
        ck_assert(cost.flops == 2 * mnk);
        ck_assert(cost.a_elements * cost.b_elements ==
                  (double)cost.k * mnk); /* M K x K N = K M N K */
        ck_assert(cost.c_elements ==
                  (double)cost.m * (double)cost.n * (p->ops[i].accumulate || adds ? 2 : 1));
        n++;
        n_adds += adds;
    }
    ck_assert(n > 0 && n_adds > 0);
    pl_program_destroy(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_model");
    TCase *tc = tcase_create("kernel_model");

    tcase_add_test(tc, the_fit_finds_the_terms_that_made_the_samples);
    tcase_add_test(tc, of_two_rounds_each_sample_counts_with_its_least_time);
    tcase_add_test(tc, what_a_machine_has_terms_of_keeps_them);
    tcase_add_test(tc, terms_are_never_negative);
    tcase_add_test(tc, the_residual_is_the_median_error);
    tcase_add_test(tc, what_fits_in_the_nearest_cache_comes_from_there);
    tcase_add_test(tc, what_fits_in_no_cache_comes_from_memory);
    tcase_add_test(tc, the_distance_since_the_last_use_decides);
    tcase_add_test(tc, a_price_is_the_sum_of_the_kernels_terms);
    tcase_add_test(tc, a_product_counts_the_elements_of_its_operands);
    suite_add_tcase(suite, tc);
    return ck_main(suite);
}
