#include "config.h"

#include "src/program/precision.h"

#include "src/program/kinds.h"

void pl_set_precision(pl_program *p, pl_dtype dtype)
{
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].class == PL_WEIGHT || p->values[v].class == PL_ACTIVATION)
            p->values[v].dtype = dtype;
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        for (int k = op->n_out - pl_kind_of(op->kind)->n_statistics; k < op->n_out; k++)
            p->values[op->out[k]].dtype = PL_F32;
    }
}
