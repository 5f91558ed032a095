#include "config.h"

#include "collectives/engine.h"

#include "collectives/check.h"
#include "collectives/message.h"
#include "collectives/moves.h"
#include "collectives/peers.h"
#include "collectives/region.h"
#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/base/wait.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MEETING_ROUND = -2, CHECKING_ROUND = -1, TEXT = 512 };
/* From so many bytes that all ranks of a transfer move together, what is written goes past the
 * caches. */
enum { STREAM_BYTES = 24 << 20 };

/* One peer's stage, awaited. */
typedef struct {
    int peer, stage, lag;
    const volatile uint64_t *counter[2]; /* of runs of either parity */
} bound_await;

/* One round: where its parts lie in the transfer's lists. */
typedef struct {
    int first_await, n_awaits;
    int first_message, n_recvs, n_messages; /* receives, then sends */
    int first_move, n_copies, n_combines, n_reduces;
    int signal;         /* stage, or 0 */
    int64_t sent_bytes; /* in messages, and read or written in peers' memory */
} bound_round;

struct pl_transfer {
    const pl_schedule *schedule;
    MPI_Comm comm;
    int size, rank, tag;
    char *name;
    pl_memory memory;
    void **arrays; /* ours, memory points here */

    pl_arena *arena; /* of what follows */
    int n_rounds, n_awaits, n_messages, n_moves;
    bound_round *rounds;   /* [n_rounds] */
    bound_await *awaits;   /* [n_awaits] */
    MPI_Request *requests; /* [n_messages], persistent, round by round */
    MPI_Datatype *types;   /* [n_messages], MPI_DATATYPE_NULL for plain elements */
    int *peers_of;         /* [n_messages] */
    pl_move *moves;        /* [n_moves] round by round: copies, combinations, reductions */
    const pl_step **steps; /* [n_moves] what each move came from */
    pl_peers *peers;       /* NULL: shares no memory */
    bool has_met;
    bool checked;
    pl_check check;

    bool in_flight;
    int round;      /* in flight: the current one, MEETING_ROUND or CHECKING_ROUND */
    bool has_begun; /* its awaits are over and its messages in flight */
    int next_await; /* of the current round */
    int64_t n_runs, sent_bytes;
    double begin_s, end_s;
};

struct pl_engine {
    pl_heap *heap;
    int n_transfers, max_transfers, n_in_flight;
    pl_transfer **transfers; /* [max_transfers], all */
    pl_transfer **in_flight; /* [max_transfers], oldest first */
    int64_t n_events;        /* steps of rounds completed so far: progress, to the watchdog */
    double stall_s;
    bool checking;
    int chunk_elements;
};

pl_engine *pl_engine_create(pl_heap *heap)
{
    pl_engine *engine = pl_alloc(sizeof *engine);

    engine->heap = heap;
    engine->stall_s = 60;
    engine->chunk_elements = PL_CHUNK_ELEMENTS;
    return engine;
}

static void transfer_destroy(pl_transfer *t)
{
    for (int i = 0; i < t->n_messages; i++) {
        PL_MPI(MPI_Request_free(&t->requests[i]));
        if (t->types[i] != MPI_DATATYPE_NULL)
            PL_MPI(MPI_Type_free(&t->types[i]));
    }
    if (t->checked)
        pl_check_free(&t->check);
    if (t->peers != NULL)
        pl_peers_destroy(t->peers, t->n_runs);
    pl_arena_destroy(t->arena);
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

static bool is_recv(pl_step_kind kind)
{
    return kind == PL_STEP_RECV || kind == PL_STEP_RECV_REDUCE;
}

static void count_steps(pl_transfer *t, int chunk_elements)
{
    int64_t n_messages = 0;

    t->n_rounds = pl_schedule_n_rounds(t->schedule);
    for (int r = 0; r < t->n_rounds; r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(t->schedule, r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            const pl_step_kind kind = steps[i].kind;

            if (kind == PL_STEP_SEND || is_recv(kind))
                n_messages += pl_chunk_count(pl_region_elements(steps[i].region), chunk_elements);
            t->n_awaits += kind == PL_STEP_AWAIT;
            t->n_moves +=
                kind == PL_STEP_COPY || kind == PL_STEP_COMBINE || kind == PL_STEP_RECV_REDUCE;
        }
    }
    PL_ASSERT(n_messages < (1 << 30));
    t->n_messages = (int)n_messages;
}

static void make_lists(pl_transfer *t)
{
    t->rounds = pl_arena_alloc(t->arena, (size_t)(t->n_rounds + 1) * sizeof *t->rounds);
    t->awaits = pl_arena_alloc(t->arena, (size_t)(t->n_awaits + 1) * sizeof *t->awaits);
    t->requests = pl_arena_alloc(t->arena, (size_t)(t->n_messages + 1) * sizeof(MPI_Request));
    t->types = pl_arena_alloc(t->arena, (size_t)(t->n_messages + 1) * sizeof(MPI_Datatype));
    t->peers_of = pl_arena_alloc(t->arena, (size_t)(t->n_messages + 1) * sizeof *t->peers_of);
    t->moves = pl_arena_alloc(t->arena, (size_t)(t->n_moves + 1) * sizeof *t->moves);
    t->steps = pl_arena_alloc(t->arena, (size_t)(t->n_moves + 1) * sizeof(pl_step *));
    t->n_awaits = t->n_messages = t->n_moves = 0; /* counted again while they are filled */
}

/* Append the requests of a round's sends, or of its receives. */
static void add_messages(pl_transfer *t, int r, bool send, int chunk_elements)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(t->schedule, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        const pl_step *step = &steps[i];
        const pl_region region = step->kind == PL_STEP_RECV_REDUCE ? step->source : step->region;
        int n;

        if (send ? step->kind != PL_STEP_SEND : !is_recv(step->kind))
            continue;
        PL_ASSERT(step->peer >= 0 && step->peer < t->size && step->peer != t->rank);
        n = pl_message_init(&t->memory, region, send, step->peer, t->tag, t->comm, chunk_elements,
                            t->requests + t->n_messages, t->types + t->n_messages);
        for (int k = 0; k < n; k++)
            t->peers_of[t->n_messages++] = step->peer;
        if (send)
            t->rounds[r].sent_bytes +=
                pl_region_elements(region) * (int64_t)pl_dtype_bytes(t->memory.dtype);
    }
}

/* Append a round's moves of one kind; returns how many. */
static int add_moves(pl_transfer *t, int r, pl_step_kind kind)
{
    const int first = t->n_moves;
    int n_steps;
    const pl_step *steps = pl_schedule_round(t->schedule, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        if (steps[i].kind != kind)
            continue;
        t->steps[t->n_moves++] = &steps[i];
    }
    return t->n_moves - first;
}

static void add_awaits_and_signal(pl_transfer *t, int r)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(t->schedule, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        if (steps[i].kind == PL_STEP_AWAIT)
            t->awaits[t->n_awaits++] =
                (bound_await){.peer = steps[i].peer, .stage = steps[i].stage, .lag = steps[i].lag};
        if (steps[i].kind == PL_STEP_SIGNAL) {
            PL_ASSERT(t->rounds[r].signal == 0);
            t->rounds[r].signal = steps[i].stage;
        }
    }
}

/* Bytes of the places of a combination that are peers'. */
static int64_t shared_bytes(const pl_transfer *t, const pl_step *step)
{
    int64_t n = 0;

    for (int i = 0; i < step->n_to; i++)
        n += step->to[i].rank == PL_SELF ? 0 : pl_region_elements(step->to[i].region);
    for (int i = 0; i < step->n_from; i++)
        n += step->from[i].rank == PL_SELF ? 0 : pl_region_elements(step->from[i].region);
    return n * (int64_t)pl_dtype_bytes(t->memory.dtype);
}

static void make_rounds(pl_transfer *t, int chunk_elements)
{
    count_steps(t, chunk_elements);
    make_lists(t);
    for (int r = 0; r < t->n_rounds; r++) {
        bound_round *round = &t->rounds[r];

        round->first_await = t->n_awaits;
        add_awaits_and_signal(t, r);
        round->n_awaits = t->n_awaits - round->first_await;
        round->first_message = t->n_messages;
        add_messages(t, r, false, chunk_elements);
        round->n_recvs = t->n_messages - round->first_message;
        add_messages(t, r, true, chunk_elements);
        round->n_messages = t->n_messages - round->first_message;
        round->first_move = t->n_moves;
        round->n_copies = add_moves(t, r, PL_STEP_COPY);
        round->n_combines = add_moves(t, r, PL_STEP_COMBINE);
        round->n_reduces = add_moves(t, r, PL_STEP_RECV_REDUCE);
        for (int m = 0; m < round->n_combines; m++)
            round->sent_bytes += shared_bytes(t, t->steps[round->first_move + round->n_copies + m]);
    }
}

static const pl_region *region_of(const pl_step *step, int place)
{
    switch (step->kind) {
    case PL_STEP_COPY:
        return place == 0 ? &step->region : &step->source;
    case PL_STEP_RECV_REDUCE: /* region <- region + source */
        return place < 2 ? &step->region : &step->source;
    default:
        return place < step->n_to ? &step->to[place].region
                                  : &step->from[place - step->n_to].region;
    }
}

static int rank_of(const pl_step *step, int place)
{
    if (step->kind != PL_STEP_COMBINE)
        return PL_SELF;
    return place < step->n_to ? step->to[place].rank : step->from[place - step->n_to].rank;
}

static void make_move(pl_transfer *t, int m)
{
    const pl_step *step = t->steps[m];
    pl_move *move = &t->moves[m];
    const bool combines = step->kind == PL_STEP_COMBINE;
    const int n_to = combines ? step->n_to : 1;
    const int n_from = combines ? step->n_from : step->kind == PL_STEP_COPY ? 1 : 2;

    pl_move_init(move, t->arena, t->memory.dtype, step->reduction, n_to, n_from);
    for (int i = 0; i < n_to + n_from; i++) {
        pl_bound_place *place = &move->places[i];

        place->region = region_of(step, i);
        place->piece =
            pl_arena_alloc(t->arena, (size_t)place->region->n_pieces * sizeof *place->piece);
    }
    pl_move_close(move, t->arena);
}

/* Fill in the addresses of places of this rank, or of its peers. */
static void find_places(pl_transfer *t, bool own)
{
    for (int m = 0; m < t->n_moves; m++) {
        for (int i = 0; i < t->moves[m].n_to + t->moves[m].n_from; i++) {
            pl_bound_place *place = &t->moves[m].places[i];
            const int rank = rank_of(t->steps[m], i);

            if ((rank == PL_SELF) != own)
                continue;
            for (int k = 0; k < place->region->n_pieces; k++) {
                const pl_piece piece = place->region->pieces[k];

                place->piece[k] = t->peers != NULL
                                      ? pl_peers_at(t->peers, rank, piece, &place->half_bytes)
                                      : pl_memory_at(&t->memory, piece);
            }
        }
    }
}

/* Whether the transfer moves so much that what is written would not stay in the caches. */
static void choose_streams(pl_transfer *t)
{
    int64_t elements = 0;

    for (int m = 0; m < t->n_moves; m++)
        elements += t->moves[m].n * (t->moves[m].n_to + t->moves[m].n_from);
    for (int m = 0; m < t->n_moves; m++)
        t->moves[m].streams =
            elements * (int64_t)pl_dtype_bytes(t->memory.dtype) * t->size >= STREAM_BYTES;
}

static void make_moves(pl_transfer *t)
{
    for (int m = 0; m < t->n_moves; m++)
        make_move(t, m);
    find_places(t, true);
    choose_streams(t);
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
    const size_t name_bytes = strlen(name) + 1;
    pl_transfer *t = pl_alloc(sizeof *t);

    PL_ASSERT(tag >= 0 && tag < PL_MAX_TAG);
    PL_ASSERT(scratch || pl_schedule_scratch_elements(schedule) == 0);
    t->schedule = schedule;
    t->comm = group->comm;
    t->size = group->size;
    t->rank = group->rank;
    t->tag = tag;
    t->name = pl_alloc(name_bytes);
    memcpy(t->name, name, name_bytes);
    t->arrays = pl_alloc((size_t)n_arrays * sizeof *t->arrays);
    if (n_arrays > 0)
        memcpy(t->arrays, arrays, (size_t)n_arrays * sizeof *t->arrays);
    t->memory =
        (pl_memory){.dtype = dtype, .arrays = t->arrays, .n_arrays = n_arrays, .scratch = scratch};
    t->arena = pl_arena_create();
    make_rounds(t, engine->chunk_elements);
    if (pl_schedule_shares(schedule))
        t->peers = pl_peers_create(engine->heap, schedule, group, &t->memory);
    make_moves(t);
    t->checked = engine->checking;
    if (t->checked)
        pl_check_init(&t->check, schedule, dtype, t->size, t->comm, tag, PL_MAX_TAG, name);
    engine_add(engine, t);
    return t;
}

static void run_moves(const pl_transfer *t, int first, int n)
{
    for (int m = first; m < first + n; m++)
        pl_move_run(&t->moves[m], t->n_runs);
}

/* Partners' addresses have arrived. */
static void end_meeting(pl_transfer *t)
{
    pl_peers_met(t->peers);
    find_places(t, false);
    for (int i = 0; i < t->n_awaits; i++)
        for (int parity = 0; parity < 2; parity++)
            t->awaits[i].counter[parity] = pl_peers_counter(t->peers, t->awaits[i].peer, parity);
    t->has_met = true;
}

/* Whether the peer has come so far. */
static bool has_signalled(const pl_transfer *t, const bound_await *await)
{
    const int64_t run = t->n_runs - await->lag;

    return run < 1 || __atomic_load_n(await->counter[run % 2], __ATOMIC_ACQUIRE) >=
                          pl_peers_count(run, await->stage);
}

static bool awaits_are_over(pl_transfer *t, const bound_round *round)
{
    while (t->next_await < round->n_awaits &&
           has_signalled(t, &t->awaits[round->first_await + t->next_await]))
        t->next_await++;
    return t->next_await == round->n_awaits;
}

static void enter_round(pl_transfer *t, int round)
{
    t->round = round;
    t->has_begun = false;
    t->next_await = 0;
    if (round == CHECKING_ROUND)
        pl_check_start(&t->check, t->n_runs);
    if (round == MEETING_ROUND)
        pl_peers_meet(t->peers, t->tag);
    if (round == t->n_rounds) {
        if (t->peers != NULL)
            pl_peers_signal(t->peers, t->n_runs, PL_STAGE_END);
        t->end_s = pl_now_s();
        t->in_flight = false;
    }
}

/* What the transfer's current round waits for as messages. */
static MPI_Request *pending(const pl_transfer *t, int *n)
{
    MPI_Request *requests;

    if (t->round == CHECKING_ROUND) {
        *n = t->check.n_in + t->check.n_out;
        return t->check.requests;
    }
    if (t->round == MEETING_ROUND) {
        requests = pl_peers_requests(t->peers, n);
        *n *= 2;
        return requests;
    }
    *n = t->has_begun ? t->rounds[t->round].n_messages : 0;
    return t->requests + t->rounds[t->round].first_message;
}

static bool messages_are_through(const pl_transfer *t)
{
    int n, is_through = 1;
    MPI_Request *requests = pending(t, &n);

    if (n > 0)
        PL_MPI(MPI_Testall(n, requests, &is_through, MPI_STATUSES_IGNORE));
    return is_through != 0;
}

static void begin_round(pl_transfer *t, const bound_round *round)
{
    run_moves(t, round->first_move, round->n_copies);
    if (round->n_messages > 0)
        PL_MPI(MPI_Startall(round->n_messages, t->requests + round->first_message));
    run_moves(t, round->first_move + round->n_copies, round->n_combines);
    t->sent_bytes += round->sent_bytes;
    t->has_begun = true;
}

static void end_round(pl_transfer *t, const bound_round *round)
{
    run_moves(t, round->first_move + round->n_copies + round->n_combines, round->n_reduces);
    if (round->signal > 0)
        pl_peers_signal(t->peers, t->n_runs, round->signal);
}

/* Go on as far as the current round allows: whether it is over. */
static bool finish_round(pl_transfer *t)
{
    const bound_round *round = &t->rounds[t->round < 0 ? 0 : t->round];

    if (t->round >= 0 && !t->has_begun) {
        if (!awaits_are_over(t, round))
            return false;
        begin_round(t, round);
    }
    if (!messages_are_through(t))
        return false;
    if (t->round == CHECKING_ROUND)
        pl_check_compare(&t->check);
    else if (t->round == MEETING_ROUND)
        end_meeting(t);
    else
        end_round(t, round);
    return true;
}

/* The round after `round`: addresses are exchanged once, when both ends are known to mean the same
 * operation. */
static int next_round(const pl_transfer *t, int round)
{
    if (round == CHECKING_ROUND && t->peers != NULL && !t->has_met)
        return MEETING_ROUND;
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
    enter_round(t, t->checked                        ? CHECKING_ROUND
                   : t->peers != NULL && !t->has_met ? MEETING_ROUND
                                                     : 0);
    if (t->in_flight)
        engine->in_flight[engine->n_in_flight++] = t;
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

/* The peer of message i of what pending() gives, and whether it is one that is received. */
static int peer_of_message(const pl_transfer *t, int i, bool *is_received)
{
    int n_partners;

    if (t->round == CHECKING_ROUND) {
        *is_received = i < t->check.n_in;
        return *is_received ? t->check.in_peer[i] : MPI_PROC_NULL;
    }
    if (t->round == MEETING_ROUND) {
        pl_peers_requests(t->peers, &n_partners);
        *is_received = i < n_partners;
        return pl_peers_partner(t->peers, i % n_partners);
    }
    *is_received = i < t->rounds[t->round].n_recvs;
    return t->peers_of[t->rounds[t->round].first_message + i];
}

static size_t add_text(char *text, size_t size, size_t used, const char *what, int rank)
{
    if (used >= size)
        return used;
    return used +
           (size_t)snprintf(text + used, size - used, "%s%s rank %d", used ? ", " : "", what, rank);
}

/* The ranks that it waits for, as text: those whose signal or message is missing, and those that
 * have not taken a message. */
static void describe_pending(const pl_transfer *t, char *text, size_t size)
{
    int n;
    const MPI_Request *requests = pending(t, &n);
    size_t used = 0;

    text[0] = '\0';
    if (t->round >= 0 && !t->has_begun) {
        const bound_round *round = &t->rounds[t->round];

        for (int i = t->next_await; i < round->n_awaits; i++)
            if (!has_signalled(t, &t->awaits[round->first_await + i]))
                used = add_text(text, size, used, "a signal from",
                                world_rank(t->comm, t->awaits[round->first_await + i].peer));
    }
    for (int i = 0; i < n; i++) {
        bool is_received;
        const int peer = peer_of_message(t, i, &is_received);
        int is_through;

        PL_MPI(MPI_Request_get_status(requests[i], &is_through, MPI_STATUS_IGNORE));
        if (!is_through && peer != MPI_PROC_NULL)
            used = add_text(text, size, used, is_received ? "a message from" : "a message to",
                            world_rank(t->comm, peer));
    }
}

/* Every waiting rank says what it waits for, so that the chain can be followed to the rank that
 * waits for nobody; then the lowest ends the job. */
static _Noreturn void report_stall(const pl_engine *engine, const pl_transfer *t)
{
    const struct timespec others_speak = {.tv_sec = 1};
    char peers[TEXT];

    describe_pending(t, peers, sizeof peers);
    fprintf(stderr, "rank %d: no progress for %g s: waits in '%s', round %d of %d, for %s\n",
            world_rank(t->comm, t->rank), engine->stall_s, t->name, t->round + 1, t->n_rounds,
            peers);
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
