/* here -- plans for the machine at hand: a job of `train --compare`, which predicts, and if asked
 * runs, every strategy of so many ranks. What it says is what train itself says and does. */
#ifndef PURLIN_PLAN_HERE_H
#define PURLIN_PLAN_HERE_H

#include "src/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PL_HERE_WORDS = 40 };

typedef struct {
    int64_t n_ranks;
    const char *train; /* the program; NULL: train beside the one that runs */
    bool json;         /* one object in place of train's table */
    int n_words;
    const char *words[PL_HERE_WORDS]; /* options of train */
} pl_here;

/** Pass an option on: "--seq", "256". A value of NULL: it was not given, and is left out. Local. */
void pl_here_option(pl_here *job, const char *flag, const char *value);

/** Start the job by $MPIRUN, or mpirun; its table, or with json one object of what it logs, goes to
 * stdout. Returns train's own exit code (it has said why), or refuses. Local. */
pl_status pl_here_run(const pl_here *job);

#endif
