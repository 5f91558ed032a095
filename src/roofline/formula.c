#include "config.h"

#include "src/roofline/formula.h"

#include "src/base/panic.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double pl_known_max(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

double pl_known_greater(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a > b;
}

double pl_least_power_of_two(double x)
{
    return isnan(x) ? NAN : fmax(exp2(ceil(log2(x))), 1);
}

double pl_given(double a, double b)
{
    return isnan(a) ? b : a;
}

const pl_formula *pl_formula_at(int i)
{
    const struct {
        const pl_formula *rows;
        int n;
    } tables[] = {
        {pl_formulas_roofline, pl_n_formulas_roofline},
        {pl_formulas_transformer, pl_n_formulas_transformer},
        {pl_formulas_collective, pl_n_formulas_collective},
        {pl_formulas_strategy, pl_n_formulas_strategy},
        {pl_formulas_training, pl_n_formulas_training},
        {pl_formulas_inference, pl_n_formulas_inference},
        {pl_formulas_machine, pl_n_formulas_machine},
    };

    for (size_t t = 0; i >= 0 && t < sizeof tables / sizeof *tables; t++) {
        if (i < tables[t].n)
            return &tables[t].rows[i];
        i -= tables[t].n;
    }
    return NULL;
}

const pl_formula *pl_formula_find(const char *name)
{
    for (int i = 0; pl_formula_at(i) != NULL; i++)
        if (strcmp(pl_formula_at(i)->name, name) == 0)
            return pl_formula_at(i);
    return NULL;
}

/* "B D F w_bytes=2": names with their defaults. */
static int read_list(const char *list, pl_quantity quantities[PL_FORMULA_MOST])
{
    int n = 0;

    for (const char *at = list; *at != '\0';) {
        const size_t word = strcspn(at, " "), name = strcspn(at, " =");

        PL_ASSERT(n < PL_FORMULA_MOST && name < PL_QUANTITY_NAME);
        snprintf(quantities[n].name, sizeof quantities[n].name, "%.*s", (int)name, at);
        quantities[n].value = name < word ? strtod(at + name + 1, NULL) : NAN;
        n++;
        at += word;
        at += strspn(at, " ");
    }
    return n;
}

int pl_formula_inputs(const pl_formula *f, pl_quantity in[PL_FORMULA_MOST])
{
    return read_list(f->inputs, in);
}

int pl_formula_outputs(const pl_formula *f, pl_quantity out[PL_FORMULA_MOST])
{
    return read_list(f->outputs, out);
}

bool pl_quantity_set(pl_quantity *quantities, int n, const char *name, double value)
{
    for (int i = 0; i < n; i++)
        if (strcmp(quantities[i].name, name) == 0) {
            quantities[i].value = value;
            return true;
        }
    return false;
}

double pl_quantity_get(const pl_quantity *quantities, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(quantities[i].name, name) == 0)
            return quantities[i].value;
    return NAN;
}

int pl_formula_evaluate(const pl_formula *f, const pl_quantity *in, pl_quantity *out)
{
    double x[PL_FORMULA_MOST], y[PL_FORMULA_MOST];
    pl_quantity names[PL_FORMULA_MOST];
    const int n_in = pl_formula_inputs(f, names), n_out = pl_formula_outputs(f, out);

    for (int i = 0; i < n_in; i++)
        x[i] = in[i].value;
    for (int i = 0; i < PL_FORMULA_MOST; i++)
        y[i] = NAN;
    f->evaluate(x, y);
    for (int i = 0; i < n_out; i++)
        out[i].value = y[i];
    return n_out;
}

double pl_formula_value(const char *formula, const char *output, ...)
{
    const pl_formula *f = pl_formula_find(formula);
    pl_quantity in[PL_FORMULA_MOST], out[PL_FORMULA_MOST];
    const char *name;
    va_list list;

    PL_ASSERT(f != NULL);
    const int n_in = pl_formula_inputs(f, in);
    va_start(list, output);
    while ((name = va_arg(list, const char *)) != NULL) {
        const double value = va_arg(list, double);

        PL_ASSERT(pl_quantity_set(in, n_in, name, value));
    }
    va_end(list);
    return pl_quantity_get(out, pl_formula_evaluate(f, in, out), output);
}
