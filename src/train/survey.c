#include "config.h"

#include "src/train/survey.h"

#include "src/roofline/choose.h"
#include "src/train/crossover.h"

#include <math.h>
#include <string.h>

enum {
    MOST_UNITS = 1 << 14, /* data ranks take at most so many sequences each */
    SHORTEST_SEQ = 8,
    WANTED_UNITS = 4, /* sequences of a data rank at the crossover */
};

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

bool pl_survey_runs_apart(const pl_survey *m)
{
    return m->subject == PL_SURVEY_BATCH || m->subject == PL_SURVEY_DEGREE;
}

static pl_probe probe_of(const pl_survey *m, int which, int64_t batch, int64_t seq)
{
    return (pl_probe){.spec = m->spec[which],
                      .batch = batch,
                      .seq = seq,
                      .micro_batch = m->s->options->micro_batch,
                      .apart = pl_survey_runs_apart(m)};
}

/* What should become equal, predicted: T_math and T_comms, or both strategies' steps. False where
 * such a batch does not fit. */
static bool predict_sides(const pl_survey *m, int64_t units, int64_t seq, double sides[2])
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
static double find_crossover(const pl_survey *m, int64_t seq, double first[2])
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
static double choose_length(pl_survey *m, double first[2])
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

static void add_point(pl_survey *m, double x, int64_t batch)
{
    if (m->n == PL_SURVEY_MOST || (m->n > 0 && m->x[m->n - 1] >= x))
        return;
    m->x[m->n] = x;
    for (int k = 0; k < m->n_specs; k++)
        m->probe[m->n][k] = probe_of(m, k, batch, m->seq);
    m->n++;
}

/* Batches around the crossover, in whole sequences of each data rank. */
static void choose_batches(pl_survey *m)
{
    static const double factors[] = {0.25, 0.5, 0.75, 1, 1.5, 2, 3},
                        near[] = {0.5, 0.75, 1, 1.33, 2};
    const double units = choose_length(m, m->first);
    const int n = m->n_specs == 2 ? 5 : 7;
    double sides[2];

    for (int i = 0; i < n && !isnan(units); i++) {
        const int64_t k = llround((m->n_specs == 2 ? near : factors)[i] * units);

        if (k >= 1 && predict_sides(m, k, m->seq, sides))
            add_point(m, (double)(k * m->unit * m->seq), k * m->unit);
    }
}

static void set_degree(pl_spec *spec, const char *name, int degree)
{
    for (int i = 0; i < spec->n; i++)
        if (strcmp(spec->strategy[i]->name, name) == 0)
            spec->degree[i] = degree;
}

/* tp over every divisor of the ranks that suits the model, the rest dp. */
static void choose_degrees(pl_survey *m)
{
    const int n_ranks = (int)pl_mesh_size(&m->s->mesh);

    if (pl_spec_parse("dp+tp", &m->spec[0]) != PL_OK)
        return;
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
}

/* Microbatches of a pipeline: the same batch, cut ever finer. */
static void choose_microbatches(pl_survey *m)
{
    const int64_t share = m->s->plan.batch, most = 4 * m->s->n_stages;

    for (int64_t n = 1; n <= most && n <= share; n *= 2) {
        add_point(m, (double)n, m->s->plan.batch);
        m->probe[m->n - 1][0].micro_batch = (share + n - 1) / n;
    }
}

/* The other strategy, its degrees chosen where they are left out. */
static pl_status read_against(pl_survey *m)
{
    pl_plan plan = m->s->plan;
    char why[256];
    pl_status status = pl_spec_parse(m->s->options->against, &plan.spec);

    plan.spec.zero = m->s->plan.spec.zero;
    if (status == PL_OK)
        status = pl_choose(&plan, pl_mesh_size(&m->s->mesh), &m->s->machine,
                           (int64_t)m->memory_bytes, m->s->world, why, sizeof why);
    m->spec[1] = plan.spec;
    m->n_specs = 2;
    m->unit = least_common_multiple(m->unit, data_ranks(&plan.spec));
    return status;
}

static bool is_alone(const pl_spec *spec, const char *name, int64_t n_ranks)
{
    return pl_spec_degree(spec, name) == n_ranks;
}

static pl_status choose_subject(pl_survey *m)
{
    const int64_t n_ranks = pl_mesh_size(&m->s->mesh);

    m->n_specs = 1;
    m->spec[0] = m->s->plan.spec;
    m->unit = data_ranks(&m->spec[0]);
    if (m->s->options->against != NULL)
        m->subject = PL_SURVEY_AGAINST;
    else if (is_alone(&m->spec[0], "tp", n_ranks))
        m->subject = PL_SURVEY_DEGREE;
    else if (is_alone(&m->spec[0], "pp", n_ranks))
        m->subject = PL_SURVEY_MICROBATCHES;
    return m->subject == PL_SURVEY_AGAINST ? read_against(m) : PL_OK;
}

pl_status pl_survey_choose(pl_session *s, pl_survey *m)
{
    pl_status status;

    *m = (pl_survey){.s = s, .seq = s->plan.seq, .memory_bytes = (double)pl_session_memory(s)};
    status = choose_subject(m);
    if (status != PL_OK)
        return status;
    if (m->subject == PL_SURVEY_DEGREE)
        choose_degrees(m);
    else if (m->subject == PL_SURVEY_MICROBATCHES)
        choose_microbatches(m);
    else
        choose_batches(m);
    return PL_OK;
}

bool pl_survey_extend(pl_survey *m, bool up, int *at)
{
    const int end = up ? m->n - 1 : 0, place = up ? m->n : 0;
    const int64_t k = m->probe[end][0].batch / m->unit, units = up ? (3 * k + 1) / 2 : 2 * k / 3;
    double sides[2];

    if (m->n == PL_SURVEY_MOST || units == 0 || units == k ||
        !predict_sides(m, units, m->seq, sides))
        return false;
    for (int i = m->n; i > place; i--) {
        m->x[i] = m->x[i - 1];
        m->probe[i][0] = m->probe[i - 1][0];
        m->probe[i][1] = m->probe[i - 1][1];
    }
    m->x[place] = (double)(units * m->unit * m->seq);
    for (int which = 0; which < m->n_specs; which++)
        m->probe[place][which] = probe_of(m, which, units * m->unit, m->seq);
    m->n++;
    *at = place;
    return true;
}
