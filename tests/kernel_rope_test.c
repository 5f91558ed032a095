/* RoPE, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/rope.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

enum { R = 5, N = 3, H = 18, MOST = 4096, SIZE = R * N * H };
static const int32_t positions[R] = {0, 1, 63, 4095, 7};

/** y[i] of x turned forward (direction 1) or back (-1), in f64; a head has `length` elements. */
static double turned(int length, const double *x, int i, double direction, double *sum_abs)
{
    const int half = length / 2, h = i % length, other = h < half ? i + half : i - half;
    const double angle = positions[i / (N * length)] * pow(10000.0, -2.0 * (h % half) / length);
    const double sign = h < half ? -direction : direction;
    const double a = x[i] * cos(angle), b = sign * x[other] * sin(angle);

    if (sum_abs != NULL)
        *sum_abs = fabs(a) + fabs(b);
    return a + b;
}

/** Tables for all positions. */
typedef struct {
    float *cosine, *sine;
} tables;

static tables tables_create(int length)
{
    const tables t = {sentinels(MOST * length / 2), sentinels(MOST * length / 2)};

    pl_rope_table(MOST, length, 10000.0, t.cosine, t.sine);
    return t;
}

static void turn(const tables *t, int back, const float *x, float *y)
{
    (back ? pl_rope_backward : pl_rope_forward)(R, N, H, positions, t->cosine, t->sine, x, y);
}

/** Case: the ISA, the inputs, the direction. The table's rounding, the product's, the sum's; two
 * products may lose LEAST. */
START_TEST(rope_agrees_with_f64)
{
    const int back = _i % 2;
    const tables t = tables_create(H);
    float *x = inputs((input)(_i / 2 % N_INPUTS), SIZE, H, 1, 0x1p126), *y = sentinels(SIZE);
    const double *wide = widened(SIZE, x);
    verdict v = {0};

    if (!use_isa(_i / 2 / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    turn(&t, back, x, y);
    for (int i = 0; i < SIZE; i++) {
        double sum_abs;
        const double want = turned(H, wide, i, back ? -1.0 : 1.0, &sum_abs);

        judge(&v, (double)y[i], want, gamma_n(3) * sum_abs + 2 * LEAST);
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(y[SIZE] == SENTINEL);
    turn(&t, back, x, x);
    ck_assert_mem_eq(x, y, SIZE * sizeof *x);
}
END_TEST

/* Lengths that have loops of their own, or leave a rest of one. */
static const int lengths[] = {64, 74, 128};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/** Case: the ISA, the length, the direction. */
START_TEST(heads_of_other_lengths_agree)
{
    const int back = _i % 2, length = lengths[_i / 2 % N_LENGTHS], size = R * N * length;
    const tables t = tables_create(length);
    const both x = values(size, 1, -1.0, 1.0, 0), y = both_of(size, sentinels(size));
    const double *wide = widened(size, x.wide);
    verdict v = {0};

    if (!use_isa(_i / 2 / N_LENGTHS))
        ck_skip("this CPU lacks the ISA");
    (back ? pl_rope_backward : pl_rope_forward)(R, N, length, positions, t.cosine, t.sine, x.wide,
                                                y.wide);
    for (int i = 0; i < size; i++) {
        double sum_abs;
        const double want = turned(length, wide, i, back ? -1.0 : 1.0, &sum_abs);

        judge(&v, (double)y.wide[i], want, gamma_n(3) * sum_abs + 2 * LEAST);
    }
    ck_assert_int_eq(v.n_wrong, 0);
    (back ? pl_rope_backward_bf16 : pl_rope_forward_bf16)(R, N, length, positions, t.cosine, t.sine,
                                                          x.narrow, y.narrow);
    check_rounded("y", size, y);
}
END_TEST

START_TEST(what_is_not_finite_stays_in_its_pair)
{
    const tables t = tables_create(H);
    float y[SIZE];

    if (!use_isa(_i / N_NON_FINITE))
        ck_skip("this CPU lacks the ISA");
    for (int back = 0; back < 2; back++)
        for (int bad = 0; bad < SIZE; bad += 7) {
            float *x = floats(SIZE, 1, -1.0, 1.0);
            const int first = bad / H * H + bad % (H / 2);

            x[bad] = non_finite(_i % N_NON_FINITE);
            turn(&t, back, x, y);
            ck_assert(!isfinite(y[bad]));
            for (int i = 0; i < SIZE; i++)
                ck_assert(isfinite(y[i]) || i == first || i == first + H / 2);
        }
}
END_TEST

/** sum(dy * y) of x turned forward, in f64. */
typedef struct {
    const double *x, *dy;
} loss_inputs;

static double loss(const void *context)
{
    const loss_inputs *in = context;
    double sum = 0.0;

    for (int i = 0; i < SIZE; i++)
        sum += in->dy[i] * turned(H, in->x, i, 1.0, NULL);
    return sum;
}

/** The loss is linear in x: its differences have no error but f64 rounding of SIZE terms below 2.
 */
START_TEST(rope_backward_agrees_with_differences)
{
    const double h = 0.5;
    const tables t = tables_create(H);
    const float *dy = floats(SIZE, 2, -1.0, 1.0);
    double *x = widened(SIZE, floats(SIZE, 1, -1.0, 1.0));
    const loss_inputs in = {x, widened(SIZE, dy)};
    float dx[SIZE];
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    turn(&t, 1, dy, dx);
    for (int i = 0; i < SIZE; i++)
        judge(&v, (double)dx[i], difference(loss, &in, x + i, h),
              gamma_n(3) * 2 + 2 * SIZE * SIZE * 0x1p-53 / h);
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(empty_extents_write_nothing)
{
    const tables t = tables_create(H);
    float x[H] = {0}, y = SENTINEL;

    pl_rope_forward(0, N, H, positions, t.cosine, t.sine, x, &y);
    pl_rope_forward(R, 0, H, positions, t.cosine, t.sine, x, &y);
    pl_rope_backward(R, N, 0, positions, t.cosine, t.sine, x, &y);
    ck_assert(y == SENTINEL);
}
END_TEST

START_TEST(rope_rounds_once)
{
    const tables t = tables_create(H);
    const both x = values(SIZE, 1, -1.0, 1.0, 10), y = both_of(SIZE, sentinels(SIZE));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    turn(&t, 0, x.wide, y.wide);
    pl_rope_forward_bf16(R, N, H, positions, t.cosine, t.sine, x.narrow, y.narrow);
    check_rounded("y", SIZE, y);
    turn(&t, 1, x.wide, y.wide);
    pl_rope_backward_bf16(R, N, H, positions, t.cosine, t.sine, x.narrow, y.narrow);
    check_rounded("dx", SIZE, y);
    pl_rope_backward_bf16(R, N, H, positions, t.cosine, t.sine, x.narrow, x.narrow);
    ck_assert_mem_eq(x.narrow, y.narrow, SIZE * sizeof *y.narrow);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rope");
    TCase *tests = tcase_create("rope");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, rope_agrees_with_f64, 0, PL_N_ISA * N_INPUTS * 2);
    tcase_add_loop_test(tests, heads_of_other_lengths_agree, 0, PL_N_ISA * N_LENGTHS * 2);
    tcase_add_loop_test(tests, what_is_not_finite_stays_in_its_pair, 0, PL_N_ISA * N_NON_FINITE);
    tcase_add_loop_test(tests, rope_backward_agrees_with_differences, 0, PL_N_ISA);
    tcase_add_test(tests, empty_extents_write_nothing);
    tcase_add_loop_test(tests, rope_rounds_once, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
