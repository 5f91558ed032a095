/* compare -- `--compare K`: the strategies that this job could run, predicted, and some of them run
 * in turn, so that it shows whether the one that prediction chooses is the fastest. */
#ifndef PURLIN_TRAIN_COMPARE_H
#define PURLIN_TRAIN_COMPARE_H

#include "src/roofline/choose.h"
#include "src/train/session.h"

/* What a comparison comes to. */
typedef struct {
    int chosen, fastest;     /* by prediction, by measurement: places among what was compared */
    double regret;           /* measured: chosen / fastest - 1 */
    double rank_correlation; /* Spearman's, of predicted and measured steps; NaN: only one */
} pl_verdict;

/** Judge n plans by their predicted and measured steps. Local. */
pl_verdict pl_compare_judge(const double *predicted_s, const double *measured_s, int n);

/** Mark in picked[choices->n] what is worth running: the `top` first of those that fit in memory,
 * and for dp, fsdp, tp and pp each the first of those in which its degree is the largest, so that
 * prediction is held against plans unlike the one that it likes. Returns how many. Local. */
int pl_compare_pick(const pl_choices *choices, int64_t top, bool *picked);

/** Run the whole command: predict every strategy that --strategy leaves open, run the picked ones
 * in turn (one step of each to warm up, then --steps rounds, every other one backwards; a step
 * counts as long as its slowest rank takes, a plan as its median), print the table, log it. With
 * --dry-run nothing is run. The plans stay open between rounds where memory allows. The session has
 * been opened. Collective over session->world. */
pl_status pl_compare(pl_session *session);

#endif
