/* choose_test -- the degrees that a strategy leaves out, chosen by prediction. */
#include "config.h"

#include "src/roofline/choose.h"

#include "src/roofline/predict.h"
#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/tiny_plan.h"

#include <math.h>
#include <string.h>

static double predicted_step_s(const pl_plan *plan, const pl_machine *machine)
{
    pl_prediction *prediction = pl_plan_predict(plan, machine);
    const double step_s = prediction->step_s;

    pl_prediction_destroy(prediction);
    return step_s;
}

START_TEST(the_choice_is_the_fastest_of_all_factorisations)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("fsdp+tp", 8, 2);
    char why[256];
    double fastest_s = INFINITY;

    for (int fsdp = 1; fsdp <= 8; fsdp *= 2) {
        pl_plan given = plan;

        given.spec.degree[0] = fsdp;
        given.spec.degree[1] = 8 / fsdp;
        fastest_s = fmin(fastest_s, predicted_step_s(&given, &machine));
    }
    ck_assert(pl_choose(&plan, 8, &machine, 0, MPI_COMM_NULL, why, sizeof why) == PL_OK);
    ck_assert_int_eq(plan.spec.degree[0] * plan.spec.degree[1], 8);
    ck_assert(predicted_step_s(&plan, &machine) == fastest_s);
    ck_assert_msg(strstr(why, "predicted") != NULL && strstr(why, "next best") != NULL, "%s", why);
}
END_TEST

START_TEST(degrees_that_are_given_are_kept)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp+tp:4", 8, 0);
    char why[256];

    ck_assert(pl_choose(&plan, 8, &machine, 0, MPI_COMM_NULL, why, sizeof why) == PL_OK);
    ck_assert_int_eq(pl_spec_degree(&plan.spec, "dp"), 2);
    ck_assert_int_eq(pl_spec_degree(&plan.spec, "tp"), 4);
}
END_TEST

START_TEST(nothing_is_said_where_nothing_was_chosen)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp:2+tp:4", 8, 0);
    char why[256] = "x";

    ck_assert(pl_choose(&plan, 8, &machine, 0, MPI_COMM_NULL, why, sizeof why) == PL_OK);
    ck_assert_str_eq(why, "");
}
END_TEST

static void assert_refused(const char *spec, int n_ranks, int64_t memory_bytes, const char *word)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan(spec, 8, 0);
    const pl_plan before = plan;
    char why[256];

    ck_assert_int_eq(
        pl_choose(&plan, n_ranks, &machine, memory_bytes, MPI_COMM_NULL, why, sizeof why),
        PL_BAD_INPUT);
    ck_assert_msg(strstr(pl_status_message(), word) != NULL, "%s", pl_status_message());
    ck_assert(memcmp(&plan.spec, &before.spec, sizeof plan.spec) == 0);
    pl_status_clear();
}

START_TEST(a_choice_without_a_fit_is_refused_with_the_reason)
{
    assert_refused("tp", 3, 0, "degrees that do: 1, 2, 4, 8");
    assert_refused("dp", 16, 0, "--batch");
    assert_refused("dp:3+tp", 8, 0, "multiple of 3");
    assert_refused("dp:2+tp:2", 8, 0, "needs 4 ranks");
}
END_TEST

START_TEST(a_choice_that_does_not_fit_in_memory_is_refused)
{
    assert_refused("fsdp+tp", 8, 1000, "memory");
}
END_TEST

START_TEST(of_the_choices_only_those_that_fit_in_memory_count)
{
    /* dp:4+fsdp:1 is faster here or not; with less memory than it needs it is out. */
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp+fsdp", 4, 0), dp_only = plan;
    char why[256];
    int64_t needed = 0;

    dp_only.spec.degree[0] = 4;
    dp_only.spec.degree[1] = 1;
    pl_prediction *prediction = pl_plan_predict(&dp_only, &machine);
    for (int c = 0; c < PL_N_CLASSES; c++)
        needed += (int64_t)prediction->memory_bytes[c];
    pl_prediction_destroy(prediction);
    ck_assert(pl_choose(&plan, 4, &machine, needed - 1, MPI_COMM_NULL, why, sizeof why) == PL_OK);
    ck_assert_int_gt(pl_spec_degree(&plan.spec, "fsdp"), 1);
    ck_assert_msg(strstr(why, "memory") != NULL, "%s", why);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choose");
    TCase *choices = tcase_create("choices");

    tcase_add_test(choices, the_choice_is_the_fastest_of_all_factorisations);
    tcase_add_test(choices, degrees_that_are_given_are_kept);
    tcase_add_test(choices, nothing_is_said_where_nothing_was_chosen);
    tcase_add_test(choices, a_choice_without_a_fit_is_refused_with_the_reason);
    tcase_add_test(choices, a_choice_that_does_not_fit_in_memory_is_refused);
    tcase_add_test(choices, of_the_choices_only_those_that_fit_in_memory_count);
    suite_add_tcase(suite, choices);
    return ck_main(suite);
}
