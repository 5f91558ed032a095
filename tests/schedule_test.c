/* Schedules of all collective algorithms, run symbolically on up to 64 ranks; no MPI. */
#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/block.h"
#include "tests/check_main.h"
#include "tests/collective_cases.h"
#include "tests/schedule_checker.h"

#include <check.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The checker itself: three ranks with a few elements each, schedules written by hand. Array 0 is
 * what is put in, element 0 first; nothing is asked for. */
typedef struct {
    int n_ranks;
    sc_world world;
    pl_schedule *schedules[3];
} trio;

static const pl_piece cells[] = {
    {0, 0, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 0, 1, 2, 2}, {0, 1, 1, 2, 2}, {PL_SCRATCH, 0, 1, 1, 1}};
static const pl_region x0 = {1, &cells[0]}, x1 = {1, &cells[1]};
static const pl_region x01 = {1, &cells[2]}, x12 = {1, &cells[3]}, scratch = {1, &cells[4]};

static void trio_init(trio *t, int n_ranks)
{
    t->n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++)
        t->schedules[r] = pl_schedule_create();
}

static void fill_first(const sc_world *w, int rank, int run, void *context)
{
    (void)context;
    sc_region_fill(w, rank, x0, run * RUN_IDS);
}

/* Run it in all orders: the same word of blame, or none (NULL), whatever the order. */
static void trio_expect(trio *t, const char *word)
{
    const sc_callers callers = {.fill = fill_first};

    for (int order = 0; order < SC_N_ORDERS; order++) {
        const char *fault;

        sc_world_init(&t->world, t->n_ranks, 1, 3, 1, t->schedules);
        fault = sc_run(&t->world, &callers, (sc_order)order);
        sc_world_free(&t->world);
        if (word == NULL)
            ck_assert_msg(fault == NULL, "'%s' where nothing is wrong", fault);
        else
            ck_assert_msg(fault && strstr(fault, word), "'%s' should name a fault: %s",
                          fault ? fault : "nothing", word);
    }
    for (int r = 0; r < t->n_ranks; r++)
        pl_schedule_destroy(t->schedules[r]);
}

START_TEST(the_checker_sees_sends_that_need_buffering)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) { /* both send first, then receive */
        pl_schedule_send(t.schedules[r], 1 - r, x0);
        pl_schedule_next_round(t.schedules[r]);
        pl_schedule_recv(t.schedules[r], 1 - r, x1);
    }
    trio_expect(&t, "deadlock");
}
END_TEST

START_TEST(the_checker_sees_a_message_too_many)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv(t.schedules[1], 0, x1);
    trio_expect(&t, "left");
}
END_TEST

START_TEST(the_checker_sees_messages_of_different_sizes)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv(t.schedules[1], 0, x12);
    trio_expect(&t, "elements");
}
END_TEST

START_TEST(the_checker_sees_a_term_summed_twice)
{
    trio t;

    trio_init(&t, 2);
    for (int i = 0; i < 2; i++) {
        pl_schedule_send(t.schedules[0], 1, x0);
        pl_schedule_recv_add(t.schedules[1], 0, x0);
        pl_schedule_next_round(t.schedules[0]);
        pl_schedule_next_round(t.schedules[1]);
    }
    trio_expect(&t, "twice");
}
END_TEST

START_TEST(the_checker_sees_a_combination_of_a_term_with_itself)
{
    const pl_place to = {PL_SELF, x1}, from[] = {{PL_SELF, x0}, {PL_SELF, x0}};
    trio t;

    trio_init(&t, 1);
    pl_schedule_combine(t.schedules[0], PL_SUM, &to, 1, from, 2);
    trio_expect(&t, "twice");
}
END_TEST

START_TEST(the_checker_sees_a_sum_with_what_was_never_written)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv_add(t.schedules[1], 0, x1);
    trio_expect(&t, "adds");
}
END_TEST

START_TEST(the_checker_sees_a_maximum_instead_of_a_sum)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x0);
    pl_schedule_recv_reduce(t.schedules[1], 0, x0, PL_MAX);
    trio_expect(&t, "operation");
}
END_TEST

START_TEST(the_checker_sees_a_receive_into_what_the_round_sends)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_send(t.schedules[r], 1 - r, x0);
        pl_schedule_recv(t.schedules[r], 1 - r, x0);
    }
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(the_checker_sees_a_combination_into_what_the_round_sends)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_send(t.schedules[0], 1, x1);
    pl_schedule_read(t.schedules[0], x1, PL_SELF, x0);
    pl_schedule_recv(t.schedules[1], 0, x1);
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(the_checker_sees_a_combination_that_overlaps_itself)
{
    trio t;

    trio_init(&t, 1);
    pl_schedule_read(t.schedules[0], x12, PL_SELF, x01);
    trio_expect(&t, "disturb");
}
END_TEST

START_TEST(copies_may_feed_what_follows_and_reductions_may_write_what_is_sent)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_copy(t.schedules[r], x1, x0);
        pl_schedule_send(t.schedules[r], 1 - r, x1);
        pl_schedule_recv_add(t.schedules[r], 1 - r, x1);
    }
    trio_expect(&t, NULL);
}
END_TEST

/* Rank 0 reads from rank 1, which says when it may and waits until it is over, but for what is left
 * out of it. */
typedef enum { LEAVE_NOTHING, LEAVE_OPENING, LEAVE_CLOSING } omission;

static void write_read(trio *t, omission left_out)
{
    pl_schedule *reader = t->schedules[0], *owner = t->schedules[1];

    pl_schedule_signal(owner);
    pl_schedule_next_round(owner);
    if (left_out != LEAVE_OPENING)
        pl_schedule_await(reader, 1, 1, 0);
    pl_schedule_read(reader, x1, 1, x0);
    pl_schedule_signal(reader);
    pl_schedule_next_round(reader);
    if (left_out == LEAVE_OPENING) /* too late */
        pl_schedule_await(reader, 1, 1, 0);
    pl_schedule_await(owner, 0, left_out == LEAVE_CLOSING ? PL_STAGE_END : 1,
                      left_out == LEAVE_CLOSING ? 2 : 0);
}

START_TEST(reading_between_two_handshakes_is_in_order)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_NOTHING);
    trio_expect(&t, NULL);
}
END_TEST

START_TEST(the_checker_sees_a_read_before_its_await)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_OPENING);
    trio_expect(&t, "race");
}
END_TEST

START_TEST(the_checker_sees_a_missing_closing_await)
{
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_CLOSING);
    trio_expect(&t, "race");
}
END_TEST

START_TEST(the_checker_sees_an_await_of_the_signal_before_the_one_it_needs)
{
    trio t;

    trio_init(&t, 2);
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_next_round(t.schedules[1]);
    pl_schedule_copy(t.schedules[1], x1, x0);
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_next_round(t.schedules[1]);
    pl_schedule_await(t.schedules[0], 1, 1, 0); /* the copy comes before signal 2 */
    pl_schedule_read(t.schedules[0], x1, 1, x1);
    pl_schedule_signal(t.schedules[0]);
    pl_schedule_await(t.schedules[1], 0, 1, 0);
    trio_expect(&t, "race");
}
END_TEST

/* Rank 0 passes its element to rank 1 by way of staging; -1: it awaits nothing before it. */
static void write_staged(trio *t, int lag)
{
    pl_schedule *from = t->schedules[0], *to = t->schedules[1];
    const pl_region staging = pl_schedule_staging(from, 1);

    pl_schedule_staging(to, 1);
    if (lag >= 0)
        pl_schedule_await(from, 1, PL_STAGE_END, lag);
    pl_schedule_copy(from, staging, x0);
    pl_schedule_signal(from);
    pl_schedule_next_round(from);
    if (lag < 0) /* both await each other, but of the wrong half */
        pl_schedule_await(from, 1, PL_STAGE_END, 3);
    pl_schedule_await(to, 0, 1, 0);
    pl_schedule_read(to, x1, 0, staging);
}

START_TEST(staging_that_awaits_the_end_of_the_run_before_last_is_in_order)
{
    trio t;

    trio_init(&t, 2);
    write_staged(&t, 2);
    trio_expect(&t, NULL);
}
END_TEST

START_TEST(the_checker_sees_staging_used_again_too_early)
{
    for (int lag = -1; lag <= 3; lag += 4) {
        trio t;

        trio_init(&t, 2);
        write_staged(&t, lag);
        trio_expect(&t, "race");
    }
}
END_TEST

START_TEST(the_checker_sees_awaits_in_a_circle)
{
    trio t;

    trio_init(&t, 3);
    for (int r = 0; r < 3; r++) {
        pl_schedule_await(t.schedules[r], (r + 1) % 3, 1, 0);
        pl_schedule_await(t.schedules[r], (r + 2) % 3, PL_STAGE_END, 1);
        pl_schedule_signal(t.schedules[r]);
    }
    trio_expect(&t, "deadlock");
}
END_TEST

START_TEST(the_checker_sees_partners_of_one_side)
{
    trio t;

    trio_init(&t, 2); /* rank 1 never awaits rank 0 */
    pl_schedule_signal(t.schedules[1]);
    pl_schedule_await(t.schedules[0], 1, 1, 0);
    trio_expect(&t, "partner");
    trio_init(&t, 2); /* rank 0 reads what it never awaits */
    pl_schedule_read(t.schedules[0], x1, 1, x0);
    trio_expect(&t, "partner");
}
END_TEST

START_TEST(the_checker_sees_an_await_of_a_stage_that_never_comes)
{
    trio t;

    trio_init(&t, 2);
    for (int r = 0; r < 2; r++) {
        pl_schedule_signal(t.schedules[r]);
        pl_schedule_next_round(t.schedules[r]);
        pl_schedule_await(t.schedules[r], 1 - r, 1 + r, 0);
    }
    trio_expect(&t, "never");
}
END_TEST

START_TEST(the_checker_sees_accesses_outside_of_memory)
{
    const pl_piece beyond = {PL_STAGING, 1, 1, 1, 1};
    trio t;

    trio_init(&t, 1);
    pl_schedule_staging(t.schedules[0], 1);
    pl_schedule_copy(t.schedules[0], (pl_region){1, &beyond}, x0);
    trio_expect(&t, "outside");
    trio_init(&t, 1);
    pl_schedule_copy(t.schedules[0], scratch, x0); /* which it never asked for */
    trio_expect(&t, "outside");
    trio_init(&t, 2); /* a peer's scratch */
    for (int r = 0; r < 2; r++)
        pl_schedule_await(t.schedules[r], 1 - r, PL_STAGE_END, 1);
    pl_schedule_scratch(t.schedules[1], 1);
    pl_schedule_read(t.schedules[0], x1, 1, scratch);
    trio_expect(&t, "outside");
}
END_TEST

START_TEST(the_checker_sees_a_rank_that_takes_itself_for_a_peer)
{
    trio t;

    trio_init(&t, 1);
    pl_schedule_read(t.schedules[0], x1, 0, x0);
    trio_expect(&t, "itself");
}
END_TEST

static int64_t count_missing(const sc_world *w, int rank, int run, void *context)
{
    (void)context;
    return sc_cell(w, rank, 0, 1)->id != run * RUN_IDS;
}

START_TEST(the_checker_sees_a_result_that_is_missing_in_a_later_run)
{
    const sc_callers callers = {fill_first, count_missing, NULL};
    pl_schedule *s = pl_schedule_create();
    const pl_region staging = pl_schedule_staging(s, 1);
    sc_world world;
    const char *fault;

    pl_schedule_copy(s, x1, staging); /* nothing yet, or what the run before last has left */
    pl_schedule_next_round(s);
    pl_schedule_copy(s, staging, x0);
    sc_world_init(&world, 1, 1, 3, 1, &s);
    fault = sc_run(&world, &callers, SC_IN_TURN);
    ck_assert(fault && strstr(fault, "wrong"));
    sc_world_free(&world);
    pl_schedule_destroy(s);
}
END_TEST

START_TEST(the_checker_sees_memory_out_of_reach)
{
    const sc_callers callers = {.fill = fill_first};
    const int hosts[] = {0, 1};
    pl_arena *arena = pl_arena_create();
    const pl_site apart = pl_site_on_hosts(arena, 2, hosts, true);
    const pl_site unshared = pl_site_one_host(arena, 2, false);
    trio t;

    trio_init(&t, 2);
    write_read(&t, LEAVE_NOTHING);
    for (int i = 0; i < 2; i++) {
        const char *fault;

        sc_world_init(&t.world, 2, 1, 3, 1, t.schedules);
        t.world.site = i == 0 ? &apart : &unshared;
        fault = sc_run(&t.world, &callers, SC_IN_TURN);
        ck_assert(fault && strstr(fault, "reach"));
        sc_world_free(&t.world);
    }
    trio_expect(&t, NULL);
    pl_arena_destroy(arena);
}
END_TEST

/* What a rank does in a collective in place (AllToAll: apart) with n elements. */
static pl_schedule *schedule_of(pl_algorithm_write *write, pl_collective c, const pl_site *site,
                                int64_t n, int rank)
{
    const case_spec spec = {.collective = c,
                            .n_ranks = site->n_ranks,
                            .n = n,
                            .placing = c == PL_ALL_TO_ALL ? CASE_KNOWN : CASE_IN_PLACE};
    pl_arena *arena = pl_arena_create();
    const case_call call = case_call_of(arena, &spec, rank);
    pl_schedule *s = pl_schedule_create();

    write(s, &call.call, site, rank);
    pl_arena_destroy(arena);
    return s;
}

/* Formulas of algorithms by messages, for n elements in equal blocks. */
typedef enum { ONE, LOG, HALF, LINE, ANY } growth_kind;

static const struct {
    pl_algorithm_write *write;
    pl_collective collective;
    int times;          /* n(P-1)/P elements sent, and as many times the rounds: */
    growth_kind rounds; /* 1, ceil(log2 P), P/2 or P-1; or as sizes will have it */
    bool powers;        /* only where P is a power of two */
} formulas[] = {
    {pl_ring_all_gather, PL_ALL_GATHER, 1, LINE, false},
    {pl_bidirectional_ring_all_gather, PL_ALL_GATHER, 1, HALF, false},
    {pl_direct_all_gather, PL_ALL_GATHER, 1, ONE, false},
    {pl_bruck_all_gather, PL_ALL_GATHER, 1, LOG, false},
    {pl_recursive_doubling_all_gather, PL_ALL_GATHER, 1, LOG, true},
    {pl_pat_all_gather, PL_ALL_GATHER, 1, LOG, false},
    {pl_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, LINE, false},
    {pl_bidirectional_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, HALF, false},
    {pl_pipelined_ring_reduce_scatter, PL_REDUCE_SCATTER, 1, ANY, false},
    {pl_direct_reduce_scatter, PL_REDUCE_SCATTER, 1, ONE, false},
    {pl_recursive_halving_reduce_scatter, PL_REDUCE_SCATTER, 1, LOG, true},
    {pl_pat_reduce_scatter, PL_REDUCE_SCATTER, 1, ANY, false},
    {pl_ring_all_reduce, PL_ALL_REDUCE, 2, LINE, false},
    {pl_bidirectional_ring_all_reduce, PL_ALL_REDUCE, 2, HALF, false},
    {pl_pipelined_ring_all_reduce, PL_ALL_REDUCE, 2, ANY, false},
    {pl_direct_all_reduce, PL_ALL_REDUCE, 2, ONE, false},
    {pl_rabenseifner_all_reduce, PL_ALL_REDUCE, 2, LOG, true},
    {pl_pat_all_reduce, PL_ALL_REDUCE, 2, ANY, false},
    {pl_pairwise_all_to_all, PL_ALL_TO_ALL, 1, LINE, false},
    {pl_direct_all_to_all, PL_ALL_TO_ALL, 1, ONE, false},
};
enum { N_FORMULAS = sizeof formulas / sizeof formulas[0] };

static int rounds_of(growth_kind growth, int P)
{
    switch (growth) {
    case ONE:
        return P > 1;
    case LOG:
        return (int)ceil(log2(P));
    case HALF:
        return P / 2;
    default:
        return P - 1;
    }
}

static pl_schedule_counts count_of(pl_algorithm_write *write, pl_collective c, const pl_site *site,
                                   int64_t n, int rank)
{
    pl_schedule *s = schedule_of(write, c, site, n, rank);
    const pl_schedule_counts counts = pl_schedule_count(s, PL_F32);

    pl_schedule_destroy(s);
    return counts;
}

static void check_formulas(const pl_site *site, int rank)
{
    const int P = site->n_ranks;
    const int64_t block = 30, even = 4 * block * (P - 1);

    for (int i = 0; i < N_FORMULAS; i++) {
        const int times = formulas[i].times;

        if (formulas[i].powers && (P & (P - 1)) != 0)
            continue;
        const pl_schedule_counts c =
            count_of(formulas[i].write, formulas[i].collective, site, block * P, rank);

        ck_assert_int_eq(c.sent_bytes, times * even);
        ck_assert_int_eq(c.received_bytes, times * even);
        ck_assert_int_eq(c.wire_bytes, c.sent_bytes);
        if (formulas[i].rounds != ANY)
            ck_assert_int_eq(c.rounds, times * rounds_of(formulas[i].rounds, P));
    }
}

START_TEST(bytes_and_rounds_of_messages_follow_the_closed_formula)
{
    for (int P = 1; P <= 64; P++) {
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);

        for (int rank = 0; rank < P; rank++)
            if (P <= 17 || rank == P / 2)
                check_formulas(&site, rank);
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(a_broadcasts_root_sends_as_its_head_says)
{
    for (int P = 1; P <= 33; P++) {
        const int64_t block = 30, n = 4 * block * P;
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);
        pl_algorithm_write *const write[] = {pl_direct_broadcast, pl_binomial_broadcast,
                                             pl_pipelined_chain_broadcast,
                                             pl_scatter_ring_broadcast};
        const int64_t sent[] = {n * (P - 1), n * (int64_t)ceil(log2(P)), P > 1 ? n : 0,
                                2 * 4 * block * (P - 1)};

        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(count_of(write[i], PL_BROADCAST, &site, block * P, 0).sent_bytes,
                             sent[i]);
        for (int r = 1; r < P; r++)
            for (int i = 0; i < 3; i++)
                ck_assert_int_eq(
                    count_of(write[i], PL_BROADCAST, &site, block * P, r).received_bytes, n);
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(recursive_doubling_sends_everything_in_each_of_log2_rounds)
{
    for (int P = 1; P <= 64; P *= 2) {
        const int log = (int)log2(P);
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, false);
        const pl_schedule_counts c =
            count_of(pl_recursive_doubling_all_reduce, PL_ALL_REDUCE, &site, 30, P - 1);

        ck_assert_int_eq(c.sent_bytes, 4 * 30 * log);
        ck_assert_int_eq(c.rounds, log);
        pl_arena_destroy(arena);
    }
}
END_TEST

/* Formulas of algorithms in shared memory. */
static const struct {
    pl_algorithm_write *write;
    pl_collective collective;
    int stages;
    bool all_of_all; /* everything of every peer goes over the wire; otherwise: */
    int times;       /* n (P-1)/P elements */
} shared_formulas[] = {
    {pl_shared_all_gather, PL_ALL_GATHER, 2, false, 1},
    {pl_staged_all_gather, PL_ALL_GATHER, 1, false, 1},
    {pl_shared_reduce_scatter, PL_REDUCE_SCATTER, 2, false, 1},
    {pl_staged_reduce_scatter, PL_REDUCE_SCATTER, 1, false, 1},
    {pl_shared_all_reduce, PL_ALL_REDUCE, 2, false, 2},
    {pl_pulled_all_reduce, PL_ALL_REDUCE, 3, false, 2},
    {pl_staged_all_reduce, PL_ALL_REDUCE, 1, true, 0},
    {pl_shared_all_to_all, PL_ALL_TO_ALL, 2, false, 1},
    {pl_staged_all_to_all, PL_ALL_TO_ALL, 1, false, 1},
};
enum { N_SHARED_FORMULAS = sizeof shared_formulas / sizeof shared_formulas[0] };

START_TEST(bytes_and_stages_in_shared_memory_follow_the_closed_formula)
{
    for (int P = 1; P <= 17; P++) {
        const int64_t n = 30 * P, even = 4 * n / P * (P - 1);
        pl_arena *arena = pl_arena_create();
        const pl_site site = pl_site_one_host(arena, P, true);

        for (int i = 0; i < N_SHARED_FORMULAS; i++) {
            for (int rank = 0; rank < P; rank++) {
                pl_schedule *s = schedule_of(shared_formulas[i].write,
                                             shared_formulas[i].collective, &site, n, rank);
                const pl_schedule_counts c = pl_schedule_count(s, PL_F32);

                ck_assert_int_eq(c.sent_bytes, 0);
                ck_assert_int_eq(c.wire_bytes, shared_formulas[i].all_of_all
                                                   ? 4 * n * (P - 1)
                                                   : shared_formulas[i].times * even);
                ck_assert_int_eq(pl_schedule_stage(s), P > 1 ? shared_formulas[i].stages : 0);
                pl_schedule_destroy(s);
            }
        }
        pl_arena_destroy(arena);
    }
}
END_TEST

/* H hosts of L ranks, dealt in turn: n(H-1)/(HL) elements from every rank, in an AllReduce twice.
 */
static void check_lanes(int H, int L)
{
    static const struct {
        pl_algorithm_write *write;
        pl_collective collective;
        int times;
    } lanes[] = {{pl_hierarchical_all_gather, PL_ALL_GATHER, 1},
                 {pl_hierarchical_reduce_scatter, PL_REDUCE_SCATTER, 1},
                 {pl_hierarchical_all_reduce, PL_ALL_REDUCE, 2}};
    const int P = H * L;
    const int64_t block = 30;
    pl_arena *arena = pl_arena_create();
    int host_of[16];

    for (int r = 0; r < P; r++)
        host_of[r] = r % H;
    const pl_site site = pl_site_on_hosts(arena, P, host_of, true);
    for (int r = 0; r < P; r++) {
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(
                count_of(lanes[i].write, lanes[i].collective, &site, block * P, r).sent_bytes,
                lanes[i].times * 4 * block * (H - 1));
        ck_assert_int_eq(/* which has nothing to save: all but what stays on the host */
                         count_of(pl_hierarchical_all_to_all, PL_ALL_TO_ALL, &site, block * P, r)
                             .sent_bytes,
                         4 * block * L * (H - 1));
    }
    pl_arena_destroy(arena);
}

START_TEST(across_hosts_each_rank_carries_its_share_and_no_more)
{
    for (int H = 2; H <= 4; H++)
        for (int L = 1; L <= 4; L++)
            check_lanes(H, L);
}
END_TEST

START_TEST(rings_along_all_axes_take_half_of_each_axis_in_rounds)
{
    static const struct {
        int n_axes, extent[3];
    } grids[] = {{2, {2, 2}}, {2, {2, 3}},    {2, {4, 2}},
                 {2, {4, 5}}, {3, {2, 2, 2}}, {3, {4, 3, 2}}};

    for (int i = 0; i < 6; i++) {
        int P = 1, rounds = 0;
        pl_arena *arena = pl_arena_create();

        for (int a = 0; a < grids[i].n_axes; a++) {
            P *= grids[i].extent[a];
            rounds += grids[i].extent[a] / 2;
        }
        pl_site site = pl_site_one_host(arena, P, false);
        site.n_axes = grids[i].n_axes;
        memcpy(site.extent, grids[i].extent, sizeof grids[i].extent);
        for (int r = 0; r < P; r++) {
            /* blocks of 2 x 3 x 4: as many parts as axes, each of which a hop may halve */
            const pl_schedule_counts gather =
                count_of(pl_multi_axis_all_gather, PL_ALL_GATHER, &site, 24 * P, r);
            const pl_schedule_counts reduce =
                count_of(pl_multi_axis_all_reduce, PL_ALL_REDUCE, &site, 24 * P, r);

            ck_assert_int_eq(gather.sent_bytes, 4 * 24 * (P - 1));
            ck_assert_int_eq(gather.rounds, rounds);
            ck_assert_int_eq(reduce.sent_bytes, 2 * 4 * 24 * (P - 1));
            ck_assert_int_eq(reduce.rounds, 2 * rounds);
        }
        pl_arena_destroy(arena);
    }
}
END_TEST

START_TEST(the_ring_price_is_rounds_of_latency_bytes_and_additions)
{
    /* 4 ranks, 4,000 elements: 3 rounds of 4,000 B: 1 us + 4 us on the link + 2 us to add. */
    const pl_machine machine = {.reduce_bytes_per_s = 2e9,
                                .copy_bytes_per_s = 4e9,
                                .link[PL_LINK_SAME_HOST] = {.latency_s = 1e-6,
                                                            .one_way_bytes_per_s = 3e9,
                                                            .both_ways_bytes_per_s = 1e9}};
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_site_one_host(arena, 4, false);
    pl_schedule *s = schedule_of(pl_ring_reduce_scatter, PL_REDUCE_SCATTER, &site, 4000, 2);
    const double price_s = pl_schedule_price_s(s, PL_F32, &machine, &site, 2);

    ck_assert(fabs(price_s - 21e-6) <= 16 * 0x1p-53 * 21e-6); /* about 12 roundings */
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(a_round_that_only_receives_is_priced_one_way_on_the_link_between_hosts)
{
    const pl_machine machine = {.link[PL_LINK_OTHER_HOST] = {.latency_s = 1e-6,
                                                             .one_way_bytes_per_s = 2e9,
                                                             .both_ways_bytes_per_s = 1e9}};
    const int hosts[] = {0, 1};
    const pl_piece piece = pl_piece_of(0, 0, 1000);
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_site_on_hosts(arena, 2, hosts, true);
    pl_schedule *s = pl_schedule_create();
    double price_s;

    pl_schedule_recv(s, 0, (pl_region){1, &piece});
    price_s = pl_schedule_price_s(s, PL_F32, &machine, &site, 1);
    ck_assert(fabs(price_s - 3e-6) <= 4 * 0x1p-53 * 3e-6); /* 1 us + 4,000 B at 2 GB/s */
    price_s = pl_schedule_price_s(s, PL_BF16, &machine, &site, 1);
    ck_assert(fabs(price_s - 2e-6) <= 4 * 0x1p-53 * 2e-6); /* 1 us + 2,000 B at 2 GB/s */
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
}
END_TEST

/* Two machines with different favourites: messages that cost latency, and a slow shared memory. */
static const pl_machine choosers[] = {
    {.reduce_bytes_per_s = 2e9,
     .copy_bytes_per_s = 8e9,
     .signal_s = 1e-6,
     .link = {{.latency_s = 2e-6, .one_way_bytes_per_s = 6e9, .both_ways_bytes_per_s = 4e9},
              {.latency_s = 5e-5, .one_way_bytes_per_s = 1e8, .both_ways_bytes_per_s = 1e8}}},
    {.reduce_bytes_per_s = 9e9,
     .copy_bytes_per_s = 2e9,
     .signal_s = 2e-5,
     .link = {{.latency_s = 1e-6, .one_way_bytes_per_s = 9e9, .both_ways_bytes_per_s = 9e9},
              {.latency_s = 1e-6, .one_way_bytes_per_s = 1e9, .both_ways_bytes_per_s = 9e8}}},
};

/* Whether the rank has a part in it: in a permute some have not. */
static bool takes_part(const pl_collective_call *call)
{
    return call->collective != PL_PERMUTE || call->to_rank >= 0 || call->from_rank >= 0;
}

static void check_choice(const case_spec *spec, const pl_chooser *chooser, const case_site *site)
{
    const char *first = NULL, *name;

    for (int r = 0; r < spec->n_ranks; r++) {
        pl_arena *arena = pl_arena_create();
        const case_call c = case_call_of(arena, spec, r);

        if (takes_part(&c.call)) {
            pl_schedule_destroy(pl_collective_schedule(&c.call, chooser, &site->site, r, &name));
            first = first ? first : name;
            ck_assert_msg(strcmp(name, first) == 0, "%s; %s: %s and %s", case_name(spec),
                          site->name, first, name);
        }
        pl_arena_destroy(arena);
    }
}

START_TEST(all_ranks_choose_the_same_algorithm)
{
    static const int64_t counts[] = {0, 1, 73, 1 << 10, 1 << 14, 1 << 18}; /* choices change */
    const int P = _i;
    pl_arena *arena = pl_arena_create();
    case_site sites[CASE_MAX_SITES];
    const int n_sites = case_sites(arena, P, sites);
    case_spec spec = {.n_ranks = P};
    int which = 0;

    for (int c = 0; c < PL_N_COLLECTIVES; c++) {
        for (int i = 0; i < 6 * N_PLACINGS * n_sites; i++, which++) {
            const pl_chooser chooser = {.machine = &choosers[which % 2]};

            spec.collective = (pl_collective)c;
            spec.n = counts[i % 6];
            spec.placing = (placing)(i / 6 % N_PLACINGS);
            spec.layout = (layout)(which % N_LAYOUTS);
            spec.variant = which % case_variants(spec.collective, P);
            if (case_has_placing(spec.collective, spec.placing))
                check_choice(&spec, &chooser, &sites[i / 6 / N_PLACINGS]);
        }
    }
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(overrides_win_where_they_apply)
{
    const case_spec spec = {.collective = PL_ALL_GATHER, .n_ranks = 4, .n = 73};
    const pl_chooser chooser = {.machine = &choosers[0],
                                .algo = "all_gather=shared,all_reduce=ring"};
    const pl_chooser none = {.algo = "all_reduce=ring"};
    pl_arena *arena = pl_arena_create();
    const case_call c = case_call_of(arena, &spec, 1);
    const pl_site shared = pl_site_one_host(arena, 4, true);
    const pl_site messages = pl_site_one_host(arena, 4, false);
    const char *name;

    pl_schedule_destroy(pl_collective_schedule(&c.call, &chooser, &shared, 1, &name));
    ck_assert_str_eq(name, "shared");
    pl_schedule_destroy(pl_collective_schedule(&c.call, &chooser, &messages, 1, &name));
    ck_assert_str_ne(name, "shared");
    pl_schedule_destroy(pl_collective_schedule(&c.call, &none, &shared, 1, &name));
    ck_assert_str_eq(name, pl_algorithms[0].name);
    ck_assert_int_eq(pl_chooser_check("all_gather=shared,all_reduce=ring"), PL_OK);
    ck_assert_int_eq(pl_chooser_check("all_gather=binomial"), PL_BAD_INPUT);
    ck_assert_int_eq(pl_chooser_check("gather=ring"), PL_BAD_INPUT);
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(the_first_algorithm_of_each_collective_applies_everywhere)
{
    for (int i = 0; i < pl_n_algorithms; i++) {
        const bool is_first =
            i == 0 || pl_algorithms[i - 1].collective != pl_algorithms[i].collective;

        if (!is_first)
            continue;
        ck_assert_int_eq(pl_algorithms[i].needs, PL_NEEDS_NOTHING);
        ck_assert_int_eq(pl_algorithms[i].most_bytes, 0);
        ck_assert_int_eq(pl_algorithms[i].most_ranks, 0);
    }
}
END_TEST

START_TEST(algorithms_have_names_of_their_own)
{
    for (int i = 0; i < pl_n_algorithms; i++)
        ck_assert_ptr_eq(pl_algorithm_find(pl_algorithms[i].collective, pl_algorithms[i].name),
                         &pl_algorithms[i]);
}
END_TEST

START_TEST(chunks_cover_ranges_beyond_int_once_and_stay_below_it)
{
    const int64_t counts[] = {(1LL << 31) - 1, 1LL << 31, (1LL << 31) + 1, 5000000000LL, 0, 1};
    const int ranks[] = {1, 3, 8};

    for (int i = 0; i < 6; i++) {
        for (int p = 0; p < 3; p++) {
            int64_t covered = 0;

            for (int b = 0; b < ranks[p]; b++) {
                const int64_t n = pl_block_count(counts[i], ranks[p], b);
                int64_t next = 0;

                for (int64_t k = 0; k < pl_chunk_count(n, PL_CHUNK_ELEMENTS); k++) {
                    const pl_chunk chunk = pl_chunk_at(n, PL_CHUNK_ELEMENTS, k);

                    ck_assert_int_eq(chunk.begin, next);
                    ck_assert_int_gt(chunk.n, 0);
                    ck_assert_int_le((int64_t)chunk.n * (int64_t)sizeof(float), INT_MAX);
                    next += chunk.n;
                }
                ck_assert_int_eq(next, n);
                covered += next;
            }
            ck_assert_int_eq(covered, counts[i]);
        }
    }
}
END_TEST

START_TEST(seventy_three_elements_over_4_ranks_are_19_18_18_18)
{
    const int64_t n = 73, sizes[] = {19, 18, 18, 18};
    pl_arena *arena = pl_arena_create();
    const pl_blocks x = pl_blocks_of_arrays(arena, &n, 1, 4);

    for (int b = 0; b < 4; b++)
        ck_assert_int_eq(pl_region_elements(pl_blocks_at(x, b)), sizes[b]);
    pl_arena_destroy(arena);
}
END_TEST

/* The region's elements as offsets, for a plain comparison. */
static int64_t list_offsets(pl_region region, int64_t *offsets)
{
    int64_t n = 0;

    for (int i = 0; i < region.n_pieces; i++)
        for (int64_t c = 0; c < region.pieces[i].count; c++)
            for (int64_t k = 0; k < region.pieces[i].length; k++)
                offsets[n++] = 1000 * region.pieces[i].array + region.pieces[i].offset +
                               c * region.pieces[i].stride + k;
    return n;
}

START_TEST(a_cut_holds_exactly_the_elements_asked_for)
{
    const pl_piece pieces[] = {{0, 3, 4, 7, 3}, {1, 0, 1, 5, 5}, {0, 50, 3, 2, 2}, {2, 9, 5, 4, 1}};
    const pl_region region = {4, pieces};
    int64_t all[64], part[64];
    const int64_t n = list_offsets(region, all);
    pl_piece cut[8];

    ck_assert_int_eq(n, 28);
    for (int64_t begin = 0; begin <= n; begin++) {
        for (int64_t count = 0; begin + count <= n; count++) {
            const int n_cut = pl_region_cut(region, begin, count, cut);

            ck_assert_int_le(n_cut, pl_region_cut_room(region));
            ck_assert_int_eq(list_offsets((pl_region){n_cut, cut}, part), count);
            for (int64_t k = 0; k < count; k++)
                ck_assert_int_eq(part[k], all[begin + k]);
        }
    }
}
END_TEST

START_TEST(touching_pieces_become_one)
{
    const pl_piece pieces[] = {
        {0, 0, 1, 4, 4}, {0, 4, 3, 2, 2}, {0, 10, 0, 1, 1}, {0, 10, 1, 5, 5}};
    pl_arena *arena = pl_arena_create();
    const pl_region joined = pl_region_copy(arena, (pl_region){4, pieces});

    ck_assert_int_eq(joined.n_pieces, 1);
    ck_assert_int_eq(joined.pieces[0].length, 15);
    pl_arena_destroy(arena);
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
    tcase_add_test(tc, the_checker_sees_sends_that_need_buffering);
    tcase_add_test(tc, the_checker_sees_a_message_too_many);
    tcase_add_test(tc, the_checker_sees_messages_of_different_sizes);
    tcase_add_test(tc, the_checker_sees_a_term_summed_twice);
    tcase_add_test(tc, the_checker_sees_a_combination_of_a_term_with_itself);
    tcase_add_test(tc, the_checker_sees_a_sum_with_what_was_never_written);
    tcase_add_test(tc, the_checker_sees_a_maximum_instead_of_a_sum);
    tcase_add_test(tc, the_checker_sees_a_receive_into_what_the_round_sends);
    tcase_add_test(tc, the_checker_sees_a_combination_into_what_the_round_sends);
    tcase_add_test(tc, the_checker_sees_a_combination_that_overlaps_itself);
    tcase_add_test(tc, copies_may_feed_what_follows_and_reductions_may_write_what_is_sent);
    tcase_add_test(tc, reading_between_two_handshakes_is_in_order);
    tcase_add_test(tc, the_checker_sees_a_read_before_its_await);
    tcase_add_test(tc, the_checker_sees_a_missing_closing_await);
    tcase_add_test(tc, the_checker_sees_an_await_of_the_signal_before_the_one_it_needs);
    tcase_add_test(tc, staging_that_awaits_the_end_of_the_run_before_last_is_in_order);
    tcase_add_test(tc, the_checker_sees_staging_used_again_too_early);
    tcase_add_test(tc, the_checker_sees_awaits_in_a_circle);
    tcase_add_test(tc, the_checker_sees_partners_of_one_side);
    tcase_add_test(tc, the_checker_sees_an_await_of_a_stage_that_never_comes);
    tcase_add_test(tc, the_checker_sees_accesses_outside_of_memory);
    tcase_add_test(tc, the_checker_sees_a_rank_that_takes_itself_for_a_peer);
    tcase_add_test(tc, the_checker_sees_a_result_that_is_missing_in_a_later_run);
    tcase_add_test(tc, the_checker_sees_memory_out_of_reach);
    tcase_add_test(tc, bytes_and_rounds_of_messages_follow_the_closed_formula);
    tcase_add_test(tc, a_broadcasts_root_sends_as_its_head_says);
    tcase_add_test(tc, recursive_doubling_sends_everything_in_each_of_log2_rounds);
    tcase_add_test(tc, bytes_and_stages_in_shared_memory_follow_the_closed_formula);
    tcase_add_test(tc, across_hosts_each_rank_carries_its_share_and_no_more);
    tcase_add_test(tc, rings_along_all_axes_take_half_of_each_axis_in_rounds);
    tcase_add_test(tc, the_ring_price_is_rounds_of_latency_bytes_and_additions);
    tcase_add_test(tc, a_round_that_only_receives_is_priced_one_way_on_the_link_between_hosts);
    tcase_add_loop_test(tc, all_ranks_choose_the_same_algorithm, 1, 10);
    tcase_add_test(tc, overrides_win_where_they_apply);
    tcase_add_test(tc, the_first_algorithm_of_each_collective_applies_everywhere);
    tcase_add_test(tc, algorithms_have_names_of_their_own);
    tcase_add_test(tc, chunks_cover_ranges_beyond_int_once_and_stay_below_it);
    tcase_add_test(tc, seventy_three_elements_over_4_ranks_are_19_18_18_18);
    tcase_add_test(tc, a_cut_holds_exactly_the_elements_asked_for);
    tcase_add_test(tc, touching_pieces_become_one);
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
