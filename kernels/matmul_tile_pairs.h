/* matmul_tile_pairs -- the register tile on pairs of bf16; included once by the file of each ISA
 * that multiplies them. That file defines before: TARGET, LANES, ROWS, WIDE_ROWS, FEW_ROWS,
 * READS_PART, the types vec, part and word_vec (LANES words), part_of(), load_part(),
 * transpose_square(), and
 *
 *     word(p)                                   all lanes the word at p
 *     words(nv, raw, cut, lone, b, ldb, n, b_k) the nv vectors of one k: read or, of a raw b, made
 *                                               of two rows, the second of zeros when `lone`; n
 *                                               columns, the last vector cut short when `cut`
 *     add_dot(sum, a, b)                        the sums, and the products of pairs of the words
 *     end(m, nv, t, sum)                        to where the call wants its sums
 */

/** Where a tile has come to in its operands. */
typedef struct {
    pl_tile_rows a;
    const char *b;
    float *keep;
} place;

/** The sums of the next n pairs of K, the second of each 0 when `lone`; when `cut`, the last
 * vector of b is. */
TARGET PL_INLINE void add_pairs(const int m, const int nv, const bool raw, const bool keeps,
                                const bool cut, const bool lone, int64_t n, const pl_tile_call *t,
                                place *at, vec sum[ROWS][4])
{
    const int64_t a_k = t->a_k, ldb = t->ldb, b_step = raw ? 2 * ldb : ldb;
    pl_tile_rows a = at->a;
    const char *b = at->b;
    float *keep = at->keep;

#pragma GCC unroll 2
    for (int64_t k = 0; k < n; k++, a.upper += a_k, a.lower += a_k, b += b_step) {
        word_vec b_k[4];

        words(nv, raw, cut, lone, b, ldb, t->n, b_k);
        if (keeps) {
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                memcpy(keep + LANES * v, &b_k[v], sizeof b_k[v]);
            keep += 2 * LANES;
        }
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const word_vec a_ik = word(pl_tile_row(&a, i));

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                sum[i][v] = add_dot(sum[i][v], a_ik, b_k[v]);
        }
    }
    *at = (place){a, b, keep};
}

/** The tile of m rows by nv vectors; m, nv, raw, keeps and cut are constants where it is inlined.
 */
TARGET PL_INLINE void tile(const int m, const int nv, const bool raw, const bool keeps,
                           const bool cut, const pl_tile_call *t)
{
    const int64_t n_whole = raw ? t->K / 2 : t->K;
    const int fetch = pl_tile_fetch_words(t, n_whole);
    place at = {pl_tile_rows_of(t), t->b, t->keep};
    vec sum[ROWS][4];

#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = (vec){0};
    add_pairs(m, nv, raw, keeps, cut, false, n_whole - m * fetch, t, &at, sum);
    for (int i = 0; i < m && fetch > 0; i++) {
        pl_tile_fetch_row(t, i);
        add_pairs(m, nv, raw, keeps, cut, false, fetch, t, &at, sum);
    }
    if (raw && t->K % 2 != 0)
        add_pairs(m, nv, raw, keeps, cut, true, 1, t, &at, sum);
    end(m, nv, t, sum);
}

/** The sum, and the products of a word of a with those of a vector of b. */
TARGET PL_INLINE vec add_product(vec sum, const char *a, vec b)
{
    return add_dot(sum, word(a), (word_vec)b);
}

#include "kernels/matmul_tile_along.h"

#include "kernels/matmul_tile_rows.h"

TARGET static void one(int m, const pl_tile_call *t)
{
    narrow(m, 1, false, false, false, t);
}

TARGET static void two(int m, const pl_tile_call *t)
{
    narrow(m, 2, false, false, false, t);
}

TARGET static void one_cut(int m, const pl_tile_call *t)
{
    narrow(m, 1, true, false, true, t);
}

TARGET static void two_cut(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, false, true, t);
}

TARGET static void two_raw(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, false, false, t);
}

TARGET static void two_kept(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, true, false, t);
}

static void multiply(int m, int n_vectors, const pl_tile_call *t)
{
    if (t->along)
        along(m, t);
    else if (n_vectors == 4)
        four(m, t);
    else if (n_vectors == 1)
        (t->raw ? one_cut : one)(m, t); /* half of a raw vector, at most */
    else if (!t->raw)
        two(m, t);
    else
        (t->keep != NULL ? two_kept : t->n != 2 * LANES ? two_cut : two_raw)(m, t);
}
