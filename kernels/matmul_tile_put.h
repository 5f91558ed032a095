/* matmul_tile_put -- from the sums in registers to an f32 c in rows; included once by the file of
 * each ISA, or its body. Needs TARGET, LANES, ROWS, vec, part and what makes, loads and stores one.
 */

typedef float vec_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

/** c = sum, or add + sum; the last vector of each row is cut short when not `whole`. */
TARGET PL_INLINE void put(const int m, const int nv, const bool whole, part last, vec sum[ROWS][4],
                          const float *add, int64_t ld_add, float *c, int64_t ldc)
{
    const bool adds = add != NULL;

#pragma GCC unroll 16
    for (int i = 0; i < m; i++, c += ldc) {
        const int n_whole = whole ? nv : nv - 1;

#pragma GCC unroll 4
        for (int v = 0; v < n_whole; v++) {
            if (adds)
                sum[i][v] += *(const vec_any *)(add + i * ld_add + LANES * v);
            *(vec_any *)(c + LANES * v) = sum[i][v];
        }
        if (whole)
            continue;
        if (adds)
            sum[i][nv - 1] += load_part(add + i * ld_add + LANES * (nv - 1), last);
        store_part(c + LANES * (nv - 1), last, sum[i][nv - 1]);
    }
}

TARGET PL_INLINE void put_f32(const int m, const int nv, const pl_tile_call *t, vec sum[ROWS][4])
{
    const part last = part_of(t->n - (nv - 1) * LANES);

    if (t->n == nv * LANES)
        put(m, nv, true, last, sum, t->add, t->ld_add, t->c, t->ldc);
    else
        put(m, nv, false, last, sum, t->add, t->ld_add, t->c, t->ldc);
}
