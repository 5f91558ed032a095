/* matmul_tile_body -- the f32 register tile in vectors of any width; included once by the file of
 * each ISA, since GCC splits vectors that are wider than the function's own ISA where they are
 * written. That file defines before: TARGET (the attribute), LANES, ROWS, WIDE_ROWS, the type vec,
 * `part` (what says how much of a vector counts), part_of(), load_part(), store_part(), load_b(),
 * and transpose_square(). */

typedef float vec_any __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

TARGET PL_INLINE float word(const char *p)
{
    float x;

    memcpy(&x, p, sizeof x);
    return x;
}

/** The tile of m rows by nv vectors; m, nv and keeps are constants where it is inlined. */
TARGET PL_INLINE void tile(const int m, const int nv, const bool keeps, const pl_tile_call *t)
{
    const part last = part_of(t->n - (nv - 1) * LANES);
    const int64_t K = t->K, a_row = t->a_row, a_k = t->a_k, ldb = t->ldb, ldc = t->ldc;
    const char *a = t->a, *b = t->b;
    float *keep = t->keep, *c = t->c;
    const bool accumulate = t->accumulate;
    vec sum[ROWS][4];

#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + (nv - 1) * LANES, 1);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = (vec){0};
    }
    for (int64_t k = 0; k < K; k++, a += a_k, b += ldb) {
        vec b_k[4];

#pragma GCC unroll 4
        for (int v = 0; v < nv - 1; v++)
            b_k[v] = *(const vec_any *)(b + 4 * LANES * v);
        b_k[nv - 1] = load_b((const float *)b + LANES * (nv - 1), last);
        if (keeps) {
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                *(vec_any *)(keep + LANES * v) = b_k[v];
            keep += 2 * LANES;
        }
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const float a_ik = word(a + i * a_row);

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                sum[i][v] += a_ik * b_k[v];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++, c += ldc) {
#pragma GCC unroll 4
        for (int v = 0; v < nv - 1; v++) {
            if (accumulate)
                sum[i][v] += *(const vec_any *)(c + LANES * v);
            *(vec_any *)(c + LANES * v) = sum[i][v];
        }
        if (accumulate)
            sum[i][nv - 1] += load_part(c + LANES * (nv - 1), last);
        store_part(c + LANES * (nv - 1), last, sum[i][nv - 1]);
    }
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
