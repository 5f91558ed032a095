#include "config.h"

#include "collectives/transfer.h"

#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/panic.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* From so many bytes of memory that all ranks of a transfer touch together, what is written goes
 * past the caches. */
enum { STREAM_BYTES = 48 << 20 };
/* And from so many bytes, what is written where peers read. */
enum { STREAM_SHARED_BYTES = 256 };

static bool is_recv(pl_step_kind kind)
{
    return kind == PL_STEP_RECV || kind == PL_STEP_RECV_REDUCE;
}

/* The most elements of one message of a step. */
static int chunk_of(const pl_transfer *t, const pl_step *step, int chunk_elements)
{
    const int part =
        pl_message_part_elements(pl_region_elements(step->region), t->memory.dtype);

    return pl_schedule_leaves_host(t->schedule, step->peer) && part < chunk_elements
               ? part
               : chunk_elements;
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
                n_messages += pl_chunk_count(pl_region_elements(steps[i].region),
                                             chunk_of(t, &steps[i], chunk_elements));
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
        n = pl_message_init(&t->memory, region, send, step->peer, t->tag, t->comm,
                            chunk_of(t, step, chunk_elements), t->requests + t->n_messages, t->types + t->n_messages);
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
            t->awaits[t->n_awaits++] = (pl_bound_await){
                .peer = steps[i].peer, .stage = steps[i].stage, .lag = steps[i].lag};
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
        pl_bound_round *round = &t->rounds[r];

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

/* Lines that a peer's cache holds are slow to write to: each store must first win the line back.
 * What peers will read goes past the caches, unless it is tiny; it has then left them when it is
 * written anew. (Not so the sums that are written to peers: their lines have just been read.) */
static bool is_read_by_peers(const pl_move *move, const pl_step *step)
{
    const pl_region *to = move->places[0].region;
    const bool is_staged = to->n_pieces > 0 && to->pieces[0].array == PL_STAGING;

    return (step->is_published || is_staged) &&
           move->n * (int64_t)pl_dtype_bytes(move->dtype) >= STREAM_SHARED_BYTES;
}

/* What is written where it has just been read is in the caches, as large as it may be. */
static bool is_in_place(const pl_step *step)
{
    for (int i = 0; i < step->n_to && step->kind == PL_STEP_COMBINE; i++)
        for (int k = 0; k < step->n_from; k++)
            if (pl_place_same(&step->to[i], &step->from[k]))
                return true;
    return step->kind == PL_STEP_RECV_REDUCE;
}

static void choose_streams(pl_transfer *t)
{
    const int64_t touched = pl_schedule_count(t->schedule, t->memory.dtype).touched_bytes;
    const bool is_large = touched * t->size >= STREAM_BYTES;

    for (int m = 0; m < t->n_moves; m++)
        t->moves[m].streams =
            (is_large && !is_in_place(t->steps[m])) || is_read_by_peers(&t->moves[m], t->steps[m]);
}

static void make_moves(pl_transfer *t)
{
    for (int m = 0; m < t->n_moves; m++)
        make_move(t, m);
    find_places(t, true);
    choose_streams(t);
}

pl_transfer *pl_transfer_create(pl_heap *heap, const pl_schedule *schedule, const pl_group *group,
                                int tag, pl_dtype dtype, void *const *arrays, int n_arrays,
                                void *scratch, const char *name, bool checked, int chunk_elements)
{
    const size_t name_bytes = strlen(name) + 1;
    pl_transfer *t = pl_alloc(sizeof *t);

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
    make_rounds(t, chunk_elements);
    if (pl_schedule_shares(schedule))
        t->peers = pl_peers_create(heap, schedule, group, &t->memory);
    make_moves(t);
    t->checked = checked;
    if (t->checked)
        pl_check_init(&t->check, schedule, dtype, t->size, t->comm, tag, PL_MAX_TAG, name);
    return t;
}

void pl_transfer_destroy(pl_transfer *t, double limit_s)
{
    for (int i = 0; i < t->n_messages; i++) {
        PL_MPI(MPI_Request_free(&t->requests[i]));
        if (t->types[i] != MPI_DATATYPE_NULL)
            PL_MPI(MPI_Type_free(&t->types[i]));
    }
    if (t->checked)
        pl_check_free(&t->check);
    if (t->peers != NULL)
        pl_peers_destroy(t->peers, t->n_runs, limit_s, t->name);
    pl_arena_destroy(t->arena);
    pl_free(t->arrays);
    pl_free(t->name);
    pl_free(t);
}

void pl_transfer_end_meeting(pl_transfer *t)
{
    pl_peers_met(t->peers);
    find_places(t, false);
    for (int i = 0; i < t->n_awaits; i++)
        for (int parity = 0; parity < 2; parity++)
            t->awaits[i].counter[parity] = pl_peers_counter(t->peers, t->awaits[i].peer, parity);
    t->has_met = true;
}

bool pl_transfer_has_signalled(const pl_transfer *t, const pl_bound_await *await)
{
    const int64_t run = t->n_runs - await->lag;

    return run < 1 || __atomic_load_n(await->counter[run % 2], __ATOMIC_ACQUIRE) >=
                          pl_peers_count(run, await->stage);
}

MPI_Request *pl_transfer_pending(const pl_transfer *t, int *n)
{
    MPI_Request *requests;

    if (t->round == PL_CHECKING_ROUND) {
        *n = 2 * t->check.n;
        return t->check.requests;
    }
    if (t->round == PL_MEETING_ROUND) {
        requests = pl_peers_requests(t->peers, n);
        *n *= 2;
        return requests;
    }
    *n = t->has_begun ? t->rounds[t->round].n_messages : 0;
    return t->requests + t->rounds[t->round].first_message;
}

/* The peer of message i of what pl_transfer_pending() gives, and whether it is one that is
 * received. */
static int peer_of_message(const pl_transfer *t, int i, bool *is_received)
{
    int n_partners;

    if (t->round == PL_CHECKING_ROUND) {
        *is_received = i < t->check.n;
        return t->check.peer[i % t->check.n];
    }
    if (t->round == PL_MEETING_ROUND) {
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

void pl_transfer_describe_pending(const pl_transfer *t, char *text, size_t size)
{
    int n;
    const MPI_Request *requests = pl_transfer_pending(t, &n);
    size_t used = 0;

    text[0] = '\0';
    if (t->round >= 0 && !t->has_begun) {
        const pl_bound_round *round = &t->rounds[t->round];

        for (int i = t->next_await; i < round->n_awaits; i++)
            if (!pl_transfer_has_signalled(t, &t->awaits[round->first_await + i]))
                used = add_text(text, size, used, "a signal from",
                                pl_world_rank(t->comm, t->awaits[round->first_await + i].peer));
    }
    for (int i = 0; i < n; i++) {
        bool is_received;
        const int peer = peer_of_message(t, i, &is_received);
        int is_through;

        PL_MPI(MPI_Request_get_status(requests[i], &is_through, MPI_STATUS_IGNORE));
        if (!is_through)
            used = add_text(text, size, used, is_received ? "a message from" : "a message to",
                            pl_world_rank(t->comm, peer));
    }
}
