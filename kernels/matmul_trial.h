/* matmul_trial -- which of own tiles and OpenBLAS computes a shape faster: what a trial found, what
 * pl_matmul() does about it, and the products that a trial runs.
 *
 * Samples of both are taken in turn, whoever calls this keeps the time. Only pl_matmul_by_choice() with
 * PL_MATMUL_AUTO asks the table; shapes that it lacks go by the rule of matmul.h. */
#ifndef PURLIN_KERNELS_MATMUL_TRIAL_H
#define PURLIN_KERNELS_MATMUL_TRIAL_H

#include "kernels/matmul.h"

/** What of a product decides how long it takes. */
typedef struct {
    pl_trans trans_a, trans_b;
    int64_t M, N, K, lda, ldb, ldc; /* as pl_matmul() gets them */
    bool accumulate;
} pl_matmul_shape;

bool pl_matmul_shape_equal(const pl_matmul_shape *a, const pl_matmul_shape *b);

/** "2048x1536x512 nt", M x N x K, and "+=" where it accumulates. */
enum { PL_MATMUL_SHAPE_TEXT = 96 };
void pl_matmul_shape_print(const pl_matmul_shape *shape, char text[PL_MATMUL_SHAPE_TEXT]);

/** A shape and what was found: medians of a call, or of the part of it that was timed. */
typedef struct {
    pl_matmul_shape shape;
    double own_s, openblas_s;
    bool openblas; /* is faster by more than the spread */
} pl_matmul_tried;

enum { PL_MATMUL_MOST_TRIED = 128, PL_MATMUL_MOST_SAMPLES = 9 };
#define PL_MATMUL_LEAST_GAIN 0.02

/** own_s[n] and openblas_s[n], 1 <= n <= PL_MATMUL_MOST_SAMPLES, into tried->own_s, openblas_s
 * (medians) and openblas: whether the medians differ by more than the larger of both middle halves
 * (upper less lower quartile) and by more than PL_MATMUL_LEAST_GAIN of own_s. Local. */
void pl_matmul_judge(const double *own_s, const double *openblas_s, int n, pl_matmul_tried *tried);

/** From now on pl_matmul() computes tried[n] by whom they say; n at most PL_MATMUL_MOST_TRIED; 0:
 * by the rule alone. Copied. Once for each program that is run. Local. */
void pl_matmul_use_tried(const pl_matmul_tried *tried, int n);

/** What is in use, [*n]. */
const pl_matmul_tried *pl_matmul_tried_in_use(int *n);

/** The entry of this shape, or NULL. */
const pl_matmul_tried *pl_matmul_find_tried(const pl_matmul_shape *shape);

/** A product of a shape on arrays of its own. */
typedef struct pl_matmul_trial pl_matmul_trial;

/** Of a product of more than most_flops a part is timed, with the strides of the whole: the largest
 * extent is halved while it is above 256; so too where the operands hold more than 2^24 elements.
 * Operands are small numbers, none 0. Local. */
pl_matmul_trial *pl_matmul_trial_create(const pl_matmul_shape *shape, double most_flops);
void pl_matmul_trial_destroy(pl_matmul_trial *trial);

/** Compute it `n` times by own tiles or by OpenBLAS, on the threads that are set. `calls_hook`: with
 * a progress hook, which makes OpenBLAS stop now and then. Local. */
void pl_matmul_trial_run(pl_matmul_trial *trial, bool openblas, bool calls_hook, int n);

#endif
