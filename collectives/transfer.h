/* transfer -- a schedule bound to memory and messages: what the engine runs. Internal to the
 * engine. */
#ifndef PURLIN_COLLECTIVES_TRANSFER_H
#define PURLIN_COLLECTIVES_TRANSFER_H

#include "collectives/check.h"
#include "collectives/engine.h"
#include "collectives/message.h"
#include "collectives/moves.h"
#include "collectives/peers.h"

enum { PL_MEETING_ROUND = -2, PL_CHECKING_ROUND = -1 };

/* One peer's stage, awaited. */
typedef struct {
    int peer, stage, lag;
    const volatile uint64_t *counter[2]; /* of runs of either parity */
} pl_bound_await;

/* One round: where its parts lie in the transfer's lists. */
typedef struct {
    int first_await, n_awaits;
    int first_message, n_recvs, n_messages; /* receives, then sends */
    int first_move, n_copies, n_combines, n_reduces;
    int signal;         /* stage, or 0 */
    int64_t sent_bytes; /* in messages, and read or written in peers' memory */
} pl_bound_round;

struct pl_transfer {
    const pl_schedule *schedule;
    MPI_Comm comm;
    int size, rank, tag;
    char *name;
    pl_memory memory;
    void **arrays; /* ours, memory points here */

    pl_arena *arena; /* of what follows */
    int n_rounds, n_awaits, n_messages, n_moves;
    pl_bound_round *rounds; /* [n_rounds] */
    pl_bound_await *awaits; /* [n_awaits] */
    MPI_Request *requests;  /* [n_messages], persistent, round by round */
    MPI_Datatype *types;    /* [n_messages], MPI_DATATYPE_NULL for plain elements */
    int *peers_of;          /* [n_messages] */
    pl_move *moves;         /* [n_moves] round by round: copies, combinations, reductions */
    const pl_step **steps;  /* [n_moves] what each move came from */
    pl_peers *peers;        /* NULL: shares no memory */
    bool has_met;
    bool checked;
    pl_check check;

    bool in_flight;
    int round;      /* in flight: the current one, PL_MEETING_ROUND or PL_CHECKING_ROUND */
    bool has_begun; /* its awaits are over and its messages in flight */
    int next_await; /* of the current round */
    int64_t n_runs, sent_bytes;
    double begin_s, end_s;
};

/** Bind `schedule`; see pl_engine_prepare(). */
pl_transfer *pl_transfer_create(pl_heap *heap, const pl_schedule *schedule, const pl_group *group,
                                int tag, pl_dtype dtype, void *const *arrays, int n_arrays,
                                void *scratch, const char *name, bool checked, int chunk_elements);
/** Not in flight. Waits at most limit_s seconds (0: for ever) for those who may still read its
 * staging. */
void pl_transfer_destroy(pl_transfer *t, double limit_s);

/** Partners' addresses have arrived. */
void pl_transfer_end_meeting(pl_transfer *t);
/** Whether the peer has come so far. */
bool pl_transfer_has_signalled(const pl_transfer *t, const pl_bound_await *await);
/** What the transfer's current round waits for as messages. */
MPI_Request *pl_transfer_pending(const pl_transfer *t, int *n);
/** The ranks that it waits for, as text: those whose signal or message is missing, and those that
 * have not taken a message. */
void pl_transfer_describe_pending(const pl_transfer *t, char *text, size_t size);

#endif
