#include "config.h"

#include "src/trace/chrome.h"

#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/program/communicate.h"
#include "src/program/kinds.h"
#include "src/program/statement.h"
#include "src/trace/clocks.h"
#include "src/mesh/exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, N_DETAILS = 8 };

/* ---- One rank's events */

typedef struct {
    const pl_program *const *programs;
    pl_coords coords;
    pl_trace_rank out;
    size_t titles_room;
    int32_t *of_op[2][N_DETAILS]; /* title of each op of each program, as work or as a wait; -1
                                   * before it is needed */
} collector;

static int32_t add_title(collector *c, json_t *members)
{
    pl_trace_rank *out = &c->out;
    char *text = json_dumps(members, JSON_COMPACT | JSON_PRESERVE_ORDER);

    PL_ASSERT(text != NULL);
    const size_t bytes = strlen(text) + 1;
    if ((size_t)out->titles_bytes + bytes > c->titles_room) {
        const size_t room = 2 * (c->titles_room + bytes);

        out->titles = pl_realloc(out->titles, c->titles_room, room);
        c->titles_room = room;
    }
    memcpy(out->titles + out->titles_bytes, text, bytes);
    out->titles_bytes += (int64_t)bytes;
    free(text);
    json_decref(members);
    return out->n_titles++;
}

static void set(json_t *object, const char *key, json_t *value)
{
    PL_ASSERT(value != NULL && json_object_set_new(object, key, value) == 0);
}

static json_t *arguments_of(const collector *c, const pl_program *p, const pl_op *op)
{
    json_t *args = json_object();
    const pl_op_cost cost = pl_op_cost_at(p, op, c->coords);
    char axes[NAME];

    set(args, "op", json_integer(op - p->ops));
    if (pl_layer_is_numbered(op->layer))
        set(args, "layer", json_integer(op->layer));
    if (op->microbatch != PL_NO_MICROBATCH)
        set(args, "microbatch", json_integer(op->microbatch));
    if (!pl_kind_is_communication(op->kind)) {
        set(args, "flops", json_real(cost.flops));
        set(args, "bytes", json_real(cost.bytes));
        return args;
    }
    pl_axes_print(p->mesh, op->axes, axes, sizeof axes);
    set(args, "axes", json_string(axes));
    set(args, "bytes", json_integer(pl_op_sent_bytes(p, op, c->coords)));
    set(args, "arrays", json_integer(op->n_in > op->n_out ? op->n_in : op->n_out));
    set(args, "critical", json_boolean(op->critical));
    return args;
}

/* "AllGather_fsdp layers.0.attn.norm + 8". */
static int32_t title_of_op(collector *c, int detail, int i, bool waits)
{
    const pl_program *p = c->programs[detail];
    int32_t **titles = &c->of_op[waits][detail];
    char verb[NAME], name[3 * NAME], more[32] = "";

    PL_ASSERT(i >= 0 && i < p->n_ops);
    if (*titles == NULL) {
        *titles = pl_alloc((size_t)(p->n_ops + 1) * sizeof **titles);
        for (int k = 0; k < p->n_ops; k++)
            (*titles)[k] = -1;
    }
    if ((*titles)[i] >= 0)
        return (*titles)[i];
    const pl_op *op = &p->ops[i];
    const int v = op->n_out > 0 ? op->out[0] : op->in[0];
    pl_op_verb(p, op, verb, sizeof verb);
    if (pl_kind_is_communication(op->kind) && op->n_out > 1)
        snprintf(more, sizeof more, " + %d", op->n_out - 1);
    snprintf(name, sizeof name, "%s%s %s%s", waits ? "wait: " : "", verb, p->values[v].name, more);

    json_t *members = json_object();
    set(members, "name", json_string(name));
    set(members, "cat", json_string(waits ? "wait" : pl_phase_name(op->phase)));
    set(members, "args", arguments_of(c, p, op));
    (*titles)[i] = add_title(c, members);
    return (*titles)[i];
}

static int32_t title_of_step(collector *c, int32_t step)
{
    char name[NAME];
    json_t *members = json_object(), *args = json_object();

    snprintf(name, sizeof name, "step %" PRId32, step);
    set(args, "step", json_integer(step));
    set(members, "name", json_string(name));
    set(members, "cat", json_string("step"));
    set(members, "args", args);
    return add_title(c, members);
}

static void add_event(collector *c, const pl_span *span, double clock_offset_s)
{
    pl_trace_event *e = &c->out.events[c->out.n_events++];

    /* Rounding keeps order, so what nests in seconds nests in nanoseconds. */
    e->begin_ns = llround((span->begin_s - clock_offset_s) * 1e9);
    e->end_ns = llround((span->end_s - clock_offset_s) * 1e9);
    e->lane = span->track == PL_TRACK_COMM ? PL_TRACE_FIRST_COMM : PL_TRACE_COMPUTE;
    if (span->track == PL_TRACK_STEP) {
        e->title = title_of_step(c, span->what);
        return;
    }
    PL_ASSERT(span->detail >= 0 && span->detail < N_DETAILS);
    const pl_op *op = &c->programs[span->detail]->ops[span->what];
    const bool waits = span->track == PL_TRACK_COMPUTE && pl_kind_is_communication(op->kind);
    e->title = title_of_op(c, span->detail, span->what, waits);
}

/* By time; of two that begin together the longer one is the outer one. The rest makes the order
 * total, so that the file does not depend on how qsort treats equals. */
static int compare_events(const void *a, const void *b)
{
    const pl_trace_event *x = a, *y = b;

    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->title < y->title ? -1 : x->title > y->title;
}

/* Deal the communications, sorted by begin, to lanes: each to the first lane that is free again. */
static void assign_lanes(pl_trace_rank *t)
{
    int64_t *free_from = NULL;
    size_t room = 0;
    int n = 0;

    for (int64_t i = 0; i < t->n_events; i++) {
        pl_trace_event *e = &t->events[i];
        int lane = 0;

        if (e->lane == PL_TRACE_COMPUTE)
            continue;
        while (lane < n && free_from[lane] > e->begin_ns)
            lane++;
        if (lane == n) {
            free_from = pl_realloc(free_from, room, room + sizeof *free_from);
            room += sizeof *free_from;
            n++;
        }
        free_from[lane] = e->end_ns;
        e->lane = PL_TRACE_FIRST_COMM + lane;
    }
    t->n_lanes = PL_TRACE_FIRST_COMM + n;
    pl_free(free_from);
}

static void label_rank(pl_trace_rank *t, const pl_mesh *mesh, pl_coords coords)
{
    size_t at = 0;

    for (int a = 0; a < mesh->n_axes && at < sizeof t->label; a++)
        at += (size_t)snprintf(t->label + at, sizeof t->label - at, "%s%s:%d", a > 0 ? " " : "",
                               mesh->axes[a].name, coords.at[a]);
}

pl_trace_rank pl_trace_collect(const pl_span_buffer *spans, const pl_program *const *programs,
                               int rank, pl_coords coords, double clock_offset_s)
{
    collector c = {.programs = programs, .coords = coords};

    label_rank(&c.out, programs[0]->mesh, coords);
    c.out.n_dropped = spans->n_dropped;
    c.out.events = pl_alloc((size_t)spans->n_spans * sizeof *c.out.events);
    for (int64_t i = 0; i < spans->n_spans; i++) {
        add_event(&c, &spans->spans[i], clock_offset_s);
        c.out.events[i].rank = rank;
    }
    qsort(c.out.events, (size_t)c.out.n_events, sizeof *c.out.events, compare_events);
    assign_lanes(&c.out);
    for (int w = 0; w < 2; w++)
        for (int d = 0; d < N_DETAILS; d++)
            pl_free(c.of_op[w][d]);
    return c.out;
}

void pl_trace_rank_free(pl_trace_rank *trace)
{
    pl_free(trace->events);
    pl_free(trace->titles);
    *trace = (pl_trace_rank){0};
}

/* ---- The file */

static void print_name(FILE *file, const char *what, int rank, int lane, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A metadata event that names a process or a thread. */
static void print_name(FILE *file, const char *what, int rank, int lane, const char *format, ...)
{
    char name[NAME];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    fprintf(file, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
            what, rank, lane, name);
}

static void print_names(FILE *file, const pl_trace_rank *t, int rank)
{
    print_name(file, "process_name", rank, PL_TRACE_COMPUTE, "rank %d%s%s", rank,
               t->label[0] != '\0' ? ", " : "", t->label);
    fputs(",\n", file);
    print_name(file, "thread_name", rank, PL_TRACE_COMPUTE, "compute");
    for (int lane = PL_TRACE_FIRST_COMM; lane < t->n_lanes; lane++) {
        fputs(",\n", file);
        print_name(file, "thread_name", rank, lane, "communication %d",
                   lane - PL_TRACE_FIRST_COMM + 1);
    }
}

/* Microseconds with their nanoseconds. */
static void print_time(FILE *file, const char *key, int64_t ns)
{
    fprintf(file, "\"%s\":%" PRId64 ".%03d,", key, ns / 1000, (int)(ns % 1000));
}

static void print_event(FILE *file, const pl_trace_event *e, int64_t origin_ns, const char *title)
{
    fprintf(file, "{\"ph\":\"X\",\"pid\":%" PRId32 ",\"tid\":%" PRId32 ",", e->rank, e->lane);
    print_time(file, "ts", e->begin_ns - origin_ns);
    print_time(file, "dur", e->end_ns - e->begin_ns);
    fputs(title + 1, file); /* without its opening brace */
}

/* Where each title of a rank begins. */
static const char **index_titles(const pl_trace_rank *t)
{
    const char **titles = pl_alloc((size_t)(t->n_titles + 1) * sizeof *titles);
    const char *at = t->titles;

    for (int32_t i = 0; i < t->n_titles; i++) {
        titles[i] = at;
        at += strlen(at) + 1;
    }
    return titles;
}

/* A rank's events as they are printed. */
typedef struct {
    const pl_trace_event *next, *end;
    const char **titles; /* those of the rank before where both have the same */
    bool owns_titles;
} printed_rank;

static printed_rank *open_ranks(const pl_trace_rank *ranks, int n_ranks)
{
    printed_rank *list = pl_alloc((size_t)n_ranks * sizeof *list);

    for (int r = 0; r < n_ranks; r++) {
        list[r].next = ranks[r].events;
        list[r].end = ranks[r].events + ranks[r].n_events;
        list[r].owns_titles = r == 0 || ranks[r].titles != ranks[r - 1].titles;
        list[r].titles = list[r].owns_titles ? index_titles(&ranks[r]) : list[r - 1].titles;
    }
    return list;
}

/* The rank whose next event is the first of all; NULL: there are no more. */
static printed_rank *first_of(printed_rank *list, int n_ranks)
{
    printed_rank *first = NULL;

    for (int r = 0; r < n_ranks; r++)
        if (list[r].next < list[r].end &&
            (first == NULL || compare_events(list[r].next, first->next) < 0))
            first = &list[r];
    return first;
}

void pl_trace_print(FILE *file, const pl_trace_rank *ranks, int n_ranks)
{
    printed_rank *list = open_ranks(ranks, n_ranks), *r = first_of(list, n_ranks);
    const int64_t origin_ns = r != NULL ? r->next->begin_ns : 0;

    fprintf(file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int i = 0; i < n_ranks; i++) {
        fputs(i > 0 ? ",\n" : "", file);
        print_names(file, &ranks[i], i);
    }
    for (; r != NULL; r = first_of(list, n_ranks)) {
        fputs(",\n", file);
        print_event(file, r->next, origin_ns, r->titles[r->next->title]);
        r->next++;
    }
    fprintf(file, "\n]}\n");
    for (int i = 0; i < n_ranks; i++)
        if (list[i].owns_titles)
            pl_free(list[i].titles);
    pl_free(list);
}

/* ---- All ranks */

static pl_status refuse_write(const char *path)
{
    return pl_refuse(PL_BAD_INPUT, "--trace: %s: cannot write: %s", path, strerror(errno));
}

pl_status pl_trace_open(pl_trace *trace, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL)
        return refuse_write(path);
    *trace = (pl_trace){.file = file, .path = path};
    return PL_OK;
}

pl_status pl_trace_close(pl_trace *trace)
{
    FILE *file = trace->file;
    const bool failed = ferror(file) != 0;

    trace->file = NULL;
    return fclose(file) != 0 || failed ? refuse_write(trace->path) : PL_OK;
}

static void send_rank(MPI_Comm comm, const pl_trace_rank *t)
{
    pl_bytes_send(comm, 0, t, sizeof *t);
    pl_bytes_send(comm, 0, t->events, (size_t)t->n_events * sizeof *t->events);
    pl_bytes_send(comm, 0, t->titles, (size_t)t->titles_bytes);
}

static pl_trace_rank receive_rank(MPI_Comm comm, int rank)
{
    pl_trace_rank t;

    pl_bytes_recv(comm, rank, &t, sizeof t);
    t.events = pl_alloc((size_t)t.n_events * sizeof *t.events);
    t.titles = pl_alloc((size_t)t.titles_bytes);
    pl_bytes_recv(comm, rank, t.events, (size_t)t.n_events * sizeof *t.events);
    pl_bytes_recv(comm, rank, t.titles, (size_t)t.titles_bytes);
    return t;
}

static pl_status print_and_close(pl_trace *trace, const pl_trace_rank *ranks, int n_ranks)
{
    FILE *file = trace->file;
    int64_t n_dropped = 0;

    if (file == NULL)
        return PL_OK;
    for (int r = 0; r < n_ranks; r++)
        n_dropped += ranks[r].n_dropped;
    if (n_dropped > 0)
        pl_warn("--trace: %" PRId64 " spans did not fit and are missing; trace fewer steps",
                n_dropped);
    pl_trace_print(file, ranks, n_ranks);
    return pl_trace_close(trace);
}

pl_status pl_trace_write(pl_trace *trace, MPI_Comm comm, const pl_span_buffer *spans,
                         const pl_program *const *programs, pl_coords coords)
{
    int rank, n_ranks;
    pl_status status = PL_OK;
    const double offset_s = pl_clock_offset_s(comm);

    PL_MPI(MPI_Comm_rank(comm, &rank));
    PL_MPI(MPI_Comm_size(comm, &n_ranks));
    pl_trace_rank mine = pl_trace_collect(spans, programs, rank, coords, offset_s);
    if (rank != 0) {
        send_rank(comm, &mine);
        pl_trace_rank_free(&mine);
        return PL_OK;
    }
    pl_trace_rank *ranks = pl_alloc((size_t)n_ranks * sizeof *ranks);
    ranks[0] = mine;
    for (int r = 1; r < n_ranks; r++)
        ranks[r] = receive_rank(comm, r);
    status = print_and_close(trace, ranks, n_ranks);
    for (int r = 0; r < n_ranks; r++)
        pl_trace_rank_free(&ranks[r]);
    pl_free(ranks);
    return status;
}
