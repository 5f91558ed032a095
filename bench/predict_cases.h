/* predict_cases -- the trainings that bench/predict_bench predicts and runs. */
#ifndef PURLIN_BENCH_PREDICT_CASES_H
#define PURLIN_BENCH_PREDICT_CASES_H

#include "src/train/options.h"

#include <stdbool.h>

enum { N_MODELS = 3, N_STRATEGIES = 4, N_CASES = N_MODELS * N_STRATEGIES };

/** Case i is model i / N_STRATEGIES under strategy i % N_STRATEGIES. */
const char *case_model(int i);
const char *case_strategy(int i);
/** By "MODEL/STRATEGY", "MODEL" or "STRATEGY": marks each case that it names; false: none. */
bool case_choose(const char *name, bool chosen[N_CASES]);

/** Write what models are no presets into `folder`, for case_options(); then remove them with it. */
void cases_write(const char *folder);
void cases_remove(const char *folder);

/** The options of ./train for a case over n_ranks; false: the strategy does not fit the model. */
bool case_options(int i, const char *folder, int n_ranks, pl_options *options);

#endif
