/* combine -- one loop over elements, compiled for each instruction set, chosen at run time.
 *
 * Up to SOURCES sources are added up in registers and written to one or two destinations. More of
 * either are worked on a chunk at a time, which stays in the innermost cache: what was added up so
 * far is a partial result (of 4 bytes an element, so that bf16 is rounded once), and further
 * destinations are copies of the first. What streams leaves the registers a line at a time, to any
 * number of destinations that begin on lines together; to others by way of a chunk. */
#include "config.h"

#include "collectives/combine.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <string.h>

#define PL_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define PL_AVX2 __attribute__((target("avx2")))
#define PL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,prefer-vector-width=512")))
#else /* never chosen there */
#define PL_AVX2
#define PL_AVX512
#endif

/* Chosen by measurement on an EPYC (family 25, model 17) with busy neighbours: one core, CPU time,
 * the minimum of alternating runs, 4 KiB to 128 MiB in all.
 *
 * CHUNK of 256, 512, 1024: 64 -> 1 of 64 MiB f32 moves 12, 15, 14 GB/s; 8 -> 1 of 64 MiB moves 22
 * to 27, 18 to 25, 17 to 18 GB/s; bf16 in cache gains 10% from 256 to 512, little after.
 *
 * AHEAD: copies of 1 MiB past the caches, 28 GB/s with it, 19 to 25 without; sums gain nothing.
 *
 * Copies that don't stream are memcpy(): of aligned arrays, loops of vectors are a fifth faster at
 * 4 KiB, but less than 5% from 64 KiB to 4 MiB; `rep movsb` is level there, slower at 1 KiB. */
enum {
    CHUNK = 512,  /* elements worked on together when sources or destinations are many: <= 2 KiB */
    SOURCES = 4,  /* sources added up in registers */
    LINE = 64,    /* bytes of a cache line */
    AHEAD = 1024, /* bytes: how far ahead of a streamed copy its source is fetched */
};

/* Elements as bits: an f32, an int32 or two bf16; one bf16. Whatever the caller calls them. */
typedef uint32_t __attribute__((may_alias, aligned(2))) word;
typedef uint16_t __attribute__((may_alias)) half;

/* One pass over a range of elements. */
typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    const void *const *from; /* [n_from] at the range; 2 to sources_at_once() */
    void *const *to;         /* [n_to] before the range; 1 or 2 unless it streams */
    int n_from, n_to;
    int64_t begin, n;     /* elements */
    bool continues, ends; /* from[0] is a partial result, to[] are not */
    bool streams;         /* past the caches: n is whole lines, all `to` are aligned */
} pass;

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
        return x[i + (is_high ? CHUNK / 2 : 0)];
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

/* One line; `to` is aligned. */
PL_INLINE void stream_line(void *to, const void *from)
{
#if defined(__x86_64__)
    __m128i part[LINE / sizeof(__m128i)];

    memcpy(part, from, LINE);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        _mm_stream_si128((__m128i *)to + i, part[i]);
#else
    memcpy(to, from, LINE);
#endif
}

PL_INLINE char *place(const pass *p, int k)
{
    return (char *)p->to[k] + p->begin * (int64_t)pl_dtype_bytes(p->dtype);
}

/* An odd last element of bf16. */
PL_INLINE void end_loop(form f, const pass *p)
{
    const int64_t i = p->n / 2;
    word last[SOURCES];
    const void *from[SOURCES];
    uint32_t x;

    for (int k = 0; k < f.n_from; k++) {
        const bool is_partial = f.continues && k == 0;

        last[k] = is_partial ? ((const word *)p->from[k])[i] : ((const half *)p->from[k])[2 * i];
        from[k] = &last[k];
    }
    x = combined_at(f, from, 0, false);
    if (f.ends) {
        for (int k = 0; k < f.n_to; k++)
            ((half *)place(p, k))[2 * i] = (half)(rounded(x) >> 16);
    } else {
        ((word *)place(p, 0))[i] = x;
    }
}

/* A `to` that is also a `from` is read at the same index before: iterations are independent. */
PL_INLINE void loop(form f, const pass *p)
{
    const bool is_half = f.dtype == PL_BF16;
    const int64_t n = is_half ? p->n / 2 : p->n;
    word *const to_0 = (word *)place(p, 0), *const to_1 = (word *)place(p, f.n_to - 1);
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
                to_0[CHUNK / 2 + i] = combined_at(f, from, i, true);
        }
    }
    if (is_half && p->n % 2 == 1)
        end_loop(f, p);
}

/* The inner loop becomes a few vectors: unrolled before that, it would stay scalar. */
PL_INLINE void loop_of_lines(form f, const pass *p)
{
    enum { WORDS = LINE / sizeof(word) };
    const int64_t n = p->n * (int64_t)pl_dtype_bytes(f.dtype) / (int64_t)sizeof(word);
    const void *const from[] = {p->from[0], p->from[1], p->from[f.n_from > 2 ? 2 : 0],
                                p->from[f.n_from > 3 ? 3 : 0]};

    for (int64_t i = 0; i < n; i += WORDS) {
        word line[WORDS] __attribute__((aligned(LINE)));

#pragma GCC unroll 1
        for (int k = 0; k < WORDS; k++)
            line[k] = word_at(f, from, i + k);
        for (int k = 0; k < p->n_to; k++)
            stream_line((word *)place(p, k) + i, line);
    }
}

PL_INLINE void loop_to(form f, const pass *p)
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

/* Sources that are added up in registers: more where it matters. */
PL_INLINE int sources_at_once(pl_dtype dtype, pl_reduction reduction)
{
    return dtype != PL_I32 && reduction == PL_SUM ? SOURCES : 2;
}

PL_INLINE void loop_from(form f, const pass *p)
{
    if (p->n_from == 2) {
        f.n_from = 2;
        loop_to(f, p);
    } else if (sources_at_once(f.dtype, f.reduction) == SOURCES && p->n_from == 3) {
        f.n_from = 3;
        loop_to(f, p);
    } else if (sources_at_once(f.dtype, f.reduction) == SOURCES) {
        f.n_from = SOURCES;
        loop_to(f, p);
    }
}

/* Partial sums of bf16 are f32; all other partial results are like elements. */
PL_INLINE void run_sum_bf16(const pass *p)
{
    form f = {.dtype = PL_BF16, .reduction = PL_SUM, .n_from = SOURCES, .n_to = 1};

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

PL_INLINE void run_pass(const pass *p)
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

typedef void runner(const pass *p);

static void run_generic(const pass *p)
{
    run_pass(p);
}

PL_AVX2 static void run_avx2(const pass *p)
{
    run_pass(p);
}

PL_AVX512 static void run_avx512(const pass *p)
{
    run_pass(p);
}

/* to[bytes] <- from[bytes] past the caches by whole lines; what is left at both ends, as usual.
 * `from` is in the caches unless it is to be fetched AHEAD. */
static void stream(void *to, const void *from, int64_t bytes, bool fetch)
{
    const int64_t before = -(int64_t)(uintptr_t)to & (LINE - 1),
                  head = before < bytes ? before : bytes, body = (bytes - head) / LINE * LINE;
    char *t = (char *)to + head;
    const char *f = (const char *)from + head;

    memcpy(to, from, (size_t)head);
    for (int64_t i = 0; i < body; i += LINE) {
        if (fetch)
            __builtin_prefetch(f + i + AHEAD, 0, 0);
        stream_line(t + i, f + i);
    }
    memcpy(t + body, f + body, (size_t)(bytes - head - body));
}

/* Streamed stores come before what the caller does next, as other stores would. */
static void end_streams(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* A range, however many sources, to `to` after `begin` elements; at most a chunk, unless sources
 * are few. */
static void run_from_many(runner *run, const pass *whole, void *const *to, int n_to, int64_t begin)
{
    const int64_t before = whole->begin * (int64_t)pl_dtype_bytes(whole->dtype);
    const int at_once = sources_at_once(whole->dtype, whole->reduction);
    uint32_t partial[CHUNK] __attribute__((aligned(LINE)));
    void *const to_partial[] = {partial};
    const void *from[SOURCES];
    pass p = *whole;

    p.to = to_partial;
    p.n_to = 1;
    p.begin = 0;
    p.from = from;
    p.n_from = 0;
    p.continues = p.ends = p.streams = false;
    for (int i = 0; i < whole->n_from; i++) {
        if (p.n_from == at_once) {
            run(&p);
            p.continues = true;
            from[0] = partial;
            p.n_from = 1;
        }
        from[p.n_from++] = (const char *)whole->from[i] + before;
    }
    p.to = to;
    p.n_to = n_to;
    p.begin = begin;
    p.ends = true;
    p.streams = whole->streams;
    run(&p);
}

/* To at most two destinations by the loop, to more by copies while the first is in cache. */
static void run_to_many(runner *run, const pass *whole)
{
    const size_t bytes = (size_t)whole->n * pl_dtype_bytes(whole->dtype);

    run_from_many(run, whole, whole->to, whole->n_to < 2 ? 1 : 2, whole->begin);
    for (int i = 2; i < whole->n_to; i++)
        memcpy(place(whole, i), place(whole, 0), bytes);
}

/* Past the caches, to destinations that don't begin on lines together: each finds its own. */
static void run_to_unlike(runner *run, const pass *whole)
{
    const int64_t bytes = whole->n * (int64_t)pl_dtype_bytes(whole->dtype);
    uint32_t result[CHUNK] __attribute__((aligned(LINE)));
    void *const to[] = {result};
    pass p = *whole;

    p.streams = false;
    run_from_many(run, &p, to, 1, 0);
    for (int i = 0; i < whole->n_to; i++)
        stream(place(whole, i), result, bytes, false);
}

static bool begin_on_lines_together(const pass *whole)
{
    for (int i = 1; i < whole->n_to; i++)
        if (((uintptr_t)whole->to[i] - (uintptr_t)whole->to[0]) % LINE != 0)
            return false;
    return true;
}

/* Elements until `to` is on a line. */
static int64_t until_line(const pass *whole)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(whole->dtype),
                  n = (int64_t)(-(uintptr_t)place(whole, 0) % LINE) / bytes;

    return n < whole->n ? n : whole->n;
}

static void run_range(runner *run, const pass *whole)
{
    const bool is_few = whole->n_from <= sources_at_once(whole->dtype, whole->reduction) &&
                        (whole->n_to <= 2 || whole->streams);
    pass p = *whole;

    for (int64_t left = whole->n; left > 0; left -= p.n, p.begin += p.n) {
        p.n = is_few || left < CHUNK ? left : CHUNK;
        if (p.streams)
            run_from_many(run, &p, p.to, p.n_to, p.begin);
        else
            run_to_many(run, &p);
    }
}

/* Lines past the caches; what is left at both ends, as usual. */
static void run_to_alike(runner *run, const pass *whole)
{
    const int64_t per_line = LINE / (int64_t)pl_dtype_bytes(whole->dtype), head = until_line(whole),
                  body = (whole->n - head) / per_line * per_line;
    pass p = *whole;

    p.n = head;
    run_range(run, &p);
    p.begin += head;
    p.n = body;
    p.streams = true;
    run_range(run, &p);
    p.begin += body;
    p.n = whole->n - head - body;
    p.streams = false;
    run_range(run, &p);
}

static void run_streams(runner *run, const pass *whole)
{
    pass p = *whole;

    if (begin_on_lines_together(whole)) {
        run_to_alike(run, whole);
    } else {
        /* Chunks of the first destination end where its lines do. */
        for (int64_t left = whole->n; left > 0; left -= p.n, p.begin += p.n) {
            p.n = left;
            if (until_line(&p) > 0)
                p.n = until_line(&p);
            else if (left > CHUNK)
                p.n = CHUNK;
            run_to_unlike(run, &p);
        }
    }
    end_streams();
}

static void copy(void *const *to, int n_to, const void *from, int64_t bytes, bool streams)
{
    for (int i = 0; i < n_to; i++) {
        if (to[i] == from || bytes == 0)
            continue;
        if (streams)
            stream(to[i], from, bytes, true);
        else
            memcpy(to[i], from, (size_t)bytes);
    }
    if (streams)
        end_streams();
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
    static runner *const runners[] = {run_generic, run_avx2, run_avx512};
    const pass whole = {dtype, reduction, from, to, n_from, n_to, .n = n, .ends = true};

    if (n_from == 1)
        copy(to, n_to, from[0], n * (int64_t)pl_dtype_bytes(dtype), streams);
    else if (streams)
        run_streams(runners[variant], &whole);
    else if (n_from <= sources_at_once(dtype, reduction) && n_to <= 2)
        runners[variant](&whole);
    else
        run_range(runners[variant], &whole);
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
