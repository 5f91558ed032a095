/* embed -- rows copied out, rows added back. */
#include "config.h"

#include "kernels/embed.h"

#include <string.h>

void pl_embed_forward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                      const float *e, float *x)
{
    for (int64_t r = 0; r < R && D > 0; r++) {
        const int64_t v = tokens[r] - v_begin;

        if (v >= 0 && v < V)
            memcpy(x + r * D, e + v * D, (size_t)D * sizeof *x);
        else
            memset(x + r * D, 0, (size_t)D * sizeof *x);
    }
}

void pl_embed_backward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                       const float *dx, bool accumulate, float *de)
{
    if (!accumulate && V * D > 0)
        memset(de, 0, (size_t)(V * D) * sizeof *de);
    for (int64_t r = 0; r < R; r++) {
        const int64_t v = tokens[r] - v_begin;

        if (v < 0 || v >= V)
            continue;
        const float *restrict dx_r = dx + r * D;
        float *restrict de_v = de + v * D;

        for (int64_t d = 0; d < D; d++)
            de_v[d] += dx_r[d];
    }
}
