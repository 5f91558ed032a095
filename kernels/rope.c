/* rope -- a rotation and its inverse are one loop. */
#include "config.h"

#include "kernels/rope.h"

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

/** Turn every pair by direction * its angle; direction is 1 or -1. */
static void rotate(int64_t R, int64_t N, int64_t H, const int32_t *positions, const float *cosine,
                   const float *sine, float direction, const float *x, float *y)
{
    const int64_t half = H / 2;

    PL_ASSERT(H % 2 == 0);
    for (int64_t r = 0; r < R; r++) {
        const float *cosine_r = cosine + positions[r] * half;
        const float *sine_r = sine + positions[r] * half;

        for (int64_t n = 0; n < N; n++) {
            const float *x_rn = x + (r * N + n) * H;
            float *y_rn = y + (r * N + n) * H;

#pragma GCC ivdep /* x and y are the same place or apart */
            for (int64_t i = 0; i < half; i++) {
                const float first = x_rn[i], second = x_rn[i + half];
                const float turn = direction * sine_r[i];

                y_rn[i] = first * cosine_r[i] - second * turn;
                y_rn[i + half] = second * cosine_r[i] + first * turn;
            }
        }
    }
}

void pl_rope_forward(int64_t R, int64_t N, int64_t H, const int32_t *positions, const float *cosine,
                     const float *sine, const float *x, float *y)
{
    rotate(R, N, H, positions, cosine, sine, 1.0f, x, y);
}

void pl_rope_backward(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                      const float *cosine, const float *sine, const float *dy, float *dx)
{
    rotate(R, N, H, positions, cosine, sine, -1.0f, dy, dx);
}
