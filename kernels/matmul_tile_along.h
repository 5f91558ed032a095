/* matmul_tile_along -- tiles of few rows whose b is stored along K; included once by each body, after
 * add_product() and end(). Needs TARGET, LANES, ROWS, FEW_ROWS, vec, part, part_of(), load_part() and
 * transpose_square(). */

/** The sums of LANES words of K, or n_k, with `n` rows of b, LANES or less: a square of it is
 * transposed in registers. In place of rows that are not there the last is read. */
TARGET PL_INLINE void add_square(const int m, const bool whole, int64_t n, int64_t n_k,
                                 const char *b, int64_t ldb, const pl_tile_rows *a, int64_t a_k,
                                 vec sum[ROWS])
{
    const part length = part_of(whole ? LANES : n_k);
    vec square[LANES];

#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) {
        const char *row = b + (whole || j < n ? j : n - 1) * ldb;

        square[j] = whole ? (vec) * (const vec_any *)row : load_part((const float *)row, length);
    }
    transpose_square(square);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++) {
        if (!whole && k >= n_k)
            break;
#pragma GCC unroll 4
        for (int i = 0; i < m; i++)
            sum[i] = add_product(sum[i], pl_tile_row(a, i) + k * a_k, square[k]);
    }
}

/** The tile of few rows with a b stored along K. */
TARGET PL_INLINE void tile_along(const int m, const pl_tile_call *t)
{
    const int nv = t->n > LANES ? 2 : 1;
    const int64_t ldb = t->ldb, a_k = t->a_k;
    pl_tile_rows a = pl_tile_rows_of(t);
    vec sum[ROWS][4], part_sum[2][ROWS];

#pragma GCC unroll 3
    for (int i = 0; i < m; i++)
        part_sum[0][i] = part_sum[1][i] = (vec){0};
    for (int64_t k = 0; k < t->K; k += LANES, a.upper += LANES * a_k, a.lower += LANES * a_k) {
        const int64_t n_k = t->K - k < LANES ? t->K - k : LANES;
        const char *b = t->b + 4 * k;

        if (n_k == LANES && t->n == 2 * LANES) {
            add_square(m, true, LANES, LANES, b, ldb, &a, a_k, part_sum[0]);
            add_square(m, true, LANES, LANES, b + LANES * ldb, ldb, &a, a_k, part_sum[1]);
            continue;
        }
        add_square(m, false, t->n, n_k, b, ldb, &a, a_k, part_sum[0]);
        if (nv == 2)
            add_square(m, false, t->n - LANES, n_k, b + LANES * ldb, ldb, &a, a_k, part_sum[1]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < m; i++) {
        sum[i][0] = part_sum[0][i];
        sum[i][1] = part_sum[1][i];
    }
    end(m, nv, t, sum);
}

TARGET static void along(int m, const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile_along(1, t);
        break;
    case 2:
        tile_along(2, t);
        break;
    default:
        if (FEW_ROWS == 3)
            tile_along(3, t);
        break;
    }
}
