/* search_test -- layouts of meshes on networks, and the search over them. */
#include "config.h"

#include "collectives/wires.h"
#include "src/plan/beyond.h"
#include "src/plan/commands.h"
#include "src/plan/curve.h"
#include "src/plan/search.h"
#include "src/plan/search_options.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/search_case.h"
#include "tests/trace_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pl_search_result *found(const pl_search_options *o)
{
    pl_search_result *r = calloc(1, sizeof *r);

    ck_accepted(pl_search(o, r));
    ck_assert_int_ge(r->n, 1);
    return r;
}

START_TEST(a_slice_of_a_torus_wraps_around_where_it_can)
{
    pl_hardware hw;
    pl_slice slice;

    ck_accepted(pl_hardware_find("tpu-v5p", &hw));
    ck_accepted(pl_slice_of(&hw, 8960, &slice));
    ck_assert(slice.length[0] == 16 && slice.length[1] == 20 && slice.length[2] == 28);
    ck_accepted(pl_slice_of(&hw, 64, &slice)); /* a cube, not 1 x 4 x 16 */
    ck_assert(slice.length[0] == 4 && slice.length[1] == 4 && slice.length[2] == 4);
    ck_accepted(pl_slice_of(&hw, 2 * 8960, &slice));
    ck_assert(slice.pods == 2);
    ck_refused(pl_slice_of(&hw, 8961, &slice), "8961", "8960", "17920", NULL);
}
END_TEST

START_TEST(layouts_join_every_axis_over_as_many_chips_as_it_has)
{
    static const char *const machines[] = {"tpu-v5p", "tpu-v5e", "h100", "gb200-nvl72"};

    for (int i = 0; i < 4; i++) {
        const pl_search_options o = search_case(machines[i], 256, 256);
        pl_search_result *r = found(&o);

        for (int k = 0; k < r->n; k++)
            for (int a = 0; a < r->best[k].mesh.n_axes; a++)
                ck_assert_int_eq(pl_wires_chips(&r->best[k].wires[a]),
                                 r->best[k].mesh.axes[a].size);
        free(r);
    }
}
END_TEST

START_TEST(the_axes_of_a_torus_are_dealt_out_whole)
{
    pl_search_options o = search_case("tpu-v5p", 192, 192); /* 4 x 4 x 12 */
    int dealt[3] = {1, 1, 1};
    pl_slice slice;
    pl_search_result *r;

    ck_accepted(pl_slice_of(&o.hw, 192, &slice));
    ck_accepted(pl_spec_parse("fsdp:24+tp:8", &o.fixed));
    o.typed = "fsdp:24+tp:8";
    r = found(&o);
    for (int a = 0; a < r->best[0].mesh.n_axes; a++)
        for (int i = 0; i < r->best[0].wires[a].n; i++)
            dealt[r->best[0].wires[a].dim[i].level] *= r->best[0].wires[a].dim[i].extent;
    for (int l = 0; l < 3; l++)
        ck_assert_int_eq(dealt[l], slice.length[l]);
    free(r);
}
END_TEST

static double loads_s(const pl_axis_load *loads, const pl_wires *wires, int n)
{
    double sum_s = 0;

    for (int a = 0; a < n; a++)
        sum_s += loads[a].times *
                 pl_wires_collective(&wires[a], loads[a].collective, loads[a].bytes).time_s;
    return sum_s;
}

/* fsdp:8+tp:4 on a torus of 4 x 4 x 2: tp along a ring of four, or two by two, and fsdp over what
 * is left. */
START_TEST(a_layout_takes_no_longer_than_any_other)
{
    enum { WAYS = 5 };
    static const int parts_of_tp[WAYS][3] = {{1, 2, 2}, {1, 4, 1}, {2, 1, 2}, {2, 2, 1}, {4, 1, 1}};
    const pl_slice slice = {.n_torus = 3, .length = {4, 4, 2}, .pods = 1};
    pl_hardware hw;
    pl_mesh mesh = {0};
    pl_wires best[PL_MAX_AXES];
    double best_s;

    ck_accepted(pl_hardware_find("tpu-v5p", &hw));
    ck_assert(pl_mesh_add(&mesh, "fsdp", 8) == PL_OK && pl_mesh_add(&mesh, "tp", 4) == PL_OK);
    for (int heavy = 0; heavy < 2; heavy++) {
        const pl_axis_load loads[2] = {{PL_ALL_GATHER, 1e8, heavy == 0 ? 10 : 1},
                                       {PL_ALL_REDUCE, 1e8, heavy == 1 ? 10 : 1}};
        double least_s = INFINITY;

        for (int i = 0; i < WAYS; i++) {
            pl_wires wires[2] = {{.n = 0}, {.n = 0}};

            for (int l = 0; l < 3; l++) {
                const int part = parts_of_tp[i][l], whole = slice.length[l];

                pl_wires_add(&wires[1], pl_wire_dim_of(&hw, l, part, 1, whole));
                pl_wires_add(&wires[0], pl_wire_dim_of(&hw, l, whole / part, part, whole));
            }
            ck_assert(pl_wires_chips(&wires[0]) == 8 && pl_wires_chips(&wires[1]) == 4);
            least_s = fmin(least_s, loads_s(loads, wires, 2));
        }
        ck_assert(pl_lay_out(&hw, &slice, &mesh, loads, best, &best_s));
        ck_assert(best_s == least_s);
        ck_assert(best_s == loads_s(loads, best, 2));
    }
}
END_TEST

START_TEST(pods_lie_along_an_axis_that_they_divide)
{
    pl_search_options o = search_case("tpu-v5p", 3 * 8960, 3 * 8960);
    pl_search_result *r;

    ck_accepted(pl_spec_parse("dp:2+fsdp:3360+tp:4", &o.fixed));
    o.typed = "dp:2+fsdp:3360+tp:4";
    r = found(&o);
    for (int a = 0; a < 3; a++) {
        const pl_wires *w = &r->best[0].wires[a];
        const bool is_over_pods = w->dim[w->n - 1].level == 3;

        ck_assert(is_over_pods == (a == 1)); /* three pods: neither dp:2 nor tp:4 */
        ck_assert(!is_over_pods || w->dim[w->n - 1].extent == 3);
    }
    free(r);
}
END_TEST

START_TEST(tp_stays_inside_the_node)
{
    pl_search_options o = search_case("h100", 64, 64);
    pl_search_result *r;

    ck_accepted(pl_spec_parse("dp:8+tp:8", &o.fixed));
    o.typed = "dp:8+tp:8";
    r = found(&o);
    ck_assert_int_eq(r->best[0].wires[1].n, 1);
    ck_assert_int_eq(r->best[0].wires[1].dim[0].level, 0);
    ck_assert_int_eq(r->best[0].wires[0].dim[0].level, 1);
    free(r);
}
END_TEST

START_TEST(plans_fit_in_memory_and_come_fastest_first)
{
    const pl_search_options o = search_case("tpu-v5e", 64, 128);
    pl_search_result *r = found(&o);

    for (int i = 0; i < r->n; i++) {
        const pl_candidate *c = &r->best[i];

        ck_assert(c->estimate.total_bytes <= o.hw.chip.hbm_bytes);
        ck_assert(c->estimate.total_bytes >= pl_candidate_persistent(&o, c));
        ck_assert(c->mfu > 0 && c->mfu <= 1);
        ck_assert(i == 0 || c->estimate.step_s >= r->best[i - 1].estimate.step_s);
        ck_assert(c->estimate.step_s >= c->bound_s);
        ck_assert(c->estimate.step_s >= c->estimate.math_s);
    }
    free(r);
}
END_TEST

START_TEST(a_bounded_search_finds_what_an_unbounded_one_finds)
{
    static const char *const machines[] = {"h100", "tpu-v5e"};

    for (int i = 0; i < 2; i++) {
        pl_search_options o = search_case(machines[i], 16, 16);
        pl_search_result *few, *all;

        o.n_plans = 1;
        o.effort = 10;
        few = found(&o);
        o.effort = 1 << 20;
        all = found(&o);
        ck_assert(all->is_proven);
        ck_assert_msg(few->best[0].estimate.step_s <= 1.05 * all->best[0].estimate.step_s,
                      "%g s, not %g s", few->best[0].estimate.step_s, all->best[0].estimate.step_s);
        free(few);
        free(all);
    }
}
END_TEST

/* Candidates are passed over by bounds once there are as many plans as are asked for. Where that
 * are more than there are, nothing is. */
START_TEST(what_is_passed_over_would_not_have_been_among_the_best)
{
    static const char *const machines[] = {"h100", "tpu-v5e"};

    for (int i = 0; i < 2; i++) {
        pl_search_options o = search_case(machines[i], 16, 16);

        o.effort = 1 << 20;
        o.n_plans = PL_MAX_PLANS;
        pl_search_result *all = found(&o);
        ck_assert_int_ge(all->n, 12);
        for (o.n_plans = 1; o.n_plans <= 8; o.n_plans *= 2) {
            pl_search_result *best = found(&o);

            ck_assert(best->is_proven);
            ck_assert_int_eq(best->n, o.n_plans);
            ck_assert_int_le(best->n_priced, all->n_priced);
            for (int k = 0; k < best->n; k++)
                ck_assert(best->best[k].estimate.step_s == all->best[k].estimate.step_s);
            free(best);
        }
        free(all);
    }
}
END_TEST

START_TEST(meshes_that_do_not_suit_are_counted)
{
    const pl_search_options o = search_case("h100", 3, 3); /* pp:3, dp:3, fsdp:3, tp:3 */
    pl_search_result r;

    ck_accepted(pl_search(&o, &r));
    ck_assert_int_eq(r.n_meshes, 4);
    ck_assert_int_eq(r.n_refused, 1); /* tp:3, of 32 heads */
}
END_TEST

START_TEST(degrees_whose_product_is_not_the_chips_are_refused)
{
    pl_search_options o = search_case("h100", 16384, 2048);
    pl_search_result r;

    o.typed = "tp:8+cp:16+pp:16+dp:4";
    o.cp = 16;
    ck_accepted(pl_spec_parse("tp:8+pp:16+dp:64", &o.fixed));
    ck_refused(pl_search(&o, &r), "8192", "16384", o.typed, NULL);
}
END_TEST

START_TEST(what_cannot_fit_says_by_how_much_and_what_would)
{
    pl_search_options o = search_case("tpu-v5e", 4, 64);
    pl_search_result r;

    ck_refused(pl_search(&o, &r), "GB more than", "need 9 chips", NULL);
}
END_TEST

START_TEST(a_batch_becomes_sequences_that_many_ranks_share)
{
    bool rounded;

    ck_assert_int_eq(pl_sequences_of(4e6, 8192, &rounded), 512);
    ck_assert(rounded);
    ck_assert_int_eq(pl_sequences_of(488 * 8192.0, 8192, &rounded), 488);
    ck_assert(!rounded);
    ck_assert_int_eq(pl_sequences_of(16e6, 8192, &rounded), 2048);
    ck_assert_int_eq(pl_sequences_of(100, 8192, &rounded), 1);
}
END_TEST

START_TEST(a_curve_turns_from_communication_to_arithmetic_as_batches_grow)
{
    pl_search_command *c = calloc(1, sizeof *c);
    pl_plan_curve curve;
    char path[SCRATCH_PATH];
    size_t n;

    c->search = search_case("h100", 64, 64);
    c->search.effort = 12;
    c->vary = PL_VARY_BATCH;
    pl_curve_of(c, &curve);
    ck_assert_int_ge(curve.n, 5);
    for (int i = 1; i < curve.n; i++) {
        ck_assert(curve.point[i].x > curve.point[i - 1].x);
        ck_assert(curve.point[i].step_s > curve.point[i - 1].step_s);
    }
    ck_assert(curve.point[0].comm_s / curve.point[0].math_s >
              curve.point[curve.n - 1].comm_s / curve.point[curve.n - 1].math_s);
    ck_accepted(pl_curve_plot(c, &curve, scratch_path("curve.svg", path)));
    char *text = scratch_read(path, &n);
    ck_assert(strstr(text, "</svg>") != NULL && strstr(text, "polyline") != NULL);
    free(text);
    free(c);
}
END_TEST

/* A stage is a process, a slot an event; of long pipelines too, whose titles have many digits. */
START_TEST(a_simulated_pipeline_is_a_trace_of_its_slots)
{
    enum { STAGES = 16, MICROBATCHES = 1536 };
    char path[SCRATCH_PATH];
    char *argv[] = {"plan simulate", "--model",       "llama3-70b", "--hw",       "h100",
                    "--chips",       "128",           "--batch",    "6Mi",        "--seq",
                    "4096",          "--micro-batch", "1",          "--strategy", "pp:16+tp:8",
                    "--trace",       (char *)path};
    trace_summary found;
    size_t n;

    scratch_path("slots.json", path);
    ck_accepted(pl_plan_simulate(sizeof argv / sizeof *argv, argv));
    char *text = scratch_read(path, &n);
    json_t *trace = trace_parse(text, n);
    ck_assert_ptr_nonnull(trace);
    const char *fault = trace_fault(trace, &found);
    ck_assert_msg(fault == NULL, "%s", fault);
    ck_assert_int_eq(found.n_processes, STAGES);
    ck_assert_int_eq(found.n_spans, 2 * STAGES * MICROBATCHES);
    for (int s = 0; s < STAGES; s++)
        ck_assert_ptr_nonnull(trace_find(trace, "backward 1535", s));
    ck_assert_ptr_null(trace_find(trace, "backward 1535", STAGES));
    json_decref(trace);
    free(text);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("search");
    TCase *tc = tcase_create("plans");

    tcase_add_checked_fixture(tc, scratch_create, scratch_remove);
    tcase_add_test(tc, a_slice_of_a_torus_wraps_around_where_it_can);
    tcase_add_test(tc, layouts_join_every_axis_over_as_many_chips_as_it_has);
    tcase_add_test(tc, the_axes_of_a_torus_are_dealt_out_whole);
    tcase_add_test(tc, a_layout_takes_no_longer_than_any_other);
    tcase_add_test(tc, pods_lie_along_an_axis_that_they_divide);
    tcase_add_test(tc, tp_stays_inside_the_node);
    tcase_add_test(tc, plans_fit_in_memory_and_come_fastest_first);
    tcase_add_test(tc, a_bounded_search_finds_what_an_unbounded_one_finds);
    tcase_add_test(tc, what_is_passed_over_would_not_have_been_among_the_best);
    tcase_add_test(tc, meshes_that_do_not_suit_are_counted);
    tcase_add_test(tc, degrees_whose_product_is_not_the_chips_are_refused);
    tcase_add_test(tc, what_cannot_fit_says_by_how_much_and_what_would);
    tcase_add_test(tc, a_batch_becomes_sequences_that_many_ranks_share);
    tcase_add_test(tc, a_curve_turns_from_communication_to_arithmetic_as_batches_grow);
    tcase_add_test(tc, a_simulated_pipeline_is_a_trace_of_its_slots);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
