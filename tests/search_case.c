#include "config.h"

#include "tests/search_case.h"

#include "tests/scratch.h"

const pl_model_config case_model = {.name = "toy",
                                    .n_layers = 32,
                                    .d_model = 4096,
                                    .n_heads = 32,
                                    .n_kv_heads = 8,
                                    .head_dim = 128,
                                    .d_ff = 14336,
                                    .vocab = 32000,
                                    .max_seq = 4096,
                                    .rms_eps = 1e-5,
                                    .rope_theta = 1e4};

pl_search_options search_case(const char *hw, int64_t chips, int64_t sequences)
{
    pl_search_options o = {.model = case_model,
                           .dtype = PL_BF16,
                           .chips = chips,
                           .sequences = sequences,
                           .seq = case_model.max_seq,
                           .zero = PL_AUTO,
                           .remat = PL_AUTO,
                           .pipeline = PL_1F1B,
                           .effort = 40,
                           .n_plans = 4};

    ck_accepted(pl_hardware_find(hw, &o.hw));
    ck_accepted(pl_hardware_machine(&o.hw, PL_PEAK_BF16, &o.machine));
    o.peak_flops_per_s = o.machine.peak_flops_per_s;
    return o;
}
