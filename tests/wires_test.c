/* wires_test -- prices over a network of levels: closed forms against schedules, against messages
 * and against the book. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/messages.h"
#include "collectives/wires.h"
#include "src/plan/slow_chip.h"
#include "tests/check_main.h"
#include "tests/collective_cases.h"

#include <float.h>
#include <math.h>

static pl_wire_dim ring(int extent)
{
    return (pl_wire_dim){.extent = extent,
                         .kind = PL_LEVEL_TORUS,
                         .is_ring = true,
                         .one_way_bytes_per_s = 9e10,
                         .latency_s = 1e-6};
}

static pl_wire_dim line(int extent)
{
    pl_wire_dim d = ring(extent);

    d.is_ring = false;
    return d;
}

static pl_wire_dim switched(int extent, double rate, double latency_s)
{
    return (pl_wire_dim){.extent = extent,
                         .kind = PL_LEVEL_SWITCH,
                         .one_way_bytes_per_s = rate,
                         .latency_s = latency_s};
}

/* Sums of the same terms in another order: a rounding for each of at most 1000 rounds. */
static void ck_close(double a, double b)
{
    const double bound = 1000 * DBL_EPSILON * fmax(fabs(a), fabs(b));

    ck_assert_msg(fabs(a - b) <= bound, "%.17g is not %.17g", a, b);
}

static pl_schedule *schedule_of(pl_algorithm_write *write, pl_collective c, const pl_wires *w,
                                int64_t n, int rank)
{
    const int P = (int)pl_wires_chips(w);
    const case_spec spec = {.collective = c,
                            .n_ranks = P,
                            .n = n,
                            .placing = c == PL_ALL_TO_ALL ? CASE_KNOWN : CASE_IN_PLACE};
    pl_arena *arena = pl_arena_create();
    const case_call call = case_call_of(arena, &spec, rank);
    pl_schedule *s = pl_schedule_create();
    pl_site site = pl_site_one_host(arena, P, false);

    site.n_axes = w->n;
    for (int i = 0; i < w->n; i++)
        site.extent[i] = w->dim[w->n - 1 - i].extent;
    write(s, &call.call, &site, rank);
    pl_arena_destroy(arena);
    return s;
}

/* All ranks, message by message. */
static double simulated_s(pl_algorithm_write *write, pl_collective c, const pl_wires *w, int64_t n,
                          pl_slow_chip slow)
{
    const pl_schedule *schedules[256];
    const int P = (int)pl_wires_chips(w);
    int64_t n_messages;

    for (int r = 0; r < P; r++)
        schedules[r] = schedule_of(write, c, w, n, r);
    const double time_s = pl_messages_simulate(w, schedules, PL_F32, slow, &n_messages);
    ck_assert(n_messages >= P);
    for (int r = 0; r < P; r++)
        pl_schedule_destroy((pl_schedule *)schedules[r]);
    return time_s;
}

/* Of a collective in place on n elements (f32) in equal blocks; AllToAll: apart. */
static double schedule_s(pl_algorithm_write *write, pl_collective c, const pl_wires *w, int64_t n,
                         int rank)
{
    pl_schedule *s = schedule_of(write, c, w, n, rank);
    const double time_s = pl_wires_schedule_s(w, s, PL_F32, rank);

    pl_schedule_destroy(s);
    return time_s;
}

/* Divisible by ranks, axes and halves. */
static int64_t even_elements(const pl_wires *w)
{
    return pl_wires_chips(w) * 2 * w->n * 1000;
}

static void ck_gathers_as(pl_algorithm_write *gather, pl_algorithm_write *scatter,
                          const pl_wires *w)
{
    const int64_t n = even_elements(w);
    const double bytes = 4.0 * (double)n;

    ck_close(schedule_s(gather, PL_ALL_GATHER, w, n, 0),
             pl_wires_collective(w, PL_ALL_GATHER, bytes).time_s);
    ck_close(schedule_s(scatter, PL_REDUCE_SCATTER, w, n, 0),
             pl_wires_collective(w, PL_REDUCE_SCATTER, bytes).time_s);
}

START_TEST(a_ring_costs_what_the_schedule_of_both_ways_costs)
{
    for (int P = 2; P <= 17; P++) {
        pl_wires w = {.n = 0};

        pl_wires_add(&w, ring(P));
        ck_gathers_as(pl_bidirectional_ring_all_gather, pl_bidirectional_ring_reduce_scatter, &w);
    }
}
END_TEST

START_TEST(axes_of_a_torus_cost_what_the_multi_axis_schedule_costs)
{
    static const int extents[][3] = {{2, 2, 1}, {4, 4, 1}, {2, 4, 1}, {3, 5, 1},
                                     {8, 4, 1}, {4, 4, 4}, {2, 3, 4}, {4, 2, 8}};

    for (int i = 0; i < (int)(sizeof extents / sizeof extents[0]); i++) {
        pl_wires w = {.n = 0};

        for (int a = 0; a < 3; a++)
            pl_wires_add(&w, ring(extents[i][a]));
        ck_gathers_as(pl_multi_axis_all_gather, pl_multi_axis_reduce_scatter, &w);
    }
}
END_TEST

START_TEST(axes_of_unlike_rates_cost_what_the_multi_axis_schedule_costs)
{
    pl_wires w = {.n = 0};
    pl_wire_dim slow = ring(8);

    slow.one_way_bytes_per_s /= 4;
    slow.latency_s *= 4;
    pl_wires_add(&w, ring(4));
    pl_wires_add(&w, slow);
    ck_gathers_as(pl_multi_axis_all_gather, pl_multi_axis_reduce_scatter, &w);
}
END_TEST

START_TEST(a_switch_costs_what_doubling_costs)
{
    for (int P = 2; P <= 64; P *= 2) {
        pl_wires w = {.n = 0};

        pl_wires_add(&w, switched(P, 4.5e11, 6e-7));
        ck_gathers_as(pl_recursive_doubling_all_gather, pl_recursive_halving_reduce_scatter, &w);
        for (int64_t n = P; n <= 1000000 * (int64_t)P; n *= 1000) {
            const double by_halves =
                             schedule_s(pl_rabenseifner_all_reduce, PL_ALL_REDUCE, &w, n, 0),
                         at_once =
                             schedule_s(pl_recursive_doubling_all_reduce, PL_ALL_REDUCE, &w, n, 0);

            ck_close(fmin(by_halves, at_once),
                     pl_wires_collective(&w, PL_ALL_REDUCE, 4.0 * (double)n).time_s);
        }
    }
    for (int P = 3; P <= 33; P += 2) { /* no power of two: the gather of Bruck */
        pl_wires w = {.n = 0};

        pl_wires_add(&w, switched(P, 4.5e11, 6e-7));
        ck_close(schedule_s(pl_bruck_all_gather, PL_ALL_GATHER, &w, even_elements(&w), 0),
                 pl_wires_collective(&w, PL_ALL_GATHER, 4.0 * (double)even_elements(&w)).time_s);
    }
}
END_TEST

START_TEST(all_to_all_costs_what_the_direct_schedule_costs)
{
    pl_wires w[5] = {{.n = 0}};

    pl_wires_add(&w[0], ring(8));
    pl_wires_add(&w[1], ring(5));
    pl_wires_add(&w[2], ring(4));
    pl_wires_add(&w[2], ring(8));
    pl_wires_add(&w[3], switched(8, 4.5e11, 6e-7));
    pl_wires_add(&w[4], switched(8, 4.5e11, 6e-7));
    pl_wires_add(&w[4], switched(4, 5e10, 2.7e-6));
    for (int i = 0; i < 5; i++) {
        const int64_t n = even_elements(&w[i]);

        ck_close(schedule_s(pl_direct_all_to_all, PL_ALL_TO_ALL, &w[i], n, 0),
                 pl_wires_collective(&w[i], PL_ALL_TO_ALL, 4.0 * (double)n).time_s);
    }
}
END_TEST

/* The book's formulas, section 3: V / W_bidi on an even ring; as many times faster as axes; without
 * wrap-around (N-1)/N V / W_one; AllToAll a quarter of an AllGather; section 12: V/W of the slowest
 * of the levels. */
START_TEST(large_collectives_take_what_the_book_says)
{
    const double V = 1e9;
    pl_wires one = {.n = 0}, three = {.n = 0}, open = {.n = 0}, pod = {.n = 0};

    pl_wires_add(&one, ring(16));
    ck_close(pl_wires_collective(&one, PL_ALL_GATHER, V).transfer_s, V * 15 / 16 / 1.8e11);
    ck_close(pl_wires_collective(&one, PL_ALL_REDUCE, V).transfer_s, 2 * V * 15 / 16 / 1.8e11);
    ck_close(pl_wires_collective(&one, PL_ALL_TO_ALL, V / 16).transfer_s, V / 4 / 1.8e11);
    pl_wires_add(&open, line(16));
    ck_close(pl_wires_collective(&open, PL_ALL_GATHER, V).transfer_s, V * 15 / 16 / 9e10);
    for (int a = 0; a < 3; a++)
        pl_wires_add(&three, ring(16));
    ck_close(pl_wires_collective(&three, PL_ALL_GATHER, V).transfer_s,
             V * 4095 / 4096 / (3 * 1.8e11));
    ck_assert_int_eq((int)(pl_wires_collective(&three, PL_ALL_GATHER, V).latency_s * 1e6 + 0.5),
                     24);
    pl_wires_add(&pod, switched(8, 4.5e11, 6e-7));
    pl_wires_add(&pod, switched(32, 5e10, 2.7e-6));
    ck_close(pl_wires_collective(&pod, PL_ALL_GATHER, V).transfer_s, V / 4e11 * 31 / 32);
}
END_TEST

START_TEST(levels_overlap_in_chunks_but_never_beat_the_slowest)
{
    pl_wires pod = {.n = 0};
    double last = INFINITY;

    pl_wires_add(&pod, switched(8, 4.5e11, 6e-7));
    pl_wires_add(&pod, switched(32, 5e10, 2.7e-6));
    for (double V = 1e4; V < 1e12; V *= 10) {
        const pl_wires_price p = pl_wires_collective(&pod, PL_ALL_GATHER, V);
        const double over = p.time_s / fmax(p.transfer_s, p.latency_s);

        ck_assert(p.time_s >= p.transfer_s && p.time_s >= p.latency_s);
        ck_assert(over <= pod.n + 1); /* one chunk: all latencies, and each level's transfer */
        last = p.time_s / p.transfer_s;
    }
    ck_assert(last < 1.02);
}
END_TEST

static const pl_slow_chip none = {.rank = -1, .factor = 1};

START_TEST(rings_and_tori_take_what_their_messages_take)
{
    static const int extents[][3] = {{8, 1, 1}, {7, 1, 1}, {4, 8, 1}, {4, 4, 4}, {2, 3, 4}};

    for (int i = 0; i < (int)(sizeof extents / sizeof extents[0]); i++) {
        pl_wires w = {.n = 0};

        for (int a = 0; a < 3; a++)
            pl_wires_add(&w, ring(extents[i][a]));
        const int64_t n = even_elements(&w);
        const bool one = w.n == 1;
        ck_close(simulated_s(one ? pl_bidirectional_ring_all_gather : pl_multi_axis_all_gather,
                             PL_ALL_GATHER, &w, n, none),
                 pl_wires_collective(&w, PL_ALL_GATHER, 4.0 * (double)n).time_s);
        ck_close(simulated_s(one ? pl_bidirectional_ring_all_reduce : pl_multi_axis_all_reduce,
                             PL_ALL_REDUCE, &w, n, none),
                 pl_wires_collective(&w, PL_ALL_REDUCE, 4.0 * (double)n).time_s);
    }
}
END_TEST

START_TEST(a_switch_takes_what_its_messages_take)
{
    for (int P = 2; P <= 32; P *= 2) {
        pl_wires w = {.n = 0};

        pl_wires_add(&w, switched(P, 4.5e11, 6e-7));
        ck_close(simulated_s(pl_recursive_doubling_all_gather, PL_ALL_GATHER, &w, even_elements(&w),
                             none),
                 pl_wires_collective(&w, PL_ALL_GATHER, 4.0 * (double)even_elements(&w)).time_s);
    }
}
END_TEST

START_TEST(one_slow_chip_slows_the_whole_ring)
{
    pl_wires w = {.n = 0};

    pl_wires_add(&w, ring(8));
    const int64_t n = even_elements(&w) * 1000; /* latency no longer counts */
    const double even_s = simulated_s(pl_bidirectional_ring_all_gather, PL_ALL_GATHER, &w, n, none),
                 slow_s = simulated_s(pl_bidirectional_ring_all_gather, PL_ALL_GATHER, &w, n,
                                      (pl_slow_chip){.rank = 3, .factor = 3});

    ck_assert_msg(slow_s > 2.9 * even_s && slow_s <= 3 * even_s, "%g times", slow_s / even_s);
}
END_TEST

START_TEST(a_slow_chip_is_asked_of_the_schedules_that_prices_are_made_of)
{
    static const pl_collective all[] = {PL_ALL_GATHER, PL_REDUCE_SCATTER, PL_ALL_REDUCE};
    pl_wires w[3] = {{.n = 0}};

    pl_wires_add(&w[0], ring(8));
    pl_wires_add(&w[1], ring(4));
    pl_wires_add(&w[1], ring(4));
    pl_wires_add(&w[2], switched(16, 4.5e11, 6e-7));
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++) {
            const double bytes = 4e3 * (double)even_elements(&w[i]);
            double even_s, slow_s;

            ck_assert(pl_slow_chip_collective(&w[i], all[c], bytes, 3, &even_s, &slow_s) == PL_OK);
            ck_close(even_s, pl_wires_collective(&w[i], all[c], bytes).time_s);
            ck_assert_msg(slow_s > 2.9 * even_s && slow_s <= 3 * even_s, "%d, %d: %g times", i, c,
                          slow_s / even_s);
        }
}
END_TEST

START_TEST(a_slow_chip_is_refused_where_prices_are_made_otherwise)
{
    pl_wires pod = {.n = 0}, open = {.n = 0}, many = {.n = 0};
    double even_s, slow_s;

    pl_wires_add(&pod, switched(8, 4.5e11, 6e-7));
    pl_wires_add(&pod, switched(4, 5e10, 2.7e-6));
    pl_wires_add(&open, line(8));
    pl_wires_add(&many, ring(2 * PL_SLOW_CHIPS));
    ck_assert(pl_slow_chip_collective(&pod, PL_ALL_GATHER, 1e6, 2, &even_s, &slow_s) ==
              PL_BAD_INPUT);
    ck_assert(pl_slow_chip_collective(&open, PL_ALL_GATHER, 1e6, 2, &even_s, &slow_s) ==
              PL_BAD_INPUT);
    ck_assert(pl_slow_chip_collective(&many, PL_ALL_GATHER, 1e6, 2, &even_s, &slow_s) ==
              PL_BAD_INPUT);
    pl_status_clear();
}
END_TEST

START_TEST(a_move_takes_the_level_that_its_ends_do_not_share)
{
    pl_wires pod = {.n = 0};

    pl_wires_add(&pod, switched(8, 4.5e11, 6e-7));
    pl_wires_add(&pod, switched(32, 5e10, 2.7e-6));
    ck_close(pl_wires_move(&pod, 0, 1, 9e8).time_s, 9e8 / 4.5e11 + 6e-7);
    ck_close(pl_wires_move(&pod, 7, 8, 9e8).time_s, 9e8 / 5e10 + 2.7e-6);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("wires");
    TCase *tc = tcase_create("prices");

    tcase_add_test(tc, a_ring_costs_what_the_schedule_of_both_ways_costs);
    tcase_add_test(tc, axes_of_a_torus_cost_what_the_multi_axis_schedule_costs);
    tcase_add_test(tc, axes_of_unlike_rates_cost_what_the_multi_axis_schedule_costs);
    tcase_add_test(tc, a_switch_costs_what_doubling_costs);
    tcase_add_test(tc, all_to_all_costs_what_the_direct_schedule_costs);
    tcase_add_test(tc, large_collectives_take_what_the_book_says);
    tcase_add_test(tc, levels_overlap_in_chunks_but_never_beat_the_slowest);
    tcase_add_test(tc, rings_and_tori_take_what_their_messages_take);
    tcase_add_test(tc, a_switch_takes_what_its_messages_take);
    tcase_add_test(tc, one_slow_chip_slows_the_whole_ring);
    tcase_add_test(tc, a_slow_chip_is_asked_of_the_schedules_that_prices_are_made_of);
    tcase_add_test(tc, a_slow_chip_is_refused_where_prices_are_made_otherwise);
    tcase_add_test(tc, a_move_takes_the_level_that_its_ends_do_not_share);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
