/* heap -- extents of this rank's segment, handed out first fit and merged again when they are
 * freed.
 *
 * What is free and what is in use stands in memory of this process, where no peer can spoil it.
 * Free memory is all zero. */
#include "config.h"

#include "src/mesh/heap.h"

#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/mesh/segments.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    LARGE_BYTES = 4096,    /* from here up aligned to pages */
    PUNCH_BYTES = 1 << 16, /* below this, zeroing is cheaper than new pages */
};

typedef struct {
    int64_t begin, end; /* bytes from the start of the segment */
} extent;

/* Extents in ascending order, none of which overlap. */
typedef struct {
    extent *at;
    int64_t n, room;
} extents;

struct pl_heap {
    pl_segments segments;
    char *mine;      /* segments.base[segments.rank] */
    MPI_Group group; /* of create's comm */
    int64_t page_bytes;
    extents used, unused; /* together everything after the segment's head */
};

/** Place of the first extent that begins at `begin` or after it. */
static int64_t extents_find(const extents *e, int64_t begin)
{
    int64_t low = 0, high = e->n;

    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if (e->at[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void extents_insert(extents *e, int64_t place, extent x)
{
    e->at = pl_room_for_one(e->at, e->n, &e->room, sizeof x);
    memmove(e->at + place + 1, e->at + place, (size_t)(e->n - place) * sizeof x);
    e->at[place] = x;
    e->n++;
}

static void extents_remove(extents *e, int64_t place)
{
    e->n--;
    memmove(e->at + place, e->at + place + 1, (size_t)(e->n - place) * sizeof *e->at);
}

static int64_t round_up(int64_t bytes, int64_t multiple)
{
    return (bytes + multiple - 1) / multiple * multiple;
}

pl_heap *pl_heap_create(MPI_Comm comm)
{
    pl_segments segments;

    if (!pl_segments_map(comm, &segments))
        return NULL;

    pl_heap *heap = pl_alloc(sizeof *heap);

    heap->segments = segments;
    heap->mine = segments.base[segments.rank];
    heap->page_bytes = sysconf(_SC_PAGESIZE);
    PL_MPI(MPI_Comm_group(comm, &heap->group));
    extents_insert(&heap->unused, 0,
                   (extent){.begin = PL_SEGMENT_HEAD_BYTES, .end = segments.bytes});
    return heap;
}

void pl_heap_destroy(pl_heap *heap)
{
    if (heap == NULL)
        return;
    PL_MPI(MPI_Group_free(&heap->group));
    pl_segments_unmap(&heap->segments);
    pl_free(heap->used.at);
    pl_free(heap->unused.at);
    pl_free(heap);
}

/** Take `taken` out of the unused extent at `place`, which holds it. */
static void take(pl_heap *heap, int64_t place, extent taken)
{
    const extent around = heap->unused.at[place];

    extents_remove(&heap->unused, place);
    if (taken.end < around.end)
        extents_insert(&heap->unused, place, (extent){.begin = taken.end, .end = around.end});
    if (around.begin < taken.begin)
        extents_insert(&heap->unused, place, (extent){.begin = around.begin, .end = taken.begin});
    extents_insert(&heap->used, extents_find(&heap->used, taken.begin), taken);
}

void *pl_heap_alloc(pl_heap *heap, size_t bytes)
{
    if (heap == NULL)
        return pl_alloc(bytes);
    if (bytes <= (size_t)heap->segments.bytes) {
        const int64_t alignment = bytes < LARGE_BYTES ? ALIGNMENT : heap->page_bytes;
        const int64_t rounded = round_up(bytes == 0 ? 1 : (int64_t)bytes, ALIGNMENT);

        for (int64_t i = 0; i < heap->unused.n; i++) {
            const int64_t begin = round_up(heap->unused.at[i].begin, alignment);

            if (heap->unused.at[i].end - begin >= rounded) {
                take(heap, i, (extent){.begin = begin, .end = begin + rounded});
                return heap->mine + begin;
            }
        }
    }

    PL_PANIC("out of shared memory: cannot allocate %zu bytes of the %" PRId64 " MiB reserved",
             bytes, heap->segments.bytes >> 20);
}

/** Zero the extent, giving whole pages back to the host when there are many. */
static void clear(const pl_heap *heap, extent x)
{
    /* An extent of many pages begins at one. */
    const int64_t pages_bytes = (x.end - x.begin) / heap->page_bytes * heap->page_bytes;
    char *p = heap->mine + x.begin, *end = heap->mine + x.end;

    if (pages_bytes >= PUNCH_BYTES && madvise(p, (size_t)pages_bytes, MADV_REMOVE) == 0)
        p += pages_bytes;
    memset(p, 0, (size_t)(end - p));
}

void pl_heap_free(pl_heap *heap, void *p)
{
    if (heap == NULL || p == NULL) {
        pl_free(p);
        return;
    }

    const int64_t begin = pl_heap_offset(heap, p), place = extents_find(&heap->used, begin);

    if (begin < 0 || place == heap->used.n || heap->used.at[place].begin != begin)
        PL_PANIC("%p is not an allocation of the shared heap", p);

    extents *unused = &heap->unused;
    const int64_t next = extents_find(unused, begin);
    extent x = heap->used.at[place];

    clear(heap, x);
    extents_remove(&heap->used, place);
    if (next < unused->n && unused->at[next].begin == x.end) {
        x.end = unused->at[next].end;
        extents_remove(unused, next);
    }
    if (next > 0 && unused->at[next - 1].end == x.begin)
        unused->at[next - 1].end = x.end;
    else
        extents_insert(unused, next, x);
}

int64_t pl_heap_offset(const pl_heap *heap, const void *p)
{
    if (heap == NULL)
        return -1;

    const uintptr_t offset = (uintptr_t)p - (uintptr_t)heap->mine;

    return offset < (uintptr_t)heap->segments.bytes ? (int64_t)offset : -1;
}

void *pl_heap_at(const pl_heap *heap, int rank, int64_t offset)
{
    if (heap == NULL)
        return NULL;
    PL_ASSERT(rank >= 0 && rank < heap->segments.n_ranks);
    if (heap->segments.base[rank] == NULL)
        return NULL;
    PL_ASSERT(offset >= 0 && offset < heap->segments.bytes);
    return heap->segments.base[rank] + offset;
}

int pl_heap_rank(const pl_heap *heap, MPI_Comm comm, int rank)
{
    MPI_Group group;
    int ours;

    PL_ASSERT(heap != NULL);
    PL_MPI(MPI_Comm_group(comm, &group));
    PL_MPI(MPI_Group_translate_ranks(group, 1, &rank, heap->group, &ours));
    PL_MPI(MPI_Group_free(&group));
    if (ours == MPI_UNDEFINED)
        PL_PANIC("rank %d of a group is not among the %d ranks of the shared heap", rank,
                 heap->segments.n_ranks);
    return ours;
}
