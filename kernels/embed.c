/* embed -- rows copied out, rows added back. */
#include "config.h"

#include "kernels/embed.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LINE = 64,
    PIECE = 512,         /* bytes of a row copied at a time, where each piece costs a call */
    FAR = 24 << 10,      /* bytes of rows ahead that are asked for, into the L2: the hardware */
    NEAR = 8 << 10,      /* can't guess which come next; and then from there into the L1 */
    NEAR_LINE = 4 << 10, /* the same where lines are copied one by one */
    AHEAD = 2            /* backward: rows, which are updated where they lie */
};

/** Rows that `bytes` are. */
PL_INLINE int64_t rows_of(size_t bytes, size_t row)
{
    return (int64_t)((bytes + row - 1) / row);
}

/** Where the row of tokens[r] is, if it is one of e[V]; or NULL. */
PL_INLINE const char *row_of(int64_t r, int64_t R, int64_t V, int64_t v_begin,
                             const int32_t *tokens, size_t row, const void *e)
{
    const int64_t v = r < R ? tokens[r] - v_begin : -1;

    return v >= 0 && v < V ? (const char *)e + (size_t)v * row : NULL;
}

/** Ask for all of a row, if there is one. */
PL_INLINE void fetch(const char *row, size_t bytes)
{
    for (size_t i = 0; i < bytes && row != NULL; i += LINE)
        __builtin_prefetch(row + i);
}

/** to[bytes] = from[bytes], while other rows, where not NULL, are asked for. */
PL_INLINE void copy_row(const char *from, char *to, size_t bytes, bool streams, const char *far,
                        const char *near)
{
    for (size_t i = 0; i < bytes; i += PIECE) {
        const size_t n = bytes - i < PIECE ? bytes - i : PIECE;

        for (size_t k = 0; k < n && far != NULL; k += LINE)
            __builtin_prefetch(far + i + k, 0, 2);
        if (near != NULL)
            fetch(near + i, n);
        if (from == NULL)
            memset(to + i, 0, n);
        else if (streams)
            pl_bypass(to + i, from + i, n);
        else
            memcpy(to + i, from + i, n);
    }
}

#if defined(__x86_64__)

/** The same past the caches, of whole lines to whole lines, one of each row at a time. By calls of
 * pl_bypass it takes longer than by pieces; without calls pieces are no faster. */
PL_AVX512 static void copy_lines(const char *from, char *to, size_t bytes, const char *far,
                                 const char *near)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        if (far != NULL)
            __builtin_prefetch(far + i, 0, 2);
        if (near != NULL)
            __builtin_prefetch(near + i);
        if (from == NULL)
            memset(to + i, 0, LINE);
        else
            _mm512_stream_si512((__m512i *)(void *)(to + i), _mm512_loadu_si512(from + i));
    }
}

#else

static void copy_lines(const char *from, char *to, size_t bytes, const char *far, const char *near)
{
    (void)from, (void)to, (void)bytes, (void)far, (void)near; /* never chosen */
}

#endif

/** Rows of D elements of `size` bytes. */
static void gather(int64_t R, int64_t V, int64_t D, size_t size, int64_t v_begin,
                   const int32_t *tokens, const char *e, char *x)
{
    const size_t row = (size_t)D * size;
    const bool streams = pl_bypasses(R * D, size);
    const bool lines =
        streams && (uintptr_t)x % LINE == 0 && row % LINE == 0 && pl_isa_vectors() == PL_ISA_AVX512;
    const int64_t far = D > 0 ? rows_of(FAR, row) : 0,
                  near = D > 0 ? rows_of(lines ? NEAR_LINE : NEAR, row) : 0;

    for (int64_t r = 0; r < R && D > 0; r++) {
        const char *from = row_of(r, R, V, v_begin, tokens, row, e);
        const char *far_row = row_of(r + far, R, V, v_begin, tokens, row, e);
        const char *near_row = row_of(r + near, R, V, v_begin, tokens, row, e);
        char *to = x + (size_t)r * row;

        if (lines)
            copy_lines(from, to, row, far_row, near_row);
        else
            copy_row(from, to, row, streams, far_row, near_row);
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
    const size_t row = (size_t)c->D * sizeof *c->de;

    for (int64_t r = 0; r < c->R; r++) {
        const int64_t v = c->tokens[r] - c->v_begin;

        fetch(row_of(r + AHEAD, c->R, c->V, c->v_begin, c->tokens, row, c->de), row);
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
