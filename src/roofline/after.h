/* after -- how long a schedule takes when all ranks have just done something else, as in a step,
 * where kernels come between two runs of a communication. */
#ifndef PURLIN_ROOFLINE_AFTER_H
#define PURLIN_ROOFLINE_AFTER_H

#include "src/roofline/measure.h"

/** All ranks of the host signal and await each other, n_stages times; to be destroyed. Local. */
pl_schedule *pl_measure_signals(const pl_group *group, int n_stages);

/** Seconds of a run of the schedule, f32, without scratch, which all begin together when all have
 * called before(data), as pl_measure_part_s(). Nobody calls it again while another still runs the
 * schedule: it may share a core with it, or memory. before() is local; group is the ranks of a host
 * (all hosts at once), arrays lie in `heap`. Collective over m->comm. */
double pl_measure_after_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                          const pl_schedule *schedule, void *const *arrays, int n_arrays,
                          pl_measured before, void *data);

#endif
