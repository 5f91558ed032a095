/* rng -- a hash of (seed, stream, index).
 *
 * Source: the mixing steps and the increment are SplitMix64's (Steele, Lea & Flood, OOPSLA 2014,
 * with the constants of D. Stafford's mix 13); names are hashed by FNV-1a. */
#include "config.h"

#include "src/base/rng.h"

#include <math.h>

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15; /* 2^64 over the golden ratio, odd */
static const double TWO_PI = 6.283185307179586477;

/** A bijection of 64 bits in which every input bit changes about half of the output's. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

uint64_t pl_rng_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint64_t key = mix(mix(seed + GOLDEN) + stream + GOLDEN);

    return mix(key + mix(index + GOLDEN));
}

uint64_t pl_rng_stream(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

static double to_uniform(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double pl_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return to_uniform(pl_rng_bits(seed, stream, index));
}

double pl_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    /* ~stream: not the numbers that pl_rng_uniform gives for the same stream. */
    const double u = to_uniform(pl_rng_bits(seed, ~stream, 2 * index));
    const double v = to_uniform(pl_rng_bits(seed, ~stream, 2 * index + 1));

    return sqrt(-2 * log(1 - u)) * cos(TWO_PI * v); /* 1 - u is in (0, 1] */
}

int64_t pl_rng_below(uint64_t seed, uint64_t stream, uint64_t index, int64_t n)
{
    /* The high word of bits x n: off uniform by at most n / 2^64 relative. */
    return (int64_t)((unsigned __int128)pl_rng_bits(seed, stream, index) * (uint64_t)n >> 64);
}
