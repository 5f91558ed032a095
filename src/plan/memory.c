/* plan memory -- what a training step keeps on a chip, under each strategy. */
#include "config.h"

#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "src/roofline/footprint.h"

#include <math.h>
#include <stdio.h>

static const pl_ask_option options[] = {
    {"chips", "chips", "chips in all; each strategy alone, and fsdp with tp"},
    {"dp", "dp", "degree of dp, in place of --chips"},
    {"fsdp", "fsdp", "degree of fsdp"},
    {"tp", "tp", "degree of tp; with --chips: of fsdp+tp (8)"},
    {"pp", "pp", "pipeline stages"},
    {"zero", "zero", "0 to 3: what dp splits"},
    {"batch", "B", "tokens of a step"},
    {"seq", "T", "sequence length"},
    {"microbatches", "microbatches", "of a step (1)"},
    {"gradient-bytes", "gradient_bytes", "of a gradient element (as a weight)"},
    {"moment-bytes", "moment_bytes",
     "optimizer state of a parameter: 8 (two f32 moments), 12 with "
     "f32 master weights"},
    {0},
};
static const char *const formulas[] = {"training_memory", "activations", NULL};

static const struct {
    pl_keep keep;
    const char *name;
} keeps[] = {{PL_KEEP_ALL, "all"}, {PL_KEEP_MATMULS, "matmuls"}, {PL_KEEP_BLOCK, "block"}};

static json_t *row_json(const char *name, const char *kept, const pl_layout *l,
                        const pl_footprint *f, double hbm)
{
    json_t *row =
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                  "strategy", name, "kept", kept, "dp", pl_json_real(l->dp), "fsdp",
                  pl_json_real(l->fsdp), "tp", pl_json_real(l->tp), "pp", pl_json_real(l->pp),
                  "zero", l->zero, "weights_bytes", pl_json_real(f->weights_bytes),
                  "gradients_bytes", pl_json_real(f->gradients_bytes), "moments_bytes",
                  pl_json_real(f->moments_bytes), "gathered_bytes", pl_json_real(f->gathered_bytes),
                  "activations_bytes", pl_json_real(f->activations_bytes), "working_bytes",
                  pl_json_real(f->working_bytes), "total_bytes", pl_json_real(f->total_bytes));

    if (!isnan(hbm))
        json_object_set_new(row, "fits", json_boolean(f->total_bytes <= hbm));
    return row;
}

static void print_row(const char *name, const char *kept, const pl_footprint *f, double hbm)
{
    const double columns[] = {f->weights_bytes,  f->gradients_bytes,   f->moments_bytes,
                              f->gathered_bytes, f->activations_bytes, f->working_bytes,
                              f->total_bytes};

    printf("  %-22s %-8s", name, kept);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        printf(" %9s", pl_si(columns[i], "B").text);
    printf("  %s\n", isnan(hbm) ? "" : f->total_bytes <= hbm ? "fits" : "too much");
}

/* One layout under each way to keep activations. */
static void print_layout(const pl_ask *ask, const char *name, pl_layout l, json_t *rows)
{
    const double hbm = pl_ask_get(ask, "hbm_bytes");

    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
        l.keep = keeps[i].keep;
        const pl_footprint f = pl_footprint_of(&ask->model, &l);

        if (rows != NULL)
            json_array_append_new(rows, row_json(name, keeps[i].name, &l, &f, hbm));
        else
            print_row(i == 0 ? name : "", keeps[i].name, &f, hbm);
    }
}

static pl_layout layout_of(const pl_ask *ask)
{
    const double T = pl_ask_get(ask, "T"), m = pl_given(pl_ask_get(ask, "microbatches"), 1);
    const double bytes = pl_peak_bytes(ask->peak);

    return (pl_layout){
        .dp = pl_given(pl_ask_get(ask, "dp"), 1),
        .fsdp = pl_given(pl_ask_get(ask, "fsdp"), 1),
        .tp = pl_given(pl_ask_get(ask, "tp"), 1),
        .pp = pl_given(pl_ask_get(ask, "pp"), 1),
        .zero = (int)pl_given(pl_ask_get(ask, "zero"), 0),
        .sequences = pl_given(pl_ask_get(ask, "B"), T) / T / m,
        .microbatches = m,
        .seq = T,
        .weight_bytes = ask->weight_bytes,
        .gradient_bytes = pl_given(pl_ask_get(ask, "gradient_bytes"), ask->weight_bytes),
        .moment_bytes = pl_given(pl_ask_get(ask, "moment_bytes"), 8),
        .activation_bytes = bytes,
    };
}

static pl_status check_layout(const pl_ask *ask, const pl_layout *l)
{
    if (!(l->dp >= 1 && l->fsdp >= 1 && l->tp >= 1 && l->pp >= 1 && l->seq >= 1 &&
          l->microbatches >= 1))
        return pl_refuse(PL_BAD_INPUT, "degrees, --seq and --microbatches must be 1 or more");
    if (l->zero < 0 || l->zero > 3)
        return pl_refuse(PL_BAD_INPUT, "--zero: give 0 to 3");
    if (l->pp > (double)ask->model.n_layers)
        return pl_refuse(PL_BAD_INPUT, "--pp: %g stages, but %s has %g layers", l->pp,
                         ask->model.name, (double)ask->model.n_layers);
    return PL_OK;
}

static void print_all(const pl_ask *ask, json_t *rows)
{
    const double chips = pl_ask_get(ask, "chips"), tp = pl_given(pl_ask_get(ask, "tp"), 8);
    const double pp = pl_given(pl_ask_get(ask, "pp"), 8);
    static const struct {
        const char *name;
        int zero;
        bool fsdp, tp, pp;
    } strategies[] = {
        {"dp", 0, false, false, false},         {"dp, ZeRO-1", 1, false, false, false},
        {"dp, ZeRO-2", 2, false, false, false}, {"fsdp (ZeRO-3)", 0, true, false, false},
        {"dp+tp", 0, false, true, false},       {"fsdp+tp", 0, true, true, false},
        {"dp+tp+pp", 0, false, true, true},     {"fsdp+tp+pp", 0, true, true, true},
    };

    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        pl_layout l = layout_of(ask);

        l.zero = strategies[i].zero;
        l.tp = strategies[i].tp ? tp : 1;
        l.pp = strategies[i].pp ? pp : 1;
        const double data = chips / (l.tp * l.pp);
        if (data < 1 || data != floor(data) || l.pp > (double)ask->model.n_layers)
            continue;
        l.dp = strategies[i].fsdp ? 1 : data;
        l.fsdp = strategies[i].fsdp ? data : 1;
        print_layout(ask, strategies[i].name, l, rows);
    }
}

pl_status pl_plan_memory(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M [--hw H] --chips N --batch B | --dp --fsdp --tp --pp",
        .about = "Bytes on the fullest chip, by class: weights, gradients, moments, gathered "
                 "layers, activations (all kept; only what products give; only layers' inputs).",
        .options = options,
        .formulas = formulas,
    };
    pl_ask ask;
    pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (!ask.has_model)
        return pl_refuse(PL_BAD_INPUT, "memory: give a --model (numbers alone: plan formula "
                                       "training_memory, activations)");
    const pl_layout l = layout_of(&ask);
    status = check_layout(&ask, &l);
    if (status != PL_OK)
        return status;
    json_t *rows = ask.json ? json_array() : NULL;
    if (!ask.json)
        printf(
            "%s, %s tokens in sequences of %s, bytes on the fullest chip\n\n  %-22s %-8s %9s %9s "
            "%9s %9s %9s %9s %9s\n",
            ask.model.name, pl_thousands((int64_t)(l.sequences * l.seq * l.microbatches)).text,
            pl_thousands((int64_t)l.seq).text, "strategy", "kept", "weights", "gradients",
            "moments", "gathered", "activ.", "working", "total");
    if (isnan(pl_ask_get(&ask, "chips")))
        print_layout(&ask, "as given", l, rows);
    else
        print_all(&ask, rows);
    if (ask.json)
        pl_ask_print_json(json_pack("{s:s, s:o, s:o, s:o}", "model", ask.model.name, "batch_tokens",
                                    pl_json_real(l.sequences * l.seq * l.microbatches),
                                    "seq_tokens", pl_json_real(l.seq), "layouts", rows));
    return PL_OK;
}
