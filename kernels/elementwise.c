/* elementwise -- plain loops, left to the compiler to vectorise. */
#include "config.h"

#include "kernels/elementwise.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

#include <string.h>

/** What a loop is called with; b may be NULL. */
typedef struct {
    int64_t n;
    const void *a, *b;
    void *y;
} call;

enum { TILE_BYTES = 4096 }; /* of output streamed at a time */

typedef enum { ADD_F32, ADD_BF16, NARROW, WIDEN, SQUARES } loop;

PL_INLINE void add(const pl_dtype dtype, int64_t n, const void *a, const void *b, void *y)
{
    const int64_t n_words = dtype == PL_BF16 ? n / 2 : 0;

#pragma GCC ivdep
    for (int64_t i = 0; i < n_words; i++) {
        const uint32_t u = pl_word(a, i), v = pl_word(b, i);

        pl_put_word(y, i, pl_word_low(u) + pl_word_low(v), pl_word_high(u) + pl_word_high(v));
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n && dtype == PL_F32; i++)
        pl_put(dtype, y, i, pl_at(dtype, a, i) + pl_at(dtype, b, i));
    if (2 * n_words < n && dtype == PL_BF16)
        pl_put(dtype, y, n - 1, pl_at(dtype, a, n - 1) + pl_at(dtype, b, n - 1));
}

PL_INLINE void convert(const pl_dtype from, const pl_dtype to, int64_t n, const void *restrict x,
                       void *restrict y)
{
    for (int64_t i = 0; i < n && to == PL_F32; i++)
        pl_put(to, y, i, pl_at(from, x, i));
    for (int64_t i = 0; i < n && to == PL_BF16; i++)
        ((pl_bf16 *)y)[i] = pl_bf16_of_f32(pl_at(from, x, i)); /* any NaN */
}

/** y = a, or a + b, with the types' conversion; streamed when it is large and overwrites neither.
 */
PL_INLINE void pass(const pl_dtype from, const pl_dtype to, const call *c)
{
    const bool adds = c->b != NULL;
    const int64_t tile_n = TILE_BYTES / (int64_t)pl_dtype_bytes(to);
    const bool streams = c->y != c->a && c->y != c->b && pl_bypasses(c->n, pl_dtype_bytes(to));
    float tile[TILE_BYTES / sizeof(float)];

    if (!streams && adds)
        add(from, c->n, c->a, c->b, c->y);
    else if (!streams)
        convert(from, to, c->n, c->a, c->y);
    for (int64_t i = 0; i < c->n && streams; i += tile_n) {
        const int64_t m = c->n - i < tile_n ? c->n - i : tile_n;

        if (adds)
            add(from, m, pl_from(from, c->a, i), pl_from(from, c->b, i), tile);
        else
            convert(from, to, m, pl_from(from, c->a, i), tile);
        pl_bypass(pl_to(to, c->y, i), tile, (size_t)m * pl_dtype_bytes(to));
    }
    if (streams)
        pl_bypass_end();
}

/** The sum of squares of a, to *y in f64. */
PL_INLINE void sum_of_squares(const call *c)
{
    double lanes[PL_LANES] = {0}, *sum = c->y;
    const float *restrict x = c->a;
    int64_t i = 0;

    for (; i + PL_LANES <= c->n; i += PL_LANES)
        for (int l = 0; l < PL_LANES; l++)
            lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < c->n; i++, l++)
        lanes[l] += (double)x[i] * (double)x[i];
    for (int width = PL_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    *sum = lanes[0];
}

PL_INLINE void any_loop(loop which, const call *c)
{
    if (which == ADD_F32)
        pass(PL_F32, PL_F32, c);
    else if (which == ADD_BF16)
        pass(PL_BF16, PL_BF16, c);
    else if (which == NARROW)
        pass(PL_F32, PL_BF16, c);
    else if (which == WIDEN)
        pass(PL_BF16, PL_F32, c);
    else
        sum_of_squares(c);
}

static void loop_generic(loop which, const call *c)
{
    any_loop(which, c);
}

PL_AVX2 static void loop_avx2(loop which, const call *c)
{
    any_loop(which, c);
}

PL_AVX512 static void loop_avx512(loop which, const call *c)
{
    any_loop(which, c);
}

static void run(loop which, const call *c)
{
    static void (*const per_isa[PL_N_ISA])(loop, const call *) = {loop_generic, loop_avx2,
                                                                  loop_avx512};

    per_isa[pl_isa_vectors()](which, c);
}

void pl_add(int64_t n, const float *a, const float *b, float *y)
{
    run(ADD_F32, &(call){n, a, b, y});
}

void pl_add_bf16(int64_t n, const pl_bf16 *a, const pl_bf16 *b, pl_bf16 *y)
{
    run(ADD_BF16, &(call){n, a, b, y});
}

void pl_bf16_from_f32(int64_t n, const float *x, pl_bf16 *y)
{
    run(NARROW, &(call){n, x, NULL, y});
}

void pl_f32_from_bf16(int64_t n, const pl_bf16 *x, float *y)
{
    run(WIDEN, &(call){n, x, NULL, y});
}

void pl_copy(int64_t n, const float *x, float *y)
{
    if (n > 0 && x != y)
        memcpy(y, x, (size_t)n * sizeof *y);
}

void pl_copy_bf16(int64_t n, const pl_bf16 *x, pl_bf16 *y)
{
    if (n > 0 && x != y)
        memcpy(y, x, (size_t)n * sizeof *y);
}

void pl_scale(int64_t n, float factor, const float *x, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

void pl_zero(int64_t n, float *y)
{
    if (n > 0)
        memset(y, 0, (size_t)n * sizeof *y);
}

double pl_sum_of_squares(const float *x, int64_t n)
{
    double sum;

    run(SQUARES, &(call){n, x, NULL, &sum});
    return sum;
}

/** Whether any of x[n] has all exponent bits set, without an early exit, so that it vectorises. */
static int any_non_finite(const float *x, int64_t n)
{
    uint32_t any = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        any |= (bits & 0x7F800000u) == 0x7F800000u;
    }
    return any != 0;
}

int64_t pl_first_non_finite(const float *x, int64_t n)
{
    enum { BLOCK = 4096 };

    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t end = n - begin < BLOCK ? n : begin + BLOCK;

        if (!any_non_finite(x + begin, end - begin))
            continue;
        for (int64_t i = begin; i < end; i++)
            if (any_non_finite(x + i, 1))
                return i;
    }
    return -1;
}

int64_t pl_first_non_finite_bf16(const pl_bf16 *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((x[i] & 0x7f80) == 0x7f80)
            return i;
    return -1;
}
