/* engine -- runs schedules over MPI and shared memory, many at once, in the background.
 *
 * A transfer is prepared once (setup: message requests, chunks under MPI's int, datatypes for
 * strided pieces) and started every step; starting, progressing and waiting allocate nothing of
 * ours. MPI makes no progress by itself: pl_engine_progress() is the hook that long kernels call,
 * and every wait progresses all transfers in flight. Waits poll, then yield, then sleep
 * (base/wait.h); nothing blocks inside MPI. */
#ifndef PURLIN_COLLECTIVES_ENGINE_H
#define PURLIN_COLLECTIVES_ENGINE_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"
#include "src/mesh/comms.h"
#include "src/mesh/heap.h"

typedef struct pl_engine pl_engine;
typedef struct pl_transfer pl_transfer;

/** An engine without transfers. `heap` (kept, not owned; NULL: messages only) is where the arrays of
 * schedules that share memory lie. Local. */
pl_engine *pl_engine_create(pl_heap *heap);
/** Waits for what is in flight, then frees the engine and its transfers; before MPI_Finalize and
 * before the groups go. NULL is allowed. Local. */
void pl_engine_destroy(pl_engine *engine);

enum { PL_MAX_TAG = 32767 }; /* the one tag above is the engine's, for checking */

/** Prepare `schedule` (kept, not owned) over `group`. arrays[] hold elements of `dtype` and must stay
 * valid, as must scratch (schedule's scratch elements); they lie in the engine's heap if the
 * schedule shares memory (scratch may lie anywhere). `tag` tells transfers in flight on one group
 * apart: equal on all its ranks, different for transfers that may overlap; 0 <= tag < PL_MAX_TAG.
 * `name` is used in messages. Staging comes from the heap. Local (setup). */
pl_transfer *pl_engine_prepare(pl_engine *engine, const pl_schedule *schedule,
                               const pl_group *group, int tag, pl_dtype dtype,
                               void *const *arrays, int n_arrays, void *scratch,
                               const char *name);

/** Begin. The transfer must not be in flight. Local; progresses. */
void pl_engine_start(pl_engine *engine, pl_transfer *transfer);
/** Progress every transfer in flight once; cheap when none is. Local, never blocks. */
void pl_engine_progress(pl_engine *engine);
/** Whether it has completed (true before the first start). Local, does not progress. */
bool pl_transfer_done(const pl_transfer *transfer);
/** Wait for completion, progressing everything. After stall_s seconds (pl_engine_set_stall)
 * without any progress prints which rank waits for which transfer and peers, then panics. */
void pl_engine_wait(pl_engine *engine, pl_transfer *transfer);

/** When the last run of the transfer began and completed (pl_now_s()). */
double pl_transfer_begin_s(const pl_transfer *transfer);
double pl_transfer_end_s(const pl_transfer *transfer);
/** And how long it took. */
double pl_transfer_duration_s(const pl_transfer *transfer);
/** Payload bytes handed to MPI for sending, and read from or written to peers' memory, since
 * creation; counted where it happens. */
int64_t pl_transfer_sent_bytes(const pl_transfer *transfer);

/** Watchdog for waits, seconds; 0 turns it off. Default 60; with checking on, 5. */
void pl_engine_set_stall(pl_engine *engine, double stall_s);

/** --check, for transfers prepared from now on: before a transfer's first round, ranks that exchange
 * messages or share memory in it tell each other what they have begun (name, tag, run, collective,
 * type, elements of the whole and from one to the other), and compare; a mismatch names both
 * operations and panics. Two ranks must begin what they do together
 * in one group in the same order, by the same names. Off by default; equal on all ranks. Local. */
void pl_engine_set_checking(pl_engine *engine, bool on);

/** Most elements of one message, for transfers prepared from now on; longer ones are cut. Default
 * PL_CHUNK_ELEMENTS (collectives/region.h). Equal on all ranks. Local. */
void pl_engine_set_chunk(pl_engine *engine, int elements);

#endif
