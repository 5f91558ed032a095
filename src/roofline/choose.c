#include "config.h"

#include "src/roofline/choose.h"

#include "src/base/panic.h"

#include <stdio.h>

enum { MAX_SPEC_TEXT = 128, MAX_MESSAGE = 1024 };

typedef struct {
    pl_spec spec;
    double step_s;
    int64_t memory_bytes;
} candidate;

typedef struct {
    const pl_plan *plan;
    const pl_machine *machine;
    int64_t n_ranks;
    int64_t memory_limit; /* 0: none */
    int n_fit;
    candidate best, next; /* of those that fit; `next` when n_fit > 1 */
    int n_too_large;
    candidate smallest;                              /* of those that need too much memory */
    char tried[MAX_SPEC_TEXT], refusal[MAX_MESSAGE]; /* the first that pl_spec_check() refused */
} search;

pl_prediction *pl_plan_predict(const pl_plan *plan, const pl_machine *machine)
{
    const int n_stages = pl_spec_degree(&plan->spec, "pp");
    pl_program const **stages = pl_alloc((size_t)n_stages * sizeof *stages);
    pl_mesh mesh;

    if (pl_spec_mesh(&plan->spec, &plan->model, &mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    for (int s = 0; s < n_stages; s++)
        stages[s] = pl_build(plan, &mesh, s);
    pl_prediction *prediction = pl_predict(stages, n_stages, machine);
    for (int s = 0; s < n_stages; s++)
        pl_program_destroy((pl_program *)stages[s]);
    pl_free(stages);
    return prediction;
}

static candidate predict_candidate(const search *se, const pl_spec *spec)
{
    pl_plan plan = *se->plan;
    candidate c = {.spec = *spec};

    plan.spec = *spec;
    pl_prediction *prediction = pl_plan_predict(&plan, se->machine);
    c.step_s = prediction->step_s;
    for (int i = 0; i < PL_N_CLASSES; i++)
        c.memory_bytes += (int64_t)prediction->memory_bytes[i];
    pl_prediction_destroy(prediction);
    return c;
}

/* Ties go to the one found first. */
static void rank_candidate(search *se, candidate c)
{
    if (se->memory_limit > 0 && c.memory_bytes > se->memory_limit) {
        if (se->n_too_large++ == 0 || c.memory_bytes < se->smallest.memory_bytes)
            se->smallest = c;
        return;
    }
    if (se->n_fit == 0 || c.step_s < se->best.step_s) {
        se->next = se->best;
        se->best = c;
    } else if (se->n_fit == 1 || c.step_s < se->next.step_s) {
        se->next = c;
    }
    se->n_fit++;
}

static void try_spec(search *se, const pl_spec *spec)
{
    if (pl_spec_check(spec, &se->plan->model, se->plan->batch, se->n_ranks) == PL_OK) {
        rank_candidate(se, se->machine != NULL ? predict_candidate(se, spec)
                                               : (candidate){.spec = *spec});
        return;
    }
    if (se->refusal[0] == '\0') {
        pl_spec_print(spec, se->tried, sizeof se->tried);
        snprintf(se->refusal, sizeof se->refusal, "%s", pl_status_message());
    }
    pl_status_clear();
}

/* Try all ways to give the open degrees from place `from` on the product `left`. Inner axes get the
 * larger degrees first. At most PL_MAX_STRATEGIES deep. */
static void try_all(search *se, pl_spec spec, int from, int64_t left)
{
    int at = PL_NONE, n_open = 0; /* the first open one, and how many there are */

    for (int i = spec.n - 1; i >= from; i--)
        if (se->plan->spec.degree[i] == 0) {
            n_open++;
            at = i;
        }
    if (n_open == 0) {
        try_spec(se, &spec);
        return;
    }
    for (int64_t degree = 1; degree <= left; degree++) {
        if (left % degree != 0 || (n_open == 1 && degree != left))
            continue;
        spec.degree[at] = (int)degree;
        try_all(se, spec, at + 1, left / degree);
    }
}

static pl_status refuse_all(const search *se)
{
    char wanted[MAX_SPEC_TEXT], smallest[MAX_SPEC_TEXT];

    pl_spec_print(&se->plan->spec, wanted, sizeof wanted);
    if (se->n_too_large == 0)
        return pl_refuse(
            PL_BAD_INPUT,
            "--strategy: no degrees of %s suit %lld ranks; the first tried, %s, gives\n"
            "%s",
            wanted, (long long)se->n_ranks, se->tried, se->refusal);
    pl_spec_print(&se->smallest.spec, smallest, sizeof smallest);
    return pl_refuse(
        PL_BAD_INPUT,
        "--strategy: no degrees of %s fit in memory: %s, the smallest, needs %.3g GB a "
        "rank of %.3g GB; use more ranks, or a smaller --batch, --micro-batch or "
        "--model",
        wanted, smallest, (double)se->smallest.memory_bytes / 1e9, (double)se->memory_limit / 1e9);
}

static void explain(const search *se, char *why, size_t size)
{
    char best[MAX_SPEC_TEXT], next[MAX_SPEC_TEXT], others[MAX_SPEC_TEXT + 64] = "", memory[64] = "";

    pl_spec_print(&se->best.spec, best, sizeof best);
    if (se->n_fit > 1) {
        pl_spec_print(&se->next.spec, next, sizeof next);
        snprintf(others, sizeof others, "; next best %s, %.3g s (+%.0f%%)", next, se->next.step_s,
                 100 * (se->next.step_s / se->best.step_s - 1));
    }
    if (se->n_too_large > 0)
        snprintf(memory, sizeof memory, "; %d more need too much memory", se->n_too_large);
    snprintf(why, size, "%s, predicted %.3g s a step%s%s", best, se->best.step_s, others, memory);
}

/* The product of the degrees that are given. */
static int64_t given_product(const pl_spec *spec, int *n_open)
{
    int64_t product = 1;

    *n_open = 0;
    for (int i = 0; i < spec->n; i++) {
        *n_open += spec->degree[i] == 0;
        product *= spec->degree[i] > 0 ? spec->degree[i] : 1;
    }
    return product;
}

pl_status pl_choose(pl_plan *plan, int64_t n_ranks, const pl_machine *machine, int64_t memory_bytes,
                    char *why, size_t size)
{
    search se = {
        .plan = plan, .machine = machine, .n_ranks = n_ranks, .memory_limit = memory_bytes};
    char wanted[MAX_SPEC_TEXT];
    int n_open;
    const int64_t given = given_product(&plan->spec, &n_open);

    if (n_open == 0) {
        const pl_status status = pl_spec_check(&plan->spec, &plan->model, plan->batch, n_ranks);

        if (status == PL_OK)
            why[0] = '\0';
        return status;
    }
    if (n_ranks % given != 0) {
        pl_spec_print(&plan->spec, wanted, sizeof wanted);
        return pl_refuse(PL_BAD_INPUT,
                         "--strategy: %s needs a multiple of %lld ranks, but the job has %lld",
                         wanted, (long long)given, (long long)n_ranks);
    }
    try_all(&se, plan->spec, 0, n_ranks / given);
    if (se.n_fit == 0)
        return refuse_all(&se);
    if (machine == NULL && se.n_fit > 1)
        return PL_OK;
    if (machine != NULL)
        explain(&se, why, size);
    plan->spec = se.best.spec;
    return PL_OK;
}
