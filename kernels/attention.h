/* attention -- causal grouped-query attention, tiled, with an online softmax.
 *
 * Query head n uses key/value head n K / N (K divides N). A query at index t sees keys 0..t. No
 * array of T x T exists: a tile of 64 queries meets tiles of 64 keys, and tiles above the diagonal
 * are skipped.
 * Source: Milakov & Gimelshein, arXiv 1805.02867 (online softmax); Dao et al., arXiv 2205.14135
 *         (tiling; the backward pass recomputes the weights from lse). */
#ifndef PURLIN_KERNELS_ATTENTION_H
#define PURLIN_KERNELS_ATTENTION_H

#include "kernels/progress.h"
#include "src/base/bf16.h"
#include "src/base/dtype.h"

#include <stdint.h>

/** Floats of scratch that forward and backward need, 64-byte aligned for speed; O(T H). */
int64_t pl_attention_scratch(int64_t T, int64_t H);

/* What the tiles of one head really compute, where the mask lets through only part: FLOPs of
 * forward and backward, and weights (exponentials), of which backward computes as many again. */
typedef struct {
    double forward_flops, backward_flops, weights;
    int64_t padded_head; /* elements of a packed row */
} pl_attention_work;

/** By the loops that compute them, with the tile of the ISA in use. Local. */
pl_attention_work pl_attention_count(pl_dtype dtype, int64_t T, int64_t H);

/** o[t, b, n, :] = sum over s <= t of softmax_s(scale * q[t, b, n, :] . k[s, b, n K / N, :]) v[s,
 * b, n K / N, :].
 *
 * q[T, B, N, H], k[T, B, K, H], v[T, B, K, H] in; o[T, B, N, H] and lse[T, B, N] = log of the sum
 * of exponentials of the scaled scores out. Nothing overlaps. Any extent may be 0. `progress` (may
 * be NULL) is called between heads.
 *
 * Order: scores sum over H ascending; the softmax's sum and o add keys ascending within a tile of
 *        64 keys, then tiles ascending. Each (b, n) is computed alike wherever it is held.
 * Cost:  4 H FLOPs a pair: 2 B N H T (T + 1) FLOPs of matmul over the visible pairs (the diagonal
 *        tiles are computed in part); reads (N + 2 K) T B H * 4 bytes, writes (N H + N) T B * 4.
 *        All fits in cache but these: a head's keys and values are packed once.
 * Error: |error of o| <= about (H + 16) u max|scale q.k| + (T / 64 + 64 + 4) u times the sum of the
 *        |terms|, u = 2^-24; weights below e^-87 are 0. Local. */
void pl_attention_forward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                          const float *q, const float *k, const float *v, float *o, float *lse,
                          float *scratch, const pl_progress *progress);

/** The same with q, k, v and o in bf16: sums and lse in f32, each element of o rounded once. With
 * PL_ISA_AVX512BF16 (vdpbf16ps) weights are rounded to bf16 before they multiply v, which adds
 * 2^-8 of the sum of the |terms| to the error; pairs of elements of H, and of keys, add at once.
 * Cost: the same FLOPs; 2 bytes instead of 4 for all but lse. */
void pl_attention_forward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                               const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v, pl_bf16 *o,
                               float *lse, float *scratch, const pl_progress *progress);

/** The gradients dq[T, B, N, H], dk[T, B, K, H], dv[T, B, K, H] from do_[T, B, N, H], the gradient
 * of o, and what forward read and wrote. dk and dv are summed over the query heads of their group.
 * All three are overwritten; nothing overlaps. Any extent may be 0.
 *
 * Order: dq adds keys ascending within a tile of 64, then tiles ascending; dk and dv add queries
 *        ascending within a tile of 64, then query heads of the group and their tiles ascending.
 * Cost:  10 H FLOPs a pair: 5 B N H T (T + 1) FLOPs of matmul; reads (3 N + 2 K) T B H * 4 bytes
 * and lse, N T B * 4; writes (N + 2 K) T B H * 4. Local. */
void pl_attention_backward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                           const float *q, const float *k, const float *v, const float *o,
                           const float *do_, const float *lse, float *dq, float *dk, float *dv,
                           float *scratch, const pl_progress *progress);

/** The same with all but lse in bf16: sums in f32, each element of dq, dk and dv rounded once. With
 * PL_ISA_AVX512BF16 weights and their gradients are rounded to bf16 before they multiply.
 * Cost: the same FLOPs; 2 bytes instead of 4 for all but lse. */
void pl_attention_backward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                                const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v,
                                const pl_bf16 *o, const pl_bf16 *do_, const float *lse, pl_bf16 *dq,
                                pl_bf16 *dk, pl_bf16 *dv, float *scratch,
                                const pl_progress *progress);

#endif
