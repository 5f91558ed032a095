/* options -- what ./kernbench is asked to do. */
#ifndef PURLIN_KERNBENCH_OPTIONS_H
#define PURLIN_KERNBENCH_OPTIONS_H

#include "src/base/command.h"
#include "src/base/status.h"
#include "src/kernbench/case.h"
#include "src/kernbench/peers.h"

enum { PL_MOST_KERNELS = 64 };

typedef struct {
    bool kernel[PL_MOST_KERNELS]; /* by place in pl_kernels */
    bool group[PL_N_GROUPS];
    bool dtype[PL_N_DTYPES];
    bool has_shape;
    int n_sizes; /* of shape */
    int64_t shape[PL_CASE_SIZES];
    double seconds; /* for a point */
    bool check;
    bool vs[PL_N_PEERS];
    const char *csv, *json, *plot; /* paths, borrowed; NULL: none */
    pl_command_asked asked;
} pl_kernbench_options;

/** Refuses what is not understood. Local. */
pl_status pl_kernbench_options_parse(int argc, char **argv, pl_kernbench_options *options);

#endif
