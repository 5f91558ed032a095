#include "config.h"

#include "src/roofline/streams.h"

#include "src/program/communicate.h"
#include "src/roofline/flight.h"

#include <math.h>
#include <string.h>

/* One, at one of its ends. */
struct pl_stream {
    int op; /* that it is part of, at this end */
    bool comes;
    double begin_s, end_s, bytes;
};

void pl_streams_init(const pl_simulation *sim, pl_replay *r)
{
    const size_t n = (size_t)r->p->n_ops;

    r->is_stream = pl_arena_alloc(sim->arena, n * sizeof *r->is_stream);
    r->sent_s = pl_arena_alloc(sim->arena, n * sizeof *r->sent_s);
    r->come_s = pl_arena_alloc(sim->arena, n * sizeof *r->come_s);
    r->n_come = pl_arena_alloc(sim->arena, n * sizeof *r->n_come);
}

/* Whether what r sends in i, if anything, leaves at once. */
static bool leaves_at_once(const pl_replay *r, int i)
{
    const pl_op_price *price = &r->price[i];

    return price->core_bytes > 0 &&
           (r->p->ops[i].kind == PL_KIND_RECV || price->first_bytes == price->core_bytes);
}

static bool consists_of_streams(const pl_simulation *sim, const pl_replay *r, int i)
{
    bool does = leaves_at_once(r, i);

    for (int k = 0; k < sim->n_replays && does; k++) {
        const int there = pl_op_there(sim, r, i, &sim->replays[k]);

        does = there == PL_NONE || leaves_at_once(&sim->replays[k], there);
    }
    return does;
}

void pl_streams_find(pl_simulation *sim)
{
    if (!sim->by_rank)
        return;
    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *r = &sim->replays[k];

        for (int i = 0; i < r->p->n_ops; i++)
            if (pl_kind_is_communication(r->p->ops[i].kind))
                r->is_stream[i] = consists_of_streams(sim, r, i);
    }
}

/* How many send to r in i. */
static int n_senders(const pl_replay *r, int i)
{
    const pl_op *op = &r->p->ops[i];

    if (op->kind == PL_KIND_SEND)
        return 0;
    return op->kind == PL_KIND_RECV ? 1 : pl_mesh_extent(r->p->mesh, pl_op_group(r->p, op)) - 1;
}

static double link_bytes_per_s(const pl_replay *r, int i)
{
    return r->price[i].core_bytes / r->price[i].time_s;
}

static double room_bytes(const pl_replay *r, int i)
{
    const double queued_s = fmax(r->link_free_s[0] - r->now_s, 0);

    return fmax(r->core.buffered_bytes - queued_s * link_bytes_per_s(r, i), 0);
}

static double part_at(const pl_stream *s, double now_s)
{
    return fmin(fmax((now_s - s->begin_s) / (s->end_s - s->begin_s), 0), 1);
}

/* Until when r has looked whether something has come: it does so while anything that it has started
 * is under way, and when it starts something. What is no stream counts as under way until r has
 * waited for it. */
static double looked_until_s(const pl_replay *r)
{
    double until_s = fmax(r->started_s, r->awaited_until_s);

    for (int k = 0; k < r->n_in_flight; k++) {
        const int i = r->in_flight[k];

        until_s = fmax(until_s, r->is_stream[i] ? pl_stream_end_s(r, i) : INFINITY);
    }
    return fmin(until_s, r->now_s);
}

/* Bytes that r copies when it starts i: of i what was put aside when it came, once; of all that has
 * come since r looked, out of the system's buffers and then to where it belongs or is put aside. */
static double copied_bytes(const pl_replay *r, int i)
{
    const double looked_s = looked_until_s(r);
    double bytes = 0;

    for (int k = 0; k < r->n_streams; k++) {
        const pl_stream *s = &r->streams[k];
        const double aside = part_at(s, looked_s), since = part_at(s, r->now_s) - aside;

        if (s->comes && !r->started[s->op])
            bytes += s->bytes * (2 * since + (s->op == i ? aside : 0));
    }
    return bytes;
}

double pl_stream_handed_bytes(const pl_simulation *sim, const pl_replay *r, int i)
{
    const double first_bytes = r->price[i].first_bytes;

    return sim->by_rank && first_bytes > 0 ? fmin(first_bytes, room_bytes(r, i)) : 0;
}

double pl_stream_start_s(const pl_simulation *sim, const pl_replay *r, int i)
{
    if (!sim->by_rank)
        return 0;
    return r->handed_bytes[i] * r->core.start_byte_s +
           2 * copied_bytes(r, i) / pl_curve_at(&sim->machine->memory_bytes_per_s, INFINITY);
}

/* Those that are over are dropped, but for what has come and not been started yet. */
static void drop_old(pl_replay *r)
{
    int kept = 0;

    for (int k = 0; k < r->n_streams; k++) {
        const pl_stream *s = &r->streams[k];

        if (s->end_s > r->now_s || (s->comes && !r->started[s->op]))
            r->streams[kept++] = *s;
    }
    r->n_streams = kept;
}

static void push(const pl_simulation *sim, pl_replay *r, pl_stream stream)
{
    if (r->n_streams == r->max_streams)
        drop_old(r);
    if (r->n_streams == r->max_streams) {
        const int max = 2 * r->max_streams + 16;
        pl_stream *grown = pl_arena_alloc(sim->arena, (size_t)max * sizeof *grown);

        if (r->n_streams > 0)
            memcpy(grown, r->streams, (size_t)r->n_streams * sizeof *grown);
        r->streams = grown;
        r->max_streams = max;
    }
    r->streams[r->n_streams++] = stream;
}

void pl_stream_begin(pl_simulation *sim, pl_replay *r, int i)
{
    const double begin_s = r->begin_s[i], end_s = begin_s + r->price[i].time_s,
                 bytes = r->price[i].core_bytes;

    r->sent_s[i] = end_s;
    push(sim, r, (pl_stream){i, false, begin_s, end_s, bytes});
    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *to = &sim->replays[k];
        const int there = pl_op_there(sim, r, i, to);

        if (there == PL_NONE)
            continue;
        to->come_s[there] = fmax(to->come_s[there], end_s);
        to->n_come[there]++;
        push(sim, to,
             (pl_stream){there, true, begin_s, end_s, bytes / fmax(n_senders(to, there), 1)});
    }
}

double pl_stream_end_s(const pl_replay *r, int i)
{
    double end_s = 0;

    if (r->n_come[i] < n_senders(r, i))
        return INFINITY;
    if (r->p->ops[i].kind != PL_KIND_RECV)
        end_s = r->sent_s[i] - r->core.buffered_bytes / link_bytes_per_s(r, i);
    return fmax(end_s, r->come_s[i]);
}

void pl_streams_add(const pl_replay *r, double now_s, pl_traffic *traffic)
{
    for (int k = 0; k < r->n_streams; k++) {
        const pl_stream *s = &r->streams[k];
        const bool flies = s->begin_s <= now_s && now_s < s->end_s;
        const double change_s = flies ? s->end_s : s->begin_s;

        if (flies) {
            *(s->comes ? &traffic->received : &traffic->sent) += s->bytes / (s->end_s - s->begin_s);
            traffic->handed += s->comes ? 0 : r->handed_bytes[s->op] / (s->end_s - s->begin_s);
        }
        if (change_s > now_s)
            traffic->next_s = fmin(traffic->next_s, change_s);
    }
}
