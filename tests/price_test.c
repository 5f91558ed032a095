/* price_test -- the price of each operation against its time worked out by hand. */
#include "config.h"

#include "src/roofline/price.h"

#include "src/program/communicate.h"
#include "tests/check_main.h"
#include "tests/figures.h"
#include "tests/small_program.h"

#include <stdio.h>

static pl_op_price price_of(const small_step *step, int op)
{
    const pl_program *p = step->p[0];
    pl_pricer *pricer = pl_pricer_create(&step->machine);
    const pl_op_price price = pl_price_op(pricer, p, &p->ops[op], (pl_coords){{0}});

    pl_pricer_destroy(pricer);
    return price;
}

START_TEST(a_matmul_costs_its_flops_at_the_matmul_rate)
{
    small_step *step = one_stage(1);
    const pl_op_price price = price_of(step, product_op(step->p[0], 100, 200, 300));

    ck_assert(price.flops == 2.0 * 100 * 200 * 300);
    ck_assert(price.bytes == 4.0 * (100 * 200 + 200 * 300 + 100 * 300));
    ck_assert(agrees(price.time_s, 12e6 / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_FLOPS);
    small_step_destroy(step);
}
END_TEST

START_TEST(the_matmul_rate_is_that_of_the_products_size)
{
    small_step *step = one_stage(1);
    const int op =
        product_op(step->p[0], 100, 200, 300); /* 12e6 FLOPs: half way from 6e6 to 24e6 */

    step->machine.matmul_flops_per_s =
        (pl_curve){.n_points = 2, .size = {6e6, 24e6}, .rate = {0.5e9, 1.5e9}};
    /* Two logarithms of 1 ulp each. */
    ck_assert(agrees(price_of(step, op).time_s, 12e6 / 1e9 + 1e-6, 16));
    small_step_destroy(step);
}
END_TEST

START_TEST(a_thin_matmul_is_bound_by_memory)
{
    small_step *step = one_stage(1);
    const pl_op_price price = price_of(step, product_op(step->p[0], 1, 1000, 1000));

    ck_assert(agrees(price.time_s, 4.0 * (1000 + 1000 * 1000 + 1000) / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_MEMORY);
    small_step_destroy(step);
}
END_TEST

START_TEST(an_operand_is_narrowed_once_in_a_phase)
{
    enum { T = 100, D = 200, F = 300, BYTES = 5 };
    small_step *step = one_stage(1);
    pl_program *p = step->p[0];
    int op[4];
    const double product_s = 2.0 * T * D * F / 1e9 + 1e-6, x_s = BYTES * T * D / 1e9,
                 w_s = BYTES * D * F / 1e9;

    step->machine.cast_bytes = BYTES;
    for (int i = 0; i < 4; i++)
        op[i] = product_op(p, T, D, F);
    for (int i = 1; i < 4; i++) /* all read the first's x */
        p->ops[op[i]].in[0] = p->ops[op[0]].in[0];
    p->ops[op[2]].phase = p->ops[op[3]].phase = PL_BACKWARD;
    p->ops[op[3]].microbatch = 1; /* when weights are as narrow as in the first */
    const double narrowed_s[4] = {x_s + w_s, w_s, x_s + w_s, 0};
    for (int i = 0; i < 4; i++)
        ck_assert(agrees(price_of(step, op[i]).time_s, product_s + narrowed_s[i], 8));
    small_step_destroy(step);
}
END_TEST

START_TEST(an_elementwise_op_costs_its_bytes)
{
    small_step *step = one_stage(1);
    const pl_op_price price = price_of(step, add_op(step->p[0], 1000000));

    ck_assert(agrees(price.time_s, 12e6 / 1e9 + 1e-6, 4));
    ck_assert_int_eq(price.bound, PL_BOUND_MEMORY);
    small_step_destroy(step);
}
END_TEST

START_TEST(a_tiny_op_is_bound_by_latency)
{
    small_step *step = one_stage(1);

    ck_assert_int_eq(price_of(step, add_op(step->p[0], 1)).bound, PL_BOUND_LATENCY);
    small_step_destroy(step);
}
END_TEST

START_TEST(attention_costs_its_visible_pairs_at_the_attention_rate)
{
    const int64_t T = 64, N = 4, K = 2, H = 16;
    const int64_t tbnh[] = {T, 1, N, H}, tbkh[] = {T, 1, K, H};
    small_step *step = one_stage(1);
    pl_program *p = step->p[0];
    const int in[3] = {pl_value_add(p, PL_ACTIVATION, 0, "TBNH", tbnh, "q"),
                       pl_value_add(p, PL_ACTIVATION, 0, "TBKH", tbkh, "k"),
                       pl_value_add(p, PL_ACTIVATION, 0, "TBKH", tbkh, "v")};
    const int out[2] = {pl_value_add(p, PL_ACTIVATION, 0, "TBNH", tbnh, "o"),
                        pl_value_add(p, PL_ACTIVATION, 0, "TBN", tbnh, "lse")};
    const int op = pl_op_add(p, PL_ATTENTION, PL_FORWARD, 0, 3, in, 2, out);
    /* q.k and p.v, 2 FLOPs each, for T (T + 1) / 2 pairs a head. */
    const double flops = 4.0 * 64 * 65 / 2 * 4 * 16;

    ck_assert(price_of(step, op).flops == flops);
    ck_assert(agrees(price_of(step, op).time_s, flops / 5e8 + 1e-6, 4));
    small_step_destroy(step);
}
END_TEST

START_TEST(an_all_reduce_costs_its_schedule)
{
    small_step *step = one_stage(2);
    const pl_op_price price = price_of(step, all_reduce_op(step->p[0], HALF_BYTES / 2));

    ck_assert_int_eq(price.wire_bytes, 2 * HALF_BYTES);
    ck_assert(agrees(price.time_s, all_reduce_s, 8));
    ck_assert_int_eq(price.bound, PL_BOUND_LINK);
    small_step_destroy(step);
}
END_TEST

START_TEST(inside_a_host_cores_move_the_bytes)
{
    small_step *step = one_stage(2);
    const int op = all_reduce_op(step->p[0], HALF_BYTES / 2);

    /* All but the latency of two rounds. */
    ck_assert(agrees(price_of(step, op).core_s, all_reduce_s - 2e-5, 8));
    /* Between hosts the link does, and only the reduction is left. */
    deal_to_hosts(step, 1);
    ck_assert(agrees(price_of(step, op).core_s, HALF_BYTES / 2e8, 4));
    small_step_destroy(step);
}
END_TEST

/* The price of an AllReduce in shared memory, by the caches of a rank. */
static double price_in_caches(small_step *step, int op, double cache_bytes)
{
    step->machine.near_bytes = step->machine.mid_bytes = cache_bytes;
    return price_of(step, op).time_s;
}

/* An AllReduce whose arrays have a place, in shared memory that slows down from 1e9 to 1e8. */
static const pl_curve slower = {.n_points = 2, .size = {1, 1e9}, .rate = {1e9, 1e8}};

static small_step *shared_all_reduce(int *op)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];

    *op = all_reduce_op(p, HALF_BYTES / 2);
    for (int c = 0; c < PL_N_SHARED; c++)
        step->machine.shared_bytes_per_s[c] = slower;
    for (int v = 0; v < p->n_values; v++) {
        p->values[v].offset = (int64_t)v * 4 * HALF_BYTES;
        p->pool_bytes[p->values[v].class] = (size_t)p->n_values * 4 * HALF_BYTES;
    }
    start_and_wait(p, *op);
    p->fabric.shared = true;
    p->fabric.chooser.algo = "all_reduce=shared";
    return step;
}

START_TEST(what_was_touched_long_ago_moves_as_it_does_from_memory)
{
    int op;
    small_step *step = shared_all_reduce(&op);
    const double near_s = price_in_caches(step, op, 1e12), largest_s = price_in_caches(step, op, 1);

    for (int c = 0; c < PL_N_SHARED; c++)
        step->machine.shared_far_bytes_per_s[c] = 2.5e7;
    ck_assert(agrees(price_in_caches(step, op, 1), 4 * largest_s, 32));
    ck_assert(price_in_caches(step, op, 1e12) == near_s); /* in the caches nothing has changed */
    small_step_destroy(step);
}
END_TEST

/* y = a + b of 3 rows, of which rank 0 holds 2, all from memory or nearly so. */
START_TEST(a_rank_that_holds_less_has_less_to_fetch)
{
    enum { ROW = 1000000 };
    const int64_t extents[2] = {3, ROW};
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    int v[3];

    for (int i = 0; i < 3; i++) {
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "ID", extents, "v");
        p->values[v[i]].sharding.split[0] = (pl_split){.n = 1, .axis = {0}};
        p->values[v[i]].offset = (int64_t)i * 2 * ROW * 4;
    }
    p->pool_bytes[PL_ACTIVATION] = 3 * 2 * ROW * 4;
    const int add = pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, v, 1, &v[2]);
    act(p, PL_ACTION_RUN, add);
    snprintf(step->machine.kernel[0].name, sizeof step->machine.kernel[0].name, "add");
    step->machine.kernel[0].term_s[PL_TERM_FAR] = 1e-9;
    step->machine.n_kernels = 1;
    step->machine.near_bytes = 1;
    step->machine.mid_bytes = 6e6;
    pl_pricer *pricer = pl_pricer_create(&step->machine), *other = pl_pricer_create(&step->machine);
    const double first_s = pl_price_op(pricer, p, &p->ops[add], (pl_coords){{0}}).far_s;
    const double second_s = pl_price_op(pricer, p, &p->ops[add], (pl_coords){{1}}).far_s;
    ck_assert(second_s > 0 && second_s < 0.6 * first_s);
    /* whichever rank was asked about before */
    ck_assert(second_s == pl_price_op(other, p, &p->ops[add], (pl_coords){{1}}).far_s);
    pl_pricer_destroy(other);
    pl_pricer_destroy(pricer);
    small_step_destroy(step);
}
END_TEST

START_TEST(where_memory_is_not_known_it_moves_as_the_largest_arrays_do)
{
    int op;
    small_step *step = shared_all_reduce(&op);
    const pl_program *p = step->p[0];
    pl_schedule *s = pl_op_schedule(p, &p->ops[op], (pl_coords){{0}}, NULL);
    const double touched = (double)pl_schedule_count(s, PL_F32).touched_bytes;
    const double near_s = price_in_caches(step, op, 1e12), far_s = price_in_caches(step, op, 1);

    ck_assert(touched > 0 && pl_curve_at(&slower, touched) > 1e8);
    ck_assert(agrees(far_s / near_s, pl_curve_at(&slower, touched) / 1e8, 32));
    pl_schedule_destroy(s);
    small_step_destroy(step);
}
END_TEST

START_TEST(a_round_is_late_once_however_many_messages_it_has)
{
    small_step *step = one_stage(3);
    pl_program *p = step->p[0];
    const int op = all_reduce_op(p, 300000);

    deal_to_hosts(step, 1);
    p->fabric.chooser.algo = "all_reduce=direct";
    step->machine.link[PL_LINK_OTHER_HOST].late_s = 1e-3;
    pl_schedule *s = pl_op_schedule(p, &p->ops[op], (pl_coords){{0}}, NULL);
    const pl_schedule_counts counts = pl_schedule_count(s, PL_F32);
    ck_assert(counts.rounds > 0 && counts.messages == 2 * counts.rounds);
    ck_assert(agrees(price_of(step, op).late_s, counts.rounds * 1e-3, 4));
    ck_assert(agrees(price_of(step, op).core_bytes, (double)counts.sent_bytes, 4));
    pl_schedule_destroy(s);
    small_step_destroy(step);
}
END_TEST

/* Rank 1's messages in an AllReduce of 300 elements, n of them; NULL: whatever they are. */
static void check_messages(int n_ranks, int ranks_per_host, const char *algo,
                           const pl_message_price *messages, int n)
{
    small_step *step = one_stage(n_ranks);
    const int op = all_reduce_op(step->p[0], 300);

    deal_to_hosts(step, ranks_per_host);
    step->p[0]->fabric.chooser.algo = algo;
    pl_pricer *pricer = pl_pricer_create(&step->machine);
    const pl_op_price price =
        pl_price_op(pricer, step->p[0], &step->p[0]->ops[op], (pl_coords){{1}});
    ck_assert_int_eq(price.n_messages, n);
    for (int m = 0; m < n && messages != NULL; m++) {
        ck_assert_int_eq(price.messages[m].round, messages[m].round);
        ck_assert_int_eq(price.messages[m].to, messages[m].to);
        ck_assert(agrees(price.messages[m].part, messages[m].part, 4));
    }
    pl_pricer_destroy(pricer);
    small_step_destroy(step);
}

START_TEST(a_collective_between_hosts_is_priced_with_its_messages)
{
    static const pl_message_price ring[] = {{0, 2, 0.25}, {1, 2, 0.25}, {2, 2, 0.25}, {3, 2, 0.25}},
                                  direct[] = {{0, 0, 0.25},
                                              {0, 2, 0.25},
                                              {2, 2, 0.25},
                                              {2, 0, 0.25}},
                                  to_other_host[] = {{0, 2, 0.5}, {2, 2, 0.5}};
    small_step *step = two_stages();
    const int send = move_op(step->p[0], PL_KIND_SEND, 1, 1000);

    check_messages(3, 1, "all_reduce=ring", ring, 4);
    check_messages(3, 1, "all_reduce=direct", direct, 4);
    check_messages(3, 2, "all_reduce=direct", to_other_host, 2); /* rank 0 is on its host */
    check_messages(3, 0, "all_reduce=ring", NULL, 0);            /* all are */
    check_messages(17, 1, "all_reduce=ring", NULL, 32);
    check_messages(18, 1, "all_reduce=ring", NULL, 0); /* 34 are too many */
    deal_to_hosts(step, 1);
    ck_assert_int_eq(price_of(step, send).n_messages, 0); /* goes as a whole */
    small_step_destroy(step);
}
END_TEST

/* The part of what a rank sends in an AllReduce of 300 elements that it sends as soon as it starts.
 * Ranks of a host share memory or not. */
static double first_part(int n_ranks, int ranks_per_host, bool shared, const char *algo, int rank)
{
    small_step *step = one_stage(n_ranks);
    const int op = all_reduce_op(step->p[0], 300);

    deal_to_hosts(step, ranks_per_host);
    step->p[0]->fabric.shared = shared;
    step->p[0]->fabric.chooser.algo = algo;
    pl_pricer *pricer = pl_pricer_create(&step->machine);
    const pl_op_price price =
        pl_price_op(pricer, step->p[0], &step->p[0]->ops[op], (pl_coords){{rank}});
    pl_pricer_destroy(pricer);
    small_step_destroy(step);
    ck_assert(price.core_bytes > 0);
    return price.first_bytes / price.core_bytes;
}

START_TEST(what_leaves_at_once_is_what_waits_for_nobody)
{
    small_step *step = two_stages();
    const int send = move_op(step->p[0], PL_KIND_SEND, 1, 1000),
              recv = move_op(step->p[0], PL_KIND_RECV, 1, 1000);

    deal_to_hosts(step, 1);
    ck_assert(price_of(step, send).core_bytes == 4000 && price_of(step, send).first_bytes == 4000);
    ck_assert(price_of(step, recv).core_bytes == 4000 && price_of(step, recv).first_bytes == 0);
    ck_assert(agrees(first_part(2, 1, false, "all_reduce=ring", 0), 0.5, 4));
    ck_assert(first_part(2, 1, false, "all_reduce=recursive-doubling", 0) == 1);
    ck_assert(
        agrees(first_part(3, 1, false, "all_reduce=ring", 0), 0.25, 4)); /* of two thirds twice */
    /* what goes to the other host was made of what a rank of this one gave */
    ck_assert(first_part(4, 2, true, "all_reduce=hierarchical", 0) == 0);
    /* of three ranks the second adds what the first has before it exchanges sums with the third */
    ck_assert(first_part(3, 1, false, "all_reduce=recursive-doubling", 0) == 1);
    ck_assert(first_part(3, 1, false, "all_reduce=recursive-doubling", 1) == 0);
    small_step_destroy(step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("price");
    TCase *prices = tcase_create("prices");

    tcase_add_test(prices, a_matmul_costs_its_flops_at_the_matmul_rate);
    tcase_add_test(prices, the_matmul_rate_is_that_of_the_products_size);
    tcase_add_test(prices, a_thin_matmul_is_bound_by_memory);
    tcase_add_test(prices, an_operand_is_narrowed_once_in_a_phase);
    tcase_add_test(prices, an_elementwise_op_costs_its_bytes);
    tcase_add_test(prices, a_tiny_op_is_bound_by_latency);
    tcase_add_test(prices, attention_costs_its_visible_pairs_at_the_attention_rate);
    tcase_add_test(prices, an_all_reduce_costs_its_schedule);
    tcase_add_test(prices, inside_a_host_cores_move_the_bytes);
    tcase_add_test(prices, what_was_touched_long_ago_moves_as_it_does_from_memory);
    tcase_add_test(prices, a_rank_that_holds_less_has_less_to_fetch);
    tcase_add_test(prices, where_memory_is_not_known_it_moves_as_the_largest_arrays_do);
    tcase_add_test(prices, a_round_is_late_once_however_many_messages_it_has);
    tcase_add_test(prices, a_collective_between_hosts_is_priced_with_its_messages);
    tcase_add_test(prices, what_leaves_at_once_is_what_waits_for_nobody);
    suite_add_tcase(suite, prices);
    return ck_main(suite);
}
