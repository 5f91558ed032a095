#include "config.h"

#include "src/plan/show.h"

#include "src/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double pl_tokens_per_s(const pl_search_command *c, const pl_candidate *k)
{
    return (double)c->search.sequences * (double)c->search.seq / k->estimate.step_s;
}

static double days_of(const pl_search_command *c, const pl_candidate *k)
{
    return c->train_tokens / pl_tokens_per_s(c, k) / 86400;
}

static double cost_usd(const pl_search_command *c, const pl_candidate *k)
{
    return days_of(c, k) * 24 * (double)c->search.chips * c->price_usd;
}

pl_status pl_measured_mfu(const pl_search_command *c, double *mfu)
{
    const pl_search_options *o = &c->search;

    *mfu = pl_search_flops(o) / (c->measured_step_s * (double)o->chips * o->peak_flops_per_s);
    if (*mfu <= 1)
        return PL_OK;
    return pl_refuse(PL_WRONG,
                     "--measured-step: %.3g s would be an MFU of %.1f%%, above 100%% of %s x %lld "
                     "chips (the %s peak of %s): another peak, batch or number of chips is meant",
                     c->measured_step_s, 100 * *mfu, pl_si(o->peak_flops_per_s, "FLOP/s").text,
                     (long long)o->chips, pl_peak_name(c->peak), o->hw.name);
}

/* ---- on the screen ---- */

static void print_layout(const pl_search_command *c, const pl_candidate *k)
{
    printf("\n  axis       degree  on\n");
    for (int a = k->mesh.n_axes - 1; a >= 0; a--) {
        char text[160];

        pl_wires_print(&c->search.hw, &k->wires[a], text, sizeof text);
        printf("  %-9s %7d  %s\n", k->mesh.axes[a].name, k->mesh.axes[a].size, text);
    }
    if (k->cp > 1)
        printf("  (cp:%d, by formula, is part of %s: every sequence in %d pieces)\n", k->cp,
               pl_candidate_shared_axis(&k->plan.spec), k->cp);
    if (k->ep > 1)
        printf("  (ep:%d, by formula, is part of %s: %g experts a chip)\n", k->ep,
               pl_candidate_shared_axis(&k->plan.spec),
               (double)c->search.architecture.n_experts / k->ep);
}

static void print_times(const pl_candidate *k)
{
    const pl_estimate *e = &k->estimate;

    printf("\n  time of a step             alone (s)  exposed (s)    sent (B/chip)\n");
    printf("  T_math                  %12.4f %12s\n", e->math_s, "");
    for (int i = 0; i < e->n_streams; i++) {
        const pl_stream *s = &e->stream[i];
        char axes[64];

        pl_axes_print(&k->mesh, s->axes, axes, sizeof axes);
        printf("  T_comms %-15s %12.4f %12.4f %16s\n", axes, s->busy_s, s->exposed_s,
               pl_si(s->wire_bytes, "B").text);
    }
    if (k->cp > 1 || k->ep > 1)
        printf("  T_comms cp, ep          %12s %12.4f\n", "",
               ((k->more.remat == PL_REMAT_BLOCK ? 2 : 1) * k->more.layer_exposed_s[0] +
                k->more.layer_exposed_s[1]) *
                       k->plan.model.n_layers / pl_spec_degree(&k->plan.spec, "pp") *
                       e->n_microbatches +
                   k->more.step_exposed_s);
    if (e->bubble_s > 0)
        printf("  pipeline bubble         %12s %12.4f\n", "", e->bubble_s);
    printf("  bounds: max(T_math, T_comms) %.4f s; T_math + T_comms + bubble %.4f s; predicted "
           "%.4f s\n",
           e->lower_s, e->upper_s, e->step_s);
}

static void print_memory(const pl_search_command *c, const pl_candidate *k)
{
    const double have = c->search.hw.chip.hbm_bytes;

    printf("\n  memory of a chip\n");
    for (int i = 0; i < PL_N_CLASSES; i++)
        if (k->estimate.memory_bytes[i] >= 1e6)
            printf("  %-20s %12s\n", pl_class_name((pl_class)i),
                   pl_si(k->estimate.memory_bytes[i], "B").text);
    printf("  %-20s %12s of %s (%.0f%%)\n", "all", pl_si(k->estimate.total_bytes, "B").text,
           pl_si(have, "B").text, 100 * k->estimate.total_bytes / have);
}

static void print_head(const pl_search_command *c, const pl_candidate *k)
{
    const pl_search_options *o = &c->search;
    char spec[PL_SPEC_TEXT];
    pl_architecture a;

    pl_search_architecture(o, &a);
    pl_candidate_print(k, spec, sizeof spec);
    printf("%s, %s parameters, on %lld x %s (%s, %s)\n", o->model.name,
           pl_si((double)pl_architecture_params(&a).total, "").text, (long long)o->chips,
           o->hw.name, pl_peak_name(c->peak), pl_si(o->peak_flops_per_s, "FLOP/s").text);
    printf("efficiency: products %.2f, attention %.2f, memory %.2f, network %.2f of the peak\n",
           o->hw.efficiency.matmul, o->hw.efficiency.attention, o->hw.efficiency.memory,
           o->hw.efficiency.network);
    printf("batch: %lld sequences of %lld = %s tokens%s\n", (long long)o->sequences,
           (long long)o->seq, pl_thousands(o->sequences * o->seq).text,
           c->rounded ? " (rounded to sequences that many ranks can share)" : "");
    printf("\nbest: %s, ZeRO %d, microbatch %lld x %d, remat %s", spec, k->plan.spec.zero,
           (long long)k->plan.micro_batch, k->estimate.n_microbatches,
           pl_remat_name(k->more.remat));
    if (k->more.interleave > 1)
        printf(", %d chunks of layers a stage", k->more.interleave);
    printf("\n");
    printf("  step %s, MFU %.1f%%, %s tokens/s, %s tokens/s/chip\n",
           pl_si(k->estimate.step_s, "s").text, 100 * k->mfu, pl_si(pl_tokens_per_s(c, k), "").text,
           pl_si(pl_tokens_per_s(c, k) / (double)o->chips, "").text);
    if (c->train_tokens > 0) {
        printf("  %s tokens: %.1f days", pl_si(c->train_tokens, "").text, days_of(c, k));
        if (c->price_usd > 0)
            printf(", %.3g million USD at %.2f USD a chip-hour", cost_usd(c, k) / 1e6,
                   c->price_usd);
        printf("\n");
    }
}

/* The figure in which the runner-up is worst against the best. */
static void explain(const pl_candidate *best, const pl_candidate *k, char *text, size_t size)
{
    const pl_estimate *a = &best->estimate, *b = &k->estimate;
    double worst_s = b->math_s - a->math_s;

    snprintf(text, size, "%.3g s more arithmetic%s", worst_s,
             k->more.remat > best->more.remat ? ": it recomputes" : "");
    if (b->bubble_s - a->bubble_s > worst_s) {
        worst_s = b->bubble_s - a->bubble_s;
        snprintf(text, size, "%.3g s more pipeline bubble", worst_s);
    }
    for (int i = 0; i < b->n_streams; i++) {
        char axes[64], mine[64];
        double before_s = 0;

        pl_axes_print(&k->mesh, b->stream[i].axes, axes, sizeof axes);
        for (int j = 0; j < a->n_streams; j++) {
            pl_axes_print(&best->mesh, a->stream[j].axes, mine, sizeof mine);
            before_s += strcmp(axes, mine) == 0 ? a->stream[j].exposed_s : 0;
        }
        if (b->stream[i].exposed_s - before_s > worst_s) {
            worst_s = b->stream[i].exposed_s - before_s;
            snprintf(text, size, "%.3g s more of %s's communication exposed", worst_s, axes);
        }
    }
}

static void print_others(const pl_search_result *r)
{
    if (r->n > 1)
        printf("\n  others                           step (s)   MFU (%%)  it loses by\n");
    for (int i = 1; i < r->n; i++) {
        const pl_candidate *k = &r->best[i];
        char spec[PL_SPEC_TEXT], why[128];

        pl_candidate_print(k, spec, sizeof spec);
        explain(&r->best[0], k, why, sizeof why);
        printf("  %-30s %10.4f %9.1f  +%.1f%%: %s\n", spec, k->estimate.step_s, 100 * k->mfu,
               100 * (k->estimate.step_s / r->best[0].estimate.step_s - 1), why);
    }
    printf(
        "\n%d meshes: %d do not suit the model or batch, %d not the network, %d not memory; %d %s; "
        "%d programs priced\n",
        r->n_meshes, r->n_refused, r->n_unplaced, r->n_too_large, r->n_bounded,
        r->is_proven ? "cannot be faster by bounds" : "promise less and were left (--effort)",
        r->n_priced);
}

void pl_show_plans(const pl_search_command *c, const pl_search_result *r)
{
    const pl_candidate *best = &r->best[0];
    double mfu;

    print_head(c, best);
    if (c->measured_step_s > 0 && pl_measured_mfu(c, &mfu) == PL_OK)
        printf("  measured: %s, MFU %.1f%%; predicted / measured - 1 = %+.1f%%\n",
               pl_si(c->measured_step_s, "s").text, 100 * mfu,
               100 * (best->estimate.step_s / c->measured_step_s - 1));
    print_layout(c, best);
    print_times(best);
    print_memory(c, best);
    print_others(r);
}

/* ---- JSON ---- */

static json_t *streams_json(const pl_candidate *k)
{
    json_t *streams = json_object();

    for (int i = 0; i < k->estimate.n_streams; i++) {
        const pl_stream *s = &k->estimate.stream[i];
        char axes[64];

        pl_axes_print(&k->mesh, s->axes, axes, sizeof axes);
        json_object_set_new(streams, axes,
                            json_pack("{s:o, s:o, s:o}", "busy_s", pl_json_real(s->busy_s),
                                      "exposed_s", pl_json_real(s->exposed_s),
                                      "sent_bytes_per_chip", pl_json_real(s->wire_bytes)));
    }
    return streams;
}

static void set_real(json_t *object, const char *key, double x)
{
    json_object_set_new(object, key, pl_json_real(x));
}

json_t *pl_candidate_json(const pl_search_command *c, const pl_candidate *k)
{
    const pl_estimate *e = &k->estimate;
    json_t *plan = json_object(), *memory = json_object(), *layout = json_object();
    char text[160];

    pl_candidate_print(k, text, sizeof text);
    json_object_set_new(plan, "strategy", json_string(text));
    json_object_set_new(plan, "zero", json_integer(k->plan.spec.zero));
    json_object_set_new(plan, "cp", json_integer(k->cp));
    json_object_set_new(plan, "ep", json_integer(k->ep));
    json_object_set_new(plan, "micro_batch_sequences", json_integer(k->plan.micro_batch));
    json_object_set_new(plan, "microbatches", json_integer(e->n_microbatches));
    json_object_set_new(plan, "interleave",
                        json_integer(k->more.interleave > 1 ? k->more.interleave : 1));
    json_object_set_new(plan, "remat", json_string(pl_remat_name(k->more.remat)));
    set_real(plan, "step_s", e->step_s);
    set_real(plan, "math_s", e->math_s);
    set_real(plan, "comm_s", e->comm_s);
    set_real(plan, "exposed_s", e->exposed_s);
    set_real(plan, "bubble_s", e->bubble_s);
    set_real(plan, "lower_bound_s", e->lower_s);
    set_real(plan, "upper_bound_s", e->upper_s);
    set_real(plan, "mfu_fraction", k->mfu);
    set_real(plan, "tokens_per_s", pl_tokens_per_s(c, k));
    if (c->train_tokens > 0) {
        set_real(plan, "train_days", days_of(c, k));
        if (c->price_usd > 0)
            set_real(plan, "train_cost_usd", cost_usd(c, k));
    }
    for (int i = 0; i < PL_N_CLASSES; i++) {
        snprintf(text, sizeof text, "%s_bytes", pl_class_name((pl_class)i));
        set_real(memory, text, e->memory_bytes[i]);
    }
    set_real(memory, "total_bytes", e->total_bytes);
    for (int a = 0; a < k->mesh.n_axes; a++) {
        pl_wires_print(&c->search.hw, &k->wires[a], text, sizeof text);
        json_object_set_new(layout, k->mesh.axes[a].name, json_string(text));
    }
    json_object_set_new(plan, "memory_per_chip", memory);
    json_object_set_new(plan, "comms", streams_json(k));
    json_object_set_new(plan, "layout", layout);
    return plan;
}

json_t *pl_plans_json(const pl_search_command *c, const pl_search_result *r)
{
    const pl_search_options *o = &c->search;
    json_t *root = json_object(), *plans = json_array();
    pl_architecture a;
    double mfu;

    pl_search_architecture(o, &a);
    json_object_set_new(root, "model", json_string(o->model.name));
    json_object_set_new(root, "parameters", json_integer(pl_architecture_params(&a).total));
    json_object_set_new(root, "hardware", json_string(o->hw.name));
    json_object_set_new(root, "chips", json_integer(o->chips));
    json_object_set_new(root, "batch_tokens", json_integer(o->sequences * o->seq));
    json_object_set_new(root, "seq_tokens", json_integer(o->seq));
    json_object_set_new(root, "dtype", json_string(pl_peak_name(c->peak)));
    set_real(root, "peak_flops_per_s", o->peak_flops_per_s);
    set_real(root, "hbm_bytes", o->hw.chip.hbm_bytes);
    json_object_set_new(root, "efficiency_fraction",
                        json_pack("{s:f, s:f, s:f, s:f}", "matmul", o->hw.efficiency.matmul,
                                  "attention", o->hw.efficiency.attention, "memory",
                                  o->hw.efficiency.memory, "network", o->hw.efficiency.network));
    if (c->measured_step_s > 0 && pl_measured_mfu(c, &mfu) == PL_OK) {
        set_real(root, "measured_step_s", c->measured_step_s);
        set_real(root, "measured_mfu_fraction", mfu);
    }
    for (int i = 0; i < r->n; i++)
        json_array_append_new(plans, pl_candidate_json(c, &r->best[i]));
    json_object_set_new(root, "plans", plans);
    json_object_set_new(root, "meshes", json_integer(r->n_meshes));
    json_object_set_new(root, "meshes_too_large", json_integer(r->n_too_large));
    json_object_set_new(root, "is_proven", json_boolean(r->is_proven));
    json_object_set_new(root, "programs_priced", json_integer(r->n_priced));
    return root;
}
