/* stage_samples -- what a stage of few layers costs, from its program, built and replayed alone;
 * estimate.c makes steps of them. All functions are local. */
#ifndef PURLIN_ROOFLINE_STAGE_SAMPLES_H
#define PURLIN_ROOFLINE_STAGE_SAMPLES_H

#include "src/roofline/estimate.h"

/* Kernels and communication of a microbatch, or of what is done once a step. */
typedef struct {
    double math_s, flops, comm_s, exposed_s;
    double stream[PL_MAX_STREAMS][3]; /* busy_s, exposed_s, wire_bytes */
} pl_stage_sums;

/* One stage: all of it linear in its layers. Numbers only (pl_stage_numbers()). */
typedef struct {
    double forward_s, backward_s; /* a slot in the middle of a step */
    double last_s;                /* the last backward slot, with the reductions of gradients */
    double edge_s;                /* what slots at the begin of a step take more */
    double rest_s;                /* after the slots */
    double hop_s;                 /* a message to the next stage, or to the one before */
    pl_stage_sums slot[2], once;  /* forward, backward; of the step */
    double memory[PL_N_CLASSES];
} pl_stage_sample;

/* A stage with `few` layers and with one more. */
typedef struct {
    int few;
    pl_stage_sample a, b;
} pl_stage_pair;

/* The program of all stages of a small plan, which those of its stages are built from. */
typedef struct {
    int n_stages, layers; /* of each stage */
    pl_plan plan;
    pl_mesh mesh;
    pl_program *program;
} pl_stage_whole;

/* Programs are of one to PL_FEW_LAYERS + 1 layers a stage; with a stage fewer two of them. */
enum { PL_FEW_LAYERS = 4, PL_MAX_WHOLES = PL_FEW_LAYERS + 3 };

/* The plan whose stages are sampled. */
typedef struct {
    const pl_plan *plan;
    const pl_machine *machine;
    int n_stages, n_microbatches;
    int64_t micro_batch;
    int n_streams;
    pl_axes axes[PL_MAX_STREAMS]; /* of streams, in the order in which they were met */
    int n_wholes;                 /* while programs are built */
    pl_stage_whole wholes[PL_MAX_WHOLES];
} pl_stage_sampler;

/** Stages like stage `index`; memory as it is in that one. */
pl_stage_pair pl_sample_stage(pl_stage_sampler *of, int index);

/** Free the programs that samples were built from. */
void pl_forget_programs(pl_stage_sampler *of);

/** x(l) from x(a) and x(a + 1). Buffers of communication and workspace are not of layers but of a
 * window that moves over them: as many as in the larger. */
pl_stage_sample pl_stage_between(pl_stage_sample a, pl_stage_sample b, double layers_more);

/** A sample as the numbers that it consists of. */
double *pl_stage_numbers(pl_stage_sample *s);

/** How many microbatches' activations stage `index` of n_stages holds at once, of m. */
int pl_live_microbatches(const pl_stage_sampler *of, int n_stages, int index, int m);

#endif
