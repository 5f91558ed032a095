/* round_robin_test -- ranks that take turns on their core: replays of small programs, rank by rank,
 * against times worked out by hand. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

#include <math.h>

/* Prices are those of a rank that shares its core with one other: alone it needs half of that. */
static const double add_s = (0.012 + 1e-6) / 2, overhead_s = 2e-6 / 2, slice_s = 0.004;

/* Two ranks on one core. */
static void share_a_core(small_step *step)
{
    step->machine.ranks_per_core = step->machine.ranks_per_host = 2;
    step->machine.slice_s = slice_s;
}

static double exposed_s(const pl_prediction *prediction, int stage, int op)
{
    return prediction->stages[stage].ops[op].exposed_s;
}

START_TEST(a_rank_has_its_core_for_a_slice_at_a_time)
{
    small_step *step = one_stage(2);
    const int add = add_op(step->p[0], 1000000);

    act(step->p[0], PL_ACTION_RUN, add);
    share_a_core(step);
    pl_prediction *prediction = predict(step);
    const pl_op_prediction *one = &prediction->stages[0].ops[add];
    /* A slice of each, then what is left of each. Shown is the one that ends last; what it waits
     * before it begins is not beside its kernel. */
    ck_assert(agrees(prediction->step_s, 2 * add_s, 16));
    ck_assert(agrees(one->busy_s, add_s, 1));
    ck_assert(agrees(one->turns_s, add_s - slice_s, 64));
    ck_assert(agrees(one->alone_s, 2 * add_s, 1)); /* with all of its core's turns */
    pl_prediction_destroy(prediction);
    step->machine.slice_s = 1;
    pl_prediction *whole = predict(step);
    ck_assert(agrees(whole->step_s, 2 * add_s, 16));
    ck_assert_double_eq_tol(whole->stages[0].ops[add].turns_s, 0, 1e-12); /* before it began */
    pl_prediction_destroy(whole);
    small_step_destroy(step);
}
END_TEST

/* Stage 0 adds and sends; stage 1 receives and adds. */
static pl_prediction *predict_move(double handover_s)
{
    small_step *step = two_stages();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int add = add_op(a, 1000000), send = move_op(a, PL_KIND_SEND, 1, 1),
              recv = move_op(b, PL_KIND_RECV, 0, 1), last = add_op(b, 1000000);

    act(a, PL_ACTION_RUN, add);
    start_and_wait(a, send);
    start_and_wait(b, recv);
    act(b, PL_ACTION_RUN, last);
    share_a_core(step);
    step->machine.handover_s = handover_s;
    pl_prediction *prediction = predict(step);
    small_step_destroy(step);
    return prediction;
}

START_TEST(who_waits_leaves_the_core_to_the_other)
{
    const double move_s = (1e-5 + 4 / 1e8) / 2, work_s = add_s + overhead_s + move_s;
    pl_prediction *prediction = predict_move(0);

    /* Stage 1 asks for what it receives at the end of stage 0's slice, and waits until that has
     * started to send, and both have done their parts. */
    ck_assert(agrees(prediction->stages[0].ops[0].turns_s, overhead_s, 1 << 20));
    ck_assert(agrees(prediction->stages[1].step_s, 2 * work_s, 64));
    ck_assert(agrees(exposed_s(prediction, 1, 0), 2 * work_s - add_s - slice_s, 64));
    /* and then goes on with a whole core */
    ck_assert(agrees(prediction->stages[1].ops[1].busy_s, add_s, 1));
    ck_assert_double_eq_tol(prediction->stages[1].ops[1].turns_s, 0, 1e-12);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(handing_a_core_over_takes_time)
{
    pl_prediction *none = predict_move(0), *some = predict_move(1e-4);

    /* to stage 0; to 1, which waits; to 0; to 1, which has its part to do and adds; after a slice
     * to 0, which ends; to 1 */
    ck_assert_double_eq_tol(some->step_s - none->step_s, 6e-4, 1e-12);
    pl_prediction_destroy(some);
    pl_prediction_destroy(none);
}
END_TEST

/* An add, then an AllReduce. */
START_TEST(of_a_collective_each_does_its_part_in_its_turn)
{
    small_step *step = one_stage(2);
    pl_program *const p = step->p[0];
    const int add = add_op(p, 1000000), reduce = all_reduce_op(p, HALF_BYTES / 2);

    act(p, PL_ACTION_RUN, add);
    start_and_wait(p, reduce);
    share_a_core(step);
    step->machine.slice_s = 1;
    pl_prediction *prediction = predict(step);
    const double part_s = all_reduce_s / 2;
    /* rank 0 adds and starts; so does rank 1, does its part, waits; so does rank 0, and goes on */
    ck_assert(agrees(prediction->step_s, 2 * (add_s + overhead_s + part_s), 64));
    /* rank 1 has waited for rank 0's part, which has waited for all that rank 1 did */
    ck_assert(agrees(exposed_s(prediction, 0, reduce), overhead_s + 2 * part_s, 64));
    ck_assert(agrees(prediction->stages[0].ops[reduce].busy_s, overhead_s + 2 * part_s, 64));
    ck_assert_double_eq_tol(prediction->stages[0].ops[add].turns_s, 0, 1e-12);
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Rank 1 starts while rank 0 runs the first of two kernels, which then does its part before the
 * second: it waits for nothing, since rank 1 does its own first of all. */
START_TEST(parts_are_done_between_kernels)
{
    small_step *step = one_stage(2);
    pl_program *const p = step->p[0];
    const int reduce = all_reduce_op(p, HALF_BYTES / 2), first = add_op(p, 1000000),
              second = add_op(p, 1000000);

    act(p, PL_ACTION_START, reduce);
    act(p, PL_ACTION_RUN, first);
    act(p, PL_ACTION_RUN, second);
    act(p, PL_ACTION_WAIT, reduce);
    share_a_core(step);
    pl_prediction *prediction = predict(step);
    const double part_s = all_reduce_s / 2;
    ck_assert(agrees(prediction->step_s, 2 * (2 * add_s + overhead_s + part_s), 64));
    ck_assert(agrees(exposed_s(prediction, 0, reduce), overhead_s, 64));
    /* its own part is neither a kernel's nor others' */
    const pl_op_prediction *ops = prediction->stages[0].ops;
    ck_assert(agrees(prediction->stages[0].step_s - overhead_s - ops[first].busy_s -
                         ops[first].turns_s - ops[second].busy_s - ops[second].turns_s,
                     part_s, 1 << 20));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

START_TEST(ranks_on_different_cores_run_at_once)
{
    small_step *step = one_stage(4);
    pl_program *const p = step->p[0];
    const int add = add_op(p, 1000000);

    act(p, PL_ACTION_RUN, add);
    share_a_core(step);
    step->machine.ranks_per_host = 4;
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(prediction->step_s, 2 * add_s, 16));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("round_robin");
    TCase *tcase = tcase_create("round_robin");

    tcase_add_test(tcase, a_rank_has_its_core_for_a_slice_at_a_time);
    tcase_add_test(tcase, who_waits_leaves_the_core_to_the_other);
    tcase_add_test(tcase, handing_a_core_over_takes_time);
    tcase_add_test(tcase, of_a_collective_each_does_its_part_in_its_turn);
    tcase_add_test(tcase, parts_are_done_between_kernels);
    tcase_add_test(tcase, ranks_on_different_cores_run_at_once);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
