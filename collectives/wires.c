#include "config.h"

#include "collectives/wires.h"

#include "collectives/region.h"
#include "src/base/panic.h"

#include <math.h>
#include <string.h>

enum { MAX_CHUNKS = 64 };

/* What one level (all axes of a torus, or one switch) costs. */
typedef struct {
    double latency_s, transfer_s;
    int first, n; /* dims */
} level;

static int log2_up(int64_t n)
{
    int log = 0;

    while ((INT64_C(1) << log) < n)
        log++;
    return log;
}

/* ---- the axes of a torus, all at once: collectives/grid.c round by round ---- */

static int hops_of(const pl_wire_dim *d)
{
    return d->is_ring || d->extent == 2 ? d->extent / 2 : d->extent - 1;
}

/* The axis that part j uses in round r, how many axes it has behind it, and the hop; parts go
 * cyclically outermost to innermost as the grid's axes are numbered. */
static int axis_at(const pl_wire_dim *dims, int n, int j, int r, int *n_behind, int *hop)
{
    for (int k = 0; k < n; k++) {
        const int axis = n - 1 - (j + k) % n, hops = hops_of(&dims[axis]);

        if (r < hops) {
            *n_behind = k;
            *hop = r + 1;
            return axis;
        }
        r -= hops;
    }
    PL_PANIC("a part of a torus collective has no round %d", r);
}

/* What part j passes on in a hop of its n_behind-th axis, each way. */
static double passed_bytes(const pl_wire_dim *dims, int n, int j, int n_behind, int hop,
                           double part_bytes)
{
    const pl_wire_dim *d = &dims[n - 1 - (j + n_behind) % n];
    double held = part_bytes;

    for (int k = n_behind; k < n; k++)
        held /= dims[n - 1 - (j + k) % n].extent;
    return d->is_ring && d->extent > 2 && 2 * hop == d->extent ? held / 2 : held;
}

static level torus_gather(const pl_wire_dim *dims, int n, double bytes)
{
    level l = {.n = n};
    int n_rounds = 0;

    for (int a = 0; a < n; a++)
        n_rounds += hops_of(&dims[a]);
    for (int r = 0; r < n_rounds; r++) {
        double load[PL_MAX_WIRE_DIMS] = {0}, latency_s = 0, transfer_s = 0;

        for (int j = 0; j < n; j++) {
            int n_behind, hop;
            const int a = axis_at(dims, n, j, r, &n_behind, &hop);

            load[a] += passed_bytes(dims, n, j, n_behind, hop, bytes / n);
            latency_s = fmax(latency_s, dims[a].latency_s);
        }
        for (int a = 0; a < n; a++)
            transfer_s = fmax(transfer_s, load[a] / dims[a].one_way_bytes_per_s);
        l.latency_s += latency_s;
        l.transfer_s += transfer_s;
    }
    return l;
}

static level switch_gather(const pl_wire_dim *d, double bytes)
{
    return (level){.latency_s = log2_up(d->extent) * d->latency_s,
                   .transfer_s = bytes * (d->extent - 1) / d->extent / d->one_way_bytes_per_s,
                   .n = 1};
}

/* The levels of an AllGather, innermost first; `bytes` is what a chip ends with. */
static int gather_levels(const pl_wires *w, double bytes, level levels[PL_MAX_WIRE_DIMS])
{
    int n = 0;

    for (int i = 0; i < w->n; i += levels[n++].n) {
        int end = i + 1;

        while (w->dim[i].kind == PL_LEVEL_TORUS && end < w->n && w->dim[end].kind == PL_LEVEL_TORUS)
            end++;
        levels[n] = w->dim[i].kind == PL_LEVEL_TORUS ? torus_gather(&w->dim[i], end - i, bytes)
                                                     : switch_gather(&w->dim[i], bytes);
        levels[n].first = i;
        for (; end > i; end--)
            bytes /= w->dim[end - 1].extent;
    }
    return n;
}

static double in_chunks_s(const level *levels, int n, int n_chunks)
{
    double sum_s = 0, slowest_s = 0;

    for (int i = 0; i < n; i++) {
        const double time_s = levels[i].latency_s + levels[i].transfer_s / n_chunks;

        sum_s += time_s;
        slowest_s = fmax(slowest_s, time_s);
    }
    return sum_s + (n_chunks - 1) * slowest_s;
}

static pl_wires_price gather_price(const pl_wires *w, double bytes)
{
    const double P = (double)pl_wires_chips(w);
    level levels[PL_MAX_WIRE_DIMS];
    const int n = gather_levels(w, bytes, levels);
    pl_wires_price price = {.wire_bytes = bytes * (P - 1) / P, .n_chunks = 1};

    price.time_s = in_chunks_s(levels, n, 1);
    for (int c = 2; c <= MAX_CHUNKS && n > 1; c *= 2)
        if (in_chunks_s(levels, n, c) < price.time_s) {
            price.time_s = in_chunks_s(levels, n, c);
            price.n_chunks = c;
        }
    for (int i = 0; i < n; i++) {
        price.latency_s += levels[i].latency_s;
        for (int d = 0; d < levels[i].n; d++)
            price.dim_s[levels[i].first + d] =
                price.n_chunks * levels[i].latency_s + levels[i].transfer_s;
        if (levels[i].transfer_s > price.transfer_s) {
            price.transfer_s = levels[i].transfer_s;
            price.busiest = levels[i].first;
        }
    }
    return price;
}

static pl_wires_price reduce_price(const pl_wires *w, double bytes)
{
    pl_wires_price both = gather_price(w, bytes), doubling = {.n_chunks = 1};

    both.time_s *= 2;
    both.latency_s *= 2;
    both.transfer_s *= 2;
    both.wire_bytes *= 2;
    for (int i = 0; i < w->n; i++)
        both.dim_s[i] *= 2;
    for (int i = 0; i < w->n; i++) {
        const int rounds = log2_up(w->dim[i].extent);
        const double transfer_s = rounds * bytes / w->dim[i].one_way_bytes_per_s;

        if (w->dim[i].kind == PL_LEVEL_TORUS)
            return both;
        doubling.latency_s += rounds * w->dim[i].latency_s;
        doubling.wire_bytes += rounds * bytes;
        doubling.dim_s[i] = rounds * w->dim[i].latency_s + transfer_s;
        doubling.time_s += doubling.dim_s[i];
        if (transfer_s > doubling.transfer_s) {
            doubling.transfer_s = transfer_s;
            doubling.busiest = i;
        }
    }
    return doubling.time_s < both.time_s ? doubling : both;
}

/* Hops that the messages of one chip to all others along an axis make over one link, in units of
 * one message: on a ring the mean over its links, on a line the link in the middle. */
static double crossings(const pl_wire_dim *d)
{
    const int X = d->extent;
    int64_t hops = 0;

    if (!d->is_ring)
        return (double)(X / 2) * (X - X / 2);
    for (int i = 1; i < X; i++)
        hops += i < X - i ? i : X - i;
    return (double)hops / 2;
}

static pl_wires_price all_to_all_price(const pl_wires *w, double bytes)
{
    const double P = (double)pl_wires_chips(w);
    pl_wires_price price = {.wire_bytes = bytes * (P - 1) / P, .n_chunks = 1};
    double inside = 1, torus_latency_s = 0;

    for (int i = 0; i < w->n; i++) {
        const pl_wire_dim *d = &w->dim[i];
        double carried, latency_s;

        if (d->kind == PL_LEVEL_TORUS) {
            double reached = P; /* what stays within the torus, seen from one chip */

            for (int k = 0; k < w->n; k++)
                reached /= w->dim[k].kind == PL_LEVEL_TORUS ? 1 : w->dim[k].extent;
            carried = bytes * reached / P / d->extent * crossings(d);
            torus_latency_s += (d->is_ring ? d->extent / 2 : d->extent - 1) * d->latency_s;
            latency_s = torus_latency_s;
        } else {
            carried = bytes * inside * (d->extent - 1) / P;
            latency_s = inside * (d->extent - 1) * d->latency_s;
        }
        inside *= d->extent;
        price.latency_s = fmax(price.latency_s, latency_s);
        price.dim_s[i] = latency_s + carried / d->one_way_bytes_per_s;
        if (carried / d->one_way_bytes_per_s > price.transfer_s) {
            price.transfer_s = carried / d->one_way_bytes_per_s;
            price.busiest = i;
        }
    }
    price.time_s = price.latency_s + price.transfer_s;
    return price;
}

pl_wires_price pl_wires_move(const pl_wires *wires, int64_t from, int64_t to, double bytes)
{
    pl_wires_price price = {.wire_bytes = bytes, .n_chunks = 1};

    for (int i = 0; i < wires->n; i++) {
        const pl_wire_dim *d = &wires->dim[i];

        if (from % d->extent != to % d->extent) {
            price.latency_s = d->latency_s;
            price.transfer_s = bytes / d->one_way_bytes_per_s;
            price.busiest = i;
        }
        from /= d->extent;
        to /= d->extent;
    }
    price.time_s = price.latency_s + price.transfer_s;
    price.dim_s[price.busiest] = price.time_s;
    return price;
}

pl_wires_price pl_wires_collective(const pl_wires *wires, pl_collective c, double bytes)
{
    if (wires->n == 0)
        return (pl_wires_price){.n_chunks = 1};
    switch (c) {
    case PL_ALL_GATHER:
    case PL_REDUCE_SCATTER:
        return gather_price(wires, bytes);
    case PL_ALL_REDUCE:
        return reduce_price(wires, bytes);
    case PL_ALL_TO_ALL:
        return all_to_all_price(wires, bytes);
    case PL_PERMUTE:
        return pl_wires_move(wires, 0, pl_wires_chips(wires) - 1, bytes);
    default:
        PL_PANIC("no closed form for %s", pl_collective_name(c));
    }
}

/* ---- a schedule ---- */

/* What one rank puts on its links in a round: of every dim, up (1) and down (0); of a switch, out
 * (0) and in (1). */
typedef struct {
    double bytes[PL_MAX_WIRE_DIMS][2];
    int messages[PL_MAX_WIRE_DIMS][2]; /* switch */
    double hops_s;                     /* torus: the longest way */
} links;

static void load_message(links *l, const pl_wires *w, int from, int to, bool sends, double bytes)
{
    double hops_s = 0;
    int port = -1;

    for (int i = 0, a = from, b = to; i < w->n; i++) {
        if (w->dim[i].kind == PL_LEVEL_SWITCH && a % w->dim[i].extent != b % w->dim[i].extent)
            port = i;
        a /= w->dim[i].extent;
        b /= w->dim[i].extent;
    }
    if (port >= 0) {
        l->bytes[port][!sends] += bytes;
        l->messages[port][!sends]++;
        return;
    }
    if (!sends)
        return; /* a torus: counted where it sets out */
    for (int i = 0; i < w->n; i++) {
        const pl_wire_dim *d = &w->dim[i];
        int up = to % d->extent - from % d->extent;

        if (d->is_ring)
            up = (up + d->extent) % d->extent;
        const bool down = up < 0 || (d->is_ring && 2 * up > d->extent);
        const int hops = up < 0 ? -up : down ? d->extent - up : up;
        if (d->is_ring && 2 * hops == d->extent && hops > 1) { /* half of them go either way */
            l->bytes[i][0] += bytes * hops / 2;
            l->bytes[i][1] += bytes * hops / 2;
        } else {
            l->bytes[i][!down] += bytes * hops;
        }
        hops_s += hops * d->latency_s;
        from /= d->extent;
        to /= d->extent;
    }
    l->hops_s = fmax(l->hops_s, hops_s);
}

static double round_s(const links *l, const pl_wires *w)
{
    double latency_s = l->hops_s, transfer_s = 0;

    for (int i = 0; i < w->n; i++)
        for (int way = 0; way < 2; way++) {
            latency_s = fmax(latency_s, l->messages[i][way] * w->dim[i].latency_s);
            transfer_s = fmax(transfer_s, l->bytes[i][way] / w->dim[i].one_way_bytes_per_s);
        }
    return latency_s + transfer_s;
}

double pl_wires_schedule_s(const pl_wires *wires, const pl_schedule *s, pl_dtype dtype, int rank)
{
    double time_s = 0;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        links l;
        int n_steps;
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        memset(&l, 0, sizeof l);
        for (int i = 0; i < n_steps; i++) {
            const double bytes =
                (double)pl_region_elements(steps[i].region) * (double)pl_dtype_bytes(dtype);

            if (steps[i].kind == PL_STEP_SEND)
                load_message(&l, wires, rank, steps[i].peer, true, bytes);
            else if (steps[i].kind == PL_STEP_RECV || steps[i].kind == PL_STEP_RECV_REDUCE)
                load_message(&l, wires, steps[i].peer, rank, false, bytes);
        }
        time_s += round_s(&l, wires);
    }
    return time_s;
}
