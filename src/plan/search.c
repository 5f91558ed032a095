#include "config.h"

#include "src/plan/search.h"

#include "src/base/memory.h"
#include "src/plan/beyond.h"
#include "src/plan/bound.h"
#include "src/plan/fit.h"

#include <math.h>
#include <string.h>

/* A candidate that can be laid out, as long as it is not looked at: there may be thousands. */
typedef struct {
    pl_spec spec;
    int cp, ep, tp;
    bool is_done;
    pl_bounds bounds;
    double learned_s, guess_s; /* by what was seen up to now; the least that it takes, and about how
                                * long */
} entry;

typedef struct {
    const pl_search_options *o;
    pl_slice slice;
    pl_search_result *out;
    pl_fitter *fitter;
    int n, room;
    entry *list;
} search;

/* ---- what there is ---- */

static pl_spec spec_of(const int degree[PL_N_DEGREES])
{
    static const pl_strategy *const strategies[PL_N_DEGREES] = {&pl_pp, &pl_dp, &pl_fsdp, &pl_tp};
    pl_spec spec = {.n = 0};

    for (int k = 0; k < PL_N_DEGREES; k++)
        if (degree[k] > 1) {
            spec.strategy[spec.n] = strategies[k];
            spec.degree[spec.n++] = degree[k];
        }
    return spec.n > 0 ? spec : (pl_spec){.n = 1, .strategy = {&pl_dp}, .degree = {1}};
}

/* The least number of pieces of a sequence with which there are enough for all ranks; 0: none. */
static int pieces_of(const search *s, const pl_spec *spec)
{
    const int64_t ranks = (int64_t)pl_spec_degree(spec, "dp") * pl_spec_degree(spec, "fsdp"),
                  seqs = s->o->sequences;
    const int whole = pl_spec_degree(spec, pl_spec_degree(spec, "fsdp") > 1 ? "fsdp" : "dp");

    if (s->o->cp > 0)
        return ranks / s->o->cp <= seqs && s->o->seq % s->o->cp == 0 ? s->o->cp : 0;
    if (ranks <= seqs)
        return 1;
    for (int cp = 2; cp <= 64 && cp <= whole; cp++)
        if (whole % cp == 0 && ranks / cp <= seqs && s->o->seq % cp == 0)
            return cp;
    return 0;
}

static void keep(search *s, const entry *e)
{
    if (s->n == s->room) {
        const int room = s->room > 0 ? 2 * s->room : 64;

        s->list =
            pl_realloc(s->list, (size_t)s->room * sizeof *s->list, (size_t)room * sizeof *s->list);
        s->room = room;
    }
    s->list[s->n++] = *e;
}

/* The candidate with its wires and loads; false: the network does not have them. */
static bool lay_out(const search *s, const entry *e, pl_candidate *c,
                    pl_axis_load loads[PL_MAX_AXES])
{
    double layout_s;

    *c = pl_candidate_of(s->o, &e->spec, e->cp, e->ep);
    c->more.interleave = s->o->interleave;
    pl_bound_loads(s->o, c, loads);
    return pl_lay_out(&s->o->hw, &s->slice, &c->mesh, loads, c->wires, &layout_s);
}

static void consider_one(search *s, const pl_spec *spec, int cp, int ep)
{
    entry e = {.spec = *spec, .cp = cp, .ep = ep, .tp = pl_spec_degree(spec, "tp")};
    pl_axis_load loads[PL_MAX_AXES];
    pl_candidate c;

    s->out->n_meshes++;
    if (!lay_out(s, &e, &c, loads)) {
        s->out->n_unplaced++;
        return;
    }
    e.bounds = pl_bounds_of(s->o, &c, loads);
    keep(s, &e);
}

/* Experts dealt out in every way that divides them and the ranks that hold different sequences. */
static void consider_pieces(search *s, const pl_spec *spec, int cp, int whole)
{
    const int64_t E = s->o->architecture.n_experts;

    for (int ep = 1; ep <= (E > 0 ? E : 1) && cp * ep <= whole; ep++)
        if (whole % (cp * ep) == 0 && (ep == 1 || E % ep == 0) &&
            (s->o->fixed.n == 0 || ep == (s->o->ep > 0 ? s->o->ep : 1)))
            consider_one(s, spec, cp, ep);
}

/* Sequences in as few pieces as there must be; with a pipeline also in more, since fewer ranks then
 * share the sequences and each has more microbatches. */
static void consider(search *s, const int degree[PL_N_DEGREES])
{
    enum { MOST_PIECES = 16, LEAST_TOKENS = 512 };
    pl_spec spec = spec_of(degree);
    const int first = pieces_of(s, &spec);
    const int whole = degree[PL_KIND_FSDP] > 1 ? degree[PL_KIND_FSDP] : degree[PL_KIND_DP];

    spec.zero = s->o->zero > 0 ? s->o->zero : 0;
    if (first == 0 ||
        !pl_spec_is_suitable(&spec, &s->o->model, s->o->sequences * first, s->o->chips)) {
        s->out->n_meshes++;
        s->out->n_refused++;
        return;
    }
    consider_pieces(s, &spec, first, whole);
    for (int cp = 2 * first; cp <= MOST_PIECES && degree[PL_KIND_PP] > 1 && s->o->fixed.n == 0;
         cp *= 2)
        if (whole % cp == 0 && s->o->seq % cp == 0 && s->o->seq / cp >= LEAST_TOKENS)
            consider_pieces(s, &spec, cp, whole);
}

/* The degree that is given for a kind; 0: open. */
static int given(const search *s, int kind)
{
    if (s->o->fixed.n == 0)
        return 0;
    for (int i = 0; i < s->o->fixed.n; i++)
        if (strcmp(s->o->fixed.strategy[i]->name, pl_degree_names[kind]) == 0)
            return s->o->fixed.degree[i];
    return 1;
}

/* Every way to write `left` as the degrees from `kind` on. */
static void enumerate(search *s, int kind, int64_t left, int degree[PL_N_DEGREES])
{
    const int64_t most[PL_N_DEGREES] = {s->o->model.n_layers, left, left, s->o->model.n_heads};

    if (kind == PL_N_DEGREES) {
        if (left == 1)
            consider(s, degree);
        return;
    }
    const int wanted = given(s, kind);
    for (int64_t d = 1; d <= left && d <= most[kind]; d++)
        if (left % d == 0 && (wanted == 0 || wanted == d)) {
            degree[kind] = (int)d;
            enumerate(s, kind + 1, left / d, degree);
        }
}

/* ---- the fastest ---- */

/* Insert among the best; ties go to the one found first. */
static void rank(search *s, const pl_candidate *c)
{
    pl_search_result *out = s->out;
    int at = out->n;

    while (at > 0 && c->estimate.step_s < out->best[at - 1].estimate.step_s)
        at--;
    if (at >= s->o->n_plans)
        return;
    if (out->n < s->o->n_plans)
        out->n++;
    memmove(&out->best[at + 1], &out->best[at], (size_t)(out->n - 1 - at) * sizeof *out->best);
    out->best[at] = *c;
}

/* Whether it cannot be among the best. */
static bool is_beaten(const search *s, const entry *e)
{
    return s->out->n == s->o->n_plans &&
           e->learned_s >= s->out->best[s->out->n - 1].estimate.step_s;
}

/* Of those that have not been looked at and may be among the best the one that promises most; NULL:
 * there is none. */
static entry *most_promising(search *s)
{
    entry *found = NULL;

    for (int i = 0; i < s->n; i++) {
        entry *e = &s->list[i];
        const double seen_s = pl_fit_seen_s(s->fitter, e->tp);

        if (e->is_done)
            continue;
        e->learned_s = pl_bounds_learned_s(&e->bounds, seen_s);
        e->guess_s = fmax(pl_bounds_guess_s(&e->bounds, seen_s), e->learned_s);
        if (!is_beaten(s, e) && e->guess_s < (found != NULL ? found->guess_s : INFINITY))
            found = e;
    }
    return found;
}

/* Those that promise more than e, and are beaten all the same, are done with; how many. */
static int pass_over(search *s, const entry *e)
{
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        entry *other = &s->list[i];
        const bool comes_first =
            other->guess_s < e->guess_s || (other->guess_s == e->guess_s && other < e);

        if (!other->is_done && comes_first) {
            other->is_done = true;
            n++;
        }
    }
    return n;
}

static void look_at(search *s, entry *e)
{
    pl_axis_load loads[PL_MAX_AXES];
    pl_candidate c;

    e->is_done = true;
    lay_out(s, e, &c, loads);
    c.bound_s = e->bounds.bound_s;
    if (pl_fit(s->fitter, &c))
        rank(s, &c);
    else
        s->out->n_too_large++;
}

static void look_at_all(search *s)
{
    pl_search_result *out = s->out;
    int n_done = 0;
    entry *e;

    while ((e = most_promising(s)) != NULL &&
           (pl_fit_n_priced(s->fitter) < s->o->effort || out->n == 0)) {
        n_done += pass_over(s, e) + 1;
        look_at(s, e);
    }
    out->is_proven = e == NULL;
    out->n_bounded = s->n - n_done;
    out->n_priced = pl_fit_n_priced(s->fitter);
}

/* ---- refusals ---- */

static pl_status check_product(const search *s)
{
    int64_t product = 1;

    for (int i = 0; i < s->o->fixed.n; i++)
        if (s->o->fixed.degree[i] > 0)
            product *= s->o->fixed.degree[i];
    bool is_open = s->o->fixed.n == 0;
    for (int i = 0; i < s->o->fixed.n; i++)
        is_open = is_open || s->o->fixed.degree[i] == 0;
    if (product == s->o->chips || (is_open && s->o->chips % product == 0))
        return PL_OK;
    return pl_refuse(
        PL_BAD_INPUT,
        "--strategy: the product of %s is %lld, not %s--chips %lld; give degrees whose "
        "product is %lld, or --chips %lld",
        s->o->typed, (long long)product, is_open ? "a divisor of " : "", (long long)s->o->chips,
        (long long)s->o->chips, (long long)product);
}

/* Degrees that are all given, against the model: with as many sequences as it takes, since those
 * may be cut in pieces. */
static pl_status check_degrees(const search *s)
{
    for (int i = 0; i < s->o->fixed.n; i++)
        if (s->o->fixed.degree[i] == 0)
            return PL_OK;
    return s->o->fixed.n == 0 ? PL_OK
                              : pl_spec_suits(&s->o->fixed, &s->o->model, INT64_MAX, s->o->chips);
}

static pl_status refuse_memory(const search *s, const char *smallest, double need)
{
    const pl_search_options *o = s->o;
    const double have = o->hw.chip.hbm_bytes;
    pl_architecture a;

    pl_search_architecture(o, &a);
    const double all = (double)pl_architecture_params(&a).total *
                       ((double)pl_dtype_bytes(o->dtype) + 12 + (o->dtype == PL_F32 ? 0 : 4));
    return pl_refuse(
        PL_BAD_INPUT,
        "%s does not fit: the smallest plan, %s, needs %.3g GB a chip, %.3g GB more "
        "than the %.3g GB of %s; weights, gradients and optimizer alone (%.3g GB) need "
        "%.0f chips: use more --chips, a smaller --batch or --seq%s",
        o->model.name, smallest, need / 1e9, (need - have) / 1e9, have / 1e9, o->hw.name, all / 1e9,
        ceil(all / have), o->remat == PL_AUTO ? "" : ", or --remat auto");
}

static pl_status refuse_all(const search *s)
{
    double bytes;
    const char *smallest = pl_fit_smallest(s->fitter, &bytes);

    if (smallest != NULL)
        return refuse_memory(s, smallest, bytes);
    return pl_refuse(
        PL_BAD_INPUT,
        "no mesh of %lld chips suits: of %d, %d do not fit the model's heads and layers "
        "or its %lld sequences a step, %d the network; use other --chips or --batch",
        (long long)s->o->chips, s->out->n_meshes, s->out->n_refused, (long long)s->o->sequences,
        s->out->n_unplaced);
}

pl_status pl_search(const pl_search_options *options, pl_search_result *result)
{
    search s = {.o = options, .out = result};
    int degree[PL_N_DEGREES];
    pl_status status;

    memset(result, 0, sizeof *result);
    status = check_product(&s);
    if (status == PL_OK)
        status = check_degrees(&s);
    if (status == PL_OK)
        status = pl_slice_of(&options->hw, options->chips, &s.slice);
    if (status != PL_OK)
        return status;
    s.fitter = pl_fitter_create(options);
    enumerate(&s, PL_KIND_PP, options->chips, degree);
    look_at_all(&s);
    for (int i = 0; i < result->n; i++)
        result->best[i].plan.fabric.wires = result->best[i].wires;
    if (result->n == 0)
        status = refuse_all(&s);
    pl_fitter_destroy(s.fitter);
    pl_free(s.list);
    return status;
}
