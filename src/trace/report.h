/* report -- what was predicted beside what was measured: the table at the end of a run.
 *
 * Ops of one name and phase (a kind of kernel; a collective over the same axes) are one row. All
 * times are means over the measured steps, of one rank: of those of the stage that prints the one
 * that the others wait for (trace/busiest.h). */
#ifndef PURLIN_TRACE_REPORT_H
#define PURLIN_TRACE_REPORT_H

#include "src/program/run.h"
#include "src/roofline/predict.h"

#include <stdio.h>

typedef struct {
    const pl_program *program;           /* of this rank's stage */
    const pl_prediction *prediction;     /* of all stages */
    const pl_op_measure *measured;       /* sums over n_steps; NULL when n_steps is 0 */
    int64_t n_steps;                     /* 0: nothing ran, only predictions are shown */
    double step_s;                       /* measured: mean wall time of those steps */
    size_t used_bytes[PL_N_CLASSES];     /* the largest over ranks */
    const pl_wire *wire;                 /* predicted bytes of a step, all ranks */
    int64_t n_wire_steps;                /* steps in which bytes were counted */
    int64_t counted_bytes[PL_MAX_WIRES]; /* [wire->n] in all of them, all ranks */
} pl_report;

/* Ops of one name and phase; sums over a step. */
typedef struct {
    char name[48];    /* "einsum", "AllGather_fsdp" */
    const char *kind; /* "einsum", "AllGather" */
    pl_phase phase;
    bool is_communication;
    int64_t calls;
    double predicted_s, measured_s;    /* busy: kernels while they run, on their core, communication
                                        * from start to completion */
    double predicted_turns_s, turns_s; /* kernels: others had the core meanwhile */
    double predicted_exposed_s, exposed_s, hidden_s; /* communication */
    double flops, bytes;
    int64_t wire_bytes;                   /* sent by this rank */
    pl_bound bound;                       /* of most of the predicted time */
    double bound_s[PL_BOUND_LATENCY + 1]; /* predicted time by what bounds it */
} pl_report_row;

/** The rows: by phase, in each kernels before communication, in the order of first appearance.
 * Returns how many; `rows` has room for the program's n_ops. Local. */
int pl_report_rows(const pl_report *report, pl_report_row *rows);

/** The table: operations, the step with the book's bounds, memory, bytes on the wire. At most 110
 * columns. Local. */
void pl_report_print(FILE *out, const pl_report *report);

#endif
