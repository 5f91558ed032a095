/* peers -- shared memory as one transfer sees it: the counters, staging and arrays of the ranks
 * that its schedule shares memory with (its partners: all whom it awaits).
 *
 * Every rank of a transfer has a control block in the heap: its counter, (run << 16 | stage), in
 * two lines that runs use in turn, each with room for a small staging beside the counter, so that
 * flag and payload travel as one cache line; and a table of where its arrays lie. Partners tell
 * each other where their blocks are by one message each, before the first run; nothing else about
 * shared memory is ever sent. */
#ifndef PURLIN_COLLECTIVES_PEERS_H
#define PURLIN_COLLECTIVES_PEERS_H

#include "collectives/message.h"
#include "src/mesh/comms.h"
#include "src/mesh/heap.h"

typedef struct pl_peers pl_peers;

/** For a schedule that shares memory, over `group`, with this rank's arrays in the heap. Local. */
pl_peers *pl_peers_create(pl_heap *heap, const pl_schedule *schedule, const pl_group *group,
                          const pl_memory *memory);
/** Awaits that all partners have ended run `n_runs`, this rank's last, but at most limit_s seconds
 * (0: for ever): then it panics and names the partner and `name`. Staging then goes back to the
 * heap (the control block stays, for partners that look at it later). Local. */
void pl_peers_destroy(pl_peers *peers, int64_t n_runs, double limit_s, const char *name);

/** Begin to exchange addresses (once, before the first run). Local. */
void pl_peers_meet(pl_peers *peers, int tag);
/** The requests of that: receives, then sends, of n_partners each. Local. */
MPI_Request *pl_peers_requests(pl_peers *peers, int *n_partners);
int pl_peers_partner(const pl_peers *peers, int i);
/** They have completed: look up all partners' memory. Local. */
void pl_peers_met(pl_peers *peers);

/** Address of a piece of a partner's memory, or of this rank's staging (PL_SELF); for staging, its
 * first half, and *half_bytes, the way to the second. After pl_peers_met(), or for PL_SELF. Local.
 */
char *pl_peers_at(const pl_peers *peers, int rank, pl_piece piece, int64_t *half_bytes);

/** Make this rank's counter say: stage `stage` of run `run`. Local. */
void pl_peers_signal(pl_peers *peers, int64_t run, int stage);
/** Where partner `rank` keeps the counter of runs with that parity. Local. */
const volatile uint64_t *pl_peers_counter(const pl_peers *peers, int rank, int parity);
static inline uint64_t pl_peers_count(int64_t run, int stage)
{
    return (uint64_t)run << 16 | (uint64_t)stage;
}

#endif
