#include "config.h"

#include "src/plan/candidate.h"

#include "src/base/block.h"
#include "src/base/panic.h"
#include "src/base/parse.h"
#include "src/roofline/predict.h"

#include <stdio.h>
#include <string.h>

const char *const pl_degree_names[PL_N_DEGREES] = {"pp", "dp", "fsdp", "tp"};

const char *pl_candidate_shared_axis(const pl_spec *spec)
{
    return pl_spec_degree(spec, "fsdp") > 1 ? "fsdp" : "dp";
}

pl_candidate pl_candidate_of(const pl_search_options *o, const pl_spec *spec, int cp, int ep)
{
    pl_candidate c = {.cp = cp, .ep = ep};

    c.plan = (pl_plan){.spec = *spec,
                       .model = o->model,
                       .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                       .batch = o->sequences * cp,
                       .micro_batch = o->micro_batch,
                       .seq = o->seq / cp,
                       .pipeline = o->pipeline,
                       .dtype = o->dtype};
    if (pl_spec_degree(spec, "pp") > 1 && o->micro_batch == 0)
        c.plan.micro_batch = 1;
    if (pl_spec_mesh(spec, &o->model, &c.mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    return c;
}

int pl_candidate_chunks(const pl_candidate *c)
{
    enum { MOST_CHUNKS = 8 };
    const int stages = pl_spec_degree(&c->plan.spec, "pp"),
              layers = (int)pl_block_count(c->plan.model.n_layers, stages, 0);

    if (stages == 1 || c->plan.pipeline != PL_1F1B)
        return 1;
    return layers < MOST_CHUNKS ? layers : MOST_CHUNKS;
}

static void append(char *text, size_t size, const char *name, int degree)
{
    const size_t at = strlen(text);

    if (degree > 1)
        snprintf(text + at, size - at, "%s%s:%d", at > 0 ? "+" : "", name, degree);
}

void pl_candidate_print(const pl_candidate *c, char *text, size_t size)
{
    const char *shared = pl_candidate_shared_axis(&c->plan.spec);

    text[0] = '\0';
    for (int k = 0; k < PL_N_DEGREES; k++) {
        const int whole = pl_spec_degree(&c->plan.spec, pl_degree_names[k]);
        const bool is_shared = strcmp(pl_degree_names[k], shared) == 0;

        append(text, size, pl_degree_names[k], is_shared ? whole / (c->cp * c->ep) : whole);
        append(text, size, "cp", is_shared ? c->cp : 1);
        append(text, size, "ep", is_shared ? c->ep : 1);
    }
    if (text[0] == '\0')
        snprintf(text, size, "dp:1");
}

/* cp and ep belong to the axis that holds different sequences: multiply it. */
static pl_status widen(pl_search_options *o, const char *text, char rest[256], int64_t by)
{
    const char *shared = pl_candidate_shared_axis(&o->fixed);

    for (int i = 0; i < o->fixed.n; i++)
        if (o->fixed.degree[i] == 0)
            return pl_refuse(PL_BAD_INPUT, "--strategy: %s: with cp or ep give %s a degree too",
                             text, o->fixed.strategy[i]->name);
    for (int i = 0; i < o->fixed.n; i++)
        if (strcmp(o->fixed.strategy[i]->name, shared) == 0) {
            if (o->fixed.degree[i] * by > INT32_MAX)
                return pl_refuse(PL_BAD_INPUT, "--strategy: %s: degrees are too large", text);
            o->fixed.degree[i] *= (int)by;
            return PL_OK;
        }
    snprintf(rest + strlen(rest), 256 - strlen(rest), "%sdp:%lld", rest[0] != '\0' ? "+" : "",
             (long long)by);
    return pl_spec_parse(rest, &o->fixed);
}

pl_status pl_candidate_parse(const char *text, pl_search_options *o)
{
    static const char *const ours[2] = {"cp", "ep"};
    int64_t degree[2] = {1, 1};
    char rest[256] = "", word[64];
    pl_status status = PL_OK;

    o->typed = text;
    for (const char *at = text; *at != '\0' && status == PL_OK;) {
        const int length = (int)strcspn(at, "+");
        int mine = 0;

        snprintf(word, sizeof word, "%.*s", length, at);
        while (mine < 2 && (strncmp(word, ours[mine], 2) != 0 || word[2] != ':'))
            mine++;
        if (mine < 2)
            status = pl_parse_integer(mine == 0 ? "--strategy: the degree of cp"
                                                : "--strategy: the degree of ep",
                                      word + 3, 1, 1 << 16, &degree[mine]);
        else if (strlen(rest) + strlen(word) + 32 < sizeof rest)
            sprintf(rest + strlen(rest), "%s%s", rest[0] != '\0' ? "+" : "", word);
        at += length + (at[length] == '+');
    }
    if (status == PL_OK)
        status = pl_spec_parse(rest[0] != '\0' ? rest : "dp:1", &o->fixed);
    if (status != PL_OK)
        return status;
    o->cp = degree[0] > 1 ? (int)degree[0] : 0;
    o->ep = degree[1] > 1 ? (int)degree[1] : 0;
    if (o->ep > 0 && o->architecture.n_experts % o->ep != 0)
        return pl_refuse(PL_BAD_INPUT, "--strategy: ep:%d does not divide the %lld experts of %s",
                         o->ep, (long long)o->architecture.n_experts, o->model.name);
    if (o->ep > 0 && o->architecture.n_experts == 0)
        return pl_refuse(PL_BAD_INPUT, "--strategy: ep:%d: %s has no experts", o->ep,
                         o->model.name);
    return degree[0] * degree[1] == 1 ? PL_OK : widen(o, text, rest, degree[0] * degree[1]);
}

void pl_search_architecture(const pl_search_options *o, pl_architecture *a)
{
    if (o->architecture.n_layers > 0)
        *a = o->architecture;
    else
        pl_model_config_describe(&o->model, a);
}

double pl_search_flops(const pl_search_options *o)
{
    const double tokens = (double)o->sequences * (double)o->seq, T = (double)o->seq,
                 program = pl_model_flops(&o->model, o->sequences, o->seq, true);
    pl_architecture a, stand_in;

    if (o->architecture.n_layers == 0)
        return program;
    pl_search_architecture(o, &a);
    pl_model_config_describe(&o->model, &stand_in);
    return program + tokens * (pl_architecture_train_flops(&a, T, PL_FLOPS_CAUSAL) -
                               pl_architecture_train_flops(&stand_in, T, PL_FLOPS_CAUSAL));
}
