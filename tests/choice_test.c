/* choice_test -- which algorithm is chosen for a collective; no MPI. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/block.h"
#include "tests/check_main.h"
#include "tests/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { A, B }; /* arrays */

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

int main(void)
{
    Suite *suite = suite_create("choice");
    TCase *choice = tcase_create("choice");

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
    suite_add_tcase(suite, choice);
    return ck_main(suite);
}
