/* verify_summary FILE -- what bench/verify.sh has measured, judged; run by `make bench-verify`.
 *
 * Of each point: the plan that prediction chose, the fastest that was run, how much slower the
 * chosen one is (regret), Spearman's rank correlation, and the measured step of the fastest plan
 * with most dp, fsdp, tp and pp, as multiples of the fastest of all. Exit code 1 unless there are
 * LEAST_POINTS points at least, the median regret is at most 5%, and the worst at most 15%. */
#include "config.h"

#include "src/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 256, LEAST_POINTS = 20, N_FAMILIES = 4 };

static const char *const families[N_FAMILIES] = {"dp", "fsdp", "tp", "pp"};
static const double median_limit = 0.05, worst_limit = 0.15;

/* The degree that "dp:2+tp:4" gives a family; 1 where it is absent. */
static int degree_of(const char *spec, const char *family)
{
    const size_t length = strlen(family);

    for (const char *at = spec; at != NULL; at = strchr(at, '+')) {
        at += *at == '+';
        if (strncmp(at, family, length) == 0 && at[length] == ':')
            return atoi(at + length + 1);
    }
    return 1;
}

static bool is_of_family(const char *spec, int family)
{
    const int degree = degree_of(spec, families[family]);

    for (int f = 0; f < N_FAMILIES; f++)
        if (f != family && degree_of(spec, families[f]) >= degree)
            return false;
    return true;
}

static void print_families(const json_t *plans, double best_s)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        double least_s = INFINITY;
        size_t i;
        json_t *plan;

        json_array_foreach(plans, i, plan)
        {
            const json_t *measured = json_object_get(plan, "measured_step_s");
            const char *spec = json_string_value(json_object_get(plan, "strategy"));

            if (json_is_number(measured) && spec != NULL && is_of_family(spec, f))
                least_s = fmin(least_s, json_number_value(measured));
        }
        if (isinf(least_s))
            printf(" %6s", "-");
        else
            printf(" %6.2f", least_s / best_s);
    }
}

/* Of the plan called `spec`. */
static double seconds_of(const json_t *plans, const char *spec, const char *key)
{
    size_t i;
    json_t *plan;

    json_array_foreach(plans, i, plan)
    {
        const char *name = json_string_value(json_object_get(plan, "strategy"));

        if (name != NULL && spec != NULL && strcmp(name, spec) == 0)
            return json_number_value(json_object_get(plan, key));
    }
    return NAN;
}

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "?";
}

/* Prints the point; its regret. */
static double judge(const json_t *point)
{
    const json_t *plans = json_object_get(point, "plans");
    const char *chosen = word(point, "chosen"), *fastest = word(point, "fastest");
    const double best_s = seconds_of(plans, fastest, "measured_step_s"),
                 regret = json_number_value(json_object_get(point, "regret_fraction"));

    printf("%-20s %-18s %9.4f %9.4f %-18s %9.4f %7.1f %6.2f ", word(point, "point"), chosen,
           seconds_of(plans, chosen, "predicted_step_s"),
           seconds_of(plans, chosen, "measured_step_s"), fastest, best_s, 100 * regret,
           json_number_value(json_object_get(point, "rank_correlation")));
    print_families(plans, best_s);
    printf("\n");
    return regret;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int verdict(double *regret, int n)
{
    double median, worst;

    if (n == 0) {
        printf("no points\n");
        return 1;
    }
    qsort(regret, (size_t)n, sizeof *regret, by_value);
    median = n % 2 ? regret[n / 2] : (regret[n / 2 - 1] + regret[n / 2]) / 2;
    worst = regret[n - 1];
    const bool reached = n >= LEAST_POINTS && median <= median_limit && worst <= worst_limit;
    printf("%d points (at least %d): median regret %.1f%% (target %.0f%%), worst %.1f%% (target "
           "%.0f%%): %s\n",
           n, LEAST_POINTS, 100 * median, 100 * median_limit, 100 * worst, 100 * worst_limit,
           reached ? "reached" : "missed");
    return !reached;
}

int main(int argc, char **argv)
{
    double regret[MOST_POINTS];
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;

    if (file == NULL) {
        fprintf(stderr, "usage: verify_summary FILE (of bench/verify.sh)\n");
        return 2;
    }
    printf("%-20s %-18s %9s %9s %-18s %9s %7s %6s  %27s\n", "", "", "predicted", "measured", "",
           "measured", "regret", "rank", "measured / fastest, most");
    printf("%-20s %-18s %9s %9s %-18s %9s %7s %6s  %6s %6s %6s %6s\n", "point", "chosen", "s", "s",
           "fastest", "s", "%", "corr.", "dp", "fsdp", "tp", "pp");
    while (getline(&line, &room, file) >= 0 && n < MOST_POINTS) {
        json_t *point = json_loads(line, 0, NULL);

        if (json_is_number(json_object_get(point, "regret_fraction")))
            regret[n++] = judge(point);
        else
            fprintf(stderr, "line %d is no point\n", n + 1);
        json_decref(point);
    }
    free(line);
    fclose(file);
    return verdict(regret, n);
}
