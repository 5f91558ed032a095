/* adamw -- Adam with decoupled weight decay, one pass over memory.
 * Source: Loshchilov & Hutter, arXiv 1711.05101; the order of operations is PyTorch's. */
#ifndef PURLIN_KERNELS_ADAMW_H
#define PURLIN_KERNELS_ADAMW_H

#include "src/base/bf16.h"

#include <stdint.h>

/** The scalars of one update. They are f64 so that 1 - beta is formed before it is rounded. */
typedef struct {
    double lr, beta1, beta2, eps;
    double weight_decay;   /* 0 for arrays that do not decay */
    double bias1, bias2;   /* 1 - beta1^t, 1 - beta2^t, t counted from 1 */
    double gradient_scale; /* g is multiplied by this first: the clip factor */
} pl_adamw_scalars;

/** p[n], m[n], v[n] are updated by the gradient g[n]:
 *   g' = gradient_scale g;  m += (1 - beta1) (g' - m);  v = beta2 v + (1 - beta2) g'^2
 *   p  = (1 - lr weight_decay) p - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps)
 * Nothing overlaps. n may be 0.
 * Cost: 15 n FLOPs (a root and two divisions among them); reads 4 n * 4 bytes, writes 3 n * 4.
 * Local. */
void pl_adamw(int64_t n, const pl_adamw_scalars *scalars, const float *g, float *p, float *m,
              float *v);

/** The same, and rounded[n] = p[n] as it is afterwards, in bf16, in the same pass: p is the f32
 * master of a weight that is used in bf16. Writes n * 2 bytes more. */
void pl_adamw_bf16(int64_t n, const pl_adamw_scalars *scalars, const float *g, float *p, float *m,
                   float *v, pl_bf16 *rounded);

#endif
