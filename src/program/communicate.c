#include "config.h"

#include "src/program/communicate.h"

#include "collectives/region.h"
#include "src/base/panic.h"
#include "src/program/kinds.h"

#include <string.h>

int pl_op_arrays(const pl_op *op, int *values)
{
    int n = 0;
    const bool gathers = op->kind == PL_KIND_ALL_GATHER;

    if (gathers || op->kind == PL_KIND_RECV)
        for (int i = 0; i < op->n_out; i++)
            values[n++] = op->out[i];
    if (op->kind != PL_KIND_RECV)
        for (int i = 0; i < op->n_in; i++)
            values[n++] = op->in[i];
    if (op->kind == PL_KIND_ALL_TO_ALL || op->kind == PL_KIND_REDUCE_SCATTER)
        for (int i = 0; i < op->n_out; i++)
            values[n++] = op->out[i];
    return n;
}

pl_axes pl_op_group(const pl_program *p, const pl_op *op)
{
    if (pl_kind_is_move(op->kind))
        return pl_mesh_family(p->mesh, "pp");
    return op->axes;
}

pl_dtype pl_op_dtype(const pl_program *p, const pl_op *op)
{
    const pl_dtype dtype = p->values[op->n_out > 0 ? op->out[0] : op->in[0]].dtype;

    for (int i = 0; i < op->n_in; i++)
        PL_ASSERT(p->values[op->in[i]].dtype == dtype);
    for (int o = 0; o < op->n_out; o++)
        PL_ASSERT(p->values[op->out[o]].dtype == dtype);
    return dtype;
}

/* The part of array `whole` (local extents e) that covers `range` of its dim d. */
static pl_piece piece_along(int array, const pl_extents *e, int d, pl_range range)
{
    int64_t outer = 1, inner = 1;

    for (int i = 0; i < d; i++)
        outer *= e->n[i];
    for (int i = d + 1; i < e->n_dims; i++)
        inner *= e->n[i];
    return (pl_piece){.array = array,
                      .offset = (range.begin - e->begin[d]) * inner,
                      .count = outer,
                      .stride = e->n[d] * inner,
                      .length = range.count * inner};
}

static pl_piece piece_of_all(const pl_program *p, int v, int array, pl_coords coords)
{
    return pl_piece_of(array, 0, pl_local_elements(p, v, coords));
}

/* Range of dim d that the group member at `position` holds of v. */
static pl_range member_range(const pl_program *p, const pl_op *op, int v, int d, pl_coords coords,
                             int position)
{
    const pl_coords there = pl_mesh_member(p->mesh, op->axes, coords, position);
    const pl_extents e = pl_local_extents(p, v, there);

    return (pl_range){.begin = e.begin[d], .count = e.n[d]};
}

/* Blocks of the arrays `whole`, cut along dim[i] as the members hold parts[i]; array numbers start
 * at first_array. */
static pl_blocks blocks_along(pl_arena *arena, const pl_program *p, const pl_op *op,
                              const int *whole, const int *parts, const int *dim, int first_array,
                              pl_coords coords)
{
    const int n_ranks = pl_mesh_extent(p->mesh, op->axes);
    pl_region *regions = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *regions);

    for (int r = 0; r < n_ranks; r++) {
        pl_piece *pieces = pl_arena_alloc(arena, (size_t)op->n_in * sizeof *pieces);

        for (int i = 0; i < op->n_in; i++) {
            const pl_extents e = pl_local_extents(p, whole[i], coords);

            pieces[i] = piece_along(first_array + i, &e, dim[i],
                                    member_range(p, op, parts[i], dim[i], coords, r));
        }
        regions[r] = (pl_region){.n_pieces = op->n_in, .pieces = pieces};
    }
    return (pl_blocks){.n_ranks = n_ranks, .of = regions};
}

static pl_region all_of(pl_arena *arena, const pl_program *p, const int *values, int n,
                        int first_array, pl_coords coords)
{
    pl_piece *pieces = pl_arena_alloc(arena, (size_t)(n > 0 ? n : 1) * sizeof *pieces);

    for (int i = 0; i < n; i++)
        pieces[i] = piece_of_all(p, values[i], first_array + i, coords);
    return (pl_region){.n_pieces = n, .pieces = pieces};
}

/* Whether the outputs share storage with the inputs: views of them, or the other way round. Bucket
 * joins only like with like. */
static bool in_place(const pl_program *p, const pl_op *op, pl_coords coords)
{
    int64_t offset;
    int n = 0;

    for (int i = 0; i < op->n_in; i++)
        n += pl_value_storage(p, op->in[i], coords, &offset) ==
             pl_value_storage(p, op->out[i], coords, &offset);
    PL_ASSERT(n == 0 || n == op->n_in);
    return n > 0;
}

/* The inputs of the op where each member of the group holds them: arrays first_array and on. */
static pl_blocks inputs_of_members(pl_arena *arena, const pl_program *p, const pl_op *op,
                                   int first_array, pl_coords coords)
{
    const int n_ranks = pl_mesh_extent(p->mesh, op->axes);
    pl_region *regions = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *regions);

    for (int r = 0; r < n_ranks; r++)
        regions[r] = all_of(arena, p, op->in, op->n_in, first_array,
                            pl_mesh_member(p->mesh, op->axes, coords, r));
    return (pl_blocks){.n_ranks = n_ranks, .of = regions};
}

/* AllToAll: the blocks for this rank where each member of the group holds them. */
static pl_blocks blocks_of_members(pl_arena *arena, const pl_program *p, const pl_op *op,
                                   pl_coords coords)
{
    const int n_ranks = pl_mesh_extent(p->mesh, op->axes);
    const int position = pl_mesh_position(p->mesh, op->axes, coords);
    pl_region *regions = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *regions);

    for (int r = 0; r < n_ranks; r++)
        regions[r] = pl_blocks_at(blocks_along(arena, p, op, op->in, op->out, op->to_dim, 0,
                                               pl_mesh_member(p->mesh, op->axes, coords, r)),
                                  position);
    return (pl_blocks){.n_ranks = n_ranks, .of = regions};
}

static pl_collective_call call_of(pl_arena *arena, const pl_program *p, const pl_op *op,
                                  pl_coords coords)
{
    pl_collective_call call = {.dtype = pl_op_dtype(p, op),
                               .reduction = op->is_max ? PL_MAX : PL_SUM,
                               .knows_peers = true};

    switch (op->kind) {
    case PL_KIND_ALL_GATHER:
        call.collective = PL_ALL_GATHER;
        call.blocks = blocks_along(arena, p, op, op->out, op->in, op->dim, 0, coords);
        if (!in_place(p, op, coords)) { /* else the shards lie where they belong */
            call.own = all_of(arena, p, op->in, op->n_in, op->n_out, coords);
            call.there = inputs_of_members(arena, p, op, op->n_out, coords);
        }
        break;
    case PL_KIND_REDUCE_SCATTER:
        call.collective = PL_REDUCE_SCATTER;
        call.blocks = blocks_along(arena, p, op, op->in, op->out, op->dim, 0, coords);
        if (!in_place(p, op, coords))
            call.own = all_of(arena, p, op->out, op->n_out, op->n_in, coords);
        break;
    case PL_KIND_ALL_REDUCE:
        call.collective = PL_ALL_REDUCE;
        call.blocks = pl_blocks_of_region(arena, all_of(arena, p, op->in, op->n_in, 0, coords),
                                          pl_mesh_extent(p->mesh, op->axes));
        break;
    case PL_KIND_ALL_TO_ALL:
        call.collective = PL_ALL_TO_ALL;
        call.from = blocks_along(arena, p, op, op->in, op->out, op->to_dim, 0, coords);
        call.to = blocks_along(arena, p, op, op->out, op->in, op->dim, op->n_in, coords);
        call.there = blocks_of_members(arena, p, op, coords);
        call.largest =
            pl_region_elements(/* blocks are balanced: the first of the first */
                               pl_blocks_at(
                                   blocks_along(arena, p, op, op->in, op->out, op->to_dim, 0,
                                                pl_mesh_member(p->mesh, op->axes, coords, 0)),
                                   0));
        break;
    case PL_KIND_SEND:
        call.collective = PL_PERMUTE;
        call.send = all_of(arena, p, op->in, op->n_in, 0, coords);
        call.to_rank = op->peer_stage;
        call.from_rank = -1;
        break;
    case PL_KIND_RECV:
        call.collective = PL_PERMUTE;
        call.recv = all_of(arena, p, op->out, op->n_out, 0, coords);
        call.peer_send = call.recv; /* the same values, whole, in the same order */
        call.from_rank = op->peer_stage;
        call.to_rank = -1;
        break;
    default:
        PL_PANIC("%s is not a communication", pl_kind_of(op->kind)->name);
    }
    return call;
}

pl_site pl_op_site(const pl_program *p, const pl_op *op, pl_coords coords, pl_arena *arena)
{
    const pl_axes group = pl_op_group(p, op);
    const pl_fabric *fabric = &p->fabric;
    const int n_ranks = pl_mesh_extent(p->mesh, group);
    int *host_of = pl_alloc((size_t)n_ranks * sizeof *host_of);
    pl_site site;

    for (int r = 0; r < n_ranks; r++) {
        const int64_t rank = pl_mesh_rank(p->mesh, pl_mesh_member(p->mesh, group, coords, r));

        if (fabric->host_of != NULL)
            host_of[r] = fabric->host_of[rank];
        else
            host_of[r] = fabric->ranks_per_host > 0 ? (int)(rank / fabric->ranks_per_host) : 0;
    }
    site = pl_site_on_hosts(arena, n_ranks, host_of, fabric->shared);
    site.n_axes = 0;
    for (int a = 0; a < p->mesh->n_axes; a++)
        if ((group >> a & 1) != 0 && p->mesh->axes[a].size > 1)
            site.extent[site.n_axes++] = p->mesh->axes[a].size;
    pl_free(host_of);
    return site;
}

pl_wires pl_op_wires(const pl_program *p, const pl_op *op)
{
    const pl_axes group = pl_op_group(p, op);
    pl_wires wires = {.n = 0};

    for (int a = p->mesh->n_axes - 1; a >= 0; a--)
        for (int i = 0; (group >> a & 1) != 0 && i < p->fabric.wires[a].n; i++)
            pl_wires_add(&wires, p->fabric.wires[a].dim[i]);
    return wires;
}

pl_schedule *pl_op_schedule(const pl_program *p, const pl_op *op, pl_coords coords,
                            const char **algorithm)
{
    pl_arena *arena = pl_arena_create();
    const pl_collective_call call = call_of(arena, p, op, coords);
    const pl_site site = pl_op_site(p, op, coords, arena);
    pl_schedule *s =
        pl_collective_schedule(&call, &p->fabric.chooser, &site,
                               pl_mesh_position(p->mesh, pl_op_group(p, op), coords), algorithm);

    pl_arena_destroy(arena);
    return s;
}

int64_t pl_op_sent_bytes(const pl_program *p, const pl_op *op, pl_coords coords)
{
    if (!pl_kind_is_communication(op->kind))
        return 0;
    pl_schedule *s = pl_op_schedule(p, op, coords, NULL);
    const int64_t bytes = pl_schedule_count(s, pl_op_dtype(p, op)).wire_bytes;

    pl_schedule_destroy(s);
    return bytes;
}

/* The most over the ranks of the op's group at `coords`. */
static int64_t group_scratch(const pl_program *p, const pl_op *op, pl_coords coords)
{
    const pl_axes group = pl_op_group(p, op);
    int64_t most = 0;

    for (int r = 0; r < pl_mesh_extent(p->mesh, group); r++) {
        pl_schedule *s = pl_op_schedule(p, op, pl_mesh_member(p->mesh, group, coords, r), NULL);
        const int64_t n = pl_schedule_scratch_elements(s);

        most = n > most ? n : most;
        pl_schedule_destroy(s);
    }
    return most;
}

static bool same_hosts(const pl_site *a, const pl_site *b)
{
    return memcmp(a->host, b->host, (size_t)a->n_ranks * sizeof *a->host) == 0;
}

/* Groups that lie differently on hosts may use different algorithms: one group of each kind is
 * looked at. */
int64_t pl_op_scratch_elements(const pl_program *p, const pl_op *op)
{
    enum { MAX_KINDS = 64 };
    const pl_axes group = pl_op_group(p, op);
    const int64_t n_ranks = p->fabric.ranks_per_host > 0 ? pl_mesh_size(p->mesh) : 1;
    pl_site kinds[MAX_KINDS];
    int n_kinds = 0;
    int64_t most = 0;

    if (pl_kind_is_move(op->kind))
        return 0; /* a permute needs none, and its ranks have different programs */
    if (p->fabric.wires != NULL)
        return 0;
    pl_arena *arena = pl_arena_create();
    for (int64_t rank = 0; rank < n_ranks; rank++) {
        const pl_coords coords = pl_mesh_coords(p->mesh, rank);
        bool known = pl_mesh_position(p->mesh, group, coords) != 0; /* once for each group */
        pl_site site;

        if (known)
            continue;
        site = pl_op_site(p, op, coords, arena);
        for (int k = 0; k < n_kinds && !known; k++)
            known = same_hosts(&site, &kinds[k]);
        if (known)
            continue;
        PL_ASSERT(n_kinds < MAX_KINDS);
        kinds[n_kinds++] = site;
        const int64_t n = group_scratch(p, op, coords);
        most = n > most ? n : most;
    }
    pl_arena_destroy(arena);
    return most;
}
