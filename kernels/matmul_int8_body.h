/* matmul_int8_body -- the tile of bytes where no instruction multiplies them: they become f32,
 * whose sums of up to 1024 products of bytes are exact (1024 * 127^2 < 2^24). Included once by the
 * file of each ISA, which defines TARGET, LANES, and the types vec (f32) and int_vec. */

enum { ROWS = 6, EXACT_WORDS = 1024 / 4 };

typedef float vec_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t int_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

/** The sums of n_words, in f32, added to total[m][2]. */
TARGET PL_INLINE void add_exact(const int m, int64_t n_words, const char *a, int64_t a_row,
                                const int8_t *b, int_vec total[ROWS][2])
{
    vec sum[ROWS][2];

#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        sum[i][0] = sum[i][1] = (vec){0};
    for (int64_t k = 0; k < n_words; k++, b += 8 * LANES) {
        const int_vec left = *(const int_any *)b, right = *(const int_any *)(b + 4 * LANES);

#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            const vec b_0 = __builtin_convertvector(left << (24 - 8 * q) >> 24, vec);
            const vec b_1 = __builtin_convertvector(right << (24 - 8 * q) >> 24, vec);

#pragma GCC unroll 16
            for (int i = 0; i < m; i++) {
                const float a_ik = *(const float *)(a + i * a_row + 16 * k + 4 * q);

                sum[i][0] += a_ik * b_0;
                sum[i][1] += a_ik * b_1;
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            total[i][v] += __builtin_convertvector(sum[i][v], int_vec);
}

TARGET PL_INLINE void tile(const int m, const pl_int8_call *t)
{
    int_vec total[ROWS][2];

    memset(total, 0, sizeof total);
    for (int64_t k = 0; k < t->words; k += EXACT_WORDS)
        add_exact(m, t->words - k < EXACT_WORDS ? t->words - k : EXACT_WORDS, t->a + 16 * k,
                  t->a_row, t->b + k * 8 * LANES, total);
    finish(t, m, 2 * LANES, (const int32_t *)total);
}

TARGET static void multiply(int m, const pl_int8_call *t)
{
    switch (m) {
    case 1:
        tile(1, t);
        break;
    case 2:
        tile(2, t);
        break;
    case 3:
        tile(3, t);
        break;
    case 4:
        tile(4, t);
        break;
    case 5:
        tile(5, t);
        break;
    default:
        tile(6, t);
        break;
    }
}

TARGET static float quantize(const pl_operand *x, int64_t i, int64_t K, void *out)
{
    return quantize_operand(false, x, i, K, out);
}
