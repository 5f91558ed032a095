/* pipeline -- pipeline schedules as data: for each stage, the order in which it runs the forward
 * and backward passes of the microbatches. Gradient accumulation is the same list with one stage.
 *
 *   GPipe  all forward passes, then all backward passes      (Huang et al., arXiv 1811.06965)
 *   1F1B   stage s runs min(stages - s - 1, m) forward passes ahead, then one forward, one
 * backward: at most stages - s microbatches' activations live  (Narayanan et al., arXiv 1806.03377)
 *
 * Both leave the bubble (stages - 1) / (m + stages - 1); any number m >= 1 of microbatches works.
 */
#ifndef PURLIN_STRATEGIES_PIPELINE_H
#define PURLIN_STRATEGIES_PIPELINE_H

#include "src/program/unroll.h"

typedef enum { PL_GPIPE, PL_1F1B } pl_pipeline_kind;

/** "gpipe" or "1f1b"; refuses others. */
pl_status pl_pipeline_parse(const char *text, pl_pipeline_kind *kind);
const char *pl_pipeline_name(pl_pipeline_kind kind);

/** Stage `stage`'s slots, in order: 2 n_microbatches of them (n_microbatches when forward_only).
 * `slots` has room for 2 n_microbatches. */
int pl_pipeline_slots(pl_pipeline_kind kind, int n_stages, int n_microbatches, int stage,
                      bool forward_only, pl_slot *slots);

/** Whether all stages get through their slots when each waits for what it needs from its neighbours
 * (activations from the stage before, gradients from the one after). */
bool pl_pipeline_completes(pl_pipeline_kind kind, int n_stages, int n_microbatches);

/** The share of time that a stage idles: (stages - 1) / (m + stages - 1). */
double pl_pipeline_bubble(int n_stages, int n_microbatches);

#endif
