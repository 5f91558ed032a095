/* published_bench -- are the efficiencies that tests/published_steps.json is predicted with more
 * than a fit? For each source of rows they are fitted to all others, and its rows are predicted
 * with that.
 *
 *   bench/published_bench     (srcdir says where tests/ is) */
#include "config.h"

#include "src/base/memory.h"
#include "src/base/panic.h"
#include "tests/published_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_SHARES = 4, N_MOVES = 81 /* 3^N_SHARES */, MOST_TRIED = 1024, MOST_SOURCES = 16 };
static const char *const names[N_SHARES] = {"matmul", "attention", "memory", "network"};

/* Efficiencies in steps of a twentieth. */
typedef struct {
    int twentieths[N_SHARES];
} shares;

typedef struct {
    shares at;
    double predicted_s[PUBLISHED_MOST];
} tried;

typedef struct {
    json_t *root;
    int n;
    published_run runs[PUBLISHED_MOST]; /* with the last that was tried */
    int n_tried;
    tried *known; /* [MOST_TRIED] */
} fit;

static pl_efficiency efficiency_of(const shares *s)
{
    return (pl_efficiency){.matmul = s->twentieths[0] / 20.0,
                           .attention = s->twentieths[1] / 20.0,
                           .memory = s->twentieths[2] / 20.0,
                           .network = s->twentieths[3] / 20.0};
}

/* Predictions of all rows. */
static const double *predictions(fit *f, const shares *s)
{
    const pl_efficiency efficiency = efficiency_of(s);

    for (int i = 0; i < f->n_tried; i++)
        if (memcmp(&f->known[i].at, s, sizeof *s) == 0)
            return f->known[i].predicted_s;
    PL_ASSERT(f->n_tried < MOST_TRIED);
    tried *t = &f->known[f->n_tried++];
    t->at = *s;
    f->n = published_predict(f->root, &efficiency, f->runs);
    for (int i = 0; i < f->n; i++)
        t->predicted_s[i] = f->runs[i].predicted_s;
    return t->predicted_s;
}

/* Mean of |predicted / measured - 1| over the rows of `which`. */
static double mean_error(const fit *f, const double *predicted_s, const bool *which)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < f->n; i++)
        if (which[i]) {
            sum += fabs(predicted_s[i] / f->runs[i].measured_s - 1);
            n++;
        }
    return sum / n;
}

/* Move number `move`: each share a step down, left alone or a step up, by the digits of base 3.
 * False where that moves none, more than two, or one out of bounds. */
static bool move_shares(const shares *s, int move, shares *next)
{
    int n_moved = 0;

    for (int k = 0; k < N_SHARES; k++, move /= 3) {
        next->twentieths[k] = s->twentieths[k] + move % 3 - 1;
        n_moved += move % 3 != 1;
        if (next->twentieths[k] < 1 || next->twentieths[k] > 20)
            return false;
    }
    return n_moved == 1 || n_moved == 2;
}

/* From `s` downhill, one or two shares a step at a time (what one takes another may give: products
 * and memory), until none is better. */
static double descend(fit *f, const bool *which, shares *s)
{
    double least = mean_error(f, predictions(f, s), which);

    for (bool moved = true; moved;) {
        moved = false;
        for (int move = 0; move < N_MOVES; move++) {
            shares next;

            if (!move_shares(s, move, &next))
                continue;
            const double error = mean_error(f, predictions(f, &next), which);
            if (error < least) {
                least = error;
                *s = next;
                moved = true;
            }
        }
    }
    return least;
}

/* "maxtext-v4-22B-1x" is of "maxtext". */
static size_t source_length(const char *id)
{
    return strcspn(id, "-");
}

static bool same_source(const char *a, const char *b)
{
    return source_length(a) == source_length(b) && strncmp(a, b, source_length(a)) == 0;
}

typedef struct {
    double left_out, trivial; /* sums of errors of rows that nothing was fitted to */
} totals;

static void leave_out(fit *f, const char *id, const shares *start, const double *fitted_s,
                      totals *t)
{
    static published_run runs[PUBLISHED_MOST];
    bool kept[PUBLISHED_MOST], left[PUBLISHED_MOST];
    double trivial_s[PUBLISHED_MOST];
    shares s = *start;
    int n = 0;

    for (int i = 0; i < f->n; i++) {
        left[i] = same_source(f->runs[i].id, id);
        kept[i] = !left[i];
        n += left[i];
    }
    descend(f, kept, &s);
    memcpy(runs, f->runs, sizeof runs);
    published_trivial(runs, f->n, kept);
    for (int i = 0; i < f->n; i++)
        trivial_s[i] = runs[i].trivial_s;
    const double error = mean_error(f, predictions(f, &s), left),
                 trivial = mean_error(f, trivial_s, left);
    t->left_out += n * error;
    t->trivial += n * trivial;
    printf("%-14.*s %5d  %6.2f %9.2f %6.2f %7.2f  %9.1f%% %9.1f%% %9.1f%%\n",
           (int)source_length(id), id, n, s.twentieths[0] / 20.0, s.twentieths[1] / 20.0,
           s.twentieths[2] / 20.0, s.twentieths[3] / 20.0, 100 * mean_error(f, fitted_s, left),
           100 * error, 100 * trivial);
    fflush(stdout);
}

int main(void)
{
    static fit f;
    bool all[PUBLISHED_MOST];
    totals t = {0, 0};

    f.root = published_load();
    f.known = pl_alloc(MOST_TRIED * sizeof *f.known);
    const pl_efficiency e = pl_efficiency_typical;
    const double given[N_SHARES] = {e.matmul, e.attention, e.memory, e.network};
    shares start, fitted;
    for (int k = 0; k < N_SHARES; k++)
        start.twentieths[k] = (int)lround(20 * given[k]);
    predictions(&f, &start);
    for (int i = 0; i < f.n; i++)
        all[i] = true;
    fitted = start;
    const double error = mean_error(&f, predictions(&f, &start), all);
    const double least = descend(&f, all, &fitted);
    printf("%d rows; pl_efficiency_typical: mean error %.1f%%; fitted to all rows: %.1f%% with",
           f.n, 100 * error, 100 * least);
    for (int k = 0; k < N_SHARES; k++)
        printf(" %s %.2f", names[k], fitted.twentieths[k] / 20.0);
    printf("\n\n%-14s %5s  %6s %9s %6s %7s  %10s %10s %10s\n", "left out", "rows", names[0],
           names[1], names[2], names[3], "fitted", "left out", "one MFU");
    for (int i = 0; i < f.n; i++) {
        bool seen = false;

        for (int j = 0; j < i; j++)
            seen = seen || same_source(f.runs[i].id, f.runs[j].id);
        if (!seen)
            leave_out(&f, f.runs[i].id, &start, predictions(&f, &start), &t);
    }
    printf("%-14s %5d  %31s  %9.1f%% %9.1f%% %9.1f%%\n", "all", f.n, "", 100 * error,
           100 * t.left_out / f.n, 100 * t.trivial / f.n);
    pl_free(f.known);
    json_decref(f.root);
    return 0;
}
