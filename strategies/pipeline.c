#include "config.h"

#include "strategies/pipeline.h"

#include "src/base/memory.h"

#include <string.h>

pl_status pl_pipeline_parse(const char *text, pl_pipeline_kind *kind)
{
    if (strcmp(text, "gpipe") == 0)
        *kind = PL_GPIPE;
    else if (strcmp(text, "1f1b") == 0)
        *kind = PL_1F1B;
    else
        return pl_refuse(PL_BAD_INPUT, "--schedule: there is no schedule '%s'; gpipe or 1f1b",
                         text);
    return PL_OK;
}

const char *pl_pipeline_name(pl_pipeline_kind kind)
{
    return kind == PL_GPIPE ? "gpipe" : "1f1b";
}

int pl_pipeline_slots(pl_pipeline_kind kind, int n_stages, int n_microbatches, int stage,
                      bool forward_only, pl_slot *slots)
{
    /* Forward passes that run before the first backward pass. */
    const int ahead_1f1b = n_stages - stage < n_microbatches ? n_stages - stage : n_microbatches;
    const int ahead = kind == PL_GPIPE || forward_only ? n_microbatches : ahead_1f1b;
    int n = 0, forward = 0;

    for (; forward < ahead; forward++)
        slots[n++] = (pl_slot){PL_FORWARD, forward};
    for (int backward = 0; backward < n_microbatches && !forward_only; backward++) {
        slots[n++] = (pl_slot){PL_BACKWARD, backward};
        if (forward < n_microbatches)
            slots[n++] = (pl_slot){PL_FORWARD, forward++};
    }
    return n;
}

double pl_pipeline_bubble(int n_stages, int n_microbatches)
{
    return (double)(n_stages - 1) / (double)(n_microbatches + n_stages - 1);
}

/* Whether `stage` may run its next slot, given how many forward and backward passes each stage has
 * done: both run in order of microbatches. */
static bool is_ready(pl_slot slot, int stage, int n_stages, const int *forward, const int *backward)
{
    if (slot.phase == PL_FORWARD)
        return stage == 0 || forward[stage - 1] > slot.microbatch;
    return forward[stage] > slot.microbatch &&
           (stage == n_stages - 1 || backward[stage + 1] > slot.microbatch);
}

bool pl_pipeline_completes(pl_pipeline_kind kind, int n_stages, int n_microbatches)
{
    const size_t per_stage = 2 * (size_t)n_microbatches;
    pl_slot *slots = pl_alloc((size_t)n_stages * per_stage * sizeof *slots);
    int *done = pl_alloc(3 * (size_t)n_stages * sizeof *done);
    int *forward = done + n_stages, *backward = done + 2 * n_stages;
    int64_t left = 0;
    bool moved = true;

    for (int s = 0; s < n_stages; s++)
        left += pl_pipeline_slots(kind, n_stages, n_microbatches, s, false,
                                  slots + (size_t)s * per_stage);
    while (moved) {
        moved = false;
        for (int s = 0; s < n_stages; s++) {
            const pl_slot *next = slots + (size_t)s * per_stage + done[s];

            if (done[s] == (int)per_stage || !is_ready(*next, s, n_stages, forward, backward))
                continue;
            *(next->phase == PL_FORWARD ? &forward[s] : &backward[s]) += 1;
            done[s]++;
            left--;
            moved = true;
        }
    }
    pl_free(slots);
    pl_free(done);
    return left == 0;
}
