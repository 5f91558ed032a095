/* matmul_check -- what the suites of matrix products share: operands of either type in any storage,
 * products of them, what integers must come to. */
#ifndef PURLIN_TESTS_MATMUL_CHECK_H
#define PURLIN_TESTS_MATMUL_CHECK_H

#include "kernels/matmul.h"
#include "tests/kernel_check.h"

/** What is multiplied, and into what. */
typedef struct {
    pl_dtype dtype, c_dtype;
} operand_types;
enum { N_TYPES = 3 };
extern const operand_types types[N_TYPES];

typedef struct {
    int64_t M, N, K;
} product_shape;

/** How a product is made. */
typedef struct {
    product_shape z;
    pl_trans ta, tb;
    int64_t pad; /* elements between stored rows */
    bool accumulate, packed;
} product_case;

/** x[at] = value, rounded to x's type. */
void put(void *x, pl_dtype dtype, int64_t at, float value);
float get(const void *x, pl_dtype dtype, int64_t at);

/** The matrix of `values`[rows, cols] as it is stored: transposed or not, rows `ld` apart. */
void *stored(const float *values, int64_t rows, int64_t cols, pl_trans trans, int64_t ld,
             pl_dtype dtype);

/** n elements, all of one value; one more behind them. */
void *filled(int64_t n, pl_dtype dtype, float value);

/** n integers from -most to most. */
float *integers(int64_t n, uint64_t seed, int most);

/** c[M, N + 3] = 2 (or NaN where it must not be read) op= a[M, K] . b[K, N], of types[type];
 * between rows SENTINEL's rounding. */
void *product_multiply(product_case h, int type, const float *a, const float *b);

/** Elements of that c that differ from the exact product of integers rounded to c's type, or lie
 * between rows and changed. */
int64_t product_count_wrong(product_case h, int type, const float *a, const float *b,
                            const void *c);

#endif
