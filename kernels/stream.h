/* stream -- memory read and copied by loops that do nothing else: the roof of what computes little
 * on many bytes. */
#ifndef PURLIN_KERNELS_STREAM_H
#define PURLIN_KERNELS_STREAM_H

#include <stddef.h>
#include <stdint.h>

/** Reads bytes / 64 lines of x (64-byte aligned). Returns a number that depends on all of them.
 * Cost: reads `bytes`. Local. */
uint64_t pl_stream_read(const void *x, size_t bytes);

/** y = x, bytes / 64 lines of both (64-byte aligned, apart); `past` the caches by streaming stores
 * where the CPU has them: such a store need not read the line that it overwrites.
 * Cost: reads `bytes`, writes `bytes`. Local. */
void pl_stream_copy(const void *x, void *y, size_t bytes, int past);

/** x = x + 1 in words of 8 bytes, bytes / 64 lines (64-byte aligned): each is read and written
 * where it lies. Cost: reads `bytes`, writes `bytes`. Local. */
void pl_stream_update(void *x, size_t bytes);

#endif
