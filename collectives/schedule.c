#include "config.h"

#include "collectives/schedule.h"

#include "collectives/region.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

struct pl_schedule {
    pl_arena *arena; /* the regions' pieces */
    pl_step *steps;  /* of all rounds, in order */
    int n_steps, max_steps;
    int *round_begin; /* [n_closed + 1]: first step of each round; the last is the open round's */
    int n_closed, max_rounds;
    int64_t round_scratch;    /* elements that the open round receives to reduce */
    int64_t scratch_elements; /* the most of any round */
};

pl_schedule *pl_schedule_create(void)
{
    pl_schedule *s = pl_alloc(sizeof *s);

    s->arena = pl_arena_create();
    s->max_rounds = 8;
    s->round_begin = pl_alloc((size_t)s->max_rounds * sizeof *s->round_begin);
    return s;
}

void pl_schedule_destroy(pl_schedule *s)
{
    if (!s)
        return;
    pl_arena_destroy(s->arena);
    pl_free(s->steps);
    pl_free(s->round_begin);
    pl_free(s);
}

pl_arena *pl_schedule_arena(pl_schedule *s)
{
    return s->arena;
}

/* The step's region must not be empty. */
static void add_step(pl_schedule *s, pl_step step)
{
    if (s->n_steps == s->max_steps) {
        const int grown = s->max_steps ? 2 * s->max_steps : 16;

        s->steps = pl_realloc(s->steps, (size_t)s->max_steps * sizeof *s->steps,
                              (size_t)grown * sizeof *s->steps);
        s->max_steps = grown;
    }
    step.region = pl_region_copy(s->arena, step.region);
    step.source = pl_region_copy(s->arena, step.source);
    s->steps[s->n_steps++] = step;
}

void pl_schedule_copy(pl_schedule *s, pl_region to, pl_region from)
{
    PL_ASSERT(pl_region_elements(to) == pl_region_elements(from));
    if (pl_region_elements(to) > 0)
        add_step(s, (pl_step){.kind = PL_STEP_COPY, .peer = -1, .region = to, .source = from});
}

void pl_schedule_send(pl_schedule *s, int to, pl_region from)
{
    if (pl_region_elements(from) > 0)
        add_step(s, (pl_step){.kind = PL_STEP_SEND, .peer = to, .region = from});
}

void pl_schedule_recv(pl_schedule *s, int from, pl_region to)
{
    if (pl_region_elements(to) > 0)
        add_step(s, (pl_step){.kind = PL_STEP_RECV, .peer = from, .region = to});
}

void pl_schedule_recv_reduce(pl_schedule *s, int from, pl_region to, pl_reduction reduction)
{
    const int64_t n = pl_region_elements(to);
    const pl_piece landing = pl_piece_of(PL_SCRATCH, s->round_scratch, n);

    if (n == 0)
        return;
    add_step(s, (pl_step){.kind = PL_STEP_RECV_REDUCE,
                          .peer = from,
                          .region = to,
                          .source = {.n_pieces = 1, .pieces = &landing},
                          .reduction = reduction});
    s->round_scratch += n;
    if (s->round_scratch > s->scratch_elements)
        s->scratch_elements = s->round_scratch;
}

void pl_schedule_next_round(pl_schedule *s)
{
    if (s->round_begin[s->n_closed] == s->n_steps)
        return;
    if (s->n_closed + 1 == s->max_rounds) {
        s->round_begin = pl_realloc(s->round_begin, (size_t)s->max_rounds * sizeof(int),
                                    2 * (size_t)s->max_rounds * sizeof(int));
        s->max_rounds *= 2;
    }
    s->round_begin[++s->n_closed] = s->n_steps;
    s->round_scratch = 0;
}

int pl_schedule_n_rounds(const pl_schedule *s)
{
    return s->n_closed + (s->round_begin[s->n_closed] < s->n_steps);
}

const pl_step *pl_schedule_round(const pl_schedule *s, int r, int *n_steps)
{
    const int end = r < s->n_closed ? s->round_begin[r + 1] : s->n_steps;

    PL_ASSERT(r >= 0 && r < pl_schedule_n_rounds(s));
    *n_steps = end - s->round_begin[r];
    return s->steps + s->round_begin[r];
}

int64_t pl_schedule_scratch_elements(const pl_schedule *s)
{
    return s->scratch_elements;
}
