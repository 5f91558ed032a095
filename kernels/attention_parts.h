/* attention_parts -- the steps of attention, inline: packing, the softmax on a tile, its gradient.
 *
 * A word is what a register tile multiplies (kernels/tile.h): an f32, or a pair of bf16. "Rows"
 * have their pairs along a row, "pairs" along a column: element (2 i, j) beside (2 i + 1, j). With
 * f32 the two are one. dtype and pairs are constants where these are inlined. */
#ifndef PURLIN_KERNELS_ATTENTION_PARTS_H
#define PURLIN_KERNELS_ATTENTION_PARTS_H

#include "kernels/lanes.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 }; /* queries, and keys, of a tile */

PL_INLINE void widen(const pl_dtype dtype, int64_t H, int64_t Hp, const void *restrict from,
                     float *restrict to)
{
    for (int64_t h = 0; h < H; h++)
        to[h] = pl_at(dtype, from, h);
    for (int64_t h = H; h < Hp; h++)
        to[h] = 0.0f;
}

/** to[n_to, Hp / pairs words] = from[n_from, H], rows `step` elements apart, padded with zeros.
 * bf16 is widened unless words are pairs. */
PL_INLINE void pack_rows(const pl_dtype dtype, const int pairs, int64_t n_from, int64_t n_to,
                         int64_t H, int64_t Hp, const void *from, int64_t step, float *to)
{
    const int64_t n_words = Hp / pairs;

    for (int64_t r = 0; r < n_from; r++, from = pl_from(dtype, from, step), to += n_words) {
        if (pairs == 2) {
            memcpy(to, from, (size_t)H * sizeof(pl_bf16));
            memset((char *)to + (size_t)H * sizeof(pl_bf16), 0, (size_t)(Hp - H) * sizeof(pl_bf16));
        } else {
            widen(dtype, H, Hp, from, to);
        }
    }
    if (n_to > n_from)
        memset(to, 0, (size_t)((n_to - n_from) * n_words) * sizeof *to);
}

/** Two bf16 as one word. */
PL_INLINE uint32_t word_of(pl_bf16 first, pl_bf16 second)
{
    return (uint32_t)first | (uint32_t)second << 16;
}

/** to[H words] = pairs of first[H] and second[H]; second may be NULL (zeros). */
PL_INLINE void interleave(int64_t H, const pl_bf16 *restrict first, const pl_bf16 *restrict second,
                          uint32_t *restrict to)
{
    if (second == NULL)
        for (int64_t h = 0; h < H; h++)
            to[h] = word_of(first[h], 0);
    else
        for (int64_t h = 0; h < H; h++)
            to[h] = word_of(first[h], second[h]);
}

/** to[n_to / 2, Hp words] = pairs of rows of from[n_from, H]; n_to is even. */
PL_INLINE void pack_pairs(int64_t n_from, int64_t n_to, int64_t H, int64_t Hp, const pl_bf16 *from,
                          int64_t step, uint32_t *to)
{
    for (int64_t r = 0; r < n_to; r += 2, to += Hp) {
        const int64_t n = r < n_from ? H : 0;

        interleave(n, from + r * step, r + 1 < n_from ? from + (r + 1) * step : NULL, to);
        memset(to + n, 0, (size_t)(Hp - n) * sizeof *to);
    }
}

/** to[n, H] = factor[i] * from[n, Hp], rows of `to` being `step` elements apart; with factor NULL,
 * scale * from. */
PL_INLINE void unpack(const pl_dtype dtype, int64_t n, int64_t H, int64_t Hp, const float *factor,
                      float scale, const float *from, int64_t step, void *to)
{
    for (int64_t i = 0; i < n; i++) {
        const float *restrict from_i = from + i * Hp;
        void *restrict to_i = pl_to(dtype, to, i * step);
        const float f = factor == NULL ? scale : factor[i];

        for (int64_t h = 0; h < H; h++)
            pl_put(dtype, to_i, h, f * from_i[h]);
    }
}

/** delta[n] = the sum over H of o * do_, rows `step` elements apart.
 * Order: 16 interleaved sums, added pairwise. */
PL_INLINE void sum_delta(const pl_dtype dtype, int64_t n, int64_t H, const void *o, const void *do_,
                         int64_t step, float *delta)
{
    for (int64_t i = 0; i < n; i++) {
        const void *o_i = pl_from(dtype, o, i * step), *do_i = pl_from(dtype, do_, i * step);
        float lanes[PL_LANES] = {0};
        int64_t h = 0;

        for (; h + PL_LANES <= H; h += PL_LANES)
            for (int l = 0; l < PL_LANES; l++)
                lanes[l] += pl_at(dtype, o_i, h + l) * pl_at(dtype, do_i, h + l);
        for (int l = 0; h < H; h++, l++)
            lanes[l] += pl_at(dtype, o_i, h) * pl_at(dtype, do_i, h);
        delta[i] = pl_lanes_sum(lanes);
    }
}

/** y[n, Hp] *= factor[n]. */
PL_INLINE void rescale(int64_t n, int64_t Hp, const float *restrict factor, float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < Hp; h++)
            y[i * Hp + h] *= factor[i];
}

/** Weights of two keys, s[2, BLOCK]: exp(s - most), added to sum. */
PL_INLINE void weigh_two_keys(const int pairs, const float *restrict most, float *restrict s,
                              float *restrict sum, uint32_t *restrict weights)
{
    for (int j = 0; j < BLOCK; j++) {
        const float w_0 = pl_exp_weight(s[j] - most[j]);
        const float w_1 = pl_exp_weight(s[BLOCK + j] - most[j]);

        sum[j] = (sum[j] + w_0) + w_1;
        if (pairs == 2) {
            weights[j] = word_of(pl_bf16_of_f32(w_0), pl_bf16_of_f32(w_1));
        } else {
            s[j] = w_0;
            s[BLOCK + j] = w_1;
        }
    }
}

/** A tile of the online softmax: m and l take in s[n_keys, BLOCK queries]; the weights exp(s - m)
 * go into s (f32), or as pairs of keys into weights[n_keys / 2, BLOCK words]; factor is what
 * earlier sums shrink by. l adds unrounded weights, keys ascending. */
PL_INLINE void softmax(const int pairs, int64_t n_keys, float *restrict s, float *restrict m,
                       float *restrict l, float *restrict factor, uint32_t *restrict weights)
{
    float most[BLOCK], sum[BLOCK];

    for (int j = 0; j < BLOCK; j++)
        most[j] = m[j];
    for (int64_t i = 0; i < n_keys; i++)
        for (int j = 0; j < BLOCK; j++)
            most[j] = pl_select(s[i * BLOCK + j] > most[j], s[i * BLOCK + j], most[j]);
    for (int j = 0; j < BLOCK; j++) {
        factor[j] = pl_exp(m[j] - most[j]);
        m[j] = most[j];
        sum[j] = 0.0f;
    }
    for (int64_t i = 0; i < n_keys; i += 2, s += 2 * BLOCK, weights += BLOCK)
        weigh_two_keys(pairs, most, s, sum, weights);
    for (int j = 0; j < BLOCK; j++)
        l[j] = l[j] * factor[j] + sum[j];
}

/** s[n_keys, BLOCK queries] becomes w = exp(s - lse), dw becomes ds = w (dw - delta). */
PL_INLINE void gradient_f32(int64_t n_keys, const float *restrict lse, const float *restrict delta,
                            float *restrict s, float *restrict dw)
{
    for (int64_t i = 0; i < n_keys; i++, s += BLOCK, dw += BLOCK)
        for (int j = 0; j < BLOCK; j++) {
            const float w = pl_exp_weight(s[j] - lse[j]);

            s[j] = w;
            dw[j] = w * (dw[j] - delta[j]);
        }
}

/** The same into bf16: w as rows, ds as rows and as pairs of keys. */
PL_INLINE void gradient_bf16(int64_t n_keys, const float *restrict lse, const float *restrict delta,
                             const float *restrict s, const float *restrict dw,
                             pl_bf16 *restrict w_rows, pl_bf16 *restrict ds_rows,
                             uint32_t *restrict ds_pairs)
{
    for (int64_t i = 0; i < n_keys; i += 2) {
        for (int j = 0; j < BLOCK; j++) {
            const float w_0 = pl_exp_weight(s[j] - lse[j]);
            const float w_1 = pl_exp_weight(s[BLOCK + j] - lse[j]);
            const pl_bf16 ds_0 = pl_bf16_of_f32(w_0 * (dw[j] - delta[j]));
            const pl_bf16 ds_1 = pl_bf16_of_f32(w_1 * (dw[BLOCK + j] - delta[j]));

            w_rows[j] = pl_bf16_of_f32(w_0);
            w_rows[BLOCK + j] = pl_bf16_of_f32(w_1);
            ds_rows[j] = ds_0;
            ds_rows[BLOCK + j] = ds_1;
            ds_pairs[j] = word_of(ds_0, ds_1);
        }
        s += 2 * BLOCK;
        dw += 2 * BLOCK;
        w_rows += 2 * BLOCK;
        ds_rows += 2 * BLOCK;
        ds_pairs += BLOCK;
    }
}

#endif
