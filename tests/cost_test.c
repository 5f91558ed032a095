/* cost_test -- what schedules cost, against times worked out by hand; no MPI. */
#include "config.h"

#include "collectives/cost.h"

#include "collectives/collective.h"
#include "collectives/region.h"
#include "tests/check_main.h"
#include "tests/figures.h"

/* Every figure another, so that none can stand in for another. */
static pl_machine odd_machine(void)
{
    return (pl_machine){
        .reduce_bytes_per_s = 2e6,
        .copy_bytes_per_s = 3e6,
        .signal_s = 5e-5,
        .shared_bytes_per_s = {[PL_SHARED_COPY] = flat(7e6),
                               [PL_SHARED_REDUCE] = flat(11e6),
                               [PL_SHARED_SPREAD] = flat(13e6),
                               [PL_SHARED_FRESH] = flat(17e6),
                               [PL_SHARED_STAGED] = flat(37e6)},
        .link = {{.latency_s = 1e-3, .one_way_bytes_per_s = 19e6, .both_ways_bytes_per_s = 23e6},
                 {.latency_s = 2e-3, .one_way_bytes_per_s = 29e6, .both_ways_bytes_per_s = 31e6}}};
}

enum { A, B }; /* arrays */

/* What every test of prices needs. */
typedef struct {
    pl_machine machine;
    pl_arena *arena;
    pl_site site; /* ranks 0, 1, 2 on one host, 3 on another */
    pl_schedule *s;
} fixture;

static fixture set_up(void)
{
    static const int host_of[] = {0, 0, 0, 1};
    fixture f = {.machine = odd_machine(), .arena = pl_arena_create(), .s = pl_schedule_create()};

    f.site = pl_site_on_hosts(f.arena, 4, host_of, true);
    return f;
}

static void tear_down(fixture *f)
{
    pl_schedule_destroy(f->s);
    pl_arena_destroy(f->arena);
}

static double price(const fixture *f)
{
    return pl_schedule_price_s(f->s, PL_F32, &f->machine, &f->site, 0);
}

/* 100 elements, 400 bytes. */
static pl_region region(fixture *f, int array, int64_t offset)
{
    pl_piece *piece = pl_arena_alloc(f->arena, sizeof *piece);

    *piece = pl_piece_of(array, offset, 100);
    return (pl_region){1, piece};
}

START_TEST(a_message_costs_latency_and_bytes_of_its_link)
{
    fixture f = set_up();

    pl_schedule_send(f.s, 1, region(&f, A, 0));
    pl_schedule_next_round(f.s);
    pl_schedule_send(f.s, 3, region(&f, A, 0));
    pl_schedule_recv(f.s, 3, region(&f, B, 0));
    pl_schedule_next_round(f.s);
    ck_assert(agrees(price(&f), 1e-3 + 400 / 19e6 + 2e-3 + 400 / 31e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(messages_of_a_round_share_their_link_and_each_cost_a_latency)
{
    fixture f = set_up();

    for (int peer = 1; peer < 3; peer++) {
        pl_schedule_send(f.s, peer, region(&f, A, 0));
        pl_schedule_recv(f.s, peer, region(&f, B, 100 * peer));
    }
    ck_assert(agrees(price(&f), 2 * 1e-3 + 800 / 23e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(further_messages_of_a_round_cost_less_than_the_first_where_that_is_known)
{
    fixture f = set_up();

    f.machine.link[0].message_s = 1e-4;
    for (int peer = 1; peer < 3; peer++)
        pl_schedule_send(f.s, peer, region(&f, A, 0));
    ck_assert(agrees(price(&f), 1e-3 + 1e-4 + 800 / 19e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(the_bandwidth_of_messages_is_that_of_their_mean_size)
{
    fixture f = set_up();

    f.machine.link[0].one_way_by_size =
        (pl_curve){.n_points = 3, .size = {100, 400, 800}, .rate = {1e5, 2e5, 3e5}};
    for (int peer = 1; peer < 3; peer++)
        pl_schedule_send(f.s, peer, region(&f, A, 0));
    ck_assert(agrees(price(&f), 2 * 1e-3 + 800 / 2e5, 8));
    tear_down(&f);
}
END_TEST

START_TEST(without_a_measured_link_hosts_are_taken_for_one)
{
    fixture f = set_up();

    memset(&f.machine.link[PL_LINK_OTHER_HOST], 0, sizeof f.machine.link[0]);
    pl_schedule_send(f.s, 3, region(&f, A, 0));
    ck_assert(agrees(price(&f), 1e-3 + 400 / 19e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(received_data_are_reduced_at_their_own_rate)
{
    fixture f = set_up();

    pl_schedule_recv_add(f.s, 1, region(&f, A, 0));
    ck_assert(agrees(price(&f), 1e-3 + 400 / 19e6 + 400 / 2e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(a_stage_is_paid_for_once)
{
    fixture f = set_up();
    int stage;

    for (int i = 1; i <= 2; i++) {
        stage = pl_schedule_signal(f.s);
        for (int peer = 1; peer < 3; peer++) {
            pl_schedule_next_round(f.s);
            pl_schedule_await(f.s, peer, stage, 0);
        }
        ck_assert(agrees(price(&f), i * 5e-5, 4));
    }
    ck_assert_int_eq(pl_schedule_count(f.s, PL_F32).awaits, 4); /* rounds that look */
    tear_down(&f);
}
END_TEST

START_TEST(awaiting_an_earlier_run_is_free)
{
    fixture f = set_up();

    pl_schedule_await(f.s, 1, PL_STAGE_END, 2);
    ck_assert(price(&f) == 0);
    tear_down(&f);
}
END_TEST

/* block 0 of `to` <- block 0 of A of this rank and of peers 1 and 2. */
static void combine(fixture *f, const pl_place *to, int n_to)
{
    const pl_place from[] = {
        {PL_SELF, region(f, A, 0)}, {1, region(f, A, 0)}, {2, region(f, A, 0)}};

    pl_schedule_combine(f->s, PL_SUM, to, n_to, from, 3);
}

/* The same, to block 0 of an array of this rank. */
static void combine_into(fixture *f, int array)
{
    const pl_place to = {PL_SELF, region(f, array, 0)};

    combine(f, &to, 1);
}

START_TEST(a_reduction_costs_what_it_touches)
{
    fixture f = set_up();

    combine_into(&f, B);
    ck_assert(agrees(price(&f), 1600 / 11e6, 4));
    tear_down(&f);
}
END_TEST

START_TEST(writing_to_peers_has_a_rate_of_its_own)
{
    fixture f = set_up();
    const pl_place to[] = {{PL_SELF, region(&f, B, 0)}, {1, region(&f, B, 0)}};

    combine(&f, to, 2);
    ck_assert(agrees(price(&f), 2000 / 13e6, 4));
    tear_down(&f);
}
END_TEST

START_TEST(a_copy_is_read_and_written)
{
    fixture f = set_up();

    pl_schedule_signal(f.s);
    pl_schedule_next_round(f.s);
    pl_schedule_copy(f.s, region(&f, B, 0), region(&f, A, 0));
    pl_schedule_next_round(f.s);
    pl_schedule_await(f.s, 1, 1, 0);
    pl_schedule_read(f.s, region(&f, B, 100), 1, region(&f, A, 0));
    ck_assert(agrees(price(&f), 800 / 7e6 + 5e-5 + 800 / 7e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(staging_has_a_rate_of_its_own_in_and_out)
{
    fixture f = set_up();

    pl_schedule_copy(f.s, region(&f, PL_STAGING, 0), region(&f, A, 0));
    pl_schedule_next_round(f.s);
    pl_schedule_read(f.s, region(&f, B, 0), 1, region(&f, PL_STAGING, 0));
    ck_assert(agrees(price(&f), 2 * 800 / 37e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(what_is_read_of_a_peer_after_writing_and_signalling_is_fresh)
{
    fixture f = set_up();

    pl_schedule_signal(f.s);
    pl_schedule_next_round(f.s);
    pl_schedule_await(f.s, 1, 1, 0);
    pl_schedule_read(f.s, region(&f, A, 0), 1, region(&f, A, 0)); /* nobody had written */
    ck_assert(agrees(price(&f), 5e-5 + 800 / 7e6, 8));
    pl_schedule_signal(f.s);
    pl_schedule_next_round(f.s);
    pl_schedule_await(f.s, 1, 2, 0);
    pl_schedule_read(f.s, region(&f, A, 100), 1, region(&f, A, 100));
    pl_schedule_next_round(f.s);
    ck_assert(agrees(price(&f), 2 * 5e-5 + 800 / 7e6 + 800 / 17e6, 8));
    pl_schedule_copy(f.s, region(&f, B, 100), region(&f, B, 0)); /* one's own */
    ck_assert(agrees(price(&f), 2 * 5e-5 + 2 * 800 / 7e6 + 800 / 17e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(what_is_published_is_fresh_and_nothing_else_that_is_written)
{
    fixture f = set_up();
    const pl_place sum = {PL_SELF, region(&f, B, 0)};

    pl_schedule_publish(f.s, true);
    pl_schedule_copy(f.s, region(&f, A, 0), region(&f, B, 0));
    pl_schedule_publish(f.s, false);
    pl_schedule_signal(f.s);
    pl_schedule_next_round(f.s);
    pl_schedule_copy(f.s, region(&f, B, 100), region(&f, B, 0));
    pl_schedule_next_round(f.s);
    ck_assert(agrees(price(&f), 800 / 17e6 + 800 / 7e6, 8));
    pl_schedule_publish(f.s, true);
    pl_schedule_combine(f.s, PL_SUM, &sum, 1,
                        (pl_place[]){{PL_SELF, region(&f, A, 0)}, {PL_SELF, region(&f, A, 100)}},
                        2);
    ck_assert(agrees(price(&f), 800 / 17e6 + 800 / 7e6 + 1200 / 17e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(the_rate_is_that_of_the_memory_touched_by_the_whole_run)
{
    fixture f = set_up();

    f.machine.shared_bytes_per_s[PL_SHARED_REDUCE] =
        (pl_curve){.n_points = 3, .size = {1200, 1600, 2800}, .rate = {1e6, 2e6, 3e6}};
    combine_into(&f, A);
    ck_assert(agrees(price(&f), 1200 / 1e6, 4)); /* the result lies where a term lay */
    pl_schedule_next_round(f.s);
    combine_into(&f, B);
    ck_assert(agrees(price(&f), 2800 / 3e6, 4));
    tear_down(&f);
}
END_TEST

START_TEST(combinations_run_while_messages_between_hosts_fly)
{
    fixture f = set_up();

    pl_schedule_send(f.s, 3, region(&f, A, 0));
    combine_into(&f, B);
    ck_assert(agrees(price(&f), 2e-3 + 400 / 29e6, 8)); /* the longer */
    f.machine.shared_bytes_per_s[PL_SHARED_REDUCE] = flat(1e5);
    ck_assert(agrees(price(&f), 1600 / 1e5, 8));
    tear_down(&f);
}
END_TEST

START_TEST(inside_a_host_cores_do_one_after_the_other)
{
    fixture f = set_up();

    pl_schedule_send(f.s, 1, region(&f, A, 0));
    combine_into(&f, B);
    ck_assert(agrees(price(&f), 1e-3 + 400 / 19e6 + 1600 / 11e6, 8));
    tear_down(&f);
}
END_TEST

START_TEST(bytes_are_those_of_the_type)
{
    fixture f = set_up();
    const pl_place to[] = {{PL_SELF, region(&f, A, 0)}, {2, region(&f, A, 0)}};

    pl_schedule_send(f.s, 1, region(&f, A, 0));
    combine(&f, to, 2); /* of 3 sources 2 are peers', of 2 results 1 */
    const pl_schedule_counts c = pl_schedule_count(f.s, PL_BF16);
    ck_assert_int_eq(c.sent_bytes, 200);
    ck_assert_int_eq(c.read_bytes, 600);
    ck_assert_int_eq(c.written_bytes, 400);
    ck_assert_int_eq(c.wire_bytes, 200 + 600);
    tear_down(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cost");
    TCase *prices = tcase_create("prices");

    tcase_add_test(prices, a_message_costs_latency_and_bytes_of_its_link);
    tcase_add_test(prices, messages_of_a_round_share_their_link_and_each_cost_a_latency);
    tcase_add_test(prices,
                   further_messages_of_a_round_cost_less_than_the_first_where_that_is_known);
    tcase_add_test(prices, the_bandwidth_of_messages_is_that_of_their_mean_size);
    tcase_add_test(prices, without_a_measured_link_hosts_are_taken_for_one);
    tcase_add_test(prices, received_data_are_reduced_at_their_own_rate);
    tcase_add_test(prices, a_stage_is_paid_for_once);
    tcase_add_test(prices, awaiting_an_earlier_run_is_free);
    tcase_add_test(prices, a_reduction_costs_what_it_touches);
    tcase_add_test(prices, writing_to_peers_has_a_rate_of_its_own);
    tcase_add_test(prices, a_copy_is_read_and_written);
    tcase_add_test(prices, staging_has_a_rate_of_its_own_in_and_out);
    tcase_add_test(prices, what_is_read_of_a_peer_after_writing_and_signalling_is_fresh);
    tcase_add_test(prices, what_is_published_is_fresh_and_nothing_else_that_is_written);
    tcase_add_test(prices, the_rate_is_that_of_the_memory_touched_by_the_whole_run);
    tcase_add_test(prices, combinations_run_while_messages_between_hosts_fly);
    tcase_add_test(prices, inside_a_host_cores_do_one_after_the_other);
    tcase_add_test(prices, bytes_are_those_of_the_type);
    suite_add_tcase(suite, prices);
    return ck_main(suite);
}
