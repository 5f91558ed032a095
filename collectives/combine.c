/* combine -- passes over chunks of elements.
 *
 * Up to SOURCES sources are added up in registers and written to one or two destinations. More of
 * either are worked on a chunk at a time, which stays in the innermost cache: what was added up so
 * far is a partial result (of 4 bytes an element, so that bf16 is rounded once), and further
 * destinations are copies of the first. What streams leaves the registers a line at a time, to any
 * number of destinations that begin on lines together; to others by way of a chunk. */
#include "config.h"

#include "collectives/combine.h"

#include "collectives/combine_pass.h"

#include <string.h>

/* Chosen by measurement, as in combine_pass.h.
 *
 * AHEAD: copies of 1 MiB past the caches, 28 GB/s with it, 19 to 25 without; sums gain nothing.
 *
 * Copies that don't stream are memcpy(): of aligned arrays, loops of vectors are a fifth faster at
 * 4 KiB, but less than 5% from 64 KiB to 4 MiB; `rep movsb` is level there, slower at 1 KiB. */
enum {
    AHEAD = 1024, /* bytes: how far ahead of a streamed copy its source is fetched */
};

/* to[bytes] <- from[bytes] past the caches by whole lines; what is left at both ends, as usual.
 * `from` is in the caches unless it is to be fetched AHEAD. */
static void stream(void *to, const void *from, int64_t bytes, bool fetch)
{
    const int64_t before = -(int64_t)(uintptr_t)to & (PL_COMBINE_LINE - 1),
                  head = before < bytes ? before : bytes,
                  body = (bytes - head) / PL_COMBINE_LINE * PL_COMBINE_LINE;
    char *t = (char *)to + head;
    const char *f = (const char *)from + head;

    memcpy(to, from, (size_t)head);
    for (int64_t i = 0; i < body; i += PL_COMBINE_LINE) {
        if (fetch)
            __builtin_prefetch(f + i + AHEAD, 0, 0);
        pl_combine_stream_line(t + i, f + i);
    }
    memcpy(t + body, f + body, (size_t)(bytes - head - body));
}

/* Streamed stores come before what the caller does next, as other stores would. */
static void end_streams(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* A range, however many sources, to `to` after `begin` elements; at most a chunk, unless sources
 * are few. */
static void run_from_many(pl_combine_runner *run, const pl_combine_pass *whole, void *const *to,
                          int n_to, int64_t begin)
{
    const int64_t before = whole->begin * (int64_t)pl_dtype_bytes(whole->dtype);
    const int at_once = pl_combine_sources(whole->dtype, whole->reduction);
    uint32_t partial[PL_COMBINE_CHUNK] __attribute__((aligned(PL_COMBINE_LINE)));
    void *const to_partial[] = {partial};
    const void *from[PL_COMBINE_SOURCES];
    pl_combine_pass p = *whole;

    p.to = to_partial;
    p.n_to = 1;
    p.begin = 0;
    p.from = from;
    p.n_from = 0;
    p.continues = p.ends = p.streams = false;
    for (int i = 0; i < whole->n_from; i++) {
        if (p.n_from == at_once) {
            run(&p);
            p.continues = true;
            from[0] = partial;
            p.n_from = 1;
        }
        from[p.n_from++] = (const char *)whole->from[i] + before;
    }
    p.to = to;
    p.n_to = n_to;
    p.begin = begin;
    p.ends = true;
    p.streams = whole->streams;
    run(&p);
}

/* To at most two destinations by the loop, to more by copies while the first is in cache. */
static void run_to_many(pl_combine_runner *run, const pl_combine_pass *whole)
{
    const size_t bytes = (size_t)whole->n * pl_dtype_bytes(whole->dtype);

    run_from_many(run, whole, whole->to, whole->n_to < 2 ? 1 : 2, whole->begin);
    for (int i = 2; i < whole->n_to; i++)
        memcpy(pl_combine_place(whole, i), pl_combine_place(whole, 0), bytes);
}

/* Past the caches, to destinations that don't begin on lines together: each finds its own. */
static void run_to_unlike(pl_combine_runner *run, const pl_combine_pass *whole)
{
    const int64_t bytes = whole->n * (int64_t)pl_dtype_bytes(whole->dtype);
    uint32_t result[PL_COMBINE_CHUNK] __attribute__((aligned(PL_COMBINE_LINE)));
    void *const to[] = {result};
    pl_combine_pass p = *whole;

    p.streams = false;
    run_from_many(run, &p, to, 1, 0);
    for (int i = 0; i < whole->n_to; i++)
        stream(pl_combine_place(whole, i), result, bytes, false);
}

static bool begin_on_lines_together(const pl_combine_pass *whole)
{
    for (int i = 1; i < whole->n_to; i++)
        if (((uintptr_t)whole->to[i] - (uintptr_t)whole->to[0]) % PL_COMBINE_LINE != 0)
            return false;
    return true;
}

/* Elements until `to` is on a line. */
static int64_t until_line(const pl_combine_pass *whole)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(whole->dtype),
                  n = (int64_t)(-(uintptr_t)pl_combine_place(whole, 0) % PL_COMBINE_LINE) / bytes;

    return n < whole->n ? n : whole->n;
}

static void run_range(pl_combine_runner *run, const pl_combine_pass *whole)
{
    const bool is_few = whole->n_from <= pl_combine_sources(whole->dtype, whole->reduction) &&
                        (whole->n_to <= 2 || whole->streams);
    pl_combine_pass p = *whole;

    for (int64_t left = whole->n; left > 0; left -= p.n, p.begin += p.n) {
        p.n = is_few || left < PL_COMBINE_CHUNK ? left : PL_COMBINE_CHUNK;
        if (p.streams)
            run_from_many(run, &p, p.to, p.n_to, p.begin);
        else
            run_to_many(run, &p);
    }
}

/* Lines past the caches; what is left at both ends, as usual. */
static void run_to_alike(pl_combine_runner *run, const pl_combine_pass *whole)
{
    const int64_t per_line = PL_COMBINE_LINE / (int64_t)pl_dtype_bytes(whole->dtype),
                  head = until_line(whole), body = (whole->n - head) / per_line * per_line;
    pl_combine_pass p = *whole;

    p.n = head;
    run_range(run, &p);
    p.begin += head;
    p.n = body;
    p.streams = true;
    run_range(run, &p);
    p.begin += body;
    p.n = whole->n - head - body;
    p.streams = false;
    run_range(run, &p);
}

static void run_streams(pl_combine_runner *run, const pl_combine_pass *whole)
{
    pl_combine_pass p = *whole;

    if (begin_on_lines_together(whole)) {
        run_to_alike(run, whole);
    } else {
        /* Chunks of the first destination end where its lines do. */
        for (int64_t left = whole->n; left > 0; left -= p.n, p.begin += p.n) {
            p.n = left;
            if (until_line(&p) > 0)
                p.n = until_line(&p);
            else if (left > PL_COMBINE_CHUNK)
                p.n = PL_COMBINE_CHUNK;
            run_to_unlike(run, &p);
        }
    }
    end_streams();
}

static void copy(void *const *to, int n_to, const void *from, int64_t bytes, bool streams)
{
    for (int i = 0; i < n_to; i++) {
        if (to[i] == from || bytes == 0)
            continue;
        if (streams)
            stream(to[i], from, bytes, true);
        else
            memcpy(to[i], from, (size_t)bytes);
    }
    if (streams)
        end_streams();
}

int pl_combine_n_variants(void)
{
    return pl_combine_n_runners();
}

void pl_combine_variant(int variant, pl_dtype dtype, pl_reduction reduction, void *const *to,
                        int n_to, const void *const *from, int n_from, int64_t n, bool streams)
{
    pl_combine_runner *const run = pl_combine_runner_at(variant);
    const pl_combine_pass whole = {dtype, reduction, from, to, n_from, n_to, .n = n, .ends = true};

    if (n_from == 1)
        copy(to, n_to, from[0], n * (int64_t)pl_dtype_bytes(dtype), streams);
    else if (streams)
        run_streams(run, &whole);
    else if (n_from <= pl_combine_sources(dtype, reduction) && n_to <= 2)
        run(&whole);
    else
        run_range(run, &whole);
}

void pl_combine(pl_dtype dtype, pl_reduction reduction, void *const *to, int n_to,
                const void *const *from, int n_from, int64_t n, bool streams)
{
    pl_combine_variant(pl_combine_n_variants() - 1, dtype, reduction, to, n_to, from, n_from, n,
                       streams);
}

void pl_combine_into(pl_dtype dtype, pl_reduction reduction, void *x, const void *y, int64_t n)
{
    void *const to[] = {x};
    const void *const from[] = {x, y};

    pl_combine(dtype, reduction, to, 1, from, 2, n, false);
}
