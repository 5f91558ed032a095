#include "config.h"

#include "kernels/matmul_single.h"

#include <string.h>

enum {
    COLUMNS = 4096,         /* whose sums are kept in the L1 */
    LEAST_COLUMNS = 64,     /* below, a tile does as well */
    CALL_FLOPS = 200000000, /* between calls of the progress hook */
};

bool pl_matmul_is_single(const pl_matmul_job *job)
{
    return job->M == 1 && job->N >= LEAST_COLUMNS && job->a.dtype == PL_F32 &&
           job->b.dtype == PL_F32 && job->c_dtype == PL_F32 && job->panels == NULL &&
           job->int8 == NULL && job->a.pieces == NULL && job->b.pieces == NULL &&
           (job->b.across || job->dots);
}

/** n words of the row of a from k on, where they lie side by side or else in `copy`. */
static const float *row_of_a(const pl_operand *a, int64_t k, int64_t n, float *copy)
{
    const float *from = (const float *)pl_operand_at(a, 0, k);

    if (!a->across || a->ld == 1)
        return from;
    for (int64_t i = 0; i < n; i++)
        copy[i] = from[i * a->ld];
    return copy;
}

/** c = add + sums, n columns from j on; add is job->add or, after the first block of K, c. */
static void end(const pl_matmul_job *job, bool first, int64_t j, int64_t n, const float *sums)
{
    const int64_t c_column = job->c_column, add_column = first ? job->add_column : c_column;
    const float *add = (const float *)(first ? job->add : job->c);
    float *c = (float *)job->c + j * c_column;

    if (add == NULL && c_column == 1) {
        memcpy(c, sums, (size_t)n * sizeof *c);
        return;
    }
    add = add != NULL ? add + j * add_column : NULL;
    for (int64_t i = 0; i < n; i++)
        c[i * c_column] = add != NULL ? sums[i] + add[i * add_column] : sums[i];
}

void pl_matmul_single(const pl_matmul_job *job, pl_matmul_part part, const pl_progress *progress)
{
    const int64_t most_k = job->b.across ? PL_MATMUL_K : PL_DOT_K, ldb = 4 * job->b.ld;
    const int64_t end_column = part.column + part.n_columns;
    _Alignas(64) float sums[COLUMNS], copy[PL_DOT_K];
    double flops = 0.0;

    for (int64_t k = 0; k < job->K; k += most_k) {
        const int64_t n_k = job->K - k < most_k ? job->K - k : most_k;
        const float *a = row_of_a(&job->a, k, n_k, copy);

        for (int64_t n, j = part.column; j < end_column; j += n) {
            n = end_column - j < COLUMNS ? end_column - j : COLUMNS;
            if (flops > CALL_FLOPS) {
                pl_progress_call(progress);
                flops = 0.0;
            }
            (job->b.across ? job->tile->single : job->tile->dots)(
                n_k, n, a, pl_operand_at(&job->b, j, k), ldb, sums);
            end(job, k == 0, j, n, sums);
            flops += 2.0 * (double)n * (double)n_k;
        }
    }
}
