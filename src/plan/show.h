/* show -- plans as people read them, and as JSON. Local. */
#ifndef PURLIN_PLAN_SHOW_H
#define PURLIN_PLAN_SHOW_H

#include "src/base/json.h"
#include "src/plan/search_options.h"

/** The search's outcome: the best plan with all its figures, and why those after it lose. */
void pl_show_plans(const pl_search_command *c, const pl_search_result *r);

/** The same as an object. */
json_t *pl_plans_json(const pl_search_command *c, const pl_search_result *r);

/** One plan as an object. */
json_t *pl_candidate_json(const pl_search_command *c, const pl_candidate *k);

/** Tokens a second, all chips. */
double pl_tokens_per_s(const pl_search_command *c, const pl_candidate *k);

/** MFU of a measured step; refuses one above 100%, with the peak that was used. */
pl_status pl_measured_mfu(const pl_search_command *c, double *mfu);

#endif
