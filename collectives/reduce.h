/* reduce -- element by element, the one place where received data meets local data. */
#ifndef PURLIN_COLLECTIVES_REDUCE_H
#define PURLIN_COLLECTIVES_REDUCE_H

#include "collectives/schedule.h"

/** x[n] <- x[n] + y[n], or the larger of the two. x and y don't overlap. The result's bits do not
 * depend on which operand is which (NaN payloads excepted): a NaN in either is a NaN in the result,
 * and max(-0, +0) is +0. Local. n FLOPs; reads 2n, writes n elements. */
void pl_reduce(pl_reduction reduction, float *restrict x, const float *restrict y, int64_t n);

#endif
