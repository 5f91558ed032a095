/* point -- one case measured: its time beside what the roofline and other libraries say. */
#ifndef PURLIN_KERNBENCH_POINT_H
#define PURLIN_KERNBENCH_POINT_H

#include "src/base/sample.h"
#include "src/kernbench/case.h"
#include "src/kernbench/peers.h"
#include "src/roofline/peaks.h"

/* What bounds a case: the larger term of the roofline. */
typedef enum { PL_LIMIT_FLOPS, PL_LIMIT_MEMORY } pl_limit;

typedef struct {
    const pl_kernel *kernel;
    pl_case_group group;
    pl_dtype dtype;
    char shape[64];
    double flops, bytes, set_bytes; /* bytes: read and written; set_bytes: of the operands */
    bool counts_flops;              /* rate in FLOP/s, else in bytes/s */
    double time_s, min_s;           /* median and least over samples */
    double roof_s;                  /* the least time that the roofline allows */
    pl_limit limit;
    double peer_s[PL_N_PEERS]; /* NaN: not measured */
    int64_t wrong;             /* elements; -1: not checked */
} pl_point;

/** FLOPs a byte; the rate in which time_s does flops, or bytes; percent of the roof. Local. */
double pl_point_intensity(const pl_point *p);
double pl_point_rate(const pl_point *p, double time_s);
double pl_point_percent(const pl_point *p);

/* What all points share. */
typedef struct {
    pl_bench_clock clock;
    pl_peaks peaks;
    pl_peers peers;
    bool check;
    char *stream; /* memory of the loops that are the roof of streaming kernels */
    size_t stream_bytes;
} pl_stand;

/** Measure a case (opened, not filled) in turn with everything that it is compared with:
 *   matmul, attention   the peers; the loop of multiply-adds of its type, which is its peak of
 *                       FLOP/s; memory as measured before, at its working set
 *   the rest            loops that do nothing but read, write and update as many arrays, in the
 *                       same proportion, over a working set as large as its own, in every way of
 *                       kernels/stream.h: the fastest is its roof; the peak of FLOP/s as measured
 *                       before
 * so that kernel and roof see the same weather. Local. */
void pl_point_measure(pl_stand *stand, pl_case *c, pl_point *point);

#endif
