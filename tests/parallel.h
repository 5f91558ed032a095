/* parallel -- suites that run under mpirun.
 *
 * A suite ends with   int main(int argc, char **argv) { return ck_parallel_main(argc, argv,
 * make_suite); } All ranks run every test in step and without forking; an assertion that one rank
 * could fail alone must be ck_all(), or the others would wait for that rank for ever. Rank 0
 * reports. tests/mpi-run limits the time. */
#ifndef PURLIN_TESTS_PARALLEL_H
#define PURLIN_TESTS_PARALLEL_H

#include "tests/check_main.h"

#include <mpi.h>
#include <stdbool.h>

/** Start MPI, run the suite that `make_suite` makes, end MPI; the exit code, alike on all ranks.
 * Inside tests MPI_COMM_WORLD returns its errors, and pl_log_rank() is this rank. */
int ck_parallel_main(int argc, char **argv, Suite *(*make_suite)(void));

/** Whether the condition holds on every rank of comm. Collective over comm. */
bool ck_agreed(MPI_Comm comm, bool condition);

/** "on N of P ranks, first rank R" about the last ck_agreed() that said no. */
const char *ck_dissent(void);

/** Fail the test on every rank of comm unless the condition holds on all of them.
 * Collective over comm. */
#define ck_all(comm, condition)                                                                    \
    ck_assert_msg(ck_agreed(comm, condition), "\"%s\" does not hold %s", #condition, ck_dissent())

/** ck_all with a message of one's own (printed by rank 0, with rank 0's values). */
#define ck_all_msg(comm, condition, format, ...)                                                   \
    ck_assert_msg(ck_agreed(comm, condition), "\"%s\" does not hold %s: " format, #condition,      \
                  ck_dissent(), __VA_ARGS__)

#endif
