/* plan params -- every weight of a model, counted; FLOPs and caches of a token. */
#include "config.h"

#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"

#include <inttypes.h>
#include <stdio.h>

static void print_parts(const pl_architecture *a)
{
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);

    printf("%s\n\n  %-22s %-10s %9s x %-9s %7s %8s %7s %20s\n", a->name, "weight", "group", "rows",
           "cols", "layers", "experts", "active", "parameters");
    for (int i = 0; i < n; i++) {
        const pl_part *p = &parts[i];

        printf("  %-22s %-10s %9" PRId64 " x %-9" PRId64 " %7" PRId64 " %8" PRId64 " %7" PRId64
               " %20s\n",
               p->name, pl_part_group_name(p->group), p->rows, p->cols, p->n_layers, p->n_each,
               p->n_active,
               p->is_shared ? "the embedding's"
                            : pl_thousands(p->rows * p->cols * p->n_layers * p->n_each).text);
    }
}

static void print_counts(const pl_ask *ask, double T)
{
    const pl_architecture *a = &ask->model;
    const pl_param_counts c = pl_architecture_params(a);

    printf("\n  parameters             %20s  (%s)\n", pl_thousands(c.total).text,
           pl_si((double)c.total, "").text);
    if (c.active != c.total)
        printf("  used by a token        %20s\n", pl_thousands(c.active).text);
    for (int g = 0; g < PL_N_PARTS; g++)
        if (c.group[g] > 0)
            printf("    %-20s %20s  %5.1f %%\n", pl_part_group_name((pl_part_group)g),
                   pl_thousands(c.group[g]).text, 100.0 * (double)c.group[g] / (double)c.total);
    printf("\n  a token, sequences of %s:\n", pl_thousands((int64_t)T).text);
    printf("  forward: products      %20s  2 x %s\n",
           pl_si(pl_architecture_matmul_flops(a), "FLOP").text, pl_thousands(c.matmul).text);
    printf("  forward: attention     %20s  to T/2 keys\n",
           pl_si(pl_architecture_attention_flops(a, T / 2), "FLOP").text);
    printf("  training               %20s  3 x both; 6 x parameters: %s\n",
           pl_si(pl_architecture_train_flops(a, T, PL_FLOPS_CAUSAL), "FLOP").text,
           pl_si(pl_architecture_train_flops(a, T, PL_FLOPS_6N), "FLOP").text);
    printf("  keys and values        %20s  at %g bytes an element\n",
           pl_si(pl_architecture_kv_bytes(a, ask->kv_bytes), "B").text, ask->kv_bytes);
    printf("  weights                %20s  at %g bytes each\n",
           pl_si((double)c.total * ask->weight_bytes, "B").text, ask->weight_bytes);
}

static json_t *counts_json(const pl_ask *ask, double T)
{
    const pl_architecture *a = &ask->model;
    const pl_param_counts c = pl_architecture_params(a);
    json_t *root = json_object(), *groups = json_object(), *weights = json_array();
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);

    for (int g = 0; g < PL_N_PARTS; g++)
        json_object_set_new(groups, pl_part_group_name((pl_part_group)g), json_integer(c.group[g]));
    for (int i = 0; i < n; i++)
        json_array_append_new(
            weights,
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "name", parts[i].name, "group",
                      pl_part_group_name(parts[i].group), "rows", parts[i].rows, "cols",
                      parts[i].cols, "layers", parts[i].n_layers, "experts", parts[i].n_each,
                      "active_experts", parts[i].n_active, "shared", (int)parts[i].is_shared));
    json_object_set_new(root, "model", json_string(a->name));
    json_object_set_new(root, "params", json_integer(c.total));
    json_object_set_new(root, "active_params", json_integer(c.active));
    json_object_set_new(root, "params_by_group", groups);
    json_object_set_new(root, "seq_tokens", pl_json_real(T));
    json_object_set_new(root, "forward_matmul_flops_per_token",
                        pl_json_real(pl_architecture_matmul_flops(a)));
    json_object_set_new(root, "forward_attention_flops_per_token",
                        pl_json_real(pl_architecture_attention_flops(a, T / 2)));
    json_object_set_new(root, "train_flops_per_token",
                        pl_json_real(pl_architecture_train_flops(a, T, PL_FLOPS_CAUSAL)));
    json_object_set_new(root, "six_n_flops_per_token",
                        pl_json_real(pl_architecture_train_flops(a, T, PL_FLOPS_6N)));
    json_object_set_new(root, "kv_bytes_per_token",
                        pl_json_real(pl_architecture_kv_bytes(a, ask->kv_bytes)));
    json_object_set_new(root, "weight_bytes", pl_json_real((double)c.total * ask->weight_bytes));
    json_object_set_new(root, "weights", weights);
    return root;
}

static const pl_ask_option options[] = {{"seq", "T", "sequence length, for attention's FLOPs"},
                                        {0}};
static const char *const formulas[] = {"params", NULL};

pl_status pl_plan_params(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M | L=.. D=.. F=.. N=.. K=.. H=.. V=..",
        .about = "The parameters of a model by weight, exactly; FLOPs and cache of a token. Dims "
                 "without a model: the formula.",
        .options = options,
        .formulas = formulas,
    };
    pl_ask ask;
    const pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (!ask.has_model && ask.n == 0) {
        for (int i = 0; pl_architecture_preset_name(i) != NULL; i++)
            printf("%s%s", i > 0 ? ", " : "", pl_architecture_preset_name(i));
        printf("\n");
        return PL_OK;
    }
    if (ask.has_model) {
        const double T = pl_ask_get(&ask, "T");

        if (ask.json) {
            pl_ask_print_json(counts_json(&ask, T));
        } else {
            print_parts(&ask.model);
            print_counts(&ask, T);
        }
        return PL_OK;
    }
    json_t *root = ask.json ? json_object() : NULL;
    const pl_status answered = pl_ask_answer(&ask, "params", true, root);

    if (answered == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return answered;
}
