#include "config.h"

#include "src/roofline/summary.h"

#include "src/base/json.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/units.h"

#include <math.h>
#include <string.h>

static const char *const term_units[PL_N_KERNEL_TERMS] = {
    [PL_TERM_CALL] = "s/call",         [PL_TERM_FLOP] = "s/FLOP",
    [PL_TERM_A] = "s/element of A",    [PL_TERM_B] = "s/element of B",
    [PL_TERM_C] = "s/element of C",    [PL_TERM_ALIASED] = "s/aliased element",
    [PL_TERM_NEAR] = "s/B from L2",    [PL_TERM_MID] = "s/B from L3",
    [PL_TERM_FAR] = "s/B from memory",
};

static const char *const link_names[PL_N_LINKS] = {"same host", "other host"};

/* ---- Figures: what both forms show */

/* Where a figure belongs, and how it is called. */
typedef struct {
    const char *name, *title; /* for programs, for people */
    const char *unit;
    double value, spread;
    double size; /* of a point of a curve; 0: no curve's */
    const char *size_unit;
    const char *link;  /* NULL: no link's */
    bool is_byte_rate; /* has a knee */
} figure;

enum { MOST_FIGURES = 32 * PL_MACHINE_POINTS };

typedef struct {
    int n;
    figure all[MOST_FIGURES];
} figures;

static void add(figures *f, figure one)
{
    PL_ASSERT(f->n < MOST_FIGURES);
    if (one.value > 0)
        f->all[f->n++] = one;
}

static void add_curve(figures *f, const pl_curve *curve, figure like)
{
    for (int i = 0; i < curve->n_points; i++) {
        like.value = curve->rate[i];
        like.size = curve->size[i];
        like.spread = curve->spread[i];
        add(f, like);
        like.title = "";
    }
}

static void add_rate(figures *f, const char *link, const char *name, const char *title,
                     double byte_s)
{
    if (byte_s > 0)
        add(f, (figure){
                   .name = name, .title = title, .unit = "B/s", .link = link, .value = 1 / byte_s});
}

/* On the rank where messages take most of the core, and where they take least of it. */
static void add_cores(figures *f, const pl_link *link, const char *name)
{
    const pl_core_cost *dear = &link->core[0], *cheap = dear;

    for (int r = 1; r < link->n_cores; r++) {
        if (link->core[r].byte_s > dear->byte_s)
            dear = &link->core[r];
        if (link->core[r].byte_s < cheap->byte_s)
            cheap = &link->core[r];
    }
    if (link->n_cores == 0)
        return;
    add_rate(f, name, "link_core", "  bytes a core moves, least", dear->byte_s);
    add_rate(f, name, "link_core_sent", "    none coming", dear->sent_byte_s);
    add_rate(f, name, "link_core_received", "    none going", dear->received_byte_s);
    add_rate(f, name, "link_start", "    handed to the system", dear->start_byte_s);
    add(f, (figure){.name = "link_buffered",
                    .title = "    has room there",
                    .unit = "B",
                    .link = name,
                    .value = dear->buffered_bytes});
    if (cheap->byte_s < dear->byte_s)
        add_rate(f, name, "link_core_most", "  and most, by rank", cheap->byte_s);
}

static void add_link(figures *f, const pl_link *link, const char *name)
{
    figure one_way = {.name = "link_one_way",
                      .title = "  one way",
                      .unit = "B/s",
                      .size_unit = "B",
                      .link = name,
                      .is_byte_rate = true};
    figure both_ways = {.name = "link_both_ways",
                        .title = "  both ways at once",
                        .unit = "B/s",
                        .size_unit = "B",
                        .link = name,
                        .is_byte_rate = true};

    if (!(link->latency_s > 0))
        return;
    add(f, (figure){.name = "link_latency",
                    .title = name,
                    .unit = "s",
                    .link = name,
                    .value = link->latency_s,
                    .spread = link->latency_spread});
    add(f, (figure){.name = "link_message",
                    .title = "  a further message",
                    .unit = "s",
                    .link = name,
                    .value = link->message_s});
    add_curve(f, &link->one_way_by_size, one_way);
    add_curve(f, &link->both_ways_by_size, both_ways);
    one_way.value = link->one_way_bytes_per_s;
    both_ways.value = link->both_ways_bytes_per_s;
    if (link->one_way_by_size.n_points == 0)
        add(f, one_way);
    if (link->both_ways_by_size.n_points == 0)
        add(f, both_ways);
    add_cores(f, link, name);
    if (link->late_s > 0)
        add(f, (figure){.name = "link_late",
                        .title = "  a round later beside kernels",
                        .unit = "s",
                        .link = name,
                        .value = link->late_s});
}

static void add_shared(figures *f, const pl_machine *m)
{
    static const char *const names[PL_N_SHARED][3] = {
        [PL_SHARED_COPY] = {"shared_copy", "shared memory, copies", "shared_far_copy"},
        [PL_SHARED_REDUCE] = {"shared_reduce", "shared memory, sums", "shared_far_reduce"},
        [PL_SHARED_SPREAD] = {"shared_spread", "sums into peers", "shared_far_spread"},
        [PL_SHARED_FRESH] = {"shared_fresh", "written by one, read by all", "shared_far_fresh"},
        [PL_SHARED_STAGED] = {"shared_staged", "by way of staging", "shared_far_staged"},
    };

    for (int c = 0; c < PL_N_SHARED; c++) {
        add_curve(f, &m->shared_bytes_per_s[c],
                  (figure){.name = names[c][0],
                           .title = names[c][1],
                           .unit = "B/s",
                           .size_unit = "B",
                           .is_byte_rate = true});
        add(f, (figure){.name = names[c][2],
                        .title = "  from memory",
                        .unit = "B/s",
                        .value = m->shared_far_bytes_per_s[c],
                        .spread = m->spread.shared_far_bytes_per_s[c],
                        .is_byte_rate = true});
    }
    add_curve(f, &m->shared_made_bytes_per_s,
              (figure){.name = "shared_made",
                       .title = "copies of what is just made",
                       .unit = "B/s",
                       .size_unit = "B",
                       .is_byte_rate = true});
}

static void add_scalars(figures *f, const pl_machine *m)
{
    const figure scalars[] = {
        {"attention_f32", "attention f32", "FLOP/s", m->attention_flops_per_s,
         m->spread.attention_flops_per_s, 0, NULL, NULL, false},
        {"attention_bf16", "attention bf16", "FLOP/s", m->attention_bf16_flops_per_s,
         m->spread.attention_bf16_flops_per_s, 0, NULL, NULL, false},
        {"reduce", "reduction of received", "B/s", m->reduce_bytes_per_s,
         m->spread.reduce_bytes_per_s, 0, NULL, NULL, true},
        {"copy", "copy", "B/s", m->copy_bytes_per_s, m->spread.copy_bytes_per_s, 0, NULL, NULL,
         true},
        {"memory_contention", "memory: alone / all at once", "1", m->memory_contention,
         m->spread.memory_contention, 0, NULL, NULL, false},
        {"signal", "all signal and await", "s", m->signal_s, m->spread.signal_s, 0, NULL, NULL,
         false},
        {"op_overhead", "beginning an operation", "s", m->op_overhead_s, m->spread.op_overhead_s, 0,
         NULL, NULL, false},
        {"comm_overhead", "beginning a collective", "s", m->comm_overhead_s,
         m->spread.comm_overhead_s, 0, NULL, NULL, false},
        {"ranks_per_core", "ranks on a core", "1", m->ranks_per_core, 0, 0, NULL, NULL, false},
        {"line", "a cache line to the next rank", "s", m->line_s, m->spread.line_s, 0, NULL, NULL,
         false},
        {"handover", "hand-over of a core", "s", m->handover_s, m->spread.handover_s, 0, NULL, NULL,
         false},
        {"slice", "a rank's time on a shared core", "s", m->slice_s, m->spread.slice_s, 0, NULL,
         NULL, false},
        {"jitter", "jitter of ranks", "s", m->jitter_s, 0, 0, NULL, NULL, false},
        {"drift", "drift of ranks", "1", m->drift, 0, 0, NULL, NULL, false},
        {"difference", "difference of passes", "1", m->difference, 0, 0, NULL, NULL, false},
    };

    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        add(f, scalars[i]);
}

static void list_figures(const pl_machine *m, figures *f)
{
    const figure products = {.unit = "FLOP/s", .size_unit = "FLOP"};
    figure f32 = products, bf16 = products;

    f32.name = "matmul_f32";
    f32.title = "matmul f32, squares";
    bf16.name = "matmul_bf16";
    bf16.title = "matmul bf16, squares";
    f->n = 0;
    add_curve(f, &m->matmul_flops_per_s, f32);
    add_curve(f, &m->matmul_bf16_flops_per_s, bf16);
    add(f, (figure){.name = "peak_f32",
                    .title = "peak f32",
                    .unit = "FLOP/s",
                    .value = m->peak_flops_per_s});
    add(f, (figure){.name = "peak_bf16",
                    .title = "peak bf16",
                    .unit = "FLOP/s",
                    .value = m->peak_bf16_flops_per_s});
    add_curve(f, &m->memory_bytes_per_s,
              (figure){.name = "memory",
                       .title = "memory, by working set",
                       .unit = "B/s",
                       .size_unit = "B",
                       .is_byte_rate = true});
    for (int c = 0; c < PL_N_LINKS; c++)
        add_link(f, &m->link[c], link_names[c]);
    add_shared(f, m);
    add_scalars(f, m);
}

static bool is_trusted(const figure *one)
{
    return one->spread <= PL_MOST_SPREAD;
}

/* ---- For people */

/* The knee: FLOPs per byte above which products take the time. */
static void print_figure(FILE *out, const figure *one, double flops_per_s)
{
    const bool plain = strcmp(one->unit, "1") == 0;
    char value[48], knee[24] = "", spread[24] = "";

    if (plain)
        snprintf(value, sizeof value, "%.3g", one->value);
    else
        snprintf(value, sizeof value, "%s", pl_si(one->value, one->unit).text);
    if (one->is_byte_rate)
        snprintf(knee, sizeof knee, "%.1f", flops_per_s / one->value);
    if (one->spread > 0)
        snprintf(spread, sizeof spread, "%.1f%%%s", 100 * one->spread,
                 is_trusted(one) ? "  " : " !");
    fprintf(out, "  %-28s %12s %14s %14s %10s\n", one->title,
            one->size > 0 ? pl_si(one->size, one->size_unit).text : "", value, knee, spread);
}

/* FLOP/s, or bytes per second from L2, L3 and memory; "-" where the term is absent or nothing. */
static pl_text rate_of(double term_s, const char *unit)
{
    return pl_si(term_s > 0 ? 1 / term_s : 1e300 * 1e300, unit);
}

static void print_kernels(FILE *out, const pl_machine *m)
{
    fprintf(out,
            "\nkernels (fitted)               FLOPs          L2          L3      memory    call "
            "residual  samples\n");
    for (int i = 0; i < m->n_kernels; i++) {
        const pl_kernel_fit *fit = &m->kernel[i];

        fprintf(out, "  %-22s %11s %11s %11s %11s %7s %7.1f%% %8d%s\n", fit->name,
                rate_of(fit->term_s[PL_TERM_FLOP], "").text,
                rate_of(fit->term_s[PL_TERM_NEAR], "B").text,
                rate_of(fit->term_s[PL_TERM_MID], "B").text,
                rate_of(fit->term_s[PL_TERM_FAR], "B").text,
                pl_si(fit->term_s[PL_TERM_CALL], "s").text, 100 * fit->residual, fit->n_samples,
                fit->residual > PL_RESIDUAL_LIMIT ? " !" : "");
    }
    fprintf(out, "(FLOP/s; B/s of operands that come from there; !: the fit cannot be trusted)\n");
}

void pl_summary_print(FILE *out, const pl_machine *m)
{
    figures *f = pl_alloc(sizeof *f);

    list_figures(m, f);
    fprintf(out, "%s\n", m->name);
    fprintf(out, "a rank, all %d of a host busy%s%s\n\n", m->ranks_per_host,
            m->ranks_per_core > 1 ? ", sharing cores" : "",
            m->disturbed ? "; DISTURBED: not to be trusted" : "");
    fprintf(out, "  %-28s %12s %14s %14s %10s\n", "", "at", "value", "knee (FLOP/B)", "spread");
    for (int i = 0; i < f->n; i++)
        print_figure(out, &f->all[i], m->peak_flops_per_s);
    fprintf(out,
            "(knee: above it products of f32 take the time; spread of repeated measurements; "
            "!: beyond %.0f%%, cannot be trusted)\n",
            100 * PL_MOST_SPREAD);
    pl_free(f);
    if (m->n_kernels > 0)
        print_kernels(out, m);
}

/* ---- For programs */

static void put(FILE *out, json_t *object)
{
    PL_ASSERT(object != NULL);
    json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    fputc('\n', out);
    json_decref(object);
}

static void put_figure(FILE *out, const figure *one)
{
    json_t *object = json_pack("{s:s, s:o, s:s, s:o, s:b}", "figure", one->name, "value",
                               pl_json_real(one->value), "unit", one->unit, "spread",
                               pl_json_real(one->spread), "trusted", is_trusted(one));

    if (one->size > 0) {
        json_object_set_new(object, "size", pl_json_real(one->size));
        json_object_set_new(object, "size_unit", json_string(one->size_unit));
    }
    if (one->link != NULL)
        json_object_set_new(object, "link", json_string(one->link));
    put(out, object);
}

static void put_kernel(FILE *out, const pl_kernel_fit *fit)
{
    for (int t = 0; t < PL_N_KERNEL_TERMS; t++)
        if (fit->term_s[t] > 0)
            put(out, json_pack("{s:s, s:s, s:o, s:s, s:o, s:i, s:b}", "figure", "kernel", "kernel",
                               fit->name, "value", pl_json_real(fit->term_s[t]), "unit",
                               term_units[t], "residual", pl_json_real(fit->residual), "samples",
                               fit->n_samples, "trusted", fit->residual <= PL_RESIDUAL_LIMIT));
}

void pl_summary_json(FILE *out, const pl_machine *m)
{
    const figure disturbed = {.name = "disturbed", .unit = "1", .value = m->disturbed ? 1 : 0};
    figures *f = pl_alloc(sizeof *f);

    list_figures(m, f);
    for (int i = 0; i < f->n; i++)
        put_figure(out, &f->all[i]);
    put_figure(out, &disturbed);
    pl_free(f);
    for (int i = 0; i < m->n_kernels; i++)
        put_kernel(out, &m->kernel[i]);
}
