#include "config.h"

#include "collectives/tree.h"

#include "collectives/region.h"

int pl_tree_top(int P)
{
    int d = 0;

    for (int next = 1; next < P; next *= 2)
        d = next;
    return d;
}

pl_region pl_tree_blocks(pl_schedule *s, pl_blocks x, int parent, int d)
{
    const int P = x.n_ranks;
    pl_region *of = pl_alloc((size_t)P * sizeof *of), joined;
    int n = 0;

    for (int m = 0; m < P - d; m += 2 * d)
        of[n++] = pl_blocks_at(x, (parent + P - m) % P);
    joined = pl_region_join(pl_schedule_arena(s), of, n);
    pl_free(of);
    return joined;
}
