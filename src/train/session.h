/* session -- a training run set up: model, mesh, program, memory, data. Steps and evaluations are
 * functions of it, so that tests drive exactly what ./train drives. */
#ifndef PURLIN_TRAIN_SESSION_H
#define PURLIN_TRAIN_SESSION_H

#include "src/machine/machine.h"
#include "src/mesh/topology.h"
#include "src/model/params.h"
#include "src/roofline/build.h"
#include "src/roofline/choose.h"
#include "src/roofline/predict.h"
#include "src/train/options.h"

typedef struct {
    const pl_options *options;
    MPI_Comm world;
    pl_model_config model;
    pl_corpus corpus;
    pl_weight_file *file; /* --init, or NULL */
    pl_topology topology;
    pl_machine machine;
    bool has_machine; /* pl_session_use_machine() */
    pl_heap *heap;           /* NULL: collectives go by messages */
    int *host_of;            /* [ranks] where they aren't dealt to hosts in order, else NULL */
    char algo[PL_ALGO_TEXT]; /* --algo, or the environment's */
    char choice[256];        /* how degrees left out were chosen; "" when none were */
    pl_spec only; /* the only degrees that suit; those that are still to be chosen are 0 */
    pl_plan plan;
    pl_mesh mesh;
    pl_comms comms;
    pl_engine *engine;
    int n_stages;
    pl_program **stages; /* the programs of all stages: predictions replay them together */
    pl_program *program; /* this rank's stage, one of them */
    pl_prediction *prediction;
    double f32_step_s; /* predicted for the same step in f32; 0 where it is f32 */
    pl_wire wire; /* predicted */
    pl_run *run;
    pl_program
        *eval_program[2]; /* full batches, and what is left of the windows; NULL: not needed */
    pl_run *eval_run[2];
    int64_t n_eval_windows;
    int32_t *row; /* [seq + 1] tokens of one window */
    pl_span_buffer spans;
} pl_session;

typedef struct {
    double loss, grad_norm, lr;
    double step_s;    /* wall time, this rank */
    double exposed_s; /* communication waited for, this rank */
    double kernels_s; /* kernels of the forward and backward pass running, this rank */
    double update_s;  /* those of the optimizer */
} pl_step_result;

/** Everything that can be refused before anything is measured or printed: model, files, data,
 * output paths, numbers that must fit each other. Collective over world. */
pl_status pl_session_open(MPI_Comm world, const pl_options *options, pl_session *session);

/** Take this machine in place of the cache's or a calibration: of another session of the job.
 * Between open and plan. Local. */
void pl_session_use_machine(pl_session *session, const pl_machine *machine);

/** The machine (from --machine, the cache, or calibration), degrees left out, mesh and programs.
 * Collective over world. */
pl_status pl_session_plan(pl_session *session);

/** Every strategy that the options leave open, predicted (pl_choices_find()). After plan. Collective
 * over world. */
pl_status pl_session_choices(const pl_session *session, pl_choices *choices);

/** Bytes that the arrays of a rank may take: its share of the smallest host, less what products
 * pack into. After plan. Collective over world. */
int64_t pl_session_memory(const pl_session *session);

/** Communicators, memory, weights. Collective over world. */
pl_status pl_session_start(pl_session *session);

/** Free everything, at whatever stage the session is. Collective over world. */
void pl_session_close(pl_session *session);

/** The first part of a step: loss, gradients and their norm (result's loss, grad_norm, lr). A
 * non-finite one gives PL_WRONG on every rank, with a message that names the step, the rank and the
 * array (already printed). Collective over world. */
pl_status pl_session_gradients(pl_session *session, int64_t step, pl_step_result *result);

/** The second part: clip and update. Collective over world. */
void pl_session_update(pl_session *session);

/** Both parts, timed; nothing is updated unless the first is good. Collective over world. */
pl_status pl_session_step(pl_session *session, int64_t step, pl_step_result *result);

/** Mean loss over the evaluation windows; *n_tokens of them. Collective over world. */
pl_status pl_session_evaluate(pl_session *session, double *loss, int64_t *n_tokens);

/** MFU of a step that takes step_s: the model's FLOPs (pl_model_flops) over what all ranks'
 * measured peaks allow in that time. Local. */
double pl_session_mfu(const pl_session *session, double step_s);

/** used[c]: bytes of class c that the ops' arrays reach into, the largest over ranks (workspace:
 * and what matmul has taken to pack into); counted[i]: bytes handed to MPI over
 * session->wire.axes[i] since the start, all ranks. Collective over world.
 */
void pl_session_usage(const pl_session *session, size_t used[PL_N_CLASSES],
                      int64_t counted[PL_MAX_WIRES]);

/** Each of x[n] becomes the largest, or the sum, of it over all ranks (sums of integers below 2^53
 * are exact). Collective over world; polls. */
void pl_session_max(const pl_session *session, double *x, int n);
void pl_session_sum(const pl_session *session, double *x, int n);

#endif
