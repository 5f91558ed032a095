/* memory -- aligned, zeroed, counted. */
#include "config.h"

#include "src/base/memory.h"
#include "src/base/panic.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

enum { ALIGNMENT = 64, CHUNK_BYTES = 1 << 16, HUGE_PAGE_BYTES = 2 << 20 };

/* Only ever counts up; threads may allocate at once. */
static _Atomic int64_t n_allocations;

/* To whole lines, at least one. */
static size_t round_up(size_t bytes)
{
    if (bytes == 0)
        return ALIGNMENT;
    if (bytes > SIZE_MAX - (2 * ALIGNMENT - 1))
        PL_PANIC("cannot allocate %zu bytes", bytes);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/** Before the first touch. Whole huge pages only: no more memory than was asked for. */
static void ask_for_huge_pages(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    madvise(p, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* where there are any */
#else
    (void)p, (void)bytes;
#endif
}

/* Room for `rounded` bytes, as it is found. */
static void *take(size_t rounded)
{
    const bool is_large = rounded >= PL_LARGE_BYTES;
    void *p;

    if (posix_memalign(&p, is_large ? HUGE_PAGE_BYTES : ALIGNMENT, rounded) != 0)
        PL_PANIC("out of memory: cannot allocate %zu bytes", rounded);
    if (is_large)
        ask_for_huge_pages(p, rounded);
    n_allocations++;
    return p;
}

void *pl_alloc(size_t bytes)
{
    const size_t rounded = round_up(bytes);

    return memset(take(rounded), 0, rounded);
}

void *pl_realloc(void *old, size_t old_bytes, size_t new_bytes)
{
    const size_t rounded = round_up(new_bytes), kept = old == NULL             ? 0
                                                       : old_bytes < new_bytes ? old_bytes
                                                                               : new_bytes;
    char *p = take(rounded);

    if (kept > 0)
        memcpy(p, old, kept);
    memset(p + kept, 0, rounded - kept);
    free(old);
    return p;
}

void *pl_room_for_one(void *array, int64_t n, int64_t *room, size_t element_bytes)
{
    const int64_t had = *room;

    if (n < had)
        return array;
    *room = 2 * had + 64;
    return pl_realloc(array, (size_t)had * element_bytes, (size_t)*room * element_bytes);
}

void pl_free(void *p)
{
    free(p);
}

int64_t pl_allocation_count(void)
{
    return n_allocations;
}

typedef struct chunk {
    struct chunk *older;
    char *begin;                    /* after this record, aligned */
    size_t used_bytes, space_bytes; /* of begin[]; used is a multiple of the alignment */
} chunk;

struct pl_arena {
    chunk *newest;
};

pl_arena *pl_arena_create(void)
{
    return pl_alloc(sizeof(pl_arena));
}

void pl_arena_destroy(pl_arena *arena)
{
    if (arena == NULL)
        return;
    for (chunk *c = arena->newest, *older; c != NULL; c = older) {
        older = c->older;
        pl_free(c);
    }
    pl_free(arena);
}

static chunk *chunk_create(size_t space_bytes)
{
    const size_t head_bytes = round_up(sizeof(chunk));

    if (space_bytes > SIZE_MAX - head_bytes)
        PL_PANIC("cannot allocate %zu bytes", space_bytes);

    chunk *c = pl_alloc(head_bytes + space_bytes);

    c->begin = (char *)c + head_bytes;
    c->space_bytes = space_bytes;
    return c;
}

void *pl_arena_alloc(pl_arena *arena, size_t bytes)
{
    const size_t rounded = round_up(bytes);
    chunk *c = arena->newest;

    if (c == NULL || c->space_bytes - c->used_bytes < rounded) {
        c = chunk_create(rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES);
        c->older = arena->newest;
        arena->newest = c;
    }

    void *p = c->begin + c->used_bytes;

    c->used_bytes += rounded;
    return p;
}

char *pl_arena_printf(pl_arena *arena, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);

    const int length = vsnprintf(NULL, 0, format, args);

    va_end(args);
    if (length < 0)
        PL_PANIC("cannot format \"%s\"", format);

    char *text = pl_arena_alloc(arena, (size_t)length + 1);

    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *pl_arena_join(pl_arena *arena, const char *first, const char *second)
{
    const size_t length = strlen(first), more = strlen(second);
    char *text = pl_arena_alloc(arena, length + more + 1);

    memcpy(text, first, length);
    memcpy(text + length, second, more + 1);
    return text;
}
