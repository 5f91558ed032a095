/* The command line: what each option takes and refuses. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/scratch.h"

#include "src/train/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ./train FLAG VALUE (VALUE NULL: the flag alone). */
static pl_status parse(const char *flag, const char *value, pl_options *options)
{
    char program[] = "train", a[64], b[64];
    char *words[4] = {program, a, value != NULL ? b : NULL, NULL};

    snprintf(a, sizeof a, "%s", flag);
    snprintf(b, sizeof b, "%s", value != NULL ? value : "");
    return pl_options_parse(value != NULL ? 3 : 2, words, options);
}

typedef struct {
    const char *flag;
    bool takes_fractions, takes_zero;
    const char *too_much; /* refused at the upper end */
} number;

static const number numbers[] = {
    {"--batch", false, false, "16777217"},
    {"--micro-batch", false, false, "16777217"},
    {"--seq", false, false, "16777217"},
    {"--steps", false, true, "1073741825"},
    {"--warmup", false, true, "1073741825"},
    {"--eval-every", false, true, "1073741825"},
    {"--seed", false, true, "9223372036854775808"},
    {"--zero", false, true, "3"},
    {"--lr", true, false, "1e31"},
    {"--weight-decay", true, true, "1e7"},
    {"--beta1", true, true, "1"},
    {"--beta2", true, true, "1"},
    {"--eps", true, false, "2"},
    {"--clip", true, true, "1e31"},
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

START_TEST(numbers_that_make_no_sense_are_refused_by_flag)
{
    static const char *const never[] = {"-1",    "-0.5", "nan", "-nan",  "inf",  "-inf",
                                        "1e400", "x",    " 1",  "1 seq", "0x10", "--"};
    const number *n = &numbers[_i];
    pl_options o;

    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        ck_refused(parse(n->flag, never[i], &o), n->flag, NULL);
    ck_refused(parse(n->flag, n->too_much, &o), n->flag, n->too_much, "out of range", NULL);
    if (!n->takes_fractions)
        ck_refused(parse(n->flag, "1.5", &o), n->flag, "1.5", NULL);
    if (n->takes_zero)
        ck_accepted(parse(n->flag, "0", &o));
    else
        ck_refused(parse(n->flag, "0", &o), n->flag, "out of range", NULL);
}
END_TEST

START_TEST(sizes_have_units)
{
    pl_options o;

    ck_accepted(parse("--batch", "2K", &o));
    ck_assert(o.batch == 2000);
    ck_accepted(parse("--seq", "2Ki", &o));
    ck_assert(o.seq == 2048);
}
END_TEST

START_TEST(words_that_are_no_choice_are_refused_with_the_choices)
{
    static const struct {
        const char *flag, *value, *choice;
    } words[] = {
        {"--strategy", "zp", "dp, fsdp, tp and pp"},
        {"--strategy", "dp+", "dp, fsdp, tp and pp"},
        {"--strategy", "dp+dp", "dp is named twice"},
        {"--strategy", "tp:0", "the degree of tp"},
        {"--strategy", "tp:-2", "the degree of tp"},
        {"--strategy", "tp:two", "the degree of tp"},
        {"--strategy", "fsdp:", "the degree of fsdp"},
        {"--strategy", "fsdp:2:2", "the degree of fsdp"},
        {"--schedule", "zigzag", "gpipe or 1f1b"},
        {"--order", "backwards", "none of random, sequential"},
        {"--lr-schedule", "linear", "none of cosine, constant"},
        {"--matmul", "mkl", "openblas"},
        {"--dtype", "f16", "bf16"},
        {"--dtype", "bfloat16", "f32"},
        {"--print=every", NULL, "all"},
        {"extra", NULL, "'extra' is not an option"},
    };
    pl_options o;

    ck_refused(parse(words[_i].flag, words[_i].value, &o), words[_i].choice, NULL);
}
END_TEST
enum { N_WORDS = 16 };

START_TEST(each_matrix_product_can_be_chosen)
{
    pl_options o;

    ck_assert(parse("--matmul", "own", &o) == PL_OK && o.matmul == PL_MATMUL_OWN);
    ck_assert(parse("--matmul", "openblas", &o) == PL_OK && o.matmul == PL_MATMUL_OPENBLAS);
    ck_assert(parse("--matmul", "auto", &o) == PL_OK && o.matmul == PL_MATMUL_AUTO);
}
END_TEST

START_TEST(each_dtype_can_be_chosen)
{
    pl_options o;

    ck_assert(parse("--steps", "1", &o) == PL_OK && o.dtype == PL_F32);
    ck_assert(parse("--dtype", "bf16", &o) == PL_OK && o.dtype == PL_BF16);
    ck_assert(parse("--dtype", "f32", &o) == PL_OK && o.dtype == PL_F32);
}
END_TEST

START_TEST(an_empty_word_is_refused_by_flag)
{
    static const char *const flags[] = {"--strategy", "--model", "--init",    "--save", "--data",
                                        "--log",      "--trace", "--machine", "--lr",   "--steps"};
    pl_options o;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        ck_refused(parse(flags[i], "", &o), flags[i], "is empty", NULL);
}
END_TEST

START_TEST(the_defaults_are_those_of_help)
{
    char program[] = "train", *words[] = {program, NULL};
    pl_options o;

    ck_accepted(pl_options_parse(1, words, &o));
    ck_assert(o.spec.n == 1 && o.spec.strategy[0] == &pl_dp && o.spec.zero == 0);
    ck_assert(o.batch == 8 && o.steps == 50 && o.seed == 1 && o.lr == 1e-3 && o.clip == 1);
    ck_assert(o.adamw.beta1 == 0.9 && o.adamw.beta2 == 0.95 && o.adamw.weight_decay == 0.1);
    ck_assert(o.order == PL_ORDER_RANDOM && o.pipeline == PL_1F1B && !o.lr_constant);
}
END_TEST

START_TEST(the_rate_rises_over_the_warm_up_and_falls_to_a_tenth)
{
    pl_options o = {.steps = 100, .lr = 2, .warmup = 10};

    ck_assert(pl_options_lr(&o, 0) == 0.2 && pl_options_lr(&o, 9) == 2);
    ck_assert(fabs(pl_options_lr(&o, 10) - 2) < 1e-15);   /* cos 0 = 1 */
    ck_assert(fabs(pl_options_lr(&o, 55) - 1.1) < 1e-14); /* half-way: (1 + 1/10) / 2 */
    for (int64_t step = 10; step < 99; step++)
        ck_assert(pl_options_lr(&o, step + 1) < pl_options_lr(&o, step));
    ck_assert(pl_options_lr(&o, 99) > 0.2 && pl_options_lr(&o, 99) < 0.201);
    o.lr_constant = true;
    ck_assert(pl_options_lr(&o, 99) == 2);
    o.warmup = -1; /* not given: a tenth of the steps */
    ck_assert(pl_options_lr(&o, 4) == 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("train");

    tcase_add_loop_test(tcase, numbers_that_make_no_sense_are_refused_by_flag, 0, N_NUMBERS);
    tcase_add_test(tcase, sizes_have_units);
    tcase_add_loop_test(tcase, words_that_are_no_choice_are_refused_with_the_choices, 0, N_WORDS);
    tcase_add_test(tcase, each_matrix_product_can_be_chosen);
    tcase_add_test(tcase, each_dtype_can_be_chosen);
    tcase_add_test(tcase, an_empty_word_is_refused_by_flag);
    tcase_add_test(tcase, the_defaults_are_those_of_help);
    tcase_add_test(tcase, the_rate_rises_over_the_warm_up_and_falls_to_a_tenth);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
