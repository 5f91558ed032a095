/* matmul_tile_body -- the f32 register tile in vectors of any width; included once by the file of
 * each ISA, since GCC splits vectors that are wider than the function's own ISA where they are
 * written. That file defines before: TILE (its name), TARGET (the attribute), LANES, ROWS,
 * WIDE_ROWS, FEW_ROWS, READS_PART, the types vec and part (how much of a vector counts), part_of(),
 * load_part(), store_part(), transpose_square(). */

#include "kernels/matmul_finish.h"

TARGET PL_INLINE float word(const char *p)
{
    float x;

    memcpy(&x, p, sizeof x);
    return x;
}

#include "kernels/matmul_tile_put.h"

TARGET PL_INLINE void end(const int m, const int nv, const pl_tile_call *t, vec sum[ROWS][4])
{
    put_f32(m, nv, t, sum);
}

/** Where a tile has come to in its operands. */
typedef struct {
    pl_tile_rows a;
    const char *b;
    float *keep;
} place;

/** The sums of the next n words of K; when `cut`, the last vector of b is. */
TARGET PL_INLINE void add_words(const int m, const int nv, const bool keeps, const bool cut,
                                part last, int64_t n, const pl_tile_call *t, place *at,
                                vec sum[ROWS][4])
{
    const int64_t a_k = t->a_k, ldb = t->ldb;
    pl_tile_rows a = at->a;
    const char *b = at->b;
    float *keep = at->keep;

#pragma GCC unroll 2
    for (int64_t k = 0; k < n; k++, a.upper += a_k, a.lower += a_k, b += ldb) {
        vec b_k[4];

#pragma GCC unroll 4
        for (int v = 0; v < nv - cut; v++)
            b_k[v] = *(const vec_any *)(b + 4 * LANES * v);
        if (cut)
            b_k[nv - 1] = load_part((const float *)b + LANES * (nv - 1), last);
        if (keeps) {
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                *(vec_any *)(keep + LANES * v) = b_k[v];
            keep += 2 * LANES;
        }
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const float a_ik = word(pl_tile_row(&a, i));

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                sum[i][v] += a_ik * b_k[v];
        }
    }
    *at = (place){a, b, keep};
}

/** The tile of m rows by nv vectors; m, nv, keeps and cut are constants where it is inlined. f32
 * words are the same raw or not. */
TARGET PL_INLINE void tile(const int m, const int nv, const bool raw, const bool keeps,
                           const bool cut, const pl_tile_call *t)
{
    const part last = part_of(t->n - (nv - 1) * LANES);
    const int fetch = pl_tile_fetch_words(t, t->K);
    place at = {pl_tile_rows_of(t), t->b, t->keep};
    vec sum[ROWS][4];

    (void)raw;
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = (vec){0};
    add_words(m, nv, keeps, cut, last, t->K - m * fetch, t, &at, sum);
    for (int i = 0; i < m && fetch > 0; i++) {
        pl_tile_fetch_row(t, i);
        add_words(m, nv, keeps, cut, last, fetch, t, &at, sum);
    }
    end(m, nv, t, sum);
}

#include "kernels/matmul_tile_rows.h"

TARGET static void one(int m, const pl_tile_call *t)
{
    narrow(m, 1, false, false, false, t);
}

TARGET static void two(int m, const pl_tile_call *t)
{
    narrow(m, 2, false, false, false, t);
}

TARGET static void two_kept(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, true, false, t);
}

TARGET static void one_cut(int m, const pl_tile_call *t)
{
    if (READS_PART)
        narrow(m, 1, true, false, true, t);
}

TARGET static void two_cut(int m, const pl_tile_call *t)
{
    if (READS_PART)
        narrow(m, 2, true, false, true, t);
}

/** The sum, and the products of a word of a with those of a vector of b. */
TARGET PL_INLINE vec add_product(vec sum, const char *a, vec b)
{
    return sum + word(a) * b;
}

#include "kernels/matmul_tile_along.h"

#include "kernels/matmul_tile_single.h"

static void multiply(int m, int n_vectors, const pl_tile_call *t)
{
    const bool cut = READS_PART && t->raw && t->n != n_vectors * LANES;

    if (t->along)
        along(m, t);
    else if (n_vectors == 4)
        four(m, t);
    else if (n_vectors == 1)
        (cut ? one_cut : one)(m, t);
    else
        (t->keep != NULL ? two_kept : cut ? two_cut : two)(m, t);
}

TARGET static void finish(const pl_tile_finish *f, int64_t m, float *out)
{
    finish_rows(f, m, out);
}

TARGET static void transpose(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    for (int64_t j0 = 0; j0 < 2 * LANES; j0 += LANES)
        for (int64_t k0 = 0; k0 < K; k0 += LANES) {
            const part length = part_of(K - k0 < LANES ? K - k0 : LANES);
            const int64_t n_rows = K - k0 < LANES ? K - k0 : LANES;
            vec square[LANES];

#pragma GCC unroll 16
            for (int j = 0; j < LANES; j++)
                square[j] = (vec){0};
            if (j0 + LANES <= n && n_rows == LANES) {
#pragma GCC unroll 16
                for (int j = 0; j < LANES; j++)
                    square[j] = *(const vec_any *)(b + (j0 + j) * ldb + 4 * k0);
            } else
                for (int j = 0; j < LANES && j0 + j < n; j++)
                    square[j] = load_part((const float *)(b + (j0 + j) * ldb) + k0, length);
            transpose_square(square);
            if (n_rows == LANES) {
#pragma GCC unroll 16
                for (int k = 0; k < LANES; k++)
                    *(vec_any *)(out + (k0 + k) * 2 * LANES + j0) = square[k];
            } else
                for (int k = 0; k < n_rows; k++)
                    *(vec_any *)(out + (k0 + k) * 2 * LANES + j0) = square[k];
        }
}

TARGET PL_INLINE void copy_columns(const int nv, const bool whole, int64_t n_words, int64_t n,
                                   const char *rows, int64_t row_bytes, float *out)
{
    const part last = part_of(n % LANES);

    for (int64_t k = 0; k < n_words; k++, rows += row_bytes, out += nv * LANES) {
        __builtin_prefetch(rows + PL_PACK_AHEAD * row_bytes);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            const float *x = (const float *)rows + v * LANES;
            const bool in_part = !whole && v == n / LANES;
            const vec y = in_part ? load_part(x, last) : (vec){0};

            *(vec_any *)(out + v * LANES) = whole || v < n / LANES ? (vec) * (const vec_any *)x : y;
        }
    }
}

TARGET static void columns(int64_t n_words, int64_t n, const char *rows, int64_t row_bytes,
                           float *out, int64_t width)
{
    const int nv = (int)(width / LANES);

    if (nv == 1 && n == width)
        copy_columns(1, true, n_words, n, rows, row_bytes, out);
    else if (nv == 2 && n == width)
        copy_columns(2, true, n_words, n, rows, row_bytes, out);
    else
        copy_columns(nv, false, n_words, n, rows, row_bytes, out);
}

const pl_matmul_tile TILE = {.rows = ROWS,
                             .wide_rows = WIDE_ROWS,
                             .few_rows = FEW_ROWS,
                             .lanes = LANES,
                             .reads_part = READS_PART,
                             .multiply = multiply,
                             .single = single,
                             .dots = dots,
                             .transpose = transpose,
                             .columns = columns,
                             .finish = finish};
