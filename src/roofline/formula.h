/* formula -- the book's formulas as functions with named quantities: what `plan` answers with, what
 * --explain prints, and what the bounds beside a prediction are made of.
 *
 * A formula takes numbers by name and gives numbers by name. An input that is not given is NaN, and
 * so is every output that needs it; the others are still given, so one formula answers questions
 * that tell it different things. Names end in their unit; single letters are the book's dims (B
 * counts tokens). SI units throughout.
 *
 * Parameters and FLOPs are counted by src/model/architecture.h, rings are priced by
 * collectives/cost.h: the code that counts and prices what runs. Adding a formula is adding a row
 * to the table of its file, src/roofline/formulas_*.c. All functions are local. */
#ifndef PURLIN_ROOFLINE_FORMULA_H
#define PURLIN_ROOFLINE_FORMULA_H

#include "src/base/status.h"

#include <stdbool.h>

enum { PL_FORMULA_MOST = 32, PL_QUANTITY_NAME = 40 };

typedef struct {
    const char *name; /* "matmul" */
    int section;      /* of the book */
    const char *what; /* one line */
    const char *text; /* as the book writes it, ASCII */
    const char
        *inputs; /* "B D F w_bytes=2 flops_per_s": names, with what holds where none is given */
    const char *outputs; /* "flops bytes math_s" */
    /* In and out in the order of the two lists; out[] is NaN throughout before the call. */
    void (*evaluate)(const double *in, double *out);
} pl_formula;

typedef struct {
    char name[PL_QUANTITY_NAME];
    double value; /* NaN: not given, or not known */
} pl_quantity;

/** Formula i of all, or NULL after the last. */
const pl_formula *pl_formula_at(int i);
/** By name, or NULL. */
const pl_formula *pl_formula_find(const char *name);

/** The names and defaults of its inputs, the names of its outputs; returns how many. */
int pl_formula_inputs(const pl_formula *f, pl_quantity in[PL_FORMULA_MOST]);
int pl_formula_outputs(const pl_formula *f, pl_quantity out[PL_FORMULA_MOST]);

/** Set the input of that name; false where the formula has none. */
bool pl_quantity_set(pl_quantity *quantities, int n, const char *name, double value);
/** Its value; NaN where there is none. */
double pl_quantity_get(const pl_quantity *quantities, int n, const char *name);

/** Fill out[] (names and values) from in[]; returns how many outputs there are. */
int pl_formula_evaluate(const pl_formula *f, const pl_quantity *in, pl_quantity *out);

/** One output of a formula from inputs by name: pairs (name, value) ended by NULL. For C code that
 * needs one number. */
double pl_formula_value(const char *formula, const char *output, ...) __attribute__((sentinel));

/* What rows are made of. */

/** The larger, or NaN where either is not known. */
double pl_known_max(double a, double b);
/** 1 or 0, or NaN where either is not known. */
double pl_known_greater(double a, double b);
/** The least power of two that is at least x, and 1: how many chips slices have. */
double pl_least_power_of_two(double x);
/** a, or b where a is not given. */
double pl_given(double a, double b);

/* The tables, one a file. */
extern const pl_formula pl_formulas_roofline[], pl_formulas_transformer[], pl_formulas_collective[],
    pl_formulas_strategy[], pl_formulas_inference[], pl_formulas_training[], pl_formulas_machine[];
extern const int pl_n_formulas_roofline, pl_n_formulas_transformer, pl_n_formulas_collective,
    pl_n_formulas_strategy, pl_n_formulas_inference, pl_n_formulas_training, pl_n_formulas_machine;

#endif
