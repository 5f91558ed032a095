/* memory -- every allocation of purlin's own, counted.
 *
 * Setup allocates, steps never do: pl_allocation_count() lets a test see that. */
#ifndef PURLIN_BASE_MEMORY_H
#define PURLIN_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum { PL_LARGE_BYTES = 4 << 20 };

/** Zeroed memory, 64-byte aligned; panics when there is none. Zero bytes give a valid pointer. From
 * PL_LARGE_BYTES on it begins at a huge page (2 MiB) and asks for such pages, which Linux gives
 * where /sys/kernel/mm/transparent_hugepage/enabled says "madvise" or "always": rows read at
 * random then rarely miss in the TLB, and what the CPU fetches ahead need not stop every 4 KiB.
 * Free with pl_free(). Local. */
void *pl_alloc(size_t bytes);

/** Like realloc: grows `old` (from pl_alloc, or NULL) of old_bytes to new_bytes; the new part is
 * zeroed. Local. */
void *pl_realloc(void *old, size_t old_bytes, size_t new_bytes);

/** A list's array with room for one element more than its n: as it is while n < *room, else moved to
 * about twice the room, which *room then tells. Local. */
void *pl_room_for_one(void *array, int64_t n, int64_t *room, size_t element_bytes);

void pl_free(void *p);

/** How often this process has called pl_alloc, pl_realloc or grown an arena. */
int64_t pl_allocation_count(void);

/* An arena: many small allocations that die together (a program's records and names). */
typedef struct pl_arena pl_arena;

pl_arena *pl_arena_create(void);
void pl_arena_destroy(pl_arena *arena); /* NULL is allowed */
/** Zeroed, 64-byte aligned. */
void *pl_arena_alloc(pl_arena *arena, size_t bytes);
/** printf into the arena. */
char *pl_arena_printf(pl_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** The first text, then the second; either may be empty. For names by the thousand, for which
 * printf is slow. */
char *pl_arena_join(pl_arena *arena, const char *first, const char *second);

#endif
