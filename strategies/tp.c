/* tp -- tensor parallelism: In[T_tp, B, D] . W_in[D, F_tp] . W_out[D, F_tp] -> Out[T_tp, B, D]
 * Heads, F and V are split inside a block. Between blocks the residual stream is split over T
 * (sequence form), not over D as the book writes it: the bytes are the same (an AllGather before
 * and a ReduceScatter after each block), and RMSNorm, which needs whole rows of D, stays local. T
 * comes last, so it applies only where nothing else is split over tp. Source: Korthikanti et al.,
 * arXiv 2205.05198; book, section 5. */
#include "config.h"

#include "strategies/strategy.h"

#define SPLIT_OVER_HEADS_F_V(class)                                                                \
    {class, 'N', 0}, {class, 'K', 0}, {class, 'F', 0},                                             \
    {                                                                                              \
        class, 'V', 0                                                                              \
    }

static const pl_rule rules[] = {
    SPLIT_OVER_HEADS_F_V(PL_WEIGHT), SPLIT_OVER_HEADS_F_V(PL_GRADIENT),
    SPLIT_OVER_HEADS_F_V(PL_MOMENT), SPLIT_OVER_HEADS_F_V(PL_ACTIVATION),
    {PL_ACTIVATION, 'T', 0},
};

const pl_strategy pl_tp = {.name = "tp",
                           .what = "tensor parallelism: heads, feed-forward and vocabulary split",
                           .rules = rules,
                           .n_rules = sizeof rules / sizeof *rules};
