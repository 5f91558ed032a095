#include "tests/collective_cases.h"

#include "collectives/algorithms.h"
#include "src/base/memory.h"

const algorithm algorithms[N_ALGORITHMS] = {
    [RING_GATHER] = {"ring AllGather", GATHERS, pl_ring_all_gather, NULL},
    [BRUCK_GATHER] = {"Bruck AllGather", GATHERS, pl_bruck_all_gather, NULL},
    [DIRECT_GATHER] = {"direct AllGather", GATHERS, pl_direct_all_gather, NULL},
    [RING_SCATTER] = {"ring ReduceScatter", SCATTERS, NULL, pl_ring_reduce_scatter},
    [DIRECT_SCATTER] = {"direct ReduceScatter", SCATTERS, NULL, pl_direct_reduce_scatter},
    [RING_REDUCE] = {"ring AllReduce", REDUCES, NULL, pl_ring_all_reduce},
    [DIRECT_REDUCE] = {"direct AllReduce", REDUCES, NULL, pl_direct_all_reduce},
    [RECURSIVE_DOUBLING] = {"recursive doubling AllReduce", REDUCES, NULL,
                            pl_recursive_doubling_all_reduce},
};

int64_t layout_room(int64_t n)
{
    return 2 * n + 16;
}

pl_region layout_whole(pl_arena *arena, layout kind, int64_t n)
{
    pl_piece pieces[LAYOUT_ARRAYS];
    int n_pieces = 0;

    if (kind == LAYOUT_ONE) {
        pieces[n_pieces++] = pl_piece_of(0, 2, n);
    } else if (kind == LAYOUT_THREE) {
        const int64_t first = n / 2, second = (n - first) / 3;

        pieces[n_pieces++] = pl_piece_of(2, 0, first);
        pieces[n_pieces++] = pl_piece_of(0, 1, second);
        pieces[n_pieces++] = pl_piece_of(1, 5, n - first - second);
    } else {
        pieces[n_pieces++] =
            (pl_piece){.array = 1, .offset = 1, .count = n / 3, .stride = 5, .length = 3};
        pieces[n_pieces++] = pl_piece_of(2, 0, n % 3);
    }
    return pl_region_copy(arena, (pl_region){.n_pieces = n_pieces, .pieces = pieces});
}

pl_blocks layout_cut(pl_arena *arena, pl_region whole, const int64_t *sizes, int n_regions)
{
    pl_region *of = pl_arena_alloc(arena, (size_t)n_regions * sizeof *of);
    pl_piece *cut = pl_alloc((size_t)pl_region_cut_room(whole) * sizeof *cut);
    int64_t begin = 0;

    for (int b = 0; b < n_regions; b++) {
        const int n_cut = pl_region_cut(whole, begin, sizes[b], cut);

        of[b] = pl_region_copy(arena, (pl_region){.n_pieces = n_cut, .pieces = cut});
        begin += sizes[b];
    }
    pl_free(cut);
    return (pl_blocks){.n_ranks = n_regions, .of = of};
}

pl_blocks layout_blocks(pl_arena *arena, layout kind, int64_t n, int n_ranks)
{
    const pl_region whole = layout_whole(arena, kind, n);
    int64_t *sizes, total = 0, given = 0, weight = 0;
    pl_blocks blocks;

    if (kind != LAYOUT_UNEVEN)
        return pl_blocks_of_region(arena, whole, n_ranks);
    sizes = pl_alloc((size_t)n_ranks * sizeof *sizes);
    for (int b = 0; b < n_ranks; b++)
        total += (b + 3) % 4;
    for (int b = 0; b < n_ranks; b++) {
        weight += (b + 3) % 4;
        sizes[b] = n * weight / total - given;
        given += sizes[b];
    }
    blocks = layout_cut(arena, whole, sizes, n_ranks);
    pl_free(sizes);
    return blocks;
}
