#include "config.h"

#include "src/roofline/kernel_model.h"

#include "src/base/memory.h"
#include "src/roofline/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = PL_N_KERNEL_TERMS, N_SWEEPS = 4000 };

/* Ops of which a training step on one rank has none, or small ones only: they read and write like
 * another. */
static pl_kind alike(pl_kind kind)
{
    return kind == PL_ACCUMULATE || kind == PL_SLICE ? PL_ADD : kind;
}

static bool has_bf16(const pl_program *p, const int *values, int n)
{
    for (int i = 0; i < n; i++)
        if (p->values[values[i]].dtype == PL_BF16)
            return true;
    return false;
}

void pl_kernel_name(const pl_program *p, const pl_op *op, const pl_op_cost *cost,
                    char name[PL_KERNEL_NAME])
{
    char stored[4] = "", type[8] = "";

    if (cost->is_matmul)
        snprintf(stored, sizeof stored, ".%c%c", cost->trans_a ? 't' : 'n',
                 cost->trans_b ? 't' : 'n');
    if (has_bf16(p, op->in, op->n_in) || has_bf16(p, op->out, op->n_out))
        snprintf(type, sizeof type, ".%s", pl_dtype_short(PL_BF16));
    snprintf(name, PL_KERNEL_NAME, "%.20s%s%s", pl_kind_of(alike(op->kind))->name, stored, type);
}

void pl_kernel_terms(const pl_op_cost *cost, const pl_reuse *reuse, double terms[N])
{
    memset(terms, 0, N * sizeof *terms);
    terms[PL_TERM_CALL] = 1;
    if (cost->is_matmul || cost->is_attention)
        terms[PL_TERM_FLOP] = fmax(cost->flops, cost->done_flops);
    terms[PL_TERM_A] = cost->a_elements;
    terms[PL_TERM_B] = cost->b_elements;
    terms[PL_TERM_C] = cost->c_elements;
    terms[PL_TERM_ALIASED] = cost->aliased_elements;
    for (int l = 0; l < PL_N_REUSE; l++)
        terms[PL_TERM_NEAR + l] = reuse->bytes[l];
}

double pl_kernel_time_s(const pl_kernel_fit *fit, const double terms[N])
{
    double time_s = 0;

    for (int t = 0; t < N; t++)
        time_s += fit->term_s[t] * terms[t];
    return time_s;
}

const pl_kernel_fit *pl_kernel_fit_find(const pl_machine *machine, const char *name)
{
    for (int i = 0; i < machine->n_kernels; i++)
        if (strcmp(machine->kernel[i].name, name) == 0)
            return &machine->kernel[i];
    return NULL;
}

static double median_error(int n, double (*rows)[N], const double *time_s, const pl_kernel_fit *fit)
{
    double *error = pl_alloc((size_t)(n + 1) * sizeof *error);

    for (int i = 0; i < n; i++)
        error[i] = fabs(pl_kernel_time_s(fit, rows[i]) / time_s[i] - 1);
    const double median = pl_median(error, n);
    pl_free(error);
    return median;
}

void pl_kernel_fit_terms(int n, double (*rows)[N], const double *time_s, pl_kernel_fit *fit)
{
    double square[N][N] = {{0}}, right[N] = {0}, size[N] = {0}, x[N] = {0};

    /* Terms differ by many orders: each is scaled to a share of the time. */
    for (int i = 0; i < n; i++)
        for (int t = 0; t < N; t++)
            size[t] = fmax(size[t], rows[i][t] / time_s[i]);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < N; t++) {
            const double share = size[t] > 0 ? rows[i][t] / size[t] : 0; /* of weight 1 / time */

            right[t] += share;
            for (int u = 0; u < N; u++)
                square[t][u] += share * (size[u] > 0 ? rows[i][u] / time_s[i] / size[u] : 0);
        }
    for (int sweep = 0; sweep < N_SWEEPS; sweep++)
        for (int t = 0; t < N; t++) {
            double rest = right[t];

            if (!(square[t][t] > 0))
                continue;
            for (int u = 0; u < N; u++)
                rest -= u == t ? 0 : square[t][u] * x[u];
            x[t] = fmax(rest / square[t][t], 0);
        }
    for (int t = 0; t < N; t++)
        fit->term_s[t] = size[t] > 0 ? x[t] / size[t] : 0;
    fit->n_samples = n;
    fit->residual = median_error(n, rows, time_s, fit);
}
