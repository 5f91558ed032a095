#include "config.h"

#include "src/train/compare.h"

#include "src/base/agree.h"
#include "src/base/json.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/roofline/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SPEC = 64, N_FAMILIES = 4 };

static const char *const families[N_FAMILIES] = {"dp", "fsdp", "tp", "pp"};

/* A plan that is run. */
typedef struct {
    const pl_choice *choice;
    pl_options options;
    pl_session session;
    bool is_open;
    int n_steps;
    double *step_s; /* [n_steps] */
    double median_s;
} contender;

typedef struct {
    pl_session *s; /* that was asked: model, machine, options */
    pl_choices choices;
    int n;
    contender *contenders; /* [n] by prediction */
    bool keeps_open;       /* memory holds all of them */
    pl_json_lines log;     /* rank 0 */
} comparison;

/* ---- what is worth running, and what it shows ---- */

static bool has_largest_degree(const pl_spec *spec, const char *family)
{
    const int degree = pl_spec_degree(spec, family);
    bool largest = degree > 1;

    for (int f = 0; f < N_FAMILIES; f++)
        largest = largest &&
                  (strcmp(families[f], family) == 0 || pl_spec_degree(spec, families[f]) < degree);
    return largest;
}

int pl_compare_pick(const pl_choices *choices, int64_t top, bool *picked)
{
    int n = 0;

    for (int i = 0; i < choices->n; i++)
        picked[i] = i < choices->n_fit && i < top;
    for (int f = 0; f < N_FAMILIES; f++)
        for (int i = 0; i < choices->n_fit; i++)
            if (has_largest_degree(&choices->choice[i].spec, families[f])) {
                picked[i] = true;
                break;
            }
    for (int i = 0; i < choices->n; i++)
        n += picked[i];
    return n;
}

/* The place of x[i] in ascending order, from 1; of equals the mean of their places. */
static double rank_of(const double *x, int n, int i)
{
    double rank = 1;

    for (int k = 0; k < n; k++)
        rank += x[k] < x[i] ? 1 : x[k] == x[i] && k != i ? 0.5 : 0;
    return rank;
}

static double rank_correlation(const double *x, const double *y, int n)
{
    const double mean = (n + 1) / 2.0;
    double xy = 0, xx = 0, yy = 0;

    for (int i = 0; i < n; i++) {
        const double a = rank_of(x, n, i) - mean, b = rank_of(y, n, i) - mean;

        xy += a * b;
        xx += a * a;
        yy += b * b;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

pl_verdict pl_compare_judge(const double *predicted_s, const double *measured_s, int n)
{
    pl_verdict v = {.rank_correlation = rank_correlation(predicted_s, measured_s, n)};

    for (int i = 1; i < n; i++) {
        v.chosen = predicted_s[i] < predicted_s[v.chosen] ? i : v.chosen;
        v.fastest = measured_s[i] < measured_s[v.fastest] ? i : v.fastest;
    }
    v.regret = measured_s[v.chosen] / measured_s[v.fastest] - 1;
    return v;
}

/* ---- running ---- */

static pl_status open_contender(const comparison *c, contender *k)
{
    pl_step_result unused;
    pl_status status;

    k->options = *c->s->options;
    k->options.spec = k->choice->spec;
    k->is_open = true;
    status = pl_session_open(c->s->world, &k->options, &k->session);
    pl_session_use_machine(&k->session, &c->s->machine);
    if (status == PL_OK)
        status = pl_session_plan(&k->session);
    if (status == PL_OK)
        status = pl_session_start(&k->session);
    return status == PL_OK ? pl_session_step(&k->session, 0, &unused) : status; /* warms up */
}

static void close_contender(contender *k)
{
    if (k->is_open)
        pl_session_close(&k->session);
    k->is_open = false;
}

static pl_status step_contender(const comparison *c, contender *k)
{
    pl_step_result result;
    pl_status status = k->is_open ? PL_OK : open_contender(c, k);

    if (status == PL_OK)
        status = pl_session_step(&k->session, k->n_steps + 1, &result);
    if (status != PL_OK)
        return status;
    pl_session_max(&k->session, &result.step_s, 1);
    k->step_s[k->n_steps++] = result.step_s;
    if (!c->keeps_open)
        close_contender(k);
    return PL_OK;
}

/* Every other round backwards, so that a machine that slows down or speeds up does so for all. */
static pl_status run_rounds(comparison *c)
{
    const int64_t n_rounds = c->s->options->steps;
    pl_status status = PL_OK;

    for (int64_t round = 0; round < n_rounds && status == PL_OK; round++) {
        pl_say("round %lld of %lld", (long long)round + 1, (long long)n_rounds);
        for (int i = 0; i < c->n && status == PL_OK; i++)
            status = step_contender(c, &c->contenders[round % 2 == 0 ? i : c->n - 1 - i]);
    }
    for (int i = 0; i < c->n; i++)
        close_contender(&c->contenders[i]);
    return status;
}

static double median_of(const double *x, int n)
{
    double *sorted = pl_alloc((size_t)n * sizeof *sorted);

    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    const double upper = pl_median(sorted, n),
                 middle = n % 2 ? upper : (upper + sorted[n / 2 - 1]) / 2;
    pl_free(sorted);
    return middle;
}

static pl_status run_picked(comparison *c)
{
    bool *picked = pl_alloc((size_t)c->choices.n * sizeof *picked);
    int64_t needed = 0;

    c->contenders = pl_alloc((size_t)pl_compare_pick(&c->choices, c->s->options->compare, picked) *
                             sizeof *c->contenders);
    for (int i = 0; i < c->choices.n; i++)
        if (picked[i]) {
            needed += c->choices.choice[i].memory_bytes;
            c->contenders[c->n++] =
                (contender){.choice = &c->choices.choice[i],
                            .step_s = pl_alloc((size_t)c->s->options->steps * sizeof(double))};
        }
    pl_free(picked);
    c->keeps_open = needed <= pl_session_memory(c->s) / 2;
    const pl_status status = run_rounds(c);
    for (int i = 0; i < c->n && status == PL_OK; i++)
        c->contenders[i].median_s = median_of(c->contenders[i].step_s, c->contenders[i].n_steps);
    return status;
}

/* ---- what is printed and logged, by rank 0 ---- */

/* "dp:2+tp:4": what is not used is not named. */
static void print_spec(const pl_spec *spec, char text[SPEC])
{
    pl_spec used = {.n = 0};

    for (int i = 0; i < spec->n; i++)
        if (spec->degree[i] > 1) {
            used.strategy[used.n] = spec->strategy[i];
            used.degree[used.n++] = spec->degree[i];
        }
    if (used.n > 0)
        pl_spec_print(&used, text, SPEC);
    else
        snprintf(text, SPEC, "dp:1");
}

static void print_heading(const comparison *c)
{
    const pl_plan *plan = &c->s->plan;

    pl_print("%s, %lld sequences of %lld tokens, %s, on %d ranks: %d plans", plan->model.name,
             (long long)plan->batch, (long long)plan->seq, pl_dtype_short(plan->dtype),
             c->s->topology.n_ranks, c->choices.n);
    if (c->choices.n_fit < c->choices.n)
        pl_print(", %d of which need too much memory", c->choices.n - c->choices.n_fit);
    pl_print("\n\n");
}

static void print_predictions(const comparison *c)
{
    pl_print("  %-28s %13s %8s %16s\n", "strategy", "predicted (s)", "", "memory (GB/rank)");
    for (int i = 0; i < c->choices.n; i++) {
        const pl_choice *k = &c->choices.choice[i];
        char spec[SPEC];

        print_spec(&k->spec, spec);
        pl_print("  %-28s %13.4f %+7.1f%% %16.3f%s\n", spec, k->step_s,
                 100 * (k->step_s / c->choices.choice[0].step_s - 1), (double)k->memory_bytes / 1e9,
                 k->fits ? "" : "  too much");
    }
}

static int place(double rank)
{
    return (int)floor(rank);
}

static void print_measurements(const comparison *c, const double *predicted_s,
                               const double *measured_s, const pl_verdict *v)
{
    pl_print("  %-28s %13s %13s %8s  %s\n", "strategy", "predicted (s)", "measured (s)", "error",
             "rank predicted, measured");
    for (int i = 0; i < c->n; i++) {
        char spec[SPEC];

        print_spec(&c->contenders[i].choice->spec, spec);
        pl_print("  %-28s %13.4f %13.4f %+7.1f%%  %d, %d\n", spec, predicted_s[i], measured_s[i],
                 100 * (predicted_s[i] / measured_s[i] - 1), place(rank_of(predicted_s, c->n, i)),
                 place(rank_of(measured_s, c->n, i)));
    }
    pl_print("\nthe plan that prediction chose is %.1f%% slower than the fastest of these",
             100 * v->regret);
    if (!isnan(v->rank_correlation))
        pl_print("; rank correlation %.2f", v->rank_correlation);
    pl_print("\n");
}

static pl_status log_plan(comparison *c, const pl_choice *k, const contender *measured)
{
    char spec[SPEC];
    json_t *steps = json_array();

    print_spec(&k->spec, spec);
    for (int i = 0; measured != NULL && i < measured->n_steps; i++)
        json_array_append_new(steps, pl_json_real(measured->step_s[i]));
    return pl_json_lines_write(
        &c->log,
        json_pack("{s:s, s:s, s:o, s:I, s:b, s:o, s:o}", "record", "plan", "strategy", spec,
                  "predicted_step_s", pl_json_real(k->step_s), "memory_bytes",
                  (json_int_t)k->memory_bytes, "fits", (int)k->fits, "measured_step_s",
                  pl_json_real(measured != NULL ? measured->median_s : NAN), "step_s", steps));
}

static pl_status log_verdict(comparison *c, const pl_verdict *v)
{
    const pl_plan *plan = &c->s->plan;
    char chosen[SPEC], fastest[SPEC];

    print_spec(&c->choices.choice[0].spec, chosen);
    print_spec(v != NULL ? &c->contenders[v->fastest].choice->spec : &c->choices.choice[0].spec,
               fastest);
    return pl_json_lines_write(
        &c->log,
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:s, s:i, s:I, s:s, s:s?, s:o, s:o}", "record",
                  "comparison", "model", plan->model.name, "ranks", c->s->topology.n_ranks,
                  "batch_sequences", (json_int_t)plan->batch, "seq_tokens", (json_int_t)plan->seq,
                  "dtype", pl_dtype_short(plan->dtype), "plans", c->choices.n, "steps",
                  (json_int_t)(v != NULL ? c->s->options->steps : 0), "chosen", chosen, "fastest",
                  v != NULL ? fastest : NULL, "regret_fraction",
                  pl_json_real(v != NULL ? v->regret : NAN), "rank_correlation",
                  pl_json_real(v != NULL ? v->rank_correlation : NAN)));
}

static pl_status log_all(comparison *c, const pl_verdict *v)
{
    pl_status status = PL_OK;
    int at = 0;

    for (int i = 0; i < c->choices.n && status == PL_OK; i++) {
        const bool ran = at < c->n && c->contenders[at].choice == &c->choices.choice[i];

        status = log_plan(c, &c->choices.choice[i], ran ? &c->contenders[at] : NULL);
        at += ran;
    }
    return status == PL_OK ? log_verdict(c, v) : status;
}

static pl_status show(comparison *c)
{
    double *predicted_s = pl_alloc((size_t)c->n * sizeof(double)),
           *measured_s = pl_alloc((size_t)c->n * sizeof(double));
    pl_verdict v;
    pl_status status = PL_OK;

    print_heading(c);
    for (int i = 0; i < c->n; i++) {
        predicted_s[i] = c->contenders[i].choice->step_s;
        measured_s[i] = c->contenders[i].median_s;
    }
    if (c->n == 0) {
        print_predictions(c);
    } else {
        v = pl_compare_judge(predicted_s, measured_s, c->n);
        print_measurements(c, predicted_s, measured_s, &v);
    }
    if (pl_log_rank() == 0)
        status = log_all(c, c->n > 0 ? &v : NULL);
    pl_free(predicted_s);
    pl_free(measured_s);
    return status;
}

static pl_status predict_and_run(comparison *c)
{
    const pl_options *o = c->s->options;
    pl_status status = pl_session_plan(c->s);

    if (status == PL_OK)
        status = pl_session_choices(c->s, &c->choices);
    if (status == PL_OK && !o->dry_run)
        status = run_picked(c);
    return status == PL_OK ? pl_agree(c->s->world, show(c)) : status;
}

pl_status pl_compare(pl_session *session)
{
    comparison c = {.s = session};
    pl_status status = PL_OK;

    if (pl_log_rank() == 0 && session->options->log != NULL)
        status = pl_json_lines_open(&c.log, session->options->log);
    status = pl_agree(session->world, status);
    if (status == PL_OK)
        status = predict_and_run(&c);
    for (int i = 0; i < c.n; i++)
        pl_free(c.contenders[i].step_s);
    pl_free(c.contenders);
    pl_choices_free(&c.choices);
    const pl_status closed = pl_agree(session->world, pl_json_lines_close(&c.log));
    return status != PL_OK ? status : closed;
}
