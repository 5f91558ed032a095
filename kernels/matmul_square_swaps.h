/* matmul_square_swaps -- a square of LANES x LANES words transposed in portable vectors; included
 * by the file of an ISA after TARGET, LANES, vec, and, for each of the SWAPS powers of two below
 * LANES, the lanes of two vectors that swap_low and swap_high take. */

/** Swaps blocks of 1, 2, 4, ... lanes across the diagonal. */
TARGET PL_INLINE void transpose_square(vec x[LANES])
{
#pragma GCC unroll 4
    for (int s = 0; s < SWAPS; s++)
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if ((i & 1 << s) == 0) {
                const vec a = x[i], b = x[i + (1 << s)];

                x[i] = __builtin_shuffle(a, b, swap_low[s]);
                x[i + (1 << s)] = __builtin_shuffle(a, b, swap_high[s]);
            }
}
