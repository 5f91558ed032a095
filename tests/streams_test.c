/* streams_test -- what ranks on different hosts send each other without waiting: replays of small
 * programs, rank by rank, against times worked out by hand. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

#include <math.h>

enum { N = 1000000, BYTES = 4 * N };
static const double overhead_s = 2e-6, move_s = 1e-5 + BYTES / 1e8;

/* Two stages on a host each, whose cores messages cost nothing. */
static small_step *two_hosts(void)
{
    small_step *step = two_stages();

    deal_to_hosts(step, 1);
    step->machine.link[PL_LINK_OTHER_HOST].n_cores = 1;
    return step;
}

static pl_core_cost *core_of(small_step *step)
{
    return step->machine.link[PL_LINK_OTHER_HOST].core;
}

static double exposed_s(const pl_prediction *prediction, int stage, int op)
{
    return prediction->stages[stage].ops[op].exposed_s;
}

/* Stage 0 sends twice and waits for the second; a quarter of a message has room before the link. */
START_TEST(a_send_is_over_when_what_is_left_has_room)
{
    small_step *step = two_hosts();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int first = move_op(a, PL_KIND_SEND, 1, N), second = move_op(a, PL_KIND_SEND, 1, N),
              one = move_op(b, PL_KIND_RECV, 0, N), two = move_op(b, PL_KIND_RECV, 0, N);

    a->ops[second].tag = b->ops[two].tag = 1;
    act(a, PL_ACTION_START, first);
    act(a, PL_ACTION_START, second);
    act(a, PL_ACTION_WAIT, second);
    act(a, PL_ACTION_WAIT, first);
    start_and_wait(b, one);
    start_and_wait(b, two);
    core_of(step)->buffered_bytes = BYTES / 4;
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(prediction->stages[0].step_s, 1.75 * move_s, 16));
    ck_assert(agrees(exposed_s(prediction, 0, first), overhead_s, 4));
    ck_assert(agrees(prediction->stages[1].step_s, 2 * move_s, 16)); /* all of both */
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* What has room is handed on when a message is started: a quarter of the first, of the second
 * nothing, and of the third, when an eighth of the second has yet to go, what that leaves. */
START_TEST(starting_takes_the_core_for_what_has_room)
{
    enum { BESIDE = 6 * N };
    const double byte_s = 1e-9, link_bytes_per_s = BYTES / move_s;
    small_step *step = two_hosts();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int beside = add_op(a, BESIDE), after = add_op(a, 4 * N);
    int send[3], recv[3];

    for (int i = 0; i < 3; i++) {
        send[i] = move_op(a, PL_KIND_SEND, 1, N);
        recv[i] = move_op(b, PL_KIND_RECV, 0, N);
        a->ops[send[i]].tag = b->ops[recv[i]].tag = i;
    }
    act(a, PL_ACTION_START, send[0]);
    act(a, PL_ACTION_START, send[1]);
    act(a, PL_ACTION_RUN, beside);
    act(a, PL_ACTION_START, send[2]);
    act(a, PL_ACTION_RUN, after);
    for (int i = 0; i < 3; i++) {
        act(a, PL_ACTION_WAIT, send[i]);
        start_and_wait(b, recv[i]);
    }
    core_of(step)->buffered_bytes = BYTES / 4;
    core_of(step)->start_byte_s = byte_s;
    pl_prediction *prediction = predict(step);
    const double first_s = overhead_s + byte_s * BYTES / 4,
                 third_from_s = first_s + overhead_s + BESIDE * 12e-9 + 1e-6,
                 queued_bytes = (2 * move_s - third_from_s) * link_bytes_per_s;
    ck_assert(queued_bytes > 0 && queued_bytes < BYTES / 4);
    ck_assert(agrees(exposed_s(prediction, 0, send[0]), first_s, 16));
    ck_assert(agrees(exposed_s(prediction, 0, send[1]), overhead_s, 4096));
    /* alone the first takes no longer: it flies while it is started, until the rest has room */
    ck_assert(agrees(prediction->stages[0].ops[send[0]].alone_s, move_s + overhead_s, 4));
    ck_assert(agrees(prediction->stages[0].ops[send[0]].busy_s, 0.75 * move_s, 4));
    ck_assert(agrees(exposed_s(prediction, 0, send[2]),
                     overhead_s + byte_s * (BYTES / 4 - queued_bytes), 4096));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* It flies while it is started, and takes half of the core, but for what it takes to hand it on. */
START_TEST(what_is_started_slows_its_own_start)
{
    const double byte_s = 1e-9, handed_bytes = BYTES / 4,
                 share = (5e-9 * BYTES - byte_s * handed_bytes) / move_s;
    small_step *step = two_hosts();
    const int send = move_op(step->p[0], PL_KIND_SEND, 1, N),
              recv = move_op(step->p[1], PL_KIND_RECV, 0, N), add = add_op(step->p[0], 10 * N);

    act(step->p[0], PL_ACTION_START, send);
    act(step->p[0], PL_ACTION_RUN, add);
    act(step->p[0], PL_ACTION_WAIT, send);
    start_and_wait(step->p[1], recv);
    *core_of(step) =
        (pl_core_cost){.sent_byte_s = 5e-9, .start_byte_s = byte_s, .buffered_bytes = handed_bytes};
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(exposed_s(prediction, 0, send),
                     (overhead_s + byte_s * handed_bytes) / (1 - share), 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Out of the system's buffers and from there, or once from where it was put aside; each time it is
 * read and written. */
static const double twice_s = 2 * 2 * BYTES / 1e9, once_s = 2 * BYTES / 1e9;

/* Two moves to stage 1. It asks for the second before or after an add, in which both come, and then
 * for the first. */
static pl_prediction *predict_late_receives(bool looks, int *first, int *second)
{
    small_step *step = two_hosts();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int one = move_op(a, PL_KIND_SEND, 1, N), two = move_op(a, PL_KIND_SEND, 1, N),
              add = add_op(b, 8 * N);

    *first = move_op(b, PL_KIND_RECV, 0, N);
    *second = move_op(b, PL_KIND_RECV, 0, N);
    a->ops[two].tag = b->ops[*second].tag = 1;
    act(a, PL_ACTION_START, one);
    act(a, PL_ACTION_START, two);
    if (looks)
        act(b, PL_ACTION_START, *second);
    act(b, PL_ACTION_RUN, add);
    if (!looks)
        act(b, PL_ACTION_START, *second);
    act(b, PL_ACTION_START, *first);
    act(b, PL_ACTION_WAIT, *second);
    act(b, PL_ACTION_WAIT, *first);
    pl_prediction *prediction = predict(step);
    small_step_destroy(step);
    return prediction;
}

START_TEST(what_was_sent_before_it_is_asked_for_has_come)
{
    int first, second;
    pl_prediction *looked = predict_late_receives(true, &first, &second);

    /* while the second is under way the first is put aside */
    ck_assert(agrees(exposed_s(looked, 1, second), overhead_s, 16));
    ck_assert(agrees(exposed_s(looked, 1, first), overhead_s + once_s, 4096));
    ck_assert(agrees(looked->stages[1].step_s, 8 * 0.012 + 1e-6 + 2 * overhead_s + once_s, 64));
    pl_prediction_destroy(looked);
    pl_prediction *unseen = predict_late_receives(false, &first, &second);
    /* both are read when the second is asked for, and the first put aside */
    ck_assert(agrees(exposed_s(unseen, 1, second), overhead_s + 2 * twice_s, 4096));
    ck_assert(agrees(exposed_s(unseen, 1, first), overhead_s + once_s, 4096));
    pl_prediction_destroy(unseen);
}
END_TEST

/* What stage 1 sends is off its hands at once. */
START_TEST(what_has_come_is_put_aside_when_something_else_is_started)
{
    small_step *step = two_hosts();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int send = move_op(a, PL_KIND_SEND, 1, N), take = move_op(a, PL_KIND_RECV, 1, N),
              add = add_op(b, 8 * N), back = move_op(b, PL_KIND_SEND, 0, N),
              recv = move_op(b, PL_KIND_RECV, 0, N);

    act(a, PL_ACTION_START, send);
    start_and_wait(a, take);
    act(b, PL_ACTION_RUN, add);
    act(b, PL_ACTION_START, back);
    start_and_wait(b, recv);
    core_of(step)->buffered_bytes = 8 * BYTES;
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(exposed_s(prediction, 1, back), overhead_s + twice_s, 4096));
    ck_assert(agrees(exposed_s(prediction, 1, recv), overhead_s + once_s, 4096));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* An AllReduce in one round, as large latencies make it, in which stage 1 takes part after an add.
 * All that it sends has room. */
static pl_prediction *predict_late_all_reduce(const char *algo, int ranks_per_core)
{
    small_step *step = two_hosts();
    const int add = add_op(step->p[1], 12 * N);
    int reduce = 0;

    for (int s = 0; s < 2; s++) {
        step->p[s]->fabric.chooser.algo = algo;
        reduce = all_reduce_op(step->p[s], N);
        if (s == 1)
            act(step->p[s], PL_ACTION_RUN, add);
        start_and_wait(step->p[s], reduce);
    }
    core_of(step)->buffered_bytes = BYTES;
    step->machine.ranks_per_core = ranks_per_core;
    pl_prediction *prediction = predict(step);
    small_step_destroy(step);
    return prediction;
}

START_TEST(who_comes_late_to_a_collective_of_one_round_finds_what_others_sent)
{
    const double late_s = 12 * 0.012 + 1e-6, all_s = 1e-5 + BYTES / 5e7, sum_s = BYTES / 2e8;
    pl_prediction *once = predict_late_all_reduce("all_reduce=recursive-doubling", 1),
                  *twice = predict_late_all_reduce("all_reduce=ring", 1);

    /* what has come is read and added up */
    ck_assert(agrees(once->stages[1].step_s, late_s + overhead_s + twice_s + sum_s, 64));
    /* what it sends takes as long as alone, and then the other adds it up */
    ck_assert(agrees(once->stages[0].step_s, late_s + all_s + sum_s, 64));
    ck_assert(agrees(once->step_s, once->stages[0].step_s, 1));
    /* of two rounds the second depends on it */
    ck_assert(twice->stages[1].step_s > late_s + all_s);
    pl_prediction_destroy(twice);
    pl_prediction_destroy(once);
}
END_TEST

/* Of three ranks the first sends once and so waits for nobody before, but others do. */
START_TEST(a_collective_in_which_some_wait_before_they_send_is_none_of_streams)
{
    small_step *step = one_stage(3);
    pl_program *const p = step->p[0];
    const int reduce = all_reduce_op(p, N);
    double longest_s = 0;

    start_and_wait(p, reduce);
    deal_to_hosts(step, 1);
    p->fabric.chooser.algo = "all_reduce=recursive-doubling";
    step->machine.link[PL_LINK_OTHER_HOST].n_cores = 1;
    core_of(step)->buffered_bytes = BYTES;
    pl_pricer *pricer = pl_pricer_create(&step->machine);
    for (int rank = 0; rank < 3; rank++)
        longest_s =
            fmax(longest_s, pl_price_op(pricer, p, &p->ops[reduce], (pl_coords){{rank}}).time_s);
    pl_pricer_destroy(pricer);
    pl_prediction *prediction = predict(step);
    ck_assert(longest_s > 0 && agrees(prediction->step_s, overhead_s + longest_s, 16));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

START_TEST(where_ranks_share_cores_one_of_each_stage_is_replayed_and_all_come_together)
{
    const double late_s = 12 * 0.012 + 1e-6;
    const double all_s = 1e-5 + BYTES / 5e7 + BYTES / 2e8;
    pl_prediction *shared = predict_late_all_reduce("all_reduce=recursive-doubling", 2);

    ck_assert(agrees(shared->stages[1].step_s, late_s + overhead_s + all_s, 64));
    ck_assert(agrees(shared->stages[0].step_s, late_s + overhead_s + all_s, 64));
    pl_prediction_destroy(shared);
}
END_TEST

/* Nothing is as long as a move in which stages come to wait for each other. */
static small_step *two_hosts_at_once(void)
{
    small_step *step = two_hosts();

    step->machine.comm_overhead_s = 0;
    return step;
}

/* By what an add of stage 0 takes longer beside a move to stage 1, from there, or both. */
static double taken_s(bool sends, bool receives)
{
    small_step *step = two_hosts_at_once();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int add = add_op(a, 10 * N);

    if (sends) {
        act(a, PL_ACTION_START, move_op(a, PL_KIND_SEND, 1, N));
        act(b, PL_ACTION_START, move_op(b, PL_KIND_RECV, 0, N));
    }
    if (receives) {
        act(b, PL_ACTION_START, move_op(b, PL_KIND_SEND, 0, N));
        act(a, PL_ACTION_START, move_op(a, PL_KIND_RECV, 1, N));
    }
    act(a, PL_ACTION_RUN, add);
    *core_of(step) = (pl_core_cost){.byte_s = 4e-9, .sent_byte_s = 3e-9, .received_byte_s = 1.5e-9};
    pl_prediction *prediction = predict(step);
    const double math_s = prediction->stages[0].math_s;
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
    return math_s - (10 * 0.012 + 1e-6);
}

/* A byte costs the same whether or not another goes the other way; all of a message has room. */
static pl_core_cost both_ways_alike(double byte_s, double polled_byte_s, double start_byte_s)
{
    return (pl_core_cost){.byte_s = byte_s,
                          .polled_byte_s = polled_byte_s,
                          .sent_byte_s = byte_s,
                          .received_byte_s = byte_s,
                          .start_byte_s = start_byte_s,
                          .buffered_bytes = 2 * BYTES};
}

/* A byte costs as much, whether a part of that is paid when it is started; of what is polled the
 * part is none any more. */
START_TEST(what_was_handed_on_is_not_paid_for_again)
{
    const double byte_s = 4e-9, polled_byte_s = 1.5e-9, start_byte_s = 1e-9,
                 add_s = 10 * 0.012 + 1e-6;
    small_step *step = two_hosts_at_once();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int send = move_op(a, PL_KIND_SEND, 1, N), back = move_op(a, PL_KIND_RECV, 1, N),
              add = add_op(a, 10 * N);

    act(b, PL_ACTION_START, move_op(b, PL_KIND_SEND, 0, N));
    act(b, PL_ACTION_START, move_op(b, PL_KIND_RECV, 0, N));
    act(a, PL_ACTION_START, back);
    act(a, PL_ACTION_START, send);
    act(a, PL_ACTION_RUN, add);
    *core_of(step) = both_ways_alike(byte_s, polled_byte_s, start_byte_s);
    pl_prediction *prediction = predict(step);
    const pl_stage_prediction *stage = &prediction->stages[0];
    const double start_s = start_byte_s * BYTES / (1 - (byte_s - start_byte_s) * BYTES / move_s);
    ck_assert(agrees(exposed_s(prediction, 0, send), start_s, 64));
    ck_assert(agrees(stage->step_s, add_s + byte_s * BYTES, 64));
    ck_assert(agrees(stage->ops[add].busy_s,
                     add_s + (byte_s - polled_byte_s) * BYTES * (1 - start_s / move_s), 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* A ring hands on the first of its two rounds. */
START_TEST(of_several_rounds_only_the_first_is_paid_for_at_the_start)
{
    const double byte_s = 4e-9, start_byte_s = 1e-9, handed_s = start_byte_s * BYTES / 2;
    small_step *step = two_hosts();
    int add = 0, reduce = 0;

    for (int s = 0; s < 2; s++) {
        pl_program *const p = step->p[s];

        p->fabric.chooser.algo = "all_reduce=ring";
        reduce = all_reduce_op(p, N);
        add = add_op(p, 20 * N);
        act(p, PL_ACTION_START, reduce);
        act(p, PL_ACTION_RUN, add);
        act(p, PL_ACTION_WAIT, reduce);
    }
    *core_of(step) = both_ways_alike(byte_s, 0, start_byte_s);
    pl_prediction *prediction = predict(step);
    const pl_stage_prediction *stage = &prediction->stages[0];
    ck_assert(agrees(stage->ops[reduce].exposed_s, overhead_s + handed_s, 1024));
    ck_assert(agrees(stage->ops[add].busy_s, 20 * 0.012 + 1e-6 + byte_s * BYTES - handed_s, 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

START_TEST(what_goes_and_what_comes_take_of_the_core_by_themselves_and_together)
{
    ck_assert(agrees(taken_s(true, false), 3e-9 * BYTES, 1024));
    ck_assert(agrees(taken_s(false, true), 1.5e-9 * BYTES, 1024));
    ck_assert(agrees(taken_s(true, true), 4e-9 * BYTES, 1024));
}
END_TEST

/* Two ranks of a stage; of the core of one messages take a fifth while an AllReduce flies beside an
 * add. It comes later to another one, for which it then waits less. */
START_TEST(of_a_stage_the_rank_is_shown_that_waits_least)
{
    small_step *step = one_stage(2);
    pl_program *const p = step->p[0];
    pl_link *const link = &step->machine.link[PL_LINK_OTHER_HOST];
    const int first = all_reduce_op(p, N), beside = add_op(p, 4 * N), second = all_reduce_op(p, N);
    const double all_s = 1e-5 + BYTES / 5e7 + BYTES / 2e8, share = 5e-9 * BYTES / all_s;

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_RUN, beside);
    start_and_wait(p, second);
    act(p, PL_ACTION_WAIT, first);
    deal_to_hosts(step, 1);
    p->fabric.chooser.algo = "all_reduce=recursive-doubling";
    step->machine.comm_overhead_s = 0;
    link->n_cores = 2;
    for (int slow = 0; slow < 2; slow++) {
        link->core[1 - slow] = (pl_core_cost){0};
        link->core[slow] =
            (pl_core_cost){.byte_s = 5e-9, .sent_byte_s = 5e-9, .received_byte_s = 5e-9};
        pl_prediction *prediction = predict(step);
        const pl_stage_prediction *shown = &prediction->stages[0];
        ck_assert(agrees(shown->ops[beside].busy_s, (4 * 0.012 + 1e-6) / (1 - share), 64));
        /* both go on when the links have carried both */
        ck_assert(agrees(prediction->step_s, 2 * all_s, 64));
        ck_assert(agrees(shown->exposed_s, 2 * all_s - shown->ops[beside].busy_s, 64));
        pl_prediction_destroy(prediction);
    }
    small_step_destroy(step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("streams");
    TCase *tcase = tcase_create("streams");

    tcase_add_test(tcase, a_send_is_over_when_what_is_left_has_room);
    tcase_add_test(tcase, starting_takes_the_core_for_what_has_room);
    tcase_add_test(tcase, what_is_started_slows_its_own_start);
    tcase_add_test(tcase, what_was_sent_before_it_is_asked_for_has_come);
    tcase_add_test(tcase, what_has_come_is_put_aside_when_something_else_is_started);
    tcase_add_test(tcase, who_comes_late_to_a_collective_of_one_round_finds_what_others_sent);
    tcase_add_test(tcase, a_collective_in_which_some_wait_before_they_send_is_none_of_streams);
    tcase_add_test(tcase,
                   where_ranks_share_cores_one_of_each_stage_is_replayed_and_all_come_together);
    tcase_add_test(tcase, of_several_rounds_only_the_first_is_paid_for_at_the_start);
    tcase_add_test(tcase, what_was_handed_on_is_not_paid_for_again);
    tcase_add_test(tcase, what_goes_and_what_comes_take_of_the_core_by_themselves_and_together);
    tcase_add_test(tcase, of_a_stage_the_rank_is_shown_that_waits_least);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
