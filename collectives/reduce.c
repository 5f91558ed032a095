#include "config.h"

#include "collectives/reduce.h"

#include <string.h>

/* One loop, compiled for several instruction sets; the loader picks. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PL_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PL_EACH_ISA
#endif

PL_EACH_ISA static void sum(float *restrict x, const float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* Equal operands differ at most in the sign of zero: AND of their bits keeps + where either has
 * it, whichever comes first. */
static inline float larger(float a, float b)
{
    uint32_t a_bits, b_bits, bits;
    float result;

    memcpy(&a_bits, &a, sizeof a);
    memcpy(&b_bits, &b, sizeof b);
    bits = a > b || a != a ? a_bits : b_bits;
    bits = a == b ? a_bits & b_bits : bits;
    memcpy(&result, &bits, sizeof result);
    return result;
}

PL_EACH_ISA static void max(float *restrict x, const float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = larger(x[i], y[i]);
}

void pl_reduce(pl_reduction reduction, float *restrict x, const float *restrict y, int64_t n)
{
    if (reduction == PL_SUM)
        sum(x, y, n);
    else
        max(x, y, n);
}
