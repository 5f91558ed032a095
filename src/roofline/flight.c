#include "config.h"

#include "src/roofline/flight.h"

#include "src/base/panic.h"
#include "src/program/communicate.h"
#include "src/roofline/rounds.h"

#include <math.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

bool pl_is_collective_over_stages(const pl_program *p, const pl_op *op)
{
    return pl_kind_is_communication(op->kind) && !pl_kind_is_move(op->kind) &&
           (op->axes & pl_mesh_family(p->mesh, "pp")) != 0;
}

bool pl_is_alone(const pl_simulation *sim)
{
    return sim->n_stages < sim->replays[0].p->n_stages;
}

const pl_replay *pl_peer_of(const pl_simulation *sim, const pl_replay *r, const pl_op *op)
{
    pl_coords coords = r->coords;

    coords.at[pl_mesh_axis(r->p->mesh, "pp")] = op->peer_stage;
    return &sim->replays[sim->by_rank ? pl_mesh_rank(r->p->mesh, coords) : op->peer_stage];
}

/* The op of another stage that is the same collective: tags count alike on all ranks of a group. */
static int same_collective(const pl_program *p, const pl_op *as)
{
    for (int i = 0; i < p->n_ops; i++)
        if (pl_is_collective_over_stages(p, &p->ops[i]) && p->ops[i].axes == as->axes &&
            p->ops[i].tag == as->tag)
            return i;
    PL_PANIC("stage %d lacks a collective of the others", p->stage);
}

/* Whether another rank takes part in a collective of r. */
static bool takes_part(const pl_replay *r, const pl_op *op, const pl_replay *other)
{
    const pl_axes group = pl_op_group(r->p, op);

    for (int a = 0; a < r->p->mesh->n_axes; a++)
        if ((group >> a & 1) == 0 && r->coords.at[a] != other->coords.at[a])
            return false;
    return other != r;
}

int pl_op_there(const pl_simulation *sim, const pl_replay *r, int i, const pl_replay *other)
{
    const pl_op *op = &r->p->ops[i];

    if (!pl_kind_is_move(op->kind)) {
        if (!takes_part(r, op, other))
            return PL_NONE;
        return other->p == r->p ? i : same_collective(other->p, op);
    }
    if (other != pl_peer_of(sim, r, op))
        return PL_NONE;
    if (op->kind == PL_KIND_RECV)
        return r->send[i];
    for (int j = 0; j < other->p->n_ops; j++)
        if (other->p->ops[j].kind == PL_KIND_RECV && other->p->ops[j].peer_stage == r->p->stage &&
            other->send[j] == i)
            return j;
    PL_PANIC("nobody receives what stage %d sends", r->p->stage);
}

/* Nothing flies before all who take part are there. */
static void join(pl_flight *f, const pl_replay *r, int i)
{
    f->begin_s = larger(f->begin_s, r->started[i] ? r->begin_s[i] : INFINITY);
    f->end_s = larger(f->end_s, r->started[i] ? r->through_s[i] : INFINITY);
}

/* With no kernels beside it. */
static pl_flight flight_of(const pl_simulation *sim, const pl_replay *r, int i)
{
    const pl_op *op = &r->p->ops[i];
    pl_flight f = {0, 0};

    join(&f, r, i);
    if (pl_is_alone(sim))
        return f;
    if (op->kind == PL_KIND_RECV)
        join(&f, pl_peer_of(sim, r, op), r->send[i]);
    if (pl_kind_is_move(op->kind) || !(sim->by_rank || pl_is_collective_over_stages(r->p, op)))
        return f;
    for (int k = 0; k < sim->n_replays; k++) {
        const int there = pl_op_there(sim, r, i, &sim->replays[k]);

        if (there != PL_NONE)
            join(&f, &sim->replays[k], there);
    }
    return f;
}

/* Beside kernels a transfer takes late_s longer, evenly from its begin to its end; while its rank
 * waits it gets on as if there were none. */
static double stretch(const pl_replay *r, int i, pl_flight f)
{
    const double time_s = f.end_s - f.begin_s;

    return time_s > 0 && isfinite(time_s) ? 1 + r->price[i].late_s / time_s : 1;
}

pl_flight pl_flight_awaited(const pl_simulation *sim, const pl_replay *r, int i)
{
    if (r->is_stream[i])
        return (pl_flight){r->begin_s[i], pl_stream_end_s(r, i)};

    pl_flight f = flight_of(sim, r, i);
    const double slower = stretch(r, i, f), beside_kernels_s = r->now_s - f.begin_s - r->idle_s[i];

    if (slower > 1 && beside_kernels_s > 0)
        f.end_s += beside_kernels_s * (1 - 1 / slower);
    return f;
}

void pl_note_idle(const pl_simulation *sim, pl_replay *r, double end_s)
{
    for (int k = 0; k < r->n_in_flight; k++) {
        const int i = r->in_flight[k];

        if (r->price[i].late_s > 0 && !r->is_stream[i])
            r->idle_s[i] += larger(end_s - larger(flight_of(sim, r, i).begin_s, r->now_s), 0);
    }
}

static void add_flight(pl_traffic *t, const pl_replay *r, int i, pl_flight f, double now_s)
{
    const pl_kind kind = r->p->ops[i].kind;
    const bool flies = f.begin_s <= now_s && now_s < f.end_s;
    const double change_s = flies ? f.end_s : f.begin_s;
    const double bytes_per_s = flies ? r->price[i].core_bytes / (f.end_s - f.begin_s) : 0;

    t->handed += flies ? r->handed_bytes[i] / (f.end_s - f.begin_s) : 0;
    t->sent += kind == PL_KIND_RECV ? 0 : bytes_per_s;
    t->received += kind == PL_KIND_SEND ? 0 : bytes_per_s;
    t->next_s = change_s > now_s && change_s < t->next_s ? change_s : t->next_s;
}

/* If kernels run until its end. */
static pl_flight flight_beside_kernels(const pl_simulation *sim, const pl_replay *r, int i)
{
    pl_flight f = flight_of(sim, r, i);
    const double slower = stretch(r, i, f);

    if (slower > 1)
        f.end_s += (f.end_s - f.begin_s - r->idle_s[i]) * (slower - 1);
    return f;
}

/* What messages take of a core: all, and the part of it that is not the kernels' (polled_byte_s).
 */
typedef struct {
    double all, polled;
} share;

/* A byte's cost has been measured with all that it takes to send it; what was handed on when it was
 * started has been paid for then, in the call that started it, and nothing is left of that to poll.
 */
static share share_of(const pl_core_cost *core, const pl_traffic *t)
{
    const double both = fmin(t->sent, t->received);
    const double all = both * core->byte_s + (t->sent - both) * core->sent_byte_s +
                       (t->received - both) * core->received_byte_s;
    const double polled = core->byte_s > 0 ? all * core->polled_byte_s / core->byte_s : 0;
    const double paid = t->handed * core->start_byte_s;

    return (share){larger(all - paid, 0), larger(polled - paid, 0)};
}

/* Whether i takes of the core as its messages are on the link; else evenly while it flies. */
static bool takes_by_message(const pl_simulation *sim, const pl_replay *r, int i)
{
    return !sim->by_rank && r->goes_by_message[i];
}

/* Of its core, what messages of r take that fly at now_s, the last that it has waited for among
 * them. *next_s becomes the time at which that changes, if it is earlier. */
static share taken_by(const pl_simulation *sim, const pl_replay *r, double now_s, double *next_s)
{
    pl_traffic t = {.next_s = *next_s};

    for (int k = 0; k < r->n_in_flight; k++) {
        const int i = r->in_flight[k];

        if (r->price[i].core_bytes > 0 && !r->is_stream[i] && !takes_by_message(sim, r, i))
            add_flight(&t, r, i, flight_beside_kernels(sim, r, i), now_s);
    }
    if (now_s < r->awaited_until_s && !r->is_stream[r->awaited] &&
        !takes_by_message(sim, r, r->awaited))
        add_flight(&t, r, r->awaited,
                   (pl_flight){flight_of(sim, r, r->awaited).begin_s, r->awaited_until_s}, now_s);
    pl_streams_add(r, now_s, &t);
    if (!sim->by_rank)
        pl_rounds_add(r, now_s, &t);
    *next_s = t.next_s;
    return share_of(&r->core, &t);
}

/* What messages cost is known of ranks that all have some: where they share cores, it is the mean
 * over those of a core. */
static share taken_at(const pl_simulation *sim, const pl_replay *r, double now_s, double *next_s)
{
    share taken = {0, 0};

    *next_s = INFINITY;
    if (r->of_core == NULL)
        return taken_by(sim, r, now_s, next_s);
    for (int k = 0; k < sim->n_replays; k++) {
        const share one = taken_by(sim, &sim->replays[k], now_s, next_s);

        taken.all += r->of_core[k] * one.all;
        taken.polled += r->of_core[k] * one.polled;
    }
    return taken;
}

pl_work pl_work_beside(const pl_simulation *sim, const pl_replay *r, double now_s, double work_s)
{
    const double least_left = 0.1; /* messages that take all of a core wait for it in turn */
    double polled_s = 0;

    for (;;) {
        double next_s;
        const share taken = taken_at(sim, r, now_s, &next_s);
        const double left = larger(1 - taken.all, least_left);
        const double polled = taken.all > 0 ? (1 - left) * taken.polled / taken.all : 0;

        if (now_s + work_s / left <= next_s)
            return (pl_work){now_s + work_s / left, polled_s + polled * work_s / left};
        work_s -= (next_s - now_s) * left;
        polled_s += (next_s - now_s) * polled;
        now_s = next_s;
    }
}
