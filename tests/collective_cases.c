#include "tests/collective_cases.h"

#include "src/base/block.h"
#include "src/base/memory.h"

#include <stdio.h>
#include <string.h>

enum { APART = LAYOUT_ARRAYS }; /* the first array of the second set */

int64_t layout_room(int64_t n)
{
    return 2 * n + 16;
}

pl_region layout_whole(pl_arena *arena, layout kind, int64_t n, int first_array, int64_t shift)
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
    for (int i = 0; i < n_pieces; i++) {
        pieces[i].array += first_array;
        pieces[i].offset += shift;
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

/* Sizes of the blocks of n elements. */
static int64_t *block_sizes(pl_arena *arena, layout kind, int64_t n, int n_ranks)
{
    int64_t *sizes = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *sizes);
    int64_t total = 0, given = 0, weight = 0;

    for (int b = 0; b < n_ranks; b++)
        total += (b + 3) % 4;
    for (int b = 0; b < n_ranks; b++) {
        weight += (b + 3) % 4;
        sizes[b] =
            kind == LAYOUT_UNEVEN ? n * weight / total - given : pl_block_count(n, n_ranks, b);
        given += sizes[b];
    }
    return sizes;
}

pl_blocks layout_blocks(pl_arena *arena, layout kind, int64_t n, int n_ranks)
{
    return layout_cut(arena, layout_whole(arena, kind, n, 0, 0),
                      block_sizes(arena, kind, n, n_ranks), n_ranks);
}

/* How what lies apart is laid out: otherwise than the rest, and later by `shift` elements. */
static pl_region apart_whole(pl_arena *arena, layout kind, int64_t n, int64_t shift)
{
    return layout_whole(arena, (layout)((kind + 1) % LAYOUT_UNEVEN), n, APART, shift);
}

bool case_has_placing(pl_collective collective, placing where)
{
    switch (collective) {
    case PL_ALL_GATHER:
    case PL_BROADCAST:
        return true;
    case PL_ALL_TO_ALL:
    case PL_PERMUTE:
        return where != CASE_APART;
    default:
        return where != CASE_KNOWN;
    }
}

/* Permute: shifts round a ring by 0, 1, ..., then these. */
enum { SHIFT_LINE, PAIRS_ONE_WAY, PAIRS_BOTH_WAYS, FIRST_TO_LAST, N_MORE_PERMUTES };

int case_variants(pl_collective collective, int n_ranks)
{
    if (collective == PL_PERMUTE)
        return n_ranks + N_MORE_PERMUTES;
    return collective == PL_BROADCAST ? n_ranks : 1;
}

/* To whom `rank` sends; -1: nobody. */
static int receiver_of(int variant, int n_ranks, int rank)
{
    int to = -1;

    if (variant < n_ranks)
        return (rank + variant) % n_ranks;
    switch (variant - n_ranks) {
    case SHIFT_LINE:
        to = rank + 1;
        break;
    case PAIRS_ONE_WAY:
        to = rank % 2 == 0 ? rank + 1 : -1;
        break;
    case PAIRS_BOTH_WAYS:
        to = rank ^ 1;
        break;
    case FIRST_TO_LAST:
        to = rank == 0 && n_ranks > 1 ? n_ranks - 1 : -1;
        break;
    }
    return to < n_ranks ? to : -1;
}

static int sender_to(int variant, int n_ranks, int rank)
{
    int from = n_ranks - 1;

    while (from >= 0 && receiver_of(variant, n_ranks, from) != rank)
        from--;
    return from;
}

static void add_input(case_call *c, pl_region region, int64_t first_id, int term)
{
    c->inputs[c->n_inputs++] = (case_part){region, first_id, term};
}

static void add_output(case_call *c, pl_region region, int64_t first_id, int term)
{
    c->outputs[c->n_outputs++] = (case_part){region, first_id, term};
}

/* An input that must be left alone. */
static void add_constant(case_call *c, pl_region region, int64_t first_id, int term)
{
    add_input(c, region, first_id, term);
    add_output(c, region, first_id, term);
}

/* A rank's `own`, where it has one: block b, or all of Broadcast's data. */
static pl_region own_of(pl_arena *arena, const case_spec *spec, int64_t n, int rank)
{
    return apart_whole(arena, spec->layout, n, rank % 3);
}

static void call_all_gather(pl_arena *arena, const case_spec *spec, int rank, case_call *c)
{
    const pl_blocks x = c->call.blocks;
    const int P = spec->n_ranks;
    int64_t id = 0;

    if (spec->placing == CASE_KNOWN) {
        pl_region *there = pl_arena_alloc(arena, (size_t)P * sizeof *there);

        for (int p = 0; p < P; p++)
            there[p] = own_of(arena, spec, pl_region_elements(x.of[p]), p);
        c->call.there = (pl_blocks){P, there};
    }
    for (int b = 0; b < P; b++) {
        const int64_t n = pl_region_elements(x.of[b]);

        if (b == rank && spec->placing == CASE_IN_PLACE) {
            add_input(c, x.of[b], id, rank);
        } else if (b == rank) {
            c->call.own = own_of(arena, spec, n, rank);
            add_constant(c, c->call.own, id, rank);
        }
        add_output(c, x.of[b], id, b);
        id += n;
    }
}

static void call_reduce(pl_arena *arena, const case_spec *spec, int rank, case_call *c)
{
    const pl_blocks x = c->call.blocks;
    const int P = spec->n_ranks;
    const bool scatters = spec->collective == PL_REDUCE_SCATTER;
    const bool apart = spec->placing != CASE_IN_PLACE;
    int64_t id = 0;

    if (apart && scatters)
        c->call.own = own_of(arena, spec, pl_region_elements(x.of[rank]), rank);
    if (apart && !scatters)
        c->call.from = layout_cut(arena, apart_whole(arena, spec->layout, spec->n, 0),
                                  block_sizes(arena, spec->layout, spec->n, P), P);
    for (int b = 0; b < P; b++) {
        if (apart && !scatters)
            add_constant(c, c->call.from.of[b], id, rank);
        else
            add_input(c, x.of[b], id, rank);
        if (!scatters)
            add_output(c, x.of[b], id, CASE_ALL);
        else if (b == rank)
            add_output(c, apart ? c->call.own : x.of[b], id, CASE_ALL);
        id += pl_region_elements(x.of[b]);
    }
}

/* Elements that rank r has for rank p in an AllToAll; evenly, n for all together. */
static int64_t exchange_size(const case_spec *spec, int r, int p)
{
    const int P = spec->n_ranks;

    if (spec->layout == LAYOUT_UNEVEN)
        return spec->n == 0 ? 0 : (r + 2 * p + spec->n) % 4;
    return pl_block_count(spec->n, P, (r + p) % P);
}

/* Elements of an AllToAll that a rank sends or receives, at most. */
static int64_t exchange_most(const case_spec *spec)
{
    return spec->layout == LAYOUT_UNEVEN ? 3 * spec->n_ranks : spec->n;
}

static pl_blocks exchange_from(pl_arena *arena, const case_spec *spec, int rank)
{
    const int P = spec->n_ranks;
    int64_t *sizes = pl_arena_alloc(arena, (size_t)P * sizeof *sizes);

    for (int p = 0; p < P; p++)
        sizes[p] = exchange_size(spec, rank, p);
    return layout_cut(arena, layout_whole(arena, spec->layout, exchange_most(spec), 0, rank % 3),
                      sizes, P);
}

static void call_all_to_all(pl_arena *arena, const case_spec *spec, int rank, case_call *c)
{
    const int P = spec->n_ranks;
    const int64_t most = exchange_most(spec) + 1; /* above any block */
    int64_t *sizes = pl_arena_alloc(arena, (size_t)P * sizeof *sizes);
    pl_region *there = pl_arena_alloc(arena, (size_t)P * sizeof *there);

    for (int p = 0; p < P; p++)
        sizes[p] = exchange_size(spec, p, rank);
    c->call.from = exchange_from(arena, spec, rank);
    c->call.to = layout_cut(arena, apart_whole(arena, spec->layout, most - 1, rank % 2), sizes, P);
    for (int p = 0; p < P; p++) {
        add_constant(c, c->call.from.of[p], p * most, rank);
        add_output(c, c->call.to.of[p], rank * most, p);
    }
    if (spec->placing != CASE_KNOWN)
        return;
    for (int p = 0; p < P; p++) {
        there[p] = exchange_from(arena, spec, p).of[rank];
        for (int q = 0; q < P; q++)
            if (exchange_size(spec, p, q) > c->call.largest)
                c->call.largest = exchange_size(spec, p, q);
    }
    c->call.there = (pl_blocks){P, there};
}

static pl_region sent_by(pl_arena *arena, const case_spec *spec, int rank)
{
    return layout_whole(arena, spec->layout, spec->n, 0, rank % 3);
}

static void call_permute(pl_arena *arena, const case_spec *spec, int rank, case_call *c)
{
    const int to = receiver_of(spec->variant, spec->n_ranks, rank);
    const int from = sender_to(spec->variant, spec->n_ranks, rank);

    c->call.to_rank = to;
    c->call.from_rank = from;
    if (to >= 0) {
        c->call.send = sent_by(arena, spec, rank);
        add_constant(c, c->call.send, 0, rank);
    }
    if (from >= 0) {
        c->call.recv = apart_whole(arena, spec->layout, spec->n, 0);
        add_output(c, c->call.recv, 0, from);
        if (spec->placing == CASE_KNOWN)
            c->call.peer_send = sent_by(arena, spec, from);
    }
}

static void call_broadcast(pl_arena *arena, const case_spec *spec, int rank, case_call *c)
{
    const int root = spec->variant;
    int64_t id = 0;

    c->call.root = root;
    if (rank == root && spec->placing != CASE_IN_PLACE) {
        c->call.own = own_of(arena, spec, spec->n, rank);
        add_constant(c, c->call.own, 0, root);
    }
    if (spec->placing == CASE_KNOWN) {
        pl_region *there = pl_arena_alloc(arena, (size_t)spec->n_ranks * sizeof *there);

        there[root] = own_of(arena, spec, spec->n, root); /* the others have none */
        c->call.there = (pl_blocks){spec->n_ranks, there};
    }
    for (int b = 0; b < spec->n_ranks; b++) {
        const pl_region block = c->call.blocks.of[b];

        if (rank == root && spec->placing == CASE_IN_PLACE)
            add_input(c, block, id, root);
        add_output(c, block, id, root);
        id += pl_region_elements(block);
    }
}

int64_t case_room(const case_spec *spec)
{
    const int64_t most = exchange_most(spec);

    return layout_room(spec->collective == PL_ALL_TO_ALL && most > spec->n ? most : spec->n);
}

case_call case_call_of(pl_arena *arena, const case_spec *spec, int rank)
{
    const size_t most = (size_t)(2 * spec->n_ranks + 1);
    case_call c = {.call = {.collective = spec->collective,
                            .dtype = spec->dtype,
                            .reduction = spec->reduction,
                            .knows_peers = spec->placing == CASE_KNOWN},
                   .inputs = pl_arena_alloc(arena, most * sizeof *c.inputs),
                   .outputs = pl_arena_alloc(arena, most * sizeof *c.outputs)};

    if (spec->collective != PL_ALL_TO_ALL && spec->collective != PL_PERMUTE)
        c.call.blocks = layout_blocks(arena, spec->layout, spec->n, spec->n_ranks);
    switch (spec->collective) {
    case PL_ALL_GATHER:
        call_all_gather(arena, spec, rank, &c);
        break;
    case PL_REDUCE_SCATTER:
    case PL_ALL_REDUCE:
        call_reduce(arena, spec, rank, &c);
        break;
    case PL_ALL_TO_ALL:
        call_all_to_all(arena, spec, rank, &c);
        break;
    case PL_PERMUTE:
        call_permute(arena, spec, rank, &c);
        break;
    default:
        call_broadcast(arena, spec, rank, &c);
    }
    return c;
}

static pl_region scale_region(pl_arena *arena, pl_region region, int64_t grain)
{
    const pl_region scaled = pl_region_copy(arena, region);
    pl_piece *pieces = (pl_piece *)scaled.pieces;

    for (int i = 0; i < scaled.n_pieces; i++) {
        pieces[i].offset *= grain;
        pieces[i].stride *= grain;
        pieces[i].length *= grain;
    }
    return scaled;
}

static pl_blocks scale_blocks(pl_arena *arena, pl_blocks x, int64_t grain)
{
    pl_region *of = pl_arena_alloc(arena, (size_t)x.n_ranks * sizeof *of);

    for (int b = 0; b < x.n_ranks; b++)
        of[b] = scale_region(arena, x.of[b], grain);
    return (pl_blocks){x.n_ranks, of};
}

pl_collective_call case_scaled(pl_arena *arena, const pl_collective_call *call, int64_t grain)
{
    pl_collective_call c = *call;

    c.blocks = scale_blocks(arena, c.blocks, grain);
    c.own = scale_region(arena, c.own, grain);
    c.from = scale_blocks(arena, c.from, grain);
    c.to = scale_blocks(arena, c.to, grain);
    c.send = scale_region(arena, c.send, grain);
    c.recv = scale_region(arena, c.recv, grain);
    c.there = scale_blocks(arena, c.there, grain);
    c.peer_send = scale_region(arena, c.peer_send, grain);
    c.largest *= grain;
    return c;
}

const char *case_name(const case_spec *spec)
{
    static char name[160];

    snprintf(name, sizeof name,
             "%s of %lld elements (%s), layout %d, placing %d, variant %d on %d ranks",
             pl_collective_name(spec->collective), (long long)spec->n,
             spec->reduction == PL_SUM ? "sum" : "max", (int)spec->layout, (int)spec->placing,
             spec->variant, spec->n_ranks);
    return name;
}

/* Sites of several hosts. */
static void add_hosts(pl_arena *arena, int P, int n_hosts, bool in_turn, bool shared, case_site *to)
{
    int host_of[64];

    for (int r = 0; r < P; r++)
        host_of[r] = in_turn ? r % n_hosts : pl_block_owner(P, n_hosts, r);
    snprintf(to->name, sizeof to->name, "%d hosts%s%s", n_hosts, in_turn ? " in turn" : "",
             shared ? "" : ", messages");
    to->site = pl_site_on_hosts(arena, P, host_of, shared);
}

static void add_axes(const case_site *from, int n_axes, const int *extent, case_site *to)
{
    int n;

    *to = *from;
    n = (int)strlen(to->name);
    to->site.n_axes = n_axes;
    for (int a = 0; a < n_axes; a++) {
        to->site.extent[a] = extent[a];
        n += snprintf(to->name + n, sizeof to->name - (size_t)n, "%s%d", a == 0 ? ", " : "x",
                      extent[a]);
    }
}

int case_sites(pl_arena *arena, int P, case_site sites[CASE_MAX_SITES])
{
    static const struct {
        int n_ranks, n_axes, extent[3];
    } grids[] = {{4, 2, {2, 2}},    {6, 2, {2, 3}},  {6, 2, {3, 2}},     {8, 2, {4, 2}},
                 {8, 3, {2, 2, 2}}, {9, 2, {3, 3}},  {12, 3, {2, 3, 2}}, {12, 2, {4, 3}},
                 {15, 2, {3, 5}},   {16, 2, {4, 4}}, {64, 3, {4, 4, 4}}};
    int n = 0, n_plain;

    sites[n] = (case_site){.name = "one host", .site = pl_site_one_host(arena, P, true)};
    n++;
    sites[n] = (case_site){.name = "one host, messages", .site = pl_site_one_host(arena, P, false)};
    n++;
    for (int h = 2; h <= P && h <= 8; h++) {
        if (P % h != 0 && (h > 3 || P > 7))
            continue;
        add_hosts(arena, P, h, false, true, &sites[n++]);
        if (P > h)
            add_hosts(arena, P, h, true, true, &sites[n++]);
        if (h == 2)
            add_hosts(arena, P, h, false, false, &sites[n++]);
    }
    n_plain = n;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        for (int k = 0; k < n_plain && grids[i].n_ranks == P; k++)
            if (k < 2 || sites[k].site.n_hosts == grids[i].extent[0])
                add_axes(&sites[k], grids[i].n_axes, grids[i].extent, &sites[n++]);
    return n;
}
