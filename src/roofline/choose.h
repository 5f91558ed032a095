/* choose -- degrees that a spec leaves out, by predicted step time. The one place where the
 * strategies that a job could run are enumerated and ranked: `train --strategy fsdp+tp` takes the
 * first, `train --compare` (and so `plan verify` and `plan --hw this`) shows all. */
#ifndef PURLIN_ROOFLINE_CHOOSE_H
#define PURLIN_ROOFLINE_CHOOSE_H

#include <mpi.h>

#include "src/roofline/build.h"
#include "src/roofline/predict.h"

/** Predict a step of a plan whose degrees are set: builds every stage's program on pl_spec_mesh().
 * Free with pl_prediction_destroy(). Local. */
pl_prediction *pl_plan_predict(const pl_plan *plan, const pl_machine *machine);

typedef struct {
    pl_spec spec;
    double step_s;        /* predicted */
    int64_t memory_bytes; /* of a rank */
    bool fits;
} pl_choice;

typedef struct {
    int n, n_fit;
    pl_choice *choice; /* [n] those that fit in memory, the fastest first; then the others, the
                        * smallest first */
} pl_choices;

/** Every way to set the degrees that plan->spec leaves out: all whose product is n_ranks and that
 * pl_spec_check() accepts, predicted (machine NULL: not predicted, in the order of trial); fits: in
 * memory_bytes a rank (0: no limit). Refuses when nothing fits, with the reason. Deterministic:
 * ranks with the same machine find alike. Cost: a build and a replay for every factorisation, which
 * the ranks of comm share; all must ask alike. Free with pl_choices_free(). Collective over comm;
 * MPI_COMM_NULL: local. */
pl_status pl_choices_find(const pl_plan *plan, int64_t n_ranks, const pl_machine *machine,
                          int64_t memory_bytes, MPI_Comm comm, pl_choices *choices);
void pl_choices_free(pl_choices *choices);

/** Set the degrees that plan->spec leaves out to the first of pl_choices_find(). `why` receives one
 * line: what was chosen, its predicted step, and the next best; it is empty when nothing was left
 * to choose. Degrees that are given are kept, and checked only with pl_spec_check(). Refuses as
 * pl_choices_find() does, and leaves the plan alone. machine NULL: nothing is predicted, and
 * degrees are set only when they are the only ones that pl_spec_check() accepts; to be asked before
 * a machine is measured. Collective as pl_choices_find() is. */
pl_status pl_choose(pl_plan *plan, int64_t n_ranks, const pl_machine *machine, int64_t memory_bytes,
                    MPI_Comm comm, char *why, size_t size);

#endif
