/* fit -- what a candidate takes when it is run as well as memory allows: the least ZeRO stage, the
 * least rematerialisation, and the microbatch, by estimate (roofline/estimate.h). */
#ifndef PURLIN_PLAN_FIT_H
#define PURLIN_PLAN_FIT_H

#include "src/plan/candidate.h"

typedef struct pl_fitter pl_fitter;

/** The options must outlive it. Local, as is everything here. */
pl_fitter *pl_fitter_create(const pl_search_options *o);
void pl_fitter_destroy(pl_fitter *f);

/** Set c's microbatch, ZeRO stage, rematerialisation and estimate: without a pipeline the largest
 * microbatch that fits, with one as large as pays; false when nothing fits. */
bool pl_fit(pl_fitter *f, pl_candidate *c);

/** The least that kernels of a plan with this degree of tp have been seen to take; 0: none yet. */
double pl_fit_seen_s(const pl_fitter *f, int tp);

/** Programs built and priced so far. */
int pl_fit_n_priced(const pl_fitter *f);

/** Of those that were too large: the smallest, and what it needs; NULL: there were none. */
const char *pl_fit_smallest(const pl_fitter *f, double *bytes);

#endif
