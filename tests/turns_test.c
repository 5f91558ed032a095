/* turns -- kernels of ranks that share a core are timed by what they use of it. */
#include "config.h"

#include "src/base/clock.h"
#include "src/program/allocate.h"
#include "src/program/run.h"
#include "tests/parallel.h"
#include "tests/small_program.h"

#include <sched.h>

/* What the kernels of a step took, over and over for a while. */
typedef struct {
    double busy_s, turns_s, wall_s;
} times;

/* Every rank goes to one core, the same if they are on one host. */
static void share_a_core(void)
{
    cpu_set_t cpus;
    int first = 0;

    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    while (!CPU_ISSET(first, &cpus))
        first++;
    MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CPU_ZERO(&cpus);
    CPU_SET(first, &cpus);
    ck_assert_int_eq(sched_setaffinity(0, sizeof cpus, &cpus), 0);
}

static times run_kernels(bool takes_turns)
{
    const double window_s = 0.2;
    small_step *step = one_stage(1);
    pl_program *p = step->p[0];
    pl_comms comms;
    times t = {0};

    act(p, PL_ACTION_RUN, product_op(p, 256, 256, 256));
    for (int v = 0; v < p->n_values; v++)
        p->values[v].persists = p->values[v].is_input = true;
    pl_allocate(p);
    pl_comms_create(MPI_COMM_SELF, &step->mesh, NULL, 0, &comms);
    pl_engine *engine = pl_engine_create(NULL);
    pl_run *run = pl_run_create(p, &comms, engine, NULL, NULL);
    pl_run_set_turns(run, takes_turns);
    pl_run_kernels(run); /* touches memory */
    pl_run_reset(run);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin_s = pl_now_s();
    while (t.wall_s < window_s) {
        pl_run_kernels(run);
        t.wall_s = pl_now_s() - begin_s;
    }
    for (int i = 0; i < p->n_ops; i++) {
        t.busy_s += pl_run_measures(run)[i].busy_s;
        t.turns_s += pl_run_measures(run)[i].turns_s;
    }
    pl_run_destroy(run);
    pl_engine_destroy(engine);
    pl_comms_destroy(&comms);
    small_step_destroy(step);
    return t;
}

START_TEST(kernels_count_by_what_they_use_of_a_core_that_ranks_share)
{
    const double gaps = 0.3; /* between kernels, at most */
    int n_ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    share_a_core();
    const times t = run_kernels(true);
    double all_s = t.busy_s, longest_s = t.wall_s;

    MPI_Allreduce(MPI_IN_PLACE, &all_s, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &longest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    /* Together no more than the core has, while they all run and while some have begun or end
     * later; counted until kernels are over it would be the time of all n_ranks. */
    ck_all_msg(MPI_COMM_WORLD, all_s > 0 && all_s <= 1.5 * longest_s, "%g s of %g s", all_s,
               longest_s);
    ck_all_msg(MPI_COMM_WORLD, t.turns_s > t.busy_s / n_ranks, "others only %g s beside %g s",
               t.turns_s, t.busy_s);
    ck_all_msg(MPI_COMM_WORLD,
               t.busy_s + t.turns_s <= t.wall_s && t.busy_s + t.turns_s >= (1 - gaps) * t.wall_s,
               "%g s and %g s of %g s", t.busy_s, t.turns_s, t.wall_s);
}
END_TEST

START_TEST(kernels_of_a_rank_by_itself_count_until_they_are_over)
{
    const times t = run_kernels(false);

    ck_all(MPI_COMM_WORLD, t.turns_s == 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("turns");
    TCase *tcase = tcase_create("turns");

    tcase_add_test(tcase, kernels_count_by_what_they_use_of_a_core_that_ranks_share);
    tcase_add_test(tcase, kernels_of_a_rank_by_itself_count_until_they_are_over);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
