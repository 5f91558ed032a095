/* choices -- ranks that share the predictions of all choices find what each finds by itself. */
#include "config.h"

#include "src/roofline/choose.h"

#include "tests/figures.h"
#include "tests/parallel.h"
#include "tests/tiny_plan.h"

#include <string.h>

enum { N_RANKS = 8 }; /* of the plan: more ways to factorise it than ranks here */

static pl_choices find(int64_t memory_bytes, MPI_Comm comm)
{
    const pl_machine machine = synthetic();
    const pl_plan plan = tiny_plan("dp+fsdp+tp", 8, 2);
    pl_choices found;

    ck_assert(pl_choices_find(&plan, N_RANKS, &machine, memory_bytes, comm, &found) == PL_OK);
    return found;
}

static bool are_equal(const pl_choices *a, const pl_choices *b)
{
    bool equal = a->n == b->n && a->n_fit == b->n_fit;

    for (int i = 0; equal && i < a->n; i++)
        equal = memcmp(&a->choice[i].spec, &b->choice[i].spec, sizeof a->choice[i].spec) == 0 &&
                a->choice[i].step_s == b->choice[i].step_s &&
                a->choice[i].memory_bytes == b->choice[i].memory_bytes &&
                a->choice[i].fits == b->choice[i].fits;
    return equal;
}

START_TEST(ranks_that_share_find_what_each_finds_by_itself)
{
    pl_choices alone = find(0, MPI_COMM_NULL), shared = find(0, MPI_COMM_WORLD);
    int n_ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    ck_all(MPI_COMM_WORLD, alone.n > n_ranks && alone.choice[0].step_s > 0);
    ck_all(MPI_COMM_WORLD, are_equal(&alone, &shared));
    pl_choices_free(&shared);

    /* between the smallest and the largest */
    const int64_t limit =
        (alone.choice[0].memory_bytes + alone.choice[alone.n - 1].memory_bytes) / 2;
    pl_choices_free(&alone);
    alone = find(limit, MPI_COMM_NULL);
    shared = find(limit, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, alone.n_fit > 0 && alone.n_fit < alone.n);
    ck_all(MPI_COMM_WORLD, are_equal(&alone, &shared));
    pl_choices_free(&alone);
    pl_choices_free(&shared);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("choices");
    TCase *tcase = tcase_create("choices");

    tcase_add_test(tcase, ranks_that_share_find_what_each_finds_by_itself);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
