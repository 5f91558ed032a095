/* crossover -- where curves meet and where they bend, on curves whose answer is known. */
#include "config.h"

#include "src/train/crossover.h"
#include "tests/check_main.h"

#include <float.h>
#include <math.h>

enum { N = 7 };
static const double x[N] = {2, 4, 6, 8, 12, 16, 24};

/* As good as log and pow are (1 unit in the last place each), a few operations later. */
static void ck_near(double a, double b)
{
    ck_assert_msg(fabs(a - b) <= 16 * DBL_EPSILON * fabs(b), "%.17g is not %.17g", a, b);
}

START_TEST(powers_cross_where_they_are_equal)
{
    double a[N], b[N];

    for (int i = 0; i < N; i++) {
        a[i] = 3 * x[i];
        b[i] = x[i] * x[i] / 3; /* equal at 9 */
    }
    ck_near(pl_crossing(N, x, a, b), 9);
    ck_near(pl_crossing(N, x, b, a), 9);
}
END_TEST

START_TEST(a_crossing_on_a_point_is_that_point)
{
    const double a[3] = {1, 5, 7}, b[3] = {2, 5, 6};

    ck_assert(pl_crossing(3, x, a, b) == 4);
    ck_assert(pl_crossing(2, x + 1, a + 1, b + 1) == 4);
}
END_TEST

START_TEST(curves_that_do_not_meet_have_no_crossing)
{
    const double a[3] = {1, 2, 3}, b[3] = {2, 3, 4}, c[3] = {2, 0, 1};

    ck_assert(isnan(pl_crossing(3, x, a, b)));
    ck_assert(isnan(pl_crossing(3, x, a, c)));
}
END_TEST

/* max(least, at_zero - slope x) */
static void bend(double at_zero, double slope, double least, double y[N])
{
    for (int i = 0; i < N; i++)
        y[i] = fmax(at_zero - slope * x[i], least);
}

START_TEST(an_elbow_is_where_the_line_meets_the_constant)
{
    double y[N];

    bend(20, 2, 5, y); /* at 7.5 */
    ck_near(pl_elbow(N, x, y), 7.5);
    bend(20, 1, 5, y); /* at 15 */
    ck_near(pl_elbow(N, x, y), 15);
}
END_TEST

START_TEST(what_hardly_falls_has_no_elbow)
{
    double y[N];

    bend(20, 0.25, 16, y); /* by a fifth */
    ck_assert(isnan(pl_elbow(N, x, y)));
    bend(20, 0, 20, y);
    ck_assert(isnan(pl_elbow(N, x, y)));
}
END_TEST

START_TEST(an_elbow_beyond_the_points_is_not_made_up)
{
    const double y[4] = {8, 6, 4, 1}; /* still falling */

    ck_assert(isnan(pl_elbow(3, x, y)));
    ck_assert(!(pl_elbow(4, x, y) > x[3]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crossover");
    TCase *tcase = tcase_create("crossover");

    tcase_add_test(tcase, powers_cross_where_they_are_equal);
    tcase_add_test(tcase, a_crossing_on_a_point_is_that_point);
    tcase_add_test(tcase, curves_that_do_not_meet_have_no_crossing);
    tcase_add_test(tcase, an_elbow_is_where_the_line_meets_the_constant);
    tcase_add_test(tcase, what_hardly_falls_has_no_elbow);
    tcase_add_test(tcase, an_elbow_beyond_the_points_is_not_made_up);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
