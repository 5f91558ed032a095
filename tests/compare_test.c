/* compare_test -- which plans `train --compare` runs, and what it concludes. */
#include "config.h"

#include "src/train/compare.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdbool.h>

enum { N = 7 };

/* Plans as pl_choices_find() leaves them; those from `n_fit` on need too much memory. */
static void make_choices(const char *const *specs, int n, int n_fit, pl_choice *choice,
                         pl_choices *choices)
{
    for (int i = 0; i < n; i++) {
        choice[i] = (pl_choice){.step_s = i + 1, .fits = i < n_fit};
        ck_assert(pl_spec_parse(specs[i], &choice[i].spec) == PL_OK);
    }
    *choices = (pl_choices){.n = n, .n_fit = n_fit, .choice = choice};
}

START_TEST(the_best_run_and_the_best_of_each_kind)
{
    static const char *const specs[N] = {"dp:2+tp:4", "dp:2+fsdp:2+tp:2", "tp:8",       "fsdp:8",
                                         "dp:8",      "dp:4+fsdp:2",      "pp:4+fsdp:2"};
    static const bool wanted[N] = {true, true, false, true, true, false, true};
    pl_choice choice[N];
    pl_choices choices;
    bool picked[N];

    make_choices(specs, N, N, choice, &choices);
    ck_assert_int_eq(pl_compare_pick(&choices, 2, picked), 5);
    for (int i = 0; i < N; i++)
        ck_assert_msg(picked[i] == wanted[i], "%s", specs[i]);
    ck_assert_int_eq(pl_compare_pick(&choices, PL_COMPARE_ALL, picked), N);
}
END_TEST

START_TEST(what_does_not_fit_is_not_run)
{
    static const char *const specs[4] = {"tp:4", "fsdp:4", "dp:4", "pp:4"};
    pl_choice choice[4];
    pl_choices choices;
    bool picked[4];

    make_choices(specs, 4, 2, choice, &choices);
    ck_assert_int_eq(pl_compare_pick(&choices, 4, picked), 2);
    ck_assert(picked[0] && picked[1] && !picked[2] && !picked[3]);
}
END_TEST

START_TEST(regret_is_of_the_chosen_against_the_fastest)
{
    static const double predicted_s[4] = {2, 1, 3, 4}, measured_s[4] = {1.0, 1.25, 1.5, 4};
    const pl_verdict v = pl_compare_judge(predicted_s, measured_s, 4);

    ck_assert_int_eq(v.chosen, 1);
    ck_assert_int_eq(v.fastest, 0);
    ck_assert(v.regret == 0.25);
    /* Spearman: 1 - 6 sum d^2 / (n (n^2 - 1)), d = 1, 1, 0, 0 */
    ck_assert(fabs(v.rank_correlation - (1 - 6 * 2 / 60.0)) < 4 * 0x1p-53);
}
END_TEST

START_TEST(a_plan_that_is_the_fastest_has_no_regret)
{
    static const double up[3] = {1, 2, 3}, down[3] = {3, 2, 1};

    ck_assert(pl_compare_judge(up, up, 3).regret == 0);
    ck_assert(fabs(pl_compare_judge(up, up, 3).rank_correlation - 1) < 4 * 0x1p-53);
    ck_assert(pl_compare_judge(up, down, 3).regret == 2);
    ck_assert(fabs(pl_compare_judge(up, down, 3).rank_correlation + 1) < 4 * 0x1p-53);
    ck_assert(isnan(pl_compare_judge(up, up, 1).rank_correlation));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare");
    TCase *tc = tcase_create("plans");

    tcase_add_test(tc, the_best_run_and_the_best_of_each_kind);
    tcase_add_test(tc, what_does_not_fit_is_not_run);
    tcase_add_test(tc, regret_is_of_the_chosen_against_the_fastest);
    tcase_add_test(tc, a_plan_that_is_the_fastest_has_no_regret);
    suite_add_tcase(suite, tc);
    return ck_main(suite);
}
