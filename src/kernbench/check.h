/* check -- whether what is timed is right: every output against a reference in f64. */
#ifndef PURLIN_KERNBENCH_CHECK_H
#define PURLIN_KERNBENCH_CHECK_H

#include "src/kernbench/case.h"

/** Fill a case, run it once, and count what is wrong. Matmul: rows by pl_check_product(), on whole
 * numbers. The rest: elements by reference.h. The first that is wrong is told on stderr. Local. */
int64_t pl_check_case(pl_case *c);

/** Wrong rows of c[M, N] (one's own or a peer's): operands are small whole numbers, so products are
 * whole numbers that f32 holds, and what is found must be exactly so. Rows are compared as c . r
 * with a . (b . r), in f64 and exact, for a random r of whole numbers below 2^16: a row with wrong
 * elements passes with a probability of at most 2^-16. */
int64_t pl_check_product(const pl_case *c, const pl_array *result);

#endif
