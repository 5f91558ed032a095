/* pp -- pipeline parallelism: weights[L_pp, ...]: stage s holds a block of the layers; microbatches
 * flow through the stages (book, section 5). L is not a dim of any array but the list of layers
 * itself, so there are no rules: see src/program/unroll.h and strategies/pipeline.h. */
#include "config.h"

#include "strategies/strategy.h"

const pl_strategy pl_pp = {.name = "pp",
                           .what =
                               "pipeline parallelism: layers split into stages (see --schedule)",
                           .rules = NULL,
                           .n_rules = 0};
