/* kernel_check -- what the kernel suites share: inputs, derived bounds, comparison with f64, and of
 * the bf16 kernels with the f32 ones. */
#ifndef PURLIN_TESTS_KERNEL_CHECK_H
#define PURLIN_TESTS_KERNEL_CHECK_H

#include "kernels/isa.h"
#include "src/base/bf16.h"
#include "src/base/memory.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define UNIT 0x1p-24   /* unit roundoff of f32 */
#define LEAST 0x1p-149 /* a rounding near zero loses at most this */
#define EXP_UNITS 4.0  /* pl_exp: 2 ulp, an ulp being at most 2 UNIT */
#define SENTINEL 12345.0f

/** |relative error| of n roundings in a chain. */
static inline double gamma_n(double n)
{
    return n * UNIT / (1.0 - n * UNIT);
}

/** Use the ISA of a loop test; false where this CPU lacks it. */
int use_isa(int isa);

/* --- inputs --- */

/** The next number of a sequence in [0, 1). */
double uniform(uint64_t *state);

/** An array of a test's own lives until the test's process ends: it is kept reachable, so that a
 * leak checker reports only what the kernels leave behind. */
void *keep(void *array);

/** n floats in [low, high). */
float *floats(int64_t n, uint64_t seed, double low, double high);

/** n floats that no kernel computes, one more behind them. */
float *sentinels(int64_t n);

/** The finite inputs that every kernel is tried on. */
typedef enum {
    RANDOM,   /* in [-1, 1) */
    DENORMAL, /* denormals and zeros of either sign */
    ALL_ZERO,
    ALL_EQUAL,  /* 0.3 */
    ONE_HOT,    /* zeros, and one -3 in a row, in another column each row */
    HUGE_SIZES, /* of size `huge`, either sign */
    ALL_SIZES,  /* of sizes from 2^-60 to 2^60, either sign */
    N_INPUTS
} input;

/** n floats of one kind, in rows of `width`. */
float *inputs(input kind, int64_t n, int64_t width, uint64_t seed, double huge);

/** The kind of row r of a test that has one row, or more, of each. */
static inline input input_of_row(int64_t r)
{
    return (input)(r % N_INPUTS);
}

/** n floats in rows of `width`, row r of kind input_of_row(r). */
float *mixed_inputs(int64_t n, int64_t width, uint64_t seed, double huge);

/** What is not finite: infinities and a NaN. */
enum { N_NON_FINITE = 3 };
float non_finite(int i);

/** x[n] in f64. */
double *widened(int64_t n, const float *x);

/* --- against f64 --- */

/** The comparison of one array: what is wrong, how near the bound the rest came. */
typedef struct {
    int64_t n_wrong, n_seen;
    double worst; /* largest error / bound */
} verdict;

/** Count one element, whose error may be `bound` and a rounding near zero. */
void judge(verdict *v, double got, double want, double bound);

/** The same of a result in bf16: the rounding of something within `bound`, or 0 for a subnormal. */
void judge_bf16(verdict *v, pl_bf16 got, double want, double bound);

/** The derivative of loss(context) by *x, one of the numbers that it reads, by a central difference
 * in f64: off by h^2 / 6 times the third derivative, and by the loss's own rounding over h. */
double difference(double (*loss)(const void *context), const void *context, double *x, double h);

/* --- bf16: each kernel is the f32 one on widened inputs, every result rounded once; but for
 * AVX-512's exponential --- */

/** Whether the ISA in use has an exponential of its own for bf16. */
static inline int has_narrow_exp(void)
{
    return pl_isa_get() >= PL_ISA_AVX512;
}

/** An array in bf16 and the same values in f32. */
typedef struct {
    pl_bf16 *narrow;
    float *wide;
} both;

/** wide[n], rounded in place, and as bf16 with a sentinel behind. */
both both_of(int64_t n, float *wide);

/** n values in [low, high), `n_ends` ends of bf16 first: zeros, subnormals, the largest,
 * infinities, a NaN. */
both values(int64_t n, uint64_t seed, double low, double high, int n_ends);

/** Fail unless narrow[n] is wide[n] rounded, bit for bit (any NaN for a NaN), with its sentinel. */
void check_rounded(const char *what, int64_t n, both x);

/** Fail unless f32 results are equal in both, with their sentinels: statistics and gradients of
 * weights. */
void check_equal(const char *what, int64_t n, const float *of_bf16, const float *of_f32);

#endif
