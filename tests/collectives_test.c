/* Collectives over real ranks: every algorithm through the engine. Run under mpirun, any number of
 * ranks; every assertion is agreed over the ranks first, so that all fail together. */
#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/engine.h"
#include "collectives/region.h"
#include "src/base/memory.h"
#include "src/base/rng.h"
#include "tests/collective_cases.h"
#include "tests/parallel.h"

#include <check.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_ARRAY = LAYOUT_ARRAYS, N_ARRAYS };
static const float UNTOUCHED = -77;

/* Set once, by the unchecked fixture. */
static pl_group world;

static void make_world(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
    MPI_Comm_size(world.comm, &world.size);
    MPI_Comm_rank(world.comm, &world.rank);
}

static void free_world(void)
{
    MPI_Comm_free(&world.comm);
}

/* One that gives up soon: a hang must not hold up the tests. */
static pl_engine *create_engine(void)
{
    pl_engine *engine = pl_engine_create();

    pl_engine_set_stall(engine, 20);
    return engine;
}

/* One collective, ready to run. */
typedef struct {
    const algorithm *a;
    pl_group group;
    pl_reduction reduction;
    pl_arena *arena;
    pl_blocks blocks;
    bool apart; /* AllGather: own block outside of its place */
    int64_t room;
    float *arrays[N_ARRAYS], *scratch;
    pl_schedule *schedule;
    pl_transfer *transfer;
    float (*value)(int rank, int64_t id);
} job;

/* Integers from -8 to 8: sums over 8 ranks are exact in any order. */
static float small_integer(int rank, int64_t id)
{
    return (float)((id * 7 + rank * 13) % 17 - 8);
}

static float real_number(int rank, int64_t id)
{
    return (float)pl_rng_normal(1, (uint64_t)rank, (uint64_t)id);
}

static int64_t first_id(pl_blocks x, int block)
{
    int64_t n = 0;

    for (int b = 0; b < block; b++)
        n += pl_region_elements(pl_blocks_at(x, b));
    return n;
}

/* Element k of a region. */
static float *element(const job *j, pl_region region, int64_t k)
{
    int i = 0;
    pl_piece p;

    while (k >= region.pieces[i].count * region.pieces[i].length) {
        k -= region.pieces[i].count * region.pieces[i].length;
        i++;
    }
    p = region.pieces[i];
    return j->arrays[p.array] + p.offset + k / p.length * p.stride + k % p.length;
}

static pl_region own_region(const job *j, pl_piece *piece)
{
    *piece = pl_piece_of(OWN_ARRAY, 1, pl_region_elements(pl_blocks_at(j->blocks, j->group.rank)));
    return (pl_region){.n_pieces = j->apart, .pieces = piece};
}

static void job_fill(job *j)
{
    const int rank = j->group.rank;
    pl_piece piece;
    const pl_region own = own_region(j, &piece);

    for (int a = 0; a < N_ARRAYS; a++)
        for (int64_t i = 0; i < j->room; i++)
            j->arrays[a][i] = UNTOUCHED;
    for (int b = 0; b < j->group.size; b++) {
        const pl_region block = j->apart ? own : pl_blocks_at(j->blocks, b);
        const int64_t id = first_id(j->blocks, b);

        if (j->a->effect == GATHERS && b != rank)
            continue;
        for (int64_t k = 0; k < pl_region_elements(block); k++)
            *element(j, block, k) = j->value(rank, id + k);
    }
}

static void job_init(job *j, const algorithm *a, pl_group group, int64_t n, layout kind, bool apart)
{
    pl_piece piece;

    *j = (job){.a = a, .group = group, .apart = apart, .arena = pl_arena_create()};
    j->blocks = layout_blocks(j->arena, kind, n, group.size);
    j->room = layout_room(n);
    j->value = small_integer;
    for (int i = 0; i < N_ARRAYS; i++)
        j->arrays[i] = pl_alloc((size_t)j->room * sizeof(float));
    j->schedule = pl_schedule_create();
    if (a->effect == GATHERS)
        a->gather(j->schedule, j->blocks, own_region(j, &piece), group.rank);
}

static void job_prepare(job *j, pl_engine *engine, pl_reduction reduction, int tag)
{
    j->reduction = reduction;
    if (j->a->effect != GATHERS)
        j->a->reduce(j->schedule, j->blocks, reduction, j->group.rank);
    j->scratch = pl_alloc((size_t)pl_schedule_scratch_elements(j->schedule) * sizeof *j->scratch);
    j->transfer = pl_engine_prepare(engine, j->schedule, &j->group, tag, j->arrays, N_ARRAYS,
                                    j->scratch, j->a->name);
    job_fill(j);
}

/* After the engine is gone. */
static void job_free(job *j)
{
    for (int i = 0; i < N_ARRAYS; i++)
        pl_free(j->arrays[i]);
    pl_free(j->scratch);
    pl_schedule_destroy(j->schedule);
    pl_arena_destroy(j->arena);
}

/* What element `id` of block b should be. */
static float expected(const job *j, int b, int64_t id)
{
    float result = j->value(0, id);

    if (j->a->effect == GATHERS)
        return j->value(b, id);
    for (int r = 1; r < j->group.size; r++) {
        const float term = j->value(r, id);

        if (j->reduction == PL_SUM)
            result += term;
        else
            result = term > result ? term : result;
    }
    return result;
}

/* Elements that are not as the collective should leave them, gaps between blocks included; wipes
 * the arrays. */
static int64_t job_count_wrong(job *j)
{
    int64_t n_wrong = 0;
    pl_piece piece;
    const pl_region own = own_region(j, &piece);

    for (int b = 0; b < j->group.size; b++) {
        const pl_region block = pl_blocks_at(j->blocks, b);
        const int64_t id = first_id(j->blocks, b), n = pl_region_elements(block);
        const bool defined = j->a->effect != SCATTERS || b == j->group.rank;

        for (int64_t k = 0; k < n; k++) {
            float *x = element(j, block, k);

            n_wrong += defined && *x != expected(j, b, id + k);
            *x = UNTOUCHED;
        }
    }
    for (int64_t k = 0; k < pl_region_elements(own); k++)
        *element(j, own, k) = UNTOUCHED;
    for (int a = 0; a < N_ARRAYS; a++)
        for (int64_t i = 0; i < j->room; i++)
            n_wrong += j->arrays[a][i] != UNTOUCHED;
    return n_wrong;
}

static void job_run(job *j, pl_engine *engine)
{
    pl_engine_start(engine, j->transfer);
    pl_engine_wait(engine, j->transfer);
}

static int64_t run_case(const algorithm *a, int64_t n, layout kind, bool apart,
                        pl_reduction reduction, int chunk)
{
    pl_engine *engine = create_engine();
    int64_t n_wrong;
    job j;

    if (chunk > 0)
        pl_engine_set_chunk(engine, chunk);
    job_init(&j, a, world, n, kind, apart);
    job_prepare(&j, engine, reduction, 5);
    job_run(&j, engine);
    n_wrong = job_count_wrong(&j);
    pl_engine_destroy(engine);
    job_free(&j);
    return n_wrong;
}

START_TEST(every_algorithm_gives_the_exact_result_for_any_count_and_layout)
{
    const algorithm *a = &algorithms[_i];
    const int P = world.size;
    const int64_t counts[] = {0, 1, P - 1, P, P + 1, 73, 4097, 100003};

    for (int i = 0; i < 8; i++) {
        for (int kind = 0; kind < N_LAYOUTS; kind++) {
            for (int second = 0; second <= 1; second++) { /* own apart, or maximum */
                const bool gathers = a->effect == GATHERS;
                const int64_t n_wrong = run_case(a, counts[i], (layout)kind, gathers && second,
                                                 second && !gathers ? PL_MAX : PL_SUM, 0);

                ck_all_msg(world.comm, n_wrong == 0, "%s, %lld elements, layout %d, %d", a->name,
                           (long long)counts[i], kind, second);
            }
        }
    }
}
END_TEST

START_TEST(long_messages_cut_into_chunks_arrive_whole)
{
    for (int kind = 0; kind < N_LAYOUTS; kind++) {
        const algorithm *a = &algorithms[_i];

        ck_all(world.comm, run_case(a, 4097, (layout)kind, false, PL_SUM, 7) == 0);
    }
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

START_TEST(many_transfers_on_one_and_on_several_groups_fly_at_once)
{
    enum { N_JOBS = 2 * N_ALGORITHMS, N_REPEATS = 20 };
    pl_group half = make_half();
    pl_engine *engine = create_engine();
    int64_t n_wrong = 0;
    job jobs[N_JOBS];

    for (int i = 0; i < N_JOBS; i++) {
        job_init(&jobs[i], &algorithms[i / 2], i % 2 ? half : world, 500 + 37 * i,
                 (layout)(i % N_LAYOUTS), false);
        job_prepare(&jobs[i], engine, PL_SUM, i);
    }
    for (int repeat = 0; repeat < N_REPEATS; repeat++) {
        for (int i = 0; i < N_JOBS; i++) { /* ranks start them in different orders */
            job *j = &jobs[(i + 3 * world.rank + repeat) % N_JOBS];

            job_fill(j);
            pl_engine_start(engine, j->transfer);
        }
        for (int i = 0; i < N_JOBS; i++) {
            pl_engine_wait(engine, jobs[i].transfer);
            n_wrong += !pl_transfer_done(jobs[i].transfer) + job_count_wrong(&jobs[i]);
        }
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    for (int i = 0; i < N_JOBS; i++)
        job_free(&jobs[i]);
    MPI_Comm_free(&half.comm);
}
END_TEST

START_TEST(ranks_may_run_ahead_over_many_runs)
{
    pl_engine *engine = create_engine();
    int64_t n_wrong = 0;
    job j;

    job_init(&j, &algorithms[_i], world, 61, LAYOUT_UNEVEN, false);
    job_prepare(&j, engine, PL_SUM, 0);
    for (int run = 0; run < 300; run++) {
        job_fill(&j);
        job_run(&j, engine);
        n_wrong += job_count_wrong(&j);
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(running_allocates_nothing)
{
    pl_engine *engine = create_engine();
    int64_t n_before, n_after;
    job j;

    job_init(&j, &algorithms[_i], world, 4097, LAYOUT_STRIDED, false);
    job_prepare(&j, engine, PL_SUM, 0);
    n_before = pl_allocation_count();
    for (int run = 0; run < 3; run++)
        job_run(&j, engine);
    n_after = pl_allocation_count();
    ck_all(world.comm, n_after - n_before == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(bytes_counted_equal_the_schedule_and_the_formula)
{
    const int P = world.size;
    const int64_t n = 120 * P, even = 4 * n / P * (P - 1);
    pl_engine *engine = create_engine();
    int64_t sent, formula, n_wrong;
    job j;

    job_init(&j, &algorithms[_i], world, n, LAYOUT_THREE, false);
    job_prepare(&j, engine, PL_SUM, 0);
    for (int run = 0; run < 3; run++)
        job_run(&j, engine);
    sent = pl_transfer_sent_bytes(j.transfer);
    formula = algorithms[_i].effect == REDUCES ? 2 * even : even;
    n_wrong = sent != 3 * pl_schedule_count(j.schedule).sent_bytes;
    n_wrong += _i != RECURSIVE_DOUBLING && sent != 3 * formula;
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

/* The sums in the order that each algorithm's head documents. */
static float ordered_sum(int first, int64_t id)
{
    const int P = world.size;
    float sum = real_number(first % P, id);

    for (int i = 1; i < P; i++)
        sum += real_number((first + i) % P, id);
    return sum;
}

static float tree_sum(int64_t id)
{
    int core = 1, n = 0;
    float leaves[64];

    while (2 * core <= world.size)
        core *= 2;
    for (int r = 0; r < world.size; n++) {
        leaves[n] = real_number(r++, id);
        if (n < world.size - core)
            leaves[n] += real_number(r++, id);
    }
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++)
            leaves[i] = leaves[2 * i] + leaves[2 * i + 1];
    return leaves[0];
}

static float documented_sum(int which, int block, int64_t id)
{
    if (which == RECURSIVE_DOUBLING)
        return tree_sum(id);
    return ordered_sum(which == RING_SCATTER || which == RING_REDUCE ? block + 1 : block, id);
}

START_TEST(sums_have_the_bits_of_the_documented_order_on_all_ranks_and_in_every_run)
{
    pl_engine *engine = create_engine();
    int64_t n_wrong = 0;
    job j;

    job_init(&j, &algorithms[_i], world, 1009, LAYOUT_STRIDED, false);
    job_prepare(&j, engine, PL_SUM, 0);
    j.value = real_number;
    for (int run = 0; run < 2; run++) {
        job_fill(&j);
        job_run(&j, engine);
        for (int b = 0; b < world.size; b++) {
            const pl_region block = pl_blocks_at(j.blocks, b);
            const int64_t id = first_id(j.blocks, b);

            if (j.a->effect == SCATTERS && b != world.rank)
                continue;
            for (int64_t k = 0; k < pl_region_elements(block); k++)
                n_wrong += *element(&j, block, k) != documented_sum(_i, b, id + k);
        }
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

/* Prepare and run a schedule of the three plain arrays x, y, z once. */
static void run_once(const pl_schedule *s, float *const *arrays, int n_arrays, pl_group group)
{
    pl_engine *engine = create_engine();
    float *scratch = pl_alloc((size_t)pl_schedule_scratch_elements(s) * sizeof *scratch);
    pl_transfer *t = pl_engine_prepare(engine, s, &group, 9, arrays, n_arrays, scratch, "once");

    pl_engine_start(engine, t);
    pl_engine_wait(engine, t);
    pl_engine_destroy(engine);
    pl_free(scratch);
}

static int64_t exchange_size(int from, int to, int64_t n)
{
    return n == 0 ? 0 : (3 * from + 5 * to + n) % (n + 1);
}

static int64_t exchange(int64_t n)
{
    const int P = world.size, rank = world.rank;
    const int64_t room = (n + 1) * P + 8;
    float *arrays[2] = {pl_alloc((size_t)(2 * room) * sizeof(float)),
                        pl_alloc((size_t)room * sizeof(float))};
    int64_t out[64], in[64], n_wrong = 0, at = 0, k_out = 0;
    const pl_piece strided = {.array = 0, .offset = 1, .count = room / 2, .stride = 4, .length = 2};
    const pl_piece plain = pl_piece_of(1, 0, room);
    pl_arena *arena = pl_arena_create();
    pl_collective_call call = {.collective = PL_ALL_TO_ALL};
    pl_schedule *s;

    for (int p = 0; p < P; p++) {
        out[p] = exchange_size(rank, p, n);
        in[p] = exchange_size(p, rank, n);
    }
    for (int p = 0; p < P; p++)
        for (int64_t k = 0; k < out[p]; k++, k_out++)
            arrays[0][1 + k_out / 2 * 4 + k_out % 2] = (float)(rank * 10000 + p * 1000 + k % 1000);
    call.from = layout_cut(arena, (pl_region){1, &strided}, out, P);
    call.to = layout_cut(arena, (pl_region){1, &plain}, in, P);
    s = pl_collective_schedule(&call, P, rank, NULL);
    run_once(s, arrays, 2, world);
    for (int p = 0; p < P; p++)
        for (int64_t k = 0; k < in[p]; k++)
            n_wrong += arrays[1][at++] != (float)(p * 10000 + rank * 1000 + k % 1000);
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    pl_free(arrays[0]);
    pl_free(arrays[1]);
    return n_wrong;
}

START_TEST(all_to_all_brings_every_block_to_its_rank)
{
    const int64_t counts[] = {0, 1, 5, 4097};

    for (int i = 0; i < 4; i++)
        ck_all(world.comm, exchange(counts[i]) == 0);
}
END_TEST

START_TEST(permute_shifts_round_a_ring_and_along_a_line)
{
    const int P = world.size, rank = world.rank;

    for (int is_ring = 0; is_ring <= 1; is_ring++) {
        float x[5], y[5] = {-1, -1, -1, -1, -1};
        float *arrays[2] = {x, y};
        const pl_piece out = pl_piece_of(0, 0, 5), in = pl_piece_of(1, 0, 5);
        pl_collective_call call = {.collective = PL_PERMUTE, .send = {1, &out}, .recv = {1, &in}};
        pl_schedule *s;
        int64_t n_wrong = 0;

        call.to_rank = rank + 1 < P ? rank + 1 : is_ring ? 0 : -1;
        call.from_rank = rank > 0 ? rank - 1 : is_ring ? P - 1 : -1;
        for (int k = 0; k < 5; k++)
            x[k] = (float)(10 * rank + k);
        s = pl_collective_schedule(&call, P, rank, NULL);
        run_once(s, arrays, 2, world);
        for (int k = 0; k < 5; k++)
            n_wrong += y[k] != (call.from_rank < 0 ? -1 : (float)(10 * call.from_rank + k));
        ck_all(world.comm, n_wrong == 0);
        pl_schedule_destroy(s);
    }
}
END_TEST

static int64_t broadcast(int64_t n, int root)
{
    float *x = pl_alloc((size_t)n * sizeof *x);
    pl_arena *arena = pl_arena_create();
    pl_collective_call call = {.collective = PL_BROADCAST, .root = root};
    pl_schedule *s;
    int64_t n_wrong = 0;

    call.blocks = pl_blocks_of_arrays(arena, &n, 1, world.size);
    for (int64_t i = 0; i < n; i++)
        x[i] = world.rank == root ? small_integer(root, i) : -1;
    s = pl_collective_schedule(&call, world.size, world.rank, NULL);
    run_once(s, &x, 1, world);
    for (int64_t i = 0; i < n; i++)
        n_wrong += x[i] != small_integer(root, i);
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    pl_free(x);
    return n_wrong;
}

START_TEST(broadcast_reaches_every_rank_from_every_root)
{
    const int P = world.size;
    const int64_t counts[] = {0, 1, P - 1, P, P + 1, 4097};

    for (int i = 0; i < 6; i++)
        for (int root = 0; root < P; root++)
            ck_all(world.comm, broadcast(counts[i], root) == 0);
}
END_TEST

START_TEST(no_elements_are_done_at_once)
{
    pl_engine *engine = create_engine();
    bool done;
    job j;

    job_init(&j, &algorithms[_i], world, 0, LAYOUT_ONE, false);
    job_prepare(&j, engine, PL_SUM, 0);
    done = pl_transfer_done(j.transfer);
    pl_engine_start(engine, j.transfer);
    done = done && pl_transfer_done(j.transfer);
    ck_all(world.comm, done);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(progress_alone_completes_a_transfer_and_times_it)
{
    pl_engine *engine = create_engine();
    int64_t n_wrong;
    job j;

    job_init(&j, &algorithms[_i], world, 4097, LAYOUT_ONE, false);
    job_prepare(&j, engine, PL_SUM, 0);
    pl_engine_start(engine, j.transfer);
    while (!pl_transfer_done(j.transfer))
        pl_engine_progress(engine);
    n_wrong = job_count_wrong(&j);
    n_wrong += !(pl_transfer_begin_s(j.transfer) > 0 &&
                 pl_transfer_end_s(j.transfer) >= pl_transfer_begin_s(j.transfer));
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    job_free(&j);
}
END_TEST

START_TEST(checking_lets_matching_operations_pass)
{
    pl_engine *engine = create_engine();
    int64_t n_wrong = 0;
    job jobs[N_ALGORITHMS];

    pl_engine_set_checking(engine, true);
    for (int i = 0; i < N_ALGORITHMS; i++) {
        job_init(&jobs[i], &algorithms[i], world, 100 + i, LAYOUT_UNEVEN, false);
        job_prepare(&jobs[i], engine, PL_SUM, i);
    }
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < N_ALGORITHMS; i++) {
            job_fill(&jobs[i]);
            pl_engine_start(engine, jobs[i].transfer);
        }
        for (int i = 0; i < N_ALGORITHMS; i++) {
            pl_engine_wait(engine, jobs[i].transfer);
            n_wrong += job_count_wrong(&jobs[i]);
        }
    }
    ck_all(world.comm, n_wrong == 0);
    pl_engine_destroy(engine);
    for (int i = 0; i < N_ALGORITHMS; i++)
        job_free(&jobs[i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("collectives");
    TCase *tc = tcase_create("collectives");

    tcase_add_unchecked_fixture(tc, make_world, free_world);
    tcase_add_loop_test(tc, every_algorithm_gives_the_exact_result_for_any_count_and_layout, 0,
                        N_ALGORITHMS);
    tcase_add_loop_test(tc, long_messages_cut_into_chunks_arrive_whole, 0, N_ALGORITHMS);
    tcase_add_test(tc, many_transfers_on_one_and_on_several_groups_fly_at_once);
    tcase_add_loop_test(tc, ranks_may_run_ahead_over_many_runs, 0, N_ALGORITHMS);
    tcase_add_loop_test(tc, running_allocates_nothing, 0, N_ALGORITHMS);
    tcase_add_loop_test(tc, bytes_counted_equal_the_schedule_and_the_formula, 0, N_ALGORITHMS);
    tcase_add_loop_test(tc,
                        sums_have_the_bits_of_the_documented_order_on_all_ranks_and_in_every_run,
                        RING_SCATTER, N_ALGORITHMS);
    tcase_add_test(tc, all_to_all_brings_every_block_to_its_rank);
    tcase_add_test(tc, permute_shifts_round_a_ring_and_along_a_line);
    tcase_add_test(tc, broadcast_reaches_every_rank_from_every_root);
    tcase_add_loop_test(tc, no_elements_are_done_at_once, 0, N_ALGORITHMS);
    tcase_add_loop_test(tc, progress_alone_completes_a_transfer_and_times_it, 0, N_ALGORITHMS);
    tcase_add_test(tc, checking_lets_matching_operations_pass);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
