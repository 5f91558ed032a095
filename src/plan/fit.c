#include "config.h"

#include "src/plan/fit.h"

#include "src/base/memory.h"
#include "src/plan/beyond.h"

#include <math.h>
#include <string.h>

/* The programs of the candidate in hand, by ZeRO stage. */
enum { N_ZEROS = 3 };
typedef struct {
    pl_plan plan;
    int64_t micro_batch;
    pl_estimator *estimator;
} slot_of_zero;

struct pl_fitter {
    const pl_search_options *o;
    slot_of_zero zero[N_ZEROS];
    double other_bytes[PL_N_REMATS]; /* of the candidate in hand, beside what persists, with
                                      * `other_micro` sequences a microbatch; 0: not known */
    int64_t other_micro;
    double *math_s; /* [n_heads + 1] by tp: pl_fit_seen_s() */
    int n_priced;
    bool has_smallest;
    char smallest[PL_SPEC_TEXT];
    double smallest_bytes;
};

typedef pl_fitter fitter;

/* The number of chunks a stage, a power of two, with which the step is shortest and fits. */
static void interleave(const fitter *f, pl_candidate *c, pl_estimator *e)
{
    const int most = pl_candidate_chunks(c);
    pl_additions more = c->more;

    if (f->o->interleave != PL_AUTO ||
        c->estimate.n_microbatches < pl_spec_degree(&c->plan.spec, "pp"))
        return; /* chunks are dealt out to as many microbatches as there are stages */
    for (more.interleave = 2; more.interleave <= most; more.interleave *= 2) {
        pl_estimate estimate;

        pl_estimator_step(e, &more, &estimate);
        if (estimate.total_bytes > f->o->hw.chip.hbm_bytes || estimate.step_s >= c->estimate.step_s)
            continue;
        c->more = more;
        c->estimate = estimate;
    }
}

static void price(fitter *f, pl_candidate *c)
{
    const pl_search_options *o = f->o;
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    slot_of_zero *known = &f->zero[c->plan.spec.zero];

    c->plan.micro_batch = batch.micro_batch;
    c->plan.fabric.wires = c->wires;
    pl_beyond_add(o, c, (double)batch.micro_batch);
    if (known->estimator == NULL || known->micro_batch != batch.micro_batch) {
        pl_estimator_destroy(known->estimator);
        known->plan = c->plan;
        known->micro_batch = batch.micro_batch;
        known->estimator = pl_estimator_create(&known->plan, &o->machine);
        f->n_priced++;
    }
    pl_estimator_step(known->estimator, &c->more, &c->estimate);
    interleave(f, c, known->estimator);
    c->mfu = pl_search_flops(o) / (c->estimate.step_s * (double)o->chips * o->peak_flops_per_s);
}

static void forget_estimators(fitter *f)
{
    for (int z = 0; z < N_ZEROS; z++) {
        pl_estimator_destroy(f->zero[z].estimator);
        f->zero[z].estimator = NULL;
    }
}

static void note_too_large(fitter *f, const pl_candidate *c, double bytes)
{
    if (f->has_smallest && bytes >= f->smallest_bytes)
        return;
    f->has_smallest = true;
    f->smallest_bytes = bytes;
    pl_candidate_print(c, f->smallest, sizeof f->smallest);
}

/* What is known to be needed with c's microbatch beside what persists: of what another microbatch
 * needs, all that grows with it is taken to. A tenth is left for what ZeRO adds or spares. */
static double other_bytes(const fitter *f, const pl_candidate *c, int64_t micro_batch)
{
    if (f->other_micro == 0)
        return 0;
    return 0.9 * f->other_bytes[c->more.remat] *
           fmin(1, (double)micro_batch / (double)f->other_micro);
}

/* Price c with one way of recomputing; false when it does not fit. */
static bool price_if_fits(fitter *f, pl_candidate *c)
{
    const pl_search_options *o = f->o;
    const int64_t micro_batch = pl_plan_batch(&c->plan, &c->mesh).micro_batch;
    const double least = pl_candidate_persistent(o, c);

    if (least + other_bytes(f, c, micro_batch) > o->hw.chip.hbm_bytes) {
        note_too_large(f, c, least + other_bytes(f, c, micro_batch));
        return false;
    }
    price(f, c);
    double *seen_s = &f->math_s[pl_spec_degree(&c->plan.spec, "tp")];
    *seen_s = *seen_s > 0 ? fmin(*seen_s, c->estimate.math_s) : c->estimate.math_s;
    if (f->other_micro != micro_batch)
        memset(f->other_bytes, 0, sizeof f->other_bytes);
    f->other_micro = micro_batch;
    f->other_bytes[c->more.remat] = fmax(c->estimate.total_bytes - least, 0);
    if (c->estimate.total_bytes <= o->hw.chip.hbm_bytes)
        return true;
    note_too_large(f, c, c->estimate.total_bytes);
    return false;
}

/* The least ZeRO stage, then the least rematerialisation, that fit with c's microbatch. */
static bool price_zero_and_remat(fitter *f, pl_candidate *c)
{
    const pl_search_options *o = f->o;
    static const pl_remat by_cost[PL_N_REMATS] = {PL_REMAT_NONE, PL_REMAT_MATMULS, PL_REMAT_BLOCK};
    const bool has_dp = pl_spec_degree(&c->plan.spec, "dp") > 1;
    const int first_zero = o->zero == PL_AUTO ? 0 : o->zero,
              last_zero = o->zero == PL_AUTO && has_dp ? 2 : first_zero;

    for (int r = 0; r < PL_N_REMATS; r++)
        for (int zero = first_zero; zero <= last_zero; zero++) {
            if (o->remat != PL_AUTO && o->remat != (int)by_cost[r])
                continue;
            c->more.remat = by_cost[r];
            c->plan.spec.zero = zero;
            if (price_if_fits(f, c))
                return true;
        }
    return false;
}

bool pl_fit(pl_fitter *f, pl_candidate *c)
{
    const bool has_stages = pl_spec_degree(&c->plan.spec, "pp") > 1;
    const int patience = f->o->architecture.n_experts > 0 ? 2 : 1; /* experts are read once a
                                                                    * microbatch */
    pl_candidate next = *c;

    f->other_micro = 0;
    forget_estimators(f);
    if (f->o->micro_batch > 0 || has_stages) {
        if (!price_zero_and_remat(f, c))
            return false;
        next = *c;
        for (int misses = 0;
             misses < patience && f->o->micro_batch == 0 && next.estimate.n_microbatches > 1;) {
            next.plan.micro_batch *= 2;
            if (!price_zero_and_remat(f, &next))
                break;
            const bool pays = next.estimate.step_s < c->estimate.step_s;
            misses = pays ? 0 : misses + 1;
            if (pays)
                *c = next;
        }
        return true;
    }
    next.plan.micro_batch = pl_plan_batch(&c->plan, &c->mesh).micro_batch;
    for (; next.plan.micro_batch >= 1; next.plan.micro_batch /= 2)
        if (price_zero_and_remat(f, &next)) {
            *c = next;
            return true;
        }
    return false;
}

pl_fitter *pl_fitter_create(const pl_search_options *o)
{
    pl_fitter *f = pl_alloc(sizeof *f);

    *f = (pl_fitter){.o = o, .math_s = pl_alloc((size_t)(o->model.n_heads + 1) * sizeof(double))};
    return f;
}

void pl_fitter_destroy(pl_fitter *f)
{
    forget_estimators(f);
    pl_free(f->math_s);
    pl_free(f);
}

double pl_fit_seen_s(const pl_fitter *f, int tp)
{
    return f->math_s[tp];
}

int pl_fit_n_priced(const pl_fitter *f)
{
    return f->n_priced;
}

const char *pl_fit_smallest(const pl_fitter *f, double *bytes)
{
    *bytes = f->smallest_bytes;
    return f->has_smallest ? f->smallest : NULL;
}
