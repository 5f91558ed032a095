/* plan inference -- serving a model: prefill, decode step, cache, throughput and latency by batch.
 */
#include "config.h"

#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"

#include <math.h>
#include <stdio.h>

static const pl_ask_option options[] = {
    {"chips", "chips", "chips that serve (default: the least power of two that holds the weights)"},
    {"batch", "B", "sequences that generate at once"},
    {"context", "context", "tokens in each sequence's cache"},
    {"prompt", "T", "tokens of a prompt, for prefill (default: the context)"},
    {"generate", "steps", "tokens that a query generates"},
    {"mfu", "mfu", "share of the peak that prefill reaches (1)"},
    {"price", "price_usd_per_hour", "of a chip, USD an hour"},
    {"params", "params", "parameters, where no --model says them"},
    {0},
};
static const char *const formulas[] = {"kv_cache", "decode",          "prefill",
                                       "serve",    "decode_sharding", NULL};

/* A decode step at batch B. */
static void decode_at(const pl_ask *ask, double B, pl_quantity out[PL_FORMULA_MOST], int *n)
{
    const pl_formula *f = pl_formula_find("decode");
    pl_quantity in[PL_FORMULA_MOST];
    const int n_in = pl_formula_inputs(f, in);

    for (int i = 0; i < n_in; i++)
        in[i].value = pl_given(pl_ask_get(ask, in[i].name), in[i].value);
    pl_quantity_set(in, n_in, "B", B);
    *n = pl_formula_evaluate(f, in, out);
}

static void print_batch(double B, const pl_quantity *out, int n, json_t *rows)
{
    static const char *const columns[] = {"kv_bytes", "step_s", "tokens_per_s",
                                          "tokens_per_s_per_chip", "usd_per_million_tokens"};
    char text[48];

    if (rows != NULL) {
        json_t *row = json_pack("{s:o}", "batch_sequences", pl_json_real(B));

        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            json_object_set_new(row, columns[i], pl_json_real(pl_quantity_get(out, n, columns[i])));
        json_object_set_new(row, "mlp_compute_bound",
                            json_boolean(pl_quantity_get(out, n, "mlp_compute_bound") > 0));
        json_array_append_new(rows, row);
        return;
    }
    printf("    %8g", B);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        printf(" %14s", pl_ask_text(columns[i], pl_quantity_get(out, n, columns[i]), text));
    printf("   %s\n", pl_quantity_get(out, n, "mlp_compute_bound") > 0 ? "products" : "memory");
}

/* Batches of powers of two up to the largest that fits. */
static void sweep(const pl_ask *ask, double most, json_t *root)
{
    json_t *rows = root != NULL ? json_array() : NULL;
    pl_quantity out[PL_FORMULA_MOST];
    int n;

    if (!(most >= 1))
        return;
    if (root == NULL)
        printf("by batch\n    %8s %14s %14s %14s %14s %14s   MLP bound by\n", "batch", "cache",
               "step", "tokens/s", "tokens/s/chip", "$/Mtoken");
    for (double B = 1;; B *= 2) {
        const double at = B < most ? B : most;

        decode_at(ask, at, out, &n);
        print_batch(at, out, n, rows);
        if (at >= most)
            break;
    }
    if (root != NULL)
        json_object_set_new(root, "by_batch", rows);
}

/* What the formulas need and the model says under another name. */
static void know_model(pl_ask *ask)
{
    if (ask->has_model)
        pl_ask_know(ask, "weight_bytes", pl_ask_get(ask, "total_params") * ask->weight_bytes,
                    ask->model_name);
    pl_ask_know(ask, "bytes_per_param", ask->weight_bytes, "--weight-dtype");
    if (!pl_ask_is_given(ask, "T") && !isnan(pl_ask_get(ask, "context")))
        pl_ask_know(ask, "T", pl_ask_get(ask, "context"), "the context");
}

static double value(const pl_ask *ask, const char *formula, const char *output)
{
    const pl_formula *f = pl_formula_find(formula);
    pl_quantity in[PL_FORMULA_MOST], out[PL_FORMULA_MOST];
    const int n_in = pl_formula_inputs(f, in);

    for (int i = 0; i < n_in; i++)
        in[i].value = pl_given(pl_ask_get(ask, in[i].name), in[i].value);
    return pl_quantity_get(out, pl_formula_evaluate(f, in, out), output);
}

static pl_status answer(pl_ask *ask, json_t *root)
{
    if (isnan(pl_ask_get(ask, "chips")))
        pl_ask_know(ask, "chips", value(ask, "kv_cache", "weight_slice_chips"),
                    "holds the weights");
    const double most = value(ask, "kv_cache", "max_batch");

    if (most < 1)
        return pl_refuse(PL_BAD_INPUT,
                         "inference: %g chips of %s hold %s, but the weights are %s and one "
                         "sequence's cache %s: %g chips would do",
                         pl_ask_get(ask, "chips"), pl_si(pl_ask_get(ask, "hbm_bytes"), "B").text,
                         pl_si(pl_ask_get(ask, "hbm_bytes") * pl_ask_get(ask, "chips"), "B").text,
                         pl_si(pl_ask_get(ask, "weight_bytes"), "B").text,
                         pl_si(value(ask, "kv_cache", "kv_bytes_per_sequence"), "B").text,
                         ceil((pl_ask_get(ask, "weight_bytes") +
                               value(ask, "kv_cache", "kv_bytes_per_sequence")) /
                              pl_ask_get(ask, "hbm_bytes")));
    if (!pl_ask_is_given(ask, "B"))
        pl_ask_know(ask, "B", most, "the largest that fits");
    pl_ask_know(ask, "step_s", value(ask, "decode", "step_s"), "decode");
    pl_ask_know(ask, "prefill_s", value(ask, "prefill", "time_s"), "prefill");
    pl_ask_know(ask, "prompt_tokens", pl_ask_get(ask, "T"), "prefill");
    for (int i = 0; formulas[i] != NULL; i++) {
        const pl_status status = pl_ask_answer(ask, formulas[i], false, root);

        if (status != PL_OK && i < 2)
            return status;
        if (status != PL_OK)
            pl_status_clear();
    }
    sweep(ask, most, root);
    return PL_OK;
}

pl_status pl_plan_inference(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M --hw H [--chips N] --context S [--batch B] [NAME=NUMBER...]",
        .about = "Serving: memory and the largest batch, prefill, the decode step, throughput and "
                 "latency by batch, chips needed.",
        .options = options,
        .formulas = formulas,
    };
    pl_ask ask;
    const pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    know_model(&ask);
    json_t *root = ask.json ? json_object() : NULL;
    const pl_status answered = answer(&ask, root);

    if (answered == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return answered;
}
