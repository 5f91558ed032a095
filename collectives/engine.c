#include "config.h"

#include "collectives/engine.h"

#include "collectives/region.h"
#include "collectives/transfer.h"
#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/base/wait.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct pl_engine {
    pl_heap *heap;
    int n_transfers, max_transfers, n_in_flight;
    pl_transfer **transfers; /* [max_transfers], all */
    pl_transfer **in_flight; /* [max_transfers], oldest first */
    int64_t n_events;        /* steps of rounds completed so far: progress, to the watchdog */
    double stall_s;          /* < 0: not set */
    bool checking;
    int chunk_elements;
};

pl_engine *pl_engine_create(pl_heap *heap)
{
    pl_engine *engine = pl_alloc(sizeof *engine);

    engine->heap = heap;
    engine->stall_s = -1;
    engine->chunk_elements = PL_CHUNK_ELEMENTS;
    return engine;
}

/* With checking on, faults are looked for. */
static double stall_limit_s(const pl_engine *engine)
{
    if (engine->stall_s >= 0)
        return engine->stall_s;
    return engine->checking ? 5 : 60;
}

void pl_engine_destroy(pl_engine *engine)
{
    if (!engine)
        return;
    while (engine->n_in_flight > 0)
        pl_engine_wait(engine, engine->in_flight[0]);
    for (int i = 0; i < engine->n_transfers; i++)
        pl_transfer_destroy(engine->transfers[i], stall_limit_s(engine));
    pl_free(engine->in_flight);
    pl_free(engine->transfers);
    pl_free(engine);
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
                               const pl_group *group, int tag, pl_dtype dtype, void *const *arrays,
                               int n_arrays, void *scratch, const char *name)
{
    pl_transfer *t;

    PL_ASSERT(tag >= 0 && tag < PL_MAX_TAG);
    t = pl_transfer_create(engine->heap, schedule, group, tag, dtype, arrays, n_arrays, scratch,
                           name, engine->checking, engine->chunk_elements);
    engine_add(engine, t);
    return t;
}

static void run_moves(const pl_transfer *t, int first, int n)
{
    for (int m = first; m < first + n; m++)
        pl_move_run(&t->moves[m], t->n_runs);
}

static bool awaits_are_over(pl_transfer *t, const pl_bound_round *round)
{
    while (t->next_await < round->n_awaits &&
           pl_transfer_has_signalled(t, &t->awaits[round->first_await + t->next_await]))
        t->next_await++;
    return t->next_await == round->n_awaits;
}

static void enter_round(pl_transfer *t, int round)
{
    t->round = round;
    t->has_begun = false;
    t->next_await = 0;
    if (round == PL_CHECKING_ROUND)
        pl_check_start(&t->check, t->n_runs);
    if (round == PL_MEETING_ROUND)
        pl_peers_meet(t->peers, t->tag);
    if (round == t->n_rounds) {
        if (t->peers != NULL)
            pl_peers_signal(t->peers, t->n_runs, PL_STAGE_END);
        t->end_s = pl_now_s();
        t->in_flight = false;
    }
}

static bool messages_are_through(const pl_transfer *t)
{
    int n, is_through = 1;
    MPI_Request *requests = pl_transfer_pending(t, &n);

    if (n > 0)
        PL_MPI(MPI_Testall(n, requests, &is_through, MPI_STATUSES_IGNORE));
    return is_through != 0;
}

static void begin_round(pl_transfer *t, const pl_bound_round *round)
{
    run_moves(t, round->first_move, round->n_copies);
    if (round->n_messages > 0)
        PL_MPI(MPI_Startall(round->n_messages, t->requests + round->first_message));
    run_moves(t, round->first_move + round->n_copies, round->n_combines);
    t->sent_bytes += round->sent_bytes;
    t->has_begun = true;
}

static void end_round(pl_transfer *t, const pl_bound_round *round)
{
    run_moves(t, round->first_move + round->n_copies + round->n_combines, round->n_reduces);
    if (round->signal > 0)
        pl_peers_signal(t->peers, t->n_runs, round->signal);
}

/* Go on as far as the current round allows: whether it is over. */
static bool finish_round(pl_transfer *t)
{
    const pl_bound_round *round = &t->rounds[t->round < 0 ? 0 : t->round];

    if (t->round >= 0 && !t->has_begun) {
        if (!awaits_are_over(t, round))
            return false;
        begin_round(t, round);
    }
    if (!messages_are_through(t))
        return false;
    if (t->round == PL_CHECKING_ROUND)
        pl_check_compare(&t->check);
    else if (t->round == PL_MEETING_ROUND)
        pl_transfer_end_meeting(t);
    else
        end_round(t, round);
    return true;
}

/* The round after `round`: addresses are exchanged once, when both ends are known to mean the same
 * operation. */
static int next_round(const pl_transfer *t, int round)
{
    if (round == PL_CHECKING_ROUND && t->peers != NULL && !t->has_met)
        return PL_MEETING_ROUND;
    return round < 0 ? 0 : round + 1;
}

void pl_engine_progress(pl_engine *engine)
{
    int n_left = 0;

    for (int i = 0; i < engine->n_in_flight; i++) {
        pl_transfer *t = engine->in_flight[i];

        while (t->in_flight && finish_round(t)) {
            engine->n_events++;
            enter_round(t, next_round(t, t->round));
        }
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
    t->in_flight = true;
    enter_round(t, t->checked                        ? PL_CHECKING_ROUND
                   : t->peers != NULL && !t->has_met ? PL_MEETING_ROUND
                                                     : 0);
    if (t->in_flight)
        engine->in_flight[engine->n_in_flight++] = t;
    pl_engine_progress(engine);
}

bool pl_transfer_done(const pl_transfer *t)
{
    return !t->in_flight;
}

/* Every waiting rank says what it waits for, so that the chain can be followed to the rank that
 * waits for nobody; then the lowest ends the job. */
static _Noreturn void report_stall(const pl_engine *engine, const pl_transfer *t)
{
    const struct timespec others_speak = {.tv_sec = 1};
    char peers[512];

    pl_transfer_describe_pending(t, peers, sizeof peers);
    fprintf(stderr, "rank %d: no progress for %g s: waits in '%s', round %d of %d, for %s\n",
            pl_world_rank(t->comm, t->rank), stall_limit_s(engine), t->name,
            t->round < 0 ? 0 : t->round + 1, t->n_rounds, peers);
    fflush(stderr);
    nanosleep(&others_speak, NULL);
    PL_PANIC("gave up on '%s': the ranks named above as waited for, and not waiting themselves, "
             "have not reached it",
             t->name);
}

void pl_engine_wait(pl_engine *engine, pl_transfer *t)
{
    enum { POLLS_PER_LOOK = 256 }; /* at the clock */
    const double limit_s = stall_limit_s(engine);
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
        } else if (n_polls % POLLS_PER_LOOK == 0 && limit_s > 0 && pl_now_s() - since_s > limit_s) {
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

double pl_transfer_duration_s(const pl_transfer *t)
{
    return t->end_s - t->begin_s;
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
