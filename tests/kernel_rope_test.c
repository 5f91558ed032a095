/* RoPE, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/rope.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

START_TEST(rope_turns_pairs_half_a_head_apart)
{
    enum { R = 5, N = 3, H = 18, MOST = 4096 };
    const int32_t positions[R] = {0, 1, 63, 4095, 7};
    float *cosine = sentinels(MOST * H / 2), *sine = sentinels(MOST * H / 2);
    float *x = floats(R * N * H, 1, -1.0, 1.0), *y = sentinels(R * N * H);
    verdict v = {0};

    pl_rope_table(MOST, H, 10000.0, cosine, sine);
    pl_rope_forward(R, N, H, positions, cosine, sine, x, y);
    for (int i = 0; i < R * N * H; i++) {
        const int h = i % H, pair = h % (H / 2), other = h < H / 2 ? i + H / 2 : i - H / 2;
        const double angle = positions[i / (N * H)] * pow(10000.0, -2.0 * pair / H);
        const double sign = h < H / 2 ? -1.0 : 1.0;
        const double a = (double)x[i] * cos(angle), b = sign * (double)x[other] * sin(angle);

        judge(&v, (double)y[i], a + b, gamma_n(3) * (fabs(a) + fabs(b)));
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(y[R * N * H] == SENTINEL);
    pl_rope_forward(R, N, H, positions, cosine, sine, x, x);
    ck_assert_mem_eq(x, y, R * N * H * sizeof *x);
}
END_TEST

/** <dy, rope(x)> = <rope_backward(dy), x> for all x: checked on unit vectors scaled by small
 * integers, through f64 sums of f32 results. */
START_TEST(rope_backward_is_the_transpose)
{
    enum { R = 2, N = 1, H = 8, MOST = 64 };
    const int32_t positions[R] = {5, 63};
    float cosine[MOST * H / 2], sine[MOST * H / 2], dx[R * N * H], y[R * N * H];
    float *dy = floats(R * N * H, 2, -1.0, 1.0);
    verdict v = {0};

    pl_rope_table(MOST, H, 500.0, cosine, sine);
    pl_rope_backward(R, N, H, positions, cosine, sine, dy, dx);
    for (int j = 0; j < R * N * H; j++) {
        float unit[R * N * H] = {0};
        double sum = 0.0, sum_abs = 0.0;

        unit[j] = 1.0f;
        pl_rope_forward(R, N, H, positions, cosine, sine, unit, y);
        for (int i = 0; i < R * N * H; i++) {
            sum += (double)dy[i] * (double)y[i];
            sum_abs += fabs((double)dy[i] * (double)y[i]);
        }
        judge(&v, (double)dx[j], sum, gamma_n(2) * sum_abs);
    }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(rope_rounds_once)
{
    enum { R = 5, N = 3, H = 18, MOST = 64 };
    const int32_t positions[R] = {0, 1, 63, 2, 7};
    float *cosine = sentinels(MOST * H / 2), *sine = sentinels(MOST * H / 2);
    const both x = values(R * N * H, 1, -1.0, 1.0, 10),
               y = both_of(R * N * H, sentinels(R * N * H));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_rope_table(MOST, H, 10000.0, cosine, sine);
    pl_rope_forward(R, N, H, positions, cosine, sine, x.wide, y.wide);
    pl_rope_forward_bf16(R, N, H, positions, cosine, sine, x.narrow, y.narrow);
    check_rounded("y", R * N * H, y);
    pl_rope_backward(R, N, H, positions, cosine, sine, x.wide, y.wide);
    pl_rope_backward_bf16(R, N, H, positions, cosine, sine, x.narrow, y.narrow);
    check_rounded("dx", R * N * H, y);
    pl_rope_backward_bf16(R, N, H, positions, cosine, sine, x.narrow, x.narrow);
    ck_assert_mem_eq(x.narrow, y.narrow, R * N * H * sizeof *y.narrow);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rope");
    TCase *tests = tcase_create("rope");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, rope_turns_pairs_half_a_head_apart);
    tcase_add_test(tests, rope_backward_is_the_transpose);
    tcase_add_loop_test(tests, rope_rounds_once, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
