/* What ./collbench rests on: inputs, the comparison that counts wrong elements, limits, means, and
 * the command line. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/scratch.h"

#include "src/base/bf16.h"
#include "src/base/memory.h"
#include "src/collbench/axes.h"
#include "src/collbench/limit.h"
#include "src/collbench/options.h"
#include "src/collbench/record.h"
#include "src/base/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 7 };

/* ---- all ranks of a case, and the collective done the plain way */

typedef struct {
    pl_bench_case c; /* rank 0's */
    void *arrays[MOST_RANKS][PL_BENCH_ARRAYS];
} world;

static pl_bench_case case_of(const world *w, int rank)
{
    pl_bench_case c = w->c;

    c.rank = rank;
    return c;
}

static void open_world(world *w, pl_bench_case c)
{
    w->c = c;
    for (int r = 0; r < c.n_ranks; r++) {
        const pl_bench_case mine = case_of(w, r);

        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            w->arrays[r][a] = pl_alloc((size_t)pl_bench_elements(&c, a) * pl_dtype_bytes(c.dtype));
        pl_bench_fill(&mine, w->arrays[r]);
    }
}

static void close_world(world *w)
{
    for (int r = 0; r < w->c.n_ranks; r++)
        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            pl_free(w->arrays[r][a]);
}

static double get(const world *w, int rank, int a, int64_t i)
{
    const void *x = w->arrays[rank][a];

    switch (w->c.dtype) {
    case PL_F32:
        return ((const float *)x)[i];
    case PL_I32:
        return ((const int32_t *)x)[i];
    default:
        return pl_bf16_to_f32(((const pl_bf16 *)x)[i]);
    }
}

static void set(world *w, int rank, int a, int64_t i, double value)
{
    void *x = w->arrays[rank][a];

    switch (w->c.dtype) {
    case PL_F32:
        ((float *)x)[i] = (float)value;
        break;
    case PL_I32:
        ((int32_t *)x)[i] = (int32_t)value;
        break;
    default:
        ((pl_bf16 *)x)[i] = pl_bf16_of_f32((float)value);
        break;
    }
}

/* Element i of the sum or maximum over the ranks' arrays a. */
static double reduced(const world *w, int a, int64_t i)
{
    double y = get(w, 0, a, i);

    for (int r = 1; r < w->c.n_ranks; r++)
        y = w->c.reduction == PL_SUM ? y + get(w, r, a, i) : fmax(y, get(w, r, a, i));
    return y;
}

/* The collective on all ranks, from its definition. */
static void collect(world *w)
{
    const int n = w->c.n_ranks, place = pl_bench_place(w->c.collective);
    const int in = w->c.in_place ? place : PL_BENCH_IN, out = w->c.in_place ? place : PL_BENCH_OUT;
    const int64_t count = w->c.count, block = count / n;

    for (int64_t i = 0; i < count; i++) {
        const int owner = (int)(i / block);
        const int64_t j = i % block;
        double y = 0;

        if (pl_bench_reduces(w->c.collective))
            y = reduced(w, in, i);
        for (int r = 0; r < n; r++)
            switch (w->c.collective) {
            case PL_ALL_GATHER:
                set(w, r, out, i, get(w, owner, in, w->c.in_place ? i : j));
                break;
            case PL_REDUCE_SCATTER:
                if (owner == r)
                    set(w, r, out, w->c.in_place ? i : j, y);
                break;
            case PL_ALL_REDUCE:
                set(w, r, out, i, y);
                break;
            case PL_ALL_TO_ALL:
                set(w, r, out, i, get(w, owner, in, r * block + j));
                break;
            case PL_BROADCAST:
                set(w, r, out, i, get(w, 0, in, i));
                break;
            default:
                set(w, r, out, i, get(w, (r + n - 1) % n, in, i));
                break;
            }
    }
}

static int64_t wrong_on(const world *w, int rank)
{
    const pl_bench_case c = case_of(w, rank);

    return pl_bench_count_wrong(&c, (const void *const *)w->arrays[rank]);
}

/* Every collective, type, reduction, in and out of place, on n ranks of b elements each. */
typedef void visit(world *w);

static void for_all_cases(int n_ranks, int64_t b, visit *f)
{
    for (int op = 0; op < PL_N_COLLECTIVES; op++)
        for (int d = 0; d < PL_N_DTYPES; d++)
            for (int r = PL_SUM; r <= PL_MAX; r++)
                for (int in_place = 0; in_place <= pl_bench_in_place((pl_collective)op);
                     in_place++) {
                    world w;

                    open_world(&w, (pl_bench_case){.collective = (pl_collective)op,
                                                   .dtype = (pl_dtype)d,
                                                   .reduction = (pl_reduction)r,
                                                   .count = n_ranks * b,
                                                   .n_ranks = n_ranks,
                                                   .in_place = in_place});
                    f(&w);
                    close_world(&w);
                }
}

static const int rank_counts[] = {1, 2, 3, MOST_RANKS};
static const int64_t block_sizes[] = {1, 5, 1021, 1500}; /* inputs repeat after 1021 */
enum { N_COUNTS = 4, N_SIZES = 4 };

static void expect_none_wrong(world *w)
{
    collect(w);
    for (int r = 0; r < w->c.n_ranks; r++)
        ck_assert_int_eq(wrong_on(w, r), 0);
}

START_TEST(a_right_result_has_no_wrong_elements)
{
    for (int k = 0; k < N_SIZES; k++)
        for_all_cases(rank_counts[_i], block_sizes[k], expect_none_wrong);
}
END_TEST

/* Where the result of `rank` begins, and its elements. */
static int64_t result_of(const world *w, int rank, int *a, int64_t *begin)
{
    const int64_t block = w->c.count / w->c.n_ranks;
    const bool scatters = w->c.collective == PL_REDUCE_SCATTER;

    *a = w->c.in_place ? pl_bench_place(w->c.collective) : PL_BENCH_OUT;
    *begin = scatters && w->c.in_place ? rank * block : 0;
    return scatters ? block : w->c.count;
}

static void expect_every_change_counted(world *w)
{
    collect(w);
    for (int r = 0; r < w->c.n_ranks; r++) {
        int64_t begin, n_changed = 0;
        int a;
        const int64_t n = result_of(w, r, &a, &begin);

        for (int64_t i = 0; i < n; i += 3) {
            set(w, r, a, begin + i, get(w, r, a, begin + i) + 1);
            n_changed++;
            ck_assert_int_eq(wrong_on(w, r), n_changed);
        }
    }
}

START_TEST(every_changed_element_is_counted)
{
    for_all_cases(rank_counts[_i], 5, expect_every_change_counted);
}
END_TEST

static void expect_all_wrong(world *w)
{
    for (int r = 0; r < w->c.n_ranks; r++) {
        int64_t begin;
        int a;
        const int64_t n = result_of(w, r, &a, &begin);

        ck_assert_int_eq(wrong_on(w, r), n);
    }
}

START_TEST(a_call_that_does_nothing_is_wrong_everywhere)
{
    for (int op = 0; op < PL_N_COLLECTIVES; op++)
        for (int d = 0; d < PL_N_DTYPES; d++) {
            world w;

            open_world(&w, (pl_bench_case){.collective = (pl_collective)op,
                                           .dtype = (pl_dtype)d,
                                           .count = 3 * 77,
                                           .n_ranks = 3});
            expect_all_wrong(&w);
            close_world(&w);
        }
}
END_TEST

/* Elements that became 1 on rank r, of both arrays; all others are as open_world left them. */
static int64_t count_renewed(const world *w, const world *before, int r)
{
    int64_t n = 0;

    for (int a = 0; a < PL_BENCH_ARRAYS; a++)
        for (int64_t i = 0; i < pl_bench_elements(&w->c, a); i++) {
            const double x = get(w, r, a, i), was = get(before, r, a, i);
            const bool stayed = x == was || (isnan(x) && isnan(was));

            ck_assert(stayed || x == 1);
            n += !stayed;
        }
    return n;
}

/* Elements of rank r's input that were not 1 before. */
static int64_t count_to_renew(const world *before, int r)
{
    const pl_bench_case *c = &before->c;
    const int a = c->in_place ? pl_bench_place(c->collective) : PL_BENCH_IN;
    const bool is_block = c->collective == PL_ALL_GATHER;
    const int64_t n = is_block ? c->count / c->n_ranks : c->count;
    const int64_t begin = is_block && c->in_place ? r * n : 0;
    int64_t n_other = 0;

    if (c->collective == PL_BROADCAST && r != 0)
        return 0;
    for (int64_t i = begin; i < begin + n; i++)
        n_other += get(before, r, a, i) != 1;
    return n_other;
}

static void expect_input_renewed(world *w)
{
    world before;

    open_world(&before, w->c);
    for (int r = 0; r < w->c.n_ranks; r++) {
        const pl_bench_case mine = case_of(w, r);

        pl_bench_renew(&mine, w->arrays[r]);
        ck_assert_int_eq(count_renewed(w, &before, r), count_to_renew(&before, r));
    }
    close_world(&before);
}

START_TEST(renewing_writes_all_of_the_input_and_nothing_else)
{
    for_all_cases(rank_counts[_i], 5, expect_input_renewed);
}
END_TEST

START_TEST(blocks_at_each_others_places_are_wrong)
{
    static const pl_collective moves[] = {PL_ALL_GATHER, PL_ALL_TO_ALL};

    for (int k = 0; k < 2; k++) {
        world w;

        open_world(&w, (pl_bench_case){.collective = moves[k], .count = 2 * 1021, .n_ranks = 2});
        collect(&w);
        for (int64_t i = 0; i < 1021; i++) {
            const double x = get(&w, 0, PL_BENCH_OUT, i);

            set(&w, 0, PL_BENCH_OUT, i, get(&w, 0, PL_BENCH_OUT, 1021 + i));
            set(&w, 0, PL_BENCH_OUT, 1021 + i, x);
        }
        /* values are among 256: about one in 256 pairs is alike by chance */
        ck_assert_int_gt(wrong_on(&w, 0), 2 * 1021 * 9 / 10);
        close_world(&w);
    }
}
END_TEST

START_TEST(sums_are_integers_that_bf16_holds)
{
    static const int n_ranks[] = {1, 2, 3, 8, 100, 256, 257, 1000};
    const int n = n_ranks[_i];
    const int64_t count = n * 2;
    double *sums = pl_alloc((size_t)count * sizeof *sums);
    float *in = pl_alloc((size_t)count * sizeof *in), *out = pl_alloc((size_t)count * sizeof *out);
    void *arrays[PL_BENCH_ARRAYS] = {in, out};
    int64_t n_other = 0; /* neither natural numbers nor 0 */
    double most = 0;

    for (int r = 0; r < n; r++) {
        const pl_bench_case c = {
            .collective = PL_ALL_REDUCE, .count = count, .n_ranks = n, .rank = r};

        pl_bench_fill(&c, arrays);
        for (int64_t i = 0; i < count; i++) {
            n_other += !(in[i] >= 0 && in[i] == floorf(in[i]));
            sums[i] += in[i];
            most = fmax(most, sums[i]);
        }
    }
    ck_assert_int_eq(n_other, 0);
    ck_assert_double_le(most, 256);
    ck_assert_double_gt(most, 0);
    pl_free(sums);
    pl_free(in);
    pl_free(out);
}
END_TEST

/* ---- what figures are made of */

START_TEST(bus_factors_are_those_of_nccl_tests)
{
    ck_assert_double_eq(pl_bench_bus_factor(PL_ALL_GATHER, 4), 0.75);
    ck_assert_double_eq(pl_bench_bus_factor(PL_REDUCE_SCATTER, 4), 0.75);
    ck_assert_double_eq(pl_bench_bus_factor(PL_ALL_TO_ALL, 4), 0.75);
    ck_assert_double_eq(pl_bench_bus_factor(PL_ALL_REDUCE, 4), 1.5);
    ck_assert_double_eq(pl_bench_bus_factor(PL_BROADCAST, 4), 1);
    ck_assert_double_eq(pl_bench_bus_factor(PL_PERMUTE, 4), 1);
}
END_TEST

START_TEST(counts_are_multiples_of_the_ranks_where_blocks_are_dealt)
{
    static const pl_collective deals[] = {PL_ALL_GATHER, PL_REDUCE_SCATTER, PL_ALL_TO_ALL};

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_bench_count(deals[i], 1024, PL_F32, 2), 256);
        ck_assert_int_eq(pl_bench_count(deals[i], 1024, PL_BF16, 2), 512);
        ck_assert_int_eq(pl_bench_count(deals[i], 1024, PL_F32, 3), 255);
        ck_assert_int_eq(pl_bench_count(deals[i], 0, PL_F32, 3), 3);
        ck_assert_int_eq(pl_bench_count(deals[i], INT64_C(1) << 34, PL_F32, 4), INT64_C(1) << 32);
    }
    ck_assert_int_eq(pl_bench_count(PL_ALL_REDUCE, 8, PL_F32, 8), 2);
    ck_assert_int_eq(pl_bench_count(PL_BROADCAST, 1020, PL_F32, 7), 255);
    ck_assert_int_eq(pl_bench_count(PL_PERMUTE, 3, PL_F32, 7), 1);
}
END_TEST

START_TEST(bytes_across_hosts_are_dealt_to_their_ranks)
{
    static const int host_of[] = {0, 0, 1, 1, 2, 2};
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_site_on_hosts(arena, 6, host_of, true);
    const pl_site one = pl_site_one_host(arena, 6, true);
    pl_bench_case c = {.dtype = PL_F32, .count = 6 * 100, .n_ranks = 6};
    /* S 2400 bytes, three hosts of two: 2400 x 2/3 / 2; AllToAll: 4 blocks of 400 bytes */
    static const int64_t expected[PL_N_COLLECTIVES] = {
        [PL_ALL_GATHER] = 800,  [PL_REDUCE_SCATTER] = 800, [PL_ALL_REDUCE] = 1600,
        [PL_ALL_TO_ALL] = 1600, [PL_BROADCAST] = 1200,     [PL_PERMUTE] = 2400};

    for (int op = 0; op < PL_N_COLLECTIVES; op++) {
        c.collective = (pl_collective)op;
        ck_assert_int_eq(pl_bench_link_bytes(&c, &site), expected[op]);
        ck_assert_int_eq(pl_bench_link_bytes(&c, &one), 0);
    }
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(quantiles_are_of_what_was_measured)
{
    double x[] = {5, 1, 4, 2, 3}, y[] = {4, 1, 3, 2};

    ck_assert_double_eq(pl_bench_quantile(x, 5, 0.5), 3);
    ck_assert_double_eq(pl_bench_quantile(x, 5, 0.99), 5);
    ck_assert_double_eq(pl_bench_quantile(y, 4, 0.5), 2.5);
}
END_TEST

static pl_bench_point point(pl_collective op, double time_s, double predicted_s, double limit_s,
                            double mpi_s, int64_t wrong)
{
    return (pl_bench_point){.c = {.collective = op, .count = 250, .n_ranks = 2},
                            .time_s = time_s,
                            .predicted_s = predicted_s,
                            .limit_s = limit_s,
                            .mpi_s = mpi_s,
                            .wrong = wrong};
}

START_TEST(means_are_geometric_and_by_collective)
{
    pl_bench_records r;
    const pl_bench_point points[] = {point(PL_BROADCAST, 1, 1.5, 0.5, 2, 0),
                                     point(PL_BROADCAST, 4, 3, 0.5, 32, 3),
                                     point(PL_ALL_GATHER, 1, 1, 1, NAN, -1)};

    ck_assert_int_eq(pl_bench_records_open(&r, NULL, NULL), PL_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pl_bench_records_add(&r, &points[i]), PL_OK);
    const pl_bench_summary s = pl_bench_summarize(&r, PL_BROADCAST),
                           all = pl_bench_summarize(&r, PL_N_COLLECTIVES);

    ck_assert_int_eq(s.n, 2);
    ck_assert_int_eq(all.n, 3);
    ck_assert_int_eq(all.wrong, 3);
    /* 1000 bytes: sqrt(1000/1 x 1000/4); ratios 2 and 8; shares 1/2 and 1/8; errors 0.5 and 0.25.
     * exp and log round in the last places: a few units of 2^-52 */
    ck_assert_double_eq_tol(s.busbw, 500, 500 * 0x1p-45);
    ck_assert_double_eq_tol(s.mpi_ratio, 4, 4 * 0x1p-45);
    ck_assert_double_eq_tol(s.limit_share, 0.25, 0.25 * 0x1p-45);
    ck_assert_double_eq(s.median_error, 0.375);
    ck_assert(isnan(pl_bench_summarize(&r, PL_ALL_GATHER).mpi_ratio));
    ck_assert_int_eq(pl_bench_records_close(&r), PL_OK);
}
END_TEST

/* ---- the command line */

/* ./collbench WORD... (up to NULL). */
static pl_status parse(pl_bench_options *o, const char *const *words)
{
    enum { MOST = 24 };
    char copies[MOST][96] = {"collbench"};
    char *argv[MOST + 1] = {copies[0]};
    int argc = 1;

    for (; argc < MOST && words[argc - 1] != NULL; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    return pl_bench_options_parse(argc, argv, o);
}

#define PARSE(o, ...) parse(o, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(flags_mean_what_nccl_tests_means)
{
    pl_bench_options o;

    ck_assert_int_eq(PARSE(&o, "-b", "8", "-e", "128M", "-f", "2", "-n", "7", "-w", "0", "-c", "0",
                           "-o", "max", "-d", "bfloat16"),
                     PL_OK);
    ck_assert_int_eq(o.min_bytes, 8);
    ck_assert_int_eq(o.max_bytes, 128 << 20);
    ck_assert_int_eq(o.step_factor, 2);
    ck_assert_int_eq(o.n_samples, 7);
    ck_assert_int_eq(o.n_warmup, 0);
    ck_assert(!o.check);
    ck_assert(o.reduction[PL_MAX] && !o.reduction[PL_SUM]);
    ck_assert(o.dtype[PL_BF16] && !o.dtype[PL_F32] && !o.dtype[PL_I32]);
}
END_TEST

START_TEST(sizes_go_by_steps_or_by_a_factor)
{
    pl_bench_options o;

    ck_assert_int_eq(PARSE(&o, "-b1K", "-e3K", "-i512"), PL_OK);
    ck_assert_int_eq(pl_bench_next_bytes(&o, 1024), 1536);
    ck_assert_int_eq(PARSE(&o, "-b1K", "-e1G", "-f8"), PL_OK);
    ck_assert_int_eq(pl_bench_next_bytes(&o, 1024), 8192);
    ck_assert_int_eq(pl_bench_next_bytes(&o, 0), 1);
    ck_assert_int_eq(PARSE(&o, "-b128M"), PL_OK);
    ck_assert_int_eq(o.max_bytes, 128 << 20);
    ck_assert_int_eq(PARSE(&o, "-e16"), PL_OK);
    ck_assert_int_eq(o.min_bytes, 16);
}
END_TEST

START_TEST(operations_are_listed_by_key)
{
    pl_bench_options o;

    ck_assert_int_eq(PARSE(&o, "--op", "all_reduce,permute"), PL_OK);
    for (int c = 0; c < PL_N_COLLECTIVES; c++)
        ck_assert_int_eq(o.op[c], c == PL_ALL_REDUCE || c == PL_PERMUTE);
    ck_assert_int_eq(PARSE(&o, "--op", "all"), PL_OK);
    for (int c = 0; c < PL_N_COLLECTIVES; c++)
        ck_assert(o.op[c]);
}
END_TEST

static const struct {
    const char *words[4], *flag, *what;
} refusals[] = {
    {{"-b", "x"}, "--minbytes", "x"},
    {{"-b", "-1"}, "--minbytes", "-1"},
    {{"-b2K", "-e1K"}, "--minbytes", "--maxbytes"},
    {{"-f", "1"}, "--stepfactor", "out of range"},
    {{"-f2", "-i8"}, "--stepbytes", "--stepfactor"},
    {{"-n", "0"}, "--iters", "out of range"},
    {{"-c", "maybe"}, "--check", "maybe"},
    {{"-d", "double"}, "--datatype", "bfloat16"},
    {{"-o", "prod"}, "--redop", "sum, max"},
    {{"--op", "all_gather,scan"}, "--op", "'scan'"},
    {{"--vs", "nccl"}, "--vs", "nccl"},
    {{"--csv", ""}, "--csv", "empty"},
    {{"--ranks", "4"}, "--ranks", "mpirun"},
    {{"--race", "--vs", "mpi"}, "--race", "--vs"},
    {{"--race", "--algo", "all_gather=ring"}, "--race", "--algo"},
    {{"all_gather"}, "'all_gather'", "--help"},
};
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

START_TEST(what_makes_no_sense_is_refused_by_flag)
{
    pl_bench_options o;

    ck_refused(parse(&o, refusals[_i].words), refusals[_i].flag, refusals[_i].what, NULL);
}
END_TEST

START_TEST(a_mesh_must_have_the_ranks_there_are)
{
    pl_mesh mesh = {.n_axes = 0}, other = {.n_axes = 0}, third = {.n_axes = 0};
    pl_axes axes;

    ck_assert_int_eq(pl_bench_mesh_parse("dp:2+tp:3", 6, &mesh), PL_OK);
    ck_assert_int_eq(mesh.n_axes, 2);
    ck_assert_str_eq(mesh.axes[1].name, "tp");
    ck_assert_int_eq(mesh.axes[1].size, 3);
    ck_assert_int_eq(pl_bench_axes_parse("tp", &mesh, &axes), PL_OK);
    ck_assert_uint_eq(axes, 2);
    ck_assert_int_eq(pl_bench_axes_parse(NULL, &mesh, &axes), PL_OK);
    ck_assert_uint_eq(axes, 3);
    ck_refused(pl_bench_axes_parse("pp", &mesh, &axes), "--axis", "'pp'", "dp,tp", NULL);
    ck_refused(pl_bench_mesh_parse("dp:2+tp:2", 6, &other), "--mesh", "4 ranks", "-np 4", NULL);
    ck_refused(pl_bench_mesh_parse("dp", 6, &third), "--mesh", "'dp'", NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("collbench");
    TCase *tc = tcase_create("collbench");

    tcase_add_loop_test(tc, a_right_result_has_no_wrong_elements, 0, N_COUNTS);
    tcase_add_loop_test(tc, every_changed_element_is_counted, 0, N_COUNTS);
    tcase_add_test(tc, a_call_that_does_nothing_is_wrong_everywhere);
    tcase_add_loop_test(tc, renewing_writes_all_of_the_input_and_nothing_else, 0, N_COUNTS);
    tcase_add_test(tc, blocks_at_each_others_places_are_wrong);
    tcase_add_loop_test(tc, sums_are_integers_that_bf16_holds, 0, 8);
    tcase_add_test(tc, bus_factors_are_those_of_nccl_tests);
    tcase_add_test(tc, counts_are_multiples_of_the_ranks_where_blocks_are_dealt);
    tcase_add_test(tc, bytes_across_hosts_are_dealt_to_their_ranks);
    tcase_add_test(tc, quantiles_are_of_what_was_measured);
    tcase_add_test(tc, means_are_geometric_and_by_collective);
    tcase_add_test(tc, flags_mean_what_nccl_tests_means);
    tcase_add_test(tc, sizes_go_by_steps_or_by_a_factor);
    tcase_add_test(tc, operations_are_listed_by_key);
    tcase_add_loop_test(tc, what_makes_no_sense_is_refused_by_flag, 0, N_REFUSALS);
    tcase_add_test(tc, a_mesh_must_have_the_ranks_there_are);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
