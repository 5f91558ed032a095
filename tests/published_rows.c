#include "config.h"

#include "tests/published_rows.h"

#include "src/base/panic.h"
#include "src/plan/search.h"
#include "src/roofline/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    if (!json_is_number(value))
        PL_PANIC("published_steps.json: a row without %s", key);
    return json_number_value(value);
}

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));

    if (value == NULL)
        PL_PANIC("published_steps.json: a row without %s", key);
    return value;
}

/* What must not fail, as the rows have run. */
static void must(pl_status status, const json_t *row)
{
    if (status != PL_OK)
        PL_PANIC("%s: %s", text(row, "id"), pl_status_message());
}

/* A model without a gate has two matrices of D x F; three of D x 2F/3 are as many FLOPs. */
static pl_model_config model_of(const json_t *row)
{
    const double F = number(row, "F");
    pl_model_config m = {.n_layers = (int)number(row, "L"),
                         .d_model = (int64_t)number(row, "D"),
                         .n_heads = (int64_t)number(row, "N"),
                         .n_kv_heads = (int64_t)number(row, "K"),
                         .head_dim = (int64_t)number(row, "H"),
                         .d_ff = (int64_t)(number(row, "gated") > 0 ? F : 2 * F / 3),
                         .vocab = (int64_t)number(row, "V"),
                         .max_seq = (int64_t)number(row, "T"),
                         .rms_eps = 1e-5,
                         .rope_theta = 1e4};

    snprintf(m.name, sizeof m.name, "%s", text(row, "id"));
    return m;
}

/* Memory does not limit what has run. */
static void set_machine(const json_t *row, const pl_efficiency *efficiency, pl_search_options *o)
{
    const pl_peak peak = pl_peak_find(text(row, "peak"));

    must(pl_hardware_find(text(row, "hw"), &o->hw), row);
    o->hw.efficiency = *efficiency;
    o->hw.chip.hbm_bytes = 1e18;
    must(pl_hardware_machine(&o->hw, peak, &o->machine), row);
    o->peak_flops_per_s = o->hw.chip.peak_flops_per_s[peak];
    if (!(number(row, "fused") > 0)) /* scores of all pairs are computed, also of those masked */
        o->machine.attention_bf16_flops_per_s /= 2;
}

/* Before attention was fused, its scores passed through memory: written, read and written by
 * softmax and by dropout (with a byte of mask), read; and more often on the way back. Passes of two
 * bytes an element of [B, N, T, T]; done again where layers, or attention alone, are. */
static double scores_s(const json_t *row, const pl_search_options *o, const pl_candidate *c)
{
    const double forward = 6.5, backward = 9.5, tp = pl_spec_degree(&c->plan.spec, "tp");
    const double p = pl_spec_degree(&c->plan.spec, "pp"), T = (double)o->seq;
    const double m = c->estimate.n_microbatches, v = number(row, "interleave");
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    const double elements = (double)batch.micro_batch * (double)o->model.n_heads / tp * T * T;
    const double layer_s = 2 * (2 * forward + backward) * elements /
                           (o->hw.chip.hbm_bytes_per_s * o->hw.efficiency.memory);

    return number(row, "fused") > 0 ? 0 : layer_s * o->model.n_layers / p * (m + (p - 1) / v);
}

/* torchtitan's "selective per op" keeps what attention and every second product give: of q, k, v,
 * o, gate, up and down those of k, o and up are done again. */
static double again_s(const json_t *row, const pl_search_options *o)
{
    const pl_model_config *m = &o->model;
    const double heads = (double)(m->n_heads + m->n_kv_heads) * (double)m->head_dim;
    const double flops = 2 * (double)m->d_model * (heads + (double)m->d_ff) * m->n_layers *
                         (double)o->sequences * (double)o->seq;

    return json_object_get(row, "alternate") != NULL
               ? flops / ((double)o->chips * o->peak_flops_per_s * o->hw.efficiency.matmul)
               : 0;
}

static void predict(const json_t *row, const pl_efficiency *efficiency, published_run *r)
{
    static pl_search_result result;
    pl_search_options o = {.model = model_of(row),
                           .dtype = PL_BF16,
                           .chips = (int64_t)number(row, "chips"),
                           .sequences = (int64_t)number(row, "sequences"),
                           .seq = (int64_t)number(row, "T"),
                           .cp = number(row, "cp") > 1 ? (int)number(row, "cp") : 0,
                           .typed = text(row, "spec"),
                           .zero = number(row, "zero") < 0 ? PL_AUTO : (int)number(row, "zero"),
                           .micro_batch = (int64_t)number(row, "micro"),
                           .remat = (int)number(row, "remat"),
                           .pipeline = PL_1F1B,
                           .interleave = (int)number(row, "interleave"),
                           .n_plans = 1};

    set_machine(row, efficiency, &o);
    must(pl_spec_parse(text(row, "spec"), &o.fixed), row);
    must(pl_search(&o, &result), row);
    const pl_estimate *e = &result.best[0].estimate;

    *r = (published_run){.id = text(row, "id"),
                         .machine = text(row, "hw"),
                         .measured_s = number(row, "measured_s"),
                         .predicted_s =
                             e->step_s + scores_s(row, &o, &result.best[0]) + again_s(row, &o),
                         .math_s = e->math_s,
                         .exposed_s = e->exposed_s,
                         .bubble_s = e->bubble_s};
    r->mfu = pl_model_flops(&o.model, o.sequences, o.seq, true) /
             ((double)o.chips * o.peak_flops_per_s * r->measured_s);
}

json_t *published_load(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    json_t *root;

    snprintf(path, sizeof path, "%s/tests/published_steps.json", srcdir != NULL ? srcdir : ".");
    if (pl_json_load(path, &root) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    return root;
}

int published_predict(const json_t *root, const pl_efficiency *efficiency,
                      published_run runs[PUBLISHED_MOST])
{
    const json_t *row;
    size_t i;
    int n = 0;

    json_array_foreach(json_object_get(root, "rows"), i, row)
    {
        PL_ASSERT(n < PUBLISHED_MOST);
        predict(row, efficiency, &runs[n++]);
    }
    return n;
}

/* Of the rows that are fitted to, the MFU of one of `machine` (NULL: of any) with the least mean
 * error over those of that machine; NaN where there is none. */
static double best_mfu(const published_run *runs, int n, const bool *fits, const char *machine)
{
    double least = INFINITY, best = NAN;

    for (int c = 0; c < n; c++) {
        double sum = 0;

        if (!fits[c] || (machine != NULL && strcmp(runs[c].machine, machine) != 0))
            continue;
        for (int j = 0; j < n; j++)
            if (fits[j] && (machine == NULL || strcmp(runs[j].machine, machine) == 0))
                sum += fabs(runs[j].mfu / runs[c].mfu - 1);
        if (sum < least) {
            least = sum;
            best = runs[c].mfu;
        }
    }
    return best;
}

void published_trivial(published_run *runs, int n, const bool *fits)
{
    for (int i = 0; i < n; i++) {
        double mfu = best_mfu(runs, n, fits, runs[i].machine);

        if (isnan(mfu))
            mfu = best_mfu(runs, n, fits, NULL);
        runs[i].trivial_s = runs[i].measured_s * runs[i].mfu / mfu;
    }
}
