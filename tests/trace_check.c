/* trace_check -- sorted, nested, named. */
#include "config.h"

#include "tests/trace_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TRACKS = 256, MAX_DEPTH = 64 };

/* A track and the spans that are open on it, outermost first. */
typedef struct {
    int pid, tid;
    bool named;
    int depth;
    int64_t end_ns[MAX_DEPTH];
} track;

static track tracks[MAX_TRACKS];
static int n_tracks;

static track *track_of(int pid, int tid)
{
    for (int i = 0; i < n_tracks; i++)
        if (tracks[i].pid == pid && tracks[i].tid == tid)
            return &tracks[i];
    if (n_tracks == MAX_TRACKS)
        return NULL;
    tracks[n_tracks] = (track){.pid = pid, .tid = tid};
    return &tracks[n_tracks++];
}

json_t *trace_parse(const char *text, size_t n)
{
    return json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

static int integer_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);

    return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

/* Microseconds as nanoseconds; the file has three decimals. */
static int64_t ns_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);

    return json_is_number(value) ? llround(json_number_value(value) * 1e3) : -1;
}

static const char *fault(const json_t *event, const char *what)
{
    static char text[256];

    snprintf(text, sizeof text, "%s: \"%s\" at %.3f us on %d.%d", what, text_of(event, "name"),
             (double)ns_of(event, "ts") / 1e3, integer_of(event, "pid"), integer_of(event, "tid"));
    return text;
}

static const char *check_name(const json_t *event, trace_summary *summary)
{
    track *t = track_of(integer_of(event, "pid"), integer_of(event, "tid"));

    if (t == NULL)
        return "too many tracks";
    if (text_of(json_object_get(event, "args"), "name")[0] == '\0')
        return fault(event, "no name given");
    if (strcmp(text_of(event, "name"), "process_name") == 0) {
        summary->n_processes++;
    } else {
        summary->n_tracks++;
        t->named = true;
    }
    return NULL;
}

static const char *check_span(const json_t *event, int64_t *last_ns)
{
    const int64_t begin_ns = ns_of(event, "ts"), length_ns = ns_of(event, "dur");
    track *t = track_of(integer_of(event, "pid"), integer_of(event, "tid"));

    if (t == NULL || !t->named)
        return fault(event, "a track without name");
    if (begin_ns < 0 || length_ns < 0)
        return fault(event, "a time below 0, or none");
    if (begin_ns < *last_ns)
        return fault(event, "not sorted");
    *last_ns = begin_ns;
    while (t->depth > 0 && t->end_ns[t->depth - 1] <= begin_ns)
        t->depth--;
    if (t->depth > 0 && t->end_ns[t->depth - 1] < begin_ns + length_ns)
        return fault(event, "overlaps the span before it");
    if (t->depth == MAX_DEPTH)
        return fault(event, "too deep");
    t->end_ns[t->depth++] = begin_ns + length_ns;
    return NULL;
}

const char *trace_fault(const json_t *trace, trace_summary *summary)
{
    const json_t *events = json_object_get(trace, "traceEvents"), *event;
    int64_t last_ns = 0;
    size_t i;

    n_tracks = 0;
    *summary = (trace_summary){0};
    if (!json_is_array(events))
        return "no traceEvents";
    json_array_foreach(events, i, event)
    {
        const char *kind = text_of(event, "ph"), *wrong = NULL;

        if (strcmp(kind, "M") == 0) {
            wrong = check_name(event, summary);
        } else if (strcmp(kind, "X") == 0) {
            wrong = check_span(event, &last_ns);
            summary->n_spans++;
        } else {
            wrong = fault(event, "an event of another kind");
        }
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

json_t *trace_find(const json_t *trace, const char *name, int i)
{
    const json_t *events = json_object_get(trace, "traceEvents");
    json_t *event;
    size_t k;

    json_array_foreach(events, k, event) if (strcmp(text_of(event, "ph"), "X") == 0 &&
                                             strcmp(text_of(event, "name"), name) == 0 &&
                                             i-- == 0) return event;
    return NULL;
}
