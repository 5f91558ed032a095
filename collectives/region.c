#include "config.h"

#include "collectives/region.h"

#include "src/base/block.h"
#include "src/base/panic.h"

#include <string.h>

int64_t pl_region_elements(pl_region region)
{
    int64_t n = 0;

    for (int i = 0; i < region.n_pieces; i++)
        n += region.pieces[i].count * region.pieces[i].length;
    return n;
}

bool pl_region_same(pl_region a, pl_region b)
{
    bool same = a.n_pieces == b.n_pieces;

    for (int i = 0; same && i < a.n_pieces; i++) {
        const pl_piece p = a.pieces[i], q = b.pieces[i];

        same = p.array == q.array && p.offset == q.offset && p.count == q.count &&
               p.length == q.length && (p.stride == q.stride || p.count == 1);
    }
    return same;
}

bool pl_place_same(const pl_place *a, const pl_place *b)
{
    return a->rank == b->rank && pl_region_same(a->region, b->region);
}

static bool is_one_run(pl_piece p)
{
    return p.count == 1 || p.stride == p.length;
}

/* Append p to out[0..n), joined to the last piece when it goes on where that ends. */
static int append(pl_piece *out, int n, pl_piece p)
{
    if (p.count * p.length == 0)
        return n;
    if (is_one_run(p)) {
        p = pl_piece_of(p.array, p.offset, p.count * p.length);
        if (n > 0 && out[n - 1].count == 1 && out[n - 1].array == p.array &&
            out[n - 1].offset + out[n - 1].length == p.offset) {
            out[n - 1] = pl_piece_of(p.array, out[n - 1].offset, out[n - 1].length + p.length);
            return n;
        }
    }
    out[n] = p;
    return n + 1;
}

/* Elements begin..end of one piece: the rest of a run, whole runs, the start of a run. */
static int cut_piece(pl_piece p, int64_t begin, int64_t end, pl_piece *out, int n)
{
    while (begin < end) {
        const int64_t run = begin / p.length, within = begin % p.length;
        const int64_t whole = within == 0 ? (end - begin) / p.length : 0;
        pl_piece part = p;

        part.offset = p.offset + run * p.stride + within;
        if (whole > 0) {
            part.count = whole;
            begin += whole * p.length;
        } else {
            const int64_t left = p.length - within;
            const int64_t length = left < end - begin ? left : end - begin;

            part = pl_piece_of(p.array, part.offset, length);
            begin += length;
        }
        n = append(out, n, part);
    }
    return n;
}

int pl_region_cut(pl_region region, int64_t begin, int64_t n, pl_piece *out)
{
    const int64_t end = begin + n;
    int64_t at = 0; /* element number of the piece's first */
    int n_out = 0;

    for (int i = 0; i < region.n_pieces && at < end; i++) {
        const pl_piece p = region.pieces[i];
        const int64_t size = p.count * p.length;

        if (at + size > begin)
            n_out = cut_piece(p, begin > at ? begin - at : 0, end < at + size ? end - at : size,
                              out, n_out);
        at += size;
    }
    return n_out;
}

pl_region pl_region_join(pl_arena *arena, const pl_region *regions, int n_regions)
{
    int room = 0, n = 0;
    pl_piece *pieces;

    for (int r = 0; r < n_regions; r++)
        room += regions[r].n_pieces;
    if (room == 0)
        return (pl_region){0};
    pieces = pl_arena_alloc(arena, (size_t)room * sizeof *pieces);
    for (int r = 0; r < n_regions; r++)
        for (int i = 0; i < regions[r].n_pieces; i++)
            n = append(pieces, n, regions[r].pieces[i]);
    return (pl_region){.n_pieces = n, .pieces = pieces};
}

pl_region pl_region_copy(pl_arena *arena, pl_region region)
{
    return pl_region_join(arena, &region, 1);
}

pl_blocks pl_blocks_of_region(pl_arena *arena, pl_region whole, int n_ranks)
{
    const int64_t n = pl_region_elements(whole);
    pl_region *of = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *of);
    pl_piece *cut = pl_alloc((size_t)pl_region_cut_room(whole) * sizeof *cut);

    for (int b = 0; b < n_ranks; b++) {
        const int n_cut =
            pl_region_cut(whole, pl_block_begin(n, n_ranks, b), pl_block_count(n, n_ranks, b), cut);

        of[b] = pl_region_copy(arena, (pl_region){.n_pieces = n_cut, .pieces = cut});
    }
    pl_free(cut);
    return (pl_blocks){.n_ranks = n_ranks, .of = of};
}

pl_blocks pl_blocks_of_arrays(pl_arena *arena, const int64_t *elements, int n_arrays, int n_ranks)
{
    pl_piece *pieces = pl_alloc((size_t)n_arrays * sizeof *pieces);
    pl_blocks blocks;

    for (int i = 0; i < n_arrays; i++)
        pieces[i] = pl_piece_of(i, 0, elements[i]);
    blocks =
        pl_blocks_of_region(arena, (pl_region){.n_pieces = n_arrays, .pieces = pieces}, n_ranks);
    pl_free(pieces);
    return blocks;
}

pl_region pl_blocks_join(pl_arena *arena, pl_blocks x, int first, int n)
{
    pl_region *parts = pl_alloc((size_t)n * sizeof *parts);
    pl_region joined;

    for (int i = 0; i < n; i++)
        parts[i] = pl_blocks_at(x, (first + i) % x.n_ranks);
    joined = pl_region_join(arena, parts, n);
    pl_free(parts);
    return joined;
}

int64_t pl_blocks_largest(pl_blocks x)
{
    int64_t most = 0;

    for (int b = 0; b < x.n_ranks; b++) {
        const int64_t n = pl_region_elements(pl_blocks_at(x, b));

        most = n > most ? n : most;
    }
    return most;
}

pl_region pl_region_part(pl_schedule *s, pl_region region, int64_t begin, int64_t n)
{
    pl_piece *pieces =
        pl_arena_alloc(pl_schedule_arena(s), (size_t)pl_region_cut_room(region) * sizeof *pieces);

    return (pl_region){pl_region_cut(region, begin, n, pieces), pieces};
}

pl_region pl_region_share(pl_schedule *s, pl_region region, int n_parts, int i)
{
    const int64_t n = pl_region_elements(region);

    return pl_region_part(s, region, pl_block_begin(n, n_parts, i), pl_block_count(n, n_parts, i));
}

int64_t pl_chunk_count(int64_t n, int max_elements)
{
    return n / max_elements + (n % max_elements != 0);
}

pl_chunk pl_chunk_at(int64_t n, int max_elements, int64_t i)
{
    const int64_t begin = i * max_elements, left = n - begin;

    PL_ASSERT(i >= 0 && left > 0);
    return (pl_chunk){.begin = begin, .n = left < max_elements ? (int)left : max_elements};
}
