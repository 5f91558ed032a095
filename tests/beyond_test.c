/* beyond_test -- what the search adds to programs by formula: experts, sequences in pieces, chunks
 * of layers, recomputation; and how its plans are written. */
#include "config.h"

#include "collectives/wires.h"
#include "src/plan/beyond.h"
#include "src/plan/search.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/search_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static pl_search_options options_for(const char *model, int64_t chips, int64_t sequences,
                                     const char *spec)
{
    pl_search_options o = search_case("h100", chips, sequences);

    o.n_plans = 1;
    ck_accepted(pl_architecture_find(model, &o.architecture));
    pl_stand_in(&o.architecture, &o.model);
    if (spec != NULL)
        ck_accepted(pl_candidate_parse(spec, &o));
    return o;
}

static pl_candidate best_of(const pl_search_options *o)
{
    static pl_search_result r;

    ck_accepted(pl_search(o, &r));
    ck_assert_int_ge(r.n, 1);
    return r.best[0];
}

START_TEST(a_model_that_programs_know_needs_nothing_added)
{
    pl_search_options o = options_for("llama3-8b", 64, 64, "fsdp:8+tp:8"), plain = o;

    plain.architecture.n_layers = 0;
    const pl_candidate a = best_of(&o), b = best_of(&plain);
    ck_assert(a.estimate.step_s == b.estimate.step_s);
    ck_assert(a.estimate.total_bytes == b.estimate.total_bytes);
    ck_assert(a.mfu == b.mfu);
}
END_TEST

/* Mixtral: two of eight experts make a stand-in of F = 2 x 14336; parameters are its own. */
START_TEST(a_stand_in_does_what_a_token_does)
{
    pl_search_options o = options_for("mixtral-8x7b", 64, 64, NULL);
    pl_architecture stand_in;

    pl_model_config_describe(&o.model, &stand_in);
    ck_assert_int_eq(o.model.d_ff, 2 * 14336);
    ck_assert(pl_expert_params(&o.architecture) == 32.0 * 8 * 3 * 4096 * 14336);
    const double router = 2.0 * 32 * 4096 * 8; /* all that its FLOPs are more */
    ck_assert(pl_architecture_matmul_flops(&o.architecture) -
                  pl_architecture_matmul_flops(&stand_in) ==
              router);
}
END_TEST

START_TEST(memory_holds_all_experts_and_ep_divides_them)
{
    pl_search_options one = options_for("mixtral-8x7b", 64, 64, "fsdp:64"),
                      eight = options_for("mixtral-8x7b", 64, 64, "dp:8+ep:8");
    const double all = (double)pl_architecture_params(&one.architecture).total,
                 experts = pl_expert_params(&one.architecture);
    const pl_candidate a = best_of(&one), b = best_of(&eight);

    ck_assert(fabs(a.estimate.memory_bytes[PL_WEIGHT] / (2 * all / 64) - 1) < 1e-3);
    ck_assert(fabs(b.estimate.memory_bytes[PL_WEIGHT] / (2 * (all - experts + experts / 8)) - 1) <
              1e-3);
    ck_assert(b.estimate.total_bytes >= pl_candidate_persistent(&eight, &b));
}
END_TEST

/* Eight chips of a node: a token's two experts lie on 8 (1 - (7/8)^2) = 1.875 of them; D elements
 * of two bytes; two AllToAlls each way. */
START_TEST(experts_exchange_tokens_with_the_chips_that_hold_them)
{
    pl_search_options o = options_for("mixtral-8x7b", 8, 8, "ep:8");
    pl_wires node = {.n = 0};

    o.hw.chip.hbm_bytes = 1e18;
    const pl_candidate c = best_of(&o);
    const double bytes = (double)c.plan.micro_batch * 4096 * 4096 * 2 * 1.875;

    pl_wires_add(&node, pl_wire_dim_of(&o.hw, 0, 8, 1, 0));
    const double exchange_s = 2 * pl_wires_collective(&node, PL_ALL_TO_ALL, bytes).time_s;
    ck_assert(fabs(c.more.layer_exposed_s[0] / exchange_s - 1) < 1e-12);
    ck_assert(c.more.layer_exposed_s[0] == c.more.layer_exposed_s[1]);
    ck_assert(
        fabs(pl_experts_exposed_s(&o, &c) / (2 * exchange_s * 32 * c.estimate.n_microbatches) - 1) <
        1e-12);
}
END_TEST

START_TEST(chunks_shorten_the_bubble_and_keep_more)
{
    pl_search_options o = options_for("llama3-8b", 64, 128, "pp:8+dp:8");

    o.remat = PL_REMAT_NONE;
    o.micro_batch = 1;
    o.hw.chip.hbm_bytes = 1e18;
    const pl_candidate one = best_of(&o);
    o.interleave = 4;
    const pl_candidate four = best_of(&o);
    const double saved_s = one.estimate.step_s - four.estimate.step_s;

    ck_assert(saved_s > 0 && saved_s <= 0.75 * one.estimate.bubble_s);
    ck_assert(four.estimate.bubble_s >= one.estimate.bubble_s / 4);
    ck_assert(
        fabs(four.estimate.memory_bytes[PL_ACTIVATION] / one.estimate.memory_bytes[PL_ACTIVATION] -
             (1 + 7 / (8.0 * 4))) < 1e-9);
    o.interleave = PL_AUTO; /* four layers a stage: at most four chunks */
    const pl_candidate chosen = best_of(&o);
    ck_assert_int_eq(chosen.more.interleave, 4);
    ck_assert(chosen.estimate.step_s == four.estimate.step_s);
}
END_TEST

START_TEST(attending_again_lies_between_keeping_all_and_doing_all_again)
{
    static const pl_remat remats[3] = {PL_REMAT_NONE, PL_REMAT_MATMULS, PL_REMAT_BLOCK};
    pl_search_options o = options_for("llama3-8b", 64, 64, "fsdp:64");
    pl_candidate c[3];

    o.hw.chip.hbm_bytes = 1e18;
    for (int i = 0; i < 3; i++) {
        o.remat = (int)remats[i];
        c[i] = best_of(&o);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert(c[i].estimate.math_s < c[i + 1].estimate.math_s);
        ck_assert(c[i].estimate.memory_bytes[PL_ACTIVATION] >
                  c[i + 1].estimate.memory_bytes[PL_ACTIVATION]);
    }
    /* 4 N H a pair of T (T + 1) / 2, one sequence a chip, 32 layers */
    const double again_s =
        32 * 4.0 * 32 * 128 * (4096.0 * 4097 / 2) / pl_machine_attention(&o.machine, PL_BF16);
    ck_assert(fabs((c[1].estimate.math_s - c[0].estimate.math_s) / again_s - 1) < 1e-9);
}
END_TEST

START_TEST(degrees_are_read_as_they_are_written)
{
    static const char *const text = "pp:2+fsdp:4+cp:2+ep:4+tp:2";
    pl_search_options o = options_for("mixtral-8x7b", 128, 1024, text);
    char again[PL_SPEC_TEXT];

    ck_assert_int_eq(pl_spec_degree(&o.fixed, "fsdp"), 32);
    ck_assert(o.cp == 2 && o.ep == 4);
    const pl_candidate c = best_of(&o);
    pl_candidate_print(&c, again, sizeof again);
    ck_assert_str_eq(again, text);
}
END_TEST

START_TEST(experts_that_do_not_divide_are_refused)
{
    pl_search_options o = options_for("mixtral-8x7b", 64, 64, NULL),
                      dense = options_for("llama3-8b", 64, 64, NULL);

    ck_assert(pl_candidate_parse("dp:8+ep:3", &o) == PL_BAD_INPUT);
    ck_assert(strstr(pl_status_message(), "8 experts") != NULL);
    pl_status_clear();
    ck_assert(pl_candidate_parse("dp:8+ep:2", &dense) == PL_BAD_INPUT);
    ck_assert(strstr(pl_status_message(), "no experts") != NULL);
}
END_TEST

START_TEST(pipelines_may_have_more_stages_than_the_engine_runs)
{
    pl_search_options o = options_for("mt-nlg-530b", 840, 64, "pp:105+tp:8");
    const pl_candidate c = best_of(&o);

    ck_assert_int_eq(pl_spec_degree(&c.plan.spec, "pp"), 105);
    ck_assert(c.estimate.bubble_s > 0.5 * c.estimate.step_s); /* 64 microbatches */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beyond");
    TCase *tc = tcase_create("formulas");

    tcase_add_test(tc, a_model_that_programs_know_needs_nothing_added);
    tcase_add_test(tc, a_stand_in_does_what_a_token_does);
    tcase_add_test(tc, memory_holds_all_experts_and_ep_divides_them);
    tcase_add_test(tc, experts_exchange_tokens_with_the_chips_that_hold_them);
    tcase_add_test(tc, chunks_shorten_the_bubble_and_keep_more);
    tcase_add_test(tc, attending_again_lies_between_keeping_all_and_doing_all_again);
    tcase_add_test(tc, degrees_are_read_as_they_are_written);
    tcase_add_test(tc, experts_that_do_not_divide_are_refused);
    tcase_add_test(tc, pipelines_may_have_more_stages_than_the_engine_runs);
    suite_add_tcase(suite, tc);
    return ck_main(suite);
}
