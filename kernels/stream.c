/* stream -- loads of whole vectors into several sums; copies by ordinary and streaming stores. */
#include "config.h"

#include "kernels/stream.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = 64, WORDS = LINE / 8 };

static uint64_t read_generic(const uint64_t *x, size_t n_lines)
{
    uint64_t sum[WORDS] = {0};

    for (size_t i = 0; i < n_lines; i++, x += WORDS)
        for (int w = 0; w < WORDS; w++)
            sum[w] += x[w];
    for (int w = 1; w < WORDS; w++)
        sum[0] += sum[w];
    return sum[0];
}

static void copy_generic(const uint64_t *restrict x, uint64_t *restrict y, size_t n_lines)
{
    memcpy(y, x, n_lines * LINE);
}

/* Compiled for each ISA by what it is inlined into. */
PL_INLINE void update_body(uint64_t *x, size_t n_lines)
{
    for (size_t i = 0; i < n_lines * WORDS; i++)
        x[i] += 1;
}

static void update_generic(uint64_t *x, size_t n_lines)
{
    update_body(x, n_lines);
}

PL_AVX2 static void update_avx2(uint64_t *x, size_t n_lines)
{
    update_body(x, n_lines);
}

PL_AVX512 static void update_avx512(uint64_t *x, size_t n_lines)
{
    update_body(x, n_lines);
}

#if defined(__x86_64__)
PL_AVX2 static uint64_t read_avx2(const uint64_t *x, size_t n_lines)
{
    const __m256i *v = (const __m256i *)x;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    size_t i = 0;

    for (; i + 2 <= n_lines; i += 2, v += 4) {
        a = _mm256_add_epi64(a, _mm256_load_si256(v));
        b = _mm256_add_epi64(b, _mm256_load_si256(v + 1));
        c = _mm256_add_epi64(c, _mm256_load_si256(v + 2));
        d = _mm256_add_epi64(d, _mm256_load_si256(v + 3));
    }
    a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    return (uint64_t)(_mm256_extract_epi64(a, 0) + _mm256_extract_epi64(a, 1) +
                      _mm256_extract_epi64(a, 2) + _mm256_extract_epi64(a, 3)) +
           read_generic((const uint64_t *)v, n_lines - i);
}

PL_AVX512 static uint64_t read_avx512(const uint64_t *x, size_t n_lines)
{
    const __m512i *v = (const __m512i *)x;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t i = 0;

    for (; i + 4 <= n_lines; i += 4, v += 4) {
        a = _mm512_add_epi64(a, _mm512_load_si512(v));
        b = _mm512_add_epi64(b, _mm512_load_si512(v + 1));
        c = _mm512_add_epi64(c, _mm512_load_si512(v + 2));
        d = _mm512_add_epi64(d, _mm512_load_si512(v + 3));
    }
    a = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
    return (uint64_t)_mm512_reduce_add_epi64(a) + read_generic((const uint64_t *)v, n_lines - i);
}

PL_AVX2 static void copy_avx2(const uint64_t *x, uint64_t *y, size_t n_lines, int past)
{
    const __m256i *from = (const __m256i *)x;
    __m256i *to = (__m256i *)y;

    if (past)
        for (size_t i = 0; i < 2 * n_lines; i++)
            _mm256_stream_si256(to + i, _mm256_load_si256(from + i));
    else
        for (size_t i = 0; i < 2 * n_lines; i++)
            _mm256_store_si256(to + i, _mm256_load_si256(from + i));
    _mm_sfence();
}

PL_AVX512 static void copy_avx512(const uint64_t *x, uint64_t *y, size_t n_lines, int past)
{
    const __m512i *from = (const __m512i *)x;
    __m512i *to = (__m512i *)y;

    if (past)
        for (size_t i = 0; i < n_lines; i++)
            _mm512_stream_si512(to + i, _mm512_load_si512(from + i));
    else
        for (size_t i = 0; i < n_lines; i++)
            _mm512_store_si512(to + i, _mm512_load_si512(from + i));
    _mm_sfence();
}
#endif

uint64_t pl_stream_read(const void *x, size_t bytes)
{
#if defined(__x86_64__)
    static uint64_t (*const run[])(const uint64_t *, size_t) = {read_generic, read_avx2,
                                                                read_avx512};

    return run[pl_isa_vectors()](x, bytes / LINE);
#else
    return read_generic(x, bytes / LINE);
#endif
}

void pl_stream_copy(const void *x, void *y, size_t bytes, int past)
{
#if defined(__x86_64__)
    if (pl_isa_vectors() == PL_ISA_AVX512)
        copy_avx512(x, y, bytes / LINE, past);
    else if (pl_isa_vectors() == PL_ISA_AVX2)
        copy_avx2(x, y, bytes / LINE, past);
    else
        copy_generic(x, y, bytes / LINE);
#else
    (void)past;
    copy_generic(x, y, bytes / LINE);
#endif
}

void pl_stream_update(void *x, size_t bytes)
{
    static void (*const run[])(uint64_t *, size_t) = {update_generic, update_avx2, update_avx512};

    run[pl_isa_vectors()](x, bytes / LINE);
}
