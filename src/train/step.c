/* One step and one evaluation of a session. */
#include "config.h"

#include "src/train/session.h"

#include "src/base/agree.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/model/transformer.h"

#include <math.h>
#include <string.h>

/* First token of a sequence: of a training step, or of an evaluation window. */
typedef struct {
    bool evaluates;
    int64_t step;  /* training */
    int64_t first; /* evaluation: window of the batch's sequence 0 */
} window_source;

static int64_t window_begin(const pl_session *s, const window_source *from, int64_t index)
{
    const pl_options *o = s->options;

    if (from->evaluates)
        return pl_eval_window_begin(&s->corpus, s->plan.seq, from->first + index);
    return pl_window_begin(&s->corpus, o->order, o->seed, from->step, index, s->plan.batch,
                           s->plan.seq);
}

/* ids[T, B] = the sequences' tokens, `shift` tokens on (0 for inputs, 1 for targets). */
static void fill_ids(pl_session *s, const window_source *from, const pl_extents *e, int shift,
                     int32_t *ids)
{
    for (int64_t b = 0; b < e->n[1]; b++) {
        pl_corpus_copy(&s->corpus, window_begin(s, from, e->begin[1] + b), s->plan.seq + 1, s->row);
        for (int64_t t = 0; t < e->n[0]; t++)
            ids[t * e->n[1] + b] = s->row[e->begin[0] + t + shift];
    }
}

static void fill_batch(pl_session *s, const pl_program *p, pl_run *run, const window_source *from)
{
    for (int v = 0; v < p->n_values; v++) {
        const pl_value *value = &p->values[v];
        const bool inputs = value->is_input && strcmp(value->name, PL_NAME_TOKENS) == 0;
        const bool targets = value->is_input && strcmp(value->name, PL_NAME_TARGETS) == 0;

        if ((!inputs && !targets) || pl_run_data(run, v) == NULL)
            continue;
        const pl_extents e = pl_local_extents(p, v, s->comms.coords);
        fill_ids(s, from, &e, targets, pl_run_data(run, v));
    }
}

/* result's exposed_s, kernels_s and update_s: what was measured since the measures were reset,
 * times `sign`. */
static void add_measures(const pl_session *s, int sign, pl_step_result *result)
{
    const pl_op_measure *m = pl_run_measures(s->run);

    for (int i = 0; i < s->program->n_ops; i++) {
        const pl_op *op = &s->program->ops[i];

        result->exposed_s += sign * m[i].exposed_s;
        if (!pl_kind_is_communication(op->kind))
            *(op->phase == PL_UPDATE ? &result->update_s : &result->kernels_s) +=
                sign * (m[i].busy_s + m[i].turns_s);
    }
}

/* An array with a non-finite number, and how near it is to the cause. */
typedef struct {
    const char *name;
    enum { NOTHING_BAD, BAD_GRADIENT, BAD_BACKWARD, BAD_FORWARD, BAD_WEIGHT } what;
} bad_array;

/* The first array of a class that is there between steps, in the program's order, that is not
 * finite; NULL: none. */
static const char *first_bad_of(const pl_session *s, pl_class class)
{
    const pl_program *p = s->program;

    for (int v = 0; v < p->n_values; v++) {
        const pl_value *value = &p->values[v];
        const bool stays =
            class == PL_WEIGHT ? value->persists : value->microbatch == PL_NO_MICROBATCH;

        if (value->class == class && stays && pl_run_has_non_finite(s->run, v))
            return value->name;
    }
    return NULL;
}

static bool is_made_forward(const pl_program *p, int v)
{
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < p->ops[i].n_out; k++)
            if (p->ops[i].out[k] == v)
                return p->ops[i].phase == PL_FORWARD;
    return false;
}

/* What this rank has that is not finite: of several things the one nearest to the cause. */
static bad_array find_bad(const pl_session *s)
{
    const int v = pl_run_first_bad(s->run); /* with --check */
    bad_array bad = {first_bad_of(s, PL_WEIGHT), BAD_WEIGHT};

    if (bad.name == NULL && v != PL_NONE)
        bad = (bad_array){s->program->values[v].name,
                          is_made_forward(s->program, v) ? BAD_FORWARD : BAD_BACKWARD};
    if (bad.name == NULL)
        bad = (bad_array){first_bad_of(s, PL_GRADIENT), BAD_GRADIENT};
    if (bad.name == NULL)
        bad.what = NOTHING_BAD;
    return bad;
}

/* NaN without the sign that printf would show. */
static double plain(double x)
{
    return isnan(x) ? NAN : x;
}

/* Every rank sees the same loss and norm, so all come here together. The rank that is nearest to
 * the cause speaks. */
static pl_status refuse_non_finite(pl_session *s, int64_t step, const pl_step_result *r)
{
    const double loss = plain(r->loss), norm = plain(r->grad_norm);
    const bad_array bad = find_bad(s);
    double worst = bad.what;
    pl_status status = PL_OK;

    pl_session_max(s, &worst, 1);
    if (worst == NOTHING_BAD) /* no array shows it: an overflow in a sum */
        status = pl_refuse(PL_WRONG,
                           "step %lld: loss %g, gradient norm %g, though every array is "
                           "finite. Nothing was updated.",
                           (long long)step, loss, norm);
    else if (bad.what == worst)
        status =
            pl_refuse(PL_WRONG,
                      "step %lld: loss %g, gradient norm %g; rank %d: %s is not finite. Nothing "
                      "was updated.",
                      (long long)step, loss, norm, s->comms.rank, bad.name);
    return pl_agree(s->world, status);
}

static void set_scalars(pl_session *s, int64_t step, double lr)
{
    const pl_adamw_config *adamw = &s->options->adamw;

    pl_run_set_scalar(s->run, PL_NAME_SCALE,
                      (float)(1.0 / ((double)s->plan.batch * (double)s->plan.seq)));
    pl_run_set_scalar(s->run, PL_NAME_CLIP, (float)s->options->clip);
    pl_run_set_scalar(s->run, PL_NAME_LR, (float)lr);
    pl_run_set_scalar(s->run, PL_NAME_BIAS1, (float)(1 - pow(adamw->beta1, (double)(step + 1))));
    pl_run_set_scalar(s->run, PL_NAME_BIAS2, (float)(1 - pow(adamw->beta2, (double)(step + 1))));
}

pl_status pl_session_gradients(pl_session *s, int64_t step, pl_step_result *result)
{
    const window_source from = {.step = step};

    result->lr = pl_options_lr(s->options, step);
    set_scalars(s, step, result->lr);
    fill_batch(s, s->program, s->run, &from);
    pl_run_actions(s->run, 0, s->program->update_action, s->options->check);
    result->loss = pl_run_scalar(s->run, PL_NAME_TOTAL_LOSS);
    result->grad_norm = pl_run_scalar(s->run, PL_NAME_NORM);
    if (!isfinite(result->loss) || !isfinite(result->grad_norm))
        return refuse_non_finite(s, step, result);
    return PL_OK;
}

void pl_session_update(pl_session *s)
{
    pl_run_actions(s->run, s->program->update_action, s->program->n_actions, s->options->check);
}

pl_status pl_session_step(pl_session *s, int64_t step, pl_step_result *result)
{
    pl_step_result r = {0};

    add_measures(s, -1, &r);
    const double begin_s = pl_now_s();
    const pl_status status = pl_session_gradients(s, step, &r);

    if (status == PL_OK)
        pl_session_update(s);
    const double end_s = pl_now_s();
    add_measures(s, 1, &r);
    r.step_s = end_s - begin_s;
    pl_span_add(&s->spans, PL_TRACK_STEP, (int32_t)step, 0, begin_s, end_s);
    *result = r;
    return status;
}

pl_status pl_session_evaluate(pl_session *s, double *loss, int64_t *n_tokens)
{
    const int64_t batch = s->plan.batch;
    double sum = 0;

    for (int64_t first = 0; first < s->n_eval_windows; first += batch) {
        const int64_t left = s->n_eval_windows - first, n = left < batch ? left : batch;
        const int which = n < batch;
        const window_source from = {.evaluates = true, .first = first};
        pl_run *run = s->eval_run[which];

        pl_run_set_scalar(run, PL_NAME_SCALE, (float)(1.0 / ((double)n * (double)s->plan.seq)));
        fill_batch(s, s->eval_program[which], run, &from);
        pl_run_actions(run, 0, s->eval_program[which]->n_actions, s->options->check);
        sum += pl_run_scalar(run, PL_NAME_TOTAL_LOSS) * (double)n;
    }
    *n_tokens = s->n_eval_windows * s->plan.seq;
    *loss = sum / (double)s->n_eval_windows;
    if (s->n_eval_windows == 0 || !isfinite(*loss))
        return pl_agree(s->world, pl_refuse(PL_WRONG, "evaluation: loss %g over %lld windows",
                                            *loss, (long long)s->n_eval_windows));
    return PL_OK;
}
