/* tiny_plan -- a training of the preset tiny to predict. */
#ifndef PURLIN_TESTS_TINY_PLAN_H
#define PURLIN_TESTS_TINY_PLAN_H

#include "src/roofline/build.h"

/** `batch` sequences of 63 tokens a step, in microbatches of `micro_batch` (0: one) a data-parallel
 * rank. */
pl_plan tiny_plan(const char *spec, int64_t batch, int64_t micro_batch);

#endif
