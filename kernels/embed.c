/* embed -- rows copied out, rows added back. */
#include "config.h"

#include "kernels/embed.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

#include <string.h>

enum { LINE = 64, AHEAD = 2 }; /* rows to fetch ahead: which come next the hardware can't guess */

/** Ask for the row of tokens[r], of `bytes` bytes, if it is one of e[V]. */
PL_INLINE void fetch(int64_t r, int64_t R, int64_t V, int64_t v_begin, const int32_t *tokens,
                     size_t bytes, const void *e)
{
    const int64_t v = r < R ? tokens[r] - v_begin : -1;

    if (v >= 0 && v < V)
        for (size_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch((const char *)e + (size_t)v * bytes + i);
}

/** Rows of D elements of `size` bytes. */
static void gather(int64_t R, int64_t V, int64_t D, size_t size, int64_t v_begin,
                   const int32_t *tokens, const char *e, char *x)
{
    const size_t row = (size_t)D * size;
    const bool streams = pl_bypasses(R * D, size);

    for (int64_t r = 0; r < R && D > 0; r++) {
        const int64_t v = tokens[r] - v_begin;

        fetch(r + AHEAD, R, V, v_begin, tokens, row, e);
        if (v < 0 || v >= V)
            memset(x + (size_t)r * row, 0, row);
        else if (streams)
            pl_bypass(x + (size_t)r * row, e + (size_t)v * row, row);
        else
            memcpy(x + (size_t)r * row, e + (size_t)v * row, row);
    }
    if (streams)
        pl_bypass_end();
}

void pl_embed_forward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                      const float *e, float *x)
{
    gather(R, V, D, sizeof *x, v_begin, tokens, (const char *)e, (char *)x);
}

void pl_embed_forward_bf16(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                           const pl_bf16 *e, pl_bf16 *x)
{
    gather(R, V, D, sizeof *x, v_begin, tokens, (const char *)e, (char *)x);
}

/** What backward is called with; dx is of the call's dtype. */
typedef struct {
    int64_t R, V, D, v_begin;
    const int32_t *tokens;
    const void *dx;
    float *de;
} call;

PL_INLINE void scatter(const pl_dtype dtype, const call *c)
{
    for (int64_t r = 0; r < c->R; r++) {
        const int64_t v = c->tokens[r] - c->v_begin;

        fetch(r + AHEAD, c->R, c->V, c->v_begin, c->tokens, (size_t)c->D * sizeof *c->de, c->de);
        if (v < 0 || v >= c->V)
            continue;
        const void *restrict dx_r = pl_from(dtype, c->dx, r * c->D);
        float *restrict de_v = c->de + v * c->D;

        for (int64_t d = 0; d < c->D; d++)
            de_v[d] += pl_at(dtype, dx_r, d);
    }
}

PL_INLINE void either(pl_dtype dtype, const call *c)
{
    if (dtype == PL_BF16)
        scatter(PL_BF16, c);
    else
        scatter(PL_F32, c);
}

static void scatter_generic(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

PL_AVX2 static void scatter_avx2(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

PL_AVX512 static void scatter_avx512(pl_dtype dtype, const call *c)
{
    either(dtype, c);
}

static void backward(pl_dtype dtype, bool accumulate, const call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const call *) = {scatter_generic, scatter_avx2,
                                                                  scatter_avx512};

    if (!accumulate && c->V * c->D > 0)
        memset(c->de, 0, (size_t)(c->V * c->D) * sizeof *c->de);
    run[pl_isa_vectors()](dtype, c);
}

void pl_embed_backward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                       const float *dx, bool accumulate, float *de)
{
    backward(PL_F32, accumulate, &(call){R, V, D, v_begin, tokens, dx, de});
}

void pl_embed_backward_bf16(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                            const pl_bf16 *dx, bool accumulate, float *de)
{
    backward(PL_BF16, accumulate, &(call){R, V, D, v_begin, tokens, dx, de});
}
