#include "config.h"

#include "src/program/ops/ops.h"

double pl_view_bytes(const pl_op_view *view)
{
    int64_t n = 0;

    for (int i = 0; i < view->op->n_in; i++)
        n += view->in[i].n;
    for (int i = 0; i < view->op->n_out; i++)
        n += view->out[i].n;
    return 4.0 * (double)n;
}
