/* beside -- what messages cost the kernels that run beside them: copies into and out of the
 * network's buffers, interrupts, looking whether something has come; and what kernels cost the
 * messages, which are looked after now and then only. */
#ifndef PURLIN_ROOFLINE_BESIDE_H
#define PURLIN_ROOFLINE_BESIDE_H

#include "src/roofline/measure.h"

enum { PL_BESIDE_TRIES = 15 };

/* Of some runs, on one rank: lower quartiles, since at 1 Gbit/s medians of calibrations that were
 * minutes apart differed by a third; where ranks take turns, medians. */
typedef struct {
    double core_s;   /* by which products take longer; at least 0 */
    double apart_s;  /* of these, what products do not take themselves: while calls made progress of
                        the transfer and, where ranks take turns, while others had the core */
    double late_s;   /* by which the transfer takes longer; at least 0 */
} pl_beside;

/** Matrix products, and one run of the schedule beside them, from its start to its end. Between two
 * calls that make progress products do as much as kernels do. Where ranks
 * take turns on cores all of them are busy throughout. The schedule is over a group in m->comm (all
 * groups at once), f32, without scratch; n_tries at most PL_BESIDE_TRIES. Collective over m->comm.
 */
pl_beside pl_measure_beside(const pl_measure *m, pl_heap *heap, const pl_group *group,
                            const pl_schedule *schedule, void *const *arrays, int n_arrays,
                            int n_tries);

#endif
