#include "config.h"

#include "src/collbench/case.h"

#include "collectives/region.h"
#include "src/base/bf16.h"

#include <string.h>

enum {
    PERIOD = 1021, /* inputs repeat after so many elements: a prime, so blocks don't line up */
    LARGEST = 256, /* integer up to which bf16 holds all */
};

bool pl_bench_deals(pl_collective c)
{
    return c == PL_ALL_GATHER || c == PL_REDUCE_SCATTER || c == PL_ALL_TO_ALL;
}

int64_t pl_bench_count(pl_collective c, int64_t bytes, pl_dtype dtype, int n_ranks)
{
    const int n = pl_bench_deals(c) ? n_ranks : 1;
    const int64_t each = bytes / (int64_t)pl_dtype_bytes(dtype) / n;

    return (each > 0 ? each : 1) * n;
}

bool pl_bench_reduces(pl_collective c)
{
    return c == PL_REDUCE_SCATTER || c == PL_ALL_REDUCE;
}

bool pl_bench_in_place(pl_collective c)
{
    return c != PL_ALL_TO_ALL && c != PL_PERMUTE;
}

int64_t pl_bench_elements(const pl_bench_case *c, int a)
{
    const bool is_block = (c->collective == PL_ALL_GATHER && a == PL_BENCH_IN) ||
                          (c->collective == PL_REDUCE_SCATTER && a == PL_BENCH_OUT);

    return is_block ? c->count / c->n_ranks : c->count;
}

int pl_bench_place(pl_collective c)
{
    return c == PL_REDUCE_SCATTER ? PL_BENCH_IN : PL_BENCH_OUT;
}

double pl_bench_bus_factor(pl_collective c, int n_ranks)
{
    const double others = (double)(n_ranks - 1) / n_ranks;

    if (c == PL_PERMUTE || c == PL_BROADCAST)
        return 1;
    return c == PL_ALL_REDUCE ? 2 * others : others;
}

static pl_region whole(pl_arena *arena, const pl_bench_case *c, int a)
{
    pl_piece *piece = pl_arena_alloc(arena, sizeof *piece);

    *piece = pl_piece_of(a, 0, pl_bench_elements(c, a));
    return (pl_region){.n_pieces = 1, .pieces = piece};
}

/* The same region on each of n ranks. */
static pl_blocks everywhere(pl_arena *arena, pl_region region, int n)
{
    pl_region *of = pl_arena_alloc(arena, (size_t)n * sizeof *of);

    for (int p = 0; p < n; p++)
        of[p] = region;
    return (pl_blocks){.n_ranks = n, .of = of};
}

static void set_gather(pl_arena *arena, const pl_bench_case *c, pl_region in, pl_region out,
                       pl_collective_call *call)
{
    call->blocks = pl_blocks_of_region(arena, out, c->n_ranks);
    if (c->in_place)
        return;
    call->own = in; /* of Broadcast, only the root's is read */
    call->there = everywhere(arena, in, c->n_ranks);
}

static void set_reduction(pl_arena *arena, const pl_bench_case *c, pl_region in, pl_region out,
                          pl_collective_call *call)
{
    const bool scatters = c->collective == PL_REDUCE_SCATTER;

    call->blocks = pl_blocks_of_region(arena, scatters ? in : out, c->n_ranks);
    if (!c->in_place && scatters)
        call->own = out;
    if (!c->in_place && !scatters)
        call->from = pl_blocks_of_region(arena, in, c->n_ranks);
}

pl_collective_call pl_bench_call(pl_arena *arena, const pl_bench_case *c)
{
    const int n = c->n_ranks;
    const pl_region in = whole(arena, c, PL_BENCH_IN), out = whole(arena, c, PL_BENCH_OUT);
    pl_collective_call call = {.collective = c->collective,
                               .dtype = c->dtype,
                               .reduction = c->reduction,
                               .knows_peers = true};

    switch (c->collective) {
    case PL_ALL_GATHER:
    case PL_BROADCAST:
        set_gather(arena, c, in, out, &call);
        break;
    case PL_REDUCE_SCATTER:
    case PL_ALL_REDUCE:
        set_reduction(arena, c, in, out, &call);
        break;
    case PL_ALL_TO_ALL:
        call.from = pl_blocks_of_region(arena, in, n);
        call.to = pl_blocks_of_region(arena, out, n);
        call.there = everywhere(arena, pl_blocks_at(call.from, c->rank), n);
        call.largest = c->count / n;
        break;
    default: /* PL_PERMUTE */
        call.send = call.peer_send = in;
        call.recv = out;
        call.to_rank = (c->rank + 1) % n;
        call.from_rank = (c->rank + n - 1) % n;
        break;
    }
    return call;
}

/* What rank `from` puts into element `i` for rank `to` (0 unless each gets something else). */
static double term(const pl_bench_case *c, int from, int to, int i)
{
    const bool sums = pl_bench_reduces(c->collective) && c->reduction == PL_SUM;
    uint32_t x =
        (uint32_t)i * 2654435761u ^ (uint32_t)from * 2246822519u ^ (uint32_t)to * 668265263u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    if (!sums)
        return x % LARGEST;
    if (c->n_ranks <= LARGEST)
        return x % (uint32_t)(LARGEST / c->n_ranks + 1);
    return (from + i) % c->n_ranks < LARGEST; /* LARGEST ones among the ranks */
}

/* One period of the terms of a rank. */
static void terms(const pl_bench_case *c, int from, int to, double *period)
{
    for (int i = 0; i < PERIOD; i++)
        period[i] = term(c, from, to, i);
}

/* One period of the sums (or largest) over all ranks. */
static void results(const pl_bench_case *c, double *period)
{
    terms(c, 0, 0, period);
    for (int r = 1; r < c->n_ranks; r++)
        for (int i = 0; i < PERIOD; i++) {
            const double x = term(c, r, 0, i);
            if (c->reduction == PL_SUM)
                period[i] += x;
            else if (x > period[i])
                period[i] = x;
        }
}

static void store(pl_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == PL_F32)
        ((float *)x)[i] = (float)value;
    else if (dtype == PL_I32)
        ((int32_t *)x)[i] = (int32_t)value;
    else
        ((pl_bf16 *)x)[i] = pl_bf16_of_f32((float)value);
}

static double load(pl_dtype dtype, const void *x, int64_t i)
{
    if (dtype == PL_F32)
        return ((const float *)x)[i];
    if (dtype == PL_I32)
        return ((const int32_t *)x)[i];
    return pl_bf16_to_f32(((const pl_bf16 *)x)[i]);
}

/* x[begin ... begin + n] from the period, of which the first element takes number `phase`. */
static void fill(pl_dtype dtype, void *x, int64_t begin, int64_t n, const double *period,
                 int64_t phase)
{
    int at = (int)(phase % PERIOD);

    for (int64_t i = 0; i < n; i++) {
        store(dtype, x, begin + i, period[at]);
        at = at + 1 < PERIOD ? at + 1 : 0;
    }
}

static int64_t wrong(pl_dtype dtype, const void *x, int64_t begin, int64_t n, const double *period,
                     int64_t phase)
{
    int at = (int)(phase % PERIOD);
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < n; i++) {
        n_wrong += load(dtype, x, begin + i) != period[at];
        at = at + 1 < PERIOD ? at + 1 : 0;
    }
    return n_wrong;
}

void pl_bench_fill(const pl_bench_case *c, void *const *arrays)
{
    const int64_t block = c->count / c->n_ranks;
    const int a = c->in_place ? pl_bench_place(c->collective) : PL_BENCH_IN;
    double period[PERIOD];

    for (int i = 0; i < PL_BENCH_ARRAYS; i++) /* NaN, NaN, -1 */
        memset(arrays[i], 0xff, (size_t)pl_bench_elements(c, i) * pl_dtype_bytes(c->dtype));
    if (c->collective == PL_BROADCAST && c->rank != 0)
        return;
    if (c->collective == PL_ALL_TO_ALL) {
        for (int to = 0; to < c->n_ranks; to++) {
            terms(c, c->rank, to, period);
            fill(c->dtype, arrays[a], to * block, block, period, 0);
        }
        return;
    }
    terms(c, c->rank, 0, period);
    if (c->collective == PL_ALL_GATHER)
        fill(c->dtype, arrays[a], c->in_place ? c->rank * block : 0, block, period, 0);
    else
        fill(c->dtype, arrays[a], 0, c->count, period, 0);
}

void pl_bench_renew(const pl_bench_case *c, void *const *arrays)
{
    const bool is_block = c->collective == PL_ALL_GATHER;
    const int64_t n = is_block ? c->count / c->n_ranks : c->count;
    const int64_t begin = is_block && c->in_place ? c->rank * n : 0;
    void *x = arrays[c->in_place ? pl_bench_place(c->collective) : PL_BENCH_IN];

    if (c->collective == PL_BROADCAST && c->rank != 0)
        return;
    switch (c->dtype) {
    case PL_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)x)[begin + i] = 1;
        break;
    case PL_I32:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)x)[begin + i] = 1;
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            ((pl_bf16 *)x)[begin + i] = pl_bf16_of_f32(1);
    }
}

int64_t pl_bench_count_wrong(const pl_bench_case *c, const void *const *arrays)
{
    const int64_t block = c->count / c->n_ranks;
    const int a = c->in_place ? pl_bench_place(c->collective) : PL_BENCH_OUT;
    double period[PERIOD];
    int64_t n_wrong = 0;

    switch (c->collective) {
    case PL_ALL_GATHER:
    case PL_ALL_TO_ALL:
        for (int from = 0; from < c->n_ranks; from++) {
            terms(c, from, c->collective == PL_ALL_TO_ALL ? c->rank : 0, period);
            n_wrong += wrong(c->dtype, arrays[a], from * block, block, period, 0);
        }
        return n_wrong;
    case PL_REDUCE_SCATTER:
        results(c, period);
        return wrong(c->dtype, arrays[a], c->in_place ? c->rank * block : 0, block, period,
                     c->rank * block);
    case PL_ALL_REDUCE:
        results(c, period);
        return wrong(c->dtype, arrays[a], 0, c->count, period, 0);
    case PL_BROADCAST:
        terms(c, 0, 0, period);
        return wrong(c->dtype, arrays[a], 0, c->count, period, 0);
    default: /* PL_PERMUTE */
        terms(c, (c->rank + c->n_ranks - 1) % c->n_ranks, 0, period);
        return wrong(c->dtype, arrays[a], 0, c->count, period, 0);
    }
}
