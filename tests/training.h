/* training -- runs of ./train's own session for tests to compare: options in, losses, gradient
 * norms, first gradients and final weights out. */
#ifndef PURLIN_TESTS_TRAINING_H
#define PURLIN_TESTS_TRAINING_H

#include "src/train/session.h"

enum { TRAINING_MAX_STEPS = 256 };

/* What a run left behind; arrays on rank 0 of its communicator only. */
typedef struct {
    pl_status status;
    int n_steps;
    double loss[TRAINING_MAX_STEPS], grad_norm[TRAINING_MAX_STEPS], lr[TRAINING_MAX_STEPS];
    int64_t n_weights;
    float *weights;   /* all weights (masters of bf16 ones), one after another, in the file's order */
    int64_t n_unrounded; /* weights that kernels read and that aren't those, rounded to their type */
    float *gradients; /* of step 0, before clipping, laid out like the weights */
    double eval_loss; /* with --eval-only */
    int64_t eval_tokens;
    int64_t allocations; /* made by the steps after the first */
    int n_unlike; /* classes of memory used unlike predicted, wires counted unlike predicted */
    int64_t wire_bytes; /* counted, of a step, all axes */
} training;

/** Train as `./train OPTIONS` would (a machine file for tests is added). Collective over comm. */
void training_run(MPI_Comm comm, const char *options, training *t);
void training_free(training *t);

/** How far gradient norms may be from those of `one`, a one-rank run of `options`, when only the
 * order of sums differs: bound[i], relative, for step i.
 *
 * 5e-6 (see tests/parity_test.c), but for steps on which training itself magnifies a rounding, and
 * those after them: by how much is seen on one rank, from five runs that differ only in how the
 * batch is cut into microbatches. Norms may be off by 8 times the most that theirs have been so
 * far: of normal deviates one in 15,000 exceeds the largest of five others eight times over (5
 * (2/pi)^(5/2) 8^-5 E|z|^5 / 5). Local: runs on MPI_COMM_SELF. */
void training_norm_bounds(const char *options, const training *one,
                          double bound[TRAINING_MAX_STEPS]);

/** Tensor i of the file's order within `all` (t->weights or t->gradients); *n elements. */
const float *training_tensor(const float *all, const pl_model_config *model, int64_t i, int64_t *n);

#endif
