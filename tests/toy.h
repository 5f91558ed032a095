/* toy -- a model small enough to count by hand, under any strategy. */
#ifndef PURLIN_TESTS_TOY_H
#define PURLIN_TESTS_TOY_H

#include "src/base/span.h"
#include "src/roofline/build.h"

enum {
    TOY_D = 16, /* all extents are divided by 2 and 4 without a rest */
    TOY_N = 4,
    TOY_K = 4,
    TOY_H = 6,
    TOY_F = 24,
    TOY_V = 32,
    TOY_T = 8,
};

/** A plan for `batch` sequences in microbatches of `micro_batch` (0: one) a data-parallel rank. */
pl_plan toy_plan(const char *spec, int n_layers, int64_t batch, int64_t micro_batch);

/** Its program; fills *mesh, which must outlive it. */
pl_program *toy_program(const pl_plan *plan, pl_mesh *mesh, int stage);

/** Record a step, number 12, as it would be: 7 spans, in seconds after zero_s, when they are waited
 * for: two kernels, a wait for the first of three transfers, of which two overlap. The program must
 * communicate three times. */
void toy_spans(pl_span_buffer *spans, const pl_program *p, double zero_s);

#endif
