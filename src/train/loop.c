#include "config.h"

#include "src/train/loop.h"

#include "src/base/log.h"
#include "src/train/banner.h"

pl_status pl_train(pl_session *s)
{
    pl_status status = pl_session_plan(s);
    if (status != PL_OK)
        return status;
    pl_banner_print(s);
    status = pl_session_start(s);
    for (int64_t step = 0; step < s->options->steps && status == PL_OK; step++) {
        pl_step_result r;
        status = pl_session_step(s, step, &r);
        pl_print("step %lld loss %.7f norm %.7f %.3f s\n", (long long)step, r.loss, r.grad_norm, r.step_s);
    }
    return status;
}
