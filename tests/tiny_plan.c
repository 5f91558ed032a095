#include "config.h"

#include "tests/tiny_plan.h"

#include <check.h>

pl_plan tiny_plan(const char *spec, int64_t batch, int64_t micro_batch)
{
    pl_plan plan = {.adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                    .batch = batch,
                    .micro_batch = micro_batch,
                    .seq = 63};

    ck_assert(pl_spec_parse(spec, &plan.spec) == PL_OK);
    ck_assert(pl_model_config_preset("tiny", &plan.model) == PL_OK);
    return plan;
}
