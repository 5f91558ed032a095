/* The embedding and its gradient, on every ISA of this CPU. */
#include "config.h"

#include "kernels/embed.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

START_TEST(embedding_shards_sum_to_the_whole)
{
    enum { R = 6, V = 7, D = 5 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float *e = floats(V * D, 1, -1.0, 1.0), x[R * D], low[R * D], high[R * D];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_embed_forward(R, V, D, 0, tokens, e, x);
    pl_embed_forward(R, 3, D, 0, tokens, e, low);
    pl_embed_forward(R, 4, D, 3, tokens, e + 3 * D, high);
    for (int i = 0; i < R * D; i++) {
        ck_assert(x[i] == e[tokens[i / D] * D + i % D]);
        ck_assert(low[i] + high[i] == x[i] && (low[i] == 0.0f || high[i] == 0.0f));
    }
    pl_embed_forward(R, 0, D, 3, tokens, NULL, x);
    for (int i = 0; i < R * D; i++)
        ck_assert(x[i] == 0.0f);
    pl_embed_forward(R, V, 0, 0, tokens, e, x);
    pl_embed_forward(0, V, D, 0, NULL, e, x);
}
END_TEST

/** Any bits, those of NaNs and denormals too. */
START_TEST(rows_are_copied_bit_for_bit)
{
    enum { R = 9, V = 5, D = 67 };
    const int32_t tokens[R] = {4, 0, 3, 3, 2, 4, 1, 0, 1};
    float *e = sentinels(V * D), *x = sentinels(R * D);
    uint64_t state = 3;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < V * D; i++) {
        const uint32_t bits = (uint32_t)(uniform(&state) * 0x1p32) | (i % 4 == 0 ? 0x7f800000 : 0);

        memcpy(e + i, &bits, sizeof bits);
    }
    pl_embed_forward(R, V, D, 0, tokens, e, x);
    for (int r = 0; r < R; r++)
        ck_assert_mem_eq(x + r * D, e + tokens[r] * D, D * sizeof *x);
    ck_assert(x[R * D] == SENTINEL);
}
END_TEST

/** What scatter is tried on: few tokens, so that sums are long, some held elsewhere. */
enum { S_R = 301, S_V = 7, S_D = 37, S_BEGIN = 3 };

static int32_t *token_rows(void)
{
    int32_t *tokens = keep(pl_alloc(S_R * sizeof *tokens));

    for (int r = 0; r < S_R; r++)
        tokens[r] = r * r % (S_BEGIN + S_V + 4);
    return tokens;
}

/** de[i] as it should be: `before` and the rows of its token, in f64; also of how many terms. */
static double row_sum(const int32_t *tokens, const double *dx, double before, int i,
                      double *sum_abs, int *n_terms)
{
    double sum = before;

    *sum_abs = fabs(before);
    *n_terms = 1;
    for (int r = 0; r < S_R; r++)
        if (tokens[r] == S_BEGIN + i / S_D) {
            sum += dx[r * S_D + i % S_D];
            *sum_abs += fabs(dx[r * S_D + i % S_D]);
            ++*n_terms;
        }
    return sum;
}

/** Case: the ISA, the inputs, whether de is added to. Sums of denormals are exact. */
START_TEST(embedding_gradient_agrees_with_f64)
{
    const int accumulate = _i % 2;
    const int32_t *tokens = token_rows();
    const float *dx = inputs((input)(_i / 2 % N_INPUTS), S_R * S_D, S_D, 1, 0x1p110);
    const float *before = floats(S_V * S_D, 2, -1.0, 1.0);
    const double *wide = widened(S_R * S_D, dx);
    float *de = sentinels(S_V * S_D);
    verdict v = {0};

    if (!use_isa(_i / 2 / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    if (accumulate)
        memcpy(de, before, S_V * S_D * sizeof *de);
    pl_embed_backward(S_R, S_V, S_D, S_BEGIN, tokens, dx, accumulate, de);
    for (int i = 0; i < S_V * S_D; i++) {
        double sum_abs;
        int n_terms;
        const double want =
            row_sum(tokens, wide, accumulate ? (double)before[i] : 0.0, i, &sum_abs, &n_terms);

        judge(&v, (double)de[i], want, gamma_n(n_terms) * sum_abs);
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(de[S_V * S_D] == SENTINEL);
}
END_TEST

START_TEST(what_is_not_finite_stays_in_its_row_and_column)
{
    enum { BAD = 17, COLUMN = 5 };
    const int32_t *tokens = token_rows();
    float *dx = floats(S_R * S_D, 1, -1.0, 1.0), *de = sentinels(S_V * S_D);

    if (!use_isa(_i / N_NON_FINITE))
        ck_skip("this CPU lacks the ISA");
    ck_assert(tokens[BAD] >= S_BEGIN && tokens[BAD] < S_BEGIN + S_V);
    dx[BAD * S_D + COLUMN] = non_finite(_i % N_NON_FINITE);
    pl_embed_backward(S_R, S_V, S_D, S_BEGIN, tokens, dx, false, de);
    for (int i = 0; i < S_V * S_D; i++)
        ck_assert(isfinite(de[i]) == (i != (tokens[BAD] - S_BEGIN) * S_D + COLUMN));
}
END_TEST

/** sum(dx * x) of the rows gathered from e, in f64. */
typedef struct {
    const int32_t *tokens;
    const double *e, *dx;
} loss_inputs;

static double loss(const void *context)
{
    const loss_inputs *in = context;
    double sum = 0.0;

    for (int i = 0; i < S_R * S_D; i++) {
        const int v = in->tokens[i / S_D] - S_BEGIN;

        if (v >= 0 && v < S_V)
            sum += in->dx[i] * in->e[v * S_D + i % S_D];
    }
    return sum;
}

/** The loss is linear in e: its differences have no error but f64 rounding. */
START_TEST(embedding_gradient_agrees_with_differences)
{
    const double h = 0.5, n = S_R * S_D;
    const int32_t *tokens = token_rows();
    const float *dx = floats(S_R * S_D, 1, -1.0, 1.0);
    double *e = widened(S_V * S_D, floats(S_V * S_D, 2, -1.0, 1.0));
    const loss_inputs in = {tokens, e, widened(S_R * S_D, dx)};
    float *de = sentinels(S_V * S_D);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_embed_backward(S_R, S_V, S_D, S_BEGIN, tokens, dx, false, de);
    for (int i = 0; i < S_V * S_D; i++)
        judge(&v, (double)de[i], difference(loss, &in, e + i, h),
              gamma_n(S_R) * S_R + n * n * 0x1p-53 / h);
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(embedding_gradient_sums_the_rows_of_a_token)
{
    enum { R = 6, V = 4, D = 3, BEGIN = 3 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float dx[R * D], de[V * D + 1];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < R * D; i++)
        dx[i] = (float)(i * i); /* integers: sums are exact */
    for (int i = 0; i <= V * D; i++)
        de[i] = SENTINEL;
    pl_embed_backward(R, V, D, BEGIN, tokens, dx, false, de);
    for (int pass = 1; pass <= 2; pass++) {
        for (int i = 0; i < V * D; i++) {
            float want = 0.0f;

            for (int r = 0; r < R; r++)
                want += tokens[r] == BEGIN + i / D ? dx[r * D + i % D] : 0.0f;
            ck_assert(de[i] == (float)pass * want);
        }
        pl_embed_backward(R, V, D, BEGIN, tokens, dx, true, de);
    }
    ck_assert(de[V * D] == SENTINEL);
    pl_embed_backward(0, V, D, BEGIN, NULL, NULL, false, de);
    for (int i = 0; i < V * D; i++)
        ck_assert(de[i] == 0.0f);
    pl_embed_backward(R, 0, D, BEGIN, tokens, dx, false, NULL);
}
END_TEST

START_TEST(embedding_gathers_bits_and_scatters_into_f32)
{
    enum { R = 6, V = 7, D = 37, BEGIN = 1 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    const both e = values(V * D, 1, -1.0, 1.0, 10), x = both_of(R * D, sentinels(R * D));
    float *de[2] = {sentinels(V * D), sentinels(V * D)};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_embed_forward(R, V, D, BEGIN, tokens, e.wide, x.wide);
    pl_embed_forward_bf16(R, V, D, BEGIN, tokens, e.narrow, x.narrow);
    check_rounded("x", R * D, x);
    for (int pass = 0; pass < 2; pass++) {
        pl_embed_backward(R, V, D, BEGIN, tokens, x.wide, pass, de[0]);
        pl_embed_backward_bf16(R, V, D, BEGIN, tokens, x.narrow, pass, de[1]);
        check_equal("de", V * D, de[1], de[0]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("embed");
    TCase *tests = tcase_create("embed");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, embedding_shards_sum_to_the_whole, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rows_are_copied_bit_for_bit, 0, PL_N_ISA);
    tcase_add_loop_test(tests, embedding_gradient_sums_the_rows_of_a_token, 0, PL_N_ISA);
    tcase_add_loop_test(tests, embedding_gradient_agrees_with_f64, 0, PL_N_ISA * N_INPUTS * 2);
    tcase_add_loop_test(tests, what_is_not_finite_stays_in_its_row_and_column, 0,
                        PL_N_ISA * N_NON_FINITE);
    tcase_add_loop_test(tests, embedding_gradient_agrees_with_differences, 0, PL_N_ISA);
    tcase_add_loop_test(tests, embedding_gathers_bits_and_scatters_into_f32, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
