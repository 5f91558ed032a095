/* record -- measured points: kept, written as CSV and JSON lines, and summed up. */
#ifndef PURLIN_COLLBENCH_RECORD_H
#define PURLIN_COLLBENCH_RECORD_H

#include "src/base/csv.h"
#include "src/base/json.h"
#include "src/collbench/case.h"

typedef struct {
    pl_bench_case c;
    char algo[48];
    double time_s, min_s, p99_s; /* median, least, 99th percentile over samples */
    double predicted_s, limit_s;
    double mpi_s;  /* NaN: not measured */
    double hidden; /* share of the time behind a matmul; NaN: not measured */
    int64_t wrong; /* elements, all ranks; -1: not checked */
} pl_bench_point;

/** Bytes of the whole array; bytes over time_s; the same times pl_bench_bus_factor(). Local. */
int64_t pl_bench_point_bytes(const pl_bench_point *p);
double pl_bench_algbw(const pl_bench_point *p, double time_s);
double pl_bench_busbw(const pl_bench_point *p, double time_s);

/* All points of a run, and where they go (files on rank 0 only). */
typedef struct {
    int64_t n, room;
    pl_bench_point *points;
    pl_csv csv;
    pl_json_lines json;
} pl_bench_records;

/** Open the files that are asked for (paths are kept; NULL: none). Local. */
pl_status pl_bench_records_open(pl_bench_records *records, const char *csv, const char *json);
/** Keep a point, and write it. Local. */
pl_status pl_bench_records_add(pl_bench_records *records, const pl_bench_point *point);
/** Refuses when what was written did not reach a file. Frees everything. Local. */
pl_status pl_bench_records_close(pl_bench_records *records);

/* Means over points. */
typedef struct {
    int64_t n;           /* points */
    double busbw;        /* geometric mean, bytes/s */
    double mpi_ratio;    /* geometric mean of mpi_s / time_s; NaN: not measured */
    double limit_share;  /* geometric mean of limit_s / time_s */
    double median_error; /* of |predicted_s / time_s - 1| */
    int64_t wrong;
} pl_bench_summary;

/** Of all points of collective c; PL_N_COLLECTIVES: of all points. Local. */
pl_bench_summary pl_bench_summarize(const pl_bench_records *records, pl_collective c);
/** Write it as a record. Local. */
pl_status pl_bench_records_sum_up(pl_bench_records *records, pl_collective c,
                                  const pl_bench_summary *summary);

#endif
