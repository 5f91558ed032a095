/* combine -- one loop over elements, compiled for each instruction set, chosen at run time.
 *
 * Up to SOURCES sources are added up in registers and written to one or two destinations. More of
 * either are worked on a chunk at a time, which stays in the innermost cache: what was added up so
 * far is a partial result (of 4 bytes an element, so that bf16 is rounded once), and further
 * destinations are copies of the first. */
#include "config.h"

#include "collectives/combine.h"

#include <string.h>

#define PL_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define PL_AVX2 __attribute__((target("avx2")))
#define PL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,prefer-vector-width=512")))
#else /* never chosen there */
#define PL_AVX2
#define PL_AVX512
#endif

enum {
    CHUNK = 256, /* elements worked on together when sources or destinations are many */
    SOURCES = 4, /* sources added up in registers */
};

/* Elements as bits: 4 bytes (f32, int32) and 2 (bf16), whatever the caller calls them. */
typedef uint32_t __attribute__((may_alias)) word;
typedef uint16_t __attribute__((may_alias)) half;

/* What is common to all elements; constants wherever it is used. */
typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    int n_from, n_to;     /* 2 to SOURCES; 1 or 2 */
    bool continues, ends; /* from[0] is a partial result, to[] are not */
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

PL_INLINE uint32_t loaded(bool is_half, const void *x, int64_t i)
{
    return is_half ? (uint32_t)((const half *)x)[i] << 16 : ((const word *)x)[i];
}

/* As pl_bf16_of_f32(), without branches. */
PL_INLINE half rounded(uint32_t bits)
{
    const uint32_t quiet = bits | 0x400000, number = bits + 0x7fff + (bits >> 16 & 1);

    return (half)(selected((bits & 0x7fffffff) > 0x7f800000, quiet, number) >> 16);
}

PL_INLINE void store(bool is_half, void *x, int64_t i, uint32_t bits)
{
    if (is_half)
        ((half *)x)[i] = rounded(bits);
    else
        ((word *)x)[i] = bits;
}

/* A `to` that is also a `from` is read at the same index before: iterations are independent. */
PL_INLINE void loop(form f, void *const *to, const void *const *from, int64_t n)
{
    const bool is_half = f.dtype == PL_BF16;
    void *const to_0 = to[0], *const to_1 = to[f.n_to - 1];
    const void *const from_0 = from[0], *const from_1 = from[1],
                      *const from_2 = from[f.n_from > 2 ? 2 : 0],
                      *const from_3 = from[f.n_from > 3 ? 3 : 0];

#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = loaded(is_half && !f.continues, from_0, i);

        x = combined(f, x, loaded(is_half, from_1, i));
        if (f.n_from > 2)
            x = combined(f, x, loaded(is_half, from_2, i));
        if (f.n_from > 3)
            x = combined(f, x, loaded(is_half, from_3, i));
        store(is_half && f.ends, to_0, i, x);
        if (f.n_to > 1)
            store(is_half && f.ends, to_1, i, x);
    }
}

PL_INLINE void few_sources(form f, void *const *to, const void *const *from, int n_from, int64_t n)
{
    if (n_from == 2) {
        f.n_from = 2;
        loop(f, to, from, n);
    } else if (n_from == 3) {
        f.n_from = 3;
        loop(f, to, from, n);
    } else {
        f.n_from = 4;
        loop(f, to, from, n);
    }
}

/* Up to SOURCES sources, one or two destinations. */
PL_INLINE void few(form f, void *const *to, int n_to, const void *const *from, int n_from,
                   int64_t n)
{
    f.ends = true;
    if (n_to == 1) {
        f.n_to = 1;
        few_sources(f, to, from, n_from, n);
    } else {
        f.n_to = 2;
        few_sources(f, to, from, n_from, n);
    }
}

/* Any number of sources of a chunk, at most two destinations. */
PL_INLINE void many(form f, void *const *to, int n_to, const void *const *from, int n_from,
                    int64_t begin, int64_t n)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(f.dtype);
    uint32_t partial[CHUNK] __attribute__((aligned(64)));
    void *const to_partial[] = {partial};
    const void *at[SOURCES];
    int n_at = 0;
    bool continues = false;
    form open = f;

    open.n_to = 1;
    open.n_from = SOURCES;
    for (int i = 0; i < n_from; i++) {
        at[n_at++] = (const char *)from[i] + begin * bytes;
        if (n_at < SOURCES || i == n_from - 1)
            continue;
        if (continues) {
            open.continues = true;
            loop(open, to_partial, at, n);
        } else {
            open.continues = false;
            loop(open, to_partial, at, n);
        }
        continues = true;
        at[0] = partial;
        n_at = 1;
    }
    if (continues) {
        f.continues = true;
        few(f, to, n_to, at, n_at, n);
    } else {
        few(f, to, n_to, at, n_at, n);
    }
}

/* What is to be done, apart from dtype and reduction. */
typedef struct {
    void *const *to;
    const void *const *from;
    int n_to, n_from;
    int64_t n;
    bool streams;
} job;

PL_INLINE void stream(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

PL_INLINE void in_chunks(form f, const job *j)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(f.dtype);
    uint32_t result[CHUNK] __attribute__((aligned(64)));

    for (int64_t begin = 0, n; begin < j->n; begin += n) {
        void *first[] = {j->streams ? (void *)result : (char *)j->to[0] + begin * bytes};

        n = j->n - begin < CHUNK ? j->n - begin : CHUNK;
        many(f, first, 1, j->from, j->n_from, begin, n);
        for (int i = j->streams ? 0 : 1; i < j->n_to; i++) {
            void *const to = (char *)j->to[i] + begin * bytes;

            if (j->streams)
                stream(to, result, (size_t)(n * bytes));
            else
                memcpy(to, first[0], (size_t)(n * bytes));
        }
    }
}

PL_INLINE void reduce(form f, const job *j)
{
    if (j->n_from <= SOURCES && j->n_to <= 2 && !j->streams)
        few(f, j->to, j->n_to, j->from, j->n_from, j->n);
    else
        in_chunks(f, j);
}

PL_INLINE void dispatch(pl_dtype dtype, pl_reduction reduction, const job *j)
{
    switch (reduction == PL_SUM ? (int)dtype : PL_N_DTYPES + (int)dtype) {
    case PL_F32:
        reduce((form){.dtype = PL_F32, .reduction = PL_SUM}, j);
        break;
    case PL_I32:
        reduce((form){.dtype = PL_I32, .reduction = PL_SUM}, j);
        break;
    case PL_BF16:
        reduce((form){.dtype = PL_BF16, .reduction = PL_SUM}, j);
        break;
    case PL_N_DTYPES + PL_F32:
        reduce((form){.dtype = PL_F32, .reduction = PL_MAX}, j);
        break;
    case PL_N_DTYPES + PL_I32:
        reduce((form){.dtype = PL_I32, .reduction = PL_MAX}, j);
        break;
    default:
        reduce((form){.dtype = PL_BF16, .reduction = PL_MAX}, j);
    }
}

static void run_generic(pl_dtype dtype, pl_reduction reduction, const job *j)
{
    dispatch(dtype, reduction, j);
}

PL_AVX2 static void run_avx2(pl_dtype dtype, pl_reduction reduction, const job *j)
{
    dispatch(dtype, reduction, j);
}

PL_AVX512 static void run_avx512(pl_dtype dtype, pl_reduction reduction, const job *j)
{
    dispatch(dtype, reduction, j);
}

static void copy(void *const *to, int n_to, const void *from, size_t bytes, bool streams)
{
    for (int i = 0; i < n_to; i++)
        if (to[i] != from)
            memcpy(to[i], from, bytes);
    (void)streams;
}

int pl_combine_n_variants(void)
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

void pl_combine_variant(int variant, pl_dtype dtype, pl_reduction reduction, void *const *to,
                        int n_to, const void *const *from, int n_from, int64_t n, bool streams)
{
    const job j = {to, from, n_to, n_from, n, streams};

    if (n_from == 1)
        copy(to, n_to, from[0], (size_t)n * pl_dtype_bytes(dtype), streams);
    else if (variant == 0)
        run_generic(dtype, reduction, &j);
    else if (variant == 1)
        run_avx2(dtype, reduction, &j);
    else
        run_avx512(dtype, reduction, &j);
}

void pl_combine(pl_dtype dtype, pl_reduction reduction, void *const *to, int n_to,
                const void *const *from, int n_from, int64_t n, bool streams)
{
    pl_combine_variant(pl_combine_n_variants() - 1, dtype, reduction, to, n_to, from, n_from, n,
                       streams);
}

void pl_combine_into(pl_dtype dtype, pl_reduction reduction, void *x, const void *y, int64_t n)
{
    void *const to[] = {x};
    const void *const from[] = {x, y};

    pl_combine(dtype, reduction, to, 1, from, 2, n, false);
}
