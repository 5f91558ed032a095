/* matmul -- matrix products in f32 and bf16, by register tiles of our own or by OpenBLAS. */
#ifndef PURLIN_KERNELS_MATMUL_H
#define PURLIN_KERNELS_MATMUL_H

#include "kernels/progress.h"
#include "src/base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { PL_NO_TRANS = 0, PL_TRANS = 1 } pl_trans;

/** c[M, N] = op(a)[M, K] . op(b)[K, N], or += when `accumulate`; row-major f32.
 *
 * a is stored [M, K] with PL_NO_TRANS, [K, M] with PL_TRANS; b is stored [K, N] or [N, K]; lda,
 * ldb, ldc are the distances between stored rows, in elements. c overlaps neither a nor b. Without
 * `accumulate` c is not read (NaNs in it vanish) and K = 0 gives zeros. M, N or K may be 0.
 * `progress` is called by the calling thread about every 2 ms; NULL: nobody is.
 *
 * Order: K in blocks of 512, ascending; each a chain of fused multiply-adds from 0, k ascending,
 *        then added to the blocks before it (to c with `accumulate`). M, N, strides, transposition
 *        and the number of threads do not matter to any bit, but that with PL_MATMUL_AUTO products
 *        of one row or column are summed as `dots` of pl_product where b lies along K. (Generic ISA
 *        on x86, and a build with -Og: multiplies and adds round apart. OpenBLAS: see
 *        matmul_openblas.h.)
 * Cost:  2 M N K FLOPs; reads (M K + K N) * 4 bytes, writes M N * 4 (reads them too when
 *        `accumulate`). Local. */
void pl_matmul(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K, const float *a,
               int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc,
               const pl_progress *progress);

/** b[K, N] in the layout that the tiles of one ISA read. */
typedef struct pl_matmul_packed pl_matmul_packed;

/** A matrix whose stored rows lie in several places, such as the shards of a gathered weight, each
 * in the memory of who holds it: rows begin[i] to begin[i + 1] from data[i] on, all as far apart.
 */
typedef struct {
    int n;
    const void *const *data; /* [n] */
    const int64_t *begin;    /* [n + 1], ascending from 0; the last is the number of stored rows */
} pl_pieces;

/** op(b)[K, N] as bytes; see matmul_int8.h. */
typedef struct pl_int8_weights pl_int8_weights;

/** `count` products c_i = op(a_i) . op(b_i), or +=, like pl_matmul(). */
typedef struct {
    pl_trans trans_a, trans_b;
    int64_t M, N, K;
    pl_dtype dtype;   /* of a and b: PL_F32 or PL_BF16 */
    pl_dtype c_dtype; /* PL_F32 or PL_BF16: rounded once, to nearest even */
    const void *a, *b;
    const pl_pieces *a_pieces, *b_pieces; /* in place of a, of b (count 1; a not with int8): the
                                           * same bits, packed from where they lie; or NULL */
    int64_t lda, ldb, ldc;                /* elements */
    const pl_matmul_packed *packed;       /* in place of b (N, K, dtype alike); or NULL */
    const pl_int8_weights *int8;          /* in place of b (N, K alike); or NULL */
    void *c;
    bool accumulate;      /* add to c */
    const void *residual; /* or (without accumulate) c = residual + the product: an array of c's
                           * type beside it, or NULL */
    int64_t ld_residual;
    int64_t count, a_step, b_step,
        c_step;            /* elements between the operands of products; 0: shared */
    int64_t residual_step; /* the same */
    bool dots; /* one row of f32 times a b stored along K (or a column likewise) is summed as dot
                * products, in an order of its own: kernels/matmul_single.h */
} pl_product;

/** All the products of `p`, always by our own tiles.
 *
 * bf16 order: blocks of 1024 elements of K. With PL_ISA_AVX512BF16 pairs (k, k + 1), k even, are
 * added to f32 sums by vdpbf16ps, which takes denormals for 0 and flushes them; with
 * PL_ISA_NEONBF16 by bfdot, which does so too; on other ISAs elements become f32 while they are packed, and blocks are of 512. Sums that wait for the next
 * block are f32, also where c is bf16: then what was in c, or the residual, is added last.
 *
 * With int8 each row of a becomes bytes, q = a / s to the nearest, s = max_k |a| / 127 (a row whose
 * largest is below 2^-100: 0; one that is not finite: NaN): |a - s q| <= s (1/2 + 2^-15). Products
 * of bytes are summed exactly, then scaled, sum * s * scale[n]: at most 3 roundings, one more with
 * `accumulate` and one for bf16. No order matters.
 * Cost: 2 count M N K FLOPs; bytes as each dtype's size says; a residual is read once, M N elements,
 *       and saves a pass that would read the product and it and write their sum. Local. */
void pl_matmul_run(const pl_product *p, const pl_progress *progress);

/** The same by whoever computes pl_matmul(), where OpenBLAS has such a product: one of f32, its
 * operands in place. A residual is then copied to c first. Local. */
void pl_matmul_by_choice(const pl_product *p, const pl_progress *progress);

/** Space for op(b)[K, N] of `dtype`, packed for the ISA in use, which must be in use still when it
 * is filled or multiplied. */
pl_matmul_packed *pl_matmul_packed_create(pl_dtype dtype, int64_t K, int64_t N);
void pl_matmul_packed_destroy(pl_matmul_packed *packed); /* NULL is allowed */

/** Fill it, again and again; reads K N elements, writes as many words. Products with it have the
 * bits of products with b. Local. */
void pl_matmul_pack(pl_matmul_packed *packed, pl_trans trans_b, const void *b, int64_t ldb);

/** The same of a b in pieces: gathered and packed in one pass. Local. */
void pl_matmul_pack_pieces(pl_matmul_packed *packed, pl_trans trans_b, const pl_pieces *b,
                           int64_t ldb);

/** Bytes that the packed form of b[K, N] takes. */
size_t pl_matmul_packed_bytes(pl_dtype dtype, int64_t K, int64_t N);

/** Who computes pl_matmul(). Auto: whom a trial of the shape found faster (matmul_trial.h; found
 * once and kept, so that every run has the same bits), else own wherever this CPU has a tile of its
 * own, else (the portable tile) OpenBLAS. Auto has own sum `dots`: a chain for each element needs b
 * transposed, in registers, at half of the rate that the L2 could give. */
typedef enum { PL_MATMUL_AUTO, PL_MATMUL_OWN, PL_MATMUL_OPENBLAS } pl_matmul_choice;

/** From now on; auto unless told. Once at start. Local. */
void pl_matmul_set_backend(pl_matmul_choice choice);

/** Block for caches of these sizes: a core's L1 (data) and L2, a thread's share of the L3; 0: the
 * default (32 KiB, 1 MiB, 16 MiB). No bit depends on it. Once at start. Local. */
void pl_matmul_set_caches(size_t l1_bytes, size_t l2_bytes, size_t l3_bytes);

/** Threads that each matmul may use from now on; at least 1. Local. */
void pl_matmul_set_threads(int n_threads);

/** Allocate what the threads of any product pack into, now rather than in the first one, and free
 * what more threads had. After the ISA, the threads and the caches are set. Local. */
void pl_matmul_reserve(void);

/** Bytes that pl_matmul_reserve() wants for the threads and caches that are set. */
size_t pl_matmul_space_wanted(void);

/** Bytes that the threads' packing space has taken so far. */
size_t pl_matmul_space_held(void);

/** What multiplies, for the record of a run: our tile and its ISA, or the library, its version and
 * the core it chose. */
const char *pl_matmul_backend(void);

#endif
