/* price_test -- the price of each operation against its time worked out by hand. */
#include "config.h"

#include "src/roofline/price.h"

#include "src/program/communicate.h"
#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

/* With ranks dealt to hosts, ranks_per_host each; 0: all on one. */
static pl_op_price price_of(pl_program *p, int op, const pl_machine *machine, int ranks_per_host)
{
    pl_pricer *pricer = pl_pricer_create(machine);

    p->fabric.ranks_per_host = ranks_per_host;
    const pl_op_price price = pl_price_op(pricer, p, &p->ops[op], (pl_coords){{0}});

    pl_pricer_destroy(pricer);
    return price;
}

START_TEST(a_matmul_costs_its_flops_at_the_matmul_rate)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    pl_program *p = empty_program(&mesh);
    const pl_op_price price = price_of(p, product_op(p, 100, 200, 300), &machine, 0);

    ck_assert(price.flops == 2.0 * 100 * 200 * 300);
    ck_assert(price.bytes == 4.0 * (100 * 200 + 200 * 300 + 100 * 300));
    ck_assert(agrees(price.time_s, 12e6 / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_FLOPS);
    pl_program_destroy(p);
}
END_TEST

START_TEST(the_matmul_rate_is_that_of_the_products_size)
{
    pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    pl_program *p = empty_program(&mesh);
    const int op = product_op(p, 100, 200, 300); /* 12e6 FLOPs: half way from 6e6 to 24e6 */

    machine.matmul_flops_per_s =
        (pl_curve){.n_points = 2, .size = {6e6, 24e6}, .rate = {0.5e9, 1.5e9}};
    /* Two logarithms of 1 ulp each. */
    ck_assert(agrees(price_of(p, op, &machine, 0).time_s, 12e6 / 1e9 + 1e-6, 16));
    pl_program_destroy(p);
}
END_TEST

START_TEST(a_thin_matmul_is_bound_by_memory)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    pl_program *p = empty_program(&mesh);
    const pl_op_price price = price_of(p, product_op(p, 1, 1000, 1000), &machine, 0);

    ck_assert(agrees(price.time_s, 4.0 * (1000 + 1000 * 1000 + 1000) / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_MEMORY);
    pl_program_destroy(p);
}
END_TEST

START_TEST(an_elementwise_op_costs_its_bytes)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    pl_program *p = empty_program(&mesh);
    const pl_op_price price = price_of(p, add_op(p, 1000000), &machine, 0);

    ck_assert(agrees(price.time_s, 12e6 / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_MEMORY);
    pl_program_destroy(p);
}
END_TEST

START_TEST(a_tiny_op_is_bound_by_latency)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    pl_program *p = empty_program(&mesh);

    ck_assert_int_eq(price_of(p, add_op(p, 1), &machine, 0).bound, PL_BOUND_LATENCY);
    pl_program_destroy(p);
}
END_TEST

START_TEST(attention_costs_its_visible_pairs_at_the_attention_rate)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 1);
    const int64_t T = 64, N = 4, K = 2, H = 16;
    const int64_t tbnh[] = {T, 1, N, H}, tbkh[] = {T, 1, K, H};
    pl_program *p = empty_program(&mesh);
    const int in[3] = {pl_value_add(p, PL_ACTIVATION, 0, "TBNH", tbnh, "q"),
                       pl_value_add(p, PL_ACTIVATION, 0, "TBKH", tbkh, "k"),
                       pl_value_add(p, PL_ACTIVATION, 0, "TBKH", tbkh, "v")};
    const int out[2] = {pl_value_add(p, PL_ACTIVATION, 0, "TBNH", tbnh, "o"),
                        pl_value_add(p, PL_ACTIVATION, 0, "TBN", tbnh, "lse")};
    const int op = pl_op_add(p, PL_ATTENTION, PL_FORWARD, 0, 3, in, 2, out);
    /* q.k and p.v, 2 FLOPs each, for T (T + 1) / 2 pairs a head. */
    const double flops = 4.0 * 64 * 65 / 2 * 4 * 16;

    ck_assert(price_of(p, op, &machine, 0).flops == flops);
    ck_assert(agrees(price_of(p, op, &machine, 0).time_s, flops / 5e8 + 1e-6, 4));
    pl_program_destroy(p);
}
END_TEST

START_TEST(an_all_reduce_costs_its_schedule)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const pl_op_price price = price_of(p, all_reduce_op(p, HALF_BYTES / 2), &machine, 0);

    ck_assert_int_eq(price.wire_bytes, 2 * HALF_BYTES);
    ck_assert(agrees(price.time_s, all_reduce_s, 8));
    ck_assert_int_eq(price.bound, PL_BOUND_LINK);
    pl_program_destroy(p);
}
END_TEST

START_TEST(inside_a_host_cores_move_the_bytes)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const int op = all_reduce_op(p, HALF_BYTES / 2);

    /* All but the latency of two rounds. */
    ck_assert(agrees(price_of(p, op, &machine, 0).core_s, all_reduce_s - 2e-5, 8));
    /* Between hosts the link does, and only the reduction is left. */
    ck_assert(agrees(price_of(p, op, &machine, 1).core_s, HALF_BYTES / 2e8, 4));
    pl_program_destroy(p);
}
END_TEST

/* The price of an AllReduce in shared memory, by the caches of a rank. */
static double price_in_caches(const pl_machine *machine, pl_program *p, int op, double cache_bytes)
{
    pl_machine m = *machine;

    m.near_bytes = m.mid_bytes = cache_bytes;
    return price_of(p, op, &m, 0).time_s;
}

START_TEST(what_was_touched_long_ago_moves_as_the_largest_arrays_do)
{
    const pl_curve curve = {.n_points = 2, .size = {1, 1e9}, .rate = {1e9, 1e8}};
    pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const int op = all_reduce_op(p, HALF_BYTES / 2);

    for (int c = 0; c < PL_N_SHARED; c++)
        machine.shared_bytes_per_s[c] = curve;
    for (int v = 0; v < p->n_values; v++) {
        p->values[v].offset = (int64_t)v * 4 * HALF_BYTES;
        p->pool_bytes[p->values[v].class] = (size_t)p->n_values * 4 * HALF_BYTES;
    }
    act(p, PL_ACTION_START, op);
    act(p, PL_ACTION_WAIT, op);
    p->fabric.shared = true;
    p->fabric.chooser.algo = "all_reduce=shared";
    pl_schedule *s = pl_op_schedule(p, &p->ops[op], (pl_coords){{0}}, NULL);
    const double touched = (double)pl_schedule_count(s, PL_F32).touched_bytes;
    const double near_s = price_in_caches(&machine, p, op, 1e12),
                 far_s = price_in_caches(&machine, p, op, 1);

    ck_assert(touched > 0 && pl_curve_at(&curve, touched) > 1e8);
    ck_assert(agrees(far_s / near_s, pl_curve_at(&curve, touched) / 1e8, 32));
    pl_schedule_destroy(s);
    pl_program_destroy(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("price");
    TCase *prices = tcase_create("prices");

    tcase_add_test(prices, a_matmul_costs_its_flops_at_the_matmul_rate);
    tcase_add_test(prices, the_matmul_rate_is_that_of_the_products_size);
    tcase_add_test(prices, a_thin_matmul_is_bound_by_memory);
    tcase_add_test(prices, an_elementwise_op_costs_its_bytes);
    tcase_add_test(prices, a_tiny_op_is_bound_by_latency);
    tcase_add_test(prices, attention_costs_its_visible_pairs_at_the_attention_rate);
    tcase_add_test(prices, an_all_reduce_costs_its_schedule);
    tcase_add_test(prices, inside_a_host_cores_move_the_bytes);
    tcase_add_test(prices, what_was_touched_long_ago_moves_as_the_largest_arrays_do);
    suite_add_tcase(suite, prices);
    return ck_main(suite);
}
