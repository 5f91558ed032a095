/* bf16 -- the upper half of an f32; rounding to nearest even. */
#ifndef PURLIN_BASE_BF16_H
#define PURLIN_BASE_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t pl_bf16;

/** Exact. */
static inline float pl_bf16_to_f32(pl_bf16 x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/** To nearest, ties to even; a NaN stays a (quiet) NaN. */
static inline pl_bf16 pl_bf16_of_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (pl_bf16)(bits >> 16 | 0x40);
    return (pl_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
