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

    return left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
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

/* e^x where `there`, not below -87, else 0: e is then anything. NaNs are there. */
typedef struct {
    __m512 e[PL_VECTORS];
    __mmask16 there[PL_VECTORS];
} pl_exps;

/** p = p r + c. */
PL_AVX512_INLINE void pl_horner(__m512 *p, const __m512 *r, float c)
{
    PL_EACH (k)
        p[k] = _mm512_fmadd_ps(p[k], r[k], _mm512_set1_ps(c));
}

/** x = n log 2 + r; 2^n, moved to the low bits. */
typedef struct {
    __m512 shifted[PL_VECTORS], n[PL_VECTORS], r[PL_VECTORS];
} pl_reduced;

/** x or, `negated`, -x, to be scaled by 2^(n + bias). */
PL_AVX512_INLINE void pl_reduce(const bool negated, const float bias, const __m512 *x,
                                pl_reduced *to)
{
    const __m512 to_integer = _mm512_set1_ps(0x1.8p23f + bias);
    const __m512 log2_e = _mm512_set1_ps(negated ? -1.44269504f : 1.44269504f);

    PL_EACH (k)
        to->shifted[k] = _mm512_fmadd_ps(x[k], log2_e, to_integer);
    PL_EACH (k)
        to->n[k] = _mm512_sub_ps(to->shifted[k], to_integer);
}

/** e^x in f32 within 2 ulp, by the steps of pl_exp_weight. */
PL_AVX512_INLINE void pl_exps_wide(const bool negated, const __m512 *x, __m512 *e)
{
    pl_reduced a;

    pl_reduce(negated, 127.0f, x, &a);
    PL_EACH (k)
        a.r[k] = negated ? _mm512_fnmsub_ps(a.n[k], _mm512_set1_ps(0.693359375f), x[k])
                         : _mm512_fnmadd_ps(a.n[k], _mm512_set1_ps(0.693359375f), x[k]);
    PL_EACH (k)
        a.r[k] = _mm512_fnmadd_ps(a.n[k], _mm512_set1_ps(-2.12194440e-4f), a.r[k]);
    PL_EACH (k)
        e[k] = _mm512_set1_ps(0x1.6d1116p-10f);
    pl_horner(e, a.r, 0x1.120b7cp-7f);
    pl_horner(e, a.r, 0x1.55551ap-5f);
    pl_horner(e, a.r, 0x1.5554dcp-3f);
    pl_horner(e, a.r, 0.5f);
    pl_horner(e, a.r, 1.0f);
    pl_horner(e, a.r, 1.0f);
    PL_EACH (k) {
        const __m512i scale = _mm512_slli_epi32(_mm512_castps_si512(a.shifted[k]), 23);

        e[k] = _mm512_mul_ps(e[k], _mm512_castsi512_ps(scale));
    }
}

/** e^x of bf16 operands, whose results are rounded to 8 bits: within 2^-15.9 + |x| 2^-26 of itself,
 * and 1 at 0. x log2 e = n + f, f exact but for the constant (off by 2^-26 of itself) and a
 * rounding; 2^f = 1 + f p(f), p of degree 3, whose largest relative error, 2^-15.95, is the least
 * there is; n is added to the exponent. A NaN stays one, as its last 9 bits are zeros. */
PL_AVX512_INLINE void pl_exps_narrow(const bool negated, const __m512 *x, __m512 *e)
{
    const __m512 log2_e = _mm512_set1_ps(1.44269504f);
    pl_reduced a;

    pl_reduce(negated, 0.0f, x, &a);
    PL_EACH (k)
        a.r[k] = negated ? _mm512_fnmsub_ps(x[k], log2_e, a.n[k])
                         : _mm512_fmsub_ps(x[k], log2_e, a.n[k]);
    PL_EACH (k)
        e[k] = _mm512_set1_ps(0x1.2f704cp-7f);
    pl_horner(e, a.r, 0x1.c8e99ep-5f);
    pl_horner(e, a.r, 0x1.ec194ep-3f);
    pl_horner(e, a.r, 0x1.62e348p-1f);
    pl_horner(e, a.r, 1.0f);
    PL_EACH (k) {
        const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(a.shifted[k]), 23);

        e[k] = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(e[k]), power));
    }
}

/** e^x, or e^-x, for -87 <= x <= 88, or the other way round, and NaNs. */
PL_AVX512_INLINE void pl_exps_of(const pl_form form, const bool negated, const __m512 *x, __m512 *e)
{
    if (form == PL_WIDE)
        pl_exps_wide(negated, x, e);
    else
        pl_exps_narrow(negated, x, e);
}

/** e^x for x <= 88. */
PL_AVX512_INLINE pl_exps pl_weights_of(const pl_form form, const __m512 *x)
{
    pl_exps w;

    pl_exps_of(form, false, x, w.e);
    PL_EACH (k)
        w.there[k] = _mm512_cmp_ps_mask(x[k], _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    return w;
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
