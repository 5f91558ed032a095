/* trial_test -- ranks choose alike who multiplies, and every later run chooses so too. Runs under
 * mpirun; nothing here depends on what takes how long. */
#include "config.h"

#include "src/roofline/trial.h"

#include "src/base/clock.h"
#include "src/mesh/topology.h"
#include "src/program/kinds.h"
#include "src/roofline/cache.h"
#include "src/roofline/trial_file.h"
#include "tests/parallel.h"
#include "tests/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

/* Set once by make_suite: this rank, how many there are, where they are, a folder of this run's
 * own. */
static int rank, n_ranks;
static char folder[PATH_BYTES];
static pl_topology topology;

static void on_rank_0(void (*act)(void))
{
    if (rank == 0)
        act();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void remove_folder(void)
{
    char command[PATH_BYTES + 32];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Ranks that share a core count its seconds; of all ranks but rank 0 this many times as many. */
static double haste = 1;

double __real_pl_used_s(void);
double __wrap_pl_used_s(void);

double __wrap_pl_used_s(void)
{
    return (rank > 0 ? haste : 1) * __real_pl_used_s();
}

/* A program of which ranks hold unequal parts of the batch. */
typedef struct {
    pl_mesh mesh;
    pl_program *p;
    pl_coords coords;
} part;

static void part_create(part *x)
{
    char spec[32];

    snprintf(spec, sizeof spec, "dp:%d", n_ranks);
    const pl_plan plan = toy_plan(spec, 1, 2 * n_ranks - 1, 0);
    x->p = toy_program(&plan, &x->mesh, 0);
    x->coords = pl_mesh_coords(&x->mesh, rank);
}

/* Choose for a part, on a machine that is made up. */
static void choose_again(const part *x, bool again)
{
    const pl_machine machine = {.peak_flops_per_s = 1e9, .ranks_per_core = n_ranks};
    const pl_program *const programs[] = {x->p, NULL};

    pl_matmul_use_tried(NULL, 0);
    pl_trial_products(MPI_COMM_WORLD, &topology, &machine, programs, 2, x->coords, again);
}

static void choose(const part *x)
{
    choose_again(x, false);
}

/* Whether all products of the part have been tried. */
static bool is_all_tried(const part *x)
{
    pl_matmul_shape shapes[PL_MAX_OPERANDS / 2];
    int n_products = 0;

    for (int o = 0; o < x->p->n_ops; o++)
        for (int i = pl_op_products(x->p, &x->p->ops[o], x->coords, shapes); i-- > 0; n_products++)
            if (pl_matmul_find_tried(&shapes[i]) == NULL)
                return false;
    return n_products > 0;
}

/* This rank's table against rank 0's: the same entries in the same order. */
static bool is_like_rank_0(void)
{
    int n, n_0;
    const pl_matmul_tried *mine = pl_matmul_tried_in_use(&n);
    bool alike;

    n_0 = n;
    MPI_Bcast(&n_0, 1, MPI_INT, 0, MPI_COMM_WORLD);
    alike = n == n_0;
    for (int i = 0; i < n_0; i++) {
        pl_matmul_tried theirs = {0};

        if (i < n)
            theirs = mine[i];
        MPI_Bcast(&theirs, (int)sizeof theirs, MPI_BYTE, 0, MPI_COMM_WORLD);
        alike = alike && pl_matmul_shape_equal(&theirs.shape, &mine[i].shape) &&
                theirs.own_s == mine[i].own_s && theirs.openblas_s == mine[i].openblas_s &&
                theirs.openblas == mine[i].openblas;
    }
    return alike;
}

START_TEST(ranks_with_unequal_parts_try_all_shapes_and_choose_alike)
{
    part x;
    int n;

    part_create(&x);
    on_rank_0(remove_folder);
    choose(&x);
    ck_all(MPI_COMM_WORLD, is_all_tried(&x));
    ck_all(MPI_COMM_WORLD, is_like_rank_0());
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);
    for (int i = 0; i < n; i++)
        ck_all(MPI_COMM_WORLD, tried[i].own_s > 0 && tried[i].openblas_s > 0);
    pl_program_destroy(x.p);
}
END_TEST

/* No product ends within 1e-10 s, nor did the whole trial take an hour: what all ranks took of rank 0
 * is less than the trial lasted, what they took of another is more. */
START_TEST(a_product_takes_what_it_takes_the_slowest_rank)
{
    part x;
    int n;

    part_create(&x);
    on_rank_0(remove_folder);
    haste = 1e14;
    const double begin_s = pl_now_s();
    choose(&x);
    double lasted_s = pl_now_s() - begin_s;
    haste = 1;
    MPI_Allreduce(MPI_IN_PLACE, &lasted_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);
    ck_all(MPI_COMM_WORLD, n > 0);
    for (int i = 0; i < n; i++)
        ck_all(MPI_COMM_WORLD, (tried[i].own_s > lasted_s) == (n_ranks > 1) &&
                                   (tried[i].openblas_s > lasted_s) == (n_ranks > 1));
    on_rank_0(remove_folder);
    pl_program_destroy(x.p);
}
END_TEST

/* Turn every choice of the file into its opposite, with times to match that no trial could find. */
static void turn_choices(void)
{
    char path[PL_CACHE_PATH];
    pl_trials trials;

    pl_trials_path(&topology, path);
    ck_assert_int_eq(pl_trials_read(path, &trials), PL_OK);
    for (int64_t i = 0; i < trials.n; i++) {
        trials.entry[i].openblas = !trials.entry[i].openblas;
        trials.entry[i].own_s = trials.entry[i].openblas ? 3000 : 1000;
        trials.entry[i].openblas_s = 2000;
    }
    ck_assert_int_eq(pl_trials_write(path, &trials), PL_OK);
    pl_trials_free(&trials);
}

START_TEST(a_later_run_chooses_as_the_file_says)
{
    part x;
    bool was[PL_MATMUL_MOST_TRIED];
    int n, n_again;

    part_create(&x);
    choose(&x);
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);
    for (int i = 0; i < n; i++)
        was[i] = tried[i].openblas;
    on_rank_0(turn_choices);
    choose(&x);
    pl_matmul_tried_in_use(&n_again);
    ck_all(MPI_COMM_WORLD, n_again == n && n > 0);
    for (int i = 0; i < n; i++)
        ck_all(MPI_COMM_WORLD, tried[i].openblas != was[i] && tried[i].openblas_s == 2000);
    ck_all(MPI_COMM_WORLD, is_like_rank_0());
    pl_program_destroy(x.p);
}
END_TEST

/* Keep but the first entry, as no trial could have found it. */
static void leave_one(void)
{
    char path[PL_CACHE_PATH];
    pl_trials trials;

    turn_choices();
    pl_trials_path(&topology, path);
    ck_assert_int_eq(pl_trials_read(path, &trials), PL_OK);
    trials.n = 1;
    ck_assert_int_eq(pl_trials_write(path, &trials), PL_OK);
    pl_trials_free(&trials);
}

static int n_kept(void)
{
    char path[PL_CACHE_PATH];
    pl_trials trials = {0};
    int n = -1;

    pl_trials_path(&topology, path);
    if (rank == 0 && pl_trials_read(path, &trials) == PL_OK)
        n = (int)trials.n;
    pl_trials_free(&trials);
    pl_status_clear();
    MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return n;
}

START_TEST(shapes_that_the_file_lacks_are_tried_and_added)
{
    part x;
    int n, n_old = 0;

    part_create(&x);
    choose(&x);
    on_rank_0(leave_one);
    choose(&x);
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);
    for (int i = 0; i < n; i++)
        n_old += tried[i].openblas_s == 2000;
    ck_all(MPI_COMM_WORLD, n > 1 && n_old == 1);
    ck_all(MPI_COMM_WORLD, is_all_tried(&x));
    ck_all(MPI_COMM_WORLD, n_kept() == n);
    pl_program_destroy(x.p);
}
END_TEST

START_TEST(asked_to_all_are_tried_again_and_replaced)
{
    part x;
    int n, n_old = 0;

    part_create(&x);
    choose(&x);
    on_rank_0(turn_choices);
    choose_again(&x, true);
    choose(&x);
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);
    for (int i = 0; i < n; i++)
        n_old += tried[i].openblas_s == 2000;
    ck_all(MPI_COMM_WORLD, n > 1 && n_old == 0);
    ck_all(MPI_COMM_WORLD, n_kept() == n);
    pl_program_destroy(x.p);
}
END_TEST

static void break_file(void)
{
    char path[PL_CACHE_PATH];
    FILE *file;

    pl_trials_path(&topology, path);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("{\"openblas\": ", file);
    fclose(file);
}

START_TEST(a_broken_file_is_replaced)
{
    part x;
    int n;

    part_create(&x);
    choose(&x);
    on_rank_0(break_file);
    ck_all(MPI_COMM_WORLD, n_kept() == -1);
    choose(&x);
    pl_matmul_tried_in_use(&n);
    ck_all(MPI_COMM_WORLD, is_all_tried(&x));
    ck_all(MPI_COMM_WORLD, n_kept() == n);
    pl_program_destroy(x.p);
}
END_TEST

START_TEST(without_a_cache_nothing_is_tried)
{
    part x;
    int n;

    part_create(&x);
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
    choose(&x);
    setenv("XDG_CACHE_HOME", folder, 1);
    pl_matmul_tried_in_use(&n);
    ck_all(MPI_COMM_WORLD, n == 0);
    pl_program_destroy(x.p);
}
END_TEST

/* A folder in the file's place, with something in it. */
static void block_file(void)
{
    char path[PL_CACHE_PATH], inside[PL_CACHE_PATH + 8];

    remove_folder();
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    pl_trials_path(&topology, path);
    snprintf(inside, sizeof inside, "%s/inside", path);
    ck_assert(mkdir(path, 0700) == 0 && mkdir(inside, 0700) == 0);
}

START_TEST(what_cannot_be_kept_is_not_used)
{
    part x;
    int n;

    part_create(&x);
    on_rank_0(block_file);
    choose(&x);
    pl_matmul_tried_in_use(&n);
    ck_all(MPI_COMM_WORLD, n == 0);
    on_rank_0(remove_folder);
    pl_program_destroy(x.p);
}
END_TEST

static void end(void)
{
    on_rank_0(remove_folder);
}

static Suite *make_suite(void)
{
    Suite *suite = suite_create("trial");
    TCase *tc = tcase_create("trial");
    const char *parent = getenv("TMPDIR");
    long id = (long)getpid();

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Bcast(&id, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(folder, sizeof folder, "%s/purlin-trial-%ld", parent != NULL ? parent : "/tmp", id);
    setenv("XDG_CACHE_HOME", folder, 1);
    pl_topology_discover(MPI_COMM_WORLD, &topology);
    tcase_add_unchecked_fixture(tc, NULL, end);
    tcase_add_test(tc, ranks_with_unequal_parts_try_all_shapes_and_choose_alike);
    tcase_add_test(tc, a_product_takes_what_it_takes_the_slowest_rank);
    tcase_add_test(tc, a_later_run_chooses_as_the_file_says);
    tcase_add_test(tc, shapes_that_the_file_lacks_are_tried_and_added);
    tcase_add_test(tc, asked_to_all_are_tried_again_and_replaced);
    tcase_add_test(tc, a_broken_file_is_replaced);
    tcase_add_test(tc, without_a_cache_nothing_is_tried);
    tcase_add_test(tc, what_cannot_be_kept_is_not_used);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
