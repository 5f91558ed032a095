/* fsdp -- ZeRO-3: In[B_fsdp, D] . W_in[D_fsdp, F] . W_out[F, D_fsdp] -> Out[B_fsdp, D]
 * Weights are gathered a layer ahead of their use; gradients are reduce-scattered (book, section
 * 5). The embedding and the head are split over V, so that a lookup reads whole rows. */
#include "config.h"

#include "strategies/strategy.h"

static const pl_rule rules[] = {
    {PL_ACTIVATION, 'B', 0}, {PL_TOKEN, 'B', 0},    {PL_WEIGHT, 'V', 0}, {PL_WEIGHT, 'D', 0},
    {PL_GRADIENT, 'V', 0},   {PL_GRADIENT, 'D', 0}, {PL_MOMENT, 'V', 0}, {PL_MOMENT, 'D', 0},
};

const pl_strategy pl_fsdp = {.name = "fsdp",
                             .what = "fully sharded data parallelism (ZeRO-3)",
                             .rules = rules,
                             .n_rules = sizeof rules / sizeof *rules};
