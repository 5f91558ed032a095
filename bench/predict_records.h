/* predict_records -- what bench/predict_bench has predicted and measured: one record a run of a
 * case, kept as JSON lines. */
#ifndef PURLIN_BENCH_PREDICT_RECORDS_H
#define PURLIN_BENCH_PREDICT_RECORDS_H

#include "src/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOST_ROWS = 64, NAME = 64 };

/* Ops of one name and phase (a row of the report); times of a step, of the rank that reports. */
typedef struct {
    char name[NAME]; /* "einsum forward" */
    bool is_communication;
    double predicted_s, measured_s;           /* kernels: running; communication: exposed */
    double predicted_busy_s, measured_busy_s; /* from start to completion */
} op_record;

typedef struct {
    char model[NAME], strategy[NAME];
    int n_ranks, n_hosts;
    bool shares_cores;
    double predicted_s, measured_s; /* a step of the slowest rank */
    double speed;                   /* of a product beside that in calibration */
    /* A cache line to the next rank: in calibration, and after the run; 0: not known. */
    double calibrated_line_s, line_s;
    int n_ops;
    op_record op[MOST_ROWS];
} record;

/** Add one to the end of a file; NULL: to none. Local. */
pl_status record_append(const char *path, const record *r);

/* A growing list; zeros are an empty one. */
typedef struct {
    int n;
    int64_t room;
    record *all;
} records;

void records_add(records *list, const record *r);
/** Add what a file holds. Local. */
pl_status records_read(records *list, const char *path);
void records_free(records *list);

#endif
