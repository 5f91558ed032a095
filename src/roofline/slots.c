#include "config.h"

#include "src/roofline/slots.h"

#include "src/base/memory.h"
#include "src/base/panic.h"

typedef struct {
    const pl_slot_times *times;
    pl_slot *slots;        /* [n_stages][2 m] */
    int *at;               /* [n_stages] the next slot */
    double *now_s;         /* [n_stages] */
    double *forward_end_s; /* [n_stages][m]; -1: not yet */
    double *backward_end_s;
} replay;

/* When what the slot needs of its neighbour is there; negative: not known yet. */
static double ready_s(const replay *r, int s, pl_slot slot)
{
    const pl_slot_times *t = r->times;
    const int m = t->n_microbatches, last = t->n_stages - 1;
    double end_s;

    if (slot.phase == PL_FORWARD) {
        if (s == 0)
            return 0;
        end_s = r->forward_end_s[(s - 1) * m + slot.microbatch];
        return end_s < 0 ? -1 : end_s + t->hop_s[s - 1];
    }
    if (s == last)
        return r->forward_end_s[s * m + slot.microbatch];
    end_s = r->backward_end_s[(s + 1) * m + slot.microbatch];
    return end_s < 0 ? -1 : end_s + t->hop_s[s];
}

/* As many slots of stage s as can be; whether any. */
static bool advance(replay *r, int s, pl_slot_visit *visit, void *context)
{
    const pl_slot_times *t = r->times;
    const int m = t->n_microbatches;
    bool moved = false;

    while (r->at[s] < 2 * m) {
        const pl_slot slot = r->slots[s * 2 * m + r->at[s]];
        const bool forward = slot.phase == PL_FORWARD;
        const double ready = ready_s(r, s, slot);

        if (ready < 0)
            break;
        const double begin_s = ready > r->now_s[s] ? ready : r->now_s[s];
        r->now_s[s] = begin_s + (forward                   ? t->forward_s[s]
                                 : slot.microbatch < m - 1 ? t->backward_s[s]
                                                           : t->last_backward_s[s]);
        (forward ? r->forward_end_s : r->backward_end_s)[s * m + slot.microbatch] = r->now_s[s];
        if (visit)
            visit(s, slot, begin_s, r->now_s[s], context);
        r->at[s]++;
        moved = true;
    }
    return moved;
}

static void replay_init(replay *r, pl_arena *arena, const pl_slot_times *times)
{
    const size_t n = (size_t)times->n_stages, m = (size_t)times->n_microbatches;

    r->times = times;
    r->slots = pl_arena_alloc(arena, 2 * n * m * sizeof *r->slots);
    r->at = pl_arena_alloc(arena, n * sizeof *r->at);
    r->now_s = pl_arena_alloc(arena, n * sizeof *r->now_s);
    r->forward_end_s = pl_arena_alloc(arena, n * m * sizeof *r->forward_end_s);
    r->backward_end_s = pl_arena_alloc(arena, n * m * sizeof *r->backward_end_s);
    for (size_t i = 0; i < n * m; i++)
        r->forward_end_s[i] = r->backward_end_s[i] = -1;
    for (int s = 0; s < times->n_stages; s++)
        pl_pipeline_slots(times->kind, times->n_stages, times->n_microbatches, s, false,
                          r->slots + (size_t)s * 2 * m);
}

/* Down the stages and up again, as activations and gradients go: each way one pass does much. */
static void replay_all(replay *r, pl_slot_visit *visit, void *context)
{
    const int n = r->times->n_stages;
    bool moved = true;

    while (moved) {
        moved = false;
        for (int s = 0; s < n; s++)
            moved |= advance(r, s, visit, context);
        for (int s = n - 1; s >= 0; s--)
            moved |= advance(r, s, visit, context);
    }
    for (int s = 0; s < n; s++)
        if (r->at[s] < 2 * r->times->n_microbatches)
            PL_PANIC("stage %d of the pipeline waits for ever", s);
}

double pl_slots_replay(const pl_slot_times *times, double *end_s, pl_slot_visit *visit,
                       void *context)
{
    pl_arena *arena = pl_arena_create();
    double last_s = 0;
    replay r;

    replay_init(&r, arena, times);
    replay_all(&r, visit, context);
    for (int s = 0; s < times->n_stages; s++) {
        if (end_s)
            end_s[s] = r.now_s[s];
        last_s = r.now_s[s] > last_s ? r.now_s[s] : last_s;
    }
    pl_arena_destroy(arena);
    return last_s;
}
