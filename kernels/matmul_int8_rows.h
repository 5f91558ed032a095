/* matmul_int8_rows -- what the tiles of bytes share: rows become bytes, sums become c. Plain C that
 * the compiler vectorises for the ISA of the function around it. */
#ifndef PURLIN_KERNELS_MATMUL_INT8_ROWS_H
#define PURLIN_KERNELS_MATMUL_INT8_ROWS_H

#include "kernels/lanes.h"
#include "kernels/matmul_int8_tile.h"
#include "src/base/bf16.h"

#include <math.h>

/** The bits of element k of a row that `step` elements lie between. */
PL_INLINE int32_t element_bits(const bool is_bf16, const char *x, int64_t k)
{
    int32_t bits;

    if (is_bf16)
        return (int32_t)((uint32_t)((const pl_bf16 *)x)[k] << 16);
    memcpy(&bits, x + 4 * k, sizeof bits);
    return bits;
}

PL_INLINE float float_of(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/** Scale and its inverse from the bits of the largest magnitude. */
PL_INLINE float scale_of(int32_t most, float *inverse)
{
    const float scale = float_of(most) / 127.0f;

    *inverse = 0.0f;
    if (most >= 0x7f800000) /* an infinity or a NaN */
        return NAN;
    if (float_of(most) < 0x1p-100f)
        return 0.0f;
    *inverse = 1.0f / scale;
    return scale;
}

/** The nearest integer of x / scale, -127..127. */
PL_INLINE int32_t nearest(int32_t bits, float inverse)
{
    const float shifted = float_of(bits) * inverse + 0x1.8p23f; /* rounds to an integer */
    int32_t low;

    memcpy(&low, &shifted, sizeof low);
    return low - 0x4B400000;
}

/** One row; is_bf16, is_apart and is_bytes are constants where it is inlined. */
PL_INLINE float quantize_row(const bool is_bf16, const bool is_apart, const bool is_bytes,
                             const char *x, int64_t step, int64_t K, void *out)
{
    const int64_t each = is_apart ? step : 1, padded = (K + 3) / 4 * 4;
    uint8_t *bytes = out;
    float *floats = out, inverse;
    int32_t most = 0;

    for (int64_t k = 0; k < K; k++) {
        const int32_t bits = element_bits(is_bf16, x, k * each) & 0x7fffffff;

        most = bits > most ? bits : most;
    }
    const float scale = scale_of(most, &inverse);
    const bool is_zero = inverse == 0.0f; /* also where 0 times an infinity would be NaN */

    for (int64_t k = 0; k < K; k++) {
        const int32_t q = nearest(element_bits(is_bf16, x, k * each), inverse) & -!is_zero;

        if (is_bytes)
            bytes[k] = (uint8_t)(q + 128);
        else
            floats[k] = (float)q;
    }
    for (int64_t k = K; k < padded; k++)
        if (is_bytes)
            bytes[k] = 128;
        else
            floats[k] = 0.0f;
    return scale;
}

PL_INLINE float quantize_operand(const bool is_bytes, const pl_operand *x, int64_t i, int64_t K,
                                 void *out)
{
    const char *row = pl_operand_at(x, i, 0);

    if (x->dtype == PL_BF16)
        return x->across ? quantize_row(true, true, is_bytes, row, x->ld, K, out)
                         : quantize_row(true, false, is_bytes, row, 1, K, out);
    return x->across ? quantize_row(false, true, is_bytes, row, x->ld, K, out)
                     : quantize_row(false, false, is_bytes, row, 1, K, out);
}

PL_INLINE void finish_row(const bool is_bf16, const bool adds, const pl_int8_call *t, int i,
                          const int32_t *restrict sum)
{
    const float scale = t->row_scale[i];
    float *c = (float *)t->c + i * t->ldc;
    pl_bf16 *half = (pl_bf16 *)t->c + i * t->ldc;
    const float *add = adds ? (const float *)t->add + i * t->ld_add : NULL; /* may be c */
    const pl_bf16 *add_half = adds ? (const pl_bf16 *)t->add + i * t->ld_add : NULL;

    for (int64_t j = 0; j < t->n; j++) {
        float x = (float)(sum[j] - t->column_offset[j]) * scale * t->column_scale[j];

        if (is_bf16)
            half[j] = pl_bf16_of_f32(adds ? pl_bf16_to_f32(add_half[j]) + x : x);
        else
            c[j] = adds ? add[j] + x : x;
    }
}

/** c from the integer sums[m][stride]. */
PL_INLINE void finish(const pl_int8_call *t, int m, int64_t stride, const int32_t *sum)
{
    const bool is_bf16 = t->c_dtype == PL_BF16;

    for (int i = 0; i < m; i++, sum += stride)
        if (t->add != NULL && is_bf16)
            finish_row(true, true, t, i, sum);
        else if (t->add != NULL)
            finish_row(false, true, t, i, sum);
        else if (is_bf16)
            finish_row(true, false, t, i, sum);
        else
            finish_row(false, false, t, i, sum);
}

#endif
