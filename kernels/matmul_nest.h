/* matmul_nest -- the one loop nest around every register tile, on one thread. */
#ifndef PURLIN_KERNELS_MATMUL_NEST_H
#define PURLIN_KERNELS_MATMUL_NEST_H

#include "kernels/matmul.h"
#include "kernels/matmul_pack.h"
#include "kernels/progress.h"

/* Words of K that one chain of sums takes: a constant, so that the order of summation depends on
 * nothing else. */
enum { PL_MATMUL_K = 512 };

/** How the caches cut M and N. */
typedef struct {
    int64_t rows;        /* of a block of a: it fills half of the L2 */
    int64_t columns;     /* of a block of b: it fills a quarter of the L3 */
    size_t direct_bytes; /* an a of at most so many is read where it lies */
} pl_matmul_cut;

/** One product, as the nest sees it. */
typedef struct {
    const pl_matmul_tile *tile;
    int64_t M, N, K;
    pl_operand a, b;     /* b.data NULL when it is packed */
    const float *panels; /* or b packed: for each block of K, all panels of N */
    char *c;             /* element (i, j) at c + (i * c_row + j * c_column) elements */
    int64_t c_row, c_column;
    pl_dtype c_dtype;
    const char *add; /* of c's type, added to the product; may be c; or NULL */
    int64_t add_row, add_column;
    const pl_int8_weights *int8; /* in place of b; a becomes bytes too */
    bool dots;                   /* of pl_product */
} pl_matmul_job;

/** The part of c that one thread makes; columns from a multiple of the panel's. */
typedef struct {
    int64_t row, n_rows, column, n_columns;
} pl_matmul_part;

/** Where a thread packs and sums wait. */
typedef struct {
    float *a, *b, *sums;
    size_t a_bytes, b_bytes, sums_bytes;
} pl_matmul_space;

/** Blocks for caches of these sizes (bytes; of one thread's share). */
pl_matmul_cut pl_matmul_cut_for(const pl_matmul_tile *tile, size_t l1_bytes, size_t l2_bytes,
                                size_t l3_bytes);

/** One part of the product; `progress` is called about every 2 ms. Local. */
void pl_matmul_nest(const pl_matmul_job *job, const pl_matmul_cut *cut, pl_matmul_part part,
                    pl_matmul_space *space, const pl_progress *progress);

/** What `cut` needs: the sizes alone, no memory. */
pl_matmul_space pl_matmul_space_for(const pl_matmul_cut *cut);
size_t pl_matmul_space_bytes(const pl_matmul_space *space);

/** Memory for at least what `cut` needs, if `space` has not got it. */
void pl_matmul_space_grow(pl_matmul_space *space, const pl_matmul_cut *cut);

#endif
