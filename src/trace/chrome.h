/* chrome -- what all ranks did, as Chrome trace JSON (chrome://tracing, Perfetto).
 *
 * One process a rank. Its track "compute" holds the steps and, inside them, operations and waits;
 * communication has tracks of its own, as many as transfers were in flight at once, so that spans
 * of one track nest or follow each other. Times are rank 0's clock, from the first span on. */
#ifndef PURLIN_TRACE_CHROME_H
#define PURLIN_TRACE_CHROME_H

#include "src/base/span.h"
#include "src/program/program.h"

#include <mpi.h>
#include <stdio.h>

enum { PL_TRACE_COMPUTE = 0, PL_TRACE_FIRST_COMM = 1 }; /* track numbers ("tid") */

typedef struct {
    int64_t begin_ns, end_ns;
    int32_t rank;
    int32_t lane;  /* track within the rank */
    int32_t title; /* index into the rank's titles */
} pl_trace_event;

/* What one rank has to show. */
typedef struct {
    int32_t n_lanes;
    int32_t n_titles;
    int64_t n_events, n_dropped;
    int64_t titles_bytes;
    pl_trace_event *events;
    char *titles;   /* n_titles texts, one after another, each ended by a 0: a JSON object of the
                     * members "name", "cat" and "args" of an event */
    char label[64]; /* "dp:0 tp:1" */
} pl_trace_rank;

/** Turn a rank's spans into events. programs[d] is the program that spans of detail d index (NULL:
 * there are none); clock_offset_s is subtracted. Free with pl_trace_rank_free(). Local. */
pl_trace_rank pl_trace_collect(const pl_span_buffer *spans, const pl_program *const *programs,
                               int rank, pl_coords coords, double clock_offset_s);
void pl_trace_rank_free(pl_trace_rank *trace);

/** Write the ranks' events, those of each sorted by time as pl_trace_collect() leaves them, as one
 * JSON object, an event a line: sorted by time over all. Ranks may share their titles. Local. */
void pl_trace_print(FILE *file, const pl_trace_rank *ranks, int n_ranks);

typedef struct {
    FILE *file; /* NULL: not open; nothing is written then */
    const char *path;
} pl_trace;

/** Open the file, replacing one that is there. Local: for rank 0, before anything long begins. */
pl_status pl_trace_open(pl_trace *trace, const char *path);

/** Close it; refuses when what was written did not reach the file. Local. */
pl_status pl_trace_close(pl_trace *trace);

/** Gather all ranks' spans to rank 0, write and close the file (trace: rank 0's; others pass
 * whatever). The status is rank 0's own: agree on it. Collective over comm; polls, yields. Rank 0
 * holds the events of all ranks at once: 32 bytes each. */
pl_status pl_trace_write(pl_trace *trace, MPI_Comm comm, const pl_span_buffer *spans,
                         const pl_program *const *programs, pl_coords coords);

#endif
