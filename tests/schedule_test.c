/* Schedules of all collective algorithms, run symbolically on up to 64 ranks; no MPI. */
#include "collectives/algorithms.h"
#include "tests/check_main.h"
#include "tests/collective_cases.h"
#include "tests/schedule_checker.h"

#include <check.h>
#include <malloc.h>
#include <stdlib.h>

enum { N_COUNTS = 6 };

/* Identities of one run. */
#define RUN_IDS ((int64_t)1 << 40)

/* What a cell should hold after a run, in units of run 0. */
typedef struct {
    enum { UNTOUCHED, LOST, DEFINED } kind;
    int64_t id;
    uint64_t terms;
} wanted;

/* What every case needs. */
typedef struct {
    case_spec spec;
    pl_arena *arena;
    sc_world world;
    pl_schedule *schedules[SC_MAX_RANKS];
    case_call calls[SC_MAX_RANKS];
    int64_t n_cells; /* of a rank's arrays */
    wanted *wanted;  /* [n_ranks][n_cells] */
    uint64_t *trees; /* [n] by identity, as some rank had them in some run; 0: nobody yet */
} fixture;

static uint64_t all_terms(int P)
{
    return P == 64 ? ~(uint64_t)0 : ((uint64_t)1 << P) - 1;
}

static void want(fixture *f, int rank, const case_part *part, bool lost)
{
    const uint64_t terms =
        part->term == CASE_ALL ? all_terms(f->spec.n_ranks) : (uint64_t)1 << part->term;

    for (int64_t k = 0; k < pl_region_elements(part->region); k++) {
        const int64_t at =
            sc_region_cell(&f->world, rank, part->region, k) - sc_cell(&f->world, rank, 0, 0);

        f->wanted[rank * f->n_cells + at] =
            (wanted){lost ? LOST : DEFINED, part->first_id + k, terms};
    }
}

/* Arrays in use, n or more: one more than the highest number. */
static int count_arrays(int n, const case_part *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        for (int j = 0; j < parts[i].region.n_pieces; j++)
            if (parts[i].region.pieces[j].array >= n)
                n = parts[i].region.pieces[j].array + 1;
    return n;
}

/* Every element of the case is `grain` elements of the schedules. */
static void fixture_init(fixture *f, const case_spec *spec, const pl_algorithm *a,
                         const pl_site *site, int64_t grain)
{
    const int P = spec->n_ranks;
    const int64_t room = case_room(spec);
    int n_arrays = 1;

    *f = (fixture){.spec = *spec, .arena = pl_arena_create()};
    for (int r = 0; r < P; r++) {
        f->calls[r] = case_call_of(f->arena, spec, r);
        f->schedules[r] = pl_schedule_create();
        const pl_collective_call call = case_scaled(f->arena, &f->calls[r].call, grain);

        a->write(f->schedules[r], &call, site, r);
        n_arrays = count_arrays(n_arrays, f->calls[r].inputs, f->calls[r].n_inputs);
        n_arrays = count_arrays(n_arrays, f->calls[r].outputs, f->calls[r].n_outputs);
    }
    f->n_cells = n_arrays * room;
    sc_world_init(&f->world, P, n_arrays, room, grain, f->schedules);
    f->world.reduction = spec->reduction;
    f->world.site = site;
    f->wanted = calloc((size_t)(P * f->n_cells), sizeof *f->wanted);
    f->trees = calloc((size_t)spec->n + 1, sizeof *f->trees);
    for (int r = 0; r < P; r++) {
        for (int i = 0; i < f->calls[r].n_inputs; i++)
            want(f, r, &f->calls[r].inputs[i], true);
        for (int i = 0; i < f->calls[r].n_outputs; i++)
            want(f, r, &f->calls[r].outputs[i], false);
    }
}

static void fixture_free(fixture *f)
{
    for (int r = 0; r < f->spec.n_ranks; r++)
        pl_schedule_destroy(f->schedules[r]);
    free(f->wanted);
    free(f->trees);
    sc_world_free(&f->world);
    pl_arena_destroy(f->arena);
}

static void fill(const sc_world *w, int rank, int run, void *context)
{
    const case_call *c = &((fixture *)context)->calls[rank];

    for (int i = 0; i < c->n_inputs; i++)
        sc_region_fill(w, rank, c->inputs[i].region, run * RUN_IDS + c->inputs[i].first_id);
}

/* Whether the sum was added up as on the other ranks and in the runs before. */
static bool is_same_tree(fixture *f, const wanted *x, uint64_t tree)
{
    uint64_t *known;

    if (x->terms != all_terms(f->spec.n_ranks) || f->spec.n_ranks == 1)
        return true;
    known = &f->trees[x->id];
    if (*known == 0)
        *known = tree;
    return *known == tree;
}

static int64_t count_wrong(const sc_world *w, int rank, int run, void *context)
{
    fixture *f = context;
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < f->n_cells; i++) {
        const wanted *x = &f->wanted[rank * f->n_cells + i];
        const sc_symbol *s = sc_cell(w, rank, 0, i);

        if (x->kind == UNTOUCHED)
            n_wrong += s->id != SC_NOTHING;
        else if (x->kind == DEFINED)
            n_wrong += s->id != run * RUN_IDS + x->id || s->terms != x->terms ||
                       !is_same_tree(f, x, s->tree);
    }
    return n_wrong;
}

static void check_case(const case_spec *spec, const pl_algorithm *a, const case_site *site,
                       int64_t grain, sc_order order)
{
    fixture f;

    fixture_init(&f, spec, a, &site->site, grain);
    const sc_callers callers = {fill, count_wrong, &f};
    const char *fault = sc_run(&f.world, &callers, order);

    ck_assert_msg(!fault, "%s, %s; %s: %s", a->name, case_name(spec), site->name,
                  fault ? fault : "");
    fixture_free(&f);
}

/* Every how manyth case is gone through: all where there are few ranks, then fewer and fewer. It
 * has no factor of the counts, layouts and placings, so that each of them comes up beside each. */
static int step_of(pl_collective collective, int P)
{
    const int n_cases = N_COUNTS * N_LAYOUTS * 2 * case_variants(collective, P);
    const int n_wanted = P <= 4 ? n_cases : P <= 9 ? 60 : P <= 17 ? 30 : P < 64 ? 12 : 6;
    int step = n_cases > n_wanted ? n_cases / n_wanted : 1;

    while (step > 1 && (step % 2 == 0 || step % 3 == 0))
        step++;
    return step;
}

static bool applies(const pl_algorithm *a, const case_spec *spec, const pl_site *site,
                    int64_t grain)
{
    pl_arena *arena = pl_arena_create();
    const case_call c = case_call_of(arena, spec, 0);
    const pl_collective_call call = case_scaled(arena, &c.call, grain);
    const bool answer = pl_algorithm_applies(a, &call, site);

    pl_arena_destroy(arena);
    return answer;
}

/* Sizes, layouts, placings and variants on one site; returns how many cases there were by now. */
static int check_site(const pl_algorithm *a, const case_site *site, int n_cases)
{
    const int P = site->site.n_ranks, step = step_of(a->collective, P);
    const int64_t counts[N_COUNTS] = {0, 1, P - 1, P, P + 1, 73};
    case_spec spec = {.collective = a->collective, .n_ranks = P};

    for (int i = 0; i < N_COUNTS * N_LAYOUTS * N_PLACINGS; i++) {
        spec.n = counts[i % N_COUNTS];
        spec.layout = (layout)(i / N_COUNTS % N_LAYOUTS);
        spec.placing = (placing)(i / N_COUNTS / N_LAYOUTS);
        spec.reduction = i % 5 == 2 ? PL_MAX : PL_SUM;
        if (!case_has_placing(a->collective, spec.placing) || !applies(a, &spec, &site->site, 1))
            continue;
        for (spec.variant = 0; spec.variant < case_variants(a->collective, P); spec.variant++)
            if (++n_cases % step == 0)
                check_case(&spec, a, site, 1, (sc_order)(n_cases / step % SC_N_ORDERS));
    }
    return n_cases;
}

/* Algorithms for which the site does not matter see only the first few. */
static void check_ranks(const pl_algorithm *a, int P)
{
    pl_arena *arena = pl_arena_create();
    case_site sites[CASE_MAX_SITES];
    const int n_sites = case_sites(arena, P, sites);
    int n_cases = P;

    for (int k = 0; k < n_sites; k++)
        if (k < 3 || a->needs != PL_NEEDS_NOTHING)
            n_cases = check_site(a, &sites[k], n_cases);
    pl_arena_destroy(arena);
}

START_TEST(every_algorithm_ends_right_in_every_run_without_deadlock_or_race)
{
    static const int more[] = {31, 32, 33, 64};

    for (int P = 1; P <= 17; P++)
        check_ranks(&pl_algorithms[_i], P);
    for (int i = 0; i < 4; i++)
        check_ranks(&pl_algorithms[_i], more[i]);
}
END_TEST

/* Blocks of 3/4 of 2^20 elements, in runs of 2^14: cut into chunks by all that cut, and at these.
 */
static void check_long(const pl_algorithm *a, const case_site *site)
{
    enum { GRAIN = 1 << 14, BLOCK = 40 };
    const int P = site->site.n_ranks;
    case_spec spec = {.collective = a->collective, .n_ranks = P, .n = P * BLOCK};

    for (int i = 0; i < LAYOUT_UNEVEN * N_PLACINGS; i++) {
        spec.layout = (layout)(i % LAYOUT_UNEVEN);
        spec.placing = (placing)(i / LAYOUT_UNEVEN);
        spec.variant = i % case_variants(a->collective, P);
        if (case_has_placing(a->collective, spec.placing) && applies(a, &spec, &site->site, GRAIN))
            check_case(&spec, a, site, GRAIN, (sc_order)(i % SC_N_ORDERS));
    }
}

START_TEST(long_arrays_in_chunks_end_right)
{
    for (int P = 2; P <= 6; P++) {
        pl_arena *arena = pl_arena_create();
        case_site sites[CASE_MAX_SITES];
        const int n_sites = case_sites(arena, P, sites);

        for (int k = 0; k < n_sites; k++)
            if (k < 3 || pl_algorithms[_i].needs != PL_NEEDS_NOTHING)
                check_long(&pl_algorithms[_i], &sites[k]);
        pl_arena_destroy(arena);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tc = tcase_create("schedules");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_algorithm_ends_right_in_every_run_without_deadlock_or_race, 0,
                        pl_n_algorithms);
    tcase_add_loop_test(tc, long_arrays_in_chunks_end_right, 0, pl_n_algorithms);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
#ifdef M_TRIM_THRESHOLD /* what one case frees, the next uses: giving it back takes long */
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
#endif
    return ck_main(make_suite());
}
