/* book_test -- the book's questions, answered by the formulas and machines that plans are made of.
 *
 * tests/book_cases.json holds the questions with their numbers, which formulas they ask, and where
 * in the answers each expected number is found. A case that another file holds is asked like the
 * case of ours of the same id, or else of the same kind that needs no other numbers and gives what
 * is expected. */
#include "config.h"

#include "src/base/json.h"
#include "src/machine/hardware.h"
#include "src/roofline/formula.h"
#include "src/roofline/build.h"
#include "src/roofline/quantities.h"
#include "src/program/kinds.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ASKS = 6, WORD = 128 };

/* One question: its numbers, and the answers so far. */
typedef struct {
    const char *id;
    const json_t *in;
    int n_asks, n_out[MOST_ASKS];
    pl_quantity out[MOST_ASKS][PL_QUANTITIES_MOST];
} question;

/* --- expressions: names and numbers with * / + -, from left to right, * and / first --- */

static double value_of(const question *q, const char *name, bool answers_first)
{
    const json_t *given = json_object_get(q->in, name);
    char *end;
    const double number = strtod(name, &end);

    if (end != name && *end == '\0')
        return number;
    if (name[0] >= 'a' && name[0] < 'a' + q->n_asks && name[1] == '.')
        return pl_quantity_get(q->out[name[0] - 'a'], q->n_out[name[0] - 'a'], name + 2);
    if (given != NULL && !answers_first)
        return json_number_value(given);
    for (int i = 0; i < q->n_asks; i++) {
        const double x = pl_quantity_get(q->out[i], q->n_out[i], name);

        if (!isnan(x))
            return x;
    }
    ck_assert_msg(given != NULL, "%s: nothing is called %s", q->id, name);
    return json_number_value(given);
}

/* "e9" after a digit is no name of its own: numbers may hold an exponent's sign, names may not. */
static size_t word_length(const char *text)
{
    const size_t n = strcspn(text, "*/+-");

    if (n > 1 && (text[n] == '+' || text[n] == '-') && text[n - 1] == 'e' && text[0] >= '0' &&
        text[0] <= '9')
        return n + 1 + strcspn(text + n + 1, "*/+-");
    return n;
}

static double evaluate(const question *q, const char *text, bool answers_first)
{
    double sum = 0, product = 1;
    char sign = '+', operation = '*';

    for (;;) {
        char word[WORD];
        const size_t n = word_length(text);

        ck_assert_msg(n > 0 && n < sizeof word, "%s: \"%s\"", q->id, text);
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        const double x = value_of(q, word, answers_first);
        product = operation == '*' ? product * x : product / x;
        text += n;
        operation = *text;
        if (operation == '*' || operation == '/') {
            text++;
            continue;
        }
        sum += sign == '+' ? product : -product;
        product = 1;
        if (*text == '\0')
            return sum;
        sign = *text++;
        operation = '*';
    }
}

/* --- asking --- */

static void ask_hardware(question *q, const char *name)
{
    pl_hardware hw;

    ck_assert_msg(pl_hardware_find(name, &hw) == PL_OK, "%s: %s", q->id, pl_status_message());
    ck_assert_msg(
        pl_hardware_quantities(&hw, PL_PEAK_BF16, q->out[q->n_asks], &q->n_out[q->n_asks]) == PL_OK,
        "%s: %s", q->id, pl_status_message());
}

/* "matmul B=B D=D w_bytes=1" */
static void ask(question *q, const char *text)
{
    char copy[1024], *rest = copy;
    pl_quantity in[PL_FORMULA_MOST];

    snprintf(copy, sizeof copy, "%s", text);
    const char *name = strtok_r(rest, " ", &rest);
    ck_assert_int_lt(q->n_asks, MOST_ASKS);
    if (strcmp(name, "hardware") == 0) {
        ask_hardware(q, rest);
        q->n_asks++;
        return;
    }
    const pl_formula *f = pl_formula_find(name);
    ck_assert_msg(f != NULL, "%s: there is no formula %s", q->id, name);
    const int n_in = pl_formula_inputs(f, in);

    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');

        ck_assert_msg(equals != NULL, "%s: %s", q->id, word);
        *equals = '\0';
        ck_assert_msg(pl_quantity_set(in, n_in, word, evaluate(q, equals + 1, false)),
                      "%s: %s takes no %s", q->id, name, word);
    }
    q->n_out[q->n_asks] = pl_formula_evaluate(f, in, q->out[q->n_asks]);
    q->n_asks++;
}

/* Ask as `rule` says with the numbers of `numbers`; how many answers are not what is expected. */
static int answer(const json_t *rule, const json_t *numbers, const json_t *expected,
                  double tolerance, bool speaks)
{
    question *q = calloc(1, sizeof *q);
    const char *key;
    size_t i;
    json_t *text, *want;
    int n_wrong = 0;

    q->id = json_string_value(json_object_get(numbers, "id"));
    q->in = json_object_get(numbers, json_object_get(numbers, "in") ? "in" : "inputs");
    json_array_foreach(json_object_get(rule, "ask"), i, text) ask(q, json_string_value(text));
    json_object_foreach((json_t *)expected, key, want)
    {
        const char *where = json_string_value(json_object_get(json_object_get(rule, "give"), key));
        const double x = json_number_value(want);
        const double got = where != NULL ? evaluate(q, where, true) : NAN;
        const bool good = fabs(got - x) <= tolerance * fabs(x);

        n_wrong += !good;
        if (!good && speaks)
            printf("%s: %s is %.17g, expected %.17g\n", q->id, key, got, x);
    }
    free(q);
    return n_wrong;
}

/* Exact where the inputs are; else what the book's rounding leaves. */
static double tolerance_of(const json_t *c)
{
    static const char *const keys[] = {"exact", "tol_exact_rel", "tolerance", "tolerance_rel"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_number(json_object_get(c, keys[i])))
            return json_number_value(json_object_get(c, keys[i]));
    ck_abort_msg("a case without a tolerance");
    return 0;
}

static json_t *load_ours(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    json_t *root;

    snprintf(path, sizeof path, "%s/tests/book_cases.json", srcdir != NULL ? srcdir : ".");
    ck_assert_msg(pl_json_load(path, &root) == PL_OK, "%s", pl_status_message());
    return root;
}

START_TEST(every_question_is_answered)
{
    json_t *root = load_ours(), *c;
    size_t i;
    int n_wrong = 0;

    ck_assert_uint_ge(json_array_size(json_object_get(root, "cases")), 200);
    json_array_foreach(json_object_get(root, "cases"), i, c) n_wrong +=
        answer(c, c, json_object_get(c, "expect"), tolerance_of(c), true);
    ck_assert_int_eq(n_wrong, 0);
    json_decref(root);
}
END_TEST

/* What is asked must matter: with all inputs changed, not all answers may be the same. */
START_TEST(answers_depend_on_the_numbers_given)
{
    json_t *root = load_ours(), *c;
    size_t i;

    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        json_t *in = json_object_get(c, "in"), *other = json_object(), *number;
        json_t *changed = json_object();
        double factor = 2; /* another for each input: quotients must change too */
        const char *key;

        json_object_foreach(in, key, number)
        {
            json_object_set_new(other, key, json_real(json_number_value(number) * factor + 1));
            factor += 1;
        }
        json_object_set(changed, "id", json_object_get(c, "id"));
        json_object_set_new(changed, "in", other);
        ck_assert_msg(json_object_size(in) == 0 || answer(c, changed, json_object_get(c, "expect"),
                                                          tolerance_of(c), false) > 0,
                      "%s: the same answers to other numbers",
                      json_string_value(json_object_get(c, "id")));
        json_decref(changed);
    }
    json_decref(root);
}
END_TEST

/* --- cases of another file --- */

/* Whether b has all names of a. */
static bool covers(const json_t *b, const json_t *a)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)a, key, value) if (json_object_get(b, key) == NULL) return false;
    return true;
}

/* Numbers of theirs that ours does not use, and answers of ours that they do not ask for. */
static size_t n_more(const json_t *ours, const json_t *theirs)
{
    return json_object_size(json_object_get(theirs, "inputs")) -
           json_object_size(json_object_get(ours, "in")) +
           json_object_size(json_object_get(ours, "expect")) -
           json_object_size(json_object_get(theirs, "expected"));
}

static const json_t *rule_for(const json_t *ours, const json_t *theirs)
{
    const json_t *alike = NULL, *c;
    size_t least = SIZE_MAX;
    size_t i;

    json_array_foreach(ours, i, c)
    {
        if (json_equal(json_object_get(c, "id"), json_object_get(theirs, "id")))
            return c;
        if (json_equal(json_object_get(c, "kind"), json_object_get(theirs, "kind")) &&
            json_object_size(json_object_get(theirs, "inputs")) > 0 &&
            covers(json_object_get(theirs, "inputs"), json_object_get(c, "in")) &&
            covers(json_object_get(c, "expect"), json_object_get(theirs, "expected")) &&
            n_more(c, theirs) < least) {
            least = n_more(c, theirs);
            alike = c;
        }
    }
    return alike;
}

START_TEST(facts_agree)
{
    json_t *ours = load_ours(), *text = NULL, *c;
    const json_t *not_ours = json_object_get(ours, "not_ours");
    char path[4096];
    size_t i;
    int n_wrong = 0, n_unknown = 0, n_asked = 0;

    if (!ck_testdata_path("../facts/book_cases.json", path, sizeof path)) {
        json_decref(ours);
        ck_skip("no file of the book's questions beside the test data");
    }
    text = json_load_file(path, JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert(json_is_array(text));
    json_array_foreach(text, i, c)
    {
        const char *id = json_string_value(json_object_get(c, "id"));
        const json_t *rule = rule_for(json_object_get(ours, "cases"), c);

        if (rule == NULL && json_object_get(not_ours, id) != NULL)
            continue;
        n_unknown += rule == NULL;
        n_asked += rule != NULL;
        if (rule == NULL)
            printf("%s: no case of ours is like it\n", id);
        else
            n_wrong += answer(rule, c, json_object_get(c, "expected"), tolerance_of(c), true);
    }
    ck_assert_int_gt(n_asked, 0);
    ck_assert_int_eq(n_unknown, 0);
    ck_assert_int_eq(n_wrong, 0);
    json_decref(text);
    json_decref(ours);
}
END_TEST

/* --- formulas against the code that runs --- */

static double ring(const char *formula, const char *output, double n, double directions)
{
    return pl_formula_value(formula, output, "V_bytes", 1e9, "N", n, "directions", directions,
                            "link_bytes_per_s", 45e9, NULL);
}

/* The book's closed forms are the price of our schedules: exactly where rings turn one way, and odd
 * rings both ways; our even ring halves its last block, and so spares V/N at the rate of a link. */
START_TEST(collectives_cost_what_their_schedules_do)
{
    static const char *const names[] = {"all_gather", "reduce_scatter", "all_reduce"};
    const double passes[] = {1, 1, 2};

    for (int f = 0; f < 3; f++)
        for (int n = 2; n <= 17; n++) {
            const double one = ring(names[f], "time_s", n, 1),
                         both = ring(names[f], "time_s", n, 2);
            const double halved = n % 2 == 0 ? passes[f] * 1e9 / n / 90e9 : 0;

            ck_assert_double_eq_tol(ring(names[f], "schedule_s", n, 1), one, 1e-12 * one);
            ck_assert_double_eq_tol(ring(names[f], "schedule_s", n, 2), both - halved,
                                    1e-12 * both);
        }
}
END_TEST

/* A product as the engine runs it: f32, 4 bytes each. */
START_TEST(a_product_costs_what_the_einsum_does)
{
    static const int64_t bd[] = {96, 40}, df[] = {40, 56}, bf[] = {96, 56};
    const pl_mesh mesh = {0};
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(&mesh, &batch);
    const int in[2] = {pl_value_add(p, PL_ACTIVATION, 0, "TD", bd, "x"),
                       pl_value_add(p, PL_WEIGHT, 0, "DF", df, "w")};
    const int y = pl_value_add(p, PL_ACTIVATION, 0, "TF", bf, "y");
    const int op = pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, in, 1, &y);
    const pl_op_cost cost = pl_op_cost_at(p, &p->ops[op], (pl_coords){{0}});
    static const char *const outputs[] = {"forward_flops", "total_bytes"};

    for (int i = 0; i < 2; i++)
        ck_assert(pl_formula_value("matmul", outputs[i], "B", 96.0, "D", 40.0, "F", 56.0, "x_bytes",
                                   4.0, "w_bytes", 4.0, "y_bytes", 4.0,
                                   NULL) == (i == 0 ? cost.flops : cost.bytes));
    pl_program_destroy(p);
}
END_TEST

/* Bytes of the whole arrays that the collectives of one layer are about, by phase: once for an
 * AllGather or a ReduceScatter, twice for an AllReduce, as the book counts. Only weights and their
 * gradients, or only activations and theirs. */
static double layer_traffic(const pl_program *p, int layer, pl_phase phase, bool of_weights)
{
    const pl_coords origin = {{0}};
    double bytes = 0;

    for (int o = 0; o < p->n_ops; o++) {
        const pl_op *op = &p->ops[o];
        const bool gathers = op->kind == PL_KIND_ALL_GATHER;
        const bool reduces = op->kind == PL_KIND_REDUCE_SCATTER;

        if (op->layer != layer || op->phase != phase ||
            !(gathers || reduces || op->kind == PL_KIND_ALL_REDUCE))
            continue;
        for (int i = 0; i < op->n_in; i++) {
            const int whole = gathers ? op->out[i] : op->in[i];
            const bool is_activation = pl_shape_dim(&p->values[whole].shape, 'T') >= 0;

            if (is_activation != of_weights)
                bytes +=
                    (gathers || reduces ? 4.0 : 8.0) * (double)pl_local_elements(p, whole, origin);
        }
    }
    return bytes;
}

static double book_bytes(const char *output, double B, double D, double F)
{
    return pl_formula_value("layer_bytes", output, "B", B, "D", D, "F", F, "X", 1.0, "Y", 1.0,
                            "bytes_per_element", 4.0, NULL);
}

/* The book's bytes per layer against the collectives that partition puts into the program: its two
 * matrices of D x F are here all weights of a layer; tp moves activations around two blocks. */
START_TEST(strategies_move_what_their_formulas_say)
{
    static const char *const specs[] = {"dp:4", "fsdp:4", "tp:2"};
    pl_plan plan = {.batch = 8, .seq = 64};
    pl_mesh mesh = {0};

    ck_assert_int_eq(pl_spec_parse(specs[_i], &plan.spec), PL_OK);
    ck_assert_int_eq(pl_model_config_preset("small", &plan.model), PL_OK);
    ck_assert_int_eq(pl_spec_mesh(&plan.spec, &plan.model, &mesh), PL_OK);
    pl_program *p = pl_build(&plan, &mesh, 0);
    const double D = (double)plan.model.d_model, tokens = 8 * 64;
    const double weights =
        (double)(pl_model_n_params(&plan.model) - 2 * plan.model.vocab * plan.model.d_model -
                 plan.model.d_model) /
        plan.model.n_layers;
    const double forward = layer_traffic(p, 3, PL_FORWARD, _i < 2);
    const double all =
        forward + layer_traffic(p, 3, PL_BACKWARD, _i < 2) + layer_traffic(p, 3, PL_UPDATE, _i < 2);

    switch (_i) {
    case 0:
        ck_assert(forward == 0);
        ck_assert(all == book_bytes("dp_bytes", 1, 1, weights / 2));
        break;
    case 1:
        ck_assert(forward == book_bytes("fsdp_forward_bytes", 1, 1, weights / 2));
        ck_assert(all == book_bytes("fsdp_bytes", 1, 1, weights / 2));
        break;
    default:
        ck_assert(forward == 2 * book_bytes("tp_forward_bytes", tokens, D, 1));
        ck_assert(all == 2 * book_bytes("tp_bytes", tokens, D, 1));
    }
    pl_program_destroy(p);
}
END_TEST

START_TEST(what_is_not_given_is_not_answered)
{
    ck_assert(isnan(pl_formula_value("matmul", "math_s", "B", 8.0, "D", 8.0, "F", 8.0, NULL)));
    ck_assert(pl_formula_value("matmul", "forward_flops", "B", 8.0, "D", 8.0, "F", 8.0, NULL) ==
              1024);
}
END_TEST

START_TEST(every_formula_names_what_it_gives)
{
    int n = 0;

    for (; pl_formula_at(n) != NULL; n++) {
        const pl_formula *f = pl_formula_at(n);
        pl_quantity in[PL_FORMULA_MOST], out[PL_FORMULA_MOST];
        const int n_in = pl_formula_inputs(f, in);

        ck_assert_ptr_eq(pl_formula_find(f->name), f);
        for (int i = 0; i < n_in; i++)
            in[i].value = pl_given(in[i].value, 8);
        const int n_out = pl_formula_evaluate(f, in, out);
        for (int i = 0; i < n_out; i++)
            ck_assert_msg(!isnan(out[i].value), "%s gives no %s", f->name, out[i].name);
    }
    ck_assert_int_gt(n, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("book");
    TCase *cases = tcase_create("cases");

    tcase_add_test(cases, every_question_is_answered);
    tcase_add_test(cases, answers_depend_on_the_numbers_given);
    tcase_add_test(cases, facts_agree);
    tcase_add_test(cases, collectives_cost_what_their_schedules_do);
    tcase_add_test(cases, a_product_costs_what_the_einsum_does);
    tcase_add_loop_test(cases, strategies_move_what_their_formulas_say, 0, 3);
    tcase_add_test(cases, what_is_not_given_is_not_answered);
    tcase_add_test(cases, every_formula_names_what_it_gives);
    suite_add_tcase(suite, cases);
    return ck_main(suite);
}
