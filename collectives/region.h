/* region -- cutting and joining lists of pieces; blocks of whole arrays; messages below MPI's int.
 *
 * A region's elements are numbered in the order written: piece by piece, run by run. All functions
 * are local and touch no array memory. */
#ifndef PURLIN_COLLECTIVES_REGION_H
#define PURLIN_COLLECTIVES_REGION_H

#include "collectives/schedule.h"
#include "src/base/memory.h"

/** A piece of one run. */
static inline pl_piece pl_piece_of(int array, int64_t offset, int64_t length)
{
    return (pl_piece){
        .array = array, .offset = offset, .count = 1, .stride = length, .length = length};
}

/** Room that pl_region_cut() needs at most: the first and last piece may each become three. */
static inline int pl_region_cut_room(pl_region region)
{
    return region.n_pieces + 4;
}

/** Elements begin..begin+n of `region` as pieces; returns how many were written to `out`. */
int pl_region_cut(pl_region region, int64_t begin, int64_t n, pl_piece *out);

/** Whether both are the same elements, written alike. */
bool pl_region_same(pl_region a, pl_region b);

/** The same of places, on the same rank. */
bool pl_place_same(const pl_place *a, const pl_place *b);

/** A copy in `arena` without empty pieces; neighbours that touch are one piece. */
pl_region pl_region_copy(pl_arena *arena, pl_region region);

/** Regions one after another, as one region in `arena`. */
pl_region pl_region_join(pl_arena *arena, const pl_region *regions, int n_regions);

/** The region's elements dealt to n_ranks balanced blocks (base/block.h), in order. */
pl_blocks pl_blocks_of_region(pl_arena *arena, pl_region whole, int n_ranks);

/** Arrays 0..n_arrays of elements[i] elements each, laid end to end and dealt to n_ranks balanced
 * blocks; a block may span arrays. */
pl_blocks pl_blocks_of_arrays(pl_arena *arena, const int64_t *elements, int n_arrays, int n_ranks);

/** Blocks first, first+1, ..., first+n-1 (mod n_ranks) as one region in `arena`. */
pl_region pl_blocks_join(pl_arena *arena, pl_blocks x, int first, int n);

/** Elements of the largest block. */
int64_t pl_blocks_largest(pl_blocks x);

/** Elements begin..begin+n of `region`, in the schedule's arena. */
pl_region pl_region_part(pl_schedule *s, pl_region region, int64_t begin, int64_t n);
/** Its first n elements. */
static inline pl_region pl_region_first(pl_schedule *s, pl_region region, int64_t n)
{
    return pl_region_part(s, region, 0, n);
}
/** Part i of n_parts balanced ones (base/block.h). */
pl_region pl_region_share(pl_schedule *s, pl_region region, int n_parts, int i);

/* A message of n elements travels as chunks of at most max_elements, so that neither its count nor
 * its bytes exceed MPI's int. Both ends cut alike, whatever their pieces. */
enum { PL_CHUNK_ELEMENTS = 1 << 28 }; /* 1 GiB of f32 */

typedef struct {
    int64_t begin;
    int n; /* elements */
} pl_chunk;

/** How many chunks n elements make; 0 for 0. */
int64_t pl_chunk_count(int64_t n, int max_elements);
/** Chunk i of n elements: all but the last are full. */
pl_chunk pl_chunk_at(int64_t n, int max_elements, int64_t i);

#endif
