/* trace_check -- what every Chrome trace of ours must satisfy, read back with a JSON reader. */
#ifndef PURLIN_TESTS_TRACE_CHECK_H
#define PURLIN_TESTS_TRACE_CHECK_H

#include <jansson.h>
#include <stddef.h>

typedef struct {
    int n_spans, n_processes, n_tracks; /* processes and tracks that have a name */
} trace_summary;

/** Parse n bytes of JSON; NULL when it is none. */
json_t *trace_parse(const char *text, size_t n);

/** Fills *summary and returns NULL when, in order of the file, complete events ("X") are sorted by
 * begin, no time is negative, the spans of each track nest or follow each other, and every span's
 * process and track are named; else what is wrong with which event (in static memory). */
const char *trace_fault(const json_t *trace, trace_summary *summary);

/** The i-th complete event of that name; NULL when there are fewer. */
json_t *trace_find(const json_t *trace, const char *name, int i);

#endif
