/* rope -- a rotation and its inverse are one loop. */
#include "config.h"

#include "kernels/rope.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"
#include "src/base/panic.h"

#include <math.h>

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

/** One head: x and y are the same place or apart. */
PL_INLINE void rotate_head(const pl_dtype dtype, int64_t half, const float *restrict cosine,
                           const float *restrict sine, float direction, const void *x, void *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < half; i++) {
        const float first = pl_at(dtype, x, i), second = pl_at(dtype, x, i + half);
        const float turn = direction * sine[i];

        pl_put(dtype, y, i, first * cosine[i] - second * turn);
        pl_put(dtype, y, i + half, second * cosine[i] + first * turn);
    }
}

/** All heads of one position; y_r is where they go. */
PL_INLINE void rotate_row(const pl_dtype dtype, const call *c, int64_t r, void *y_r)
{
    const int64_t half = c->H / 2;
    const float *cosine = c->cosine + c->positions[r] * half;
    const float *sine = c->sine + c->positions[r] * half;

    for (int64_t n = 0; n < c->N; n++)
        rotate_head(dtype, half, cosine, sine, c->direction,
                    pl_from(dtype, c->x, (r * c->N + n) * c->H), pl_to(dtype, y_r, n * c->H));
}

PL_INLINE void body(const pl_dtype dtype, const call *c)
{
    const int64_t row = c->N * c->H;
    const size_t size = pl_dtype_bytes(dtype);
    const bool streams = c->x != c->y && row <= PL_BYPASS_TILE && pl_bypasses(c->R * row, size);
    float tile[PL_BYPASS_TILE];

    for (int64_t r = 0; r < c->R && !streams; r++)
        rotate_row(dtype, c, r, pl_to(dtype, c->y, r * row));
    for (int64_t r = 0; r < c->R && streams; r++) {
        rotate_row(dtype, c, r, tile);
        pl_bypass(pl_to(dtype, c->y, r * row), tile, (size_t)row * size);
    }
    if (streams)
        pl_bypass_end();
}

PL_INLINE void either(pl_dtype dtype, const call *c)
{
    if (dtype == PL_BF16)
        body(PL_BF16, c);
    else
        body(PL_F32, c);
}

static void rotate_generic(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

PL_AVX2 static void rotate_avx2(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

PL_AVX512 static void rotate_avx512(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

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
