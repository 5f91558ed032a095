/* flight_test -- what messages to other hosts and kernels beside them cost each other: replays of
 * small programs against times worked out by hand. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

/* Whichever way they go. */
static pl_core_cost core_cost(double byte_s, double polled_byte_s)
{
    return (pl_core_cost){.byte_s = byte_s,
                          .polled_byte_s = polled_byte_s,
                          .sent_byte_s = byte_s,
                          .received_byte_s = byte_s};
}

/* On every rank. */
static void set_core_cost(pl_machine *machine, double byte_s, double polled_byte_s)
{
    machine->link[PL_LINK_OTHER_HOST].n_cores = 1;
    machine->link[PL_LINK_OTHER_HOST].core[0] = core_cost(byte_s, polled_byte_s);
}

/* On ranks 0 and 1. */
static void set_core_costs(pl_machine *machine, double first_s, double second_s)
{
    machine->link[PL_LINK_OTHER_HOST].n_cores = 2;
    machine->link[PL_LINK_OTHER_HOST].core[0] = core_cost(first_s, 0);
    machine->link[PL_LINK_OTHER_HOST].core[1] = core_cost(second_s, 0);
}

START_TEST(messages_between_hosts_take_their_share_of_the_core_while_they_are_under_way)
{
    pl_machine machine = round_machine();
    const double of_core_s = 2 * HALF_BYTES / 2e8; /* both rounds' */

    set_core_cost(&machine, 1 / 2e8, 0);
    pl_prediction *all = predict_beside_add(&machine, 5000000, 1),
                  *part = predict_beside_add(&machine, 500000, 1);

    ck_assert(agrees(all->step_s, 2e-6 + 0.06 + 1e-6 + of_core_s + HALF_BYTES / 2e8, 64));
    /* a kernel of 0.006 s is over before the transfer: by its share it ends later */
    ck_assert(agrees(all->stages[0].math_s, 0.06 + 1e-6 + of_core_s, 64));
    ck_assert(agrees(all->stages[0].ops[1].alone_s, 0.06 + 1e-6, 1));
    /* the bounds are of kernels that nothing slows */
    ck_assert(agrees(all->lower_s, 0.06 + 1e-6, 1));
    ck_assert(agrees(all->upper_s, 0.06 + 1e-6 + all_reduce_s + 2e-6, 16));
    ck_assert(agrees(part->step_s, 2e-6 + all_reduce_s, 16));
    ck_assert(agrees(part->stages[0].math_s, (0.006 + 1e-6) / (1 - of_core_s / all_reduce_s), 64));
    pl_prediction_destroy(part);
    pl_prediction_destroy(all);
}
END_TEST

/* What the stage that receives takes for its kernels: it asks at once for what the other sends
 * after an add of 0.012001 s, and adds for 0.006001 s and 0.024001 s. A byte takes 5 ns of the core
 * of n_cores ranks, the last ones. */
static double predict_kernels_beside_receive(int receiver, int n_cores)
{
    small_step *step = two_stages();
    pl_program *const from = step->p[1 - receiver], *const to = step->p[receiver];
    const int made = add_op(from, 1000000), send = move_op(from, PL_KIND_SEND, receiver, 1000000),
              recv = move_op(to, PL_KIND_RECV, 1 - receiver, 1000000), before = add_op(to, 500000),
              beside = add_op(to, 2000000);

    act(from, PL_ACTION_RUN, made);
    act(from, PL_ACTION_START, send);
    act(from, PL_ACTION_WAIT, send);
    act(to, PL_ACTION_START, recv);
    act(to, PL_ACTION_RUN, before);
    act(to, PL_ACTION_RUN, beside);
    act(to, PL_ACTION_WAIT, recv);
    deal_to_hosts(step, 1);
    set_core_costs(&step->machine, n_cores == 2 ? 1 / 2e8 : 0, 1 / 2e8);
    pl_prediction *prediction = predict(step);
    const double math_s = prediction->stages[receiver].math_s;
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
    return math_s;
}

START_TEST(a_receive_takes_nothing_of_the_core_before_its_sender_begins)
{
    /* Asked for at 2 us, sent at 0.012001 s: the second add, begun at 6.003 ms, has then run for
     * 5.998 ms of its 24.001, and goes on beside 4 MB that take 0.02 s of the core in the 0.04001 s
     * they fly. */
    const double share = 4e6 / 2e8 / (1e-5 + 4e6 / 1e8);
    const double math_s = 0.006 + 1e-6 + 0.005998 + 0.018003 / (1 - share);

    ck_assert(agrees(predict_kernels_beside_receive(1, 2), math_s, 64));
    ck_assert(agrees(predict_kernels_beside_receive(0, 2), math_s, 64)); /* who is replayed first */
    ck_assert(agrees(predict_kernels_beside_receive(1, 1), math_s, 64));
    ck_assert(agrees(predict_kernels_beside_receive(0, 1), 0.03 + 2e-6, 16));
}
END_TEST

/* Of ranks that run the same, others wait for the one whose core messages take most of. */
START_TEST(ranks_of_a_stage_wait_for_the_one_whose_messages_cost_most)
{
    pl_machine machine = round_machine();

    set_core_cost(&machine, 1 / 2e8, 0);
    pl_prediction *alike = predict_beside_add(&machine, 5000000, 1);
    set_core_costs(&machine, 1 / 2e8, 1 / 4e8);
    pl_prediction *first = predict_beside_add(&machine, 5000000, 1);
    set_core_costs(&machine, 0, 1 / 2e8);
    pl_prediction *last = predict_beside_add(&machine, 5000000, 1);

    ck_assert(first->step_s == alike->step_s && first->stages[0].math_s == alike->stages[0].math_s);
    ck_assert(last->step_s == alike->step_s && last->stages[0].math_s == alike->stages[0].math_s);
    pl_prediction_destroy(last);
    pl_prediction_destroy(first);
    pl_prediction_destroy(alike);
}
END_TEST

/* What a byte takes of the core is measured with as many bytes going as coming. */
START_TEST(messages_that_come_while_others_go_take_nothing_more)
{
    small_step *step = two_stages();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int made = add_op(a, 1000000), send = move_op(a, PL_KIND_SEND, 1, 1000000),
              recv = move_op(a, PL_KIND_RECV, 1, 1000000),
              take = move_op(b, PL_KIND_RECV, 0, 1000000),
              give = move_op(b, PL_KIND_SEND, 0, 1000000), beside = add_op(b, 2500000);

    act(a, PL_ACTION_START, recv);
    act(a, PL_ACTION_RUN, made);
    act(a, PL_ACTION_START, send);
    act(a, PL_ACTION_WAIT, send);
    act(a, PL_ACTION_WAIT, recv);
    act(b, PL_ACTION_START, take);
    act(b, PL_ACTION_START, give);
    act(b, PL_ACTION_RUN, beside);
    act(b, PL_ACTION_WAIT, give);
    act(b, PL_ACTION_WAIT, take);
    deal_to_hosts(step, 1);
    set_core_cost(&step->machine, 1 / 2e8, 0);
    pl_prediction *prediction = predict(step);
    /* Messages take 0.02 s of the core in the 0.04001 s they fly: one goes until 0.04 s, one comes
     * from 0.024 s, when an add of 0.012001 s beside the first is over, to 0.064 s: all the while
     * of an add of 0.030001 s. */
    const double share = 4e6 / 2e8 / (1e-5 + 4e6 / 1e8);
    ck_assert(agrees(prediction->stages[1].math_s, (0.03 + 1e-6) / (1 - share), 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Beside kernels each of the two rounds would take 4 ms longer: the AllReduce would take `slower`
 * times as long. An add of 6.001 ms is over long before. */
START_TEST(rounds_take_longer_only_while_kernels_run)
{
    pl_machine machine = round_machine();
    const double add_s = 0.006 + 1e-6, slower = 1 + 2 * 4e-3 / all_reduce_s;

    machine.link[PL_LINK_OTHER_HOST].late_s = 4e-3;
    pl_prediction *part = predict_beside_add(&machine, 500000, 1),
                  *inside = predict_beside_add(&machine, 500000, 0);
    machine.link[PL_LINK_OTHER_HOST].late_s = 0;
    pl_prediction *as_before = predict_beside_add(&machine, 500000, 0);

    ck_assert(agrees(part->step_s, 2e-6 + all_reduce_s + add_s * (1 - 1 / slower), 64));
    ck_assert(agrees(part->stages[0].exposed_s,
                     2e-6 + all_reduce_s + add_s * (1 - 1 / slower) - add_s, 64));
    ck_assert(inside->step_s == as_before->step_s);
    pl_prediction_destroy(as_before);
    pl_prediction_destroy(inside);
    pl_prediction_destroy(part);
}
END_TEST

/* Half of what the AllReduce takes of the core it takes in the time that it takes alone, and half
 * in what late rounds add. */
START_TEST(late_messages_take_no_more_of_the_core)
{
    pl_machine machine = round_machine();
    const double of_core_s = 2 * HALF_BYTES / 2e8;

    set_core_cost(&machine, 1 / 2e8, 0);
    machine.link[PL_LINK_OTHER_HOST].late_s = all_reduce_s / 2;
    pl_prediction *all = predict_beside_add(&machine, 5000000, 1),
                  *part = predict_beside_add(&machine, 500000, 1);

    ck_assert(agrees(all->stages[0].math_s, 0.06 + 1e-6 + of_core_s, 64));
    ck_assert(
        agrees(part->stages[0].math_s, (0.006 + 1e-6) / (1 - of_core_s / (2 * all_reduce_s)), 64));
    pl_prediction_destroy(part);
    pl_prediction_destroy(all);
}
END_TEST

/* Stage 1 asks for 16 MB, waits for 4 MB to be sent, adds for 0.012001 s and waits: what comes gets
 * on all the time, but late only beside the add, and while the second move is started. */
START_TEST(while_its_rank_waits_a_transfer_is_not_late)
{
    small_step *step = two_stages();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int give = move_op(a, PL_KIND_SEND, 1, 4000000),
              take = move_op(a, PL_KIND_RECV, 1, 1000000),
              recv = move_op(b, PL_KIND_RECV, 0, 4000000),
              send = move_op(b, PL_KIND_SEND, 0, 1000000), add = add_op(b, 1000000);
    const double late_s = 0.1, move_s = 1e-5 + 16e6 / 1e8, slower = 1 + late_s / move_s;

    act(a, PL_ACTION_START, give);
    start_and_wait(a, take);
    act(a, PL_ACTION_WAIT, give);
    act(b, PL_ACTION_START, recv);
    start_and_wait(b, send);
    act(b, PL_ACTION_RUN, add);
    act(b, PL_ACTION_WAIT, recv);
    deal_to_hosts(step, 1);
    step->machine.link[PL_LINK_OTHER_HOST].late_s = late_s;
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(prediction->stages[1].step_s,
                     2e-6 + move_s + (2e-6 + 0.012 + 1e-6) * (1 - 1 / slower), 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Two AllReduces of two rounds, one started before the other: the second's first round goes between
 * the first's two. */
START_TEST(collectives_go_between_each_others_rounds)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2);

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_START, second);
    act(p, PL_ACTION_WAIT, first);
    act(p, PL_ACTION_WAIT, second);
    deal_to_hosts(step, 1);
    pl_prediction *prediction = predict(step);
    const pl_op_prediction *ops = prediction->stages[0].ops;
    ck_assert(agrees(ops[first].busy_s, 2e-6 + 1.5 * all_reduce_s, 64));
    ck_assert(agrees(ops[second].busy_s, 2 * all_reduce_s, 64));
    ck_assert(agrees(prediction->step_s, 2e-6 + 2 * all_reduce_s, 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* A move has its rank's link for itself. */
START_TEST(a_collective_waits_for_a_move_before_it)
{
    small_step *step = two_stages();
    pl_program *const a = step->p[0], *const b = step->p[1];
    const int send = move_op(a, PL_KIND_SEND, 1, 1000000),
              reduce = all_reduce_op(a, HALF_BYTES / 2),
              recv = move_op(b, PL_KIND_RECV, 0, 1000000), other = all_reduce_op(b, HALF_BYTES / 2);

    act(a, PL_ACTION_START, send);
    act(a, PL_ACTION_START, reduce);
    act(a, PL_ACTION_WAIT, reduce);
    act(a, PL_ACTION_WAIT, send);
    act(b, PL_ACTION_START, recv);
    act(b, PL_ACTION_START, other);
    act(b, PL_ACTION_WAIT, other);
    act(b, PL_ACTION_WAIT, recv);
    deal_to_hosts(step, 1);
    pl_prediction *prediction = predict(step);
    const double end_s = 2e-6 + 1e-5 + 4e6 / 1e8 + all_reduce_s;
    ck_assert(agrees(prediction->stages[0].step_s, end_s, 64));
    ck_assert(agrees(prediction->stages[1].step_s, end_s, 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* Two AllReduces, one started after the other, beside an add of 0.012001 s, on cores with so many
 * ranks of each. */
static pl_prediction *predict_two_beside_add(int ranks_per_core)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2),
              add = add_op(p, 1000000);

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_START, second);
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_WAIT, first);
    act(p, PL_ACTION_WAIT, second);
    deal_to_hosts(step, 1);
    step->machine.ranks_per_core = ranks_per_core;
    set_core_cost(&step->machine, 1 / 2e8, 0);
    pl_prediction *prediction = predict(step);
    small_step_destroy(step);
    return prediction;
}

/* Where every rank is replayed, each collective takes evenly of the core from its begin to its end,
 * for as long as the other makes that. */
START_TEST(messages_that_share_the_link_take_less_of_the_core_for_longer)
{
    pl_prediction *prediction = predict_two_beside_add(1);
    /* The second is started beside the first, which flies from 2 us on, from then on for 1.5 times
     * as long as alone; so does the second, from when the first round of the other is through. The
     * add ends while both fly. */
    const double alone = 2 * HALF_BYTES / 2e8 / all_reduce_s, share = alone / 1.5;
    const double begin_s = 2e-6 + 2e-6 / (1 - alone), both_s = 2e-6 + all_reduce_s / 2,
                 left_s = 0.012 + 1e-6 - (both_s - begin_s) * (1 - share);

    ck_assert(left_s > 0 && both_s + left_s / (1 - 2 * share) < 2e-6 + 1.5 * all_reduce_s);
    ck_assert(
        agrees(prediction->stages[0].math_s, both_s - begin_s + left_s / (1 - 2 * share), 256));
    pl_prediction_destroy(prediction);
}
END_TEST

/* Where one stands for all, what is on the link takes of the core as it goes. */
START_TEST(where_ranks_take_turns_the_link_takes_of_the_core_as_long_as_it_is_busy)
{
    pl_prediction *prediction = predict_two_beside_add(2);
    const pl_op_prediction *add = &prediction->stages[0].ops[2];
    const double share = 2 * HALF_BYTES / 2e8 / all_reduce_s;

    ck_assert(agrees(add->busy_s + add->turns_s, (0.012 + 1e-6) / (1 - share), 64));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(calls_that_make_progress_are_not_the_kernels_time)
{
    pl_machine machine = round_machine();
    const double of_core_s = 2 * HALF_BYTES / 2e8;

    set_core_cost(&machine, 1 / 2e8, 0);
    pl_prediction *kernel = predict_beside_add(&machine, 5000000, 1);
    set_core_cost(&machine, 1 / 2e8, 0.25 / 2e8);
    pl_prediction *polled = predict_beside_add(&machine, 5000000, 1);

    ck_assert(polled->step_s == kernel->step_s);
    ck_assert(agrees(polled->stages[0].ops[1].busy_s, 0.06 + 1e-6 + 0.75 * of_core_s, 64));
    ck_assert(polled->stages[0].ops[1].turns_s == 0);
    /* where ranks take turns it is others that have the core then */
    machine.ranks_per_core = 2;
    pl_prediction *shared = predict_beside_add(&machine, 5000000, 1);
    const pl_op_prediction *add = &shared->stages[0].ops[1];

    ck_assert(agrees(add->busy_s, (0.06 + 1e-6) / 2 + 0.75 * of_core_s, 64));
    ck_assert(agrees(add->busy_s + add->turns_s, 0.06 + 1e-6 + of_core_s, 64));
    pl_prediction_destroy(shared);
    pl_prediction_destroy(polled);
    pl_prediction_destroy(kernel);
}
END_TEST

/* More than go message by message at once, and an add that is longer than all of them. */
START_TEST(what_goes_as_a_whole_takes_of_the_core_too)
{
    enum { N = 65 };
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const double of_core_s = 2 * HALF_BYTES / 2e8; /* of one AllReduce */

    pl_free(p->actions);
    p->actions = pl_alloc((2 * N + 1) * sizeof *p->actions);
    for (int i = 0; i < N; i++)
        act(p, PL_ACTION_START, all_reduce_op(p, HALF_BYTES / 2));
    const int add = add_op(p, 200000000);
    act(p, PL_ACTION_RUN, add);
    for (int i = 0; i < N; i++)
        act(p, PL_ACTION_WAIT, i);
    deal_to_hosts(step, 1);
    step->machine.ranks_per_core = 2;
    set_core_cost(&step->machine, 1 / 2e8, 0);
    pl_prediction *prediction = predict(step);
    const pl_op_prediction *op = &prediction->stages[0].ops[add];
    const double taken_s = op->busy_s + op->turns_s - (2.4 + 1e-6);
    /* but for what flies while they are started */
    ck_assert(taken_s <= N * of_core_s && taken_s > (N - 0.1) * of_core_s);
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

/* What of a core's time an add of 6.0005 ms takes after an AllReduce that it waits for, and another
 * after that, with the turns of another rank like it; each of the two rounds may be late. */
static void predict_turns_after_wait(double late_s, double turns_s[2])
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int reduce = all_reduce_op(p, HALF_BYTES / 2), first = add_op(p, 1000000),
              second = add_op(p, 1000000);

    start_and_wait(p, reduce);
    act(p, PL_ACTION_RUN, first);
    act(p, PL_ACTION_RUN, second);
    deal_to_hosts(step, 1);
    step->machine.ranks_per_core = 2;
    step->machine.link[PL_LINK_OTHER_HOST].late_s = late_s;
    pl_prediction *prediction = predict(step);
    const pl_op_prediction *ops = prediction->stages[0].ops;
    ck_assert(agrees(ops[first].busy_s, 0.006 + 0.5e-6, 64));
    turns_s[0] = ops[first].turns_s;
    turns_s[1] = ops[second].turns_s;
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}

START_TEST(a_rank_whose_messages_came_first_has_its_core_for_itself)
{
    const double add_s = 0.006 + 0.5e-6;
    double none[2], some[2], more[2];

    predict_turns_after_wait(0, none);
    predict_turns_after_wait(1e-3, some);
    predict_turns_after_wait(4e-3, more);
    ck_assert(agrees(none[0], add_s, 64) && agrees(none[1], add_s, 64));
    ck_assert(agrees(some[0], add_s - 2e-3, 64) && agrees(some[1], add_s, 64));
    ck_assert(more[0] == 0 && agrees(more[1], 2 * add_s - 8e-3, 64));
}
END_TEST

/* Stages take turns by what each does. */
START_TEST(a_stage_whose_messages_came_has_no_core_for_itself)
{
    for (int late = 0; late < 2; late++) {
        small_step *step = two_stages();
        pl_program *const a = step->p[0], *const b = step->p[1];
        const int send = move_op(a, PL_KIND_SEND, 1, 1000), long_add = add_op(a, 4000000),
                  recv = move_op(b, PL_KIND_RECV, 0, 1000), add = add_op(b, 1000000);

        act(a, PL_ACTION_START, send);
        act(a, PL_ACTION_RUN, long_add);
        act(a, PL_ACTION_WAIT, send);
        start_and_wait(b, recv);
        act(b, PL_ACTION_RUN, add);
        deal_to_hosts(step, 1);
        step->machine.ranks_per_core = 2;
        step->machine.ranks_per_host = 1;
        step->machine.link[PL_LINK_OTHER_HOST].late_s = late * 2e-3;
        pl_prediction *prediction = predict(step);
        ck_assert(agrees(prediction->stages[1].ops[add].turns_s, 0.006 + 0.5e-6, 64));
        pl_prediction_destroy(prediction);
        small_step_destroy(step);
    }
}
END_TEST

/* A core of three ranks: one sends to another, the third adds. Calibrated with messages of all
 * three, those of two take two thirds of that. Its first add is over when the others wait. */
START_TEST(messages_of_a_core_slow_the_kernels_of_all_its_ranks)
{
    small_step *step = three_stages();
    pl_program **p = step->p;
    const int send = move_op(p[0], PL_KIND_SEND, 1, 1000000),
              recv = move_op(p[1], PL_KIND_RECV, 0, 1000000), tiny = add_op(p[2], 1000),
              add = add_op(p[2], 1000000);
    const double share = 4e6 / 2e8 / (1e-5 + 4e6 / 1e8);

    start_and_wait(p[0], send);
    start_and_wait(p[1], recv);
    act(p[2], PL_ACTION_RUN, tiny);
    act(p[2], PL_ACTION_RUN, add);
    deal_to_hosts(step, 1);
    step->machine.ranks_per_core = 3;
    step->machine.ranks_per_host = 1;
    set_core_cost(&step->machine, 1 / 2e8, 0);
    pl_prediction *prediction = predict(step);
    ck_assert(agrees(prediction->stages[2].ops[add].busy_s,
                     (0.012 + 1e-6) / 3 / (1 - share * 2 / 3), 64));
    pl_prediction_destroy(prediction);
    small_step_destroy(step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flight");
    TCase *tcase = tcase_create("flight");

    tcase_add_test(tcase,
                   messages_between_hosts_take_their_share_of_the_core_while_they_are_under_way);
    tcase_add_test(tcase, a_receive_takes_nothing_of_the_core_before_its_sender_begins);
    tcase_add_test(tcase, ranks_of_a_stage_wait_for_the_one_whose_messages_cost_most);
    tcase_add_test(tcase, messages_that_come_while_others_go_take_nothing_more);
    tcase_add_test(tcase, rounds_take_longer_only_while_kernels_run);
    tcase_add_test(tcase, late_messages_take_no_more_of_the_core);
    tcase_add_test(tcase, while_its_rank_waits_a_transfer_is_not_late);
    tcase_add_test(tcase, collectives_go_between_each_others_rounds);
    tcase_add_test(tcase, a_collective_waits_for_a_move_before_it);
    tcase_add_test(tcase, messages_that_share_the_link_take_less_of_the_core_for_longer);
    tcase_add_test(tcase, where_ranks_take_turns_the_link_takes_of_the_core_as_long_as_it_is_busy);
    tcase_add_test(tcase, calls_that_make_progress_are_not_the_kernels_time);
    tcase_add_test(tcase, what_goes_as_a_whole_takes_of_the_core_too);
    tcase_add_test(tcase, a_rank_whose_messages_came_first_has_its_core_for_itself);
    tcase_add_test(tcase, a_stage_whose_messages_came_has_no_core_for_itself);
    tcase_add_test(tcase, messages_of_a_core_slow_the_kernels_of_all_its_ranks);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
