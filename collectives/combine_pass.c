/* combine_pass -- one loop over elements, compiled for each instruction set, chosen at run time. */
#include "config.h"

#include "collectives/combine_pass.h"

#if defined(__x86_64__)
#define PL_AVX2 __attribute__((target("avx2")))
#define PL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,prefer-vector-width=512")))
#else /* never chosen there */
#define PL_AVX2
#define PL_AVX512
#endif

/* Elements as bits: an f32, an int32 or two bf16; one bf16. Whatever the caller calls them. */
typedef uint32_t __attribute__((may_alias, aligned(2))) word;
typedef uint16_t __attribute__((may_alias)) half;

/* What is constant where a loop is compiled. */
typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    int n_from, n_to;
    bool continues, ends;
} form;

PL_INLINE float f32_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

PL_INLINE uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* On bits: GCC 12 vectorises no choice between floats below AVX-512, as comparisons may trap. */
PL_INLINE uint32_t selected(int condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = -(uint32_t)condition;

    return (yes & mask) | (no & ~mask);
}

/* Equal operands differ at most in the sign of zero: AND of their bits keeps + where either has
 * it, whichever comes first. */
PL_INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    const float x = f32_of(a), y = f32_of(b);

    return selected(x == y, a & b, selected((x > y) | (x != x), a, b));
}

PL_INLINE uint32_t combined(form f, uint32_t a, uint32_t b)
{
    if (f.dtype == PL_I32) {
        if (f.reduction == PL_SUM)
            return a + b;
        return (int32_t)a > (int32_t)b ? a : b;
    }
    return f.reduction == PL_SUM ? bits_of(f32_of(a) + f32_of(b)) : larger(a, b);
}

/* The f32 whose upper half is nearest to x, ties to even, as by pl_bf16_of_f32(); what is in the
 * lower half is of no meaning. A NaN made of bf16s shows in its upper half, and stays. */
PL_INLINE uint32_t rounded(uint32_t x)
{
    return selected(f32_of(x) != f32_of(x), x, x + 0x7fff + (x >> 16 & 1));
}

/* Sources have 32-bit words: an element, or two of bf16, each the upper half of an f32. Partial
 * results of bf16 are f32: the low elements' and, after them, the high ones'. */
PL_INLINE uint32_t source_at(form f, int k, const void *const *from, int64_t i, bool is_high)
{
    const word *x = from[k];

    if (f.dtype != PL_BF16)
        return x[i];
    if (f.continues && k == 0)
        return x[i + (is_high ? PL_COMBINE_CHUNK / 2 : 0)];
    return is_high ? x[i] & 0xffff0000 : x[i] << 16;
}

PL_INLINE uint32_t combined_at(form f, const void *const *from, int64_t i, bool is_high)
{
    uint32_t x = source_at(f, 0, from, i, is_high);

    x = combined(f, x, source_at(f, 1, from, i, is_high));
    if (f.n_from > 2)
        x = combined(f, x, source_at(f, 2, from, i, is_high));
    if (f.n_from > 3)
        x = combined(f, x, source_at(f, 3, from, i, is_high));
    return x;
}

/* The word at i of the result. */
PL_INLINE uint32_t word_at(form f, const void *const *from, int64_t i)
{
    const uint32_t low = combined_at(f, from, i, false);

    if (f.dtype != PL_BF16)
        return low;
    return (rounded(combined_at(f, from, i, true)) & 0xffff0000) | rounded(low) >> 16;
}

/* An odd last element of bf16. */
PL_INLINE void end_loop(form f, const pl_combine_pass *p)
{
    const int64_t i = p->n / 2;
    word last[PL_COMBINE_SOURCES];
    const void *from[PL_COMBINE_SOURCES];
    uint32_t x;

    for (int k = 0; k < f.n_from; k++) {
        const bool is_partial = f.continues && k == 0;

        last[k] = is_partial ? ((const word *)p->from[k])[i] : ((const half *)p->from[k])[2 * i];
        from[k] = &last[k];
    }
    x = combined_at(f, from, 0, false);
    if (f.ends) {
        for (int k = 0; k < f.n_to; k++)
            ((half *)pl_combine_place(p, k))[2 * i] = (half)(rounded(x) >> 16);
    } else {
        ((word *)pl_combine_place(p, 0))[i] = x;
    }
}

/* A `to` that is also a `from` is read at the same index before: iterations are independent. */
PL_INLINE void loop(form f, const pl_combine_pass *p)
{
    const bool is_half = f.dtype == PL_BF16;
    const int64_t n = is_half ? p->n / 2 : p->n;
    word *const to_0 = (word *)pl_combine_place(p, 0), *const to_1 =
                                                           (word *)pl_combine_place(p, f.n_to - 1);
    const void *const from[] = {p->from[0], p->from[1], p->from[f.n_from > 2 ? 2 : 0],
                                p->from[f.n_from > 3 ? 3 : 0]};

#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        if (f.ends) {
            const uint32_t x = word_at(f, from, i);

            to_0[i] = x;
            if (f.n_to > 1)
                to_1[i] = x;
        } else {
            to_0[i] = combined_at(f, from, i, false);
            if (is_half)
                to_0[PL_COMBINE_CHUNK / 2 + i] = combined_at(f, from, i, true);
        }
    }
    if (is_half && p->n % 2 == 1)
        end_loop(f, p);
}

/* The inner loop becomes a few vectors: unrolled before that, it would stay scalar. */
PL_INLINE void loop_of_lines(form f, const pl_combine_pass *p)
{
    enum { WORDS = PL_COMBINE_LINE / sizeof(word) };
    const int64_t n = p->n * (int64_t)pl_dtype_bytes(f.dtype) / (int64_t)sizeof(word);
    const void *const from[] = {p->from[0], p->from[1], p->from[f.n_from > 2 ? 2 : 0],
                                p->from[f.n_from > 3 ? 3 : 0]};

    for (int64_t i = 0; i < n; i += WORDS) {
        word line[WORDS] __attribute__((aligned(PL_COMBINE_LINE)));

#pragma GCC unroll 1
        for (int k = 0; k < WORDS; k++)
            line[k] = word_at(f, from, i + k);
        for (int k = 0; k < p->n_to; k++)
            pl_combine_stream_line((word *)pl_combine_place(p, k) + i, line);
    }
}

PL_INLINE void loop_to(form f, const pl_combine_pass *p)
{
    if (p->streams) {
        loop_of_lines(f, p);
    } else if (p->n_to == 1) {
        f.n_to = 1;
        loop(f, p);
    } else {
        f.n_to = 2;
        loop(f, p);
    }
}

PL_INLINE void loop_from(form f, const pl_combine_pass *p)
{
    if (p->n_from == 2) {
        f.n_from = 2;
        loop_to(f, p);
    } else if (pl_combine_sources(f.dtype, f.reduction) == PL_COMBINE_SOURCES && p->n_from == 3) {
        f.n_from = 3;
        loop_to(f, p);
    } else if (pl_combine_sources(f.dtype, f.reduction) == PL_COMBINE_SOURCES) {
        f.n_from = PL_COMBINE_SOURCES;
        loop_to(f, p);
    }
}

/* Partial sums of bf16 are f32; all other partial results are like elements. */
PL_INLINE void run_sum_bf16(const pl_combine_pass *p)
{
    form f = {.dtype = PL_BF16, .reduction = PL_SUM, .n_from = PL_COMBINE_SOURCES, .n_to = 1};

    if (p->ends && p->continues) {
        f.ends = f.continues = true;
        loop_from(f, p);
    } else if (p->ends) {
        f.ends = true;
        loop_from(f, p);
    } else if (p->continues) {
        f.continues = true;
        loop(f, p);
    } else {
        loop(f, p);
    }
}

PL_INLINE void run_pass(const pl_combine_pass *p)
{
    if (p->reduction == PL_SUM) {
        if (p->dtype == PL_F32)
            loop_from((form){.dtype = PL_F32, .reduction = PL_SUM, .ends = true}, p);
        else if (p->dtype == PL_I32)
            loop_from((form){.dtype = PL_I32, .reduction = PL_SUM, .ends = true}, p);
        else
            run_sum_bf16(p);
    } else {
        if (p->dtype == PL_F32)
            loop_from((form){.dtype = PL_F32, .reduction = PL_MAX, .ends = true}, p);
        else if (p->dtype == PL_I32)
            loop_from((form){.dtype = PL_I32, .reduction = PL_MAX, .ends = true}, p);
        else
            loop_from((form){.dtype = PL_BF16, .reduction = PL_MAX, .ends = true}, p);
    }
}

static void run_generic(const pl_combine_pass *p)
{
    run_pass(p);
}

PL_AVX2 static void run_avx2(const pl_combine_pass *p)
{
    run_pass(p);
}

PL_AVX512 static void run_avx512(const pl_combine_pass *p)
{
    run_pass(p);
}

int pl_combine_n_runners(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return 3;
    if (__builtin_cpu_supports("avx2"))
        return 2;
#endif
    return 1;
}

pl_combine_runner *pl_combine_runner_at(int variant)
{
    static pl_combine_runner *const runners[] = {run_generic, run_avx2, run_avx512};

    return runners[variant];
}
