#include "config.h"

#include "src/plan/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const pl_plan_command pl_plan_commands[] = {
    {"search", "the fastest mesh and strategy for a model (`plan --model ...`)", pl_plan_search},
    {"simulate", "a step as a trace: pipeline, stragglers, slow links, lost chips",
     pl_plan_simulate},
    {"verify", "run the best plans on this machine: predicted against measured", pl_plan_verify},
    {"hardware", "the machines that are known, or one of them", pl_plan_hardware},
    {"formula", "any formula of the book, with its numbers", pl_plan_formula},
    {"params", "parameters, FLOPs and cache of a model", pl_plan_params},
    {"matmul", "a matrix product on one chip", pl_plan_matmul},
    {"collective", "a collective over some chips", pl_plan_collective},
    {"shard", "a product of sharded arrays: its collectives and what they cost", pl_plan_shard},
    {"memory", "what a training step keeps on a chip", pl_plan_memory},
    {"inference", "serving: cache, prefill, decode, throughput by batch", pl_plan_inference},
    {"bounds", "when each strategy is compute-bound", pl_plan_bounds},
    {"train-time", "days and cost of a training run", pl_plan_train_time},
    {"mfu", "the share of the peak that a run uses", pl_plan_mfu},
};
const int pl_n_plan_commands = sizeof pl_plan_commands / sizeof pl_plan_commands[0];

static void print_help(void)
{
    printf("Usage: plan COMMAND [OPTION...]\n"
           "How long a step takes, what it needs and what it costs, before it runs.\n\n");
    for (int i = 0; i < pl_n_plan_commands; i++)
        printf("  %-12s %s\n", pl_plan_commands[i].name, pl_plan_commands[i].what);
    printf("\n`plan COMMAND --help` says more of each. Exit status: 0 good, 1 wrong result, 2 bad\n"
           "options or input, 3 environment, 4 internal.\n");
}

static pl_status refuse_command(const char *name)
{
    char known[512] = "";
    size_t n = 0;

    for (int i = 0; i < pl_n_plan_commands && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "",
                              pl_plan_commands[i].name);
    return pl_refuse(PL_BAD_INPUT, "plan has no command \"%s\"; it has: %s", name, known);
}

pl_status pl_plan_dispatch(int argc, char **argv)
{
    char name[64];

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0) {
        print_help();
        return PL_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("%s\n", PACKAGE_STRING);
        return PL_OK;
    }
    if (argv[1][0] == '-')
        return pl_plan_search(argc, argv);
    for (int i = 0; i < pl_n_plan_commands; i++)
        if (strcmp(argv[1], pl_plan_commands[i].name) == 0) {
            snprintf(name, sizeof name, "plan %s", argv[1]);
            argv[1] = name;
            return pl_plan_commands[i].run(argc - 1, argv + 1);
        }
    return refuse_command(argv[1]);
}
