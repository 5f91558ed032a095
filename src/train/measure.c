#include "config.h"

#include "src/train/measure.h"

#include "src/base/agree.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/roofline/formula.h"
#include "src/trace/run_log.h"
#include "src/train/finding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FEWEST_STEPS = 2, /* a point; each after one that does not count */
};

typedef struct {
    pl_survey survey;
    const pl_explain *e;
    pl_json_lines *log;
    int n_steps; /* of each point; 0: nothing is run */
    double begin_s;
} measurement;

/* ---- running it */

/* Of all points and strategies, predicted: a step, and its two parts by themselves where they are
 * run. */
typedef struct {
    double step_s, parts_s;
} round_times;

static round_times times_of_round(const pl_survey *v)
{
    round_times round = {0, 0};
    double memory_bytes;

    for (int i = 0; i < v->n; i++)
        for (int k = 0; k < v->n_specs; k++) {
            pl_probe probe = v->probe[i][k];

            pl_probe_predict(v->s, &probe, &memory_bytes);
            round.step_s += probe.predicted.step_s;
            if (probe.apart)
                round.parts_s += probe.predicted.kernels_s + probe.predicted.comms_s;
        }
    return round;
}

/* n steps that count, and the one before. */
static double seconds_of(round_times round, int n)
{
    return (1 + n) * round.step_s + n * round.parts_s;
}

/* As many steps a point as --within allows. */
static pl_status choose_steps(measurement *m)
{
    const pl_survey *v = &m->survey;
    const int n_points = v->n * v->n_specs;
    const round_times round = times_of_round(v);
    const double fewest_s = seconds_of(round, FEWEST_STEPS);

    if (fewest_s > v->s->options->within_s)
        return pl_refuse(
            PL_BAD_INPUT,
            "--within: 1 + %d steps at each of %d points take %.0f s by prediction; give --within "
            "%.0f, or a smaller --model",
            FEWEST_STEPS, n_points, fewest_s, ceil(fewest_s * 1.01));
    m->n_steps = PL_PROBE_MOST_STEPS;
    while (seconds_of(round, m->n_steps) > v->s->options->within_s)
        m->n_steps--;
    pl_say("measuring %d points, 1 + %d steps each%s: about %.0f s by prediction", n_points,
           m->n_steps,
           pl_survey_runs_apart(v) ? ", their kernels and their communication by themselves" : "",
           seconds_of(round, m->n_steps));
    return PL_OK;
}

static pl_status log_point(const measurement *m, const pl_probe *p)
{
    const char *what;
    char spec[64];

    pl_spec_print(&p->spec, spec, sizeof spec);
    const pl_log_point record = {.strategy = spec,
                                 .batch = p->batch,
                                 .seq = p->seq,
                                 .micro_batch = p->micro_batch,
                                 .steps = m->n_steps,
                                 .predicted_s = {p->predicted.kernels_s, p->predicted.comms_s,
                                                 p->predicted.exposed_s, p->predicted.step_s},
                                 .measured_s = {p->measured.kernels_s, p->measured.comms_s,
                                                p->measured.exposed_s, p->measured.step_s},
                                 .spread = p->n_rounds > 0 ? pl_probe_spread(p, &what) : NAN};
    return pl_agree(m->survey.s->world, pl_run_log_point(m->log, &record));
}

static void print_heading(const measurement *m)
{
    const bool apart = pl_survey_runs_apart(&m->survey);
    const char *const both = "pred.    meas.";

    pl_print("\n%-12s %6s %8s %17s", "measure",
             m->survey.subject == PL_SURVEY_MICROBATCHES ? "m" : "batch", "tokens",
             apart ? "T_math (ms)" : "kernels (ms)");
    if (apart)
        pl_print(" %17s", "T_comms (ms)");
    pl_print(" %17s %17s\n%-12s %6s %8s %17s", "exposed (ms)", "step (ms)", "strategy", "",
             "a step", both);
    if (apart)
        pl_print(" %17s", both);
    pl_print(" %17s %17s %7s\n", both, both, "error");
}

static const char *number(double x, const char *none, char *text, size_t size)
{
    if (isnan(x))
        snprintf(text, size, "%s", none);
    else
        snprintf(text, size, "%.4g", x);
    return text;
}

/* Predicted and measured, in ms. */
static void print_pair(double predicted_s, double measured_s)
{
    char measured[32];

    pl_print(" %8.4g %8s", 1e3 * predicted_s,
             number(1e3 * measured_s, "-", measured, sizeof measured));
}

static void print_point(const measurement *m, int i, const pl_probe *p)
{
    const pl_step_times *a = &p->predicted, *b = &p->measured;
    const char *what;
    const double spread = pl_probe_spread(p, &what);
    char spec[64];

    pl_spec_print(&p->spec, spec, sizeof spec);
    pl_print("%-12s %6lld %8lld", spec,
             m->survey.subject == PL_SURVEY_MICROBATCHES ? (long long)m->survey.x[i]
                                                         : (long long)p->batch,
             (long long)(p->batch * p->seq));
    print_pair(a->kernels_s, b->kernels_s);
    if (p->apart)
        print_pair(a->comms_s, b->comms_s);
    print_pair(a->exposed_s, b->exposed_s);
    print_pair(a->step_s, b->step_s);
    if (isfinite(b->step_s))
        pl_print(" %+6.1f%%", 100 * (a->step_s / b->step_s - 1));
    if (spread > PL_MOST_APART)
        pl_print("  disturbed: %s differ%s by %.0f%%", what, strcmp(what, "kernels") ? "s" : "",
                 100 * spread);
    pl_print("\n");
    if (pl_log_rank() == 0)
        fflush(stdout);
}

static pl_status run_probe(const measurement *m, pl_probe *p)
{
    double memory_bytes;

    if (m->n_steps > 0)
        return pl_probe_measure(m->survey.s, m->n_steps, p);
    pl_probe_predict(m->survey.s, p, &memory_bytes);
    p->measured = (pl_step_times){NAN, NAN, NAN, NAN, NAN};
    return PL_OK;
}

static pl_status run_point(measurement *m, int i)
{
    pl_survey *v = &m->survey;
    pl_status status = PL_OK;

    if (m->n_steps > 0)
        pl_say("point %d of %d", i + 1, v->n);
    for (int k = 0; k < v->n_specs && status == PL_OK; k++) {
        status = run_probe(m, &v->probe[i][k]);
        if (status != PL_OK)
            break;
        print_point(m, i, &v->probe[i][k]);
        status = log_point(m, &v->probe[i][k]);
    }
    return status;
}

/* ---- what it comes to */

/* Where what was measured changes sides at none of the points, more of them beyond the end at which
 * the sides are nearer to each other, while --within lasts. */
static pl_status look_further(measurement *m)
{
    pl_survey *v = &m->survey;
    pl_status status = PL_OK;
    int at;

    if (v->subject != PL_SURVEY_BATCH && v->subject != PL_SURVEY_AGAINST)
        return PL_OK;
    while (status == PL_OK && m->n_steps > 0 && isnan(pl_finding_crossing(v, PL_MEASURED))) {
        double first[2], last[2];

        pl_finding_sides(v, PL_MEASURED, 0, first);
        pl_finding_sides(v, PL_MEASURED, v->n - 1, last);
        const bool up = fabs(log(last[0] / last[1])) < fabs(log(first[0] / first[1]));
        double ends_s = pl_now_s() - m->begin_s; /* as long again: half as many tokens more */

        pl_session_max(v->s, &ends_s, 1);
        if (2 * ends_s > v->s->options->within_s || !pl_survey_extend(v, up, &at))
            break;
        status = run_point(m, at);
    }
    return status;
}

static void print_rounds(const pl_finding *f)
{
    char low[32], high[32];

    pl_print("; of %d rounds ", f->n_rounds);
    if (f->n_nowhere > 0)
        pl_print("%d find none, ", f->n_nowhere);
    if (!isnan(f->low))
        pl_print("half %s to %s", number(f->low, "", low, sizeof low),
                 number(f->high, "", high, sizeof high));
    if (pl_finding_is_noise(f))
        pl_print(": limited by noise");
}

/* One line and one record. */
static pl_status conclude(const measurement *m, const char *what, const char *unit, double book,
                          double (*where)(const pl_survey *, int))
{
    const pl_finding f = pl_find(&m->survey, where);
    char a[32], b[32], c[32];

    pl_print("crossover  %s: predicted %s, measured %s %s", what,
             number(f.predicted, "none", a, sizeof a),
             number(f.measured, m->n_steps > 0 ? "none" : "nothing", b, sizeof b), unit);
    if (!isnan(f.predicted) && !isnan(f.measured))
        pl_print(", error %+.1f%%", 100 * (f.predicted / f.measured - 1));
    if (f.n_rounds > 0)
        print_rounds(&f);
    if (!isnan(book))
        pl_print("; the book's formula %s", number(book, "", c, sizeof c));
    pl_print("\n");
    const pl_log_crossover record = {.what = what,
                                     .unit = unit,
                                     .book = book,
                                     .predicted = f.predicted,
                                     .measured = f.measured,
                                     .low = f.low,
                                     .high = f.high};
    return pl_run_log_crossover(m->log, &record);
}

/* The batch at which DP, FSDP or both with TP change sides, by the formula: tokens of a step. */
static double book_tokens(const measurement *m)
{
    const pl_spec *spec = &m->survey.spec[0];
    const double N = m->e->ranks, alpha = pl_explain_alpha(m->e);

    if (pl_spec_degree(spec, "pp") > 1)
        return NAN;
    if (pl_spec_degree(spec, "tp") > 1)
        return N * pl_formula_value("fsdp_tp", "min_tokens_per_chip", "F", m->e->d_ff, "alpha",
                                    alpha, "M_X", 1.0, "M_Y", 1.0, NULL);
    return N * pl_formula_value("data_parallel", "min_tokens_per_chip", "alpha", alpha, NULL);
}

static double book_degree(const measurement *m)
{
    return pl_formula_value("tensor_parallel", "max_ways", "F", m->e->d_ff, "alpha",
                            pl_explain_alpha(m->e), NULL);
}

static double unfilled(const pl_step_times *t)
{
    const double passes_s = t->step_s - t->update_s;

    return 100 * (passes_s - t->kernels_s) / passes_s;
}

/* The share of a pipeline's two passes that is not kernels, beside the bubble's formula. */
static void print_bubbles(const measurement *m)
{
    const pl_survey *v = &m->survey;

    for (int i = 0; i < v->n; i++) {
        const double bubble = pl_formula_value("pipeline", "bubble", "stages", m->e->stages,
                                               "microbatches", v->x[i], NULL);
        char measured[32];

        pl_print(
            "bubble     m = %g: (p - 1) / (m + p - 1) = %.1f%%; of the two passes kernels do not "
            "fill %.1f%% by prediction, %s%% as measured\n",
            v->x[i], 100 * bubble, unfilled(&v->probe[i][0].predicted),
            number(unfilled(&v->probe[i][0].measured), "-", measured, sizeof measured));
    }
}

/* Points whose repetitions lie far apart. */
static void say_disturbed(const pl_survey *v)
{
    const char *what;
    int n = 0;

    for (int i = 0; i < v->n; i++)
        for (int k = 0; k < v->n_specs; k++)
            n += pl_probe_spread(&v->probe[i][k], &what) > PL_MOST_APART;
    if (n > 0)
        pl_print(
            "disturbed  %d of %d points: what follows rests on repetitions that differ; measure "
            "again on a quiet machine\n",
            n, v->n * v->n_specs);
}

static pl_status conclude_all(const measurement *m)
{
    const pl_survey *v = &m->survey;
    pl_status status;

    say_disturbed(v);

    switch (v->subject) {
    case PL_SURVEY_MICROBATCHES:
        print_bubbles(m);
        return PL_OK;
    case PL_SURVEY_DEGREE:
        return conclude(m, "T_math = T_comms over tp", "ranks", book_degree(m),
                        pl_finding_crossing);
    case PL_SURVEY_AGAINST:
        return conclude(m, "both take as long", "tokens a step",
                        pl_explain_equal_bytes(v->s, &v->spec[0], &v->spec[1]),
                        pl_finding_crossing);
    default: /* PL_SURVEY_BATCH */
        status =
            conclude(m, "T_math = T_comms", "tokens a step", book_tokens(m), pl_finding_crossing);
        if (status != PL_OK)
            return status;
        return conclude(m, "exposed communication appears below", "tokens a step", NAN,
                        pl_finding_elbow);
    }
}

static void say_no_crossover(const pl_survey *v)
{
    const bool less = v->first[0] < v->first[1];
    char spec[64];

    pl_spec_print(&v->spec[!less], spec, sizeof spec);
    if (v->n_specs == 2)
        pl_print(
            "measure    no crossover: %s is predicted to be the faster at every batch that fits, "
            "from one sequence of %lld tokens a data rank (%s, %s)\n",
            spec, (long long)v->seq, pl_si(v->first[0], "s").text, pl_si(v->first[1], "s").text);
    else
        pl_print(
            "measure    no crossover: %s-bound at every batch that fits, by prediction; with one "
            "sequence of %lld tokens a data rank T_math = %s, T_comms = %s\n",
            less ? "communication" : "compute", (long long)v->seq, pl_si(v->first[0], "s").text,
            pl_si(v->first[1], "s").text);
}

static pl_status measure(measurement *m)
{
    const int n = m->survey.n; /* more may come */
    pl_status status = m->survey.s->options->dry_run ? PL_OK : choose_steps(m);

    m->begin_s = pl_now_s();
    if (status == PL_OK)
        print_heading(m);
    for (int i = 0; i < n && status == PL_OK; i++)
        status = run_point(m, i);
    if (status == PL_OK)
        status = look_further(m);
    return status == PL_OK ? conclude_all(m) : status;
}

pl_status pl_explain_measure(pl_session *s, const pl_explain *explain, pl_json_lines *log)
{
    measurement *m;
    pl_status status;

    if (explain->ranks < 2)
        return PL_OK; /* the explanation says that nothing is communicated */
    m = pl_alloc(sizeof *m);
    *m = (measurement){.e = explain, .log = log};
    status = pl_survey_choose(s, &m->survey);
    if (status == PL_OK && m->survey.n == 0)
        say_no_crossover(&m->survey);
    else if (status == PL_OK)
        status = measure(m);
    status = pl_agree(s->world, status);
    pl_free(m);
    return status;
}
