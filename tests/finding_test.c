/* finding -- what rounds of a survey that is made up say together and each by itself. */
#include "config.h"

#include "src/train/finding.h"
#include "tests/check_main.h"

#include <float.h>
#include <math.h>

enum { N_POINTS = 5 };
static const double tokens[N_POINTS] = {2, 4, 6, 8, 12};

/* T_math = x and T_comms = `equal_at` at every point: they are equal there. Exposed falls to 1 at
 * `hidden_from`. */
static pl_step_times times_at(double x, double equal_at, double hidden_from)
{
    return (pl_step_times){.kernels_s = x,
                           .comms_s = equal_at,
                           .exposed_s = fmax(1 + hidden_from - x, 1),
                           .step_s = 1};
}

/* Predicted to be equal at 5 and hidden from 7; n rounds that find equal_at[n] and hidden_from[n].
 */
static void survey_fill(pl_survey *v, int n, const double *equal_at, const double *hidden_from,
                        double measured)
{
    *v = (pl_survey){.subject = PL_SURVEY_BATCH, .n_specs = 1, .n = N_POINTS};
    for (int i = 0; i < N_POINTS; i++) {
        pl_probe *p = &v->probe[i][0];

        v->x[i] = tokens[i];
        p->predicted = times_at(tokens[i], 5, 7);
        p->measured = times_at(tokens[i], measured, 7);
        p->n_rounds = n;
        for (int r = 0; r < n; r++)
            p->round[r] = times_at(tokens[i], equal_at[r], hidden_from[r]);
    }
}

/* As good as log and pow are, a few operations later. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 16 * DBL_EPSILON * fabs(b);
}

static const double hidden_from[8] = {7, 7, 7, 7, 7, 7, 7, 7};

/* Of 8 rounds that cross there, measured to cross at 5. */
static pl_finding crossing_of(const double *equal_at)
{
    pl_survey v;

    survey_fill(&v, 8, equal_at, hidden_from, 5);
    return pl_find(&v, pl_finding_crossing);
}

START_TEST(the_middle_half_of_rounds_is_found)
{
    const double equal_at[8] = {9, 3, 5, 5.25, 4.75, 5.125, 4.875, 11};
    const pl_finding f = crossing_of(equal_at);

    ck_assert(near(f.predicted, 5) && near(f.measured, 5));
    ck_assert_int_eq(f.n_rounds, 8);
    ck_assert_int_eq(f.n_nowhere, 0);
    ck_assert(near(f.low, 4.75) && near(f.high, 5.25)); /* of 3 4.75 4.875 5 5.125 5.25 9 11 */
    ck_assert(!pl_finding_is_noise(&f));                /* half a token of 5 */
}
END_TEST

START_TEST(rounds_that_lie_far_apart_are_noise)
{
    const double equal_at[8] = {9, 3, 5, 5.5, 4.5, 5.125, 4.875, 11};
    const pl_finding f = crossing_of(equal_at);

    ck_assert(near(f.low, 4.5) && near(f.high, 5.5));
    ck_assert(pl_finding_is_noise(&f));
}
END_TEST

START_TEST(rounds_that_find_nothing_are_counted)
{
    /* beyond the last point nothing is seen to end */
    const double some[3] = {7, 100, 7}, most[3] = {100, 7, 100}, equal_at[3] = {5, 5, 5};
    pl_survey v;

    survey_fill(&v, 3, equal_at, some, 5);
    const pl_finding few = pl_find(&v, pl_finding_elbow);
    survey_fill(&v, 3, equal_at, most, 5);
    const pl_finding many = pl_find(&v, pl_finding_elbow);

    ck_assert(near(few.measured, 7) && near(few.low, 7) && near(few.high, 7));
    ck_assert_int_eq(few.n_nowhere, 1);
    ck_assert(!pl_finding_is_noise(&few));
    ck_assert_int_eq(many.n_nowhere, 2);
    ck_assert(pl_finding_is_noise(&many));
}
END_TEST

START_TEST(what_is_only_predicted_has_no_rounds)
{
    pl_survey v;

    survey_fill(&v, 0, NULL, NULL, NAN);
    const pl_finding f = pl_find(&v, pl_finding_crossing);

    ck_assert(near(f.predicted, 5) && isnan(f.measured) && isnan(f.low) && isnan(f.high));
    ck_assert(!pl_finding_is_noise(&f));
}
END_TEST

START_TEST(two_strategies_are_compared_by_their_steps)
{
    pl_survey v;
    double sides[2];

    survey_fill(&v, 0, NULL, NULL, 5);
    v.subject = PL_SURVEY_AGAINST;
    v.n_specs = 2;
    v.probe[2][0].measured.step_s = 3;
    v.probe[2][1].measured.step_s = 4;
    pl_finding_sides(&v, PL_MEASURED, 2, sides);
    ck_assert(sides[0] == 3 && sides[1] == 4);
}
END_TEST

/* Steps of the seconds given; kernels and communication alike in all. */
static double spread_of(int n, const double *step_s, const char **what)
{
    pl_probe p = {.n_rounds = n};

    for (int r = 0; r < n; r++)
        p.round[r] = (pl_step_times){.step_s = step_s[r], .kernels_s = 1, .comms_s = NAN};
    return pl_probe_spread(&p, what);
}

START_TEST(repetitions_of_a_point_are_as_far_apart_as_their_range_or_middle_half)
{
    const double few[4] = {10, 8, 12, 10}, many[8] = {10, 8, 30, 10, 11, 10, 9, 10};
    const char *what;
    pl_probe p = {.n_rounds = 2};

    ck_assert(near(spread_of(4, few, &what), 0.4));
    ck_assert_str_eq(what, "step");
    /* 8 9 10 10 10 10 11 30: one that is disturbed does not matter */
    ck_assert(near(spread_of(8, many, &what), 0.1));
    p.round[0] = (pl_step_times){.step_s = 10, .kernels_s = 3, .comms_s = 4};
    p.round[1] = (pl_step_times){.step_s = 10, .kernels_s = 3, .comms_s = 6};
    ck_assert(near(pl_probe_spread(&p, &what), 0.4));
    ck_assert_str_eq(what, "T_comms");
    p.n_rounds = 0;
    ck_assert(pl_probe_spread(&p, &what) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("finding");
    TCase *tcase = tcase_create("finding");

    tcase_add_test(tcase, the_middle_half_of_rounds_is_found);
    tcase_add_test(tcase, rounds_that_lie_far_apart_are_noise);
    tcase_add_test(tcase, rounds_that_find_nothing_are_counted);
    tcase_add_test(tcase, what_is_only_predicted_has_no_rounds);
    tcase_add_test(tcase, two_strategies_are_compared_by_their_steps);
    tcase_add_test(tcase, repetitions_of_a_point_are_as_far_apart_as_their_range_or_middle_half);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
