/* reference -- what each kernel but matmul should have computed, in f64, and how far rounding may
 * have led it from there: |error| <= n u / (1 - n u) * sum of |terms|, u = 2^-24 (2^-8 where a
 * number is kept in bf16), n the roundings on the way. */
#ifndef PURLIN_KERNBENCH_REFERENCE_H
#define PURLIN_KERNBENCH_REFERENCE_H

#include "src/kernbench/case.h"

/* A case that has run, and what it was given. */
typedef struct {
    const pl_case *c;
    const pl_array *in; /* [n_in], as they were before the run */
    int64_t wrong;
    /* The first that was wrong, for the message. */
    int output;
    int64_t element;
    double expected, tolerance;
} pl_verdict;

/** Element i of output k should be `expected` within `tolerance`, and the rounding to its own type.
 * NaN is wrong. Local, as is all here. */
void pl_expect(pl_verdict *v, int k, int64_t i, double expected, double tolerance);

/** n u / (1 - n u) with u = 2^-24. */
double pl_gamma(double n);

/** Compare every output of a case with its reference; attention's, whose reference takes T times as
 * long as one row, in some rows of each head. */
void pl_reference_compare(pl_verdict *v);

/* Of attention.c. */
void pl_reference_attention(pl_verdict *v);
void pl_reference_attention_backward(pl_verdict *v);

#endif
