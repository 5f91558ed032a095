/* matmul_tile_single -- one row of c: what is read of b, is read once and in the order of memory.
 * Included once by the f32 body of each ISA. Needs TARGET, LANES, vec, vec_any, part, part_of(),
 * load_part(), store_part(), word(). */

/* Rows of b that are read beside each other: as many streams as a core follows. Asking for the next
 * ones ahead gains nothing, and loses where they come from the L2 (Zen 5). */
enum { SINGLE_ROWS = 8, DOT_ROWS = LANES == 16 ? 8 : 2, CHAIN_VECTORS = PL_DOT_CHAINS / LANES };

typedef int32_t lane_index __attribute__((vector_size(4 * LANES)));

/** sums[n] (0 when `first`) and the products of n_k words of a with as many rows of b, in order. */
TARGET PL_INLINE void add_single(const int n_k, bool first, int64_t n, const float *a, const char *b,
                                 int64_t ldb, float *sums)
{
    int64_t j = 0;
    float a_k[SINGLE_ROWS];

    memcpy(a_k, a, (size_t)n_k * sizeof *a);
    for (; j + 2 * LANES <= n; j += 2 * LANES) {
        const char *at = b + 4 * j;
        vec left = first ? (vec){0} : (vec) * (const vec_any *)(sums + j);
        vec right = first ? (vec){0} : (vec) * (const vec_any *)(sums + j + LANES);

#pragma GCC unroll 8
        for (int k = 0; k < n_k; k++, at += ldb) {
            left += a_k[k] * *(const vec_any *)at;
            right += a_k[k] * *(const vec_any *)(at + 4 * LANES);
        }
        *(vec_any *)(sums + j) = left;
        *(vec_any *)(sums + j + LANES) = right;
    }
    for (; j < n; j += LANES) {
        const part which = part_of(n - j < LANES ? n - j : LANES);
        const char *at = b + 4 * j;
        vec sum = first ? (vec){0} : load_part(sums + j, which);

#pragma GCC unroll 8
        for (int k = 0; k < n_k; k++, at += ldb)
            sum += a_k[k] * load_part((const float *)at, which);
        store_part(sums + j, which, sum);
    }
}

TARGET static void single(int64_t K, int64_t n, const float *a, const char *b, int64_t ldb,
                          float *sums)
{
    int64_t k = 0;

    for (; k + SINGLE_ROWS <= K; k += SINGLE_ROWS)
        add_single(SINGLE_ROWS, k == 0, n, a + k, b + k * ldb, ldb, sums);
    for (; k < K; k++)
        add_single(1, k == 0, n, a + k, b + k * ldb, ldb, sums);
}

/** Lane 0 of the sum over all lanes: lane l and lane l + h, h halved until it is 1. */
TARGET PL_INLINE float sum_of_lanes(vec x)
{
#pragma GCC unroll 4
    for (int h = LANES / 2; h > 0; h /= 2) {
        lane_index other;

#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            other[l] = (l + h) % LANES;
        x += __builtin_shuffle(x, other);
    }
    return x[0];
}

/** The dot products of a with n_rows rows of b. */
TARGET PL_INLINE void dot_rows(const int n_rows, int64_t K, const float *a, const char *b,
                               int64_t ldb, float *sums)
{
    vec sum[DOT_ROWS][CHAIN_VECTORS];
    int64_t k = 0;

#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < CHAIN_VECTORS; v++)
            sum[r][v] = (vec){0};
    for (; k + PL_DOT_CHAINS <= K; k += PL_DOT_CHAINS)
#pragma GCC unroll 8
        for (int v = 0; v < CHAIN_VECTORS; v++) {
            const vec a_k = *(const vec_any *)(a + k + LANES * v);

#pragma GCC unroll 8
            for (int r = 0; r < n_rows; r++)
                sum[r][v] += a_k * *(const vec_any *)(b + r * ldb + 4 * (k + LANES * v));
        }
#pragma GCC unroll 8
    for (int v = 0; v < CHAIN_VECTORS; v++, k += LANES) {
        const int64_t left = K - k;
        const part which = part_of(left < 0 ? 0 : left < LANES ? left : LANES);
        const bool some = left > 0;
        const vec a_k = some ? load_part(a + k, which) : (vec){0};

#pragma GCC unroll 8
        for (int r = 0; r < n_rows && some; r++)
            sum[r][v] += a_k * load_part((const float *)(b + r * ldb) + k, which);
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 4
        for (int half = CHAIN_VECTORS / 2; half > 0; half /= 2)
#pragma GCC unroll 4
            for (int v = 0; v < half; v++)
                sum[r][v] += sum[r][v + half];
        sums[r] = sum_of_lanes(sum[r][0]);
    }
}

TARGET static void dots(int64_t K, int64_t n, const float *a, const char *b, int64_t ldb, float *sums)
{
    int64_t j = 0;

    for (; j + DOT_ROWS <= n; j += DOT_ROWS)
        dot_rows(DOT_ROWS, K, a, b + j * ldb, ldb, sums + j);
    for (; j < n; j++)
        dot_rows(1, K, a, b + j * ldb, ldb, sums + j);
}
