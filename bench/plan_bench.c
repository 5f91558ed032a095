/* plan_bench PLAN [MODEL ...] -- how long ./plan takes and how much memory, for about 100,000 chips
 * of every machine that has so many; run by `make bench-plan`.
 *
 * Of each model (all presets where none is named), on each machine: the plans for a number of chips
 * with many divisors and for one with few, and their simulation, 16 M tokens a step in sequences of
 * 4096; what does not fit or suit counts too, since that is found
 * out by the same search. Last LLaMA-3-405B on 16,384 H100. Prints the slowest of each model.
 * Exit code 1 where one took LIMIT_S or more, or LIMIT_MB. */
#include "config.h"

#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/model/architecture.h"
#include "src/plan/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_MACHINES = 64, N_SIZES = 3, NAMES = 4096 };

static const double LIMIT_S = 2, LIMIT_MB = 200;

/* Chips, in order of preference: those with many divisors, those with few. */
static const int64_t sizes[2][N_SIZES] = {{107520, 98304, 131072}, {100000, 99840, 98560}};

typedef struct {
    double time_s, mb;
    int n;          /* runs */
    int n_planned;  /* that found a plan */
    char what[128]; /* the slowest */
} worst;

/* What a run of the program took: wall clock and the most memory that was resident. */
static void run(char *const *argv, worst *w)
{
    const double begin_s = pl_now_s();
    struct rusage used;
    int status;
    const pid_t child = fork();

    PL_ASSERT(child >= 0);
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);

        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    PL_ASSERT(wait4(child, &status, 0, &used) == child);
    const double time_s = pl_now_s() - begin_s, mb = (double)used.ru_maxrss * 1024 / 1e6;
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2)) {
        fprintf(stderr, "%s failed\n", argv[0]);
        exit(4);
    }
    w->n++;
    w->n_planned += WEXITSTATUS(status) == 0;
    w->mb = mb > w->mb ? mb : w->mb;
    if (time_s < w->time_s)
        return;
    w->time_s = time_s;
    w->what[0] = '\0';
    for (size_t i = 1, at = 0; argv[i] != NULL && at < sizeof w->what; i++)
        at += (size_t)snprintf(w->what + at, sizeof w->what - at, " %s", argv[i]);
}

static void plan(const char *program, const char *model, const char *hw, int64_t chips, worst *w)
{
    char number[24];
    char *argv[] = {(char *)program, "search",  "--model", (char *)model, "--hw",
                    (char *)hw,      "--chips", number,    "--batch",     "16M",
                    "--seq",         "4096",    NULL};

    snprintf(number, sizeof number, "%lld", (long long)chips);
    run(argv, w);
    argv[1] = "simulate";
    run(argv, w);
}

/* Of the sizes the first that the machine has; 0: none. */
static int64_t chips_of(const pl_hardware *hw, const int64_t *of)
{
    pl_slice slice;

    for (int i = 0; i < N_SIZES; i++) {
        if (pl_slice_of(hw, of[i], &slice) == PL_OK)
            return of[i];
        pl_status_clear();
    }
    return 0;
}

static worst plans_of(const char *program, const char *model, char *const *machines, int n)
{
    worst w = {.n = 0};

    for (int m = 0; m < n; m++) {
        pl_hardware hw;

        if (pl_hardware_find(machines[m], &hw) != PL_OK)
            PL_PANIC("%s", pl_status_message());
        for (int i = 0; i < 2; i++) {
            const int64_t chips = chips_of(&hw, sizes[i]);

            if (chips > 0)
                plan(program, model, machines[m], chips, &w);
        }
    }
    return w;
}

static bool report(const char *model, const worst *w)
{
    printf("  %-18s %4d %4d %7.2f %7.0f  %s\n", model, w->n, w->n_planned, w->time_s, w->mb,
           w->what);
    fflush(stdout);
    return w->n_planned > 0 && w->time_s < LIMIT_S && w->mb < LIMIT_MB;
}

int main(int argc, char **argv)
{
    char names[NAMES], *machines[MOST_MACHINES], *rest = names, *name;
    int n = 0;
    bool good = true;

    if (argc < 2) {
        fprintf(stderr, "usage: plan_bench PLAN [MODEL ...]\n");
        return 2;
    }
    pl_hardware_names(names, sizeof names);
    while (n < MOST_MACHINES && (name = strtok_r(rest, ", ", &rest)) != NULL)
        machines[n++] = name;
    printf("  model              runs plans max (s) max (MB) the slowest\n");
    for (int i = 0; argc == 2 && pl_architecture_preset_name(i) != NULL; i++) {
        const worst w = plans_of(argv[1], pl_architecture_preset_name(i), machines, n);

        good = report(pl_architecture_preset_name(i), &w) && good;
    }
    for (int i = 2; i < argc; i++) {
        const worst w = plans_of(argv[1], argv[i], machines, n);

        good = report(argv[i], &w) && good;
    }
    worst w = {.n = 0};
    plan(argv[1], "llama3-405b", "h100", 16384, &w);
    good = report("405B, 16,384 H100", &w) && good;
    printf("  %s: each in %g s and %g MB\n", good ? "reached" : "MISSED", LIMIT_S, LIMIT_MB);
    return good ? 0 : 1;
}
