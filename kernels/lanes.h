/* lanes -- what the vectorised kernels share: target attributes, elements of either type, the fixed
 * order of their sums, exp.
 *
 * A kernel that gains from a wider ISA is written once as a PL_INLINE body in plain C that the
 * compiler vectorises, and compiled into one function per ISA, which carries the target attribute.
 * Bodies for f32 and bf16 are the same code: they read and write elements by pl_at and pl_put,
 * whose type is a constant where they are inlined. Arithmetic is f32, each result rounded once.
 * Where compilers do badly on AVX-512, its function is written by hand (kernels/avx512.h).
 * Sums run in LANES interleaved partial sums on every ISA, so that their order is the same. */
#ifndef PURLIN_KERNELS_LANES_H
#define PURLIN_KERNELS_LANES_H

#include "src/base/bf16.h"
#include "src/base/dtype.h"

#include <stdint.h>
#include <string.h>

#define PL_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define PL_AVX2 __attribute__((target("avx2,fma")))
#define PL_AVX512_ISA "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"
#define PL_AVX512 __attribute__((target(PL_AVX512_ISA)))
#else /* never chosen there: pl_isa_best() is generic */
#define PL_AVX2
#define PL_AVX512
#endif

enum { PL_LANES = 16 };

/* The largest relative error of exponentials of bf16 operands, on any ISA. With AVX-512 one is
 * within 2^-19.6 + |x| 2^-28.4 (kernels/avx512.h), x its argument: |x| <= 87 in SwiGLU.
 * Cross-entropy may divide that of a logit by that of m; what log 2 is off by then counts for
 * logit - m alone: 2^-18.4 together. */
#define PL_EXP_NARROW_ERROR 0x1p-18

/** x[i] of an array of f32 or bf16. */
PL_INLINE float pl_at(const pl_dtype dtype, const void *x, int64_t i)
{
    return dtype == PL_BF16 ? pl_bf16_to_f32(((const pl_bf16 *)x)[i]) : ((const float *)x)[i];
}

/** y[i] = value, rounded to the array's type. NaNs whose last 15 bits are ones would not stay NaNs
 * in bf16: what arithmetic makes of bf16 operands never is one (pl_bf16_of_f32 takes any). */
PL_INLINE void pl_put(const pl_dtype dtype, void *y, int64_t i, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (dtype == PL_BF16)
        ((pl_bf16 *)y)[i] = (pl_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    else
        ((float *)y)[i] = value;
}

/* Two neighbours of bf16 as the word they lie in: either half widens by one instruction, where a
 * vector of single ones is first spread by another. */

/** Elements 2 i and 2 i + 1 of an array of bf16, in the order of memory: which is low, the CPU
 * says, the same way for all arrays. */
PL_INLINE uint32_t pl_word(const void *x, int64_t i)
{
    uint32_t word;

    memcpy(&word, (const char *)x + 4 * i, sizeof word);
    return word;
}

PL_INLINE float pl_word_low(uint32_t word)
{
    float x;

    word <<= 16;
    memcpy(&x, &word, sizeof x);
    return x;
}

PL_INLINE float pl_word_high(uint32_t word)
{
    float x;

    word &= 0xffff0000u;
    memcpy(&x, &word, sizeof x);
    return x;
}

/** Word i of y: both halves rounded as pl_put does. */
PL_INLINE void pl_put_word(void *y, int64_t i, float low, float high)
{
    uint32_t l, h;

    memcpy(&l, &low, sizeof l);
    memcpy(&h, &high, sizeof h);
    l += 0x7fff + (l >> 16 & 1);
    h += 0x7fff + (h >> 16 & 1);
    l = l >> 16 | (h & 0xffff0000u);
    memcpy((char *)y + 4 * i, &l, sizeof l);
}

/** The address of x[i]; NULL stays NULL. */
PL_INLINE const void *pl_from(const pl_dtype dtype, const void *x, int64_t i)
{
    return x == NULL ? NULL : (const char *)x + i * (int64_t)pl_dtype_bytes(dtype);
}

/** The address of y[i], to be written. */
PL_INLINE void *pl_to(const pl_dtype dtype, void *y, int64_t i)
{
    return (char *)y + i * (int64_t)pl_dtype_bytes(dtype);
}

/** Asks for `bytes` bytes from `ahead` behind x on, which may lie beyond the array's end: rows keep
 * a core busy between their reads, and the hardware looks no further than the next page. */
PL_INLINE void pl_fetch(const void *x, size_t ahead, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)x + ahead;

    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const void *)(begin + i));
}

/** to[n] = x[n] in f32: loops that sum into lanes vectorise badly on bf16, and read such a tile. */
PL_INLINE void pl_widen(const pl_dtype dtype, int64_t n, const void *restrict x, float *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = pl_at(dtype, x, i);
}

/** lanes[width] += the width behind them. The barrier keeps them an array: GCC makes scalars of one
 * that it can see through, and adds these one by one. */
PL_INLINE void pl_lanes_fold(const int width, float *lanes)
{
    __asm__ volatile("" : : "r"(lanes) : "memory");
    for (int i = 0; i < width; i++)
        lanes[i] += lanes[i + width];
}

/** The pairwise sum of PL_LANES partial sums, which are overwritten. */
PL_INLINE float pl_lanes_sum(float *lanes)
{
    pl_lanes_fold(8, lanes);
    pl_lanes_fold(4, lanes);
    pl_lanes_fold(2, lanes);
    return lanes[0] + lanes[1];
}

/** condition ? yes : no on bits: GCC 12 vectorises no choice between floats below AVX-512, as
 * comparisons may trap. NaNs pass through. */
PL_INLINE float pl_select(int condition, float yes, float no)
{
    const uint32_t mask = -(uint32_t)condition;
    uint32_t yes_bits, no_bits;
    float chosen;

    memcpy(&yes_bits, &yes, sizeof yes);
    memcpy(&no_bits, &no, sizeof no);
    yes_bits = (yes_bits & mask) | (no_bits & ~mask);
    memcpy(&chosen, &yes_bits, sizeof chosen);
    return chosen;
}

/** -|x|. */
PL_INLINE float pl_minus_abs(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits |= 0x80000000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/** e^x within 2 ulp (1.10 measured, over every float), NaN for NaN, +infinity above
 * log(FLT_MAX), gradual underflow, 0 below -104. Vectorises: no branches, no tables.
 * Idea: x = n log 2 + r, |r| <= log(2) / 2; e^r = 1 + r + r^2 p(r) with p of degree 4 interpolating
 *       at Chebyshev nodes (truncation 0.18 u); 2^n is applied in two halves, so that neither half
 *       overflows. */
PL_INLINE float pl_exp(float x)
{
    const float to_integer = 0x1.8p23f; /* adding it leaves round(x) in the low bits */
    const float log2_high = 0.693359375f, log2_low = -2.12194440e-4f; /* n * log2_high is exact */

    x = pl_select(x < -104.0f, -104.0f, x);
    x = pl_select(x > 89.0f, 89.0f, x);
    const float shifted = x * 1.44269504f + to_integer;
    const float n = shifted - to_integer;
    const float r = (x - n * log2_high) - n * log2_low;
    float p = 0x1.6d1116p-10f;

    p = p * r + 0x1.120b7cp-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554dcp-3f;
    p = p * r + 0.5f;
    p = 1.0f + (r + r * r * p);

    int32_t exponent, low, high;
    float scale_low, scale_high;

    memcpy(&exponent, &shifted, sizeof exponent);
    exponent -= 0x4B400000; /* the bits of to_integer */
    low = exponent >> 1;
    high = exponent - low;
    low = (int32_t)((uint32_t)(low + 127) << 23);
    high = (int32_t)((uint32_t)(high + 127) << 23);
    memcpy(&scale_low, &low, sizeof low);
    memcpy(&scale_high, &high, sizeof high);
    return p * scale_low * scale_high;
}

/** e^x within 2 ulp for -87 <= x <= 88, 0 below -87, NaN for NaN; above 88 it is of no use. Half
 * the work of pl_exp: for weights exp(s - max), which need no more. Idea: as pl_exp; n + 127 is
 * left in the low bits, so that one shift makes 2^n. */
PL_INLINE float pl_exp_weight(float x)
{
    const float to_integer = 0x1.8p23f + 127.0f;
    const float log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
    const float shifted = x * 1.44269504f + to_integer;
    const float n = shifted - to_integer;
    const float r = (x - n * log2_high) - n * log2_low;
    float p = 0x1.6d1116p-10f, scale;
    uint32_t bits;

    p = p * r + 0x1.120b7cp-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554dcp-3f;
    p = p * r + 0.5f;
    p = 1.0f + (r + r * r * p);
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 23;
    memcpy(&scale, &bits, sizeof scale);
    return pl_select(x < -87.0f, 0.0f, p * scale);
}

#endif
