/* kernel_check -- what the kernel suites share: inputs, derived bounds, comparison with f64. */
#ifndef PURLIN_TESTS_KERNEL_CHECK_H
#define PURLIN_TESTS_KERNEL_CHECK_H

#include "kernels/isa.h"
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

static inline double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/** An array of a test's own lives until the test's process ends: it is kept reachable, so that a
 * leak checker reports only what the kernels leave behind. */
static inline void *keep(void *array)
{
    static void *kept[256];
    static int n_kept;

    if (n_kept < (int)(sizeof kept / sizeof kept[0]))
        kept[n_kept++] = array;
    return array;
}

/** n floats in [low, high). */
static inline float *floats(int64_t n, uint64_t seed, double low, double high)
{
    float *x = keep(pl_alloc((size_t)(n + 1) * sizeof *x));
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(low + (high - low) * uniform(&state));
    return x;
}

/** n floats that no kernel computes, one more behind them. */
static inline float *sentinels(int64_t n)
{
    float *x = keep(pl_alloc((size_t)(n + 1) * sizeof *x));

    for (int64_t i = 0; i <= n; i++)
        x[i] = SENTINEL;
    return x;
}

/** The comparison of one array: what is wrong, how near the bound the rest came. */
typedef struct {
    int64_t n_wrong, n_seen;
    double worst; /* largest error / bound */
} verdict;

static inline void judge(verdict *v, double got, double want, double bound)
{
    const double error = fabs(got - want);

    v->n_seen++;
    if (error <= bound + LEAST) { /* false for NaN */
        if (error > 0.0 && error / (bound + LEAST) > v->worst)
            v->worst = error / (bound + LEAST);
        return;
    }
    if (v->n_wrong++ == 0)
        fprintf(stderr, "element %lld: got %.9g, want %.9g, error %.3g, bound %.3g\n",
                (long long)v->n_seen - 1, got, want, error, bound);
}

/** Use the ISA of a loop test; false where this CPU lacks it. */
static inline int use_isa(int isa)
{
    if (isa > (int)pl_isa_best())
        return 0;
    pl_isa_set((pl_isa)isa);
    return 1;
}

#endif
