#include "config.h"

#include "collectives/engine.h"

#include "collectives/check.h"
#include "collectives/message.h"
#include "collectives/reduce.h"
#include "collectives/region.h"
#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/base/wait.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CHECKING_ROUND = -1, TEXT = 512 };

/* The messages of one round: receives, then sends. */
typedef struct {
    int first, n_recvs, n; /* in the transfer's requests */
    int64_t sent_bytes;
} round_messages;

struct pl_transfer {
    const pl_schedule *schedule;
    MPI_Comm comm;
    int size, rank;
    char *name;
    pl_memory memory;
    float **arrays; /* ours, memory points here */

    int n_rounds, n_requests;
    round_messages *rounds; /* [n_rounds] */
    MPI_Request *requests;  /* [n_requests], persistent, round by round */
    MPI_Datatype *types;    /* [n_requests], MPI_DATATYPE_NULL for plain floats */
    int *peers;             /* [n_requests] */
    bool checked;
    pl_check check;

    bool in_flight;
    int round; /* in flight: the current one, or CHECKING_ROUND */
    int64_t n_runs, sent_bytes;
    double begin_s, end_s;
};

struct pl_engine {
    int n_transfers, max_transfers, n_in_flight;
    pl_transfer **transfers; /* [max_transfers], all */
    pl_transfer **in_flight; /* [max_transfers], oldest first */
    int64_t n_events;        /* rounds completed so far: progress, to the watchdog */
    double stall_s;
    bool checking;
    int chunk_elements;
};

pl_engine *pl_engine_create(void)
{
    pl_engine *engine = pl_alloc(sizeof *engine);

    engine->stall_s = 60;
    engine->chunk_elements = PL_CHUNK_ELEMENTS;
    return engine;
}

static void transfer_destroy(pl_transfer *t)
{
    for (int i = 0; i < t->n_requests; i++) {
        PL_MPI(MPI_Request_free(&t->requests[i]));
        if (t->types[i] != MPI_DATATYPE_NULL)
            PL_MPI(MPI_Type_free(&t->types[i]));
    }
    if (t->checked)
        pl_check_free(&t->check);
    pl_free(t->peers);
    pl_free(t->types);
    pl_free(t->requests);
    pl_free(t->rounds);
    pl_free(t->arrays);
    pl_free(t->name);
    pl_free(t);
}

void pl_engine_destroy(pl_engine *engine)
{
    if (!engine)
        return;
    while (engine->n_in_flight > 0)
        pl_engine_wait(engine, engine->in_flight[0]);
    for (int i = 0; i < engine->n_transfers; i++)
        transfer_destroy(engine->transfers[i]);
    pl_free(engine->in_flight);
    pl_free(engine->transfers);
    pl_free(engine);
}

static bool is_message(const pl_step *step, bool send)
{
    return step->kind != PL_STEP_COPY && (step->kind == PL_STEP_SEND) == send;
}

static int count_messages(const pl_schedule *s, int chunk_elements)
{
    int64_t n = 0;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        for (int i = 0; i < n_steps; i++)
            if (steps[i].kind != PL_STEP_COPY)
                n += pl_chunk_count(pl_region_elements(steps[i].region), chunk_elements);
    }
    PL_ASSERT(n < (1 << 30));
    return (int)n;
}

/* Append the requests of a round's sends, or of its receives. */
static void init_messages(pl_transfer *t, int r, bool send, int tag, int chunk_elements)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(t->schedule, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        const pl_step *step = &steps[i];
        const pl_region region = step->kind == PL_STEP_RECV_REDUCE ? step->source : step->region;
        int n;

        if (!is_message(step, send))
            continue;
        PL_ASSERT(step->peer >= 0 && step->peer < t->size && step->peer != t->rank);
        n = pl_message_init(&t->memory, region, send, step->peer, tag, t->comm, chunk_elements,
                            t->requests + t->n_requests, t->types + t->n_requests);
        for (int k = 0; k < n; k++)
            t->peers[t->n_requests++] = step->peer;
        if (send)
            t->rounds[r].sent_bytes += pl_region_elements(region) * (int64_t)sizeof(float);
    }
}

static void init_rounds(pl_transfer *t, int tag, int chunk_elements)
{
    const size_t n_requests = (size_t)count_messages(t->schedule, chunk_elements);

    t->n_rounds = pl_schedule_n_rounds(t->schedule);
    t->rounds = pl_alloc((size_t)t->n_rounds * sizeof *t->rounds);
    t->requests = pl_alloc(n_requests * sizeof(MPI_Request));
    t->types = pl_alloc(n_requests * sizeof(MPI_Datatype));
    t->peers = pl_alloc(n_requests * sizeof *t->peers);
    for (int r = 0; r < t->n_rounds; r++) {
        round_messages *round = &t->rounds[r];

        round->first = t->n_requests;
        init_messages(t, r, false, tag, chunk_elements);
        round->n_recvs = t->n_requests - round->first;
        init_messages(t, r, true, tag, chunk_elements);
        round->n = t->n_requests - round->first;
    }
    PL_ASSERT((size_t)t->n_requests == n_requests);
}

static void engine_add(pl_engine *engine, pl_transfer *t)
{
    if (engine->n_transfers == engine->max_transfers) {
        const size_t old = (size_t)engine->max_transfers * sizeof(pl_transfer *);
        const size_t grown = old ? 2 * old : 16 * sizeof(pl_transfer *);

        engine->transfers = pl_realloc(engine->transfers, old, grown);
        engine->in_flight = pl_realloc(engine->in_flight, old, grown);
        engine->max_transfers = (int)(grown / sizeof(pl_transfer *));
    }
    engine->transfers[engine->n_transfers++] = t;
}

pl_transfer *pl_engine_prepare(pl_engine *engine, const pl_schedule *schedule,
                               const pl_group *group, int tag, float *const *arrays, int n_arrays,
                               float *scratch, const char *name)
{
    const size_t name_bytes = strlen(name) + 1;
    pl_transfer *t = pl_alloc(sizeof *t);

    PL_ASSERT(tag >= 0 && tag < PL_MAX_TAG);
    PL_ASSERT(scratch || pl_schedule_scratch_elements(schedule) == 0);
    t->schedule = schedule;
    t->comm = group->comm;
    t->size = group->size;
    t->rank = group->rank;
    t->name = pl_alloc(name_bytes);
    memcpy(t->name, name, name_bytes);
    t->arrays = pl_alloc((size_t)n_arrays * sizeof *t->arrays);
    if (n_arrays > 0)
        memcpy(t->arrays, arrays, (size_t)n_arrays * sizeof *t->arrays);
    t->memory = (pl_memory){.arrays = t->arrays, .n_arrays = n_arrays, .scratch = scratch};
    init_rounds(t, tag, engine->chunk_elements);
    t->checked = engine->checking;
    if (t->checked)
        pl_check_init(&t->check, schedule, t->size, t->comm, tag, PL_MAX_TAG, name);
    engine_add(engine, t);
    return t;
}

/* Walks the contiguous runs of a region. */
typedef struct {
    const pl_memory *memory;
    pl_region region;
    int piece;
    int64_t run, within; /* the next element: of which run of the piece, where in it */
} cursor;

static float *cursor_at(const cursor *c, int64_t *n)
{
    const pl_piece p = c->region.pieces[c->piece];

    *n = p.length - c->within;
    return pl_memory_at(c->memory, p) + c->run * p.stride + c->within;
}

static void cursor_advance(cursor *c, int64_t n)
{
    const pl_piece p = c->region.pieces[c->piece];

    c->within += n;
    if (c->within == p.length) {
        c->within = 0;
        c->run++;
    }
    if (c->run == p.count) {
        c->run = 0;
        c->piece++;
    }
}

/* to <- from, or to <- to (+ or max) from. */
static void combine(const pl_memory *memory, const pl_step *step)
{
    cursor to = {.memory = memory, .region = step->region};
    cursor from = {.memory = memory, .region = step->source};

    while (to.piece < to.region.n_pieces) {
        int64_t n_to, n_from, n;
        float *x = cursor_at(&to, &n_to);
        const float *y = cursor_at(&from, &n_from);

        n = n_to < n_from ? n_to : n_from;
        if (step->kind == PL_STEP_COPY)
            memcpy(x, y, (size_t)n * sizeof *x);
        else
            pl_reduce(step->reduction, x, y, n);
        cursor_advance(&to, n);
        cursor_advance(&from, n);
    }
}

static void run_local_steps(const pl_transfer *t, pl_step_kind kind)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(t->schedule, t->round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == kind)
            combine(&t->memory, &steps[i]);
}

static void begin_round(pl_transfer *t)
{
    const round_messages *round = &t->rounds[t->round];

    run_local_steps(t, PL_STEP_COPY);
    if (round->n > 0)
        PL_MPI(MPI_Startall(round->n, t->requests + round->first));
    t->sent_bytes += round->sent_bytes;
}

/* What the transfer's current round waits for. */
static MPI_Request *pending(const pl_transfer *t, int *n)
{
    if (t->round == CHECKING_ROUND) {
        *n = t->check.n_in + t->check.n_out;
        return t->check.requests;
    }
    *n = t->rounds[t->round].n;
    return t->requests + t->rounds[t->round].first;
}

/* Finish the current round if its messages are through, and begin the next: whether it was. */
static bool advance(pl_engine *engine, pl_transfer *t)
{
    int n, is_through;
    MPI_Request *requests = pending(t, &n);

    PL_MPI(MPI_Testall(n, requests, &is_through, MPI_STATUSES_IGNORE));
    if (!is_through)
        return false;
    if (t->round == CHECKING_ROUND)
        pl_check_compare(&t->check);
    else
        run_local_steps(t, PL_STEP_RECV_REDUCE);
    engine->n_events++;
    if (++t->round < t->n_rounds) {
        begin_round(t);
    } else {
        t->end_s = pl_now_s();
        t->in_flight = false;
    }
    return true;
}

void pl_engine_progress(pl_engine *engine)
{
    int n_left = 0;

    for (int i = 0; i < engine->n_in_flight; i++) {
        pl_transfer *t = engine->in_flight[i];

        advance(engine, t);
        if (t->in_flight)
            engine->in_flight[n_left++] = t;
    }
    engine->n_in_flight = n_left;
}

void pl_engine_start(pl_engine *engine, pl_transfer *t)
{
    PL_ASSERT(!t->in_flight);
    t->begin_s = pl_now_s();
    t->n_runs++;
    if (t->checked || t->n_rounds > 0) {
        t->in_flight = true;
        engine->in_flight[engine->n_in_flight++] = t;
        t->round = t->checked ? CHECKING_ROUND : 0;
        if (t->checked)
            pl_check_start(&t->check, t->n_runs);
        else
            begin_round(t);
    } else {
        t->end_s = t->begin_s;
    }
    pl_engine_progress(engine);
}

bool pl_transfer_done(const pl_transfer *t)
{
    return !t->in_flight;
}

/* A group's rank, by its number in the whole job. */
static int world_rank(MPI_Comm comm, int rank)
{
    MPI_Group ours, world;
    int in_world;

    PL_MPI(MPI_Comm_group(comm, &ours));
    PL_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    PL_MPI(MPI_Group_translate_ranks(ours, 1, &rank, world, &in_world));
    PL_MPI(MPI_Group_free(&world));
    PL_MPI(MPI_Group_free(&ours));
    return in_world;
}

/* The messages that have not come through, as text. */
static void describe_pending(const pl_transfer *t, char *text, size_t size)
{
    int n;
    const MPI_Request *requests = pending(t, &n);
    const bool checking = t->round == CHECKING_ROUND;
    const int n_recvs = checking ? t->check.n_in : t->rounds[t->round].n_recvs;
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++) {
        int is_through, peer;

        PL_MPI(MPI_Request_get_status(requests[i], &is_through, MPI_STATUS_IGNORE));
        if (is_through || (checking && i >= n_recvs))
            continue;
        peer = checking ? t->check.in_peer[i] : t->peers[t->rounds[t->round].first + i];
        used += (size_t)snprintf(text + used, size - used, "%s%s rank %d", used ? ", " : "",
                                 i < n_recvs ? "from" : "to", world_rank(t->comm, peer));
    }
}

/* Every waiting rank says what it waits for, so that the chain can be followed to the rank that
 * waits for nobody; then the lowest ends the job. */
static _Noreturn void report_stall(const pl_engine *engine, const pl_transfer *t)
{
    const struct timespec others_speak = {.tv_sec = 1};
    char peers[TEXT];

    describe_pending(t, peers, sizeof peers);
    fprintf(
        stderr, "rank %d: no progress for %g s: waits in '%s', round %d of %d, for messages %s\n",
        world_rank(t->comm, t->rank), engine->stall_s, t->name, t->round + 1, t->n_rounds, peers);
    fflush(stderr);
    nanosleep(&others_speak, NULL);
    PL_PANIC("gave up on '%s': the ranks named above as waited for, and not waiting themselves, "
             "have not reached it",
             t->name);
}

void pl_engine_wait(pl_engine *engine, pl_transfer *t)
{
    enum { POLLS_PER_LOOK = 256 }; /* at the clock */
    int64_t n_events = engine->n_events;
    int n_polls = 0;
    double since_s = 0;
    pl_wait wait = {0};

    while (t->in_flight) {
        pl_engine_progress(engine);
        if (engine->n_events != n_events) {
            n_events = engine->n_events;
            n_polls = 0;
            wait = (pl_wait){0};
            continue;
        }
        if (n_polls++ == 0) {
            since_s = pl_now_s();
        } else if (n_polls % POLLS_PER_LOOK == 0 && engine->stall_s > 0 &&
                   pl_now_s() - since_s > engine->stall_s) {
            report_stall(engine, t);
        }
        pl_wait_once(&wait);
    }
}

double pl_transfer_begin_s(const pl_transfer *t)
{
    return t->begin_s;
}

double pl_transfer_end_s(const pl_transfer *t)
{
    return t->end_s;
}

int64_t pl_transfer_sent_bytes(const pl_transfer *t)
{
    return t->sent_bytes;
}

void pl_engine_set_stall(pl_engine *engine, double stall_s)
{
    engine->stall_s = stall_s;
}

void pl_engine_set_checking(pl_engine *engine, bool on)
{
    engine->checking = on;
}

void pl_engine_set_chunk(pl_engine *engine, int elements)
{
    PL_ASSERT(elements >= 1 && elements <= PL_CHUNK_ELEMENTS);
    engine->chunk_elements = elements;
}
