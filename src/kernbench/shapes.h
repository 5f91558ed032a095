/* shapes -- what ./kernbench measures unless told otherwise. */
#ifndef PURLIN_KERNBENCH_SHAPES_H
#define PURLIN_KERNBENCH_SHAPES_H

#include "src/kernbench/case.h"

typedef struct {
    const char *kernel;
    pl_case_group group;
    int64_t size[PL_CASE_SIZES];
} pl_shape_entry;

extern const pl_shape_entry pl_shapes[];
extern const int pl_n_shapes;

#endif
