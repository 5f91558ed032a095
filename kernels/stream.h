/* stream -- memory read, written and updated by loops that do nothing else: the roof of what
 * computes little on many bytes. */
#ifndef PURLIN_KERNELS_STREAM_H
#define PURLIN_KERNELS_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* What a loop does with an array. */
typedef enum {
    PL_STREAM_READ,
    PL_STREAM_WRITE,  /* and does not read */
    PL_STREAM_UPDATE, /* read, and written where it lies */
} pl_stream_use;

enum { PL_MIX_STREAMS = 24 };

/* Arrays that one loop goes through side by side, so many lines of 64 bytes of each in a round. */
typedef struct {
    int n;
    struct {
        pl_stream_use use;
        int lines;
    } stream[PL_MIX_STREAMS];
} pl_mix;

/* A way to do it: how long the loop stays with an array before it goes on to the next, and whether
 * what is written goes past the caches, where the CPU has such stores. Which is the fastest depends
 * on the mix and on where the arrays lie. */
enum {
    PL_MIX_PAST = 1,  /* else ordinary stores */
    PL_MIX_LONG = 0,  /* 4 KiB of each array */
    PL_MIX_SHORT = 2, /* 256 bytes of each */
    PL_MIX_AHEAD = 4, /* 1 KiB of each, fetched 2 KiB ahead */
    PL_MIX_WAYS = 6   /* a length, and past or not */
};

/** The memory that a run over arrays of `bytes` together needs: they lie a little apart. Local. */
size_t pl_mix_room(const pl_mix *mix, size_t bytes);

/** What a run reads and writes, an update counting twice. Local. */
double pl_mix_bytes(const pl_mix *mix, size_t bytes);

/** As many rounds as arrays of `bytes` together hold, one at least, in x (pl_mix_room, 64-byte aligned), one
 * array after the other: words of 8 bytes that are read are added up, written ones become 1,
 * updated ones gain 1. Returns the sum. Cost: pl_mix_bytes. Local. */
uint64_t pl_mix_run(const pl_mix *mix, int way, void *x, size_t bytes);

#endif
