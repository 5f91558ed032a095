/* ask_answer -- what is known, put into formulas, and printed. */
#include "config.h"

#include "src/base/panic.h"
#include "src/base/units.h"
#include "src/plan/ask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

const char *pl_ask_text(const char *name, double value, char text[48])
{
    static const struct {
        const char *end, *unit;
    } units[] = {{"flops_per_s", "FLOP/s"},
                 {"bytes_per_s", "B/s"},
                 {"bytes", "B"},
                 {"flops", "FLOP"},
                 {"_s", "s"},
                 {"clock_hz", "Hz"},
                 {"bytes_per_token", "B"},
                 {"flops_per_token", "FLOP"},
                 {"bytes_per_sequence", "B"}};

    if (!ends(name, "s_per_s") || ends(name, "bytes_per_s") || ends(name, "flops_per_s"))
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (ends(name, units[i].end) && isfinite(value)) {
                snprintf(text, 48, "%s", pl_si(value, units[i].unit).text);
                return text;
            }
    if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, 48, "%s", pl_thousands((int64_t)value).text);
    else
        snprintf(text, 48, "%.6g", value);
    return text;
}

/* The inputs of a formula from what is known; *missing lists those that nobody gives. */
static int fill_inputs(const pl_ask *ask, const pl_formula *f, pl_quantity *in, char *missing,
                       size_t size)
{
    const int n = pl_formula_inputs(f, in);
    size_t length = 0;

    missing[0] = '\0';
    for (int i = 0; i < n; i++) {
        in[i].value = pl_given(pl_ask_get(ask, in[i].name), in[i].value);
        if (isnan(in[i].value) && length < size)
            length += (size_t)snprintf(missing + length, size - length, "%s%s",
                                       length > 0 ? " " : "", in[i].name);
    }
    return n;
}

static json_t *numbers(const pl_quantity *quantities, int n)
{
    json_t *object = json_object();

    for (int i = 0; i < n; i++)
        if (!isnan(quantities[i].value))
            json_object_set_new(object, quantities[i].name, pl_json_real(quantities[i].value));
    return object;
}

static void print_answer(const pl_ask *ask, const pl_formula *f, const pl_quantity *in, int n_in,
                         const pl_quantity *out, int n_out, const char *missing)
{
    char text[48];

    printf("%s (section %d): %s\n  %s\n", f->name, f->section, f->what, f->text);
    for (int i = 0; i < n_in; i++)
        if (!isnan(in[i].value)) {
            const char *source = pl_ask_source(ask, in[i].name);

            printf("    %-32s %18s   %s\n", in[i].name, pl_ask_text(in[i].name, in[i].value, text),
                   source != NULL ? source : "default");
        }
    printf("  gives\n");
    for (int i = 0; i < n_out; i++)
        if (!isnan(out[i].value))
            printf("    %-32s %18s   %.10g\n", out[i].name,
                   pl_ask_text(out[i].name, out[i].value, text), out[i].value);
    if (missing[0] != '\0')
        printf("  more can be said with: %s\n", missing);
    printf("\n");
}

pl_status pl_ask_answer(const pl_ask *ask, const char *formula, bool alone, json_t *root)
{
    const pl_formula *f = pl_formula_find(formula);
    pl_quantity in[PL_FORMULA_MOST], out[PL_FORMULA_MOST];
    char missing[1024];
    bool any = false;

    PL_ASSERT(f != NULL);
    const int n_in = fill_inputs(ask, f, in, missing, sizeof missing);
    const int n_out = pl_formula_evaluate(f, in, out);
    for (int i = 0; i < n_out; i++)
        any = any || !isnan(out[i].value);
    if (!any)
        return pl_refuse(PL_BAD_INPUT, "%s: nothing can be said without more of: %s", f->name,
                         missing);
    if (root == NULL) {
        print_answer(ask, f, in, n_in, out, n_out, missing);
        return PL_OK;
    }
    json_t *inputs = numbers(in, n_in), *answers = numbers(out, n_out);
    json_t *object = alone ? root : json_object();
    json_object_set_new(object, "formula", json_string(f->name));
    json_object_set_new(object, "section", json_integer(f->section));
    json_object_set_new(object, "text", json_string(f->text));
    json_object_set_new(object, "inputs", inputs);
    json_object_set_new(object, "answers", answers);
    if (!alone)
        json_object_set_new(root, f->name, object);
    return PL_OK;
}

void pl_ask_print_json(json_t *root)
{
    if (root == NULL)
        return;
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    printf("\n");
    json_decref(root);
}
