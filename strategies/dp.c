/* dp -- data parallelism: In[B_dp, D] . W_in[D, F] . W_out[F, D] -> Out[B_dp, D]   (book, section
 * 5) ZeRO-1 shards the optimizer's moments over dp, ZeRO-2 also the gradients: the AllReduce of
 * gradients becomes a ReduceScatter, and the new weights are gathered. (ZeRO-3 is fsdp.)
 * Source: Rajbhandari et al., arXiv 1910.02054. */
#include "config.h"

#include "strategies/strategy.h"

static const pl_rule rules[] = {
    {PL_ACTIVATION, 'B', 0}, {PL_TOKEN, 'B', 0},    {PL_MOMENT, 'V', 1},
    {PL_MOMENT, 'D', 1},     {PL_GRADIENT, 'V', 2}, {PL_GRADIENT, 'D', 2},
};

const pl_strategy pl_dp = {.name = "dp",
                           .what = "data parallelism: every rank holds all weights (see --zero)",
                           .rules = rules,
                           .n_rules = sizeof rules / sizeof *rules};
