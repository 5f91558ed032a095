/* estimate -- a step of any depth, length and number of stages from programs of a few layers.
 *
 * Layers are alike, and so are microbatches and the stages between the first and the last. So a
 * stage's program is built with four and with five layers (fewer where it has no more), in a
 * pipeline of at most three stages with at most three microbatches, and replayed alone
 * (roofline/predict.h): times, bytes, FLOPs and memory are then linear in the layers,
 *
 *   x(l) = x(4) + (l - 4) (x(5) - x(4)),
 *
 * activations also in the microbatches that live at once, and a step is its slots, replayed over
 * all stages (roofline/slots.h), and the update. So what costs time here is neither the model's
 * depth nor the machine's size. tests/estimate_test holds it against the replay of whole programs.
 */
#ifndef PURLIN_ROOFLINE_ESTIMATE_H
#define PURLIN_ROOFLINE_ESTIMATE_H

#include "src/roofline/build.h"
#include "src/roofline/predict.h"

/* What the backward pass computes again, by formula: the engine keeps all activations. */
typedef enum {
    PL_REMAT_NONE,
    PL_REMAT_BLOCK,   /* a layer keeps its input; its backward pass begins with its forward pass:
                       * 8 instead of 6 FLOPs a weight and token (book, section 4) */
    PL_REMAT_MATMULS, /* a layer keeps what its products give, and attends again: 4 N H FLOPs a pair
                       * of positions */
    PL_N_REMATS,
} pl_remat;

/** "none", "block", "matmuls". */
const char *pl_remat_name(pl_remat remat);

/* What is added to the program by formula, until the engine has it. [2]: forward, backward. Times
 * may be negative, where a program does more than what it stands for. */
typedef struct {
    pl_remat remat;
    double again_s; /* a layer and microbatch: what PL_REMAT_MATMULS does again */
    int interleave; /* v chunks of layers a stage, dealt out in turn: but for its hops the bubble is
                     * 1/v as long, and the first stage keeps 1 + (p - 1)/(p v) times the
                     * activations; 0: as 1 (Narayanan et al., arXiv 2104.04473; book, section 5) */
    double layer_math_s[2];            /* of a layer and microbatch: kernels */
    double layer_exposed_s[2];         /* communication that nothing hides */
    double step_exposed_s;             /* the same, once a step, after the slots */
    double memory_bytes[PL_N_CLASSES]; /* of every chip */
} pl_additions;

enum { PL_MAX_STREAMS = 12 };

/* Communication over one set of axes, of the busiest stage, a step. */
typedef struct {
    pl_axes axes;
    double busy_s;     /* alone */
    double exposed_s;  /* while the cores wait */
    double wire_bytes; /* sent by a chip */
} pl_stream;

typedef struct {
    double step_s;
    double math_s; /* kernels of the busiest stage */
    double comm_s; /* its communication, one after the other */
    double exposed_s;
    double bubble_s;         /* it waits for other stages */
    double lower_s, upper_s; /* the book's: max(T_math, T_comms); T_math + T_comms + bubble, T_comms
                              * being one after the other */
    double flops;            /* kernels of that stage */
    int n_streams;
    pl_stream stream[PL_MAX_STREAMS];
    double memory_bytes[PL_N_CLASSES]; /* of a chip of the stage that needs most */
    double total_bytes;
    int n_microbatches;
    double forward_s, backward_s; /* a microbatch's slots of the busiest stage */
} pl_estimate;

/* A plan's programs, built and replayed, of which steps are made with one addition or another. */
typedef struct pl_estimator pl_estimator;

/** For a plan whose degrees are set and have passed pl_spec_check(); its fabric as for pl_build(),
 * with wires for each axis of pl_spec_mesh(). Plan and machine must outlive it. Local, as is
 * everything here. */
pl_estimator *pl_estimator_create(const pl_plan *plan, const pl_machine *machine);
void pl_estimator_destroy(pl_estimator *e); /* NULL is allowed */

/** A step; `more` may be NULL. */
void pl_estimator_step(pl_estimator *e, const pl_additions *more, pl_estimate *out);

/** Both at once. */
void pl_estimate_step(const pl_plan *plan, const pl_additions *more, const pl_machine *machine,
                      pl_estimate *out);

/* The slots of every stage, for pl_slots_replay(); free with pl_stage_times_free(). */
typedef struct {
    int n_stages, n_microbatches;
    double *forward_s, *backward_s, *last_backward_s, *hop_s;
    double rest_s; /* after the slots: what is left of reductions, and the update */
} pl_stage_times;

void pl_estimator_stages(pl_estimator *e, const pl_additions *more, pl_stage_times *out);
/** The step that they add up to. */
double pl_stage_times_step_s(const pl_stage_times *times, pl_pipeline_kind kind);
void pl_stage_times_free(pl_stage_times *times);

#endif
