/* agree -- the branch all ranks take, who speaks, and the harness's own agreement. */
#include "config.h"

#include "src/base/agree.h"
#include "src/base/log.h"
#include "tests/parallel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank_of(MPI_Comm comm)
{
    int rank;

    MPI_Comm_rank(comm, &rank);
    return rank;
}

static int size_of(MPI_Comm comm)
{
    int size;

    MPI_Comm_size(comm, &size);
    return size;
}

/** pl_agree() over the world, with what this process wrote to stderr in `said`. */
static pl_status agree_and_listen(pl_status status, char *said, size_t said_bytes)
{
    const int stderr_kept = dup(STDERR_FILENO);
    FILE *file = tmpfile();

    dup2(fileno(file), STDERR_FILENO);

    const pl_status worst = pl_agree(MPI_COMM_WORLD, status);

    fflush(stderr);
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    rewind(file);
    said[fread(said, 1, said_bytes - 1, file)] = '\0';
    fclose(file);
    return worst;
}

START_TEST(when_all_is_well_nobody_speaks)
{
    char said[256];
    const pl_status worst = agree_and_listen(PL_OK, said, sizeof said);

    ck_all(MPI_COMM_WORLD, worst == PL_OK && strcmp(said, "") == 0);
}
END_TEST

START_TEST(a_refusal_of_all_ranks_is_printed_once_by_rank_0)
{
    char said[256];
    const int rank = rank_of(MPI_COMM_WORLD);
    const pl_status mine = pl_refuse(PL_BAD_INPUT, "--steps: %d is too few", -1);
    const pl_status worst = agree_and_listen(mine, said, sizeof said);

    ck_all(MPI_COMM_WORLD, worst == PL_BAD_INPUT);
    ck_all(MPI_COMM_WORLD, strcmp(said, rank == 0 ? "--steps: -1 is too few\n" : "") == 0);
}
END_TEST

START_TEST(the_lowest_rank_with_the_worst_status_speaks_and_is_named)
{
    const int rank = rank_of(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    char said[256], expected[64] = "";
    pl_status mine = PL_OK;

    if (size < 3)
        ck_skip("needs 3 ranks");
    if (rank == 0)
        mine = pl_refuse(PL_WRONG, "milder");
    else if (rank >= size - 2)
        mine = pl_refuse(PL_ENVIRONMENT, "rank %d has no memory", rank);
    if (rank == size - 2)
        snprintf(expected, sizeof expected, "rank %d: rank %d has no memory\n", rank, rank);

    const pl_status worst = agree_and_listen(mine, said, sizeof said);

    ck_all(MPI_COMM_WORLD, worst == PL_ENVIRONMENT);
    ck_all(MPI_COMM_WORLD, strcmp(said, expected) == 0);
}
END_TEST

START_TEST(agreeing_forgets_the_message_everywhere)
{
    char said[256];

    pl_refuse(PL_BAD_INPUT, "first");
    agree_and_listen(PL_BAD_INPUT, said, sizeof said);
    ck_all(MPI_COMM_WORLD, strcmp(pl_status_message(), "") == 0);
    pl_refuse(PL_BAD_INPUT, "forgotten, since nothing was wrong");
    agree_and_listen(PL_OK, said, sizeof said);
    ck_all(MPI_COMM_WORLD, strcmp(pl_status_message(), "") == 0);
}
END_TEST

START_TEST(a_part_of_the_ranks_can_agree_by_itself)
{
    const int rank = rank_of(MPI_COMM_WORLD);
    const bool odd = rank % 2 == 1;
    char said[256];
    MPI_Comm half;

    MPI_Comm_split(MPI_COMM_WORLD, odd, rank, &half);

    const pl_status worst = pl_agree(half, odd ? PL_WRONG : PL_OK);

    MPI_Comm_free(&half);
    agree_and_listen(PL_OK, said, sizeof said);
    ck_all(MPI_COMM_WORLD, worst == (odd ? PL_WRONG : PL_OK));
}
END_TEST

START_TEST(the_harness_hears_one_rank_that_dissents)
{
    const int rank = rank_of(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    char expected[96];

    for (int odd_one = 0; odd_one < size; odd_one++) {
        const bool agreed = ck_agreed(MPI_COMM_WORLD, rank != odd_one);

        snprintf(expected, sizeof expected, "on 1 of %d ranks, first rank %d", size, odd_one);
        ck_assert(!agreed);
        ck_assert_str_eq(ck_dissent(), expected);
    }
    ck_assert(ck_agreed(MPI_COMM_WORLD, true));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("agree");
    TCase *tests = tcase_create("agree");

    tcase_add_test(tests, when_all_is_well_nobody_speaks);
    tcase_add_test(tests, a_refusal_of_all_ranks_is_printed_once_by_rank_0);
    tcase_add_test(tests, the_lowest_rank_with_the_worst_status_speaks_and_is_named);
    tcase_add_test(tests, agreeing_forgets_the_message_everywhere);
    tcase_add_test(tests, a_part_of_the_ranks_can_agree_by_itself);
    tcase_add_test(tests, the_harness_hears_one_rank_that_dissents);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
