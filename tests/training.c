#include "config.h"

#include "tests/training.h"

#include "src/base/bf16.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/model/hf_tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 80 };

/* Split `text` (which is cut up) at spaces. */
static int split_words(char *text, char **words)
{
    int n = 0;

    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        PL_ASSERT(n < MAX_WORDS);
        words[n++] = word;
    }
    words[n] = NULL;
    return n;
}

/* What is called prefix + the weight's name, of all weights, one after another. */
static float *gather_all(const pl_session *s, const char *prefix)
{
    const pl_program *p = s->program;
    float *all = pl_alloc((size_t)pl_model_n_params(&s->model) * sizeof *all);
    int64_t at = 0;

    for (int64_t i = 0; i < pl_hf_tensor_count(&s->model); i++) {
        const pl_hf_tensor tensor = pl_hf_tensor_at(&s->model, i);
        char name[128];

        snprintf(name, sizeof name, "%s%s", prefix, p->values[pl_params_find(p, &tensor)].name);
        pl_params_gather(p, s->run, &s->comms, &s->model, pl_value_find(p, name), all + at);
        at += tensor.rows * tensor.cols;
    }
    return all;
}

static void gather_weights(const pl_session *s, training *t)
{
    const bool rounds = s->plan.dtype == PL_BF16 && !s->options->eval_only;
    float *used = gather_all(s, "");

    t->n_weights = pl_model_n_params(&s->model);
    t->weights = used;
    if (!rounds)
        return;
    t->weights = gather_all(s, PL_MASTER_PREFIX);
    for (int64_t i = 0; i < t->n_weights; i++)
        t->n_unrounded += used[i] != pl_bf16_to_f32(pl_bf16_of_f32(t->weights[i]));
    pl_free(used);
}

static void run_steps(pl_session *s, training *t)
{
    for (int64_t step = 0; step < s->options->steps && t->status == PL_OK; step++) {
        const int64_t before = pl_allocation_count();
        pl_step_result r = {0};

        t->status = pl_session_gradients(s, step, &r);
        if (step == 0 && t->status == PL_OK)
            t->gradients = gather_all(s, "g.");
        if (t->status == PL_OK)
            pl_session_update(s);
        t->loss[step] = r.loss;
        t->grad_norm[step] = r.grad_norm;
        t->lr[step] = r.lr;
        t->n_steps++;
        if (step > 0)
            t->allocations += pl_allocation_count() - before;
    }
}

/* Memory and bytes on the wire are predicted to the byte. */
static void compare_with_prediction(const pl_session *s, training *t)
{
    size_t used[PL_N_CLASSES];
    int64_t counted[PL_MAX_WIRES];

    pl_session_usage(s, used, counted);
    for (int c = 0; c < PL_N_CLASSES; c++)
        t->n_unlike += used[c] != s->prediction->memory_bytes[c];
    for (int i = 0; i < s->wire.n; i++) {
        t->n_unlike += counted[i] != s->wire.bytes[i] * t->n_steps;
        t->wire_bytes += counted[i] / t->n_steps;
    }
}

void training_run(MPI_Comm comm, const char *options, training *t)
{
    const char *srcdir = getenv("srcdir");
    char *words[MAX_WORDS + 1], text[2048];
    pl_options o;
    pl_session s;

    *t = (training){0};
    snprintf(text, sizeof text, "train --machine %s/tests/machine.json %s",
             srcdir != NULL ? srcdir : ".", options);
    t->status = pl_options_parse(split_words(text, words), words, &o);
    PL_ASSERT(t->status == PL_OK && o.steps <= TRAINING_MAX_STEPS);
    t->status = pl_session_open(comm, &o, &s);
    if (t->status == PL_OK)
        t->status = pl_session_plan(&s);
    if (t->status == PL_OK)
        t->status = pl_session_start(&s);
    if (t->status == PL_OK && o.eval_only)
        t->status = pl_session_evaluate(&s, &t->eval_loss, &t->eval_tokens);
    else if (t->status == PL_OK)
        run_steps(&s, t);
    if (t->status == PL_OK && t->n_steps > 0)
        compare_with_prediction(&s, t);
    if (t->status == PL_OK)
        gather_weights(&s, t);
    pl_session_close(&s);
}

void training_free(training *t)
{
    pl_free(t->weights);
    pl_free(t->gradients);
    *t = (training){0};
}

void training_norm_bounds(const char *options, const training *one,
                          double bound[TRAINING_MAX_STEPS])
{
    for (int i = 0; i < one->n_steps; i++)
        bound[i] = 5e-6;
    for (int micro_batch = 1; micro_batch <= 5; micro_batch++) {
        char cut[2048];
        double most = 0;
        training t;

        snprintf(cut, sizeof cut, "%s --micro-batch %d", options, micro_batch);
        training_run(MPI_COMM_SELF, cut, &t);
        for (int i = 0; i < t.n_steps; i++) {
            most = fmax(most, fabs(t.grad_norm[i] / one->grad_norm[i] - 1));
            bound[i] = fmax(bound[i], 8 * most);
        }
        training_free(&t);
    }
}

const float *training_tensor(const float *all, const pl_model_config *model, int64_t i, int64_t *n)
{
    int64_t at = 0;

    for (int64_t k = 0; k < i; k++) {
        const pl_hf_tensor before = pl_hf_tensor_at(model, k);

        at += before.rows * before.cols;
    }
    const pl_hf_tensor tensor = pl_hf_tensor_at(model, i);
    *n = tensor.rows * tensor.cols;
    return all + at;
}
