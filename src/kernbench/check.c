#include "config.h"

#include "src/kernbench/check.h"

#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/kernbench/reference.h"

#include <string.h>

/* Element (i, j) of op(x). */
static double element(const pl_array *x, bool transposed, int64_t ld, int64_t i, int64_t j)
{
    return pl_array_element(x, transposed ? j * ld + i : i * ld + j);
}

/* y[rows] = op(x)[rows, cols] . r[cols], walking x as it lies. */
static void multiply(const pl_array *x, bool transposed, int64_t ld, int64_t rows, int64_t cols,
                     const double *r, double *y)
{
    const int64_t n = transposed ? cols : rows, m = transposed ? rows : cols;

    for (int64_t i = 0; i < rows; i++)
        y[i] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            const int64_t row = transposed ? j : i, col = transposed ? i : j;

            y[row] += element(x, transposed, ld, row, col) * r[col];
        }
}

int64_t pl_check_product(const pl_case *c, const pl_array *result)
{
    const pl_product *p = &c->product;
    double *r = pl_alloc((size_t)p->N * sizeof *r), *br = pl_alloc((size_t)p->K * sizeof *br);
    double *abr = pl_alloc((size_t)p->M * sizeof *abr), *cr = pl_alloc((size_t)p->M * sizeof *cr);
    uint64_t state = 12345;
    int64_t wrong = 0;

    for (int64_t j = 0; j < p->N; j++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        r[j] = (double)(state >> 48);
    }
    multiply(&c->in[1], p->trans_b == PL_TRANS, p->ldb, p->K, p->N, r, br);
    multiply(&c->in[0], p->trans_a == PL_TRANS, p->lda, p->M, p->K, br, abr);
    multiply(result, false, p->ldc, p->M, p->N, r, cr);
    for (int64_t i = 0; i < p->M; i++)
        wrong += !(abr[i] == cr[i]);
    pl_free(r);
    pl_free(br);
    pl_free(abr);
    pl_free(cr);
    return wrong;
}

/* A copy of an input that the run overwrites; of the others, themselves. */
static pl_array before(const pl_case *c, int i)
{
    pl_array copy = c->in[i];
    const size_t bytes = (size_t)copy.n * pl_dtype_bytes(copy.dtype);

    for (int k = 0; k < c->op->n_out; k++)
        if (c->out[k].data == c->in[i].data)
            copy.data = memcpy(pl_alloc(bytes), c->in[i].data, bytes);
    return copy;
}

int64_t pl_check_case(pl_case *c)
{
    pl_array in[PL_CASE_OPERANDS];
    pl_verdict v = {.c = c, .in = in};

    pl_case_fill(c, true);
    if (c->is_product) {
        pl_case_run(c);
        return pl_check_product(c, &c->out[0]);
    }
    for (int i = 0; i < c->op->n_in; i++)
        in[i] = before(c, i);
    pl_case_run(c);
    pl_reference_compare(&v);
    for (int i = 0; i < c->op->n_in; i++)
        if (in[i].data != c->in[i].data)
            pl_free(in[i].data);
    if (v.wrong > 0)
        pl_warn("%s %s %s: element %lld of output %d is %.9g and not %.9g within %.3g",
                c->kernel->name, c->shape, pl_dtype_short(c->dtype), (long long)v.element, v.output,
                pl_array_element(&c->out[v.output], v.element), v.expected, v.tolerance);
    return v.wrong;
}
