#include "config.h"

#include "src/collbench/picture.h"

#include "collectives/cost.h"
#include "src/base/block.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/units.h"
#include "src/collbench/axes.h"
#include "src/collbench/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SHOWN = 16,  /* ranks of which steps are shown */
    TEXT = 512,       /* of a step */
    MOST_WIDTH = 132, /* of a line, where ranks stand side by side */
    MOST_PIECES = 4,  /* of a region */
};

/* ---- words */

typedef struct {
    char *at;
    size_t left;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(w->at, w->left, format, args);
    va_end(args);
    const size_t written = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
    w->at += written;
    w->left -= written;
}

/* The block of the whole array that begins at element `at` (n_ranks at its end); -1 for none. */
static int block_at(const pl_bench_case *c, int64_t at)
{
    if (at == c->count)
        return c->n_ranks;
    if (at > c->count)
        return -1;
    const int b = pl_block_owner(c->count, c->n_ranks, at);
    return pl_block_begin(c->count, c->n_ranks, b) == at ? b : -1;
}

/* n elements of an array from `begin` on: as blocks where they are some. */
static void put_range(writer *w, const pl_bench_case *c, int array, int64_t begin, int64_t n)
{
    const int first = block_at(c, begin), end = block_at(c, begin + n);
    const char *name = array == PL_SCRATCH    ? "scratch"
                       : array == PL_STAGING  ? "staging"
                       : array == PL_BENCH_IN ? "in"
                                              : "out";

    if (array >= 0 && begin == 0 && n == pl_bench_elements(c, array))
        put(w, "%s", name);
    else if (first < 0 || end < 0)
        put(w, "%s(%lld+%lld)", name, (long long)begin, (long long)n);
    else if (end == first + 1)
        put(w, "%s[%d]", name, first);
    else
        put(w, "%s[%d-%d]", name, first, end - 1);
}

static void put_region(writer *w, const pl_bench_case *c, pl_region region)
{
    for (int i = 0; i < region.n_pieces && i < MOST_PIECES; i++) {
        const pl_piece *p = &region.pieces[i];

        put(w, "%s", i > 0 ? "," : "");
        put_range(w, c, p->array, p->offset, p->count * p->length);
    }
    if (region.n_pieces > MOST_PIECES)
        put(w, ",...");
}

static void put_place(writer *w, const pl_bench_case *c, pl_place place)
{
    put_region(w, c, place.region);
    if (place.rank != PL_SELF && place.rank != c->rank)
        put(w, "@%d", place.rank);
}

static void put_combine(writer *w, const pl_bench_case *c, const pl_step *s)
{
    for (int i = 0; i < s->n_to; i++) {
        put(w, "%s", i > 0 ? ", " : "");
        put_place(w, c, s->to[i]);
    }
    put(w, " = %s", s->n_from > 1 && s->reduction == PL_MAX ? "max of " : "");
    for (int i = 0; i < s->n_from; i++) {
        put(w, "%s", i == 0 ? "" : s->reduction == PL_SUM ? " + " : ", ");
        put_place(w, c, s->from[i]);
    }
}

static void put_await(writer *w, const pl_step *s)
{
    if (s->stage == PL_STAGE_END)
        put(w, "await %d: end of run -%d", s->peer, s->lag);
    else
        put(w, "await %d: %d", s->peer, s->stage);
}

static void put_step(writer *w, const pl_bench_case *c, const pl_step *s)
{
    switch (s->kind) {
    case PL_STEP_COPY:
        put_region(w, c, s->region);
        put(w, " = ");
        put_region(w, c, s->source);
        break;
    case PL_STEP_SEND:
        put_region(w, c, s->region);
        put(w, " -> %d", s->peer);
        break;
    case PL_STEP_RECV:
        put_region(w, c, s->region);
        put(w, " <- %d", s->peer);
        break;
    case PL_STEP_RECV_REDUCE:
        put_region(w, c, s->region);
        put(w, " %s <- %d", s->reduction == PL_SUM ? "+=" : "max=", s->peer);
        break;
    case PL_STEP_AWAIT:
        put_await(w, s);
        break;
    case PL_STEP_COMBINE:
        put_combine(w, c, s);
        break;
    default: /* PL_STEP_SIGNAL */
        put(w, "signal %d", s->stage);
        break;
    }
}

/* ---- the picture */

typedef struct {
    pl_bench_case c; /* its rank: whose text is written */
    int n_shown;
    pl_schedule *schedules[MOST_SHOWN];
    int width; /* of a rank's column; 0: ranks stand below each other */
} picture;

/* Step i of rank r's round, or "" when it has fewer. */
static bool write_step(picture *p, int r, int round, int i, char *text)
{
    writer w = {text, TEXT};
    const pl_step *steps;
    int n;

    text[0] = '\0';
    if (round >= pl_schedule_n_rounds(p->schedules[r]))
        return false;
    steps = pl_schedule_round(p->schedules[r], round, &n);
    if (i >= n)
        return false;
    p->c.rank = r;
    put_step(&w, &p->c, &steps[i]);
    return true;
}

static int most_rounds(const picture *p)
{
    int most = 0;

    for (int r = 0; r < p->n_shown; r++)
        if (pl_schedule_n_rounds(p->schedules[r]) > most)
            most = pl_schedule_n_rounds(p->schedules[r]);
    return most;
}

/* Columns where they fit. */
static void measure(picture *p)
{
    const int n_rounds = most_rounds(p);
    char text[TEXT];
    size_t width = 7;

    for (int round = 0; round < n_rounds; round++)
        for (int r = 0; r < p->n_shown; r++)
            for (int i = 0; write_step(p, r, round, i, text); i++)
                if (strlen(text) > width)
                    width = strlen(text);
    p->width = (width + 2) * (size_t)p->n_shown <= MOST_WIDTH ? (int)width + 2 : 0;
}

static void print_side_by_side(picture *p)
{
    const int n_rounds = most_rounds(p);
    char text[TEXT];

    pl_print("round  ");
    for (int r = 0; r < p->n_shown; r++)
        pl_print("rank %-*d", r + 1 < p->n_shown ? p->width - 5 : 0, r);
    pl_print("\n");
    for (int round = 0; round < n_rounds; round++)
        for (int i = 0;; i++) {
            bool any = false;

            for (int r = 0; r < p->n_shown; r++)
                any = write_step(p, r, round, i, text) || any;
            if (!any)
                break;
            if (i == 0)
                pl_print("%5d  ", round + 1);
            else
                pl_print("%7s", "");
            for (int r = 0; r < p->n_shown; r++) {
                write_step(p, r, round, i, text);
                pl_print("%-*s", r + 1 < p->n_shown ? p->width : 0, text);
            }
            pl_print("\n");
        }
}

static void print_below_each_other(picture *p)
{
    const int n_rounds = most_rounds(p);
    char text[TEXT];

    for (int round = 0; round < n_rounds; round++) {
        pl_print("round %d\n", round + 1);
        for (int r = 0; r < p->n_shown; r++) {
            for (int i = 0; write_step(p, r, round, i, text); i++) {
                if (i == 0)
                    pl_print("  rank %-4d ", r);
                pl_print("%s%s", i > 0 ? ";  " : "", text);
            }
            if (write_step(p, r, round, 0, text))
                pl_print("\n");
        }
    }
}

static void print_counts(const picture *p, const pl_chooser *chooser, const pl_site *site)
{
    const pl_schedule_counts k = pl_schedule_count(p->schedules[0], p->c.dtype);

    pl_print("rank 0: %d rounds; %lld messages of %s in all; %s put in motion between ranks; %s "
             "read and %s written here\n",
             pl_schedule_n_rounds(p->schedules[0]), (long long)k.messages,
             pl_si((double)k.sent_bytes, "B").text, pl_si((double)k.wire_bytes, "B").text,
             pl_si((double)k.read_bytes, "B").text, pl_si((double)k.written_bytes, "B").text);
    if (chooser->machine != NULL)
        pl_print("predicted: %s on %s\n",
                 pl_si(pl_schedule_price_s(p->schedules[0], p->c.dtype, chooser->machine, site, 0) +
                           chooser->machine->comm_overhead_s,
                       "s")
                     .text,
                 chooser->machine->name);
}

static void print_case(const pl_bench_case *c, const pl_chooser *chooser, const pl_site *site)
{
    picture p = {.c = *c, .n_shown = c->n_ranks < MOST_SHOWN ? c->n_ranks : MOST_SHOWN};
    pl_arena *arena = pl_arena_create();
    const char *algo = NULL;

    for (int r = 0; r < p.n_shown; r++) {
        pl_bench_case mine = *c;

        mine.rank = r;
        const pl_collective_call call = pl_bench_call(arena, &mine);
        p.schedules[r] = pl_collective_schedule(&call, chooser, site, r, &algo);
    }
    pl_print("\n%s by %s: %d rank%s on %d host%s, %lld bytes, blocks of %lld %s\n",
             pl_collective_name(c->collective), algo, c->n_ranks, c->n_ranks == 1 ? "" : "s",
             site->n_hosts, site->n_hosts == 1 ? "" : "s",
             (long long)(c->count * (int64_t)pl_dtype_bytes(c->dtype)),
             (long long)pl_block_largest(c->count, c->n_ranks), pl_dtype_name(c->dtype));
    measure(&p);
    if (p.width > 0)
        print_side_by_side(&p);
    else
        print_below_each_other(&p);
    if (p.n_shown < c->n_ranks)
        pl_print("ranks %d to %d are not shown\n", p.n_shown, c->n_ranks - 1);
    print_counts(&p, chooser, site);
    for (int r = 0; r < p.n_shown; r++)
        pl_schedule_destroy(p.schedules[r]);
    pl_arena_destroy(arena);
}

static void print_legend(bool priced)
{
    pl_print(
        "in[b], out[b]: block b of what is given, of what is wanted; x -> r, x <- r: a message;\n"
        "x += <- r: added to x; x@r: memory of rank r\n"
        "signal s: stage s is reached; await r: s: until rank r has reached it. What stands in one "
        "round goes on at once.\n");
    if (!priced)
        pl_print("No --machine, so nothing is priced: --algo names another algorithm than the "
                 "first that applies.\n");
}

/* What is asked for first among n. */
static int first_of(const bool *asked, int n)
{
    for (int i = 0; i < n; i++)
        if (asked[i])
            return i;
    return 0;
}

static pl_site make_site(pl_arena *arena, int n, int n_hosts)
{
    int *host_of = pl_arena_alloc(arena, (size_t)n * sizeof *host_of);

    for (int r = 0; r < n; r++)
        host_of[r] = pl_block_owner(n, n_hosts, r);
    return pl_site_on_hosts(arena, n, host_of, true);
}

pl_status pl_bench_print_schedules(const pl_bench_options *o, int n_ranks)
{
    const int n = o->n_ranks > 0 ? (int)o->n_ranks : n_ranks;
    const int n_hosts = o->n_hosts > 0 ? (int)o->n_hosts : 1;
    const char *algo = o->algo != NULL ? o->algo : getenv(PL_ALGO_VARIABLE);
    const pl_dtype dtype = (pl_dtype)first_of(o->dtype, PL_N_DTYPES);
    pl_chooser chooser = {.algo = algo};
    pl_mesh mesh = {.n_axes = 0};
    pl_axes axes;
    pl_machine machine;
    pl_status status = pl_bench_mesh_parse(o->mesh, n, &mesh);

    if (status == PL_OK)
        status = pl_bench_axes_parse(o->axis, &mesh, &axes);
    if (status == PL_OK)
        status = pl_chooser_check(algo);
    if (status == PL_OK && n_hosts > n)
        status =
            pl_refuse(PL_BAD_INPUT, "--hosts: %d hosts for %d ranks; give --ranks", n_hosts, n);
    if (status == PL_OK && o->machine != NULL)
        status = pl_machine_read(o->machine, &machine);
    if (status != PL_OK)
        return status;
    chooser.machine = o->machine != NULL ? &machine : NULL;
    /* A group of all ranks: an axis alone is asked for by --ranks. */
    pl_arena *arena = pl_arena_create();
    pl_site site = make_site(arena, n, n_hosts);
    pl_bench_site_set_axes(&site, &mesh, (1u << mesh.n_axes) - 1);
    print_legend(chooser.machine != NULL);
    for (int op = 0; op < PL_N_COLLECTIVES; op++)
        if (o->op[op])
            print_case(
                &(pl_bench_case){.collective = (pl_collective)op,
                                 .dtype = dtype,
                                 .reduction = (pl_reduction)first_of(o->reduction, PL_N_REDUCTIONS),
                                 .count = pl_bench_count((pl_collective)op, o->min_bytes, dtype, n),
                                 .n_ranks = n},
                &chooser, &site);
    pl_arena_destroy(arena);
    return PL_OK;
}
