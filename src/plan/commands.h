/* commands -- the subcommands of ./plan: `plan NAME ...` runs the row of that name, `plan ...`
 * without a name the search. Adding one is a file and a row. No MPI is needed or started. */
#ifndef PURLIN_PLAN_COMMANDS_H
#define PURLIN_PLAN_COMMANDS_H

#include "src/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const char *name; /* "matmul" */
    const char *what; /* one line for --help */
    /* argv[0] is "plan NAME"; results on stdout; a refusal is recorded and returned. */
    pl_status (*run)(int argc, char **argv);
} pl_plan_command;

extern const pl_plan_command pl_plan_commands[];
extern const int pl_n_plan_commands;

/** Run the subcommand that argv[1] names. Refuses an unknown one with the list of those known. */
pl_status pl_plan_dispatch(int argc, char **argv);

/* The rows' functions, one file each. */
pl_status pl_plan_search(int argc, char **argv);
pl_status pl_plan_simulate(int argc, char **argv);
pl_status pl_plan_verify(int argc, char **argv);
pl_status pl_plan_hardware(int argc, char **argv);
pl_status pl_plan_formula(int argc, char **argv);
pl_status pl_plan_params(int argc, char **argv);
pl_status pl_plan_matmul(int argc, char **argv);
pl_status pl_plan_collective(int argc, char **argv);
pl_status pl_plan_shard(int argc, char **argv);
pl_status pl_plan_memory(int argc, char **argv);
pl_status pl_plan_inference(int argc, char **argv);
pl_status pl_plan_bounds(int argc, char **argv);
pl_status pl_plan_train_time(int argc, char **argv);
pl_status pl_plan_mfu(int argc, char **argv);

#endif
