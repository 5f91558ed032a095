/* bypass -- outputs too large for any cache, written past the caches.
 *
 * A store to a line that is not in cache reads the line first: a third of a copy's traffic. A
 * kernel whose output is large and overwrites none of its inputs computes a tile of it in a buffer
 * that stays in L1, and lets pl_bypass write the tile without reading. Smaller outputs are written
 * as usual, since they are read again while cached. */
#ifndef PURLIN_KERNELS_BYPASS_H
#define PURLIN_KERNELS_BYPASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PL_BYPASS_TILE = 2048,     /* elements computed at a time */
    PL_BYPASS_LEAST = 16 << 20 /* bytes of output from which on it is streamed: half an L3 or so */
};

/** Whether an output of n elements of `size` bytes is to be streamed. */
static inline bool pl_bypasses(int64_t n, size_t size)
{
    return n >= (int64_t)(PL_BYPASS_LEAST / size);
}

/** to[bytes] = from[bytes] past the caches. Other threads see it after pl_bypass_end. No overlap.
 * Local. */
void pl_bypass(void *to, const void *from, size_t bytes);

/** Completes what this thread has streamed. Local. */
void pl_bypass_end(void);

#endif
