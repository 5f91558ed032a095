#include "config.h"

#include "src/train/measure.h"

#include "src/base/agree.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/roofline/choose.h"
#include "src/roofline/formula.h"
#include "src/trace/run_log.h"
#include "src/train/crossover.h"
#include "src/train/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_POINTS = 12,
    MOST_STEPS = 20,      /* a point */
    FEWEST_STEPS = 2,     /* the same; each after one that does not count */
    MOST_UNITS = 1 << 14, /* data ranks take at most so many sequences each */
    SHORTEST_SEQ = 8,
    WANTED_UNITS = 4, /* sequences of a data rank at the crossover */
};

/* What is varied. */
typedef enum { BATCH, TP_DEGREE, MICROBATCHES, AGAINST } subject;

typedef struct {
    pl_session *s;
    const pl_explain *e;
    pl_json_lines *log;
    subject subject;
    int n_specs;     /* 2 with --against */
    pl_spec spec[2]; /* all degrees set */
    int64_t unit;    /* sequences: one for each data rank */
    int64_t seq;
    double memory_bytes; /* that a rank may take */
    int n;               /* points */
    double x[MOST_POINTS];
    pl_probe probe[MOST_POINTS][2];
} measurement;

/* ---- what to run */

static int64_t data_ranks(const pl_spec *spec)
{
    return (int64_t)pl_spec_degree(spec, "dp") * pl_spec_degree(spec, "fsdp");
}

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;

    while (y != 0) {
        const int64_t rest = x % y;

        x = y;
        y = rest;
    }
    return a / x * b;
}

static pl_probe probe_of(const measurement *m, int which, int64_t batch, int64_t seq)
{
    return (pl_probe){.spec = m->spec[which],
                      .batch = batch,
                      .seq = seq,
                      .micro_batch = m->s->options->micro_batch};
}

/* What should become equal, predicted: T_math and T_comms, or both strategies' steps. False where
 * such a batch does not fit. */
static bool predict_sides(const measurement *m, int64_t units, int64_t seq, double sides[2])
{
    for (int k = 0; k < m->n_specs; k++) {
        pl_probe probe = probe_of(m, k, units * m->unit, seq);
        double memory_bytes;

        pl_probe_predict(m->s, &probe, &memory_bytes);
        if (memory_bytes > m->memory_bytes)
            return false;
        sides[k] = probe.predicted.step_s;
        if (m->n_specs == 1) {
            sides[0] = probe.predicted.kernels_s;
            sides[1] = probe.predicted.comms_s;
        }
    }
    return true;
}

/* Units of the predicted crossover with sequences of `seq` tokens; NaN where there is none.
 * `first`: the sides at one unit. */
static double find_crossover(const measurement *m, int64_t seq, double first[2])
{
    double a[2], b[2], sides[2];
    int64_t low = 1, high = 1;

    if (!predict_sides(m, low, seq, first))
        return NAN;
    a[0] = a[1] = first[0];
    b[0] = b[1] = first[1];
    const bool is_less = first[0] < first[1];
    while ((a[1] < b[1]) == is_less) {
        low = high;
        a[0] = a[1];
        b[0] = b[1];
        high *= 2;
        if (high > MOST_UNITS || !predict_sides(m, high, seq, sides))
            return NAN;
        a[1] = sides[0];
        b[1] = sides[1];
    }
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        predict_sides(m, middle, seq, sides);
        const int side = (sides[0] < sides[1]) != is_less;

        *(side ? &high : &low) = middle;
        a[side] = sides[0];
        b[side] = sides[1];
    }
    const double x[2] = {(double)low, (double)high};
    return pl_crossing(2, x, a, b);
}

/* Sequences as long as they may be for some of them to make a crossover. */
static double choose_length(measurement *m, double first[2])
{
    const bool may_shorten = m->s->options->seq == 0;
    double units;

    m->seq = m->s->plan.seq;
    for (;;) {
        units = find_crossover(m, m->seq, first);
        if (units >= WANTED_UNITS || !may_shorten || m->seq / 2 < SHORTEST_SEQ)
            return units;
        m->seq /= 2;
    }
}

static void add_point(measurement *m, double x, int64_t batch)
{
    if (m->n == MOST_POINTS || (m->n > 0 && m->x[m->n - 1] >= x))
        return;
    m->x[m->n] = x;
    for (int k = 0; k < m->n_specs; k++)
        m->probe[m->n][k] = probe_of(m, k, batch, m->seq);
    m->n++;
}

static void say_no_crossover(const measurement *m, const double first[2])
{
    const bool less = first[0] < first[1];
    char spec[64];

    pl_spec_print(&m->spec[!less], spec, sizeof spec);
    if (m->n_specs == 2)
        pl_print(
            "measure    no crossover: %s is predicted to be the faster at every batch that fits\n",
            spec);
    else
        pl_print(
            "measure    no crossover: %s-bound at every batch that fits, by prediction; with one "
            "sequence of %lld tokens a data rank T_math = %s, T_comms = %s\n",
            less ? "communication" : "compute", (long long)m->seq, pl_si(first[0], "s").text,
            pl_si(first[1], "s").text);
}

/* Batches around the crossover, in whole sequences of each data rank. */
static bool choose_batches(measurement *m)
{
    static const double factors[] = {0.25, 0.5, 0.75, 1, 1.5, 2, 3},
                        near[] = {0.5, 0.75, 1, 1.33, 2};
    double first[2] = {NAN, NAN}, sides[2];
    const double units = choose_length(m, first);
    const int n = m->n_specs == 2 ? 5 : 7;

    if (isnan(units)) {
        say_no_crossover(m, first);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const int64_t k = llround((m->n_specs == 2 ? near : factors)[i] * units);

        if (k >= 1 && predict_sides(m, k, m->seq, sides))
            add_point(m, (double)(k * m->unit * m->seq), k * m->unit);
    }
    return true;
}

static void set_degree(pl_spec *spec, const char *name, int degree)
{
    for (int i = 0; i < spec->n; i++)
        if (strcmp(spec->strategy[i]->name, name) == 0)
            spec->degree[i] = degree;
}

/* tp over every divisor of the ranks that suits the model, the rest dp. */
static bool choose_degrees(measurement *m)
{
    const int n_ranks = (int)pl_mesh_size(&m->s->mesh);

    if (pl_spec_parse("dp+tp", &m->spec[0]) != PL_OK)
        return false;
    for (int tp = 2; tp <= n_ranks; tp++) {
        const int64_t batch = m->s->plan.batch - m->s->plan.batch % n_ranks;

        set_degree(&m->spec[0], "tp", tp);
        set_degree(&m->spec[0], "dp", n_ranks / tp);
        if (n_ranks % tp == 0 &&
            pl_spec_check(&m->spec[0], &m->s->model, m->s->plan.batch, n_ranks) == PL_OK)
            add_point(m, tp, batch > 0 ? batch : n_ranks);
        pl_status_clear();
    }
    for (int i = 0; i < m->n; i++)
        m->probe[i][0].over = "tp";
    return m->n > 0;
}

/* Microbatches of a pipeline: the same batch, cut ever finer. */
static bool choose_microbatches(measurement *m)
{
    const int64_t share = m->s->plan.batch, most = 4 * m->s->n_stages;

    for (int64_t n = 1; n <= most && n <= share; n *= 2) {
        add_point(m, (double)n, m->s->plan.batch);
        m->probe[m->n - 1][0].micro_batch = (share + n - 1) / n;
    }
    return m->n > 0;
}

/* ---- running it */

/* Steps a point that --within allows; 0 after a refusal, and with --dry-run. */
static int choose_steps(const measurement *m)
{
    double round_s = 0, memory_bytes;

    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n_specs; k++) {
            pl_probe probe = m->probe[i][k];

            pl_probe_predict(m->s, &probe, &memory_bytes);
            round_s += probe.predicted.step_s + probe.predicted.comms_s;
        }
    const double within_s = m->s->options->within_s, steps = floor(within_s / round_s) - 1;
    const int n = steps > MOST_STEPS ? MOST_STEPS : (int)steps;

    if (m->s->options->dry_run)
        return 0;
    if (n >= FEWEST_STEPS) {
        pl_say(
            "measuring %d points, 1 + %d steps each and their communication alone: about %.0f s by "
            "prediction",
            m->n * m->n_specs, n, round_s * (n + 1));
        return n;
    }
    pl_refuse(
        PL_BAD_INPUT,
        "--within: 1 + %d steps at each of %d points take %.0f s by prediction; give --within "
        "%.0f, or a smaller --model",
        FEWEST_STEPS, m->n * m->n_specs, round_s * (FEWEST_STEPS + 1),
        ceil(round_s * (FEWEST_STEPS + 1) * 1.01));
    return 0;
}

static pl_status log_point(const measurement *m, const pl_probe *p, int n_steps)
{
    char spec[64];

    pl_spec_print(&p->spec, spec, sizeof spec);
    const pl_log_point record = {.strategy = spec,
                                 .batch = p->batch,
                                 .seq = p->seq,
                                 .micro_batch = p->micro_batch,
                                 .steps = n_steps,
                                 .predicted_s = {p->predicted.kernels_s, p->predicted.comms_s,
                                                 p->predicted.exposed_s, p->predicted.step_s},
                                 .measured_s = {p->measured.kernels_s, p->measured.comms_s,
                                                p->measured.exposed_s, p->measured.step_s}};
    return pl_agree(m->s->world, pl_run_log_point(m->log, &record));
}

static void print_heading(const measurement *m)
{
    static const char *const varied[] = {"batch", "batch", "m", "batch"};

    pl_print("\n%-14s %6s %9s %17s %19s %17s %26s\n", "measure", varied[m->subject], "tokens",
             "kernels (ms)", "comms alone (ms)", "exposed (ms)", "step (ms)");
    pl_print("%-14s %6s %9s %17s %19s %17s %17s %8s\n", "strategy", "", "a step", "pred.    meas.",
             "pred.    meas.", "pred.    meas.", "pred.    meas.", "error");
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
static void print_pair(int width, double predicted_s, double measured_s)
{
    char measured[32];

    pl_print(" %*.4g %8s", width, 1e3 * predicted_s,
             number(1e3 * measured_s, "-", measured, sizeof measured));
}

static void print_point(const measurement *m, int i, const pl_probe *p)
{
    const pl_step_times *a = &p->predicted, *b = &p->measured;
    char spec[64];

    pl_spec_print(&p->spec, spec, sizeof spec);
    pl_print("%-14s %6lld %9lld", spec,
             m->subject == MICROBATCHES ? (long long)m->x[i] : (long long)p->batch,
             (long long)(p->batch * p->seq));
    print_pair(8, a->kernels_s, b->kernels_s);
    print_pair(10, a->comms_s, b->comms_s);
    print_pair(8, a->exposed_s, b->exposed_s);
    print_pair(8, a->step_s, b->step_s);
    if (isfinite(b->step_s))
        pl_print(" %+7.1f%%", 100 * (a->step_s / b->step_s - 1));
    pl_print("\n");
    if (pl_log_rank() == 0)
        fflush(stdout);
}

/* With --dry-run nothing is measured. */
static pl_status run_point(const measurement *m, int n_steps, pl_probe *p)
{
    double memory_bytes;

    if (!m->s->options->dry_run)
        return pl_probe_measure(m->s, n_steps, p);
    pl_probe_predict(m->s, p, &memory_bytes);
    p->measured = (pl_step_times){NAN, NAN, NAN, NAN, NAN};
    return PL_OK;
}

static pl_status measure_points(measurement *m, int n_steps)
{
    pl_status status = PL_OK;

    print_heading(m);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n_specs && status == PL_OK; k++) {
            pl_probe *p = &m->probe[i][k];

            if (n_steps > 0)
                pl_say("point %d of %d", i * m->n_specs + k + 1, m->n * m->n_specs);
            status = run_point(m, n_steps, p);
            if (status != PL_OK)
                break;
            print_point(m, i, p);
            status = log_point(m, p, n_steps);
        }
    return status;
}

/* ---- what it comes to */

/* Figures of all points, as pl_crossing and pl_elbow take them. */
typedef struct {
    double kernels_s[MOST_POINTS], comms_s[MOST_POINTS], exposed_s[MOST_POINTS],
        step_s[MOST_POINTS], update_s[MOST_POINTS];
} columns;

static columns columns_of(const measurement *m, int which, bool measured)
{
    columns c = {0};

    for (int i = 0; i < m->n; i++) {
        const pl_probe *p = &m->probe[i][which];
        const pl_step_times *t = measured ? &p->measured : &p->predicted;

        c.kernels_s[i] = t->kernels_s;
        c.update_s[i] = t->update_s;
        c.comms_s[i] = t->comms_s;
        c.exposed_s[i] = t->exposed_s;
        c.step_s[i] = t->step_s;
    }
    return c;
}

/* One line and one record. */
static pl_status conclude(const measurement *m, const char *what, const char *unit, double book,
                          double predicted, double measured)
{
    const char *none = m->s->options->dry_run ? "nothing" : "none";
    char a[32], b[32], c[32];

    pl_print("crossover  %s: predicted %s, measured %s %s", what,
             number(predicted, "none", a, sizeof a), number(measured, none, b, sizeof b), unit);
    if (!isnan(predicted) && !isnan(measured))
        pl_print(", error %+.1f%%", 100 * (predicted / measured - 1));
    if (!isnan(book))
        pl_print("; the book's formula %s", number(book, "", c, sizeof c));
    pl_print("\n");
    return pl_run_log_crossover(m->log, what, unit, book, predicted, measured);
}

/* The batch at which DP, FSDP or both with TP change sides, by the formula: tokens of a step. */
static double book_tokens(const measurement *m)
{
    const double N = m->e->ranks, alpha = pl_explain_alpha(m->e);

    if (pl_spec_degree(&m->spec[0], "pp") > 1)
        return NAN;
    if (pl_spec_degree(&m->spec[0], "tp") > 1)
        return N * pl_formula_value("fsdp_tp", "min_tokens_per_chip", "F", m->e->d_ff, "alpha",
                                    alpha, "M_X", 1.0, "M_Y", 1.0, NULL);
    return N * pl_formula_value("data_parallel", "min_tokens_per_chip", "alpha", alpha, NULL);
}

static pl_status conclude_batch(const measurement *m)
{
    const columns p = columns_of(m, 0, false), t = columns_of(m, 0, true);

    const pl_status status = conclude(m, "T_math = T_comms", "tokens a step", book_tokens(m),
                                      pl_crossing(m->n, m->x, p.kernels_s, p.comms_s),
                                      pl_crossing(m->n, m->x, t.kernels_s, t.comms_s));

    if (status != PL_OK)
        return status;
    return conclude(m, "exposed communication appears below", "tokens a step", NAN,
                    pl_elbow(m->n, m->x, p.exposed_s), pl_elbow(m->n, m->x, t.exposed_s));
}

static pl_status conclude_degrees(const measurement *m)
{
    const columns p = columns_of(m, 0, false), t = columns_of(m, 0, true);

    return conclude(m, "T_math = T_comms over tp", "ranks",
                    pl_formula_value("tensor_parallel", "max_ways", "F", m->e->d_ff, "alpha",
                                     pl_explain_alpha(m->e), NULL),
                    pl_crossing(m->n, m->x, p.kernels_s, p.comms_s),
                    pl_crossing(m->n, m->x, t.kernels_s, t.comms_s));
}

/* A pipeline's share of a step without kernels, beside the bubble's formula. */
static pl_status conclude_microbatches(const measurement *m)
{
    const columns p = columns_of(m, 0, false), t = columns_of(m, 0, true);

    for (int i = 0; i < m->n; i++) {
        const double bubble = pl_formula_value("pipeline", "bubble", "stages", m->e->stages,
                                               "microbatches", m->x[i], NULL);

        pl_print(
            "bubble     m = %g: (p - 1) / (m + p - 1) = %.1f%%; kernels do not fill %.1f%% of the "
            "two passes by prediction, %.1f%% as measured\n",
            m->x[i], 100 * bubble, 100 * (1 - p.kernels_s[i] / (p.step_s[i] - p.update_s[i])),
            100 * (1 - t.kernels_s[i] / (t.step_s[i] - t.update_s[i])));
    }
    return PL_OK;
}

static pl_status conclude_against(const measurement *m)
{
    const columns p = columns_of(m, 0, false), q = columns_of(m, 1, false);
    const columns t = columns_of(m, 0, true), u = columns_of(m, 1, true);

    return conclude(m, "both take as long", "tokens a step",
                    pl_explain_equal_bytes(m->s, &m->spec[0], &m->spec[1]),
                    pl_crossing(m->n, m->x, p.step_s, q.step_s),
                    pl_crossing(m->n, m->x, t.step_s, u.step_s));
}

static pl_status conclude_all(const measurement *m)
{
    switch (m->subject) {
    case BATCH:
        return conclude_batch(m);
    case TP_DEGREE:
        return conclude_degrees(m);
    case MICROBATCHES:
        return conclude_microbatches(m);
    default: /* AGAINST */
        return conclude_against(m);
    }
}

/* ---- what is asked */

/* The other strategy, its degrees chosen where they are left out. */
static pl_status read_against(measurement *m)
{
    pl_plan plan = m->s->plan;
    char why[256];
    pl_status status = pl_spec_parse(m->s->options->against, &plan.spec);

    plan.spec.zero = m->s->plan.spec.zero;
    if (status == PL_OK)
        status = pl_choose(&plan, pl_mesh_size(&m->s->mesh), &m->s->machine,
                           (int64_t)m->memory_bytes, why, sizeof why);
    m->spec[1] = plan.spec;
    m->n_specs = 2;
    m->unit = least_common_multiple(m->unit, data_ranks(&plan.spec));
    return status;
}

static bool is_alone(const pl_spec *spec, const char *name, int64_t n_ranks)
{
    return pl_spec_degree(spec, name) == n_ranks;
}

static pl_status choose_subject(measurement *m)
{
    const int64_t n_ranks = pl_mesh_size(&m->s->mesh);

    m->n_specs = 1;
    m->spec[0] = m->s->plan.spec;
    m->unit = data_ranks(&m->spec[0]);
    if (m->s->options->against != NULL)
        m->subject = AGAINST;
    else if (is_alone(&m->spec[0], "tp", n_ranks))
        m->subject = TP_DEGREE;
    else if (is_alone(&m->spec[0], "pp", n_ranks))
        m->subject = MICROBATCHES;
    return m->subject == AGAINST ? read_against(m) : PL_OK;
}

static bool choose_points(measurement *m)
{
    m->seq = m->s->plan.seq;
    if (m->subject == TP_DEGREE)
        return choose_degrees(m);
    return m->subject == MICROBATCHES ? choose_microbatches(m) : choose_batches(m);
}

pl_status pl_explain_measure(pl_session *s, const pl_explain *explain, pl_json_lines *log)
{
    measurement *m;
    pl_status status;

    if (explain->ranks < 2)
        return PL_OK; /* the explanation says that nothing is communicated */
    m = pl_alloc(sizeof *m);
    *m = (measurement){.s = s, .e = explain, .log = log};
    m->memory_bytes = (double)pl_session_memory(s);
    status = choose_subject(m);
    if (status == PL_OK && choose_points(m)) {
        const int n_steps = choose_steps(m);

        status = n_steps > 0 || s->options->dry_run ? measure_points(m, n_steps) : PL_BAD_INPUT;
        if (status == PL_OK)
            status = conclude_all(m);
    }
    status = pl_agree(s->world, status);
    pl_free(m);
    return status;
}
