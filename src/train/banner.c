#include "config.h"

#include "src/train/banner.h"

#include "kernels/isa.h"
#include "kernels/matmul_trial.h"
#include "src/base/log.h"
#include "src/base/units.h"

#include <stdio.h>

static void print_model(const pl_session *s)
{
    const pl_model_config *m = &s->model;

    pl_print("model      %s: %d layers, D %lld, N %lld, K %lld, H %lld, F %lld, V %lld, %s; %s "
             "parameters\n",
             m->name, m->n_layers, (long long)m->d_model, (long long)m->n_heads,
             (long long)m->n_kv_heads, (long long)m->head_dim, (long long)m->d_ff,
             (long long)m->vocab, m->tied ? "tied" : "untied",
             pl_thousands(pl_model_n_params(m)).text);
}

static void print_data(const pl_session *s)
{
    const pl_corpus *c = &s->corpus;

    pl_print("data       %s: %s tokens", c->name, pl_thousands(c->n_tokens).text);
    if (c->entropy_nats > 0)
        pl_print(", entropy %.4f nats a token", c->entropy_nats);
    pl_print("\n");
}

static void print_strategy(const pl_session *s)
{
    char spec[128];

    pl_spec_print(&s->plan.spec, spec, sizeof spec);
    pl_print("strategy   %s", spec);
    if (pl_spec_degree(&s->plan.spec, "dp") > 1)
        pl_print(", ZeRO stage %d", s->plan.spec.zero);
    if (pl_spec_degree(&s->plan.spec, "pp") > 1)
        pl_print(", schedule %s, bubble %.1f%%", pl_pipeline_name(s->plan.pipeline),
                 100 * pl_pipeline_bubble(s->program->n_stages, s->program->batch.n_microbatches));
    pl_print("\n");
    if (s->choice[0] != '\0')
        pl_print("chosen     %s\n", s->choice);
    pl_print(
        "batch      %lld sequences of %lld tokens; %d microbatch%s of at most %lld sequences a "
        "data-parallel rank\n",
        (long long)s->plan.batch, (long long)s->plan.seq, s->program->batch.n_microbatches,
        s->program->batch.n_microbatches == 1 ? "" : "es",
        (long long)s->program->batch.micro_batch);
}

/* What the numbers are, and what a parameter takes beside activations. */
static void print_dtype(const pl_session *s)
{
    if (s->plan.dtype == PL_F32) {
        pl_print("dtype      f32: 4 B a parameter and 4 gradient + 8 moments\n");
        return;
    }
    pl_print("dtype      bf16: 2 B a parameter and 4 gradient + 8 moments + 4 master, in f32\n");
    pl_print("           predicted %.2f x as fast as f32 (%s a step)%s\n",
             s->f32_step_s / s->prediction->step_s, pl_si(s->f32_step_s, "s").text,
             !pl_isa_multiplies_bf16() ? "; these instructions have no bf16 products" : "");
}

/* Who multiplies, and what a trial gave to OpenBLAS. */
static void print_matmul(void)
{
    char shape[PL_MATMUL_SHAPE_TEXT];
    int n, n_openblas = 0;
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);

    pl_print("matmul     %s", pl_matmul_backend());
    for (int i = 0; i < n; i++)
        if (tried[i].openblas) {
            pl_matmul_shape_print(&tried[i].shape, shape);
            pl_print("%s %s", n_openblas++ > 0 ? "," : "; by trial OpenBLAS for", shape);
        }
    if (n > 0)
        pl_print("; by trial own for %d of %d f32 shapes", n - n_openblas, n);
    pl_print("\n");
}

static void print_machine(const pl_session *s)
{
    const pl_machine *m = &s->machine;
    const pl_link *link = &m->link[PL_LINK_SAME_HOST];
    const pl_curve *memory = &m->memory_bytes_per_s;

    pl_print("machine    %s\n", m->name);
    pl_print("           a rank, all busy: %s matmul up to %s, memory %s, link %s, %s one way\n",
             pl_dtype_short(s->plan.dtype), pl_si(pl_machine_peak(m, s->plan.dtype), "FLOP/s").text,
             pl_si(memory->n_points > 0 ? memory->rate[memory->n_points - 1] : 0, "B/s").text,
             pl_si(link->latency_s, "s").text, pl_si(link->one_way_bytes_per_s, "B/s").text);
}

static void print_prediction(const pl_session *s)
{
    const pl_prediction *p = s->prediction;
    const double tokens = (double)s->plan.batch * (double)s->plan.seq;
    size_t total = 0;

    pl_print("predicted  step %s (book's bounds %s to %s), %.0f tokens/s, MFU %.1f%%\n",
             pl_si(p->step_s, "s").text, pl_si(p->lower_s, "s").text, pl_si(p->upper_s, "s").text,
             tokens / p->step_s, 100 * pl_session_mfu(s, p->step_s));
    pl_print("memory     a rank:");
    for (int c = 0; c < PL_N_CLASSES; c++) {
        total += p->memory_bytes[c];
        if (p->memory_bytes[c] > 0)
            pl_print(" %s %s,", pl_class_name((pl_class)c),
                     pl_si((double)p->memory_bytes[c], "B").text);
    }
    pl_print(" total %s\n", pl_si((double)total, "B").text);
}

void pl_banner_print(const pl_session *s)
{
    char text[2048];

    pl_topology_print(s->world, &s->topology, &s->mesh, text, sizeof text);
    pl_print("%s\n", PACKAGE_STRING);
    print_model(s);
    print_data(s);
    print_strategy(s);
    print_dtype(s);
    pl_print("%s", text);
    print_machine(s);
    print_matmul();
    print_prediction(s);
    pl_print("\n");
}
