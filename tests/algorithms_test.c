/* What algorithms move, against the formulas in their heads; what all of a table must have. */
#include "collectives/algorithms.h"
#include "collectives/cost.h"
#include "tests/check_main.h"
#include "tests/collective_cases.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* What a rank does in a collective in place (AllToAll: apart) with n elements. */
static pl_schedule *schedule_of(pl_algorithm_write *write, pl_collective c, const pl_site *site,
                                int64_t n, int rank)
{
    const case_spec spec = {.collective = c,
                            .n_ranks = site->n_ranks,
                            .n = n,
                            .placing = c == PL_ALL_TO_ALL ? CASE_KNOWN : CASE_IN_PLACE};
    pl_arena *arena = pl_arena_create();
    const case_call call = case_call_of(arena, &spec, rank);
    pl_schedule *s = pl_schedule_create();

    write(s, &call.call, site, rank);
    pl_arena_destroy(arena);
    return s;
}

/* Formulas of algorithms by messages, for n elements in equal blocks. */
typedef enum { ONE, LOG, HALF, LINE, ANY } growth_kind;

static const struct {
    pl_algorithm_write *write;
    pl_collective collective;
    int times;          /* n(P-1)/P elements sent, and as many times the rounds: */
    growth_kind rounds; /* 1, ceil(log2 P), P/2 or P-1; or as sizes will have it */
    bool powers;        /* only where P is a power of two */
} formulas[] = {
    {pl_ring_all_gather, PL_ALL_GATHER, 1, LINE, false},
    {pl_bidirectional_ring_all_gather, PL_ALL_GATHER, 1, HALF, false},
    {pl_direct_all_gather, PL_ALL_GATHER, 1, ONE, false},
    {pl_bruck_all_gather, PL_ALL_GATHER, 1, LOG, false},
    {pl_recursive_doubling_all_gather, PL_ALL_GATHER, 1, LOG, true},
    {pl_pat_all_gather, PL_ALL_GATHER, 1, LOG, false},
    {pl_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, LINE, false},
    {pl_bidirectional_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, HALF, false},
    {pl_pipelined_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, ANY, false},
    {pl_direct_reduce_scatter, PL_REDUCE_SCATTER, 1, ONE, false},
    {pl_recursive_halving_reduce_scatter, PL_REDUCE_SCATTER, 1, LOG, true},
    {pl_pat_reduce_scatter, PL_REDUCE_SCATTER, 1, ANY, false},
    {pl_ring_all_reduce, PL_ALL_REDUCE, 2, LINE, false},
    {pl_bidirectional_ring_all_reduce, PL_ALL_REDUCE, 2, HALF, false},
    {pl_pipelined_ring_all_reduce, PL_ALL_REDUCE, 2, ANY, false},
    {pl_direct_all_reduce, PL_ALL_REDUCE, 2, ONE, false},
    {pl_rabenseifner_all_reduce, PL_ALL_REDUCE, 2, LOG, true},
    {pl_pat_all_reduce, PL_ALL_REDUCE, 2, ANY, false},
    {pl_pairwise_all_to_all, PL_ALL_TO_ALL, 1, LINE, false},
    {pl_direct_all_to_all, PL_ALL_TO_ALL, 1, ONE, false},
};
enum { N_FORMULAS = sizeof formulas / sizeof formulas[0] };

static int rounds_of(growth_kind growth, int P)
{
    switch (growth) {
    case ONE:
        return P > 1;
    case LOG:
        return (int)ceil(log2(P));
    case HALF:
        return P / 2;
    default:
        return P - 1;
    }
}

static pl_schedule_counts count_of(pl_algorithm_write *write, pl_collective c, const pl_site *site,
                                   int64_t n, int rank)
{
    pl_schedule *s = schedule_of(write, c, site, n, rank);
    const pl_schedule_counts counts = pl_schedule_count(s, PL_F32);

    pl_schedule_destroy(s);
    return counts;
}

static void check_formulas(const pl_site *site, int rank)
{
    const int P = site->n_ranks;
    const int64_t block = 30, even = 4 * block * (P - 1);

    for (int i = 0; i < N_FORMULAS; i++) {
        const int times = formulas[i].times;

        if (formulas[i].powers && (P & (P - 1)) != 0)
            continue;
        const pl_schedule_counts c =
            count_of(formulas[i].write, formulas[i].collective, site, block * P, rank);

        ck_assert_int_eq(c.sent_bytes, times * even);
        ck_assert_int_eq(c.received_bytes, times * even);
        ck_assert_int_eq(c.wire_bytes, c.sent_bytes);
        if (formulas[i].rounds != ANY)
            ck_assert_int_eq(c.rounds, times * rounds_of(formulas[i].rounds, P));
    }
}

START_TEST(bytes_and_rounds_of_messages_follow_the_closed_formula)
{
    for (int P = 1; P <= 64; P++) {
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);

        for (int rank = 0; rank < P; rank++)
            if (P <= 17 || rank == P / 2)
                check_formulas(&site, rank);
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(a_broadcasts_root_sends_as_its_head_says)
{
    for (int P = 1; P <= 33; P++) {
        const int64_t block = 30, n = 4 * block * P;
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);
        pl_algorithm_write *const write[] = {pl_direct_broadcast, pl_binomial_broadcast,
                                             pl_pipelined_chain_broadcast,
                                             pl_scatter_ring_broadcast};
        const int64_t sent[] = {n * (P - 1), n * (int64_t)ceil(log2(P)), P > 1 ? n : 0,
                                2 * 4 * block * (P - 1)};

        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(count_of(write[i], PL_BROADCAST, &site, block * P, 0).sent_bytes,
                             sent[i]);
        for (int r = 1; r < P; r++)
            for (int i = 0; i < 3; i++)
                ck_assert_int_eq(
                    count_of(write[i], PL_BROADCAST, &site, block * P, r).received_bytes, n);
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(recursive_doubling_sends_everything_in_each_of_log2_rounds)
{
    for (int P = 1; P <= 64; P *= 2) {
        const int log = (int)log2(P);
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);
        const pl_schedule_counts c =
            count_of(pl_recursive_doubling_all_reduce, PL_ALL_REDUCE, &site, 30, P - 1);

        ck_assert_int_eq(c.sent_bytes, 4 * 30 * log);
        ck_assert_int_eq(c.rounds, log);
        pl_arena_destroy(arena);
    }
}
END_TEST

/* Formulas of algorithms in shared memory. */
static const struct {
    pl_algorithm_write *write;
    pl_collective collective;
    int stages;
    bool all_of_all; /* everything of every peer goes over the wire; otherwise: */
    int times;       /* n (P-1)/P elements */
} shared_formulas[] = {
    {pl_shared_all_gather, PL_ALL_GATHER, 2, false, 1},
    {pl_staged_all_gather, PL_ALL_GATHER, 1, false, 1},
    {pl_shared_reduce_scatter, PL_REDUCE_SCATTER, 2, false, 1},
    {pl_staged_reduce_scatter, PL_REDUCE_SCATTER, 1, false, 1},
    {pl_shared_all_reduce, PL_ALL_REDUCE, 2, false, 2},
    {pl_pulled_all_reduce, PL_ALL_REDUCE, 3, false, 2},
    {pl_staged_all_reduce, PL_ALL_REDUCE, 1, true, 0},
    {pl_shared_all_to_all, PL_ALL_TO_ALL, 2, false, 1},
    {pl_staged_all_to_all, PL_ALL_TO_ALL, 1, false, 1},
};
enum { N_SHARED_FORMULAS = sizeof shared_formulas / sizeof shared_formulas[0] };

START_TEST(bytes_and_stages_in_shared_memory_follow_the_closed_formula)
{
    for (int P = 1; P <= 17; P++) {
        const int64_t n = 30 * P, even = 4 * n / P * (P - 1);
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, true);

        for (int i = 0; i < N_SHARED_FORMULAS; i++) {
            for (int rank = 0; rank < P; rank++) {
                pl_schedule *s = schedule_of(shared_formulas[i].write,
                                             shared_formulas[i].collective, &site, n, rank);
                const pl_schedule_counts c = pl_schedule_count(s, PL_F32);

                ck_assert_int_eq(c.sent_bytes, 0);
                ck_assert_int_eq(c.wire_bytes, shared_formulas[i].all_of_all
                                                   ? 4 * n * (P - 1)
                                                   : shared_formulas[i].times * even);
                ck_assert_int_eq(pl_schedule_stage(s), P > 1 ? shared_formulas[i].stages : 0);
                pl_schedule_destroy(s);
            }
        }
        pl_arena_destroy(arena);
    }
}
END_TEST

/* H hosts of L ranks, dealt in turn: n(H-1)/(HL) elements from every rank, in an AllReduce twice.
 */
static void check_lanes(int H, int L)
{
    static const struct {
        pl_algorithm_write *write;
        pl_collective collective;
        int times;
    } lanes[] = {{pl_hierarchical_all_gather, PL_ALL_GATHER, 1},
                 {pl_hierarchical_reduce_scatter, PL_REDUCE_SCATTER, 1},
                 {pl_hierarchical_all_reduce, PL_ALL_REDUCE, 2}};
    const int P = H * L;
    const int64_t block = 30;
    pl_arena *arena = pl_arena_create();
    int host_of[16];

    for (int r = 0; r < P; r++)
        host_of[r] = r % H;
    const pl_site site = pl_site_on_hosts(arena, P, host_of, true);
    for (int r = 0; r < P; r++) {
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(
                count_of(lanes[i].write, lanes[i].collective, &site, block * P, r).sent_bytes,
                lanes[i].times * 4 * block * (H - 1));
        ck_assert_int_eq(/* which has nothing to save: all but what stays on the host */
                         count_of(pl_hierarchical_all_to_all, PL_ALL_TO_ALL, &site, block * P, r)
                             .sent_bytes,
                         4 * block * L * (H - 1));
    }
    pl_arena_destroy(arena);
}

START_TEST(across_hosts_each_rank_carries_its_share_and_no_more)
{
    for (int H = 2; H <= 4; H++)
        for (int L = 1; L <= 4; L++)
            check_lanes(H, L);
}
END_TEST

START_TEST(rings_along_all_axes_take_half_of_each_axis_in_rounds)
{
    static const struct {
        int n_axes, extent[3];
    } grids[] = {{2, {2, 2}}, {2, {2, 3}},    {2, {4, 2}},
                 {2, {4, 5}}, {3, {2, 2, 2}}, {3, {4, 3, 2}}};

    for (int i = 0; i < 6; i++) {
        int P = 1, rounds = 0;
        pl_arena *arena = pl_arena_create();

        for (int a = 0; a < grids[i].n_axes; a++) {
            P *= grids[i].extent[a];
            rounds += grids[i].extent[a] / 2;
        }
        pl_site site = pl_site_one_host(arena, P, false);
        site.n_axes = grids[i].n_axes;
        memcpy(site.extent, grids[i].extent, sizeof grids[i].extent);
        for (int r = 0; r < P; r++) {
            /* blocks of 2 x 3 x 4: as many parts as axes, each of which a hop may halve */
            const pl_schedule_counts gather =
                count_of(pl_multi_axis_all_gather, PL_ALL_GATHER, &site, 24 * P, r);
            const pl_schedule_counts reduce =
                count_of(pl_multi_axis_all_reduce, PL_ALL_REDUCE, &site, 24 * P, r);

            ck_assert_int_eq(gather.sent_bytes, 4 * 24 * (P - 1));
            ck_assert_int_eq(gather.rounds, rounds);
            ck_assert_int_eq(reduce.sent_bytes, 2 * 4 * 24 * (P - 1));
            ck_assert_int_eq(reduce.rounds, 2 * rounds);
        }
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(the_ring_price_is_rounds_of_latency_bytes_and_additions)
{
    /* 4 ranks, 4,000 elements: 3 rounds of 4,000 B: 1 us + 4 us on the link + 2 us to add. */
    const pl_machine machine = {.reduce_bytes_per_s = 2e9,
                                .copy_bytes_per_s = 4e9,
                                .link[PL_LINK_SAME_HOST] = {.latency_s = 1e-6,
                                                            .one_way_bytes_per_s = 3e9,
                                                            .both_ways_bytes_per_s = 1e9}};
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_site_one_host(arena, 4, false);
    pl_schedule *s = schedule_of(pl_ring_reduce_scatter, PL_REDUCE_SCATTER, &site, 4000, 2);
    const double price_s = pl_schedule_price_s(s, PL_F32, &machine, &site, 2);

    ck_assert(fabs(price_s - 21e-6) <= 16 * 0x1p-53 * 21e-6); /* about 12 roundings */
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
}
END_TEST

/* Two machines with different favourites: messages that cost latency, and a slow shared memory. */
static const pl_machine choosers[] = {
    {.reduce_bytes_per_s = 2e9,
     .copy_bytes_per_s = 8e9,
     .signal_s = 1e-6,
     .link = {{.latency_s = 2e-6, .one_way_bytes_per_s = 6e9, .both_ways_bytes_per_s = 4e9},
              {.latency_s = 5e-5, .one_way_bytes_per_s = 1e8, .both_ways_bytes_per_s = 1e8}}},
    {.reduce_bytes_per_s = 9e9,
     .copy_bytes_per_s = 2e9,
     .signal_s = 2e-5,
     .link = {{.latency_s = 1e-6, .one_way_bytes_per_s = 9e9, .both_ways_bytes_per_s = 9e9},
              {.latency_s = 1e-6, .one_way_bytes_per_s = 1e9, .both_ways_bytes_per_s = 9e8}}},
};

/* Whether the rank has a part in it: in a permute some have not. */
static bool takes_part(const pl_collective_call *call)
{
    return call->collective != PL_PERMUTE || call->to_rank >= 0 || call->from_rank >= 0;
}

static void check_choice(const case_spec *spec, const pl_chooser *chooser, const case_site *site)
{
    const char *first = NULL, *name;

    for (int r = 0; r < spec->n_ranks; r++) {
        pl_arena *arena = pl_arena_create();
        const case_call c = case_call_of(arena, spec, r);

        if (takes_part(&c.call)) {
            pl_schedule_destroy(pl_collective_schedule(&c.call, chooser, &site->site, r, &name));
            first = first ? first : name;
            ck_assert_msg(strcmp(name, first) == 0, "%s; %s: %s and %s", case_name(spec),
                          site->name, first, name);
        }
        pl_arena_destroy(arena);
    }
}

START_TEST(all_ranks_choose_the_same_algorithm)
{
    static const int64_t counts[] = {0, 1, 73, 1 << 10, 1 << 14, 1 << 18}; /* choices change */
    const int P = _i;
    pl_arena *arena = pl_arena_create();
    case_site sites[CASE_MAX_SITES];
    const int n_sites = case_sites(arena, P, sites);
    case_spec spec = {.n_ranks = P};
    int which = 0;

    for (int c = 0; c < PL_N_COLLECTIVES; c++) {
        for (int i = 0; i < 6 * N_PLACINGS * n_sites; i++, which++) {
            const pl_chooser chooser = {.machine = &choosers[which % 2]};

            spec.collective = (pl_collective)c;
            spec.n = counts[i % 6];
            spec.placing = (placing)(i / 6 % N_PLACINGS);
            spec.layout = (layout)(which % N_LAYOUTS);
            spec.variant = which % case_variants(spec.collective, P);
            if (case_has_placing(spec.collective, spec.placing))
                check_choice(&spec, &chooser, &sites[i / 6 / N_PLACINGS]);
        }
    }
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(the_first_algorithm_of_each_collective_applies_everywhere)
{
    for (int i = 0; i < pl_n_algorithms; i++) {
        const bool is_first =
            i == 0 || pl_algorithms[i - 1].collective != pl_algorithms[i].collective;

        if (!is_first)
            continue;
        ck_assert_int_eq(pl_algorithms[i].needs, PL_NEEDS_NOTHING);
        ck_assert_int_eq(pl_algorithms[i].most_bytes, 0);
        ck_assert_int_eq(pl_algorithms[i].most_ranks, 0);
    }
}
END_TEST

START_TEST(algorithms_have_names_of_their_own)
{
    for (int i = 0; i < pl_n_algorithms; i++)
        ck_assert_ptr_eq(pl_algorithm_find(pl_algorithms[i].collective, pl_algorithms[i].name),
                         &pl_algorithms[i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("algorithms");
    TCase *tc = tcase_create("algorithms");

    tcase_add_test(tc, bytes_and_rounds_of_messages_follow_the_closed_formula);
    tcase_add_test(tc, a_broadcasts_root_sends_as_its_head_says);
    tcase_add_test(tc, recursive_doubling_sends_everything_in_each_of_log2_rounds);
    tcase_add_test(tc, bytes_and_stages_in_shared_memory_follow_the_closed_formula);
    tcase_add_test(tc, across_hosts_each_rank_carries_its_share_and_no_more);
    tcase_add_test(tc, rings_along_all_axes_take_half_of_each_axis_in_rounds);
    tcase_add_test(tc, the_ring_price_is_rounds_of_latency_bytes_and_additions);
    tcase_add_loop_test(tc, all_ranks_choose_the_same_algorithm, 1, 10);
    tcase_add_test(tc, the_first_algorithm_of_each_collective_applies_everywhere);
    tcase_add_test(tc, algorithms_have_names_of_their_own);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
