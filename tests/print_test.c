/* print -- what --print shows is the book's listing (section 5) of each strategy.
 *
 * Expected statements are the book's, with this project's names for its arrays: In is ffn.norm.out,
 * W_in ffn.w_gate, Tmp ffn.act, W_out ffn.w_down, Out ffn.out; tp between blocks is over T. */
#include "config.h"

#include "src/program/print.h"
#include "tests/check_main.h"
#include "tests/toy.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 3, TEXT = 512 };

/* The program of a plan as text; free() it. */
static char *printed(const pl_plan *plan, int stage, bool all)
{
    pl_mesh mesh;
    pl_program *p = toy_program(plan, &mesh, stage);
    const pl_coords coords = {{0}};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    pl_program_print(file, p, coords, all);
    ck_assert_int_eq(fclose(file), 0);
    pl_program_destroy(p);
    return text;
}

static char *printed_strategy(const char *spec)
{
    const pl_plan plan = toy_plan(spec, N_LAYERS, 8, 0);

    return printed(&plan, 0, false);
}

/* The lines under the heading that begins with `heading`, up to an empty line; free() them. */
static char *stretch_of(const char *text, const char *heading)
{
    char wanted[TEXT];

    snprintf(wanted, sizeof wanted, "\n%s", heading);
    const char *begin = strstr(text, wanted);
    ck_assert_msg(begin != NULL, "no \"%s\" in\n%.2000s", heading, text);
    begin = strchr(begin + 1, '\n');
    const char *end = strstr(begin, "\n\n");
    ck_assert_ptr_nonnull(end);
    return strndup(begin, (size_t)(end - begin) + 1);
}

/* Where a statement stands, alone on its line but for its note. */
static const char *find(const char *text, const char *statement)
{
    char wanted[TEXT];
    const char *at = text;

    snprintf(wanted, sizeof wanted, "\n  %s", statement);
    while ((at = strstr(at, wanted)) != NULL) {
        const char after = at[strlen(wanted)];

        if (after == '\n' || after == ' ')
            return at;
        at++;
    }
    return NULL;
}

/* That these statements are there, in this order. End the list with NULL. */
static void ck_listing(const char *text, ...) __attribute__((sentinel));

static void ck_listing(const char *text, ...)
{
    va_list args;
    const char *before = text;

    va_start(args, text);
    for (const char *statement; (statement = va_arg(args, const char *)) != NULL;) {
        const char *at = find(text, statement);

        ck_assert_msg(at != NULL, "\"%s\" is not in\n%.2000s", statement, text);
        ck_assert_msg(at >= before, "\"%s\" comes too early in\n%.2000s", statement, text);
        before = at;
    }
    va_end(args);
}

/* What follows the statement on its line. */
static void note_of(const char *text, const char *statement, char note[TEXT])
{
    const char *at = find(text, statement);

    ck_assert_msg(at != NULL, "\"%s\" is not in\n%.2000s", statement, text);
    at += strlen("\n  ") + strlen(statement);
    at += strspn(at, " ");
    snprintf(note, TEXT, "%.*s", (int)strcspn(at, "\n"), at);
}

static void ck_note(const char *text, const char *statement, const char *wanted)
{
    char note[TEXT];

    note_of(text, statement, note);
    ck_assert_str_eq(note, wanted);
}

START_TEST(in_bf16_what_is_f32_is_marked)
{
    pl_plan plan = toy_plan("fsdp:2", N_LAYERS, 8, 0);

    plan.dtype = PL_BF16;
    char *text = printed(&plan, 0, false);
    char *forward = stretch_of(text, "forward, layer 0"), *back = stretch_of(text, "backward, layer 2");
    char *update = stretch_of(text, "update, layer 0");

    ck_assert_ptr_nonnull(strstr(text, "\n  :f32 "));
    ck_listing(forward, "ffn.w_up[D, F] = AllGather_fsdp(ffn.w_up[D_fsdp, F])",
               "ffn.up[T, B_fsdp, F] = ffn.norm.out[T, B_fsdp, D] *_D ffn.w_up[D, F]", NULL);
    ck_assert_ptr_nonnull(strstr(forward, "attn.lse[T, B_fsdp, N]:f32 = attention("));
    ck_listing(back,
               "d.ffn.w_up[D, F]{U_fsdp}:f32 = ffn.norm.out[T, B_fsdp, D] *_{T,B} d.ffn.up[T, "
               "B_fsdp, F]",
               "d.ffn.w_up[D_fsdp, F]:f32 = ReduceScatter_fsdp(d.ffn.w_up[D, F]{U_fsdp}:f32)", NULL);
    ck_assert_ptr_nonnull(strstr(update, "ffn.w_up[D_fsdp, F] = adamw(ffn.w_up[D_fsdp, F], "));
    ck_assert_ptr_nonnull(strstr(update, "master.ffn.w_up[D_fsdp, F]:f32"));
    free(forward);
    free(back);
    free(update);
    free(text);
    text = printed_strategy("fsdp:2");
    ck_assert_ptr_null(strstr(text, ":f32"));
    free(text);
}
END_TEST

START_TEST(fsdp_gathers_each_weight_before_it_is_used)
{
    char *text = printed_strategy("fsdp:2"), *layer = stretch_of(text, "forward, layer 0");

    ck_listing(layer, "ffn.w_gate[D, F] = AllGather_fsdp(ffn.w_gate[D_fsdp, F])",
               "ffn.gate[T, B_fsdp, F] = ffn.norm.out[T, B_fsdp, D] *_D ffn.w_gate[D, F]", NULL);
    ck_listing(layer, "ffn.w_down[D, F] = AllGather_fsdp(ffn.w_down[D_fsdp, F])",
               "ffn.x[T, B_fsdp, D] = attn.x[T, B_fsdp, D] + ffn.act[T, B_fsdp, F] *_F "
               "ffn.w_down[D, F]",
               NULL);
    ck_listing(layer, "attn.wq[D, N, H] = AllGather_fsdp(attn.wq[D_fsdp, N, H])",
               "attn.q[T, B_fsdp, N, H] = attn.norm.out[T, B_fsdp, D] *_D attn.wq[D, N, H]", NULL);
    free(layer);
    free(text);
}
END_TEST

START_TEST(fsdp_scatters_each_gradient_after_its_terms)
{
    char *text = printed_strategy("fsdp:2"), *layer = stretch_of(text, "backward, layer 2");

    ck_listing(layer,
               "d.ffn.w_down[D, F]{U_fsdp} = ffn.act[T, B_fsdp, F] *_{T,B} d.ffn.x[T, B_fsdp, D]",
               "ffn.w_down[D, F] = AllGather_fsdp(ffn.w_down[D_fsdp, F])",
               "d.ffn.act[T, B_fsdp, F] = d.ffn.x[T, B_fsdp, D] *_D ffn.w_down[D, F]",
               "d.ffn.w_down[D_fsdp, F] = ReduceScatter_fsdp(d.ffn.w_down[D, F]{U_fsdp})", NULL);
    free(layer);
    free(text);
}
END_TEST

START_TEST(tp_gathers_activations_before_and_scatters_sums_after_a_block)
{
    char *text = printed_strategy("tp:2"), *layer = stretch_of(text, "forward, layer 0");

    ck_listing(layer, "ffn.norm.out[T, B, D] = AllGather_tp(ffn.norm.out[T_tp, B, D])",
               "ffn.gate[T, B, F_tp] = ffn.norm.out[T, B, D] *_D ffn.w_gate[D, F_tp]",
               "ffn.act[T, B, F_tp] = swiglu(ffn.gate[T, B, F_tp], ffn.up[T, B, F_tp])",
               "ffn.out[T, B, D]{U_tp} = ffn.act[T, B, F_tp] *_F ffn.w_down[D, F_tp]",
               "ffn.out[T_tp, B, D] = ReduceScatter_tp(ffn.out[T, B, D]{U_tp})",
               "ffn.x[T_tp, B, D] = attn.x[T_tp, B, D] + ffn.out[T_tp, B, D]", NULL);
    free(layer);
    free(text);
}
END_TEST

START_TEST(tp_does_the_transpose_backward)
{
    char *text = printed_strategy("tp:2"), *layer = stretch_of(text, "backward, layer 2");

    ck_listing(layer, "d.ffn.x[T, B, D] = AllGather_tp(d.ffn.x[T_tp, B, D])",
               "d.ffn.act[T, B, F_tp] = d.ffn.x[T, B, D] *_D ffn.w_down[D, F_tp]",
               "d.ffn.norm.out[T_tp, B, D] = ReduceScatter_tp(d.ffn.norm.out[T, B, D]{U_tp})",
               NULL);
    ck_assert_ptr_null(strstr(layer, "AllGather_tp(ffn.w_"));
    free(layer);
    free(text);
}
END_TEST

START_TEST(fsdp_and_tp_move_weights_over_one_axis_and_activations_over_the_other)
{
    char *text = printed_strategy("fsdp:2+tp:2"), *layer = stretch_of(text, "forward, layer 0");

    ck_listing(layer, "ffn.w_gate[D, F_tp] = AllGather_fsdp(ffn.w_gate[D_fsdp, F_tp])",
               "ffn.norm.out[T, B_fsdp, D] = AllGather_tp(ffn.norm.out[T_tp, B_fsdp, D])",
               "ffn.gate[T, B_fsdp, F_tp] = ffn.norm.out[T, B_fsdp, D] *_D ffn.w_gate[D, F_tp]",
               "ffn.out[T, B_fsdp, D]{U_tp} = ffn.act[T, B_fsdp, F_tp] *_F ffn.w_down[D, F_tp]",
               "ffn.out[T_tp, B_fsdp, D] = ReduceScatter_tp(ffn.out[T, B_fsdp, D]{U_tp})", NULL);
    free(layer);
    layer = stretch_of(text, "backward, layer 2");
    ck_listing(layer,
               "d.ffn.w_down[D_fsdp, F_tp] = ReduceScatter_fsdp(d.ffn.w_down[D, F_tp]{U_fsdp})",
               NULL);
    free(layer);
    free(text);
}
END_TEST

START_TEST(dp_reduces_whole_gradients_and_nothing_forward)
{
    char *text = printed_strategy("dp:2"), *layer = stretch_of(text, "forward, layer 0");

    ck_assert_ptr_null(strstr(layer, "_dp("));
    ck_listing(text, "g.ffn.w_up[D, F] = AllReduce_dp(grad.ffn.w_up[D, F]{U_dp})", NULL);
    free(layer);
    free(text);
}
END_TEST

START_TEST(weights_are_prefetched_and_activations_are_critical)
{
    char *text = printed_strategy("fsdp:2+tp:2"), *layer = stretch_of(text, "forward, layer 0");
    char note[TEXT];

    note_of(layer, "attn.norm[D] = AllGather_fsdp(attn.norm[D_fsdp])", note);
    ck_assert_ptr_nonnull(strstr(note, "B/rank  prefetched"));
    note_of(layer, "ffn.out[T_tp, B_fsdp, D] = ReduceScatter_tp(ffn.out[T, B_fsdp, D]{U_tp})",
            note);
    ck_assert_ptr_nonnull(strstr(note, "B/rank  critical"));
    free(layer);
    layer = stretch_of(text, "backward, layer 2");
    note_of(layer, "d.ffn.w_down[D_fsdp, F_tp] = ReduceScatter_fsdp(d.ffn.w_down[D, F_tp]{U_fsdp})",
            note);
    ck_assert_ptr_nonnull(strstr(note, "B/rank  background"));
    free(layer);
    free(text);
}
END_TEST

/* Over P ranks each rank of a gather or a scatter sends (P - 1) / P of the array. */
START_TEST(bytes_per_rank_are_those_of_the_arrays)
{
    char *text = printed_strategy("fsdp:2+tp:2"), *layer = stretch_of(text, "forward, layer 0");
    const int per_layer = 2 * TOY_D * 2 + /* norms are not split over tp */
                          2 * TOY_D * TOY_N * TOY_H + 2 * TOY_D * TOY_K * TOY_H + 3 * TOY_D * TOY_F;
    const int B = 8 / 2, x = TOY_T * B * TOY_D;
    char wanted[TEXT];

    snprintf(wanted, sizeof wanted, "%d,%03d B/rank  prefetched", per_layer / 2 / 2 * 4 / 1000,
             per_layer / 2 / 2 * 4 % 1000);
    ck_note(layer, "attn.norm[D] = AllGather_fsdp(attn.norm[D_fsdp])", wanted);
    ck_note(layer, "ffn.w_up[D, F_tp] = AllGather_fsdp(ffn.w_up[D_fsdp, F_tp])", "together");
    snprintf(wanted, sizeof wanted, "%d,%03d B/rank  critical", x / 2 * 4 / 1000, x / 2 * 4 % 1000);
    ck_note(layer, "ffn.norm.out[T, B_fsdp, D] = AllGather_tp(ffn.norm.out[T_tp, B_fsdp, D])",
            wanted);
    free(layer);
    free(text);
}
END_TEST

/* 2 T B D F / tp. */
START_TEST(products_say_their_flops)
{
    char *text = printed_strategy("tp:2"), *layer = stretch_of(text, "forward, layer 0");
    char wanted[TEXT];

    snprintf(wanted, sizeof wanted, "%.1f kFLOP", 2.0 * TOY_T * 8 * TOY_D * TOY_F / 2 / 1000);
    ck_note(layer, "ffn.gate[T, B, F_tp] = ffn.norm.out[T, B, D] *_D ffn.w_gate[D, F_tp]", wanted);
    free(layer);
    free(text);
}
END_TEST

START_TEST(layers_that_are_alike_are_printed_once_unless_all_are_asked_for)
{
    const pl_plan plan = toy_plan("tp:2", N_LAYERS, 8, 0);
    char *text = printed(&plan, 0, false), *all = printed(&plan, 0, true);

    ck_assert_ptr_nonnull(strstr(text, "\nforward, layer 0  (alike: layers 0..2)\n"));
    ck_assert_ptr_null(strstr(text, "\nforward, layer 1"));
    ck_assert_ptr_null(strstr(all, "alike:"));
    ck_assert_ptr_nonnull(strstr(all, "\nforward, layer 0\n"));
    ck_assert_ptr_nonnull(strstr(all, "\nforward, layer 1\n"));
    ck_assert_ptr_nonnull(strstr(all, "\nforward, layer 2\n"));
    free(text);
    free(all);
}
END_TEST

START_TEST(a_stage_shows_its_order_and_what_it_sends)
{
    const pl_plan plan = toy_plan("pp:3", N_LAYERS, 2, 1);
    char *text = printed(&plan, 1, false), *layer = stretch_of(text, "forward, layer 0");
    char *own, wanted[TEXT];

    ck_assert_ptr_nonnull(strstr(text, "stage 1 of 3"));
    ck_assert_ptr_nonnull(strstr(text, "order       F0 F1 B0 B1 update"));
    ck_listing(layer, "ffn.x[T, B, D] = Recv_pp(from stage 0)", NULL);
    own = stretch_of(text, "forward, layer 1");
    /* a microbatch of one sequence; a send is waited for before the next one */
    snprintf(wanted, sizeof wanted, "%d B/rank  background", TOY_T * TOY_D * 4);
    ck_note(own, "Send_pp(ffn.x[T, B, D] to stage 2)", wanted);
    free(own);
    free(layer);
    free(text);
}
END_TEST

START_TEST(a_statement_is_broken_between_operands_and_fits_a_line)
{
    char *text = printed_strategy("fsdp:2+tp:2");

    /* 2 of indent, at most 96 of statement, 2 + 17 + 2 + 10 of note */
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        ck_assert_msg(strcspn(line, "\n") <= 2 + 96 + 2 + 17 + 2 + 10, "%.*s",
                      (int)strcspn(line, "\n"), line);
        if (strcspn(line, "[\n") > strcspn(line, "]\n"))
            ck_abort_msg("broken within brackets: %.*s", (int)strcspn(line, "\n"), line);
    }
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("print");
    TCase *tcase = tcase_create("print");

    tcase_add_test(tcase, in_bf16_what_is_f32_is_marked);
    tcase_add_test(tcase, fsdp_gathers_each_weight_before_it_is_used);
    tcase_add_test(tcase, fsdp_scatters_each_gradient_after_its_terms);
    tcase_add_test(tcase, tp_gathers_activations_before_and_scatters_sums_after_a_block);
    tcase_add_test(tcase, tp_does_the_transpose_backward);
    tcase_add_test(tcase, fsdp_and_tp_move_weights_over_one_axis_and_activations_over_the_other);
    tcase_add_test(tcase, dp_reduces_whole_gradients_and_nothing_forward);
    tcase_add_test(tcase, weights_are_prefetched_and_activations_are_critical);
    tcase_add_test(tcase, bytes_per_rank_are_those_of_the_arrays);
    tcase_add_test(tcase, products_say_their_flops);
    tcase_add_test(tcase, layers_that_are_alike_are_printed_once_unless_all_are_asked_for);
    tcase_add_test(tcase, a_stage_shows_its_order_and_what_it_sends);
    tcase_add_test(tcase, a_statement_is_broken_between_operands_and_fits_a_line);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
