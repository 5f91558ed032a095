#include "config.h"

#include "collectives/peers.h"

#include "src/base/finish.h"
#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/base/wait.h"

enum { LINE = 64, N_HALVES = 2 };

/* One cache line: the counter and a staging that fits beside it. */
typedef struct {
    _Alignas(LINE) uint64_t counter;
    char staging[LINE - sizeof(uint64_t)];
} control_line;

/* What partners see of a rank; offsets are in its segment of the heap. */
typedef struct {
    control_line line[N_HALVES];
    int64_t staging_at, half_bytes;
    int64_t array_at[]; /* -1: not in the heap */
} control;

struct pl_peers {
    pl_heap *heap;
    MPI_Comm comm;
    const pl_memory *memory;
    int n_partners;
    int *partner;   /* [n_partners] ranks in the group */
    int *heap_rank; /* [n_partners] */
    int *place_of;  /* [group size] index among the partners, or -1 */
    control *mine;
    control **theirs; /* [n_partners] */
    char *staging;    /* NULL: in the lines */
    int64_t my_offset;
    int64_t *their_offset; /* [n_partners] */
    MPI_Request *requests; /* [2 n_partners] */
};

static void find_partners(pl_peers *peers, const pl_schedule *s, const pl_group *group)
{
    peers->place_of = pl_alloc((size_t)group->size * sizeof *peers->place_of);
    peers->partner = pl_alloc((size_t)group->size * sizeof *peers->partner);
    for (int p = 0; p < group->size; p++)
        peers->place_of[p] = -1;
    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            const int peer = steps[i].peer;

            if (steps[i].kind != PL_STEP_AWAIT || peers->place_of[peer] >= 0)
                continue;
            PL_ASSERT(peer != group->rank);
            peers->place_of[peer] = peers->n_partners;
            peers->partner[peers->n_partners++] = peer;
        }
    }
    peers->heap_rank = pl_alloc((size_t)(peers->n_partners + 1) * sizeof *peers->heap_rank);
    for (int i = 0; i < peers->n_partners; i++)
        peers->heap_rank[i] = pl_heap_rank(peers->heap, group->comm, peers->partner[i]);
}

static void make_staging(pl_peers *peers, int64_t bytes)
{
    control *mine = peers->mine;

    if (bytes <= (int64_t)sizeof mine->line[0].staging) {
        mine->staging_at = pl_heap_offset(peers->heap, mine->line[0].staging);
        mine->half_bytes = sizeof mine->line[0];
        return;
    }
    mine->half_bytes = (bytes + LINE - 1) / LINE * LINE;
    peers->staging = pl_heap_alloc(peers->heap, (size_t)(N_HALVES * mine->half_bytes));
    mine->staging_at = pl_heap_offset(peers->heap, peers->staging);
}

pl_peers *pl_peers_create(pl_heap *heap, const pl_schedule *schedule, const pl_group *group,
                          const pl_memory *memory)
{
    pl_peers *peers = pl_alloc(sizeof *peers);
    const size_t n_arrays = (size_t)memory->n_arrays;

    PL_ASSERT(heap != NULL);
    peers->heap = heap;
    peers->comm = group->comm;
    peers->memory = memory;
    find_partners(peers, schedule, group);
    peers->mine = pl_heap_alloc(heap, sizeof(control) + n_arrays * sizeof(int64_t));
    peers->my_offset = pl_heap_offset(heap, peers->mine);
    for (int i = 0; i < memory->n_arrays; i++)
        peers->mine->array_at[i] = pl_heap_offset(heap, memory->arrays[i]);
    make_staging(peers,
                 pl_schedule_staging_elements(schedule) * (int64_t)pl_dtype_bytes(memory->dtype));
    peers->theirs = pl_alloc((size_t)(peers->n_partners + 1) * sizeof(control *));
    peers->their_offset = pl_alloc((size_t)(peers->n_partners + 1) * sizeof *peers->their_offset);
    peers->requests = pl_alloc((size_t)(2 * peers->n_partners + 1) * sizeof(MPI_Request));
    return peers;
}

/* Wait until partner i has ended its run `n_runs`. */
static void await_end(const pl_peers *peers, int i, int64_t n_runs, double limit_s,
                      const char *name)
{
    const volatile uint64_t *counter =
        pl_peers_counter(peers, peers->partner[i], (int)(n_runs % N_HALVES));
    const double since_s = pl_now_s();
    pl_wait wait = {0};

    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < pl_peers_count(n_runs, PL_STAGE_END)) {
        if (limit_s > 0 && pl_now_s() - since_s > limit_s)
            PL_PANIC("no progress for %g s: rank %d has not ended '%s', which ends here", limit_s,
                     pl_world_rank(peers->comm, peers->partner[i]), name);
        pl_wait_once(&wait);
    }
}

void pl_peers_destroy(pl_peers *peers, int64_t n_runs, double limit_s, const char *name)
{
    for (int i = 0; i < peers->n_partners && n_runs > 0 && peers->staging != NULL; i++)
        await_end(peers, i, n_runs, limit_s, name);
    if (peers->staging != NULL)
        pl_heap_free(peers->heap, peers->staging);
    pl_free(peers->requests);
    pl_free(peers->their_offset);
    pl_free(peers->theirs);
    pl_free(peers->heap_rank);
    pl_free(peers->partner);
    pl_free(peers->place_of);
    pl_free(peers);
}

void pl_peers_meet(pl_peers *peers, int tag)
{
    const int n = peers->n_partners;

    for (int i = 0; i < n; i++)
        PL_MPI(MPI_Irecv(&peers->their_offset[i], 1, MPI_INT64_T, peers->partner[i], tag,
                         peers->comm, &peers->requests[i]));
    for (int i = 0; i < n; i++)
        PL_MPI(MPI_Isend(&peers->my_offset, 1, MPI_INT64_T, peers->partner[i], tag, peers->comm,
                         &peers->requests[n + i]));
}

MPI_Request *pl_peers_requests(pl_peers *peers, int *n_partners)
{
    *n_partners = peers->n_partners;
    return peers->requests;
}

int pl_peers_partner(const pl_peers *peers, int i)
{
    return peers->partner[i];
}

void pl_peers_met(pl_peers *peers)
{
    for (int i = 0; i < peers->n_partners; i++) {
        peers->theirs[i] = pl_heap_at(peers->heap, peers->heap_rank[i], peers->their_offset[i]);
        PL_ASSERT(peers->theirs[i] != NULL);
    }
}

/* Address of byte `offset` of the segment of a partner, by its index. */
static char *partner_at(const pl_peers *peers, int i, int64_t offset)
{
    char *at = pl_heap_at(peers->heap, peers->heap_rank[i], offset);

    PL_ASSERT(at != NULL);
    return at;
}

char *pl_peers_at(const pl_peers *peers, int rank, pl_piece piece, int64_t *half_bytes)
{
    const int i = rank == PL_SELF ? -1 : peers->place_of[rank];
    const int64_t offset = piece.offset * (int64_t)pl_dtype_bytes(peers->memory->dtype);
    const control *block;
    int64_t start;

    PL_ASSERT(rank == PL_SELF || i >= 0);
    block = rank == PL_SELF ? peers->mine : peers->theirs[i];
    *half_bytes = block->half_bytes;
    if (rank == PL_SELF && piece.array != PL_STAGING)
        return pl_memory_at(peers->memory, piece);
    PL_ASSERT(piece.array != PL_SCRATCH); /* private */
    start = piece.array == PL_STAGING ? block->staging_at : block->array_at[piece.array];
    PL_ASSERT(start >= 0);
    if (rank == PL_SELF)
        return (peers->staging ? peers->staging : peers->mine->line[0].staging) + offset;
    return partner_at(peers, i, start + offset);
}

void pl_peers_signal(pl_peers *peers, int64_t run, int stage)
{
    __atomic_store_n(&peers->mine->line[run % N_HALVES].counter, pl_peers_count(run, stage),
                     __ATOMIC_RELEASE);
}

const volatile uint64_t *pl_peers_counter(const pl_peers *peers, int rank, int parity)
{
    return &peers->theirs[peers->place_of[rank]]->line[parity].counter;
}
