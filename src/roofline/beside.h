/* beside -- what messages cost the kernels that run beside them: copies into and out of the
 * network's buffers, interrupts, looking whether something has come. */
#ifndef PURLIN_ROOFLINE_BESIDE_H
#define PURLIN_ROOFLINE_BESIDE_H

#include "src/roofline/measure.h"

/** Seconds by which matrix products take longer while one run of the schedule is under way, from its
 * start to its end: the median of some runs, on the rank where it is most; at least 0. Where ranks
 * take turns on cores all of them are busy throughout. The schedule is over a group in m->comm (all
 * groups at once), f32, without scratch. The same on all ranks. Collective over m->comm. */
double pl_measure_beside_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                           const pl_schedule *schedule, void *const *arrays, int n_arrays);

#endif
