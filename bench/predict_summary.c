#include "config.h"

#include "bench/predict_summary.h"

#include "src/base/memory.h"
#include "src/base/sample.h"
#include "src/roofline/line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double share_of_step = 0.9;

/* Where the ranks of a run were. */
typedef enum { OWN_CORES, SHARED_CORES, HOSTS, N_PLACES } place;

/* Of the step of each case, of the median of all runs (INFINITY: no target), of operations. */
static const struct {
    const char *name;
    double case_limit, median_limit, op_limit;
} targets[N_PLACES] = {[OWN_CORES] = {"ranks with a core each", 0.1, 0.05, 0.15},
                       [SHARED_CORES] = {"ranks that share cores", 0.2, INFINITY, 0.2},
                       [HOSTS] = {"several hosts", 0.15, INFINITY, 0.15}};

static place place_of(const record *r)
{
    return r->n_hosts > 1 ? HOSTS : r->shares_cores ? SHARED_CORES : OWN_CORES;
}

/* The runs of one case. */
typedef struct {
    const record *first;
    int n;
    const record **run;
    double *x; /* [n] to work in */
} runs;

static double step_error(const record *r)
{
    return r->predicted_s / r->measured_s - 1;
}

static bool same_case(const record *a, const record *b)
{
    return a->n_ranks == b->n_ranks && a->n_hosts == b->n_hosts && place_of(a) == place_of(b) &&
           strcmp(a->model, b->model) == 0 && strcmp(a->strategy, b->strategy) == 0;
}

static bool is_first(const records *list, int i)
{
    for (int k = 0; k < i; k++)
        if (same_case(&list->all[k], &list->all[i]))
            return false;
    return true;
}

static runs runs_of(const records *list, int first)
{
    runs c = {.first = &list->all[first],
              .run = pl_alloc((size_t)list->n * sizeof *c.run),
              .x = pl_alloc((size_t)list->n * sizeof *c.x)};

    for (int i = first; i < list->n; i++)
        if (same_case(c.first, &list->all[i]))
            c.run[c.n++] = &list->all[i];
    return c;
}

static void runs_free(runs *c)
{
    pl_free(c->run);
    pl_free(c->x);
}

static double median_of_step(const runs *c, double (*of)(const record *), double q)
{
    for (int i = 0; i < c->n; i++)
        c->x[i] = of(c->run[i]);
    return pl_bench_quantile(c->x, c->n, q);
}

static double predicted_of(const record *r)
{
    return r->predicted_s;
}

static double measured_of(const record *r)
{
    return r->measured_s;
}

static double speed_of(const record *r)
{
    return r->speed;
}

/* All communication that is exposed, of a step. */
static double exposed_of(const record *r, bool predicted)
{
    double sum_s = 0;

    for (int i = 0; i < r->n_ops; i++)
        if (r->op[i].is_communication)
            sum_s += predicted ? r->op[i].predicted_s : r->op[i].measured_s;
    return sum_s;
}

static double predicted_exposed_of(const record *r)
{
    return exposed_of(r, true);
}

static double measured_exposed_of(const record *r)
{
    return exposed_of(r, false);
}

static const op_record *find_op(const record *r, const char *name)
{
    for (int i = 0; i < r->n_ops; i++)
        if (strcmp(r->op[i].name, name) == 0)
            return &r->op[i];
    return NULL;
}

/* Medians over the runs of one op of a case. */
typedef struct {
    const char *name;
    bool is_communication;
    double measured_s, predicted_s, error;
} op_medians;

static op_medians medians_of_op(const runs *c, const op_record *first)
{
    op_medians m = {.name = first->name, .is_communication = first->is_communication};
    double *measured = pl_alloc((size_t)c->n * sizeof *measured);
    double *predicted = pl_alloc((size_t)c->n * sizeof *predicted);
    int n = 0;

    for (int i = 0; i < c->n; i++) {
        const op_record *op = find_op(c->run[i], m.name);

        if (op == NULL || !(op->measured_s > 0))
            continue;
        measured[n] = op->measured_s;
        predicted[n] = op->predicted_s;
        c->x[n++] = op->predicted_s / op->measured_s - 1;
    }
    if (n > 0) {
        m.error = pl_bench_quantile(c->x, n, 0.5);
        m.measured_s = pl_bench_quantile(measured, n, 0.5);
        m.predicted_s = pl_bench_quantile(predicted, n, 0.5);
    }
    pl_free(measured);
    pl_free(predicted);
    return m;
}

static int by_share(const void *a, const void *b)
{
    const op_medians *x = a, *y = b;

    return (x->measured_s < y->measured_s) - (x->measured_s > y->measured_s);
}

/* The largest ops, down to where they make up share_of_step of a step; where ranks share cores, of
 * all ops, since others' turns beside kernels are none. Returns how many. */
static int large_ops(const runs *c, op_medians ops[MOST_ROWS])
{
    const double step_s = median_of_step(c, measured_of, 0.5);
    double all_s = 0, sum_s = 0;
    int n = 0;

    for (int i = 0; i < c->first->n_ops; i++) {
        ops[i] = medians_of_op(c, &c->first->op[i]);
        all_s += ops[i].measured_s;
    }
    qsort(ops, (size_t)c->first->n_ops, sizeof *ops, by_share);
    while (n < c->first->n_ops && sum_s < share_of_step * (c->first->shares_cores ? all_s : step_s))
        sum_s += ops[n++].measured_s;
    return n;
}

static void print_step(FILE *out, const runs *c)
{
    const record *r = c->first;
    double beyond = 0;

    for (int i = 0; i < c->n; i++)
        beyond += fabs(step_error(c->run[i])) > targets[place_of(r)].case_limit;
    fprintf(
        out, "%-8s %-8s %5d %5d %11.2f %11.2f %+8.1f %+7.1f ..%+6.1f %7.0f %10.2f %10.2f %8.1f\n",
        r->model, r->strategy, r->n_ranks, c->n, 1e3 * median_of_step(c, predicted_of, 0.5),
        1e3 * median_of_step(c, measured_of, 0.5), 100 * median_of_step(c, step_error, 0.5),
        100 * median_of_step(c, step_error, 0), 100 * median_of_step(c, step_error, 1), beyond,
        1e3 * median_of_step(c, predicted_exposed_of, 0.5),
        1e3 * median_of_step(c, measured_exposed_of, 0.5), 100 * median_of_step(c, speed_of, 0.5));
}

static void print_steps(FILE *out, const records *list)
{
    fprintf(out, "%-8s %-8s %5s %5s %11s %11s %8s %16s %7s %10s %10s %8s\n", "", "", "", "",
            "predicted", "measured", "error", "single runs", "beyond", "exposed", "exposed",
            "speed");
    fprintf(out, "%-8s %-8s %5s %5s %11s %11s %8s %16s %7s %10s %10s %8s\n", "model", "strategy",
            "ranks", "runs", "ms a step", "ms a step", "%", "%", "runs", "pred. ms", "meas. ms",
            "%");
    for (int i = 0; i < list->n; i++)
        if (is_first(list, i)) {
            runs c = runs_of(list, i);

            print_step(out, &c);
            runs_free(&c);
        }
    fprintf(out, "(medians; error: predicted / measured - 1; beyond: runs beyond the limit of the "
                 "case; speed: of a product,\nbeside what it was in calibration)\n");
}

/* The ops of every case that make up most of it; returns how many of them miss their target. */
static int print_ops(FILE *out, const records *list)
{
    int n_missed = 0;

    fprintf(out, "\n%-8s %-8s %-32s %12s %12s %8s\n", "", "", "operations that make up 90%",
            "predicted", "measured", "error");
    fprintf(out, "%-8s %-8s %-32s %12s %12s %8s\n", "model", "strategy", "(communication: exposed)",
            "ms a step", "ms a step", "%");
    for (int i = 0; i < list->n; i++) {
        op_medians ops[MOST_ROWS];

        if (!is_first(list, i))
            continue;
        runs c = runs_of(list, i);
        const int n = large_ops(&c, ops);
        for (int k = 0; k < n; k++) {
            const bool missed = fabs(ops[k].error) > targets[place_of(c.first)].op_limit,
                       counts = !(c.first->shares_cores && ops[k].is_communication);

            fprintf(out, "%-8s %-8s %-32s %12.3f %12.3f %+8.1f%s\n", c.first->model,
                    c.first->strategy, ops[k].name, 1e3 * ops[k].predicted_s,
                    1e3 * ops[k].measured_s, 100 * ops[k].error,
                    !missed  ? ""
                    : counts ? " !"
                             : " ?");
            n_missed += missed && counts;
        }
        runs_free(&c);
    }
    fprintf(out,
            "(!: beyond %.0f%%, where ranks share cores of one host %.0f%%; ?: the same, but not "
            "counted: there, who\nwaits for communication waits for turns of others. Kernels count by "
            "what they use of their core.)\n",
            100 * targets[OWN_CORES].op_limit, 100 * targets[SHARED_CORES].op_limit);
    return n_missed;
}

/* The largest of the median errors of the cases of one place. */
static double worst_case(const records *list, place at)
{
    double worst = 0;

    for (int i = 0; i < list->n; i++)
        if (place_of(&list->all[i]) == at && is_first(list, i)) {
            runs c = runs_of(list, i);

            worst = fmax(worst, fabs(median_of_step(&c, step_error, 0.5)));
            runs_free(&c);
        }
    return worst;
}

/* The median over all runs of one place, of which there is one. */
static double median_error(const records *list, place at)
{
    double *errors = pl_alloc((size_t)list->n * sizeof *errors);
    int n = 0;

    for (int i = 0; i < list->n; i++)
        if (place_of(&list->all[i]) == at)
            errors[n++] = fabs(step_error(&list->all[i]));
    const double median = pl_bench_quantile(errors, n, 0.5);
    pl_free(errors);
    return median;
}

/* Whether the ranks' cores were elsewhere after the run than while they were calibrated. */
static bool has_moved(const record *r)
{
    return pl_lines_differ(r->calibrated_line_s, r->line_s);
}

/* The same steps without the runs whose cores had moved, when there are such. */
static void print_unmoved(FILE *out, const records *list, place at)
{
    records still = {0};
    int n_moved = 0;

    for (int i = 0; i < list->n; i++)
        if (place_of(&list->all[i]) == at) {
            if (has_moved(&list->all[i]))
                n_moved++;
            else
                records_add(&still, &list->all[i]);
        }
    if (n_moved > 0 && still.n > 0)
        fprintf(out,
                "  in %d of these runs cores had moved since calibration; the others: worst case "
                "%.1f%%, median of |error| %.1f%%\n",
                n_moved, 100 * worst_case(&still, at), 100 * median_error(&still, at));
    records_free(&still);
}

static const char *word_of(bool missed)
{
    return missed ? "missed" : "reached";
}

/* The steps of one place. */
static bool judge_steps(FILE *out, const records *list, place at)
{
    const double limit = targets[at].case_limit, median_limit = targets[at].median_limit;
    int n = 0, n_beyond = 0;

    for (int i = 0; i < list->n; i++)
        if (place_of(&list->all[i]) == at) {
            n++;
            n_beyond += fabs(step_error(&list->all[i])) > limit;
        }
    if (n == 0)
        return true;
    const double worst = worst_case(list, at), median = median_error(list, at);
    fprintf(out, "\n%s, %d runs:\n", targets[at].name, n);
    fprintf(out,
            "  step of the worst case    %5.1f%%  (target %.0f%%: %s); %d single runs beyond\n",
            100 * worst, 100 * limit, word_of(worst > limit), n_beyond);
    fprintf(out, "  median of |error|         %5.1f%%", 100 * median);
    if (isfinite(median_limit))
        fprintf(out, "  (target %.0f%%: %s)", 100 * median_limit, word_of(median > median_limit));
    fprintf(out, "\n");
    print_unmoved(out, list, at);
    return worst <= limit && median <= median_limit;
}

bool records_report(FILE *out, const records *list)
{
    bool reached = true;

    print_steps(out, list);
    const int n_missed = print_ops(out, list);
    for (int at = 0; at < N_PLACES; at++)
        reached = judge_steps(out, list, (place)at) && reached;
    fprintf(out, "\noperations beyond these limits: %d (target none: %s)\n", n_missed,
            word_of(n_missed > 0));
    reached = reached && n_missed == 0;
    fprintf(out, "all targets: %s\n", word_of(!reached));
    return reached;
}
