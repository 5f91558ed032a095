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
    int64_t own_scratch;   /* end of what the algorithm asked for; the rest is for landings */
    int64_t round_scratch; /* elements that the open round receives to reduce */
    int64_t scratch;       /* most that was in use */
    int64_t staging;
    int stage; /* signals so far */
    bool shares;
    int operation; /* what the writer said that it does */
    int64_t whole_elements;
    bool publishes;
    bool writes, signals; /* writes so far; signals in the open round */
    bool has_news;        /* as steps of the open round have it */
    const int *host;      /* of every rank; NULL: all on one */
    int my_host;
    const int *members; /* how peers are named at present; NULL: by rank */
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

void pl_schedule_among(pl_schedule *s, const int *members)
{
    s->members = members;
}

static int peer_of(const pl_schedule *s, int index)
{
    return s->members && index != PL_SELF ? s->members[index] : index;
}

static bool writes_here(pl_step_kind kind)
{
    return kind != PL_STEP_SEND && kind != PL_STEP_AWAIT && kind != PL_STEP_SIGNAL;
}

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
    step.is_published = s->publishes;
    step.has_news = s->has_news;
    s->signals |= step.kind == PL_STEP_SIGNAL;
    s->writes |= writes_here(step.kind);
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
        add_step(s, (pl_step){.kind = PL_STEP_SEND, .peer = peer_of(s, to), .region = from});
}

void pl_schedule_recv(pl_schedule *s, int from, pl_region to)
{
    if (pl_region_elements(to) > 0)
        add_step(s, (pl_step){.kind = PL_STEP_RECV, .peer = peer_of(s, from), .region = to});
}

void pl_schedule_recv_reduce(pl_schedule *s, int from, pl_region to, pl_reduction reduction)
{
    const int64_t n = pl_region_elements(to);
    const pl_piece landing = pl_piece_of(PL_SCRATCH, s->own_scratch + s->round_scratch, n);

    if (n == 0)
        return;
    add_step(s, (pl_step){.kind = PL_STEP_RECV_REDUCE,
                          .peer = peer_of(s, from),
                          .region = to,
                          .source = {.n_pieces = 1, .pieces = &landing},
                          .reduction = reduction});
    s->round_scratch += n;
    if (s->own_scratch + s->round_scratch > s->scratch)
        s->scratch = s->own_scratch + s->round_scratch;
}

void pl_schedule_await(pl_schedule *s, int peer, int stage, int lag)
{
    PL_ASSERT(stage > 0 && stage <= PL_STAGE_END && lag >= 0 && (stage < PL_STAGE_END || lag > 0));
    add_step(
        s, (pl_step){.kind = PL_STEP_AWAIT, .peer = peer_of(s, peer), .stage = stage, .lag = lag});
    s->shares = true;
}

static const pl_place *copy_places(pl_schedule *s, const pl_place *places, int n)
{
    pl_place *copy = pl_arena_alloc(s->arena, (size_t)n * sizeof *copy);

    for (int i = 0; i < n; i++) {
        copy[i].rank = peer_of(s, places[i].rank);
        copy[i].region = pl_region_copy(s->arena, places[i].region);
    }
    return copy;
}

void pl_schedule_combine(pl_schedule *s, pl_reduction reduction, const pl_place *to, int n_to,
                         const pl_place *from, int n_from)
{
    PL_ASSERT(n_to > 0 && n_from > 0);
    for (int i = 0; i < n_to; i++)
        PL_ASSERT(pl_region_elements(to[i].region) == pl_region_elements(to[0].region));
    for (int i = 0; i < n_from; i++)
        PL_ASSERT(pl_region_elements(from[i].region) == pl_region_elements(to[0].region));
    if (pl_region_elements(to[0].region) == 0)
        return;
    for (int i = 0; i < n_to; i++)
        s->shares |= to[i].rank != PL_SELF;
    for (int i = 0; i < n_from; i++)
        s->shares |= from[i].rank != PL_SELF;
    add_step(s, (pl_step){.kind = PL_STEP_COMBINE,
                          .peer = -1,
                          .reduction = reduction,
                          .n_to = n_to,
                          .n_from = n_from,
                          .to = copy_places(s, to, n_to),
                          .from = copy_places(s, from, n_from)});
}

void pl_schedule_read(pl_schedule *s, pl_region to, int peer, pl_region from)
{
    const pl_place here = {PL_SELF, to}, there = {peer, from};

    pl_schedule_combine(s, PL_SUM, &here, 1, &there, 1);
}

void pl_schedule_publish(pl_schedule *s, bool on)
{
    s->publishes = on;
}

int pl_schedule_signal(pl_schedule *s)
{
    s->stage++;
    PL_ASSERT(s->stage < PL_STAGE_END);
    add_step(s, (pl_step){.kind = PL_STEP_SIGNAL, .peer = -1, .stage = s->stage});
    s->shares = true;
    return s->stage;
}

int pl_schedule_stage(const pl_schedule *s)
{
    return s->stage;
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
    s->has_news |= s->signals && s->writes; /* a signal speaks of the whole round */
    s->signals = false;
}

static pl_region one_run(pl_schedule *s, int array, int64_t offset, int64_t n)
{
    const pl_piece piece = pl_piece_of(array, offset, n);

    return pl_region_copy(s->arena, (pl_region){1, &piece});
}

pl_region pl_schedule_scratch(pl_schedule *s, int64_t n)
{
    const pl_region region = one_run(s, PL_SCRATCH, s->scratch, n);

    s->scratch += n;
    s->own_scratch = s->scratch;
    s->round_scratch = 0;
    return region;
}

pl_region pl_schedule_staging(pl_schedule *s, int64_t n)
{
    const pl_region region = one_run(s, PL_STAGING, s->staging, n);

    s->staging += n;
    return region;
}

void pl_schedule_describe(pl_schedule *s, int operation, int64_t elements)
{
    s->operation = operation;
    s->whole_elements = elements;
}

void pl_schedule_set_hosts(pl_schedule *s, const int *host, int n_ranks, int rank)
{
    int *const copy = pl_arena_alloc(s->arena, (size_t)n_ranks * sizeof *copy);

    for (int r = 0; r < n_ranks; r++)
        copy[r] = host[r];
    s->host = copy;
    s->my_host = host[rank];
}

bool pl_schedule_leaves_host(const pl_schedule *s, int peer)
{
    return s->host != NULL && s->host[peer] != s->my_host;
}

int pl_schedule_operation(const pl_schedule *s)
{
    return s->operation;
}

int64_t pl_schedule_whole_elements(const pl_schedule *s)
{
    return s->whole_elements;
}

int64_t pl_schedule_staging_elements(const pl_schedule *s)
{
    return s->staging;
}

bool pl_schedule_shares(const pl_schedule *s)
{
    return s->shares;
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
    return s->scratch;
}
