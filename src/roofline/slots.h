/* slots -- a pipeline replayed slot by slot: for thousands of stages and microbatches, where the
 * replay op by op (roofline/predict.h) would be too long. */
#ifndef PURLIN_ROOFLINE_SLOTS_H
#define PURLIN_ROOFLINE_SLOTS_H

#include "strategies/pipeline.h"

/* What is known of the pipeline. Arrays are indexed by stage. */
typedef struct {
    pl_pipeline_kind kind;
    int n_stages, n_microbatches;
    const double *forward_s, *backward_s; /* a slot, from its first kernel to the next slot's */
    const double *last_backward_s; /* of the last microbatch, whose gradients are then reduced */
    const double *hop_s;           /* activations from stage s to s+1, and gradients back */
} pl_slot_times;

/** Called for every slot as it is replayed. */
typedef void pl_slot_visit(int stage, pl_slot slot, double begin_s, double end_s, void *context);

/** Replay: a stage runs its slots in order (strategies/pipeline.h), each no earlier than what it
 * needs of its neighbour has arrived. end_s[n_stages] (may be NULL) receives when each stage is
 * done; `visit` may be NULL. Returns when the last is. Cost: stages x microbatches. Source: the
 * bubble (p-1)/(m+p-1) of equal stages, book, section 5. Local. */
double pl_slots_replay(const pl_slot_times *times, double *end_s, pl_slot_visit *visit,
                       void *context);

#endif
