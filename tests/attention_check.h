/* attention_check -- attention in f64, written out plainly, with bounds carried through every step;
 * the arrays of a test; either type by one call. */
#ifndef PURLIN_TESTS_ATTENTION_CHECK_H
#define PURLIN_TESTS_ATTENTION_CHECK_H

#include "src/base/dtype.h"
#include "tests/kernel_check.h"

typedef struct {
    int64_t T, B, N, K, H;
    double spread;     /* of q and k: large values make the softmax one hot */
    input of_v, of_do; /* kinds of v and of the gradient of o */
} attention_shape;

/** Values are f32 whatever the kernel's type; those of bf16 are exact in it. */
typedef struct {
    attention_shape z;
    float scale;
    double unit;  /* unit roundoff of bf16 where that is the kernel's type, else 0 */
    double least; /* what a product may lose near zero */
    float *q, *k, *v, *do_, *o, *lse, *dq, *dk, *dv, *scratch;
} attention_arrays;

attention_arrays attention_create(attention_shape z, pl_dtype dtype);
void attention_destroy(attention_arrays *a);

/** Where query t of head (b, n), and its key s, begin. */
int64_t at_q(const attention_shape *z, int64_t t, int64_t b, int64_t n);
int64_t at_k(const attention_shape *z, int64_t s, int64_t b, int64_t n);

/** The kernel, of the arrays' type. */
void attention_forward(attention_arrays *a);
void attention_backward(attention_arrays *a);

/** Query t of head (b, n): its weights w[T], lse, and how far off (relatively) f32 weights may be.
 */
typedef struct {
    double lse, w_error, lse_error;
    double *w;
} attention_row;

void attention_weigh(const attention_arrays *a, int64_t t, int64_t b, int64_t n, attention_row *r);

/** Compares that query's o and lse. */
void attention_judge_forward(const attention_arrays *a, int64_t t, int64_t b, int64_t n,
                             const attention_row *r, verdict *of_o, verdict *of_lse);

/** f64 gradients and the bounds of their f32 errors. */
typedef struct {
    double *dq, *dk, *dv, *dq_bound, *dk_bound, *dv_bound;
} attention_sums;

attention_sums attention_gradients(const attention_arrays *a);
void attention_gradients_destroy(attention_sums *g);

/** bound + the rounding of a result of that error to the kernel's type. */
double attention_rounding(const attention_arrays *a, double want, double bound);

#endif
