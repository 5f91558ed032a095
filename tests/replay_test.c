/* replay_test -- what overlaps, what waits for what: replays of small programs against times worked
 * out by hand. */
#include "config.h"

#include "src/roofline/predict.h"

#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

#include <math.h>
#include <stdio.h>

static pl_prediction *predict_overlap(int64_t n, int ranks_per_host)
{
    const pl_machine machine = round_machine();

    return predict_beside_add(&machine, n, ranks_per_host);
}

START_TEST(a_kernel_hides_a_transfer_between_hosts_but_for_the_reduction)
{
    /* 12 bytes an element: the kernel runs for 0.06 s, the transfer takes 0.018 s. */
    pl_prediction *prediction = predict_overlap(5000000, 1);

    ck_assert(agrees(prediction->step_s, 2e-6 + 0.06 + 1e-6 + HALF_BYTES / 2e8, 16));
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6, 2));
    const pl_op_prediction *reduce = &prediction->stages[0].ops[0];
    ck_assert(agrees(reduce->busy_s - reduce->exposed_s, all_reduce_s, 8));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(what_a_kernel_does_not_hide_is_exposed)
{
    pl_prediction *prediction = predict_overlap(500000, 1); /* 0.006 s of kernel */

    ck_assert(agrees(prediction->step_s, 2e-6 + all_reduce_s, 16));
    /* The subtraction loses about two bits. */
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6 + all_reduce_s - 0.006 - 1e-6, 64));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(inside_a_host_a_transfer_takes_its_time_from_the_kernel)
{
    /* All but its latencies is work of the cores, so nearly nothing is gained. */
    pl_prediction *prediction = predict_overlap(5000000, 0);

    ck_assert(agrees(prediction->step_s, 2e-6 + 0.06 + 1e-6 + all_reduce_s - 2e-5, 32));
    /* and cores do it when they start it */
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6 + all_reduce_s - 2e-5, 32));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(transfers_queue_for_the_link)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2);

    act(p, PL_ACTION_START, first);
    start_and_wait(p, second);
    act(p, PL_ACTION_WAIT, first);
    deal_to_hosts(step, 1);
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(prediction->step_s, 2e-6 + 2 * all_reduce_s, 16));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

START_TEST(a_core_that_waits_does_the_work_of_one_transfer_at_a_time)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2),
              add = add_op(p, 5000000);

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_START, second);
    act(p, PL_ACTION_WAIT, first);
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_WAIT, second);
    pl_prediction *prediction = predict(step);
    /* Waiting for the first leaves time for the second only while latencies pass: 20 us less the 2
     * us that starting the second took. The kernel hides the second's own 20 us. */
    ck_assert(
        agrees(prediction->step_s, 2e-6 + 2 * all_reduce_s + 0.06 + 1e-6 - 1.8e-5 - 2e-5, 32));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

START_TEST(a_receive_waits_for_its_sender)
{
    small_step *step = two_stages();
    pl_program **p = step->p;
    const int add = add_op(p[0], 1000000), send = move_op(p[0], PL_KIND_SEND, 1, 1000000),
              recv = move_op(p[1], PL_KIND_RECV, 0, 1000000);

    act(p[0], PL_ACTION_RUN, add);
    start_and_wait(p[0], send);
    start_and_wait(p[1], recv);
    deal_to_hosts(step, 1);
    pl_prediction *prediction = predict(step);
    const double move_s = 1e-5 + 4e6 / 1e8;
    ck_assert(agrees(prediction->stages[1].step_s, 0.012 + 1e-6 + 2e-6 + move_s, 16));
    ck_assert(agrees(prediction->step_s, prediction->stages[1].step_s, 1));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Run an add of 0.012001 s, then an AllReduce over `ranks` that nothing hides. */
static double predict_meeting_at(int ranks, double jitter_s, double drift)
{
    small_step *step = one_stage(ranks);
    pl_program *p = step->p[0];
    const int add = add_op(p, 1000000), reduce = all_reduce_op(p, HALF_BYTES / 2);

    step->machine.jitter_s = jitter_s;
    step->machine.drift = drift;
    act(p, PL_ACTION_RUN, add);
    start_and_wait(p, reduce);
    deal_to_hosts(step, 1);
    pl_prediction *prediction = predict(step);
    const double step_s = prediction->step_s;
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
    return step_s;
}

static double predict_meeting(int ranks, double jitter_s)
{
    return predict_meeting_at(ranks, jitter_s, 0);
}

/* Which adds to the variance of what is drawn anew for each op. */
START_TEST(ranks_that_are_slower_for_long_are_waited_for)
{
    const double add_s = 0.012 + 1e-6, both_s = sqrt(1e-4 * add_s + 0.25 * add_s * add_s);
    const double drift = predict_meeting_at(2, 0, 0.5) - predict_meeting(2, 0);
    const double both = predict_meeting_at(2, 1e-4, 0.5) - predict_meeting(2, 0);

    ck_assert_double_eq_tol(drift / (0.5 * add_s), 1 / sqrt(M_PI), 1e-9);
    ck_assert_double_eq_tol(both / both_s, 1 / sqrt(M_PI), 1e-9);
}
END_TEST

START_TEST(ranks_that_drift_wait_for_the_last)
{
    const double sigma_s = sqrt(1e-4 * (0.012 + 1e-6));
    /* The mean of the larger of two standard normal numbers is 1 / sqrt(pi), of the largest of
     * three 3 / (2 sqrt(pi)). The rule of 200 steps of 0.08 that finds them has converged: the
     * integrand is smooth and below e^-32 at its ends. */
    const double two = predict_meeting(2, 1e-4) - predict_meeting(2, 0);
    const double three = predict_meeting(3, 1e-4) - predict_meeting(3, 0);

    ck_assert_double_eq_tol(two / sigma_s, 1 / sqrt(M_PI), 1e-9);
    ck_assert_double_eq_tol(three / sigma_s, 1.5 / sqrt(M_PI), 1e-9);
}
END_TEST

START_TEST(ranks_that_share_a_core_run_faster_while_others_wait)
{
    small_step *step = two_stages();
    pl_program **p = step->p;
    const int tiny = add_op(p[0], 1000), first = add_op(p[0], 1000000),
              send = move_op(p[0], PL_KIND_SEND, 1, 1), recv = move_op(p[1], PL_KIND_RECV, 0, 1),
              last = add_op(p[1], 1000000);

    act(p[0], PL_ACTION_RUN, tiny);
    act(p[0], PL_ACTION_RUN, first);
    start_and_wait(p[0], send);
    start_and_wait(p[1], recv);
    act(p[1], PL_ACTION_RUN, last);
    deal_to_hosts(step, 1);
    const double tiny_s = 12e-6 + 1e-6, add_s = 0.012 + 1e-6, move_s = 2e-6 + 1e-5 + 4 / 1e8;
    pl_prediction *alone = predict(step);
    step->machine.ranks_per_core = 2; /* the same prices, now those of half a core */
    step->machine.ranks_per_host = 2; /* one core */
    pl_prediction *shared = predict(step);
    step->machine.ranks_per_host = 4; /* two, on which the ranks keep apart */
    pl_prediction *apart = predict(step);
    ck_assert(agrees(alone->step_s, tiny_s + 2 * add_s + move_s, 16));
    /* both begin; then each runs while the other waits or has done, with a whole core */
    ck_assert(agrees(shared->step_s, tiny_s + 2 * add_s / 2 + move_s, 16));
    ck_assert(apart->step_s == alone->step_s);
    step->machine.handover_s = 1e-3; /* the one that waits leaves its core, and takes it back */
    pl_prediction *handed = predict(step);
    ck_assert(agrees(handed->stages[1].exposed_s, apart->stages[1].exposed_s + 2e-3, 16));
    pl_prediction_destroy(handed);
    pl_prediction_destroy(apart);
    pl_prediction_destroy(alone);
    pl_prediction_destroy(shared);
    small_step_destroy(step);
}
END_TEST

/* An add of arrays from memory, in the second of two stages; the first does the same, or nothing.
 */
static double predict_from_memory(double contention, bool beside, int ranks_per_host)
{
    small_step *step = two_stages();

    for (int s = 0; s < 2; s++) {
        pl_program *p = step->p[s];
        const int add = add_op(p, 1000000);

        for (int v = 0; v < p->n_values; v++)
            p->values[v].offset = (int64_t)v * 4000000;
        p->pool_bytes[PL_ACTIVATION] = 12000000;
        if (s == 1 || beside)
            act(p, PL_ACTION_RUN, add);
    }
    snprintf(step->machine.kernel[0].name, sizeof step->machine.kernel[0].name, "add");
    step->machine.kernel[0].term_s[PL_TERM_CALL] = 1e-3;
    step->machine.kernel[0].term_s[PL_TERM_FAR] = 1e-9;
    step->machine.n_kernels = 1;
    step->machine.near_bytes = step->machine.mid_bytes = 1;
    step->machine.memory_contention = contention;
    if (ranks_per_host > 0) { /* every rank is replayed */
        step->machine.ranks_per_host = ranks_per_host;
        step->machine.link[PL_LINK_OTHER_HOST].n_cores = 1;
    }
    pl_prediction *prediction = predict(step);
    const double step_s = prediction->step_s;
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
    return step_s;
}

START_TEST(memory_serves_a_stage_faster_while_the_other_waits)
{
    const double call_s = 1e-3, same_s = predict_from_memory(1, false, 0), far_s = same_s - call_s;

    ck_assert(far_s > 0.001);
    for (int by_rank = 0; by_rank < 2; by_rank++) {
        const int ranks_per_host = 2 * by_rank;

        ck_assert(agrees(predict_from_memory(2, false, ranks_per_host), call_s + far_s / 2, 32));
        ck_assert(predict_from_memory(2, true, ranks_per_host) == same_s);
    }
    /* not where it is on another host */
    ck_assert(predict_from_memory(2, false, 1) == same_s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *replays = tcase_create("replays");

    tcase_add_test(replays, a_kernel_hides_a_transfer_between_hosts_but_for_the_reduction);
    tcase_add_test(replays, what_a_kernel_does_not_hide_is_exposed);
    tcase_add_test(replays, inside_a_host_a_transfer_takes_its_time_from_the_kernel);
    tcase_add_test(replays, transfers_queue_for_the_link);
    tcase_add_test(replays, a_core_that_waits_does_the_work_of_one_transfer_at_a_time);
    tcase_add_test(replays, a_receive_waits_for_its_sender);
    tcase_add_test(replays, ranks_that_drift_wait_for_the_last);
    tcase_add_test(replays, ranks_that_are_slower_for_long_are_waited_for);
    tcase_add_test(replays, memory_serves_a_stage_faster_while_the_other_waits);
    tcase_add_test(replays, ranks_that_share_a_core_run_faster_while_others_wait);
    suite_add_tcase(suite, replays);
    return ck_main(suite);
}
