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

/** To nearest, ties to even; a NaN stays a (quiet) NaN. Without branches, so that it vectorises. */
static inline pl_bf16 pl_bf16_of_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    const uint32_t is_nan = -(uint32_t)((int32_t)(bits & 0x7fffffff) > 0x7f800000);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;

    return (pl_bf16)((rounded & ~is_nan) | (quiet & is_nan));
}

#endif
