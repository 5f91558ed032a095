/* choice_test -- what schedules cost, and which algorithm is chosen; no MPI. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/block.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prices are sums of a few quotients: n roundings at most on either side. */
static bool agrees(double a, double b, int n)
{
    const double nu = n * 0x1p-53;

    return isfinite(a) && fabs(a - b) <= 2 * nu / (1 - nu) * fmax(fabs(a), fabs(b));
}

static pl_curve flat(double rate)
{
    return (pl_curve){.n_points = 1, .size = {1}, .rate = {rate}};
}

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

START_TEST(a_reduction_costs_what_it_touches)
{
    fixture f = set_up();
    const pl_place to = {PL_SELF, region(&f, B, 0)};

    combine(&f, &to, 1);
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
    const pl_place in_place = {PL_SELF, region(&f, A, 0)}, apart = {PL_SELF, region(&f, B, 0)};

    f.machine.shared_bytes_per_s[PL_SHARED_REDUCE] =
        (pl_curve){.n_points = 3, .size = {1200, 1600, 2800}, .rate = {1e6, 2e6, 3e6}};
    combine(&f, &in_place, 1);
    ck_assert(agrees(price(&f), 1200 / 1e6, 4)); /* the result lies where a term lay */
    pl_schedule_next_round(f.s);
    combine(&f, &apart, 1);
    ck_assert(agrees(price(&f), 2800 / 3e6, 4));
    tear_down(&f);
}
END_TEST

START_TEST(combinations_run_while_messages_between_hosts_fly)
{
    fixture f = set_up();
    const pl_place to = {PL_SELF, region(&f, B, 0)};

    pl_schedule_send(f.s, 3, region(&f, A, 0));
    combine(&f, &to, 1);
    ck_assert(agrees(price(&f), 2e-3 + 400 / 29e6, 8)); /* the longer */
    f.machine.shared_bytes_per_s[PL_SHARED_REDUCE] = flat(1e5);
    ck_assert(agrees(price(&f), 1600 / 1e5, 8));
    tear_down(&f);
}
END_TEST

START_TEST(inside_a_host_cores_do_one_after_the_other)
{
    fixture f = set_up();
    const pl_place to = {PL_SELF, region(&f, B, 0)};

    pl_schedule_send(f.s, 1, region(&f, A, 0));
    combine(&f, &to, 1);
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

/* Choice. */

static pl_machine synthetic(void)
{
    pl_machine machine;
    const char *srcdir = getenv("srcdir");
    char path[512];

    snprintf(path, sizeof path, "%s/tests/machine.json", srcdir != NULL ? srcdir : ".");
    ck_assert_msg(pl_machine_read(path, &machine) == PL_OK, "%s", pl_status_message());
    return machine;
}

static pl_region some(pl_arena *arena, int array, int64_t offset, int64_t n)
{
    pl_piece *piece = pl_arena_alloc(arena, sizeof *piece);

    *piece = pl_piece_of(array, offset, n);
    return (pl_region){n > 0, piece};
}

/* rows x columns, rank r holding a share of the rows (or of the columns): blocks uneven both ways.
 */
static pl_blocks crossed(pl_arena *arena, int array, int64_t rows, int64_t columns, int P, int rank)
{
    pl_region *of = pl_arena_alloc(arena, (size_t)P * sizeof *of);
    int64_t offset = 0;

    for (int b = 0; b < P; b++) {
        const int64_t n = pl_block_count(rows, P, rank) * pl_block_count(columns, P, b);

        of[b] = some(arena, array, offset, n);
        offset += n;
    }
    return (pl_blocks){P, of};
}

/* What `rank` of P calls for, about n elements; `apart`: not in place. */
static pl_collective_call call_of(pl_arena *arena, pl_collective c, int P, int64_t n, int rank,
                                  bool apart)
{
    const int64_t columns = 7;
    pl_collective_call call = {.collective = c, .knows_peers = true, .root = P / 2};
    pl_region *there = pl_arena_alloc(arena, (size_t)P * sizeof *there);

    switch (c) {
    case PL_ALL_TO_ALL:
        call.from = crossed(arena, A, n / columns, columns, P, rank);
        call.to = crossed(arena, B, columns, n / columns, P, rank);
        for (int p = 0; p < P; p++)
            there[p] = some(arena, A, 0, pl_region_elements(pl_blocks_at(call.to, p)));
        call.there = (pl_blocks){P, there};
        call.largest = pl_block_count(n / columns, P, 0) * pl_block_count(columns, P, 0);
        break;
    case PL_PERMUTE: /* down a line: the ends have one partner */
        call.to_rank = rank + 1 < P ? rank + 1 : -1;
        call.from_rank = rank > 0 ? rank - 1 : -1;
        if (call.to_rank >= 0)
            call.send = some(arena, A, 0, n);
        if (call.from_rank >= 0)
            call.recv = call.peer_send = some(arena, B, 0, n);
        break;
    default:
        call.blocks = pl_blocks_of_arrays(arena, &n, 1, P);
        if (apart && c == PL_ALL_REDUCE)
            call.from = pl_blocks_of_region(arena, some(arena, B, 0, n), P);
        else if (apart && (c != PL_BROADCAST || rank == call.root))
            call.own =
                some(arena, B, 0,
                     c == PL_BROADCAST ? n : pl_region_elements(pl_blocks_at(call.blocks, rank)));
        break;
    }
    return call;
}

enum { ONE_HOST, NO_SHARING, TWO_HOSTS, N_SITES };

static pl_site site_of(pl_arena *arena, int kind, int P)
{
    int host_of[16];

    for (int r = 0; r < P; r++)
        host_of[r] = r >= P / 2;
    return kind == TWO_HOSTS ? pl_site_on_hosts(arena, P, host_of, true)
                             : pl_site_one_host(arena, P, kind == ONE_HOST);
}

/* 65541: the halves of an AllToAll of 9363 rows lie on either side of what may be staged. */
static const int64_t some_elements[] = {0,     1,     6,     100,    1023,   4097,
                                        32767, 32773, 65541, 100003, 1000003};
enum { N_ELEMENTS = sizeof some_elements / sizeof some_elements[0] };

START_TEST(all_ranks_choose_alike)
{
    const pl_collective c = (pl_collective)_i;
    const pl_machine machine = synthetic();
    const pl_chooser chooser = {.machine = &machine};

    for (int P = 1; P <= 9; P++)
        for (int kind = 0; kind < N_SITES; kind++)
            for (int i = 0; i < 2 * N_ELEMENTS; i++) {
                pl_arena *arena = pl_arena_create();
                const pl_site site = site_of(arena, kind, P);
                const char *first = NULL, *name;

                for (int r = 0; r < P; r++) {
                    const pl_collective_call call =
                        call_of(arena, c, P, some_elements[i / 2], r, i % 2 == 1);

                    pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &site, r, &name));
                    first = r == 0 ? name : first;
                    ck_assert_msg(strcmp(first, name) == 0, "P %d, %lld elements: %s, rank %d: %s",
                                  P, (long long)some_elements[i / 2], first, r, name);
                }
                pl_arena_destroy(arena);
            }
}
END_TEST

/* The price of an algorithm in place, on rank 0. */
static double price_of(const pl_algorithm *a, const pl_collective_call *call,
                       const pl_machine *machine, const pl_site *site)
{
    pl_schedule *s = pl_schedule_create();

    a->write(s, call, site, 0);
    const double price_s = pl_schedule_price_s(s, call->dtype, machine, site, 0);
    pl_schedule_destroy(s);
    return price_s;
}

START_TEST(the_choice_is_the_cheapest_that_applies)
{
    static const pl_collective even[] = {PL_ALL_GATHER, PL_REDUCE_SCATTER, PL_ALL_REDUCE};
    const pl_machine machine = synthetic();
    const pl_chooser chooser = {.machine = &machine};
    const pl_collective c = even[_i];
    int n_different = 0;
    const char *last = NULL;

    for (int i = 0; i < N_ELEMENTS; i++) {
        pl_arena *arena = pl_arena_create();
        const pl_site site = site_of(arena, ONE_HOST, 4);
        const pl_collective_call call = call_of(arena, c, 4, some_elements[i], 0, false);
        const char *name;

        pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &site, 0, &name));
        const double chosen_s = price_of(pl_algorithm_find(c, name), &call, &machine, &site);
        for (int k = 0; k < pl_n_algorithms; k++)
            if (pl_algorithm_applies(&pl_algorithms[k], &call, &site) &&
                pl_algorithms[k].needs == PL_NEEDS_ONE_HOST) /* messages are left out */
                ck_assert_msg(chosen_s <= price_of(&pl_algorithms[k], &call, &machine, &site),
                              "%s costs more than %s", name, pl_algorithms[k].name);
        n_different += last != NULL && strcmp(last, name) != 0;
        last = name;
        pl_arena_destroy(arena);
    }
    ck_assert_int_gt(n_different, 0); /* else the test would pass without a choice */
}
END_TEST

START_TEST(messages_are_chosen_only_where_memory_is_not_shared)
{
    pl_machine machine = synthetic();
    const pl_chooser chooser = {.machine = &machine};

    for (int c = 0; c < PL_N_SHARED; c++)
        machine.shared_bytes_per_s[c] = flat(1); /* a byte a second */
    for (int shares = 0; shares < 2; shares++) {
        pl_arena *arena = pl_arena_create();
        const pl_site site = site_of(arena, shares ? ONE_HOST : NO_SHARING, 4);
        const pl_collective_call call = call_of(arena, PL_ALL_GATHER, 4, 1000, 0, false);
        const char *name;

        pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &site, 0, &name));
        ck_assert_int_eq(pl_algorithm_find(PL_ALL_GATHER, name)->needs == PL_NEEDS_ONE_HOST,
                         shares);
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(an_all_to_all_of_unknown_sizes_is_not_chosen_by_its_own)
{
    const pl_machine machine = synthetic();
    const pl_chooser chooser = {.machine = &machine};

    for (int r = 0; r < 8; r++) {
        pl_arena *arena = pl_arena_create();
        const pl_site site = site_of(arena, NO_SHARING, 8);
        pl_collective_call call = call_of(arena, PL_ALL_TO_ALL, 8, 70, r, false);
        const char *name;

        call.knows_peers = false;
        call.largest = 0;
        pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &site, r, &name));
        ck_assert_str_eq(name, "pairwise");
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(a_broadcast_is_chosen_by_what_its_receivers_pay)
{
    pl_machine machine = synthetic();
    const pl_chooser chooser = {.machine = &machine};
    pl_arena *arena = pl_arena_create();
    const pl_site site = site_of(arena, ONE_HOST, 2);
    pl_collective_call call = call_of(arena, PL_BROADCAST, 2, 10000, 0, false);
    const char *name;

    machine.shared_bytes_per_s[PL_SHARED_COPY] = flat(1); /* the root has nothing to copy */
    call.root = 0;
    pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &site, 0, &name));
    ck_assert_str_ne(name, "shared");
    pl_arena_destroy(arena);
}
END_TEST

static const char *choice_by(const pl_chooser *chooser, int64_t n)
{
    pl_arena *arena = pl_arena_create();
    const pl_site site = site_of(arena, ONE_HOST, 3);
    const pl_collective_call call = call_of(arena, PL_ALL_GATHER, 3, n, 1, false);
    const char *name;

    pl_schedule_destroy(pl_collective_schedule(&call, chooser, &site, 1, &name));
    pl_arena_destroy(arena);
    return name;
}

START_TEST(an_override_is_obeyed)
{
    const pl_machine machine = synthetic();

    ck_assert_str_eq(choice_by(&(pl_chooser){&machine, "all_gather=bruck"}, 1000000), "bruck");
    ck_assert_str_eq(choice_by(&(pl_chooser){NULL, "all_reduce=direct,AllGather=shared"}, 1),
                     "shared");
}
END_TEST

START_TEST(an_override_that_does_not_apply_leaves_the_choice_to_prices)
{
    const pl_machine machine = synthetic();
    const pl_chooser free_choice = {.machine = &machine};

    /* staging is for small arrays */
    ck_assert_str_eq(choice_by(&(pl_chooser){&machine, "all_gather=staged"}, 10000000),
                     choice_by(&free_choice, 10000000));
    ck_assert_str_eq(choice_by(&(pl_chooser){&machine, "all_reduce=ring"}, 100),
                     choice_by(&free_choice, 100));
}
END_TEST

START_TEST(without_prices_the_first_that_applies_is_chosen)
{
    ck_assert_str_eq(choice_by(&(pl_chooser){.machine = NULL}, 1000), pl_algorithms[0].name);
}
END_TEST

/* Override lists, and what the refusal names; NULL: none. */
static const struct {
    const char *algo, *named, *listed;
} lists[] = {
    {NULL, NULL, NULL},
    {"", NULL, NULL},
    {"all_gather=ring", NULL, NULL},
    {"all_gather=ring,AllReduce=shared,permute=message", NULL, NULL},
    {"gather=ring", "\"gather\"", "all_gather"},
    {"all_gather", "\"\"", "bruck"},
    {"all_gather=", "\"\"", "bruck"},
    {"all_reduce=shared,all_gather=rings", "\"rings\"", "ring"},
    {"all_gather=recursive-doubling-reduce", "\"recursive-doubling-reduce\"", "ring"},
    {"all_gather=ring,,", "\"\"", "all_gather"},
    {"=ring", "\"\"", "all_gather"},
};

START_TEST(an_override_of_something_unknown_is_refused_with_what_is_known)
{
    const pl_status status = pl_chooser_check(lists[_i].algo);

    if (lists[_i].named == NULL) {
        ck_assert_int_eq(status, PL_OK);
        return;
    }
    ck_assert_int_eq(status, PL_BAD_INPUT);
    ck_assert_msg(strstr(pl_status_message(), lists[_i].named) != NULL, "%s", pl_status_message());
    ck_assert_msg(strstr(pl_status_message(), lists[_i].listed) != NULL, "%s", pl_status_message());
}
END_TEST

START_TEST(collectives_are_found_by_name_and_by_key)
{
    for (int c = 0; c < PL_N_COLLECTIVES; c++) {
        ck_assert_int_eq(pl_collective_find(pl_collective_name((pl_collective)c)), c);
        ck_assert_int_eq(pl_collective_find(pl_collective_key((pl_collective)c)), c);
    }
    ck_assert_int_eq(pl_collective_find("all"), PL_N_COLLECTIVES);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("choice");
    TCase *prices = tcase_create("prices"), *choice = tcase_create("choice");

    tcase_add_test(prices, a_message_costs_latency_and_bytes_of_its_link);
    tcase_add_test(prices, messages_of_a_round_share_their_link_and_each_cost_a_latency);
    tcase_add_test(prices, further_messages_of_a_round_cost_less_than_the_first_where_that_is_known);
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
    tcase_add_loop_test(choice, all_ranks_choose_alike, 0, PL_N_COLLECTIVES);
    tcase_add_loop_test(choice, the_choice_is_the_cheapest_that_applies, 0, 3);
    tcase_add_test(choice, messages_are_chosen_only_where_memory_is_not_shared);
    tcase_add_test(choice, an_all_to_all_of_unknown_sizes_is_not_chosen_by_its_own);
    tcase_add_test(choice, a_broadcast_is_chosen_by_what_its_receivers_pay);
    tcase_add_test(choice, an_override_is_obeyed);
    tcase_add_test(choice, an_override_that_does_not_apply_leaves_the_choice_to_prices);
    tcase_add_test(choice, without_prices_the_first_that_applies_is_chosen);
    tcase_add_loop_test(choice, an_override_of_something_unknown_is_refused_with_what_is_known, 0,
                        (int)(sizeof lists / sizeof lists[0]));
    tcase_add_test(choice, collectives_are_found_by_name_and_by_key);
    suite_add_tcase(suite, prices);
    suite_add_tcase(suite, choice);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
