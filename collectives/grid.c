#include "config.h"

#include "collectives/grid.h"

#include "collectives/region.h"

/* What one part does in one round. */
typedef struct {
    int part;
    int stage; /* how many axes the part has behind it */
    int axis;  /* along which it goes */
    int hop;   /* from 1 to half the axis */
} move;

typedef struct {
    bool gathers; /* else it reduces, backwards */
    pl_reduction reduction;
} manner;

pl_grid pl_grid_of(pl_schedule *s, const pl_site *site, pl_blocks x, int rank)
{
    pl_arena *const arena = pl_schedule_arena(s);
    pl_grid g = {.site = site, .rank = rank};
    pl_region *of[PL_MAX_AXES];

    for (int a = site->n_axes - 1, stride = 1; a >= 0; stride *= site->extent[a--]) {
        g.stride[a] = stride;
        g.at[a] = rank / stride % site->extent[a];
        g.n_rounds += site->extent[a] / 2;
        of[a] = pl_arena_alloc(arena, (size_t)x.n_ranks * sizeof *of[a]);
        g.parts[a] = (pl_blocks){.n_ranks = x.n_ranks, .of = of[a]};
    }
    for (int b = 0; b < x.n_ranks; b++) {
        const pl_blocks cut = pl_blocks_of_region(arena, pl_blocks_at(x, b), site->n_axes);

        for (int j = 0; j < site->n_axes; j++)
            of[j][b] = pl_blocks_at(cut, j);
    }
    return g;
}

/* Round r of a gather, for part j. */
static move move_at(const pl_grid *g, int j, int r)
{
    const int *const extent = g->site->extent, n = g->site->n_axes;
    move m = {.part = j, .axis = j};

    while (r >= extent[m.axis] / 2) {
        r -= extent[m.axis] / 2;
        m.axis = (j + ++m.stage) % n;
    }
    m.hop = r + 1;
    return m;
}

/* Whether block b is gathered, as far as the axes behind the part go, by the rank at place `at` of
 * this rank's line: then it goes along the line with that rank's. */
static bool belongs(const pl_grid *g, move m, int at, int b)
{
    const int *const extent = g->site->extent, n = g->site->n_axes;

    if (b / g->stride[m.axis] % extent[m.axis] != at)
        return false;
    for (int stage = m.stage + 1; stage < n; stage++) {
        const int a = (m.part + stage) % n;

        if (b / g->stride[a] % extent[a] != g->at[a])
            return false;
    }
    return true;
}

/* What sets out along the line from `steps` places to the right; half 0 or 1 of it, or (-1) all. */
static pl_region load_of(pl_schedule *s, const pl_grid *g, move m, int steps, int half)
{
    const pl_blocks x = g->parts[m.part];
    const int X = g->site->extent[m.axis], at = (g->at[m.axis] + steps + X) % X;
    pl_region *const blocks = pl_alloc((size_t)x.n_ranks * sizeof *blocks);
    pl_region load;
    int n = 0;

    for (int b = 0; b < x.n_ranks; b++)
        if (belongs(g, m, at, b))
            blocks[n++] = pl_blocks_at(x, b);
    load = pl_region_join(pl_schedule_arena(s), blocks, n);
    pl_free(blocks);
    return half < 0 ? load : pl_blocks_at(pl_blocks_of_region(pl_schedule_arena(s), load, 2), half);
}

/* One direction of a hop: what set out hop-1 places before goes one place on, to the right
 * (sign 1) or to the left (-1). Backwards the sums of the same elements come the other way. */
static void write_hop(pl_schedule *s, const pl_grid *g, move m, manner how, int sign, int half)
{
    const int a = m.axis, X = g->site->extent[a], line = g->rank - g->at[a] * g->stride[a];
    const int ahead = line + (g->at[a] + sign + X) % X * g->stride[a];
    const int behind = line + (g->at[a] - sign + X) % X * g->stride[a];
    const pl_region passed = load_of(s, g, m, -sign * (m.hop - 1), half);
    const pl_region met = load_of(s, g, m, -sign * m.hop, half);

    if (how.gathers) {
        pl_schedule_send(s, ahead, passed);
        pl_schedule_recv(s, behind, met);
    } else {
        pl_schedule_send(s, behind, met);
        pl_schedule_recv_reduce(s, ahead, passed, how.reduction);
    }
}

static void write_round(pl_schedule *s, const pl_grid *g, manner how, int r)
{
    for (int j = 0; j < g->site->n_axes; j++) {
        const move m = move_at(g, j, r);
        const int X = g->site->extent[m.axis];

        if (X == 2) { /* both sides are one rank */
            write_hop(s, g, m, how, 1, -1);
            continue;
        }
        write_hop(s, g, m, how, 1, 2 * m.hop == X ? 0 : -1);
        write_hop(s, g, m, how, -1, 2 * m.hop == X ? 1 : -1);
    }
    pl_schedule_next_round(s);
}

void pl_grid_gather(pl_schedule *s, const pl_grid *g)
{
    for (int r = 0; r < g->n_rounds; r++)
        write_round(s, g, (manner){.gathers = true}, r);
}

void pl_grid_reduce(pl_schedule *s, const pl_grid *g, pl_reduction reduction)
{
    for (int r = g->n_rounds - 1; r >= 0; r--)
        write_round(s, g, (manner){.reduction = reduction}, r);
}
