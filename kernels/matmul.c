#include "kernels/matmul.h"

#include "src/base/panic.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_FLOPS = 100000000, BLOCK_LEAST = 192, BLOCK_STEP = 48 };

/** The one place where an extent becomes OpenBLAS's integer. */
static blasint narrow(int64_t extent)
{
    PL_ASSERT(extent >= 0 && extent <= INT_MAX);
    return (blasint)extent;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/** The length of equal cuts of `extent` that are at most `most` long, in steps of BLOCK_STEP. */
static int64_t even_cut(int64_t extent, int64_t most)
{
    const int64_t n_cuts = ceil_div(extent, most);

    return ceil_div(ceil_div(extent, n_cuts), BLOCK_STEP) * BLOCK_STEP;
}

/** Macro-blocks block_M x block_N of c worth about BLOCK_FLOPS, near square because each block
 * packs its strips of a and b anew; never so thin that packing costs more than it should. */
static void choose_blocks(int64_t M, int64_t N, int64_t K, int64_t *block_M, int64_t *block_N)
{
    const int64_t area = BLOCK_FLOPS / (2 * K) + 1; /* of c */
    int64_t side = BLOCK_LEAST;

    *block_M = M;
    *block_N = N;
    if (M <= area / N)
        return;
    while (side * side < area)
        side += BLOCK_STEP;
    if (N <= side) {
        *block_M = even_cut(M, area / N > BLOCK_LEAST ? area / N : BLOCK_LEAST);
    } else if (M <= side) {
        *block_N = even_cut(N, area / M > BLOCK_LEAST ? area / M : BLOCK_LEAST);
    } else {
        *block_M = even_cut(M, side);
        *block_N = even_cut(N, side);
    }
}

void pl_matmul(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K, const float *a,
               int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc,
               const pl_progress *progress)
{
    int64_t block_M, block_N;

    if (M == 0 || N == 0)
        return;
    if (K == 0) {
        for (int64_t i = 0; i < M && !accumulate; i++)
            memset(c + i * ldc, 0, (size_t)N * sizeof *c);
        return;
    }
    const int64_t step_a = trans_a == PL_TRANS ? 1 : lda; /* from a row of op(a) to the next */
    const int64_t step_b = trans_b == PL_TRANS ? ldb : 1; /* from a column of op(b) to the next */

    choose_blocks(M, N, K, &block_M, &block_N);
    for (int64_t i = 0; i < M; i += block_M) {
        const int64_t m = M - i < block_M ? M - i : block_M;

        for (int64_t j = 0; j < N; j += block_N) {
            const int64_t n = N - j < block_N ? N - j : block_N;

            if (i > 0 || j > 0)
                pl_progress_call(progress);
            cblas_sgemm(CblasRowMajor, trans_a == PL_TRANS ? CblasTrans : CblasNoTrans,
                        trans_b == PL_TRANS ? CblasTrans : CblasNoTrans, narrow(m), narrow(n),
                        narrow(K), 1.0f, a + i * step_a, narrow(lda), b + j * step_b, narrow(ldb),
                        accumulate ? 1.0f : 0.0f, c + i * ldc + j, narrow(ldc));
        }
    }
}

void pl_matmul_set_threads(int n_threads)
{
    openblas_set_num_threads(n_threads < 1 ? 1 : n_threads);
}

const char *pl_matmul_backend(void)
{
    static char text[160]; /* written once, always alike */

    if (text[0] == '\0')
        snprintf(text, sizeof text, "%s, core %s", openblas_get_config(), openblas_get_corename());
    return text;
}
