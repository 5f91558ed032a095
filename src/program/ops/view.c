#include "config.h"

#include "src/program/ops/ops.h"

double pl_array_bytes(const pl_array *array)
{
    return (double)array->n * (double)pl_dtype_bytes(array->dtype);
}

double pl_view_bytes(const pl_op_view *view)
{
    double bytes = 0;

    for (int i = 0; i < view->op->n_in; i++)
        bytes += pl_array_bytes(&view->in[i]);
    for (int i = 0; i < view->op->n_out; i++)
        bytes += pl_array_bytes(&view->out[i]);
    return bytes;
}
