/* The checker of schedules itself: it finds what is wrong, and nothing where nothing is. */
#include "tests/check_main.h"
#include "tests/schedule_checker.h"

#include <check.h>
#include <string.h>

/* Up to three ranks with a few elements each, schedules written by hand. Each caller puts a term
 * into element 0 of the one array; nothing is asked for. */
typedef struct {
    int n_ranks;
    sc_world world;
    pl_schedule *schedules[3];
} trio;

static const pl_piece cells[] = {
    {0, 0, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 0, 1, 2, 2}, {0, 1, 1, 2, 2}, {PL_SCRATCH, 0, 1, 1, 1}};
static const pl_region x0 = {1, &cells[0]}, x1 = {1, &cells[1]};
static const pl_region x01 = {1, &cells[2]}, x12 = {1, &cells[3]}, scratch = {1, &cells[4]};

static void trio_init(trio *t, int n_ranks)
{
    t->n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++)
        t->schedules[r] = pl_schedule_create();
}

static void fill_first(const sc_world *w, int rank, int run, void *context)
{
    (void)context;
    sc_region_fill(w, rank, x0, run);
}

/* Run it in all orders: the same word of blame, or none (NULL), whatever the order. */
static void trio_expect(trio *t, const char *word)
{
    const sc_callers callers = {.fill = fill_first};

    for (int order = 0; order < SC_N_ORDERS; order++) {
        const char *fault;

        sc_world_init(&t->world, t->n_ranks, 1, 3, 1, t->schedules);
        fault = sc_run(&t->world, &callers, (sc_order)order);
        sc_world_free(&t->world);
        if (word == NULL)
            ck_assert_msg(fault == NULL, "'%s' where nothing is wrong", fault);
        else
            ck_assert_msg(fault && strstr(fault, word), "'%s' should name a fault: %s",
                          fault ? fault : "nothing", word);
    }
    for (int r = 0; r < t->n_ranks; r++)
        pl_schedule_destroy(t->schedules[r]);
}

START_TEST(the_checker_sees_sends_that_need_buffering)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) { /* both send first, then receive */
        pl_schedule_send(t.schedules[r], 1 - r, x0);
        pl_schedule_next_round(t.schedules[r]);
        pl_schedule_recv(t.schedules[r], 1 - r, x1);
    }
    trio_expect(&t, "deadlock");
}
END_TEST

START_TEST(the_checker_sees_a_message_too_many)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv(t.schedules[1], 0, x1);
    trio_expect(&t, "left");
}
END_TEST

START_TEST(the_checker_sees_messages_of_different_sizes)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv(t.schedules[1], 0, x12);
    trio_expect(&t, "elements");
}
END_TEST

START_TEST(the_checker_sees_a_term_summed_twice)
{
    trio t;

    trio_init(&t, 2);
    for (int i = 0; i < 2; i++) {
        pl_schedule_send(t.schedules[0], 1, x0);
        pl_schedule_recv_add(t.schedules[1], 0, x0);
        pl_schedule_next_round(t.schedules[0]);
        pl_schedule_next_round(t.schedules[1]);
    }
    trio_expect(&t, "twice");
}
END_TEST

START_TEST(the_checker_sees_a_combination_of_a_term_with_itself)
{
    const pl_place to = {PL_SELF, x1}, from[] = {{PL_SELF, x0}, {PL_SELF, x0}};
    trio t;

    trio_init(&t, 1);
    pl_schedule_combine(t.schedules[0], PL_SUM, &to, 1, from, 2);
    trio_expect(&t, "twice");
}
END_TEST

START_TEST(the_checker_sees_a_sum_with_what_was_never_written)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv_add(t.schedules[1], 0, x1);
    trio_expect(&t, "adds");
}
END_TEST

START_TEST(the_checker_sees_a_maximum_instead_of_a_sum)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv_reduce(t.schedules[1], 0, x0, PL_MAX);
    trio_expect(&t, "operation");
}
END_TEST

START_TEST(the_checker_sees_a_receive_into_what_the_round_sends)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_send(t.schedules[r], 1 - r, x0);
        pl_schedule_recv(t.schedules[r], 1 - r, x0);
    }
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(the_checker_sees_a_combination_into_what_the_round_sends)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x1);
    pl_schedule_read(t.schedules[0], x1, PL_SELF, x0);
    pl_schedule_recv(t.schedules[1], 0, x1);
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(the_checker_sees_a_combination_that_overlaps_itself)
{
    trio t;

    trio_init(&t, 1);
    pl_schedule_read(t.schedules[0], x12, PL_SELF, x01);
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(copies_may_feed_what_follows_and_reductions_may_write_what_is_sent)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_copy(t.schedules[r], x1, x0);
        pl_schedule_send(t.schedules[r], 1 - r, x1);
        pl_schedule_recv_add(t.schedules[r], 1 - r, x1);
    }
    trio_expect(&t, NULL);
}
END_TEST

/* Rank 0 reads from rank 1, which says when it may and waits until it is over, but for what is left
 * out of it. */
typedef enum { LEAVE_NOTHING, LEAVE_OPENING, LEAVE_CLOSING } omission;

static void write_read(trio *t, omission left_out)
{
    pl_schedule *reader = t->schedules[0], *owner = t->schedules[1];

    pl_schedule_signal(owner);
    pl_schedule_next_round(owner);
    if (left_out != LEAVE_OPENING)
        pl_schedule_await(reader, 1, 1, 0);
    pl_schedule_read(reader, x1, 1, x0);
    pl_schedule_signal(reader);
    pl_schedule_next_round(reader);
    if (left_out == LEAVE_OPENING) /* too late */
        pl_schedule_await(reader, 1, 1, 0);
    pl_schedule_await(owner, 0, left_out == LEAVE_CLOSING ? PL_STAGE_END : 1,
                      left_out == LEAVE_CLOSING ? 2 : 0);
}

START_TEST(reading_between_two_handshakes_is_in_order)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_NOTHING);
    trio_expect(&t, NULL);
}
END_TEST

START_TEST(the_checker_sees_a_read_before_its_await)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_OPENING);
    trio_expect(&t, "race");
}
END_TEST

START_TEST(the_checker_sees_a_missing_closing_await)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_CLOSING);
    trio_expect(&t, "race");
}
END_TEST

START_TEST(the_checker_sees_an_await_of_the_signal_before_the_one_it_needs)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_next_round(t.schedules[1]);
    pl_schedule_publish(t.schedules[1], true);
    pl_schedule_copy(t.schedules[1], x1, x0);
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_next_round(t.schedules[1]);
    pl_schedule_await(t.schedules[0], 1, 1, 0); /* the copy comes before signal 2 */
    pl_schedule_read(t.schedules[0], x1, 1, x1);
    pl_schedule_signal(t.schedules[0]);
    pl_schedule_await(t.schedules[1], 0, 1, 0);
    trio_expect(&t, "race");
}
END_TEST

/* Rank 1 copies its element 0, and rank 0 reads the copy; or the original. */
static void copy_and_read(trio *t, bool published, pl_region read)
{
    pl_schedule *reader = t->schedules[0], *owner = t->schedules[1];

    pl_schedule_publish(owner, published);
    pl_schedule_copy(owner, x1, x0);
    pl_schedule_publish(owner, false);
    pl_schedule_signal(owner);
    pl_schedule_next_round(owner);
    pl_schedule_await(reader, 1, 1, 0);
    pl_schedule_read(reader, x1, 1, read);
    pl_schedule_signal(reader);
    pl_schedule_await(owner, 0, 1, 0);
}

START_TEST(the_checker_sees_what_is_read_but_was_not_published)
{
    trio t;

    trio_init(&t, 2);
    copy_and_read(&t, false, x1);
    trio_expect(&t, "unpublished");
    trio_init(&t, 2);
    copy_and_read(&t, true, x1);
    trio_expect(&t, NULL);
    trio_init(&t, 2);
    copy_and_read(&t, false, x0); /* which the caller wrote */
    trio_expect(&t, NULL);
}
END_TEST

/* Rank 0 writes its element 1 before the message which it sends rank 1, or while it flies; rank 1,
 * having it, reads that element, and says so. */
static void write_beside_message(trio *t, bool before)
{
    pl_schedule *from = t->schedules[0], *to = t->schedules[1];

    pl_schedule_publish(from, true);
    pl_schedule_read(from, x1, PL_SELF, x0);
    if (before)
        pl_schedule_next_round(from);
    pl_schedule_send(from, 1, x0);
    pl_schedule_next_round(from);
    pl_schedule_await(from, 1, 1, 0);
    pl_schedule_await(to, 0, PL_STAGE_END, 1);
    pl_schedule_recv(to, 0, x0);
    pl_schedule_next_round(to);
    pl_schedule_read(to, x1, 0, x1);
    pl_schedule_signal(to);
}

START_TEST(a_message_brings_what_was_written_before_it)
{
    trio t;

    trio_init(&t, 2);
    write_beside_message(&t, true);
    trio_expect(&t, NULL);
}
END_TEST

START_TEST(the_checker_sees_a_message_taken_for_what_is_written_beside_it)
{
    trio t;

    trio_init(&t, 2);
    write_beside_message(&t, false);
    trio_expect(&t, "race");
}
END_TEST

/* Rank 0 passes its element to rank 1 by way of staging; -1: it awaits nothing before it. */
static void write_staged(trio *t, int lag)
{
    pl_schedule *from = t->schedules[0], *to = t->schedules[1];
    const pl_region staging = pl_schedule_staging(from, 1);

    pl_schedule_staging(to, 1);
    if (lag >= 0)
        pl_schedule_await(from, 1, PL_STAGE_END, lag);
    pl_schedule_copy(from, staging, x0);
    pl_schedule_signal(from);
    pl_schedule_next_round(from);
    if (lag < 0) /* both await each other, but of the wrong half */
        pl_schedule_await(from, 1, PL_STAGE_END, 3);
    pl_schedule_await(to, 0, 1, 0);
    pl_schedule_read(to, x1, 0, staging);
}

START_TEST(staging_that_awaits_the_end_of_the_run_before_last_is_in_order)
{
    trio t;

    trio_init(&t, 2);
    write_staged(&t, 2);
    trio_expect(&t, NULL);
}
END_TEST

START_TEST(the_checker_sees_staging_used_again_too_early)
{
    for (int lag = -1; lag <= 3; lag += 4) {
        trio t;

        trio_init(&t, 2);
        write_staged(&t, lag);
        trio_expect(&t, "race");
    }
}
END_TEST

START_TEST(the_checker_sees_awaits_in_a_circle)
{
    trio t;

    trio_init(&t, 3);
    for (int r = 0; r < 3; r++) {
        pl_schedule_await(t.schedules[r], (r + 1) % 3, 1, 0);
        pl_schedule_await(t.schedules[r], (r + 2) % 3, PL_STAGE_END, 1);
        pl_schedule_signal(t.schedules[r]);
    }
    trio_expect(&t, "deadlock");
}
END_TEST

START_TEST(the_checker_sees_partners_of_one_side)
{
    trio t;

    trio_init(&t, 2); /* rank 1 never awaits rank 0 */
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_await(t.schedules[0], 1, 1, 0);
    trio_expect(&t, "partner");
    trio_init(&t, 2); /* rank 0 reads what it never awaits */
    pl_schedule_read(t.schedules[0], x1, 1, x0);
    trio_expect(&t, "partner");
}
END_TEST

START_TEST(the_checker_sees_an_await_of_a_stage_that_never_comes)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_signal(t.schedules[r]);
        pl_schedule_next_round(t.schedules[r]);
        pl_schedule_await(t.schedules[r], 1 - r, 1 + r, 0);
    }
    trio_expect(&t, "never");
}
END_TEST

START_TEST(the_checker_sees_accesses_outside_of_memory)
{
    const pl_piece beyond = {PL_STAGING, 1, 1, 1, 1};
    trio t;

    trio_init(&t, 1);
    pl_schedule_staging(t.schedules[0], 1);
    pl_schedule_copy(t.schedules[0], (pl_region){1, &beyond}, x0);
    trio_expect(&t, "outside");
    trio_init(&t, 1);
    pl_schedule_copy(t.schedules[0], scratch, x0); /* which it never asked for */
    trio_expect(&t, "outside");
    trio_init(&t, 2); /* a peer's scratch */
    for (int r = 0; r < 2; r++)
        pl_schedule_await(t.schedules[r], 1 - r, PL_STAGE_END, 1);
    pl_schedule_scratch(t.schedules[1], 1);
    pl_schedule_read(t.schedules[0], x1, 1, scratch);
    trio_expect(&t, "outside");
}
END_TEST

START_TEST(the_checker_sees_a_rank_that_takes_itself_for_a_peer)
{
    trio t;

    trio_init(&t, 1);
    pl_schedule_read(t.schedules[0], x1, 0, x0);
    trio_expect(&t, "itself");
}
END_TEST

static int64_t count_missing(const sc_world *w, int rank, int run, void *context)
{
    (void)context;
    return sc_cell(w, rank, 0, 1)->id != run;
}

START_TEST(the_checker_sees_a_result_that_is_missing_in_a_later_run)
{
    const sc_callers callers = {fill_first, count_missing, NULL};
    pl_schedule *s = pl_schedule_create();
    const pl_region staging = pl_schedule_staging(s, 1);
    sc_world world;
    const char *fault;

    pl_schedule_copy(s, x1, staging); /* nothing yet, or what the run before last has left */
    pl_schedule_next_round(s);
    pl_schedule_copy(s, staging, x0);
    sc_world_init(&world, 1, 1, 3, 1, &s);
    fault = sc_run(&world, &callers, SC_IN_TURN);
    ck_assert(fault && strstr(fault, "wrong"));
    sc_world_free(&world);
    pl_schedule_destroy(s);
}
END_TEST

START_TEST(the_checker_sees_memory_out_of_reach)
{
    const sc_callers callers = {.fill = fill_first};
    const int hosts[] = {0, 1};
    pl_arena *arena = pl_arena_create();
    const pl_site apart = pl_site_on_hosts(arena, 2, hosts, true);
    const pl_site unshared = pl_site_one_host(arena, 2, false);
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_NOTHING);
    for (int i = 0; i < 2; i++) {
        const char *fault;

        sc_world_init(&t.world, 2, 1, 3, 1, t.schedules);
        t.world.site = i == 0 ? &apart : &unshared;
        fault = sc_run(&t.world, &callers, SC_IN_TURN);
        ck_assert(fault && strstr(fault, "reach"));
        sc_world_free(&t.world);
    }
    trio_expect(&t, NULL);
    pl_arena_destroy(arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("schedule checker");
    TCase *tc = tcase_create("faults");

    tcase_add_test(tc, the_checker_sees_sends_that_need_buffering);
    tcase_add_test(tc, the_checker_sees_a_message_too_many);
    tcase_add_test(tc, the_checker_sees_messages_of_different_sizes);
    tcase_add_test(tc, the_checker_sees_a_term_summed_twice);
    tcase_add_test(tc, the_checker_sees_a_combination_of_a_term_with_itself);
    tcase_add_test(tc, the_checker_sees_a_sum_with_what_was_never_written);
    tcase_add_test(tc, the_checker_sees_a_maximum_instead_of_a_sum);
    tcase_add_test(tc, the_checker_sees_a_receive_into_what_the_round_sends);
    tcase_add_test(tc, the_checker_sees_a_combination_into_what_the_round_sends);
    tcase_add_test(tc, the_checker_sees_a_combination_that_overlaps_itself);
    tcase_add_test(tc, copies_may_feed_what_follows_and_reductions_may_write_what_is_sent);
    tcase_add_test(tc, reading_between_two_handshakes_is_in_order);
    tcase_add_test(tc, the_checker_sees_a_read_before_its_await);
    tcase_add_test(tc, the_checker_sees_a_missing_closing_await);
    tcase_add_test(tc, the_checker_sees_an_await_of_the_signal_before_the_one_it_needs);
    tcase_add_test(tc, the_checker_sees_what_is_read_but_was_not_published);
    tcase_add_test(tc, a_message_brings_what_was_written_before_it);
    tcase_add_test(tc, the_checker_sees_a_message_taken_for_what_is_written_beside_it);
    tcase_add_test(tc, staging_that_awaits_the_end_of_the_run_before_last_is_in_order);
    tcase_add_test(tc, the_checker_sees_staging_used_again_too_early);
    tcase_add_test(tc, the_checker_sees_awaits_in_a_circle);
    tcase_add_test(tc, the_checker_sees_partners_of_one_side);
    tcase_add_test(tc, the_checker_sees_an_await_of_a_stage_that_never_comes);
    tcase_add_test(tc, the_checker_sees_accesses_outside_of_memory);
    tcase_add_test(tc, the_checker_sees_a_rank_that_takes_itself_for_a_peer);
    tcase_add_test(tc, the_checker_sees_a_result_that_is_missing_in_a_later_run);
    tcase_add_test(tc, the_checker_sees_memory_out_of_reach);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
