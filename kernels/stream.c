/* stream -- whole lines by the widest vectors; a few of an array, then of the next. */
#include "config.h"

#include "kernels/stream.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LINE = 64,
    WORDS = LINE / 8,
    APART = 17 * LINE, /* not a multiple of a page: that would make loads wait for stores */
    AHEAD = 32         /* lines */
};

/* What is done with n lines of x; sum[WORDS] gains what is read. */
typedef void lines_loop(uint64_t *x, size_t n, uint64_t *sum);

/* Compiled for each ISA by what they are inlined into. */

PL_INLINE void read_body(const uint64_t *x, size_t n, uint64_t *sum)
{
    for (size_t i = 0; i < n; i++, x += WORDS)
        for (int w = 0; w < WORDS; w++)
            sum[w] += x[w];
}

PL_INLINE void write_body(uint64_t *x, size_t n)
{
    for (size_t i = 0; i < n * WORDS; i++)
        x[i] = 1;
}

PL_INLINE void update_body(uint64_t *x, size_t n)
{
    for (size_t i = 0; i < n * WORDS; i++)
        x[i] += 1;
}

static void read_generic(uint64_t *x, size_t n, uint64_t *sum)
{
    read_body(x, n, sum);
}

static void write_generic(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    write_body(x, n);
}

static void update_generic(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    update_body(x, n);
}

#if defined(__x86_64__)
PL_AVX2 static void read_avx2(uint64_t *x, size_t n, uint64_t *sum)
{
    const __m256i *v = (const __m256i *)x;
    __m256i a = _mm256_loadu_si256((const __m256i *)sum);
    __m256i b = _mm256_loadu_si256((const __m256i *)(sum + 4));
    __m256i c = _mm256_setzero_si256(), d = c;
    size_t i = 0;

    for (; i + 2 <= n; i += 2, v += 4) {
        a = _mm256_add_epi64(a, _mm256_load_si256(v));
        b = _mm256_add_epi64(b, _mm256_load_si256(v + 1));
        c = _mm256_add_epi64(c, _mm256_load_si256(v + 2));
        d = _mm256_add_epi64(d, _mm256_load_si256(v + 3));
    }
    _mm256_storeu_si256((__m256i *)sum, _mm256_add_epi64(a, c));
    _mm256_storeu_si256((__m256i *)(sum + 4), _mm256_add_epi64(b, d));
    read_body((const uint64_t *)v, n - i, sum);
}

PL_AVX2 static void write_avx2(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    write_body(x, n);
}

PL_AVX2 static void past_avx2(uint64_t *x, size_t n, uint64_t *sum)
{
    const __m256i one = _mm256_set1_epi64x(1);

    (void)sum;
    for (size_t i = 0; i < 2 * n; i++)
        _mm256_stream_si256((__m256i *)x + i, one);
}

PL_AVX2 static void update_avx2(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    update_body(x, n);
}

PL_AVX512 static void read_avx512(uint64_t *x, size_t n, uint64_t *sum)
{
    const __m512i *v = (const __m512i *)x;
    __m512i a = _mm512_loadu_si512(sum), b = _mm512_setzero_si512(), c = b, d = b;
    size_t i = 0;

    for (; i + 4 <= n; i += 4, v += 4) {
        a = _mm512_add_epi64(a, _mm512_load_si512(v));
        b = _mm512_add_epi64(b, _mm512_load_si512(v + 1));
        c = _mm512_add_epi64(c, _mm512_load_si512(v + 2));
        d = _mm512_add_epi64(d, _mm512_load_si512(v + 3));
    }
    for (; i < n; i++, v++)
        a = _mm512_add_epi64(a, _mm512_load_si512(v));
    _mm512_storeu_si512(sum, _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
}

PL_AVX512 static void write_avx512(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    write_body(x, n);
}

PL_AVX512 static void past_avx512(uint64_t *x, size_t n, uint64_t *sum)
{
    const __m512i one = _mm512_set1_epi64(1);

    (void)sum;
    for (size_t i = 0; i < n; i++)
        _mm512_stream_si512((__m512i *)x + i, one);
}

PL_AVX512 static void update_avx512(uint64_t *x, size_t n, uint64_t *sum)
{
    (void)sum;
    update_body(x, n);
}
#endif

static lines_loop *loop_of(pl_stream_use use, int past)
{
    enum { PAST = PL_STREAM_UPDATE + 1, N_LOOPS };
#if defined(__x86_64__)
    static lines_loop *const loops[PL_N_ISA][N_LOOPS] = {
        {read_generic, write_generic, update_generic, write_generic},
        {read_avx2, write_avx2, update_avx2, past_avx2},
        {read_avx512, write_avx512, update_avx512, past_avx512}};

    return loops[pl_isa_vectors()][use == PL_STREAM_WRITE && past ? (int)PAST : (int)use];
#else
    static lines_loop *const loops[N_LOOPS] = {read_generic, write_generic, update_generic,
                                               write_generic};

    return loops[use == PL_STREAM_WRITE && past ? (int)PAST : (int)use];
#endif
}

static size_t lines_of_a_round(const pl_mix *mix)
{
    size_t lines = 0;

    for (int i = 0; i < mix->n; i++)
        lines += (size_t)mix->stream[i].lines;
    return lines;
}

static size_t rounds_of(const pl_mix *mix, size_t bytes)
{
    const size_t n = bytes / LINE / lines_of_a_round(mix);

    return n > 0 ? n : 1;
}

size_t pl_mix_room(const pl_mix *mix, size_t bytes)
{
    return rounds_of(mix, bytes) * lines_of_a_round(mix) * LINE + (size_t)mix->n * APART;
}

double pl_mix_bytes(const pl_mix *mix, size_t bytes)
{
    size_t lines = lines_of_a_round(mix);

    for (int i = 0; i < mix->n; i++)
        lines += mix->stream[i].use == PL_STREAM_UPDATE ? (size_t)mix->stream[i].lines : 0;
    return (double)(rounds_of(mix, bytes) * lines * LINE);
}

static void fetch(const uint64_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(x + (AHEAD + i) * WORDS);
}

/** So many rounds that the first array's turn is as long as the way says; of one array alone, all.
 */
static size_t rounds_at_once(const pl_mix *mix, int way, size_t n_rounds)
{
    static const int lines_of[] = {64, 4, 16};
    const int lines = lines_of[way / PL_MIX_SHORT];

    if (mix->n == 1 && way < PL_MIX_SHORT)
        return n_rounds;
    return mix->stream[0].lines < lines ? (size_t)(lines / mix->stream[0].lines) : 1;
}

uint64_t pl_mix_run(const pl_mix *mix, int way, void *x, size_t bytes)
{
    const bool ahead = way >= PL_MIX_AHEAD;
    const size_t n_rounds = rounds_of(mix, bytes), most = rounds_at_once(mix, way, n_rounds);
    lines_loop *run[PL_MIX_STREAMS];
    uint64_t *at[PL_MIX_STREAMS], sum[WORDS] = {0};
    char *next = x;

    for (int i = 0; i < mix->n; i++) {
        run[i] = loop_of(mix->stream[i].use, way % 2 == PL_MIX_PAST);
        at[i] = (uint64_t *)(void *)next;
        next += n_rounds * (size_t)mix->stream[i].lines * LINE + APART;
    }
    for (size_t left = n_rounds, now; left > 0; left -= now) {
        now = left < most ? left : most;
        for (int i = 0; i < mix->n; i++) {
            const size_t lines = now * (size_t)mix->stream[i].lines;

            if (ahead && mix->stream[i].use != PL_STREAM_WRITE)
                fetch(at[i], lines);
            run[i](at[i], lines, sum);
            at[i] += lines * WORDS;
        }
    }
#if defined(__x86_64__)
    _mm_sfence();
#endif
    for (int w = 1; w < WORDS; w++)
        sum[0] += sum[w];
    return sum[0];
}
