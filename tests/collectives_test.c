/* Collectives over real ranks: every algorithm through the engine, in shared memory and by
 * messages. Run under mpirun, any number of ranks; every assertion is agreed over the ranks first,
 * so that all fail together.
 *
 * All ranks are on one host and share memory whatever a site says: a site of several hosts makes
 * algorithms send messages between what it calls hosts, and read memory inside. */
#include "collectives/algorithms.h"
#include "collectives/engine.h"
#include "collectives/region.h"
#include "collectives/transfer.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/rng.h"
#include "tests/collective_cases.h"
#include "tests/collective_jobs.h"
#include "tests/parallel.h"

#include <check.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set once, by the unchecked fixture. */
static pl_group world;
static pl_heap *heap;
static pl_arena *sites_arena;
static case_site sites[CASE_MAX_SITES];
static int n_sites;

static void make_world(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
    MPI_Comm_size(world.comm, &world.size);
    MPI_Comm_rank(world.comm, &world.rank);
    heap = pl_heap_create(world.comm);
    sites_arena = pl_arena_create();
    n_sites = case_sites(sites_arena, world.size, sites);
}

static void free_world(void)
{
    ck_agreed(world.comm, true); /* nobody is in the others' memory any more */
    pl_arena_destroy(sites_arena);
    pl_heap_destroy(heap);
    MPI_Comm_free(&world.comm);
}

/* One that gives up soon: a hang must not hold up the tests. */
static pl_engine *create_engine(pl_heap *of)
{
    pl_engine *engine = pl_engine_create(of);

    pl_engine_set_stall(engine, 20);
    return engine;
}

/* ---- Which cases ---- */

/* Where an algorithm is tried: everywhere if the site decides what it does. */
static bool is_worth_it(const pl_algorithm *a, int site)
{
    switch (a->needs) {
    case PL_NEEDS_NOTHING:
        return site == 1; /* one host, messages */
    case PL_NEEDS_ONE_HOST:
        return site == 0 && heap != NULL;
    default:
        return heap != NULL || !sites[site].site.shared;
    }
}

/* The first site where it applies, or NULL. */
static const pl_site *site_of(const pl_algorithm *a, pl_heap *of, int group_size,
                              const case_site *among, int n_among)
{
    case_spec spec = {.collective = a->collective, .n_ranks = group_size, .placing = CASE_KNOWN};
    const pl_site *found = NULL;
    pl_arena *arena = pl_arena_create();
    const case_call its = case_call_of(arena, &spec, 0);

    for (int k = 0; k < n_among && found == NULL; k++)
        if ((of != NULL || !among[k].site.shared) &&
            pl_algorithm_applies(a, &its.call, &among[k].site))
            found = &among[k].site;
    pl_arena_destroy(arena);
    return found;
}

/* One case in which nothing but the kind of the collective is decided by the algorithm. */
static case_spec usual_case(const pl_algorithm *a, int64_t n, layout kind)
{
    const bool asks_peers = a->collective == PL_ALL_TO_ALL || a->collective == PL_PERMUTE;

    return (case_spec){.collective = a->collective,
                       .n = n,
                       .layout = kind,
                       .placing = asks_peers ? CASE_KNOWN : CASE_IN_PLACE,
                       .variant = a->collective == PL_PERMUTE ? 1 : 0};
}

/* The usual case where the algorithm first applies; false if that is nowhere. */
static bool usual_job(job *j, const pl_algorithm *a, int64_t n, layout kind)
{
    const case_spec spec = usual_case(a, n, kind);
    const pl_site *site = site_of(a, heap, world.size, sites, n_sites);

    return site != NULL && job_init(j, a, &spec, site, world, heap, 0);
}

static int64_t check_case(const pl_algorithm *a, const case_spec *spec, const case_site *site,
                          pl_heap *of, int shift, int chunk)
{
    enum { N_RUNS = 3 };
    pl_engine *engine;
    int64_t n_wrong;
    job j;

    if (!job_init(&j, a, spec, &site->site, world, of, shift))
        return 0;
    engine = create_engine(of);
    if (chunk > 0)
        pl_engine_set_chunk(engine, chunk);
    job_prepare(&j, engine, 5);
    n_wrong = job_run(&j, engine, N_RUNS);
    pl_engine_destroy(engine);
    if (n_wrong > 0)
        fprintf(stderr, "rank %d: %lld wrong: %s, %s, %s; %s\n", world.rank, (long long)n_wrong,
                a->name, pl_dtype_name(spec->dtype), case_name(&j.spec), site->name);
    job_free(&j);
    return n_wrong;
}

/* Of the many combinations, one in so many: fewer of those that take long. */
static int thinning(int64_t n, pl_algorithm_needs needs)
{
    const int by_size = n < 50000 ? 1 : 3;
    const int by_site = needs == PL_NEEDS_HOSTS || needs == PL_NEEDS_AXES ? 4 : 1;

    return by_size * by_site * (world.size < 6 ? 1 : world.size < 10 ? 2 : 8);
}

/* Counts, layouts and placings each beside each other; the rest in turn. */
static int64_t check_site(const pl_algorithm *a, const case_site *site, pl_heap *of, uint64_t seed)
{
    const int P = world.size;
    const int64_t counts[] = {0, 1, P - 1, P, P + 1, 73, 4097, 100003};
    const uint64_t n_variants = (uint64_t)case_variants(a->collective, P);
    int64_t n_wrong = 0;
    uint64_t i = 0;

    for (int c = 0; c < 8; c++) {
        for (int kind = 0; kind < N_LAYOUTS; kind++) {
            for (int where = 0; where < N_PLACINGS; where++) {
                const uint64_t dice = pl_rng_bits(seed, 0, i++);
                const case_spec spec = {.collective = a->collective,
                                        .dtype = (pl_dtype)(dice % PL_N_DTYPES),
                                        .reduction = dice / 8 % 2 ? PL_MAX : PL_SUM,
                                        .n_ranks = P,
                                        .n = counts[c],
                                        .layout = (layout)kind,
                                        .placing = (placing)where,
                                        .variant = (int)(dice / 16 % n_variants)};

                if (case_has_placing(a->collective, spec.placing) &&
                    (dice >> 40) % (uint64_t)thinning(spec.n, a->needs) == 0)
                    n_wrong += check_case(a, &spec, site, of, (int)(dice >> 32 & 1), 0);
            }
        }
    }
    return n_wrong;
}

/* ---- The claims ---- */

START_TEST(every_algorithm_is_exact_for_any_count_layout_type_and_placing)
{
    const pl_algorithm *a = &pl_algorithms[_i];
    int64_t n_wrong = 0;

    for (int k = 0; k < n_sites; k++)
        if (is_worth_it(a, k))
            n_wrong += check_site(a, &sites[k], heap, (uint64_t)(1000 * _i + k));
    ck_all_msg(world.comm, n_wrong == 0, "%s %s", pl_collective_name(a->collective), a->name);
}
END_TEST

START_TEST(messages_need_no_shared_memory)
{
    const pl_algorithm *a = &pl_algorithms[_i];
    int64_t n_wrong = 0;

    for (int k = 0; k < n_sites; k++) {
        const case_spec spec = usual_case(a, 1009, LAYOUT_STRIDED);

        if (!sites[k].site.shared)
            n_wrong += check_case(a, &spec, &sites[k], NULL, 1, 0);
    }
    ck_all(world.comm, n_wrong == 0);
}
END_TEST

START_TEST(long_messages_cut_into_chunks_arrive_whole)
{
    const pl_algorithm *a = &pl_algorithms[_i];
    const pl_site *site = site_of(a, heap, world.size, sites, n_sites);

    for (int kind = 0; kind < N_LAYOUTS && site != NULL; kind++) {
        const case_spec spec = usual_case(a, 1009, (layout)kind);
        const case_site at = {.name = "first that applies", .site = *site};

        ck_all(world.comm, check_case(a, &spec, &at, heap, 0, 7) == 0);
    }
}
END_TEST

/* Messages of a transfer in which every rank sends n elements to the right. */
static int n_messages_of_shift(int64_t n, const int *host)
{
    enum { SENT, RECEIVED, ARRAYS };
    pl_engine *engine = create_engine(NULL);
    pl_schedule *s = pl_schedule_create();
    float *memory = pl_alloc((size_t)(2 * n) * sizeof *memory);
    void *arrays[ARRAYS] = {memory, memory + n};
    const pl_piece sent = pl_piece_of(SENT, 0, n), received = pl_piece_of(RECEIVED, 0, n);

    pl_schedule_send(s, (world.rank + 1) % world.size, (pl_region){1, &sent});
    pl_schedule_recv(s, (world.rank + world.size - 1) % world.size, (pl_region){1, &received});
    pl_schedule_set_hosts(s, host, world.size, world.rank);
    const int n_messages =
        pl_engine_prepare(engine, s, &world, 0, PL_F32, arrays, ARRAYS, NULL, "shift")->n_messages;
    pl_engine_destroy(engine);
    pl_schedule_destroy(s);
    pl_free(memory);
    return n_messages;
}

START_TEST(messages_between_hosts_travel_in_parts_of_32_KiB_but_not_in_over_1024)
{
    enum { PART = (32 << 10) / sizeof(float) };
    int *host = pl_alloc((size_t)world.size * sizeof *host);

    if (world.size > 1) {
        ck_all(world.comm, n_messages_of_shift(3 * PART + 1, host) == 2); /* all on one */
        for (int r = 0; r < world.size; r++)
            host[r] = r;
        ck_all(world.comm, n_messages_of_shift(PART, host) == 2);
        ck_all(world.comm, n_messages_of_shift(3 * PART + 1, host) == 2 * 4);
        ck_all(world.comm, n_messages_of_shift(1024 * PART, host) == 2 * 1024);
        ck_all(world.comm, n_messages_of_shift(1024 * PART + 1, host) <= 2 * 1024);
    }
    pl_free(host);
}
END_TEST

/* Two groups beside the world: the lower and the upper ranks. */
static pl_group make_half(void)
{
    pl_group half = {0};

    MPI_Comm_split(world.comm, world.rank < world.size / 2, world.rank, &half.comm);
    MPI_Comm_size(half.comm, &half.size);
    MPI_Comm_rank(half.comm, &half.rank);
    return half;
}

/* Every algorithm twice: on the world, and on a half. */
static int make_many_jobs(job *jobs, pl_engine *engine, pl_group half)
{
    pl_arena *arena = pl_arena_create();
    case_site half_sites[CASE_MAX_SITES];
    const int n_half_sites = case_sites(arena, half.size, half_sites);
    int n = 0;

    for (int i = 0; i < 2 * pl_n_algorithms; i++) {
        const pl_algorithm *a = &pl_algorithms[i / 2];
        const pl_group group = i % 2 ? half : world;
        const pl_site *site = i % 2 ? site_of(a, heap, half.size, half_sites, n_half_sites)
                                    : site_of(a, heap, world.size, sites, n_sites);
        case_spec spec = usual_case(a, 40 + 37 * (i % 30), (layout)(i % N_LAYOUTS));

        spec.dtype = (pl_dtype)(i % PL_N_DTYPES);
        if (site != NULL && job_init(&jobs[n], a, &spec, site, group, heap, 0))
            job_prepare(&jobs[n++], engine, i);
    }
    pl_arena_destroy(arena);
    return n;
}

START_TEST(many_transfers_on_one_and_on_several_groups_fly_at_once)
{
    const int n_repeats = world.size < 6 ? 20 : 8;
    job *jobs = pl_alloc(2 * (size_t)pl_n_algorithms * sizeof *jobs);
    pl_group half = make_half();
    pl_engine *engine = create_engine(heap);
    const int n = make_many_jobs(jobs, engine, half);
    int64_t n_wrong = 0;

    for (int repeat = 0; repeat < n_repeats; repeat++) {
        for (int i = 0; i < n; i++) { /* ranks start them in different orders */
            job *j = &jobs[(i + 3 * world.rank + repeat) % n];

            job_fill(j, repeat);
            pl_engine_start(engine, j->transfer);
        }
        for (int i = 0; i < n; i++) {
            pl_engine_wait(engine, jobs[i].transfer);
            n_wrong += !pl_transfer_done(jobs[i].transfer) + job_count_wrong(&jobs[i], repeat);
        }
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    for (int i = 0; i < n; i++)
        job_free(&jobs[i]);
    pl_free(jobs);
    MPI_Comm_free(&half.comm);
}
END_TEST

START_TEST(ranks_may_run_ahead_over_many_runs)
{
    const int64_t counts[] = {3, 61, 2000};
    int64_t n_wrong = 0;

    for (int c = 0; c < 3; c++) {
        pl_engine *engine = create_engine(heap);
        job j;

        if (usual_job(&j, &pl_algorithms[_i], counts[c], c == 1 ? LAYOUT_UNEVEN : LAYOUT_ONE)) {
            job_prepare(&j, engine, 0);
            n_wrong += job_run(&j, engine, world.size < 6 ? 100 : 30);
            pl_engine_destroy(engine);
            job_free(&j);
        } else {
            pl_engine_destroy(engine);
        }
    }
    ck_all(world.comm, n_wrong == 0);
}
END_TEST

/* Where ranks have cores of their own: nothing but the collective between one run and the next, so
 * that a peer looks the moment it is told to. */
START_TEST(what_is_signalled_can_be_read_at_once)
{
    const pl_algorithm *a = &pl_algorithms[_i];
    pl_engine *engine = create_engine(heap);
    int64_t n_wrong = 0;
    job j;

    if (a->needs != PL_NEEDS_ONE_HOST || !usual_job(&j, a, 200 * world.size, LAYOUT_ONE)) {
        pl_engine_destroy(engine);
        return;
    }
    job_prepare(&j, engine, 0);
    for (int run = 0; run < (world.size == 2 ? 5000 : 100); run++) {
        job_fill(&j, run);
        pl_engine_start(engine, j.transfer);
        pl_engine_wait(engine, j.transfer);
        n_wrong += job_count_wrong(&j, run);
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(running_allocates_nothing)
{
    pl_engine *engine = create_engine(heap);
    int64_t n_allocated;
    job j;

    if (!usual_job(&j, &pl_algorithms[_i], 4097, LAYOUT_STRIDED)) {
        pl_engine_destroy(engine);
        return;
    }
    job_prepare(&j, engine, 0);
    n_allocated = -pl_allocation_count();
    for (int run = 0; run < 3; run++) {
        pl_engine_start(engine, j.transfer);
        pl_engine_wait(engine, j.transfer);
    }
    n_allocated += pl_allocation_count();
    ck_all(world.comm, n_allocated == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

/* ---- Sums of real numbers ---- */

/* The same in every run. */
static float real_number(int term, int64_t id, int64_t run)
{
    (void)run;
    return (float)pl_rng_normal(1, (uint64_t)term, (uint64_t)id);
}

/* Where the sum of block b begins: at rank b + offset, or at rank 0. */
static const struct {
    const char *name;
    bool by_block;
    int offset;
} orders[] = {{"ring", true, 1},    {"pipelined-ring", true, 1}, {"direct", true, 0},
              {"shared", false, 0}, {"pulled", false, 0},        {"staged", false, 0}};

/* The sums of one rank's outputs, one after another, as bits. */
typedef struct {
    float *of;
    int64_t n;
} sums;

static void collect(const job *j, void *array, int64_t at, int term, int64_t id, void *context)
{
    sums *x = context;

    (void)id;
    if (term == CASE_ALL)
        x->of[x->n++] = job_element(j, array, at);
}

static int64_t count_different(const float *a, const float *b, int64_t n)
{
    int64_t n_different = 0;

    for (int64_t i = 0; i < n; i++)
        n_different += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return n_different;
}

/* Sums that differ from rank 0's. */
static int64_t compare_ranks(const sums *x)
{
    float *first = pl_alloc((size_t)(x->n + 1) * sizeof *first);
    MPI_Request request;
    int64_t n_different;

    memcpy(first, x->of, (size_t)x->n * sizeof *first);
    PL_MPI(MPI_Ibcast(first, (int)x->n, MPI_FLOAT, 0, world.comm, &request));
    pl_mpi_finish(&request, 1);
    n_different = count_different(first, x->of, x->n);
    pl_free(first);
    return n_different;
}

/* Sums that have not the bits of the documented order, where that is a simple one. */
static int64_t compare_order(const job *j, const sums *x)
{
    const int P = world.size;
    int64_t n_different = 0, at = 0;
    int block = j->a->collective == PL_ALL_REDUCE ? 0 : world.rank;
    size_t which = 0;

    while (which < sizeof orders / sizeof orders[0] && strcmp(orders[which].name, j->a->name) != 0)
        which++;
    if (which == sizeof orders / sizeof orders[0] || j->spec.dtype != PL_F32)
        return 0;
    for (int i = 0; i < j->its.n_outputs; i++) {
        const case_part *part = &j->its.outputs[i];
        const int first = orders[which].by_block ? block + orders[which].offset : 0;

        if (part->term != CASE_ALL)
            continue;

        for (int64_t k = 0; k < pl_region_elements(part->region); k++) {
            float sum = real_number(first % P, part->first_id + k, 0);

            for (int t = 1; t < P; t++)
                sum += real_number((first + t) % P, part->first_id + k, 0);
            n_different += sum != x->of[at++];
        }
        block++;
    }
    return n_different;
}

static int64_t check_sums(const pl_algorithm *a, const case_spec *spec, const pl_site *site)
{
    pl_engine *engine = create_engine(heap);
    float *room = pl_alloc(2 * (size_t)spec->n * sizeof *room);
    sums runs[2] = {{room, 0}, {room + spec->n, 0}};
    int64_t n_wrong = 0;
    job j;

    if (job_init(&j, a, spec, site, world, heap, 0)) {
        j.value = real_number;
        job_prepare(&j, engine, 0);
        for (int run = 0; run < 2; run++) {
            job_fill(&j, 0);
            pl_engine_start(engine, j.transfer);
            pl_engine_wait(engine, j.transfer);
            for (int i = 0; i < j.its.n_outputs; i++)
                job_visit(&j, &j.its.outputs[i], collect, &runs[run]);
        }
        n_wrong = count_different(runs[0].of, runs[1].of, runs[0].n) + compare_order(&j, &runs[0]);
        if (a->collective == PL_ALL_REDUCE)
            n_wrong += compare_ranks(&runs[0]);
        pl_engine_destroy(engine);
        job_free(&j);
    } else {
        pl_engine_destroy(engine);
    }
    pl_free(room);
    return n_wrong;
}

START_TEST(sums_have_the_same_bits_on_all_ranks_in_every_run_and_as_documented)
{
    const pl_algorithm *a = &pl_algorithms[_i];
    const bool sums_up = a->collective == PL_REDUCE_SCATTER || a->collective == PL_ALL_REDUCE;
    int64_t n_wrong = 0;

    for (int k = 0; k < n_sites && sums_up; k++) {
        for (int where = CASE_IN_PLACE; where <= CASE_APART && is_worth_it(a, k); where++) {
            case_spec spec = usual_case(a, 1009, LAYOUT_UNEVEN);

            spec.placing = (placing)where;
            n_wrong += check_sums(a, &spec, &sites[k].site);
            spec.dtype = PL_BF16;
            n_wrong += check_sums(a, &spec, &sites[k].site);
        }
    }
    ck_all(world.comm, n_wrong == 0);
}
END_TEST

/* ---- The engine ---- */

START_TEST(no_elements_by_messages_are_done_at_once)
{
    pl_engine *engine = create_engine(NULL);
    const pl_algorithm *a = &pl_algorithms[_i];
    const case_spec spec = usual_case(a, 0, LAYOUT_ONE);
    bool done = true;
    job j;

    if (job_init(&j, a, &spec, &sites[1].site, world, NULL, 0)) {
        job_prepare(&j, engine, 0);
        done = pl_transfer_done(j.transfer);
        pl_engine_start(engine, j.transfer);
        done = done && pl_transfer_done(j.transfer);
        pl_engine_destroy(engine);
        job_free(&j);
    } else {
        pl_engine_destroy(engine);
    }
    ck_all(world.comm, done);
}
END_TEST

START_TEST(progress_alone_completes_a_transfer_and_times_it)
{
    pl_engine *engine = create_engine(heap);
    int64_t n_wrong;
    job j;

    if (!usual_job(&j, &pl_algorithms[_i], 4097, LAYOUT_ONE)) {
        pl_engine_destroy(engine);
        return;
    }
    job_prepare(&j, engine, 0);
    job_fill(&j, 0);
    pl_engine_start(engine, j.transfer);
    while (!pl_transfer_done(j.transfer))
        pl_engine_progress(engine);
    n_wrong = job_count_wrong(&j, 0);
    n_wrong += !(pl_transfer_begin_s(j.transfer) > 0 &&
                 pl_transfer_end_s(j.transfer) >= pl_transfer_begin_s(j.transfer));
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(destroying_the_engine_completes_what_is_in_flight)
{
    pl_engine *engine = create_engine(heap);
    job j;

    if (!usual_job(&j, &pl_algorithms[_i], 4097, LAYOUT_ONE)) {
        pl_engine_destroy(engine);
        return;
    }
    job_prepare(&j, engine, 0);
    job_fill(&j, 0);
    pl_engine_start(engine, j.transfer);
    pl_engine_destroy(engine);
    ck_all(world.comm, job_count_wrong(&j, 0) == 0);
    job_free(&j);
}
END_TEST

START_TEST(checking_lets_matching_operations_pass)
{
    job *jobs = pl_alloc(2 * (size_t)pl_n_algorithms * sizeof *jobs);
    pl_group half = make_half();
    pl_engine *engine = create_engine(heap);
    int64_t n_wrong = 0;
    int n;

    pl_engine_set_checking(engine, true);
    n = make_many_jobs(jobs, engine, half);
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < n; i++) {
            job_fill(&jobs[i], run);
            pl_engine_start(engine, jobs[i].transfer);
        }
        for (int i = 0; i < n; i++) {
            pl_engine_wait(engine, jobs[i].transfer);
            n_wrong += job_count_wrong(&jobs[i], run);
        }
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    for (int i = 0; i < n; i++)
        job_free(&jobs[i]);
    pl_free(jobs);
    MPI_Comm_free(&half.comm);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("collectives");
    TCase *tc = tcase_create("collectives");
    const int n = pl_n_algorithms;

    tcase_add_unchecked_fixture(tc, make_world, free_world);
    tcase_add_loop_test(tc, every_algorithm_is_exact_for_any_count_layout_type_and_placing, 0, n);
    tcase_add_loop_test(tc, messages_need_no_shared_memory, 0, n);
    tcase_add_loop_test(tc, long_messages_cut_into_chunks_arrive_whole, 0, n);
    tcase_add_test(tc, messages_between_hosts_travel_in_parts_of_32_KiB_but_not_in_over_1024);
    tcase_add_test(tc, many_transfers_on_one_and_on_several_groups_fly_at_once);
    tcase_add_loop_test(tc, ranks_may_run_ahead_over_many_runs, 0, n);
    tcase_add_loop_test(tc, what_is_signalled_can_be_read_at_once, 0, n);
    tcase_add_loop_test(tc, running_allocates_nothing, 0, n);
    tcase_add_loop_test(tc, sums_have_the_same_bits_on_all_ranks_in_every_run_and_as_documented, 0,
                        n);
    tcase_add_loop_test(tc, no_elements_by_messages_are_done_at_once, 0, n);
    tcase_add_loop_test(tc, progress_alone_completes_a_transfer_and_times_it, 0, n);
    tcase_add_loop_test(tc, destroying_the_engine_completes_what_is_in_flight, 0, n);
    tcase_add_test(tc, checking_lets_matching_operations_pass);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
