/* Idea:   a dim whose split is a prefix of the wanted one is "open": it can take the next axis that
 *         it wants. Until nothing is left to do, take the first of these that applies:
 *           1. slice an open dim over an axis that replicates          (free, shrinks the array)
 *           2. reduce-scatter an open dim over a pending sum           (shrinks)
 *           3. move an axis to an open dim from the end of another     (keeps the size)
 *           4. all-reduce what is pending and not wanted               (keeps the size)
 *           5. gather the minor axes of a dim that is not open         (grows: hence last)
 * Bound:  1 to 3 lengthen the part of a split that is as wanted, 4 and 5 take away what is not, and
 *         an axis passes at most once through each of 4, 5 and 1 to 3: three steps per axis.
 * Not:    the cheapest plan of all; an axis that is gathered to be sliced again later might have
 *         been parked on another dim. */
#include "config.h"

#include "src/mesh/reshard.h"

#include "src/base/panic.h"

#include <string.h>

typedef struct {
    int n_dims;
    const pl_sharding *to;
    pl_sharding now;
    pl_reshard_step *steps;
    int n_steps;
} plan;

static pl_axes bit(int axis)
{
    return (pl_axes)1 << axis;
}

static void add_step(plan *p, pl_reshard_kind kind, pl_axes axes, int dim, int to_dim)
{
    PL_ASSERT(p->n_steps < PL_MAX_RESHARD_STEPS);
    p->steps[p->n_steps++] = (pl_reshard_step){
        .kind = kind, .axes = axes, .dim = dim, .to_dim = to_dim, .after = p->now};
}

/* Whether dim d's split is a prefix of the one wanted. */
static bool is_open(const plan *p, int d)
{
    const pl_split *now = &p->now.split[d], *to = &p->to->split[d];

    return now->n <= to->n && memcmp(now->axis, to->axis, (size_t)now->n) == 0;
}

/* How many of the next axes that open dim d wants are in `set`; with in_order, only as many as
 * rise in the mesh, so that row-major position in their group is position in the split. */
static int wanted_from(const plan *p, int d, pl_axes set, bool in_order)
{
    const pl_split *now = &p->now.split[d], *to = &p->to->split[d];
    int n = 0;

    while (now->n + n < to->n && (set & bit(to->axis[now->n + n])) &&
           (n == 0 || !in_order || to->axis[now->n + n] > to->axis[now->n + n - 1]))
        n++;
    return n;
}

/* Give dim d the next n axes that it wants; returns them. */
static pl_axes take_next(plan *p, int d, int n)
{
    pl_split *now = &p->now.split[d];
    pl_axes taken = 0;

    for (int i = 0; i < n; i++) {
        now->axis[now->n] = p->to->split[d].axis[now->n];
        taken |= bit(now->axis[now->n++]);
    }
    return taken;
}

static bool slice(plan *p)
{
    const pl_axes replicating = ~(pl_sharding_axes(&p->now, p->n_dims) | p->now.sum | p->now.max);

    for (int d = 0; d < p->n_dims; d++) {
        const int n = is_open(p, d) ? wanted_from(p, d, replicating, false) : 0;

        if (n > 0) {
            const pl_axes axes = take_next(p, d, n);
            add_step(p, PL_RESHARD_SLICE, axes, d, d);
            return true;
        }
    }
    return false;
}

static bool reduce_scatter(plan *p)
{
    for (int d = 0; d < p->n_dims; d++) {
        const int n = is_open(p, d) ? wanted_from(p, d, p->now.sum, true) : 0;

        if (n > 0) {
            const pl_axes axes = take_next(p, d, n);
            p->now.sum &= ~axes;
            add_step(p, PL_RESHARD_REDUCE_SCATTER, axes, d, d);
            return true;
        }
    }
    return false;
}

/* Move the longest end of dim `from` that open dim `to` wants next, axes rising in the mesh. */
static bool move_axes(plan *p, int from, int to)
{
    pl_split *source = &p->now.split[from];
    const int n_wanted = wanted_from(p, to, pl_split_axes(source), true);

    for (int n = n_wanted; n > 0; n--)
        if (memcmp(source->axis + source->n - n, p->to->split[to].axis + p->now.split[to].n,
                   (size_t)n) == 0) {
            source->n -= n;
            const pl_axes axes = take_next(p, to, n);
            add_step(p, PL_RESHARD_ALL_TO_ALL, axes, from, to);
            return true;
        }
    return false;
}

static bool all_to_all(plan *p)
{
    for (int to = 0; to < p->n_dims; to++)
        for (int from = 0; from < p->n_dims; from++)
            if (from != to && is_open(p, to) && move_axes(p, from, to))
                return true;
    return false;
}

static bool all_reduce(plan *p)
{
    const pl_axes sum = p->now.sum & ~p->to->sum, max = p->now.max & ~p->to->max;

    if (sum != 0) {
        p->now.sum &= ~sum;
        add_step(p, PL_RESHARD_ALL_REDUCE, sum, 0, 0);
    } else if (max != 0) {
        p->now.max &= ~max;
        add_step(p, PL_RESHARD_ALL_REDUCE, max, 0, 0);
        p->steps[p->n_steps - 1].is_max = true;
    }
    return sum != 0 || max != 0;
}

/* Gather the minor axes of dim d until the next would be wanted here or could still move to
 * another dim, or would not be minor in mesh order. */
static void gather_dim(plan *p, int d, pl_axes wanted)
{
    pl_split *now = &p->now.split[d];
    pl_axes axes = 0;
    int last;

    do {
        last = now->axis[--now->n];
        axes |= bit(last);
    } while (now->n > 0 && !is_open(p, d) && now->axis[now->n - 1] < last &&
             !(wanted & bit(now->axis[now->n - 1])));
    add_step(p, PL_RESHARD_ALL_GATHER, axes, d, d);
}

static bool all_gather(plan *p)
{
    const pl_axes wanted = pl_sharding_axes(p->to, p->n_dims);

    /* What nobody wants goes first: that may open a dim for an axis that would else be gathered
     * only to be sliced again. */
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < p->n_dims; d++) {
            const pl_split *now = &p->now.split[d];
            const pl_axes elsewhere = wanted & ~pl_split_axes(&p->to->split[d]);

            if (!is_open(p, d) && (pass == 1 || !(wanted & bit(now->axis[now->n - 1])))) {
                gather_dim(p, d, elsewhere);
                return true;
            }
        }
    return false;
}

static pl_status refuse_pending(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                                const pl_sharding *from, const pl_sharding *to)
{
    char was[256], wanted[256];
    const char *why = "an array that is whole is not a partial sum or maximum";

    pl_sharding_print(mesh, name, shape, from, was, sizeof was);
    pl_sharding_print(mesh, name, shape, to, wanted, sizeof wanted);
    if ((to->sum & from->max) || (to->max & from->sum))
        why = "a pending sum is not a pending maximum";
    return pl_refuse(PL_BAD_INPUT, "cannot reshard %s to %s: %s", was, wanted, why);
}

pl_status pl_reshard_plan(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                          const pl_sharding *from, const pl_sharding *to, pl_reshard_step *steps,
                          int *n_steps)
{
    plan p = {.n_dims = shape->n_dims, .to = to, .now = *from, .steps = steps};
    pl_status status = pl_sharding_check(mesh, name, shape, from);

    if (status == PL_OK)
        status = pl_sharding_check(mesh, name, shape, to);
    if (status != PL_OK)
        return status;
    if ((to->sum & ~from->sum) || (to->max & ~from->max))
        return refuse_pending(mesh, name, shape, from, to);

    while (slice(&p) || reduce_scatter(&p) || all_to_all(&p) || all_reduce(&p) || all_gather(&p))
        ;
    PL_ASSERT(pl_sharding_equal(&p.now, to, shape->n_dims));
    *n_steps = p.n_steps;
    return PL_OK;
}
