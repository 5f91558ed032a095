/* search_case -- a model and a search as the tests of ./plan's search start from. */
#ifndef PURLIN_TESTS_SEARCH_CASE_H
#define PURLIN_TESTS_SEARCH_CASE_H

#include "src/plan/search.h"

/** LLaMA-like, 7 G parameters: 32 layers, D 4096, F 14336, 32 heads and 8 of keys and values. */
extern const pl_model_config case_model;

/** A search for its fastest plans, at most four, in bf16 with everything open, on a machine of that
 * name: `sequences` of 4096 tokens a step. */
pl_search_options search_case(const char *hw, int64_t chips, int64_t sequences);

#endif
