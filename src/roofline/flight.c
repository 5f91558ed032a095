#include "config.h"

#include "src/roofline/flight.h"

#include "src/base/panic.h"
#include "src/program/communicate.h"

#include <math.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

bool pl_is_collective_over_stages(const pl_program *p, const pl_op *op)
{
    return pl_kind_is_communication(op->kind) && op->kind != PL_KIND_SEND &&
           op->kind != PL_KIND_RECV && (op->axes & pl_mesh_family(p->mesh, "pp")) != 0;
}

bool pl_is_alone(const pl_simulation *sim)
{
    return sim->n_stages < sim->stages[0].p->n_stages;
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

/* Nothing flies before all who take part are there. */
static void join(pl_flight *f, const pl_replay *r, int i)
{
    const double begin_s = r->started[i] ? r->begin_s[i] : INFINITY;

    f->begin_s = larger(f->begin_s, begin_s);
    f->end_s = larger(f->end_s, begin_s + r->price[i].time_s);
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
        join(&f, &sim->stages[op->peer_stage], r->send[i]);
    for (int s = 0; s < sim->n_stages && pl_is_collective_over_stages(r->p, op); s++)
        if (&sim->stages[s] != r)
            join(&f, &sim->stages[s], same_collective(sim->stages[s].p, op));
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

        if (r->price[i].late_s > 0)
            r->idle_s[i] += larger(end_s - larger(flight_of(sim, r, i).begin_s, r->now_s), 0);
    }
}

/* What is taken of a core by messages that go out and by those that come in, and when that changes
 * next. */
typedef struct {
    double out, in, next_s;
} load;

static double core_s(const pl_replay *r, int i)
{
    return r->price[i].core_bytes * r->core.byte_s;
}

static void add_flight(load *l, const pl_replay *r, int i, pl_flight f, double now_s)
{
    const pl_kind kind = r->p->ops[i].kind;
    const bool flies = f.begin_s <= now_s && now_s < f.end_s;
    const double change_s = flies ? f.end_s : f.begin_s;
    const double part = flies ? core_s(r, i) / (f.end_s - f.begin_s) : 0;

    l->out += kind == PL_KIND_RECV ? 0 : part;
    l->in += kind == PL_KIND_SEND ? 0 : part;
    l->next_s = change_s > now_s && change_s < l->next_s ? change_s : l->next_s;
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

/* Of its core, what messages of a rank of stage r take that fly at now_s, the last that it has
 * waited for among them: what go out and what come in at once take as much as the more of them.
 * *next_s becomes the time at which that changes, if it is earlier. */
static double taken_by(const pl_simulation *sim, const pl_replay *r, double now_s, double *next_s)
{
    load l = {0, 0, *next_s};

    for (int k = 0; k < r->n_in_flight; k++)
        if (core_s(r, r->in_flight[k]) > 0)
            add_flight(&l, r, r->in_flight[k], flight_beside_kernels(sim, r, r->in_flight[k]),
                       now_s);
    if (now_s < r->awaited_until_s)
        add_flight(&l, r, r->awaited,
                   (pl_flight){flight_of(sim, r, r->awaited).begin_s, r->awaited_until_s}, now_s);
    *next_s = l.next_s;
    return larger(l.out, l.in);
}

/* What messages cost is known of ranks that all have some: where they share cores, it is the mean
 * over those of a core. */
static double taken_at(const pl_simulation *sim, const pl_replay *r, double now_s, double *next_s)
{
    double taken = 0;

    *next_s = INFINITY;
    if (r->of_core == NULL)
        return taken_by(sim, r, now_s, next_s);
    for (int s = 0; s < sim->n_stages; s++)
        taken += r->of_core[s] * taken_by(sim, &sim->stages[s], now_s, next_s);
    return taken;
}

double pl_end_of_work_s(const pl_simulation *sim, const pl_replay *r, double now_s, double work_s)
{
    const double least_left = 0.1; /* messages that take all of a core wait for it in turn */

    for (;;) {
        double next_s;
        const double left = larger(1 - taken_at(sim, r, now_s, &next_s), least_left);

        if (now_s + work_s / left <= next_s)
            return now_s + work_s / left;
        work_s -= (next_s - now_s) * left;
        now_s = next_s;
    }
}
