#include "config.h"

#include "src/roofline/summary.h"

#include "src/base/json.h"
#include "src/base/panic.h"
#include "src/base/units.h"

static const char *const term_units[PL_N_KERNEL_TERMS] = {
    [PL_TERM_CALL] = "s/call",       [PL_TERM_FLOP] = "s/FLOP",
    [PL_TERM_A] = "s/element of A",  [PL_TERM_B] = "s/element of B",
    [PL_TERM_C] = "s/element of C",  [PL_TERM_ALIASED] = "s/aliased element",
    [PL_TERM_NEAR] = "s/B from L2",
    [PL_TERM_MID] = "s/B from L3",   [PL_TERM_FAR] = "s/B from memory",
};

static const char *const link_names[PL_N_LINKS] = {"same host", "other host"};

/* ---- For people */

static void print_curve(FILE *out, const char *title, const pl_curve *curve, const char *size_unit,
                        const char *unit, double flops_per_s)
{
    for (int i = 0; i < curve->n_points; i++) {
        fprintf(out, "  %-26s %12s %16s", i == 0 ? title : "", pl_si(curve->size[i], size_unit).text,
                pl_si(curve->rate[i], unit).text);
        if (flops_per_s > 0)
            fprintf(out, " %16.1f", flops_per_s / curve->rate[i]);
        fprintf(out, "\n");
    }
}

static void print_link(FILE *out, const pl_link *link, const char *name, double flops_per_s)
{
    if (!(link->latency_s > 0))
        return;
    fprintf(out, "  %-26s %12s %16s\n", name, "latency", pl_si(link->latency_s, "s").text);
    if (link->message_s > 0)
        fprintf(out, "  %-26s %12s %16s\n", "", "next message", pl_si(link->message_s, "s").text);
    fprintf(out, "  %-26s %12s %16s %16.1f\n", "", "one way",
            pl_si(link->one_way_bytes_per_s, "B/s").text, flops_per_s / link->one_way_bytes_per_s);
    fprintf(out, "  %-26s %12s %16s %16.1f\n", "", "both ways",
            pl_si(link->both_ways_bytes_per_s, "B/s").text,
            flops_per_s / link->both_ways_bytes_per_s);
    if (link->core_bytes_per_s > 0)
        fprintf(out, "  %-26s %12s %15.1f%%\n", "", "of a core",
                100 * link->both_ways_bytes_per_s / link->core_bytes_per_s);
}

/* FLOP/s, or bytes per second from L2, L3 and memory; "-" where the term is absent or nothing. */
static pl_text rate_of(double term_s, const char *unit)
{
    return pl_si(term_s > 0 ? 1 / term_s : 1e300 * 1e300, unit);
}

static void print_kernels(FILE *out, const pl_machine *m)
{
    fprintf(out, "\nkernels (fitted)               FLOPs          L2          L3      memory    call "
                 "residual  samples\n");
    for (int i = 0; i < m->n_kernels; i++) {
        const pl_kernel_fit *fit = &m->kernel[i];

        fprintf(out, "  %-22s %11s %11s %11s %11s %7s %7.1f%% %8d%s\n", fit->name,
                rate_of(fit->term_s[PL_TERM_FLOP], "").text,
                rate_of(fit->term_s[PL_TERM_NEAR], "B").text,
                rate_of(fit->term_s[PL_TERM_MID], "B").text,
                rate_of(fit->term_s[PL_TERM_FAR], "B").text, pl_si(fit->term_s[PL_TERM_CALL], "s").text,
                100 * fit->residual, fit->n_samples,
                fit->residual > PL_RESIDUAL_LIMIT ? " !" : "");
    }
    fprintf(out, "(FLOP/s; B/s of operands that come from there; !: the fit cannot be trusted)\n");
}

void pl_summary_print(FILE *out, const pl_machine *m)
{
    const double peak = m->peak_flops_per_s;

    fprintf(out, "%s\n", m->name);
    fprintf(out, "a rank, all %d of a host busy%s\n\n", m->ranks_per_host,
            m->ranks_per_core > 1 ? ", sharing cores" : "");
    fprintf(out, "  %-26s %12s %16s %16s\n", "", "at", "rate", "knee (FLOP/B)");
    print_curve(out, "matmul f32, squares", &m->matmul_flops_per_s, "FLOP", "FLOP/s", 0);
    print_curve(out, "matmul bf16, squares", &m->matmul_bf16_flops_per_s, "FLOP", "FLOP/s", 0);
    print_curve(out, "memory, by working set", &m->memory_bytes_per_s, "B", "B/s", peak);
    for (int c = 0; c < PL_N_LINKS; c++)
        print_link(out, &m->link[c], link_names[c], peak);
    fprintf(out, "  %-26s %12s %16s\n", "reduction of received", "",
            pl_si(m->reduce_bytes_per_s, "B/s").text);
    fprintf(out, "  %-26s %12s %16s\n", "all signal and await", "", pl_si(m->signal_s, "s").text);
    fprintf(out, "  %-26s %12s %16s\n", "beginning an operation", "",
            pl_si(m->op_overhead_s, "s").text);
    fprintf(out, "  %-26s %12s %16s\n", "beginning a collective", "",
            pl_si(m->comm_overhead_s, "s").text);
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

static void put_number(FILE *out, const char *figure, double value, const char *unit)
{
    put(out, json_pack("{s:s, s:o, s:s}", "figure", figure, "value", pl_json_real(value), "unit",
                       unit));
}

static void put_curve(FILE *out, const char *figure, const pl_curve *curve, const char *size_unit,
                      const char *unit)
{
    for (int i = 0; i < curve->n_points; i++)
        put(out, json_pack("{s:s, s:o, s:s, s:o, s:s}", "figure", figure, "value",
                           pl_json_real(curve->rate[i]), "unit", unit, "size",
                           pl_json_real(curve->size[i]), "size_unit", size_unit));
}

static void put_link(FILE *out, const pl_link *link, const char *name)
{
    if (!(link->latency_s > 0))
        return;
    put(out, json_pack("{s:s, s:s, s:o, s:s}", "figure", "link_latency", "link", name, "value",
                       pl_json_real(link->latency_s), "unit", "s"));
    if (link->message_s > 0)
        put(out, json_pack("{s:s, s:s, s:o, s:s}", "figure", "link_message", "link", name, "value",
                           pl_json_real(link->message_s), "unit", "s"));
    put(out, json_pack("{s:s, s:s, s:o, s:s}", "figure", "link_one_way", "link", name, "value",
                       pl_json_real(link->one_way_bytes_per_s), "unit", "B/s"));
    put(out, json_pack("{s:s, s:s, s:o, s:s}", "figure", "link_both_ways", "link", name, "value",
                       pl_json_real(link->both_ways_bytes_per_s), "unit", "B/s"));
}

static void put_link_core(FILE *out, const pl_link *link, const char *name)
{
    if (link->core_bytes_per_s > 0)
        put(out, json_pack("{s:s, s:s, s:o, s:s}", "figure", "link_core", "link", name, "value",
                           pl_json_real(link->core_bytes_per_s), "unit", "B/s"));
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
    put_curve(out, "matmul_f32", &m->matmul_flops_per_s, "FLOP", "FLOP/s");
    put_curve(out, "matmul_bf16", &m->matmul_bf16_flops_per_s, "FLOP", "FLOP/s");
    put_number(out, "peak_f32", m->peak_flops_per_s, "FLOP/s");
    put_curve(out, "memory", &m->memory_bytes_per_s, "B", "B/s");
    put_number(out, "reduce", m->reduce_bytes_per_s, "B/s");
    put_number(out, "copy", m->copy_bytes_per_s, "B/s");
    put_number(out, "signal", m->signal_s, "s");
    put_number(out, "op_overhead", m->op_overhead_s, "s");
    put_number(out, "comm_overhead", m->comm_overhead_s, "s");
    put_number(out, "ranks_per_core", m->ranks_per_core, "1");
    put_number(out, "jitter", m->jitter_s, "s");
    put_number(out, "drift", m->drift, "1");
    put_number(out, "difference", m->difference, "1");
    put_number(out, "disturbed", m->disturbed ? 1 : 0, "1");
    put_curve(out, "shared_made", &m->shared_made_bytes_per_s, "B", "B/s");
    for (int c = 0; c < PL_N_LINKS; c++) {
        put_link(out, &m->link[c], link_names[c]);
        put_link_core(out, &m->link[c], link_names[c]);
    }
    for (int i = 0; i < m->n_kernels; i++)
        put_kernel(out, &m->kernel[i]);
}
