/* run -- executes a stage's program on this rank: kernels on local shards, collectives in the
 * background, in the order of the program's actions. Everything is bound at creation; a step
 * allocates nothing. */
#ifndef PURLIN_PROGRAM_RUN_H
#define PURLIN_PROGRAM_RUN_H

#include "collectives/engine.h"
#include "src/base/span.h"
#include "src/mesh/comms.h"
#include "src/program/kinds.h"

/* What was measured of one op since pl_run_reset(). */
typedef struct {
    int64_t calls;
    double busy_s;    /* kernels: time running, without what progress of communication took
                       * meanwhile; where ranks take turns, of their core. Communication: from start
                       * to completion */
    double turns_s;   /* kernels, where ranks take turns: others had the core meanwhile */
    double exposed_s; /* communication: time this rank did nothing but wait for it, or start it */
} pl_op_measure;

typedef struct pl_run pl_run;

/** The axes of every group that the program's communication runs over (for pl_comms_create);
 * returns how many; sets has room for n_ops entries. Local. */
int pl_run_groups(const pl_program *p, pl_axes *sets);

/** Allocate the pools, in `heap` (the engine's; NULL: in private memory), and bind every op. `shared` (may be NULL) is a run whose persistent values of
 * equal names serve this one too (evaluation shares the weights of training).
 * The program, comms and engine must outlive the run. Local. */
pl_run *pl_run_create(const pl_program *p, const pl_comms *comms, pl_engine *engine,
                      pl_heap *heap, const pl_run *shared);
void pl_run_destroy(pl_run *run);
/** Say that other ranks share this one's core (at first: none): kernels are then timed by what they
 * use of it. Local. */
void pl_run_set_turns(pl_run *run, bool takes_turns);

/** This rank's shard of value v, NULL when the stage does not hold it. */
void *pl_run_data(const pl_run *run, int v);

/** Whether this rank's shard of v has an infinity or a NaN; false where it holds none. */
bool pl_run_has_non_finite(const pl_run *run, int v);

/** Set every scalar value of that name (one per microbatch or one). */
void pl_run_set_scalar(pl_run *run, const char *name, float x);
/** Value of a scalar by name. */
float pl_run_scalar(const pl_run *run, const char *name);

/** Run actions [first, last). With `check`, every op's outputs are scanned for non-finite numbers
 * and the first found is recorded (pl_run_first_bad). */
void pl_run_actions(pl_run *run, int first, int last, bool check);
/** Run the kernels of those actions but the update's, with no communication: what they take by
 * themselves. Arrays then hold anything; measures count. Local. */
void pl_run_kernels(pl_run *run);
/** Start and wait for the communication of those actions whose group lies within `within` (0: all), in
 * their order, with no kernels between: what it takes by itself. Arrays then hold anything; measures
 * count. Collective over the groups. */
void pl_run_communication(pl_run *run, pl_axes within);
/** The value in which `check` first found a non-finite number, or PL_NONE. */
int pl_run_first_bad(const pl_run *run);

/** Measures per op (indexed like the program's ops). */
const pl_op_measure *pl_run_measures(const pl_run *run);
void pl_run_reset(pl_run *run);
/** Record every action into a span buffer (NULL turns it off): a span an action on the compute
 * track, and one for each communication from its start to its completion. */
void pl_run_trace(pl_run *run, pl_span_buffer *spans, int detail);

/** Bytes handed to MPI over a group of exactly these axes since creation. */
int64_t pl_run_sent_bytes(const pl_run *run, pl_axes axes);
/** Highest byte touched in each class's pool by the ops bound to it: what memory is really used. */
size_t pl_run_used_bytes(const pl_run *run, pl_class class);

#endif
