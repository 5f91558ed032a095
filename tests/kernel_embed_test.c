/* The embedding and its gradient, on every ISA of this CPU. */
#include "config.h"

#include "kernels/embed.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

START_TEST(embedding_shards_sum_to_the_whole)
{
    enum { R = 6, V = 7, D = 5 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float *e = floats(V * D, 1, -1.0, 1.0), x[R * D], low[R * D], high[R * D];

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

START_TEST(embedding_gradient_sums_the_rows_of_a_token)
{
    enum { R = 6, V = 4, D = 3, BEGIN = 3 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float dx[R * D], de[V * D + 1];

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
    tcase_add_test(tests, embedding_shards_sum_to_the_whole);
    tcase_add_test(tests, embedding_gradient_sums_the_rows_of_a_token);
    tcase_add_loop_test(tests, embedding_gathers_bits_and_scatters_into_f32, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
