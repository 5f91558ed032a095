/* predict_test -- prices, replays and choices against times worked out by hand, on machines whose
 * peaks are round numbers. No MPI: nothing here runs. */
#include "config.h"

#include "src/roofline/choose.h"
#include "src/roofline/predict.h"

#include "src/program/communicate.h"
#include "tests/check_main.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGES = 8 };

/* Every operation rounds once: a sum or product of n positive terms is off by at most n u / (1 - n
 * u) of itself. Both sides of a comparison have their own. */
static bool agrees(double a, double b, int n_roundings)
{
    const double nu = n_roundings * DBL_EPSILON / 2;

    return fabs(a - b) <= 2 * nu / (1 - nu) * fmax(fabs(a), fabs(b));
}

/* 1 GFLOP/s, 1 GB/s, 1 us to begin an op, 2 us to begin a collective; links of 10 us and 100 MB/s,
 * both ways at once 50 MB/s. */
static pl_machine round_machine(void)
{
    const pl_link link = {
        .latency_s = 1e-5, .one_way_bytes_per_s = 1e8, .both_ways_bytes_per_s = 5e7};

    return (pl_machine){.ranks_per_host = 8,
                        .threads_per_rank = 1,
                        .matmul_flops_per_s = {.n_points = 1, .size = {1}, .rate = {1e9}},
                        .peak_flops_per_s = 2e9,
                        .memory_bytes_per_s = {.n_points = 1, .size = {1}, .rate = {1e9}},
                        .attention_flops_per_s = 5e8,
                        .op_overhead_s = 1e-6,
                        .comm_overhead_s = 2e-6,
                        .reduce_bytes_per_s = 2e8,
                        .copy_bytes_per_s = 4e8,
                        .link = {link, link}};
}

static pl_machine synthetic(void)
{
    pl_machine machine;
    const char *srcdir = getenv("srcdir");
    char path[512];

    snprintf(path, sizeof path, "%s/tests/machine.json", srcdir != NULL ? srcdir : ".");
    ck_assert_msg(pl_machine_read(path, &machine) == PL_OK, "%s", pl_status_message());
    return machine;
}

/* A plan for model tiny. */
static pl_plan tiny_plan(const char *spec, int64_t batch, int64_t micro_batch)
{
    pl_plan plan = {.adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                    .batch = batch,
                    .micro_batch = micro_batch,
                    .seq = 63};

    ck_assert(pl_spec_parse(spec, &plan.spec) == PL_OK);
    ck_assert(pl_model_config_preset("tiny", &plan.model) == PL_OK);
    return plan;
}

/* The stages' programs of a plan. */
typedef struct {
    pl_mesh mesh;
    int n;
    const pl_program *stage[MAX_STAGES];
} stages;

static void stages_build(stages *st, const pl_plan *plan)
{
    ck_assert(pl_spec_mesh(&plan->spec, &plan->model, &st->mesh) == PL_OK);
    st->n = pl_spec_degree(&plan->spec, "pp");
    for (int s = 0; s < st->n; s++)
        st->stage[s] = pl_build(plan, &st->mesh, s);
}

static void stages_destroy(stages *st)
{
    for (int s = 0; s < st->n; s++)
        pl_program_destroy((pl_program *)st->stage[s]);
}

static double predicted_step_s(const pl_plan *plan, const pl_machine *machine)
{
    pl_prediction *prediction = pl_plan_predict(plan, machine);
    const double step_s = prediction->step_s;

    pl_prediction_destroy(prediction);
    return step_s;
}

/* Programs by hand. */

static pl_mesh mesh_of(const char *name, int size)
{
    pl_mesh mesh = {0};

    ck_assert(pl_mesh_add(&mesh, name, size) == PL_OK);
    return mesh;
}

static pl_program *empty_program(const pl_mesh *mesh)
{
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(mesh, &batch);

    p->actions = pl_alloc(64 * sizeof *p->actions);
    return p;
}

static void act(pl_program *p, pl_action_kind kind, int op)
{
    p->actions[p->n_actions++] = (pl_action){kind, op};
}

/* c = a + b of n elements. */
static int add_op(pl_program *p, int64_t n)
{
    int v[3];

    for (int i = 0; i < 3; i++)
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, "v%d", i);
    return pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, v, 1, &v[2]);
}

/* AllReduce of n elements over the mesh's first axis. */
static int all_reduce_op(pl_program *p, int64_t n)
{
    const int in = pl_value_add(p, PL_COMM_BUFFER, 0, "D", &n, "x");
    const int out = pl_value_clone(p, in);
    const int op = pl_op_add(p, PL_KIND_ALL_REDUCE, PL_BACKWARD, 0, 1, &in, 1, &out);

    p->values[out].alias_of = in;
    p->ops[op].axes = 1;
    return op;
}

static int move_op(pl_program *p, pl_kind kind, int peer, int64_t n)
{
    const int v = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, "x");
    const bool sends = kind == PL_KIND_SEND;
    const int op = pl_op_add(p, kind, PL_FORWARD, 0, sends, &v, !sends, &v);

    p->ops[op].axes = 1;
    p->ops[op].microbatch = 0;
    p->ops[op].peer_stage = peer;
    return op;
}

/* With ranks dealt to hosts, ranks_per_host each; 0: all on one. */
static pl_op_price price_of(pl_program *p, int op, const pl_machine *machine, int ranks_per_host)
{
    pl_pricer *pricer = pl_pricer_create(machine);

    p->fabric.ranks_per_host = ranks_per_host;
    const pl_op_price price = pl_price_op(pricer, p, &p->ops[op], (pl_coords){{0}});

    pl_pricer_destroy(pricer);
    return price;
}

/* y[T, F] = x[T, D] . w[D, F]. */
static int product_op(pl_program *p, int64_t T, int64_t D, int64_t F)
{
    const int64_t td[] = {T, D}, df[] = {D, F}, tf[] = {T, F};
    const int in[2] = {pl_value_add(p, PL_ACTIVATION, 0, "TD", td, "x"),
                       pl_value_add(p, PL_WEIGHT, 0, "DF", df, "w")};
    const int out = pl_value_add(p, PL_ACTIVATION, 0, "TF", tf, "y");

    return pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, in, 1, &out);
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

/* An AllReduce of 2 x 400,000 bytes between two ranks, whichever of ring and direct carries it: a
 * round that sends and receives a half and reduces it, and one that gathers the halves. */
enum { HALF_BYTES = 400000 };
static const double all_reduce_s = 2 * (1e-5 + HALF_BYTES / 5e7) + HALF_BYTES / 2e8;

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

/* START, RUN an add of n elements, WAIT; between hosts or inside one. */
static pl_prediction *predict_overlap_on(const pl_machine *machine, int64_t n, int ranks_per_host)
{
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const pl_program *one[1] = {p};
    const int reduce = all_reduce_op(p, HALF_BYTES / 2), add = add_op(p, n);

    act(p, PL_ACTION_START, reduce);
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_WAIT, reduce);
    p->fabric.ranks_per_host = ranks_per_host;
    pl_prediction *prediction = pl_predict(one, 1, machine);
    pl_program_destroy(p);
    return prediction;
}

static pl_prediction *predict_overlap(int64_t n, int ranks_per_host)
{
    const pl_machine machine = round_machine();

    return predict_overlap_on(&machine, n, ranks_per_host);
}

START_TEST(a_kernel_hides_a_transfer_between_hosts_but_for_the_reduction)
{
    /* 12 bytes an element: the kernel runs for 0.06 s, the transfer takes 0.018 s. */
    pl_prediction *prediction = predict_overlap(5000000, 1);

    ck_assert(agrees(prediction->step_s, 2e-6 + 0.06 + 1e-6 + HALF_BYTES / 2e8, 16));
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6, 2));
    ck_assert(agrees(prediction->stages[0].ops[0].hidden_s, all_reduce_s, 8));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(what_a_kernel_does_not_hide_is_exposed)
{
    pl_prediction *prediction = predict_overlap(500000, 1); /* 0.006 s of kernel */

    ck_assert(agrees(prediction->step_s, 2e-6 + all_reduce_s, 16));
    /* The subtraction loses about two bits. */
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6 + all_reduce_s - 0.006 - 1e-6, 64));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(messages_between_hosts_take_their_share_of_the_core_while_they_are_under_way)
{
    pl_machine machine = round_machine();
    const double of_core_s = 2 * HALF_BYTES / 2e8; /* both rounds' */

    machine.link[PL_LINK_OTHER_HOST].core_bytes_per_s = 2e8;
    pl_prediction *all = predict_overlap_on(&machine, 5000000, 1),
                  *part = predict_overlap_on(&machine, 500000, 1);

    ck_assert(agrees(all->step_s, 2e-6 + 0.06 + 1e-6 + of_core_s + HALF_BYTES / 2e8, 64));
    /* a kernel of 0.006 s is over before the transfer: by its share it ends later */
    ck_assert(agrees(all->stages[0].math_s, 0.06 + 1e-6 + of_core_s, 64));
    ck_assert(agrees(part->step_s, 2e-6 + all_reduce_s, 16));
    ck_assert(agrees(part->stages[0].math_s, (0.006 + 1e-6) / (1 - of_core_s / all_reduce_s), 64));
    pl_prediction_destroy(part);
    pl_prediction_destroy(all);
}
END_TEST

START_TEST(inside_a_host_a_transfer_takes_its_time_from_the_kernel)
{
    /* All but its latencies is work of the cores, so nearly nothing is gained. */
    pl_prediction *prediction = predict_overlap(5000000, 0);

    ck_assert(agrees(prediction->step_s, 2e-6 + 0.06 + 1e-6 + all_reduce_s - 2e-5, 32));
    /* and cores do it when they start it */
    ck_assert(agrees(prediction->stages[0].exposed_s, 2e-6 + all_reduce_s - 2e-5, 32));
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(transfers_queue_for_the_link)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const pl_program *one[1] = {p};
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2);

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_START, second);
    act(p, PL_ACTION_WAIT, second);
    act(p, PL_ACTION_WAIT, first);
    p->fabric.ranks_per_host = 1;
    pl_prediction *prediction = pl_predict(one, 1, &machine);
    ck_assert(agrees(prediction->step_s, 2e-6 + 2 * all_reduce_s, 16));
    pl_prediction_destroy(prediction);
    pl_program_destroy(p);
}
END_TEST

START_TEST(a_core_that_waits_does_the_work_of_one_transfer_at_a_time)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", 2);
    pl_program *p = empty_program(&mesh);
    const pl_program *one[1] = {p};
    const int first = all_reduce_op(p, HALF_BYTES / 2), second = all_reduce_op(p, HALF_BYTES / 2),
              add = add_op(p, 5000000);

    act(p, PL_ACTION_START, first);
    act(p, PL_ACTION_START, second);
    act(p, PL_ACTION_WAIT, first);
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_WAIT, second);
    pl_prediction *prediction = pl_predict(one, 1, &machine);
    /* Waiting for the first leaves time for the second only while latencies pass: 20 us less the 2
     * us that starting the second took. The kernel hides the second's own 20 us. */
    ck_assert(
        agrees(prediction->step_s, 2e-6 + 2 * all_reduce_s + 0.06 + 1e-6 - 1.8e-5 - 2e-5, 32));
    pl_prediction_destroy(prediction);
    pl_program_destroy(p);
}
END_TEST

START_TEST(a_receive_waits_for_its_sender)
{
    const pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("pp", 2);
    pl_program *p[2] = {empty_program(&mesh), empty_program(&mesh)};
    const pl_program *both[2] = {p[0], p[1]};
    const int add = add_op(p[0], 1000000), send = move_op(p[0], PL_KIND_SEND, 1, 1000000),
              recv = move_op(p[1], PL_KIND_RECV, 0, 1000000);

    p[1]->stage = 1;
    act(p[0], PL_ACTION_RUN, add);
    act(p[0], PL_ACTION_START, send);
    act(p[0], PL_ACTION_WAIT, send);
    act(p[1], PL_ACTION_START, recv);
    act(p[1], PL_ACTION_WAIT, recv);
    p[0]->fabric.ranks_per_host = p[1]->fabric.ranks_per_host = 1;
    pl_prediction *prediction = pl_predict(both, 2, &machine);
    const double move_s = 1e-5 + 4e6 / 1e8;
    ck_assert(agrees(prediction->stages[1].step_s, 0.012 + 1e-6 + 2e-6 + move_s, 16));
    ck_assert(agrees(prediction->step_s, prediction->stages[1].step_s, 1));
    pl_prediction_destroy(prediction);
    pl_program_destroy(p[0]);
    pl_program_destroy(p[1]);
}
END_TEST

/* Run an add of 0.012001 s, then an AllReduce over `ranks` that nothing hides. */
static double predict_meeting_at(int ranks, double jitter_s, double drift)
{
    pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("dp", ranks);
    pl_program *p = empty_program(&mesh);
    const pl_program *one[1] = {p};
    const int add = add_op(p, 1000000), reduce = all_reduce_op(p, HALF_BYTES / 2);

    machine.jitter_s = jitter_s;
    machine.drift = drift;
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_START, reduce);
    act(p, PL_ACTION_WAIT, reduce);
    p->fabric.ranks_per_host = 1;
    pl_prediction *prediction = pl_predict(one, 1, &machine);
    const double step_s = prediction->step_s;
    pl_prediction_destroy(prediction);
    pl_program_destroy(p);
    return step_s;
}

static double predict_meeting(int ranks, double jitter_s)
{
    return predict_meeting_at(ranks, jitter_s, 0);
}

/* Which adds to the variance of what is drawn anew for each op. */
START_TEST(ranks_that_are_slower_for_long_are_waited_for)
{
    const double add_s = 0.012 + 1e-6, both_s = sqrt(1e-4 * add_s + 0.25 * add_s * add_s);
    const double drift = predict_meeting_at(2, 0, 0.5) - predict_meeting(2, 0);
    const double both = predict_meeting_at(2, 1e-4, 0.5) - predict_meeting(2, 0);

    ck_assert_double_eq_tol(drift / (0.5 * add_s), 1 / sqrt(M_PI), 1e-9);
    ck_assert_double_eq_tol(both / both_s, 1 / sqrt(M_PI), 1e-9);
}
END_TEST

START_TEST(ranks_that_drift_wait_for_the_last)
{
    const double sigma_s = sqrt(1e-4 * (0.012 + 1e-6));
    /* The mean of the larger of two standard normal numbers is 1 / sqrt(pi), of the largest of three
     * 3 / (2 sqrt(pi)). The rule of 200 steps of 0.08 that finds them has converged: the integrand is
     * smooth and below e^-32 at its ends. */
    const double two = predict_meeting(2, 1e-4) - predict_meeting(2, 0);
    const double three = predict_meeting(3, 1e-4) - predict_meeting(3, 0);

    ck_assert_double_eq_tol(two / sigma_s, 1 / sqrt(M_PI), 1e-9);
    ck_assert_double_eq_tol(three / sigma_s, 1.5 / sqrt(M_PI), 1e-9);
}
END_TEST

START_TEST(ranks_that_share_a_core_run_faster_while_others_wait)
{
    pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("pp", 2);
    pl_program *p[2] = {empty_program(&mesh), empty_program(&mesh)};
    const pl_program *both[2] = {p[0], p[1]};
    const int tiny = add_op(p[0], 1000), first = add_op(p[0], 1000000), send = move_op(p[0], PL_KIND_SEND, 1, 1),
              recv = move_op(p[1], PL_KIND_RECV, 0, 1), last = add_op(p[1], 1000000);

    p[1]->stage = 1;
    act(p[0], PL_ACTION_RUN, tiny);
    act(p[0], PL_ACTION_RUN, first);
    act(p[0], PL_ACTION_START, send);
    act(p[0], PL_ACTION_WAIT, send);
    act(p[1], PL_ACTION_START, recv);
    act(p[1], PL_ACTION_WAIT, recv);
    act(p[1], PL_ACTION_RUN, last);
    p[0]->fabric.ranks_per_host = p[1]->fabric.ranks_per_host = 1;
    const double tiny_s = 12e-6 + 1e-6, add_s = 0.012 + 1e-6, move_s = 2e-6 + 1e-5 + 4 / 1e8;
    pl_prediction *alone = pl_predict(both, 2, &machine);
    machine.ranks_per_core = 2; /* the same prices, now those of half a core */
    machine.ranks_per_host = 2; /* one core */
    pl_prediction *shared = pl_predict(both, 2, &machine);
    machine.ranks_per_host = 4; /* two, on which the ranks keep apart */
    pl_prediction *apart = pl_predict(both, 2, &machine);
    ck_assert(agrees(alone->step_s, tiny_s + 2 * add_s + move_s, 16));
    /* both begin; then each runs while the other waits or has done, with a whole core */
    ck_assert(agrees(shared->step_s, tiny_s + 2 * add_s / 2 + move_s, 16));
    ck_assert(apart->step_s == alone->step_s);
    machine.handover_s = 1e-3; /* the one that waits leaves its core, and takes it back */
    pl_prediction *handed = pl_predict(both, 2, &machine);
    ck_assert(agrees(handed->stages[1].exposed_s, apart->stages[1].exposed_s + 2e-3, 16));
    pl_prediction_destroy(handed);
    pl_prediction_destroy(apart);
    pl_prediction_destroy(alone);
    pl_prediction_destroy(shared);
    pl_program_destroy(p[0]);
    pl_program_destroy(p[1]);
}
END_TEST

/* An add of arrays from memory, in the second of two stages: the first is done before. */
START_TEST(memory_serves_a_stage_faster_while_the_other_waits)
{
    pl_machine machine = round_machine();
    const pl_mesh mesh = mesh_of("pp", 2);
    pl_program *p[2] = {empty_program(&mesh), empty_program(&mesh)};
    const pl_program *both[2] = {p[0], p[1]};
    const int done = add_op(p[0], 1), add = add_op(p[1], 1000000);

    p[1]->stage = 1;
    for (int v = 0; v < p[1]->n_values; v++)
        p[1]->values[v].offset = (int64_t)v * 4000000;
    p[1]->pool_bytes[PL_ACTIVATION] = 12000000;
    act(p[0], PL_ACTION_RUN, done);
    act(p[1], PL_ACTION_RUN, add);
    snprintf(machine.kernel[0].name, sizeof machine.kernel[0].name, "add");
    machine.kernel[0].term_s[PL_TERM_CALL] = 1e-3;
    machine.kernel[0].term_s[PL_TERM_FAR] = 1e-9;
    machine.n_kernels = 1;
    machine.near_bytes = machine.mid_bytes = 1;
    pl_prediction *same = pl_predict(both, 2, &machine);
    const double call_s = 1e-3, far_s = same->step_s - call_s;
    machine.memory_contention = 2;
    pl_prediction *faster = pl_predict(both, 2, &machine);

    ck_assert(far_s > 0.001);
    ck_assert(agrees(faster->step_s, call_s + far_s / 2, 32));
    pl_prediction_destroy(same);
    pl_prediction_destroy(faster);
    pl_program_destroy(p[0]);
    pl_program_destroy(p[1]);
}
END_TEST

/* Whole steps. */

static const char *const specs[] = {
    "dp:1",
    "dp:2",
    "dp:3",
    "fsdp:2",
    "fsdp:3",
    "fsdp:5",
    "tp:2",
    "tp:8",
    "pp:2",
    "pp:5",
    "fsdp:2+tp:2",
    "fsdp:1+dp:2",
    "dp:2+fsdp:2+tp:2",
    "dp:2+pp:3",
    "pp:2+fsdp:2+tp:2",
};
enum { N_SPECS = sizeof specs / sizeof *specs };

START_TEST(a_step_lies_between_its_bounds)
{
    const pl_machine machine = synthetic();

    for (int pipeline = PL_GPIPE; pipeline <= PL_1F1B; pipeline++)
        for (int micro = 1; micro <= 4; micro++) {
            pl_plan plan = tiny_plan(specs[_i], 10, micro);

            plan.pipeline = (pl_pipeline_kind)pipeline;
            pl_prediction *prediction = pl_plan_predict(&plan, &machine);
            const int n = prediction->stages[0].n_ops * prediction->n_stages * 4;

            ck_assert_msg(prediction->lower_s <= prediction->step_s ||
                              agrees(prediction->lower_s, prediction->step_s, n),
                          "%s: %g s is below %g s", specs[_i], prediction->step_s,
                          prediction->lower_s);
            ck_assert_msg(prediction->step_s <= prediction->upper_s ||
                              agrees(prediction->upper_s, prediction->step_s, n),
                          "%s: %g s is above %g s", specs[_i], prediction->step_s,
                          prediction->upper_s);
            ck_assert(prediction->lower_s > 0);
            pl_prediction_destroy(prediction);
        }
}
END_TEST

START_TEST(wire_bytes_are_those_of_every_ranks_schedules)
{
    for (int zero = 0; zero <= 2; zero++) {
        pl_plan plan = tiny_plan(specs[_i], 11, 2); /* uneven shares, uneven microbatches */
        stages st;

        plan.spec.zero = zero;
        stages_build(&st, &plan);
        const pl_wire wire = pl_predict_wire(st.stage, st.n);
        for (int w = 0; w < wire.n; w++) {
            int64_t bytes = 0;

            for (int64_t r = 0; r < pl_mesh_size(&st.mesh); r++) {
                const pl_coords coords = pl_mesh_coords(&st.mesh, r);
                const int pp = pl_mesh_axis(&st.mesh, "pp");
                const pl_program *p = st.stage[pp >= 0 ? coords.at[pp] : 0];

                for (int i = 0; i < p->n_ops; i++) {
                    if (!pl_kind_is_communication(p->ops[i].kind) ||
                        pl_op_group(p, &p->ops[i]) != wire.axes[w])
                        continue;
                    pl_schedule *s = pl_op_schedule(p, &p->ops[i], coords, NULL);
                    bytes += pl_schedule_count(s, PL_F32).wire_bytes;
                    pl_schedule_destroy(s);
                }
            }
            ck_assert_int_eq(wire.bytes[w], bytes);
        }
        stages_destroy(&st);
    }
}
END_TEST

/* Bytes of a plan over all axes. */
static int64_t all_wire_bytes(const pl_plan *plan)
{
    stages st;
    int64_t bytes = 0;

    stages_build(&st, plan);
    const pl_wire wire = pl_predict_wire(st.stage, st.n);
    for (int w = 0; w < wire.n; w++)
        bytes += wire.bytes[w];
    stages_destroy(&st);
    return bytes;
}

START_TEST(dp_reduces_every_gradient_once)
{
    const pl_plan plan = tiny_plan("dp:4", 8, 1);
    const int64_t n_params = pl_model_n_params(&plan.model);

    /* A ring AllReduce moves 2 (P-1) n elements over all ranks; the loss is one more number. */
    ck_assert_int_eq(all_wire_bytes(&plan), 4 * 2 * 3 * (n_params + 1));
}
END_TEST

START_TEST(fsdp_gathers_weights_twice_and_scatters_gradients_once)
{
    const pl_plan plan = tiny_plan("fsdp:2", 8, 0);
    const int64_t n_params = pl_model_n_params(&plan.model);
    const int64_t n_embed = plan.model.vocab * plan.model.d_model;

    /* (P-1) n elements each time over all ranks; the backward pass needs no embedding. The loss
     * and the sum of squares: a number to the other and back. */
    ck_assert_int_eq(all_wire_bytes(&plan), 4 * (3 * n_params - n_embed + 2 * 2));
}
END_TEST

START_TEST(accumulation_does_not_add_to_dps_bytes)
{
    const pl_plan whole = tiny_plan("dp:2", 8, 0), cut = tiny_plan("dp:2", 8, 1);

    ck_assert_int_eq(all_wire_bytes(&whole), all_wire_bytes(&cut));
}
END_TEST

/* A model whose layers are nearly all of its work, and a machine that only matmuls cost. */
static pl_plan even_plan(const char *spec, int64_t batch)
{
    pl_plan plan = tiny_plan(spec, batch, 1);

    plan.model = (pl_model_config){.n_layers = 8,
                                   .d_model = 64,
                                   .n_heads = 4,
                                   .n_kv_heads = 4,
                                   .head_dim = 16,
                                   .d_ff = 128,
                                   .vocab = 2,
                                   .max_seq = 64,
                                   .rms_eps = 1e-5,
                                   .rope_theta = 10000};
    plan.seq = 64;
    return plan;
}

START_TEST(a_pipeline_of_equal_stages_has_the_bubble_of_the_book)
{
    pl_machine machine = round_machine();
    const pl_link free_link = {
        .latency_s = 0, .one_way_bytes_per_s = INFINITY, .both_ways_bytes_per_s = INFINITY};
    const int p = 4, m = 6;
    pl_plan plan = even_plan("pp:4", m);

    machine.op_overhead_s = machine.comm_overhead_s = 0;
    machine.peak_flops_per_s = machine.memory_bytes_per_s.rate[0] = INFINITY;
    machine.reduce_bytes_per_s = machine.copy_bytes_per_s = INFINITY;
    machine.link[0] = machine.link[1] = free_link;
    plan.pipeline = (pl_pipeline_kind)_i;
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    double least_s = INFINITY, most_s = 0;
    for (int s = 0; s < p; s++) {
        least_s = fmin(least_s, prediction->stages[s].math_s);
        most_s = fmax(most_s, prediction->stages[s].math_s);
    }
    /* Only the head tells the last stage from the others. */
    ck_assert(most_s < 1.01 * least_s);
    const double drawn_out = (double)(m + p - 1) / m;
    ck_assert_double_ge(prediction->step_s, drawn_out * least_s);
    ck_assert_double_le(prediction->step_s, drawn_out * most_s);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(memory_is_that_of_the_largest_stage)
{
    const pl_machine machine = synthetic();
    const pl_plan plan = tiny_plan("pp:3", 4, 1);
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    stages st;

    stages_build(&st, &plan);
    for (int c = 0; c < PL_N_CLASSES; c++) {
        size_t most = 0;

        for (int s = 0; s < st.n; s++)
            most = st.stage[s]->pool_bytes[c] > most ? st.stage[s]->pool_bytes[c] : most;
        ck_assert_uint_eq(prediction->memory_bytes[c], most);
    }
    stages_destroy(&st);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(evaluation_needs_no_gradients)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("fsdp:2+tp:2", 4, 1);

    plan.forward_only = true;
    pl_prediction *prediction = pl_plan_predict(&plan, &machine);
    ck_assert_uint_eq(prediction->memory_bytes[PL_GRADIENT], 0);
    ck_assert_uint_eq(prediction->memory_bytes[PL_MOMENT], 0);
    ck_assert(prediction->memory_bytes[PL_WEIGHT] > 0);
    pl_prediction_destroy(prediction);
}
END_TEST

START_TEST(a_share_that_does_not_divide_makes_one_more_microbatch)
{
    const pl_plan plan = tiny_plan("dp:2", 7, 3); /* shares of 4 and 3 */
    pl_mesh mesh;

    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).n_microbatches, 2);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).micro_batch, 3);
}
END_TEST

START_TEST(without_a_microbatch_size_a_share_is_one_microbatch)
{
    const pl_plan plan = tiny_plan("dp:2", 7, 0);
    pl_mesh mesh;

    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).n_microbatches, 1);
    ck_assert_int_eq(pl_plan_batch(&plan, &mesh).micro_batch, 4);
}
END_TEST

START_TEST(model_flops_are_six_per_weight_and_token_and_causal_attention)
{
    /* tiny, per layer: wq, wo 2 x 72 x 8 x 18; wk, wv 2 x 72 x 4 x 18; 3 x 72 x 172; head 257 x 72.
     */
    const pl_plan plan = tiny_plan("dp:1", 1, 0);
    const double weights = 5.0 * (20736 + 10368 + 37152) + 18504;
    const double attention = 5.0 * 4 * 8 * 18 * (63 * 64 / 2);

    ck_assert(pl_model_flops(&plan.model, 10, 63, true) == 10 * (6 * weights * 63 + 3 * attention));
    ck_assert(pl_model_flops(&plan.model, 10, 63, false) == 10 * (2 * weights * 63 + attention));
}
END_TEST

/* Choosing. */

START_TEST(the_choice_is_the_fastest_of_all_factorisations)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("fsdp+tp", 8, 2);
    char why[256];
    double fastest_s = INFINITY;

    for (int fsdp = 1; fsdp <= 8; fsdp *= 2) {
        pl_plan given = plan;

        given.spec.degree[0] = fsdp;
        given.spec.degree[1] = 8 / fsdp;
        fastest_s = fmin(fastest_s, predicted_step_s(&given, &machine));
    }
    ck_assert(pl_choose(&plan, 8, &machine, 0, why, sizeof why) == PL_OK);
    ck_assert_int_eq(plan.spec.degree[0] * plan.spec.degree[1], 8);
    ck_assert(predicted_step_s(&plan, &machine) == fastest_s);
    ck_assert_msg(strstr(why, "predicted") != NULL && strstr(why, "next best") != NULL, "%s", why);
}
END_TEST

START_TEST(degrees_that_are_given_are_kept)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp+tp:4", 8, 0);
    char why[256];

    ck_assert(pl_choose(&plan, 8, &machine, 0, why, sizeof why) == PL_OK);
    ck_assert_int_eq(pl_spec_degree(&plan.spec, "dp"), 2);
    ck_assert_int_eq(pl_spec_degree(&plan.spec, "tp"), 4);
}
END_TEST

START_TEST(nothing_is_said_where_nothing_was_chosen)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp:2+tp:4", 8, 0);
    char why[256] = "x";

    ck_assert(pl_choose(&plan, 8, &machine, 0, why, sizeof why) == PL_OK);
    ck_assert_str_eq(why, "");
}
END_TEST

static void assert_refused(const char *spec, int n_ranks, int64_t memory_bytes, const char *word)
{
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan(spec, 8, 0);
    const pl_plan before = plan;
    char why[256];

    ck_assert_int_eq(pl_choose(&plan, n_ranks, &machine, memory_bytes, why, sizeof why),
                     PL_BAD_INPUT);
    ck_assert_msg(strstr(pl_status_message(), word) != NULL, "%s", pl_status_message());
    ck_assert(memcmp(&plan.spec, &before.spec, sizeof plan.spec) == 0);
    pl_status_clear();
}

START_TEST(a_choice_without_a_fit_is_refused_with_the_reason)
{
    assert_refused("tp", 3, 0, "degrees that do: 1, 2, 4, 8");
    assert_refused("dp", 16, 0, "--batch");
    assert_refused("dp:3+tp", 8, 0, "multiple of 3");
    assert_refused("dp:2+tp:2", 8, 0, "needs 4 ranks");
}
END_TEST

START_TEST(a_choice_that_does_not_fit_in_memory_is_refused)
{
    assert_refused("fsdp+tp", 8, 1000, "memory");
}
END_TEST

START_TEST(of_the_choices_only_those_that_fit_in_memory_count)
{
    /* dp:4+fsdp:1 is faster here or not; with less memory than it needs it is out. */
    const pl_machine machine = synthetic();
    pl_plan plan = tiny_plan("dp+fsdp", 4, 0), dp_only = plan;
    char why[256];
    int64_t needed = 0;

    dp_only.spec.degree[0] = 4;
    dp_only.spec.degree[1] = 1;
    pl_prediction *prediction = pl_plan_predict(&dp_only, &machine);
    for (int c = 0; c < PL_N_CLASSES; c++)
        needed += (int64_t)prediction->memory_bytes[c];
    pl_prediction_destroy(prediction);
    ck_assert(pl_choose(&plan, 4, &machine, needed - 1, why, sizeof why) == PL_OK);
    ck_assert_int_gt(pl_spec_degree(&plan.spec, "fsdp"), 1);
    ck_assert_msg(strstr(why, "memory") != NULL, "%s", why);
}
END_TEST

static void add_prices(Suite *suite)
{
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
}

static void add_replays(Suite *suite)
{
    TCase *replays = tcase_create("replays");

    tcase_add_test(replays, a_kernel_hides_a_transfer_between_hosts_but_for_the_reduction);
    tcase_add_test(replays, what_a_kernel_does_not_hide_is_exposed);
    tcase_add_test(replays,
                   messages_between_hosts_take_their_share_of_the_core_while_they_are_under_way);
    tcase_add_test(replays, inside_a_host_a_transfer_takes_its_time_from_the_kernel);
    tcase_add_test(replays, transfers_queue_for_the_link);
    tcase_add_test(replays, a_core_that_waits_does_the_work_of_one_transfer_at_a_time);
    tcase_add_test(replays, a_receive_waits_for_its_sender);
    tcase_add_test(replays, ranks_that_drift_wait_for_the_last);
    tcase_add_test(replays, ranks_that_are_slower_for_long_are_waited_for);
    tcase_add_test(replays, memory_serves_a_stage_faster_while_the_other_waits);
    tcase_add_test(replays, ranks_that_share_a_core_run_faster_while_others_wait);
    suite_add_tcase(suite, replays);
}

static void add_steps(Suite *suite)
{
    TCase *steps = tcase_create("steps");

    tcase_add_loop_test(steps, a_step_lies_between_its_bounds, 0, N_SPECS);
    tcase_add_loop_test(steps, wire_bytes_are_those_of_every_ranks_schedules, 0, N_SPECS);
    tcase_add_test(steps, dp_reduces_every_gradient_once);
    tcase_add_test(steps, fsdp_gathers_weights_twice_and_scatters_gradients_once);
    tcase_add_test(steps, accumulation_does_not_add_to_dps_bytes);
    tcase_add_loop_test(steps, a_pipeline_of_equal_stages_has_the_bubble_of_the_book, PL_GPIPE,
                        PL_1F1B + 1);
    tcase_add_test(steps, memory_is_that_of_the_largest_stage);
    tcase_add_test(steps, evaluation_needs_no_gradients);
    tcase_add_test(steps, a_share_that_does_not_divide_makes_one_more_microbatch);
    tcase_add_test(steps, without_a_microbatch_size_a_share_is_one_microbatch);
    tcase_add_test(steps, model_flops_are_six_per_weight_and_token_and_causal_attention);
    suite_add_tcase(suite, steps);
}

static void add_choices(Suite *suite)
{
    TCase *choices = tcase_create("choices");

    tcase_add_test(choices, the_choice_is_the_fastest_of_all_factorisations);
    tcase_add_test(choices, degrees_that_are_given_are_kept);
    tcase_add_test(choices, nothing_is_said_where_nothing_was_chosen);
    tcase_add_test(choices, a_choice_without_a_fit_is_refused_with_the_reason);
    tcase_add_test(choices, a_choice_that_does_not_fit_in_memory_is_refused);
    tcase_add_test(choices, of_the_choices_only_those_that_fit_in_memory_count);
    suite_add_tcase(suite, choices);
}

int main(void)
{
    Suite *suite = suite_create("predict");

    add_prices(suite);
    add_replays(suite);
    add_steps(suite);
    add_choices(suite);
    return ck_main(suite);
}
