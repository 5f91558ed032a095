#include "config.h"

#include "src/roofline/choose.h"

#include "src/base/finish.h"
#include "src/base/panic.h"

#include <stdio.h>

enum { MAX_SPEC_TEXT = 128, MAX_MESSAGE = 1024 };

typedef struct {
    const pl_plan *plan;
    const pl_machine *machine;
    int64_t n_ranks;
    int64_t memory_limit; /* 0: none */
    MPI_Comm comm;        /* of those who predict; MPI_COMM_NULL: this rank all */
    pl_choices *out;
    int room;
    char tried[MAX_SPEC_TEXT], refusal[MAX_MESSAGE]; /* the first that pl_spec_check() refused */
} search;

pl_prediction *pl_plan_predict(const pl_plan *plan, const pl_machine *machine)
{
    const int n_stages = pl_spec_degree(&plan->spec, "pp");
    pl_program **stages = pl_alloc((size_t)n_stages * sizeof *stages);
    pl_mesh mesh;

    if (pl_spec_mesh(&plan->spec, &plan->model, &mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    pl_build_stages(plan, &mesh, stages);
    pl_prediction *prediction = pl_predict((const pl_program *const *)stages, n_stages, machine);
    for (int s = 0; s < n_stages; s++)
        pl_program_destroy(stages[s]);
    pl_free(stages);
    return prediction;
}

static void predict_choice(const search *se, pl_choice *c)
{
    pl_plan plan = *se->plan;

    plan.spec = c->spec;
    pl_prediction *prediction = pl_plan_predict(&plan, se->machine);
    c->step_s = prediction->step_s;
    for (int i = 0; i < PL_N_CLASSES; i++)
        c->memory_bytes += (int64_t)prediction->memory_bytes[i];
    pl_prediction_destroy(prediction);
}

/* The ranks predict in turn, one choice each, and tell the others: with zeros for what others
 * predict, sums are exact. */
static void predict_choices(const search *se)
{
    pl_choice *choice = se->out->choice;
    const int n = se->out->n;
    int n_ranks = 1, rank = 0;

    if (se->comm != MPI_COMM_NULL) {
        PL_MPI(MPI_Comm_size(se->comm, &n_ranks));
        PL_MPI(MPI_Comm_rank(se->comm, &rank));
    }
    for (int i = rank; i < n; i += n_ranks)
        predict_choice(se, &choice[i]);
    if (n_ranks > 1) {
        double *told = pl_alloc(2 * (size_t)n * sizeof *told); /* [n] seconds, [n] bytes */

        for (int i = 0; i < n; i++) {
            told[i] = choice[i].step_s;
            told[n + i] = (double)choice[i].memory_bytes;
        }
        pl_mpi_all_reduce(se->comm, told, 2 * n, MPI_DOUBLE, MPI_SUM);
        for (int i = 0; i < n; i++) {
            choice[i].step_s = told[i];
            choice[i].memory_bytes = (int64_t)told[n + i];
        }
        pl_free(told);
    }
    for (int i = 0; i < n; i++)
        choice[i].fits = se->memory_limit == 0 || choice[i].memory_bytes <= se->memory_limit;
}

static bool comes_before(const pl_choice *a, const pl_choice *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->step_s < b->step_s : a->memory_bytes < b->memory_bytes;
}

/* The best first; ties as they were found. */
static void rank_choices(pl_choices *out)
{
    out->n_fit = 0;
    for (int i = 0; i < out->n; i++) {
        const pl_choice c = out->choice[i];
        int at = i;

        for (; at > 0 && comes_before(&c, &out->choice[at - 1]); at--)
            out->choice[at] = out->choice[at - 1];
        out->choice[at] = c;
        out->n_fit += c.fits;
    }
}

static void add_choice(search *se, const pl_spec *spec)
{
    pl_choices *out = se->out;

    if (out->n == se->room) {
        const int room = se->room > 0 ? 2 * se->room : 32;

        out->choice = pl_realloc(out->choice, (size_t)se->room * sizeof *out->choice,
                                 (size_t)room * sizeof *out->choice);
        se->room = room;
    }
    out->choice[out->n++] = (pl_choice){.spec = *spec, .fits = true};
}

static void try_spec(search *se, const pl_spec *spec)
{
    if (pl_spec_check(spec, &se->plan->model, se->plan->batch, se->n_ranks) == PL_OK) {
        add_choice(se, spec);
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
    if (se->out->n == 0)
        return pl_refuse(
            PL_BAD_INPUT,
            "--strategy: no degrees of %s suit %lld ranks; the first tried, %s, gives\n"
            "%s",
            wanted, (long long)se->n_ranks, se->tried, se->refusal);
    pl_spec_print(&se->out->choice[0].spec, smallest, sizeof smallest);
    return pl_refuse(
        PL_BAD_INPUT,
        "--strategy: no degrees of %s fit in memory: %s, the smallest, needs %.3g GB a "
        "rank of %.3g GB; use more ranks, or a smaller --batch, --micro-batch or "
        "--model",
        wanted, smallest, (double)se->out->choice[0].memory_bytes / 1e9,
        (double)se->memory_limit / 1e9);
}

static void explain(const pl_choices *choices, char *why, size_t size)
{
    const pl_choice *best = &choices->choice[0], *next = &choices->choice[1];
    const int n_too_large = choices->n - choices->n_fit;
    char spec[MAX_SPEC_TEXT], others[MAX_SPEC_TEXT + 64] = "", memory[64] = "";

    if (choices->n_fit > 1) {
        pl_spec_print(&next->spec, spec, sizeof spec);
        snprintf(others, sizeof others, "; next best %s, %.3g s (+%.0f%%)", spec, next->step_s,
                 100 * (next->step_s / best->step_s - 1));
    }
    if (n_too_large > 0)
        snprintf(memory, sizeof memory, "; %d more need too much memory", n_too_large);
    pl_spec_print(&best->spec, spec, sizeof spec);
    snprintf(why, size, "%s, predicted %.3g s a step%s%s", spec, best->step_s, others, memory);
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

pl_status pl_choices_find(const pl_plan *plan, int64_t n_ranks, const pl_machine *machine,
                          int64_t memory_bytes, MPI_Comm comm, pl_choices *choices)
{
    pl_choices found = {.n = 0};
    search se = {.plan = plan,
                 .machine = machine,
                 .n_ranks = n_ranks,
                 .memory_limit = memory_bytes,
                 .comm = comm,
                 .out = &found};
    char wanted[MAX_SPEC_TEXT];
    int n_open;
    const int64_t given = given_product(&plan->spec, &n_open);

    if (n_ranks % given != 0) {
        pl_spec_print(&plan->spec, wanted, sizeof wanted);
        return pl_refuse(PL_BAD_INPUT,
                         "--strategy: %s needs a multiple of %lld ranks, but the job has %lld",
                         wanted, (long long)given, (long long)n_ranks);
    }
    try_all(&se, plan->spec, 0, n_ranks / given);
    if (machine != NULL)
        predict_choices(&se);
    rank_choices(&found);
    if (found.n_fit == 0) {
        const pl_status status = refuse_all(&se);

        pl_choices_free(&found);
        return status;
    }
    *choices = found;
    return PL_OK;
}

void pl_choices_free(pl_choices *choices)
{
    pl_free(choices->choice);
    *choices = (pl_choices){.n = 0};
}

pl_status pl_choose(pl_plan *plan, int64_t n_ranks, const pl_machine *machine, int64_t memory_bytes,
                    MPI_Comm comm, char *why, size_t size)
{
    pl_choices choices;
    pl_status status;
    int n_open;

    given_product(&plan->spec, &n_open);
    if (n_open == 0) {
        status = pl_spec_check(&plan->spec, &plan->model, plan->batch, n_ranks);
        if (status == PL_OK)
            why[0] = '\0';
        return status;
    }
    status = pl_choices_find(plan, n_ranks, machine, memory_bytes, comm, &choices);
    if (status != PL_OK)
        return status;
    if (machine != NULL)
        explain(&choices, why, size);
    if (machine != NULL || choices.n_fit == 1)
        plan->spec = choices.choice[0].spec;
    pl_choices_free(&choices);
    return PL_OK;
}
