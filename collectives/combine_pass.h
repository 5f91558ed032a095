/* combine_pass -- one pass of pl_combine(): a few sources added up in registers, written to one or
 * two destinations, or a line at a time to any number; compiled for each instruction set. */
#ifndef PURLIN_COLLECTIVES_COMBINE_PASS_H
#define PURLIN_COLLECTIVES_COMBINE_PASS_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <string.h>

#define PL_INLINE static inline __attribute__((always_inline))

/* Chosen by measurement on an EPYC (family 25, model 17) with busy neighbours: one core, CPU time,
 * the minimum of alternating runs, 4 KiB to 128 MiB in all.
 *
 * CHUNK of 256, 512, 1024: 64 -> 1 of 64 MiB f32 moves 12, 15, 14 GB/s; 8 -> 1 of 64 MiB moves 22
 * to 27, 18 to 25, 17 to 18 GB/s; bf16 in cache gains 10% from 256 to 512, little after. */
enum {
    PL_COMBINE_CHUNK =
        512, /* elements worked on together when sources or destinations are many: <= 2 KiB */
    PL_COMBINE_SOURCES = 4, /* sources added up in registers */
    PL_COMBINE_LINE = 64,   /* bytes of a cache line */
};

/* One pass over a range of elements. */
typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    const void *const *from; /* [n_from] at the range; 2 to pl_combine_sources() */
    void *const *to;         /* [n_to] before the range; 1 or 2 unless it streams */
    int n_from, n_to;
    int64_t begin, n;     /* elements */
    bool continues, ends; /* from[0] is a partial result, to[] are not */
    bool streams;         /* past the caches: n is whole lines, all `to` are aligned */
} pl_combine_pass;

/** Sources that are added up in registers: more where it matters. */
PL_INLINE int pl_combine_sources(pl_dtype dtype, pl_reduction reduction)
{
    return dtype != PL_I32 && reduction == PL_SUM ? PL_COMBINE_SOURCES : 2;
}

/** Where the range begins in destination k. */
PL_INLINE char *pl_combine_place(const pl_combine_pass *p, int k)
{
    return (char *)p->to[k] + p->begin * (int64_t)pl_dtype_bytes(p->dtype);
}

/** One line past the caches; `to` is aligned. */
PL_INLINE void pl_combine_stream_line(void *to, const void *from)
{
#if defined(__x86_64__)
    __m128i part[PL_COMBINE_LINE / sizeof(__m128i)];

    memcpy(part, from, PL_COMBINE_LINE);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        _mm_stream_si128((__m128i *)to + i, part[i]);
#else
    memcpy(to, from, PL_COMBINE_LINE);
#endif
}

typedef void pl_combine_runner(const pl_combine_pass *p);

/** Those that this CPU can run, numbered from 0 (portable). Local. */
int pl_combine_n_runners(void);
pl_combine_runner *pl_combine_runner_at(int variant);

#endif
