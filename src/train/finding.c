#include "config.h"

#include "src/train/finding.h"

#include "src/base/sample.h"
#include "src/train/crossover.h"

#include <math.h>

static const pl_step_times *times_of(const pl_probe *p, int whose)
{
    if (whose == PL_PREDICTED)
        return &p->predicted;
    return whose == PL_MEASURED ? &p->measured : &p->round[whose];
}

void pl_finding_sides(const pl_survey *v, int whose, int i, double sides[2])
{
    const pl_step_times *t = times_of(&v->probe[i][0], whose);

    sides[0] = t->kernels_s;
    sides[1] = t->comms_s;
    if (v->subject == PL_SURVEY_AGAINST) {
        sides[0] = t->step_s;
        sides[1] = times_of(&v->probe[i][1], whose)->step_s;
    }
}

double pl_finding_crossing(const pl_survey *v, int whose)
{
    double a[PL_SURVEY_MOST], b[PL_SURVEY_MOST], sides[2];

    for (int i = 0; i < v->n; i++) {
        pl_finding_sides(v, whose, i, sides);
        a[i] = sides[0];
        b[i] = sides[1];
    }
    return pl_crossing(v->n, v->x, a, b);
}

double pl_finding_elbow(const pl_survey *v, int whose)
{
    double exposed_s[PL_SURVEY_MOST];

    for (int i = 0; i < v->n; i++)
        exposed_s[i] = times_of(&v->probe[i][0], whose)->exposed_s;
    return pl_elbow(v->n, v->x, exposed_s);
}

pl_finding pl_find(const pl_survey *v, double (*where)(const pl_survey *survey, int whose))
{
    pl_finding found = {.predicted = where(v, PL_PREDICTED),
                        .measured = where(v, PL_MEASURED),
                        .n_rounds = v->n > 0 ? v->probe[0][0].n_rounds : 0,
                        .low = NAN,
                        .high = NAN};
    double x[PL_PROBE_MOST_STEPS];
    int n = 0;

    for (int r = 0; r < found.n_rounds; r++) {
        x[n] = where(v, r);
        n += !isnan(x[n]);
    }
    found.n_nowhere = found.n_rounds - n;
    if (n > 0) {
        found.low = pl_bench_quantile(x, n, 0.25);
        found.high = pl_bench_quantile(x, n, 0.75);
    }
    return found;
}

bool pl_finding_is_noise(const pl_finding *f)
{
    return 2 * f->n_nowhere > f->n_rounds || f->high - f->low > PL_MOST_APART * f->measured;
}
