/* choose -- degrees that a spec leaves out, by predicted step time. */
#ifndef PURLIN_ROOFLINE_CHOOSE_H
#define PURLIN_ROOFLINE_CHOOSE_H

#include "src/roofline/build.h"
#include "src/roofline/predict.h"

/** Predict a step of a plan whose degrees are set: builds every stage's program on pl_spec_mesh().
 * Free with pl_prediction_destroy(). Local. */
pl_prediction *pl_plan_predict(const pl_plan *plan, const pl_machine *machine);

/** Set the degrees that plan->spec leaves out to the fastest by prediction among all whose product
 * is n_ranks, that pl_spec_check() accepts, and that need at most memory_bytes a rank (0: no
 * limit). `why` receives one line: what was chosen, its predicted step, and the next best; it is
 * empty when nothing was left to choose. Degrees that are given are kept, and checked only with
 * pl_spec_check(). Refuses when nothing fits, with the reason, and leaves the plan alone.
 * Deterministic: ranks with the same machine choose alike. Cost: a build and a replay for every
 * factorisation. machine NULL: nothing is predicted, and degrees are set only when they are the
 * only ones that pl_spec_check() accepts; to be asked before a machine is measured. Local. */
pl_status pl_choose(pl_plan *plan, int64_t n_ranks, const pl_machine *machine, int64_t memory_bytes,
                    char *why, size_t size);

#endif
