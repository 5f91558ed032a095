/* matmul_openblas -- macro-blocks, each one call of OpenBLAS. */
#include "config.h"

#include "kernels/matmul_openblas.h"

#include "src/base/panic.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A macro-block is worth about BLOCK_FLOPS, 2 ms of one core. Each packs its operands anew, which
 * costs the less the larger it is in all three extents: 512 x 384 x 512 reaches 0.94 to 0.99 of the
 * rate of the uncut product. */
enum { BLOCK_FLOPS = 200000000, BLOCK_M = 512, BLOCK_N = 384, BLOCK_K = 512, BLOCK_STEP = 16 };

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

/** The length of equal cuts of `extent` that are at most about `most` long. */
static int64_t even_cut(int64_t extent, int64_t most)
{
    if (extent <= most)
        return extent;
    return ceil_div(ceil_div(extent, ceil_div(extent, most)), BLOCK_STEP) * BLOCK_STEP;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/** The macro-block M x N x K. */
typedef struct {
    int64_t M, N, K;
} block;

/** Without anyone to call in between there is no need to cut, but for what OpenBLAS can count. */
static block whole_block(int64_t M, int64_t N, int64_t K)
{
    const int64_t most = INT_MAX / BLOCK_STEP * BLOCK_STEP;

    return (block){even_cut(M, most), even_cut(N, most), even_cut(K, most)};
}

/** The usual one, longer in one extent where another is short. */
static block choose_block(int64_t M, int64_t N, int64_t K)
{
    block z = {even_cut(M, BLOCK_M), even_cut(N, BLOCK_N), even_cut(K, BLOCK_K)};

    z.M = even_cut(M, larger(z.M, BLOCK_FLOPS / 2 / z.N / z.K));
    z.N = even_cut(N, larger(z.N, BLOCK_FLOPS / 2 / z.M / z.K));
    z.K = even_cut(K, larger(z.K, BLOCK_FLOPS / 2 / z.M / z.N));
    return z;
}

void pl_matmul_openblas(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K,
                        const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate,
                        float *c, int64_t ldc, const pl_progress *progress)
{
    if (M == 0 || N == 0)
        return;
    if (K == 0) {
        for (int64_t i = 0; i < M && !accumulate; i++)
            memset(c + i * ldc, 0, (size_t)N * sizeof *c);
        return;
    }
    const block z = progress != NULL ? choose_block(M, N, K) : whole_block(M, N, K);
    const CBLAS_TRANSPOSE op_a = trans_a == PL_TRANS ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE op_b = trans_b == PL_TRANS ? CblasTrans : CblasNoTrans;

    for (int64_t i = 0; i < M; i += z.M)
        for (int64_t j = 0; j < N; j += z.N)
            for (int64_t k = 0; k < K; k += z.K) {
                const int64_t m = least(z.M, M - i), n = least(z.N, N - j);
                const float *a_ik = a + (trans_a == PL_TRANS ? k * lda + i : i * lda + k);
                const float *b_kj = b + (trans_b == PL_TRANS ? j * ldb + k : k * ldb + j);

                if (i > 0 || j > 0 || k > 0)
                    pl_progress_call(progress);
                cblas_sgemm(CblasRowMajor, op_a, op_b, narrow(m), narrow(n),
                            narrow(least(z.K, K - k)), 1.0f, a_ik, narrow(lda), b_kj, narrow(ldb),
                            accumulate || k > 0 ? 1.0f : 0.0f, c + i * ldc + j, narrow(ldc));
            }
}

void pl_matmul_openblas_set_threads(int n_threads)
{
    openblas_set_num_threads(n_threads < 1 ? 1 : n_threads);
}

const char *pl_matmul_openblas_name(void)
{
    static char text[160]; /* written once, always alike */

    if (text[0] == '\0')
        snprintf(text, sizeof text, "%s, core %s", openblas_get_config(), openblas_get_corename());
    return text;
}
