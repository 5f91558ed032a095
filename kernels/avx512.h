/* avx512 -- vectors of 16 floats written by hand, where compilers spend more instructions: bf16
 * made f32 without shuffles, exponentials with few steps, ends of arrays under masks.
 *
 * Kernels take 64 elements at a time as four vectors: of f32 in order, of bf16 those at even and
 * those at odd places of either half (a shift, a mask: half the instructions of widening in order).
 * Each step is done to all four before the next, so that chains of operations overlap in less code
 * than a CPU looks ahead. Arithmetic is elementwise, so that which vector holds an element makes no
 * difference; the end of an array runs through the same arithmetic, so that neither does its place.
 * x86-64 only. */
#ifndef PURLIN_KERNELS_AVX512_H
#define PURLIN_KERNELS_AVX512_H

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#define PL_AVX512_INLINE PL_AVX512 PL_INLINE

enum { PL_BLOCK = 64, PL_VECTORS = 4 };

/* How elements lie in memory, and how bf16 is made of f32. */
typedef enum {
    PL_WIDE,          /* f32 */
    PL_NARROW,        /* bf16, rounded as pl_put does */
    PL_NARROW_BY_CPU, /* by AVX512-BF16's instruction: of the same bits, but subnormals become 0 */
    PL_NARROW_EXACT,  /* by that instruction where no subnormal is near, else as PL_NARROW */
} pl_form;

PL_INLINE pl_dtype pl_form_dtype(const pl_form form)
{
    return form == PL_WIDE ? PL_F32 : PL_BF16;
}

/* Loops over the vectors of a block are unrolled: they are registers. */
#define PL_EACH(k) _Pragma("GCC unroll 4") for (int k = 0; k < PL_VECTORS; k++)

typedef struct {
    __m512 v[PL_VECTORS];
} pl_block;

/** Which elements of a vector that begins at `begin` are among n. */
PL_AVX512_INLINE __mmask16 pl_mask_f32(int64_t n, int begin)
{
    const int64_t left = n - begin;

    return (__mmask16)(left >= 16 ? 0xffff : left <= 0 ? 0 : (1u << left) - 1);
}

PL_AVX512_INLINE __mmask32 pl_mask_bf16(int64_t n, int begin)
{
    const int64_t left = n - begin;

    return left >= 32 ? 0xffffffffu : left <= 0 ? 0 : (1u << left) - 1;
}

/** Which elements of vector k of a block are among the first n. */
PL_AVX512_INLINE __mmask16 pl_block_mask(const pl_form form, int64_t n, int k)
{
    const int64_t pairs = n - 32 * (k / 2); /* of the half */

    if (form == PL_WIDE)
        return pl_mask_f32(n, 16 * k);
    return pl_mask_f32((pairs + 1 - k % 2) >> 1, 0); /* the even ones come first */
}

PL_AVX512_INLINE void pl_widen_pairs(__m512i x, __m512 *even, __m512 *odd)
{
    const __m512i upper = _mm512_set1_epi32((int32_t)0xffff0000u);

    __asm__("" : "+v"(x)); /* lest it is loaded once for each */
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(x, upper));
}

/** x[i .. i+64). */
PL_AVX512_INLINE pl_block pl_block_load(const pl_form form, const void *x, int64_t i)
{
    const pl_bf16 *narrow = (const pl_bf16 *)x + i;
    pl_block b;

    if (form != PL_WIDE) {
        pl_widen_pairs(_mm512_loadu_si512(narrow), &b.v[0], &b.v[1]);
        pl_widen_pairs(_mm512_loadu_si512(narrow + 32), &b.v[2], &b.v[3]);
        return b;
    }
    PL_EACH (k)
        b.v[k] = _mm512_loadu_ps((const float *)x + i + 16 * k);
    return b;
}

/** The first n of x[i .. i+64), zeros in place of the rest. */
PL_AVX512_INLINE pl_block pl_block_load_part(const pl_form form, const void *x, int64_t i,
                                             int64_t n)
{
    const pl_bf16 *narrow = (const pl_bf16 *)x + i;
    pl_block b;

    if (form != PL_WIDE) {
        pl_widen_pairs(_mm512_maskz_loadu_epi16(pl_mask_bf16(n, 0), narrow), &b.v[0], &b.v[1]);
        pl_widen_pairs(_mm512_maskz_loadu_epi16(pl_mask_bf16(n, 32), narrow + 32), &b.v[2],
                       &b.v[3]);
        return b;
    }
    PL_EACH (k)
        b.v[k] = _mm512_maskz_loadu_ps(pl_mask_f32(n, 16 * k), (const float *)x + i + 16 * k);
    return b;
}

/** Elements at even and at odd places, back in order. */
PL_AVX512_INLINE void pl_interleave(__m512 even, __m512 odd, __m512 *low, __m512 *high)
{
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));

    *low = _mm512_permutex2var_ps(even, first, odd);
    *high = _mm512_permutex2var_ps(even, second, odd);
}

/** The sum of all: element i gains i + 32, then i + 16, i + 8, ... i + 1. */
PL_AVX512_INLINE float pl_block_sum(const pl_form form, const __m512 *v)
{
    __m512 first = _mm512_add_ps(v[0], v[2]), second = _mm512_add_ps(v[1], v[3]);

    if (form != PL_WIDE)
        pl_interleave(first, second, &first, &second);
    return _mm512_reduce_add_ps(_mm512_add_ps(first, second));
}

/** Its upper 16 bits are x rounded to bf16, as pl_put does. */
PL_AVX512_INLINE __m512i pl_round_to_bf16(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);

    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
}

PL_AVX512_INLINE __m512i pl_narrow_by_hand(__m512 even, __m512 odd)
{
    const __m512i low = _mm512_srli_epi32(pl_round_to_bf16(even), 16);

    /* by the bits of a mask: low's where they are ones, else those of odd */
    return _mm512_ternarylogic_epi32(low, pl_round_to_bf16(odd), _mm512_set1_epi32(0xffff), 0xe4);
}

PL_AVX512_INLINE __m512i pl_narrow_by_cpu(__m512 even, __m512 odd)
{
    /* even ones, then odd ones; one of each in turn */
    const __m512i in_turn =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i halves;

    /* an intrinsic would want the whole function compiled for CPUs that have it */
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(odd), "v"(even));
    return _mm512_permutexvar_epi16(in_turn, halves);
}

/** What was or became subnormal has an exponent of 0 by now: one test finds it, and zeros. */
PL_AVX512_INLINE __m512i pl_narrow_pairs(const pl_form form, __m512 even, __m512 odd)
{
    if (form == PL_NARROW)
        return pl_narrow_by_hand(even, odd);
    const __m512i x = pl_narrow_by_cpu(even, odd);

    if (form == PL_NARROW_EXACT &&
        __builtin_expect(_mm512_testn_epi16_mask(x, _mm512_set1_epi16(0x7f80)) != 0, 0))
        return pl_narrow_by_hand(even, odd);
    return x;
}

/** y[i .. i+64) = b; `past` the caches, y[i] being at the start of a line. */
PL_AVX512_INLINE void pl_block_store(const pl_form form, const bool past, void *y, int64_t i,
                                     pl_block b)
{
    if (form != PL_WIDE)
        for (int half = 0; half < 2; half++) {
            const __m512i x = pl_narrow_pairs(form, b.v[2 * half], b.v[2 * half + 1]);
            pl_bf16 *narrow = (pl_bf16 *)y + i + 32 * half;

            if (past)
                _mm512_stream_si512((void *)narrow, x);
            else
                _mm512_storeu_si512(narrow, x);
        }
    else
        PL_EACH (k) {
            float *wide = (float *)y + i + 16 * k;

            if (past)
                _mm512_stream_ps(wide, b.v[k]);
            else
                _mm512_storeu_ps(wide, b.v[k]);
        }
}

/** The first n of y[i .. i+64) = b. */
PL_AVX512_INLINE void pl_block_store_part(const pl_form form, void *y, int64_t i, int64_t n,
                                          pl_block b)
{
    if (form != PL_WIDE)
        for (int half = 0; half < 2; half++)
            _mm512_mask_storeu_epi16((pl_bf16 *)y + i + 32 * half, pl_mask_bf16(n, 32 * half),
                                     pl_narrow_pairs(form, b.v[2 * half], b.v[2 * half + 1]));
    else
        PL_EACH (k)
            _mm512_mask_storeu_ps((float *)y + i + 16 * k, pl_mask_f32(n, 16 * k), b.v[k]);
}

/* ---- exponentials
 *
 * x log2 e = n + f, n in sixteenths, |f| <= 1/32. Adding K = 1.5 * 2^19 leaves n in the low bits of
 * a float: the lowest four say which of 16 powers 2^(k/16) is looked up, the others are added to
 * its exponent; e^f, of so small an f, is a short polynomial. A quarter of the operations that
 * multiply and add is spared against a polynomial for |f| <= 1/2, and those are what limits. */

/* The bits of 2^(k/16), less k where a shift by 19 puts the four low bits of n. */
static const uint32_t pl_sixteenths_wide[16] = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};

/* The same of 2^(k/16) * 0x1.00f1bcp-1. */
static const uint32_t pl_sixteenths_narrow[16] = {
    0x3f0078de, 0x3efe28fb, 0x3efc1990, 0x3efa4d78, 0x3ef8c7ad, 0x3ef78b4c, 0x3ef69b95, 0x3ef5fbee,
    0x3ef5afe2, 0x3ef5bb24, 0x3ef62191, 0x3ef6e734, 0x3ef81043, 0x3ef9a125, 0x3efb9e73, 0x3efe0cf9};

/** p = p r + c. */
PL_AVX512_INLINE void pl_horner(__m512 *p, const __m512 *r, float c)
{
    PL_EACH (k)
        p[k] = _mm512_fmadd_ps(p[k], r[k], _mm512_set1_ps(c));
}

/** n of x or, `negated`, of -x, in sixteenths, as the low bits of n + K. */
PL_AVX512_INLINE void pl_to_sixteenths(const bool negated, float K, const __m512 *x,
                                       __m512 *shifted)
{
    const __m512 log2_e = _mm512_set1_ps(negated ? -1.44269504f : 1.44269504f);

    PL_EACH (k)
        shifted[k] = _mm512_fmadd_ps(x[k], log2_e, _mm512_set1_ps(K));
}

/** 2^n, times what the table has. */
PL_AVX512_INLINE void pl_powers_of(const uint32_t *sixteenths, const __m512 *shifted, __m512 *power)
{
    const __m512i table = _mm512_loadu_si512(sixteenths);

    PL_EACH (k) {
        const __m512i n = _mm512_castps_si512(shifted[k]);
        const __m512i fraction = _mm512_permutexvar_epi32(n, table);

        power[k] = _mm512_castsi512_ps(_mm512_add_epi32(fraction, _mm512_slli_epi32(n, 19)));
    }
}

/** e^x in f32 within 2 ulp, 1 at 0. e^r = 1 + r (1 + r (c_2 + r / 6)), off by 2^-29; n log 2 is
 * taken from x in two steps, the first exact. */
PL_AVX512_INLINE void pl_exps_wide(const bool negated, const __m512 *x, __m512 *e)
{
    const float K = 0x1.8p19f;
    __m512 shifted[PL_VECTORS], r[PL_VECTORS], power[PL_VECTORS], p[PL_VECTORS];

    pl_to_sixteenths(negated, K, x, shifted);
    PL_EACH (k) {
        const __m512 n = _mm512_sub_ps(shifted[k], _mm512_set1_ps(K));

        r[k] = negated ? _mm512_fnmsub_ps(n, _mm512_set1_ps(0.693359375f), x[k])
                       : _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x[k]);
        r[k] = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r[k]);
        p[k] = _mm512_set1_ps(0x1.555556p-3f);
    }
    pl_powers_of(pl_sixteenths_wide, shifted, power);
    pl_horner(p, r, 0x1.00022p-1f);
    pl_horner(p, r, 1.0f);
    PL_EACH (k)
        e[k] = _mm512_fmadd_ps(p[k], _mm512_mul_ps(power[k], r[k]), power[k]);
}

/** e^x 2^-origin = power * rest, of bf16 operands, whose results are rounded to 8 bits: within
 * 2^-19.6 + |x| 2^-28.4 of itself from e^-86.5 on, less than 2^-124 down to e^-87; 1 at x = origin
 * = 0. `origin` is a multiple of 1/16, of at most 512. NaNs stay in `rest`. With v = r + c, c =
 * 23/16 log 2, as exact as r: e^r = a (v^2 + b), which is off by 2^-19.98; four roundings more, and
 * log 2, off by 2^-28.4 of itself, times n. */
PL_AVX512_INLINE void pl_exps_in_parts(const bool negated, float origin, const __m512 *x,
                                       __m512 *power, __m512 *rest)
{
    const float K = 0x1.8p19f - origin;
    const __m512 log_2 = _mm512_set1_ps(0x1.62e43p-1f), b = _mm512_set1_ps(0x1.ffeae2p-1f);
    __m512 shifted[PL_VECTORS];

    pl_to_sixteenths(negated, K, x, shifted);
    PL_EACH (k) {
        const __m512 n = _mm512_sub_ps(shifted[k], _mm512_set1_ps(K + 1.4375f));
        const __m512 v =
            negated ? _mm512_fnmsub_ps(n, log_2, x[k]) : _mm512_fnmadd_ps(n, log_2, x[k]);

        rest[k] = _mm512_fmadd_ps(v, v, b);
    }
    pl_powers_of(pl_sixteenths_narrow, shifted, power);
}

/** The product of these parts, origin 0. */
PL_AVX512_INLINE void pl_exps_narrow(const bool negated, const __m512 *x, __m512 *e)
{
    __m512 power[PL_VECTORS];

    pl_exps_in_parts(negated, 0.0f, x, power, e);
    PL_EACH (k)
        e[k] = _mm512_mul_ps(power[k], e[k]);
}

/** e^x, or e^-x, for -87 <= x <= 88, or the other way round, and NaNs. */
PL_AVX512_INLINE void pl_exps_of(const pl_form form, const bool negated, const __m512 *x, __m512 *e)
{
    if (form == PL_WIDE)
        pl_exps_wide(negated, x, e);
    else
        pl_exps_narrow(negated, x, e);
}

/** The least x whose e^x keeps its bound. */
PL_INLINE float pl_exps_least(const pl_form form)
{
    return form == PL_WIDE ? -87.0f : -86.5f;
}

/** Which of x are not below `least`; NaNs are not. */
PL_AVX512_INLINE __mmask16 pl_not_below(float least, __m512 x)
{
    return _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_NLT_UQ);
}

/** 1 / x of 2^-126 <= x <= 2^126 within 1 ulp: of an estimate within 2^-14, one step of Newton's
 * leaves 2^-28 and the last rounding. */
PL_AVX512_INLINE __m512 pl_reciprocal(__m512 x)
{
    const __m512 y = _mm512_rcp14_ps(x);

    return _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, _mm512_set1_ps(1.0f)), y);
}

/** How many of n elements precede the first line of y; n when none begins before y's end. */
PL_AVX512_INLINE int64_t pl_to_line(const pl_form form, const void *y, int64_t n)
{
    const int64_t head = (int64_t)(-(uintptr_t)y % 64 / pl_dtype_bytes(pl_form_dtype(form)));

    return head < n ? head : n;
}

#endif
#endif
