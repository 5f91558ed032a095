/* rope -- a rotation and its inverse are one loop. */
#include "config.h"

#include "kernels/rope.h"

#include "kernels/avx512.h"
#include "kernels/bypass.h"
#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdbool.h>

void pl_rope_table(int64_t max_pos, int64_t H, double theta, float *cosine, float *sine)
{
    const int64_t half = H / 2;

    PL_ASSERT(H % 2 == 0);
    for (int64_t pos = 0; pos < max_pos; pos++)
        for (int64_t i = 0; i < half; i++) {
            const double angle = (double)pos * pow(theta, -2.0 * (double)i / (double)H);

            cosine[pos * half + i] = (float)cos(angle);
            sine[pos * half + i] = (float)sin(angle);
        }
}

/** What both directions are called with: x and y are of the call's dtype. */
typedef struct {
    int64_t R, N, H;
    const int32_t *positions;
    const float *cosine, *sine;
    float direction; /* 1 or -1: forward or back */
    const void *x;
    void *y;
} call;

enum {
    MOST_WORDS = 128, /* of half a head of bf16, for it to be turned by words */
    AHEAD = 8192,     /* bytes of x to ask for ahead: a row is many short loops */
    AHEAD_BY_HAND = 4096
};

/** cos and +-sin of a position's angles. */
typedef struct {
    const float *cosine, *sine;
    float direction;
    bool by_words;
    float cos_low[MOST_WORDS], cos_high[MOST_WORDS]; /* of even pairs, of odd ones */
    float sin_low[MOST_WORDS], sin_high[MOST_WORDS];
} angles;

PL_INLINE void find_angles(const pl_dtype dtype, int64_t half, const call *c, int64_t r, angles *a)
{
    const float *cosine = c->cosine + c->positions[r] * half;
    const float *sine = c->sine + c->positions[r] * half;

    a->cosine = cosine;
    a->sine = sine;
    a->direction = c->direction;
    a->by_words = dtype == PL_BF16 && half / 2 <= MOST_WORDS;
    for (int64_t i = 0; i < half / 2 && a->by_words; i++) {
        a->cos_low[i] = cosine[2 * i];
        a->cos_high[i] = cosine[2 * i + 1];
        a->sin_low[i] = c->direction * sine[2 * i];
        a->sin_high[i] = c->direction * sine[2 * i + 1];
    }
}

/** Pairs i0 to half of a head. */
PL_INLINE void rotate_pairs(const pl_dtype dtype, int64_t i0, int64_t half, const angles *a,
                            const void *x, void *y)
{
    const float *restrict cosine = a->cosine, *restrict sine = a->sine;

#pragma GCC ivdep
    for (int64_t i = i0; i < half; i++) {
        const float first = pl_at(dtype, x, i), second = pl_at(dtype, x, i + half);
        const float turn = a->direction * sine[i];

        pl_put(dtype, y, i, first * cosine[i] - second * turn);
        pl_put(dtype, y, i + half, second * cosine[i] + first * turn);
    }
}

/** The first n words of each half of a head, the second half being at x_2 and y_2. */
PL_INLINE void rotate_words(int64_t n, const angles *a, const void *x, const void *x_2, void *y,
                            void *y_2)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const uint32_t first = pl_word(x, i), second = pl_word(x_2, i);
        const float low = pl_word_low(first), low_2 = pl_word_low(second);
        const float high = pl_word_high(first), high_2 = pl_word_high(second);

        pl_put_word(y, i, low * a->cos_low[i] - low_2 * a->sin_low[i],
                    high * a->cos_high[i] - high_2 * a->sin_high[i]);
        pl_put_word(y_2, i, low_2 * a->cos_low[i] + low * a->sin_low[i],
                    high_2 * a->cos_high[i] + high * a->sin_high[i]);
    }
}

/** One head: x and y are the same place or apart. */
PL_INLINE void rotate_head(const pl_dtype dtype, int64_t half, const angles *a, const void *x,
                           void *y)
{
    if (!a->by_words) {
        rotate_pairs(dtype, 0, half, a, x, y);
        return;
    }
    rotate_words(half / 2, a, x, pl_from(dtype, x, half), y, pl_to(dtype, y, half));
    if (half % 2 != 0)
        rotate_pairs(dtype, half - 1, half, a, x, y);
}

/** All heads of one position; y_r is where they go. */
PL_INLINE void rotate_row(const pl_dtype dtype, int64_t half, const call *c, int64_t r, void *y_r)
{
    angles a;

    find_angles(dtype, half, c, r, &a);
    for (int64_t n = 0; n < c->N; n++) {
        const void *x = pl_from(dtype, c->x, (r * c->N + n) * 2 * half);

        pl_fetch(x, AHEAD, 2 * (size_t)half * pl_dtype_bytes(dtype));
        rotate_head(dtype, half, &a, x, pl_to(dtype, y_r, n * 2 * half));
    }
}

/** Usual sizes are constants: a head is a few vectors, and a loop's preparation as many more. */
PL_INLINE void rotate_any_row(const pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    if (c->H == 64)
        rotate_row(dtype, 32, c, r, y_r);
    else if (c->H == 128)
        rotate_row(dtype, 64, c, r, y_r);
    else
        rotate_row(dtype, c->H / 2, c, r, y_r);
}

typedef void row_function(pl_dtype dtype, const call *c, int64_t r, void *y_r);

PL_INLINE void all_rows(const pl_dtype dtype, row_function *rotate_one, const call *c)
{
    const int64_t row = c->N * c->H;
    const size_t size = pl_dtype_bytes(dtype);
    const bool streams = c->x != c->y && row <= PL_BYPASS_TILE && pl_bypasses(c->R * row, size);
    float tile[PL_BYPASS_TILE];

    for (int64_t r = 0; r < c->R; r++) {
        void *y_r = pl_to(dtype, c->y, r * row);

        rotate_one(dtype, c, r, streams ? tile : y_r);
        if (streams)
            pl_bypass(y_r, tile, (size_t)row * size);
    }
    if (streams)
        pl_bypass_end();
}

static void row_generic(pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    if (dtype == PL_BF16)
        rotate_any_row(PL_BF16, c, r, y_r);
    else
        rotate_any_row(PL_F32, c, r, y_r);
}

static void rotate_generic(pl_dtype dtype, const call *c)
{
    all_rows(dtype, row_generic, c);
}

PL_AVX2 static void row_avx2(pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    if (dtype == PL_BF16)
        rotate_any_row(PL_BF16, c, r, y_r);
    else
        rotate_any_row(PL_F32, c, r, y_r);
}

PL_AVX2 static void rotate_avx2(pl_dtype dtype, const call *c)
{
    all_rows(dtype, row_avx2, c);
}

#if defined(__x86_64__)

/* ---- bf16 by hand: 32 pairs at a time (kernels/avx512.h), of all heads of a row */

/** The cosines, or the sines, of n pairs, at even places and at odd ones. */
PL_AVX512_INLINE void load_angles(int64_t n, const float *x, __m512 *even, __m512 *odd)
{
    const __m512i evens =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
    const __m512 low = _mm512_maskz_loadu_ps(pl_mask_f32(n, 0), x);
    const __m512 high = _mm512_maskz_loadu_ps(pl_mask_f32(n, 16), x + 16);

    *even = _mm512_permutex2var_ps(low, evens, high);
    *odd = _mm512_permutex2var_ps(low, odds, high);
}

/** Pairs i to i + n, at most 32, of every head of row r. */
PL_AVX512_INLINE void rotate_pairs_by_hand(const pl_form form, int64_t half, int64_t i,
                                           const int64_t n, const call *c, int64_t r, pl_bf16 *y)
{
    const int64_t angle = c->positions[r] * half + i;
    const pl_bf16 *x = (const pl_bf16 *)c->x + r * c->N * 2 * half + i;
    const __mmask32 mask = pl_mask_bf16(n, 0);
    const __m512 direction = _mm512_set1_ps(c->direction);
    __m512 cosine[2], sine[2];

    load_angles(n, c->cosine + angle, &cosine[0], &cosine[1]);
    load_angles(n, c->sine + angle, &sine[0], &sine[1]);
    y += i;
    for (int k = 0; k < 2; k++)
        sine[k] = _mm512_mul_ps(sine[k], direction);
    for (int64_t head = 0; head < c->N; head++, x += 2 * half, y += 2 * half) {
        __m512 first[2], second[2], to[2], to_2[2];

        pl_fetch(x, AHEAD_BY_HAND, (size_t)n * sizeof *x);
        pl_fetch(x + half, AHEAD_BY_HAND, (size_t)n * sizeof *x);
        pl_widen_pairs(_mm512_maskz_loadu_epi16(mask, x), &first[0], &first[1]);
        pl_widen_pairs(_mm512_maskz_loadu_epi16(mask, x + half), &second[0], &second[1]);
        for (int k = 0; k < 2; k++) {
            to[k] = _mm512_fnmadd_ps(second[k], sine[k], _mm512_mul_ps(first[k], cosine[k]));
            to_2[k] = _mm512_fmadd_ps(first[k], sine[k], _mm512_mul_ps(second[k], cosine[k]));
        }
        _mm512_mask_storeu_epi16(y, mask, pl_narrow_pairs(form, to[0], to[1]));
        _mm512_mask_storeu_epi16(y + half, mask, pl_narrow_pairs(form, to_2[0], to_2[1]));
    }
}

PL_AVX512_INLINE void row_by_hand(const pl_form form, const call *c, int64_t r, void *y_r)
{
    const int64_t half = c->H / 2;
    int64_t i = 0;

    for (; i + 32 <= half; i += 32)
        rotate_pairs_by_hand(form, half, i, 32, c, r, y_r);
    if (i < half)
        rotate_pairs_by_hand(form, half, i, half - i, c, r, y_r);
}

PL_AVX512 static void row_f32(pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    (void)dtype;
    rotate_any_row(PL_F32, c, r, y_r);
}

PL_AVX512 static void row_bf16(pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    (void)dtype;
    row_by_hand(PL_NARROW, c, r, y_r);
}

PL_AVX512 static void row_bf16_by_cpu(pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    (void)dtype;
    row_by_hand(PL_NARROW_EXACT, c, r, y_r);
}

PL_AVX512 static void rotate_avx512(pl_dtype dtype, const call *c)
{
    if (dtype == PL_F32)
        all_rows(PL_F32, row_f32, c);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        all_rows(PL_BF16, row_bf16_by_cpu, c);
    else
        all_rows(PL_BF16, row_bf16, c);
}

#else

static void rotate_avx512(pl_dtype dtype, const call *c)
{
    (void)dtype, (void)c; /* never chosen */
}

#endif

static void rotate(pl_dtype dtype, const call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const call *) = {rotate_generic, rotate_avx2,
                                                                  rotate_avx512};

    PL_ASSERT(c->H % 2 == 0);
    run[pl_isa_vectors()](dtype, c);
}

void pl_rope_forward(int64_t R, int64_t N, int64_t H, const int32_t *positions, const float *cosine,
                     const float *sine, const float *x, float *y)
{
    rotate(PL_F32, &(call){R, N, H, positions, cosine, sine, 1.0f, x, y});
}

void pl_rope_forward_bf16(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                          const float *cosine, const float *sine, const pl_bf16 *x, pl_bf16 *y)
{
    rotate(PL_BF16, &(call){R, N, H, positions, cosine, sine, 1.0f, x, y});
}

void pl_rope_backward(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                      const float *cosine, const float *sine, const float *dy, float *dx)
{
    rotate(PL_F32, &(call){R, N, H, positions, cosine, sine, -1.0f, dy, dx});
}

void pl_rope_backward_bf16(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                           const float *cosine, const float *sine, const pl_bf16 *dy, pl_bf16 *dx)
{
    rotate(PL_BF16, &(call){R, N, H, positions, cosine, sine, -1.0f, dy, dx});
}
