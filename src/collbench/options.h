/* options -- the command line of ./collbench: nccl-tests' flags, and what it adds to them. */
#ifndef PURLIN_COLLBENCH_OPTIONS_H
#define PURLIN_COLLBENCH_OPTIONS_H

#include "collectives/collective.h"
#include "src/base/command.h"

enum { PL_N_REDUCTIONS = PL_MAX + 1 };

typedef struct {
    /* what */
    bool op[PL_N_COLLECTIVES], dtype[PL_N_DTYPES], reduction[PL_N_REDUCTIONS]; /* asked for */
    int64_t min_bytes, max_bytes; /* of the whole array */
    int64_t step_bytes;           /* 0: by step_factor */
    int64_t step_factor;
    /* where */
    const char *mesh; /* "dp:2+tp:2"; NULL: one axis of all ranks */
    const char *axis; /* "tp", "dp,tp"; NULL: all axes */
    const char *algo; /* overrides, as pl_chooser has them; NULL: none */
    /* how */
    int64_t n_samples, n_warmup;
    bool check, off_cache, fresh, vs_mpi, overlap, race;
    /* the picture */
    bool print_schedule;
    int64_t n_ranks, n_hosts; /* simulated; 0: as there are, 1 */
    /* what is kept */
    const char *csv, *json, *plot, *machine;
    bool recalibrate;
    pl_command_asked asked;
} pl_bench_options;

/** Parse the command line. Every rank calls it alike; only rank 0 prints what argp has to say. */
pl_status pl_bench_options_parse(int argc, char **argv, pl_bench_options *options);

/** The size after `bytes` in the sweep; beyond max_bytes when that was the last. Local. */
int64_t pl_bench_next_bytes(const pl_bench_options *options, int64_t bytes);

#endif
