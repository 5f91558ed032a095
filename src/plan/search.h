/* search -- the strategies that a machine can run a model with, and the fastest of them.
 *
 * Every way to write the chips as pp x dp x fsdp x tp, sequences in pieces (cp) and experts dealt
 * out (ep), is a candidate (plan/candidate.h). It is laid out on the machine's network
 * (plan/place.h), bounded from below (plan/bound.h), and, the most promising first, estimated as it
 * fits in memory (plan/fit.h) from its program (roofline/estimate.h) and what programs lack
 * (plan/beyond.h). What cannot beat the best few is not looked at. */
#ifndef PURLIN_PLAN_SEARCH_H
#define PURLIN_PLAN_SEARCH_H

#include "src/plan/candidate.h"

enum { PL_MAX_PLANS = 16 };

typedef struct {
    int n_meshes;    /* ways to write the chips */
    int n_refused;   /* heads, layers or batch do not allow them */
    int n_unplaced;  /* the network does not have them */
    int n_too_large; /* for memory, whatever was tried */
    int n_bounded;   /* were not looked at: */
    bool is_proven;  /* because none of them can be among the best; else effort ran out */
    int n_priced;
    int n; /* plans, the fastest first */
    pl_candidate best[PL_MAX_PLANS];
} pl_search_result;

/** Search. Refuses what no mesh can do: given degrees whose product is not the chips, a slice that
 * does not exist, memory that nothing fits in (says by how much and what would). Deterministic.
 * Local. */
pl_status pl_search(const pl_search_options *options, pl_search_result *result);

#endif
