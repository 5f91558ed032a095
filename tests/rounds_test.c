/* rounds_test -- collectives on a rank's link, message by message, against times worked out by
 * hand. */
#include "config.h"

#include "src/roofline/rounds.h"

#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

#include <math.h>

enum { MOST_OPS = 80 };

/* Rank 0 of four; a collective's schedule is what a test says. */
static small_step *step;
static pl_simulation sim;
static pl_replay rank;
static pl_op_price price[MOST_OPS];
static double begin_s[MOST_OPS], through_s[MOST_OPS];
static bool is_stream[MOST_OPS];

static void setup(void)
{
    step = one_stage(4);
    for (int i = 0; i < MOST_OPS; i++) {
        all_reduce_op(step->p[0], 1);
        price[i] = (pl_op_price){0};
        begin_s[i] = through_s[i] = NAN;
        is_stream[i] = false;
    }
    sim = (pl_simulation){.arena = pl_arena_create()};
    rank = (pl_replay){.p = step->p[0],
                       .price = price,
                       .begin_s = begin_s,
                       .through_s = through_s,
                       .is_stream = is_stream};
}

static void teardown(void)
{
    pl_arena_destroy(sim.arena);
    small_step_destroy(step);
}

/* Collective i, which takes time_s alone, may begin at ready_s. */
static bool begin(int i, double ready_s, double time_s, const pl_message_price *messages, int n)
{
    price[i].time_s = time_s;
    price[i].messages = messages;
    price[i].n_messages = n;
    return pl_rounds_begin(&sim, &rank, i, ready_s);
}

static const pl_message_price to_first[] = {{0, 1, 1}}, to_second[] = {{0, 2, 1}},
                              to_third[] = {{0, 3, 1}};

static void check_times(int i, double from_s, double to_s)
{
    ck_assert_msg(agrees(1 + begin_s[i], 1 + from_s, 16) && agrees(through_s[i], to_s, 16),
                  "collective %d: %g to %g s, not %g to %g", i, begin_s[i], through_s[i], from_s,
                  to_s);
}

START_TEST(messages_to_one_rank_go_one_after_the_other)
{
    ck_assert(begin(0, 0, 3, to_first, 1));
    check_times(0, 0, 3);
    ck_assert(begin(1, 1, 4, to_first, 1));
    check_times(0, 0, 3);
    check_times(1, 3, 7);
    ck_assert(rank.link_free_s[0] == 7);
    ck_assert(begin(2, 9, 1, to_first, 1));
    check_times(2, 9, 10);
}
END_TEST

START_TEST(messages_to_several_ranks_share_the_link)
{
    ck_assert(begin(0, 0, 3, to_first, 1));
    ck_assert(begin(1, 1, 3, to_second, 1));
    check_times(0, 0, 5); /* 1 s alone, and 2 at half the rate */
    check_times(1, 1, 6);
    ck_assert(rank.link_free_s[0] == 6);
}
END_TEST

START_TEST(what_is_started_later_goes_between_rounds)
{
    static const pl_message_price two_rounds[] = {{0, 1, 0.5}, {1, 1, 0.5}};

    ck_assert(begin(0, 0, 4, two_rounds, 2));
    check_times(0, 0, 4);
    ck_assert(begin(1, 1, 3, to_first, 1));
    check_times(1, 2, 5);
    check_times(0, 0, 7);
}
END_TEST

START_TEST(a_round_is_over_when_all_its_messages_are_through)
{
    static const pl_message_price messages[] = {
        {0, 2, 0.125}, {0, 1, 0.5}, {0, 3, 0.125}, {3, 1, 0.25}};

    ck_assert(
        begin(0, 0, 4, messages, 4)); /* the second is through at 3 s, its neighbours at 1.5 */
    check_times(0, 0, 4);
    ck_assert(begin(1, 2.5, 1, to_first, 1)); /* before the other's last message is handed over */
    check_times(1, 3, 4);
    check_times(0, 0, 5);
}
END_TEST

START_TEST(messages_of_a_round_to_one_rank_go_one_after_the_other)
{
    static const pl_message_price messages[] = {{0, 1, 0.25}, {0, 1, 0.25}, {0, 2, 0.5}};

    ck_assert(begin(0, 0, 4, messages, 3));
    ck_assert(begin(1, 1, 3, to_third, 1)); /* shares with one to rank 1 and the one to rank 2 */
    check_times(0, 0, 5.5);
    check_times(1, 1, 7);
}
END_TEST

START_TEST(what_goes_as_a_whole_keeps_rounds_off_the_link)
{
    rank.whole_until_s = 5;
    ck_assert(begin(0, 1, 3, to_first, 1));
    check_times(0, 5, 8);
}
END_TEST

/* Of a mesh of 2 x 2, the second rank along an axis is rank 2 along the first and rank 1 along the
 * other; along both it is rank 1, too. */
START_TEST(collectives_over_other_axes_meet_at_ranks)
{
    pl_program *p = step->p[0];

    step->mesh = (pl_mesh){0};
    ck_assert(pl_mesh_add(&step->mesh, "dp", 2) == PL_OK &&
              pl_mesh_add(&step->mesh, "tp", 2) == PL_OK);
    p->ops[0].axes = 1;
    p->ops[1].axes = 2;
    p->ops[2].axes = 3;
    ck_assert(begin(0, 0, 4, to_first, 1)); /* to rank 2 */
    ck_assert(begin(1, 0, 4, to_first, 1)); /* to rank 1 */
    ck_assert(begin(2, 0, 4, to_first, 1)); /* to rank 1, after that */
    check_times(0, 0, 8);
    check_times(1, 0, 8);
    check_times(2, 8, 12);
}
END_TEST

START_TEST(some_go_as_a_whole)
{
    int n = 0;

    ck_assert(!begin(0, 0, 3, NULL, 0)); /* its messages are not known */
    is_stream[1] = true;
    ck_assert(!begin(1, 0, 3, to_first, 1));
    while (n < MOST_OPS - 2 && begin(n + 2, 0, 1, to_first, 1)) /* too many are on the link */
        n++;
    ck_assert_int_eq(n, 64);
    check_times(65, 63, 64);
    ck_assert(begin(66, 1, 1, to_first, 1)); /* the first is over */
}
END_TEST

START_TEST(what_takes_no_time_is_through_at_once)
{
    static const pl_message_price two_rounds[] = {{0, 1, 0.5}, {1, 2, 0.5}};

    ck_assert(begin(0, 0, 3, to_first, 1));
    ck_assert(begin(1, 1, 0, two_rounds, 2));
    check_times(1, 1, 1);
    check_times(0, 0, 3);
    ck_assert(begin(2, 5, 0, to_first, 1));
    check_times(2, 5, 5);
}
END_TEST

/* What takes of the core of the rank at now_s, and when that changes. */
static void check_flow(double now_s, double bytes_per_s, double next_s)
{
    pl_traffic t = {.next_s = INFINITY};

    pl_rounds_add(&rank, now_s, &t);
    ck_assert_msg(agrees(1 + t.sent, 1 + bytes_per_s, 16) && t.received == t.sent &&
                      t.handed == 0 && (t.next_s == next_s || agrees(t.next_s, next_s, 16)),
                  "at %g s: %g B/s until %g s, not %g until %g", now_s, t.sent, t.next_s,
                  bytes_per_s, next_s);
}

START_TEST(what_is_on_the_link_flies_as_it_goes)
{
    check_flow(0, 0, INFINITY);
    price[0].core_bytes = 6;
    price[1].core_bytes = 12;
    price[2].core_bytes = 5;
    ck_assert(begin(0, 0, 3, to_first, 1));
    check_flow(0, 2, 3);
    ck_assert(begin(1, 1, 3, to_second, 1));
    check_flow(0.5, 2, 1); /* since something was put there before */
    check_flow(1, 3, 5);   /* half of 2 and half of 4 bytes a second */
    check_flow(5.5, 4, 6);
    check_flow(6, 0, INFINITY);
    ck_assert(begin(2, 8, 1, to_first, 1));
    check_flow(5.5, 4, 6);
    check_flow(7, 0, 8);
    check_flow(8, 5, 9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rounds");
    TCase *tcase = tcase_create("rounds");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, messages_to_one_rank_go_one_after_the_other);
    tcase_add_test(tcase, messages_to_several_ranks_share_the_link);
    tcase_add_test(tcase, what_is_started_later_goes_between_rounds);
    tcase_add_test(tcase, a_round_is_over_when_all_its_messages_are_through);
    tcase_add_test(tcase, messages_of_a_round_to_one_rank_go_one_after_the_other);
    tcase_add_test(tcase, what_goes_as_a_whole_keeps_rounds_off_the_link);
    tcase_add_test(tcase, collectives_over_other_axes_meet_at_ranks);
    tcase_add_test(tcase, some_go_as_a_whole);
    tcase_add_test(tcase, what_takes_no_time_is_through_at_once);
    tcase_add_test(tcase, what_is_on_the_link_flies_as_it_goes);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
