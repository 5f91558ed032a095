/* span -- what happened when: a buffer of timed spans, filled during a step without allocating. */
#ifndef PURLIN_BASE_SPAN_H
#define PURLIN_BASE_SPAN_H

#include <stdint.h>

typedef enum { PL_TRACK_COMPUTE = 0, PL_TRACK_COMM = 1, PL_TRACK_STEP = 2, PL_N_TRACKS } pl_track;

typedef struct {
    double begin_s, end_s; /* pl_now_s() */
    int32_t what;          /* index of the op in its program; the step's number on PL_TRACK_STEP */
    int16_t track;         /* pl_track */
    int16_t detail;        /* program the op is of: 0 train, 1 eval */
} pl_span;

typedef struct {
    pl_span *spans;
    int64_t n_spans, n_max; /* spans past n_max are dropped and counted */
    int64_t n_dropped;
} pl_span_buffer;

/** Make room for n_max spans. n_max 0 gives a buffer that records nothing. */
void pl_span_buffer_init(pl_span_buffer *buffer, int64_t n_max);
void pl_span_buffer_free(pl_span_buffer *buffer);
/** Append a span; never allocates. */
void pl_span_add(pl_span_buffer *buffer, pl_track track, int32_t what, int16_t detail,
                 double begin_s, double end_s);

#endif
