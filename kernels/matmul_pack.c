/* matmul_pack -- rows stay rows, columns stay columns; only panels of b that are stored along K are
 * transposed. */
#include "config.h"

#include "kernels/matmul_pack.h"

#include "kernels/lanes.h"
#include "src/base/bf16.h"

#include <string.h>

/** The piece that holds a stored row: pieces are about even, so that the guess is near. */
static int piece_of(const pl_pieces *p, int64_t row)
{
    int i = (int)(row * p->n / p->begin[p->n]);

    while (row < p->begin[i])
        i--;
    while (row >= p->begin[i + 1])
        i++;
    return i;
}

const char *pl_operand_in_pieces(const pl_operand *x, int64_t row, int64_t column)
{
    const int i = piece_of(x->pieces, row);

    return (const char *)x->pieces->data[i] +
           ((row - x->pieces->begin[i]) * x->ld + column) * (int64_t)pl_dtype_bytes(x->dtype);
}

bool pl_operand_is_whole(const pl_operand *x, int64_t row, int64_t n)
{
    return x->pieces == NULL || n == 0 || row + n <= x->pieces->begin[piece_of(x->pieces, row) + 1];
}

/** The word of element k and, where it is there, the next. */
PL_INLINE float pair_word(const pl_bf16 *x, const pl_bf16 *next)
{
    const uint32_t bits = (uint32_t)*x | (next == NULL ? 0 : (uint32_t)*next << 16);
    float word;

    memcpy(&word, &bits, sizeof word);
    return word;
}

static void widen(int64_t n, const pl_bf16 *restrict x, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = pl_bf16_to_f32(x[i]);
}

/** Ask for a row ahead: each begins on another page, where the hardware does not look. */
static void fetch(const char *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(row + i);
}

void pl_pack_rows(const pl_matmul_tile *tile, const pl_operand *x, int64_t i, int64_t n, int64_t k,
                  int64_t K, float *out, int64_t stride)
{
    for (int64_t r = 0; r < n; r++, out += stride) {
        const char *row = pl_operand_at(x, i + r, k);

        if (r + 1 < n)
            fetch(pl_operand_at(x, i + r + 1, k), K * (int64_t)pl_dtype_bytes(x->dtype));
        if (x->dtype == PL_F32) {
            memcpy(out, row, (size_t)K * sizeof *out);
        } else if (tile->pairs) {
            memcpy(out, row, (size_t)(K / 2) * sizeof *out);
            if (K % 2 != 0)
                out[K / 2] = pair_word((const pl_bf16 *)row + K - 1, NULL);
        } else {
            widen(K, (const pl_bf16 *)row, out);
        }
    }
}

/** One row of n words from one row of x, or two. */
static void column_words(const pl_matmul_tile *tile, pl_dtype dtype, const char *row,
                         const char *next, int64_t n, float *restrict out)
{
    const pl_bf16 *restrict half = (const pl_bf16 *)row, *restrict below = (const pl_bf16 *)next;

    if (dtype == PL_F32)
        memcpy(out, row, (size_t)n * sizeof *out);
    else if (!tile->pairs)
        widen(n, half, out);
    else
        for (int64_t j = 0; j < n; j++)
            out[j] = pair_word(half + j, below != NULL ? below + j : NULL);
}

void pl_pack_columns(const pl_matmul_tile *tile, const pl_operand *x, int64_t i, int64_t n,
                     int64_t n_there, int64_t k, int64_t K, float *out, int64_t width)
{
    const int64_t step = tile->pairs ? 2 : 1, bytes = (int64_t)pl_dtype_bytes(x->dtype);
    int64_t done = 0;

    if (n_there > n) /* whole vectors are the faster */
        n = n_there < width ? n_there : width;
    if ((x->dtype == PL_BF16) == tile->pairs && pl_operand_is_whole(x, k, K)) {
        done = K / step * step;
        tile->columns(K / step, n, pl_operand_at(x, i, k), x->ld * bytes, out, width);
        out += K / step * width;
    }
    for (int64_t d = done; d < K; d += step, out += width) {
        const char *next = tile->pairs && d + 1 < K ? pl_operand_at(x, i, k + d + 1) : NULL;

        column_words(tile, x->dtype, pl_operand_at(x, i, k + d), next, n, out);
        memset(out + n, 0, (size_t)(width - n) * sizeof *out);
    }
}

/** A panel that is stored along K, in rows that need not lie at even distances, a square at a time:
 * words as they are, or bf16 as f32. */
static void transpose_staged(const pl_matmul_tile *tile, const pl_operand *b, int64_t i, int64_t n,
                             int64_t k, int64_t K, float *out)
{
    enum { AT_ONCE = 64 };
    const bool widens = b->dtype == PL_BF16 && !tile->pairs;
    float rows[2 * PL_MATMUL_LANES][AT_ONCE];

    for (int64_t d = 0; d < K; d += AT_ONCE) {
        const int64_t length = K - d < AT_ONCE ? K - d : AT_ONCE;

        for (int64_t j = 0; j < n; j++) {
            const char *row = pl_operand_at(b, i + j, k + d * (tile->pairs ? 2 : 1));

            if (widens)
                widen(length, (const pl_bf16 *)row, rows[j]);
            else
                memcpy(rows[j], row, (size_t)length * sizeof rows[j][0]);
        }
        tile->transpose(length, n, (const char *)rows, sizeof rows[0], out + d * 2 * tile->lanes);
    }
}

void pl_pack_panel(const pl_matmul_tile *tile, const pl_operand *b, int64_t i, int64_t n, int64_t k,
                   int64_t K, float *out)
{
    const int64_t width = 2 * tile->lanes;

    if (b->across) {
        pl_pack_columns(tile, b, i, n, n, k, K, out, width);
    } else if (b->dtype == PL_BF16 && !tile->pairs) {
        transpose_staged(tile, b, i, n, k, K, out);
    } else {
        const int64_t whole = tile->pairs ? K / 2 : K;
        float *last = out + whole * width;

        if (pl_operand_is_whole(b, i, n))
            tile->transpose(whole, n, pl_operand_at(b, i, k),
                            b->ld * (int64_t)pl_dtype_bytes(b->dtype), out);
        else
            transpose_staged(tile, b, i, n, k, whole, out);
        if (whole == pl_words(tile, K))
            return;
        memset(last, 0, (size_t)width * sizeof *last);
        for (int64_t j = 0; j < n; j++)
            last[j] = pair_word((const pl_bf16 *)pl_operand_at(b, i + j, k + K - 1), NULL);
    }
}
