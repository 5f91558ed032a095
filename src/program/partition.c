#include "config.h"

#include "src/program/partition.h"

#include "src/base/panic.h"
#include "src/mesh/reshard.h"
#include "src/program/kinds.h"

#include <string.h>

/* What an operand or result is resharded to is found again, so that equal gathers are shared. */
typedef struct {
    int value;
    pl_sharding wanted;
    pl_phase phase;
    int layer;
    int result;
} done_reshard;

typedef struct {
    const pl_program *logical;
    pl_program *out;
    int n_done;
    int64_t done_room;
    done_reshard *done;
} partitioner;

/* Where an axis stands in one op. */
typedef struct {
    bool terms; /* rule 1: outputs are pending sums */
    char dim;   /* else the dim it splits, 0 for none */
} axis_use;

static const pl_value *value_of(const partitioner *pt, int v)
{
    return &pt->out->values[v];
}

/* Name of the dim of v that `axis` splits, 0 for none. */
static char split_dim(const pl_value *v, int axis)
{
    for (int d = 0; d < v->shape.n_dims; d++)
        if (pl_split_axes(&v->sharding.split[d]) & (1u << axis))
            return v->shape.name[d];
    return 0;
}

static bool has_dim(const pl_value *v, char name)
{
    return pl_shape_dim(&v->shape, name) >= 0;
}

static bool any_output_has(const partitioner *pt, const pl_op *op, char name)
{
    for (int o = 0; o < op->n_out; o++)
        if (has_dim(value_of(pt, op->out[o]), name))
            return true;
    return false;
}

/* Inputs of one term that are pending sums over `axis`. */
static int pending_inputs(const partitioner *pt, const pl_op *op, int first, int n, int axis)
{
    int n_pending = 0;

    for (int i = first; i < first + n; i++)
        n_pending += (value_of(pt, op->in[i])->sharding.sum >> axis) & 1;
    return n_pending;
}

/* Rule 1 for one term, inputs first..first+n: does it give terms of a sum over `axis`? */
static bool term_is_partial(const partitioner *pt, const pl_op *op, int first, int n, int axis)
{
    const pl_kind_info *kind = pl_kind_of(op->kind);
    const int n_pending = pending_inputs(pt, op, first, n, axis);
    char contracted = 0;

    if (n_pending > 0)
        return kind->linear && n_pending == 1;
    for (int i = first; i < first + n; i++) {
        const char dim = split_dim(value_of(pt, op->in[i]), axis);

        if (dim != 0 && contracted != 0 && contracted != dim)
            return false;
        if (dim != 0)
            contracted = dim;
    }
    if (contracted == 0 || strchr(kind->whole, contracted) != NULL ||
        any_output_has(pt, op, contracted))
        return false;
    for (int i = first; i < first + n; i++) {
        const pl_value *v = value_of(pt, op->in[i]);

        if (has_dim(v, contracted) && split_dim(v, axis) != contracted)
            return false;
    }
    return true;
}

/* Inputs to a term of op. */
static int term_size(const pl_op *op)
{
    const int term = pl_kind_of(op->kind)->term;

    PL_ASSERT(term == 0 || op->n_in % term == 0); /* nothing is fused yet */
    return term > 0 ? term : op->n_in;
}

static axis_use use_of_axis(const partitioner *pt, const pl_op *op, int axis)
{
    const pl_kind_info *kind = pl_kind_of(op->kind);
    const int term = term_size(op);
    axis_use use = {.terms = op->n_in > 0};

    for (int i = 0; i < op->n_in && use.terms; i += term)
        use.terms = term_is_partial(pt, op, i, term, axis);
    if (use.terms)
        return use;
    for (int o = 0; o < op->n_out; o++) {
        const char dim = split_dim(value_of(pt, op->out[o]), axis);

        if (dim != 0 && strchr(kind->whole, dim) == NULL) {
            use.dim = dim;
            break;
        }
    }
    return use;
}

/* Axes that split one dim stand in one order everywhere: inner families of the mesh are major, the
 * factors of a family in mesh order. So W[D_fsdp] refines to D_{fsdp,dp}, and V is V_{tp,fsdp,dp}.
 */
static int axis_rank(const pl_mesh *mesh, int axis)
{
    int first = axis;

    while (first > 0 && strcmp(mesh->axes[first - 1].family, mesh->axes[axis].family) == 0)
        first--;
    return (PL_MAX_AXES - first) * PL_MAX_AXES + axis;
}

static void split_add(const pl_mesh *mesh, pl_split *split, int axis)
{
    int at = split->n++;

    while (at > 0 && axis_rank(mesh, split->axis[at - 1]) > axis_rank(mesh, axis)) {
        split->axis[at] = split->axis[at - 1];
        at--;
    }
    split->axis[at] = (uint8_t)axis;
}

/* The dim of operand v that an axis splits when it splits the op's dim `dim`: v's own, or the
 * linked one where v declares it split. */
static int dim_under_use(const pl_kind_info *kind, const pl_value *v, const pl_value *declared,
                         int axis, char dim)
{
    const int d = pl_shape_dim(&v->shape, dim);

    if (d >= 0 || kind->linked == NULL || dim != kind->linked[0])
        return d;
    return split_dim(declared, axis) == kind->linked[1] ? pl_shape_dim(&v->shape, kind->linked[1])
                                                        : -1;
}

/* The sharding that input i must have. */
static pl_sharding needed_input(const partitioner *pt, const pl_op *op, int i, const axis_use *use)
{
    const pl_mesh *mesh = pt->out->mesh;
    const pl_value *v = value_of(pt, op->in[i]);
    const int n = term_size(op);
    pl_sharding s = {0};

    for (int a = 0; a < mesh->n_axes; a++) {
        if (use[a].terms) {
            /* Beside a pending sum the other operands of its term must be whole. */
            const bool whole = pending_inputs(pt, op, i - i % n, n, a) > 0;
            const char dim = whole ? 0 : split_dim(v, a);

            s.sum |= v->sharding.sum & (1u << a);
            if (dim != 0)
                split_add(mesh, &s.split[pl_shape_dim(&v->shape, dim)], a);
        } else if (use[a].dim != 0) {
            const int d = dim_under_use(pl_kind_of(op->kind), v, v, a, use[a].dim);

            if (d >= 0)
                split_add(mesh, &s.split[d], a);
        }
    }
    return s;
}

/* The sharding that output o has when it has been computed. */
static pl_sharding computed_output(const partitioner *pt, const pl_op *op, int o,
                                   const axis_use *use)
{
    const pl_mesh *mesh = pt->out->mesh;
    const pl_value *v = value_of(pt, op->out[o]);
    pl_sharding s = {0};

    /* Sums that the value was declared with from the start (over stages) are promised by whoever
     * computes its terms. */
    if (v->defers_sums)
        s.sum = v->sharding.sum;
    for (int a = 0; a < mesh->n_axes; a++) {
        const pl_axes bit = 1u << a;

        if (use[a].terms) {
            if (op->kind == PL_XENT_MAX)
                s.max |= bit;
            else
                s.sum |= bit;
        } else if (use[a].dim != 0) {
            const int d = dim_under_use(pl_kind_of(op->kind), v, v, a, use[a].dim);

            if (d >= 0)
                split_add(mesh, &s.split[d], a);
            else
                s.sum |= bit;
        }
    }
    return s;
}

/* Class of a temporary copy of v: what is gathered or on its way to a sum of weights and gradients
 * is a communication buffer. */
static pl_class temporary_class(const pl_value *v)
{
    return v->class == PL_WEIGHT || v->class == PL_GRADIENT || v->class == PL_MOMENT ||
                   v->class == PL_MASTER
               ? PL_COMM_BUFFER
               : v->class;
}

static int new_temporary(partitioner *pt, const pl_op *op, int of, const pl_sharding *sharding)
{
    const int t = pl_value_clone(pt->out, of);
    pl_value *v = &pt->out->values[t];

    v->class = temporary_class(v);
    v->microbatch = op->microbatch;
    v->sharding = *sharding;
    v->persists = false;
    v->is_input = false;
    v->alias_of = PL_NONE;
    v->alias_is_block = false;
    return t;
}

/* Emit one step of a plan: `from` becomes `to` (values). */
static void emit_step(partitioner *pt, const pl_op *like, const pl_reshard_step *step, int from,
                      int to)
{
    static const pl_kind kinds[] = {
        [PL_RESHARD_ALL_GATHER] = PL_KIND_ALL_GATHER,
        [PL_RESHARD_REDUCE_SCATTER] = PL_KIND_REDUCE_SCATTER,
        [PL_RESHARD_ALL_REDUCE] = PL_KIND_ALL_REDUCE,
        [PL_RESHARD_ALL_TO_ALL] = PL_KIND_ALL_TO_ALL,
        [PL_RESHARD_SLICE] = PL_SLICE,
    };
    pl_program *p = pt->out;
    pl_value *target = &p->values[to];
    pl_op op = {.kind = kinds[step->kind],
                .n_in = 1,
                .in = &from,
                .n_out = 1,
                .out = &to,
                .phase = like->phase,
                .layer = like->layer,
                .stage = like->stage,
                .microbatch = like->microbatch,
                .origin = like->origin,
                .axes = step->axes,
                .is_max = step->is_max,
                .number = {step->dim},
                .scratch = PL_NONE};
    int dim = step->dim, to_dim = step->to_dim;

    op.dim = &dim;
    op.to_dim = &to_dim;
    /* Reductions work in place; a block of the outermost dim is a view. (A ReduceScatter of another
     * dim ends with a copy of its block, which is part of its schedule.) */
    const bool is_view = step->kind == PL_RESHARD_ALL_REDUCE ||
                         (step->dim == 0 && (step->kind == PL_RESHARD_REDUCE_SCATTER ||
                                             step->kind == PL_RESHARD_SLICE));
    if (is_view) {
        target->alias_of = from;
        target->alias_is_block = step->kind != PL_RESHARD_ALL_REDUCE;
    }
    pl_op_append(p, &op);
}

static int plan(const partitioner *pt, int v, const pl_sharding *from, const pl_sharding *to,
                pl_reshard_step *steps)
{
    const pl_value *value = value_of(pt, v);
    int n = 0;

    if (pl_reshard_plan(pt->out->mesh, value->name, &value->shape, from, to, steps, &n) != PL_OK)
        PL_PANIC("partition: %s", pl_status_message());
    return n;
}

/* Whether what was resharded before serves op too: a weight within a phase of a layer; an input,
 * which every stage of a pipeline holds, within a layer, since it is not sent on. */
static bool serves(const pl_value *value, const done_reshard *d, const pl_op *op)
{
    switch (value->class) {
    case PL_WEIGHT:
        return d->phase == op->phase && d->layer == op->layer;
    case PL_TOKEN:
        return d->layer == op->layer;
    default:
        return true;
    }
}

static int find_done(const partitioner *pt, const pl_op *op, int v, const pl_sharding *wanted)
{
    const pl_value *value = value_of(pt, v);

    for (int i = 0; i < pt->n_done; i++) {
        const done_reshard *d = &pt->done[i];

        if (d->value == v && pl_sharding_equal(&d->wanted, wanted, value->shape.n_dims) &&
            serves(value, d, op))
            return d->result;
    }
    return PL_NONE;
}

static void remember(partitioner *pt, const pl_op *op, int v, const pl_sharding *wanted, int result)
{
    pt->done = pl_room_for_one(pt->done, pt->n_done, &pt->done_room, sizeof *pt->done);
    pt->done[pt->n_done++] = (done_reshard){v, *wanted, op->phase, op->layer, result};
}

/* Input v under sharding `wanted`: itself, an earlier reshard, or a new one. */
static int reshard_input(partitioner *pt, const pl_op *op, int v, const pl_sharding *wanted)
{
    pl_reshard_step steps[PL_MAX_RESHARD_STEPS];
    const pl_sharding from = value_of(pt, v)->sharding;
    int at = v;

    if (pl_sharding_equal(&from, wanted, value_of(pt, v)->shape.n_dims))
        return v;
    const int found = find_done(pt, op, v, wanted);
    if (found != PL_NONE)
        return found;
    const int n = plan(pt, v, &from, wanted, steps);
    for (int i = 0; i < n; i++) {
        /* Reductions are in place: on an input they would destroy what others read. */
        PL_ASSERT(steps[i].kind != PL_RESHARD_ALL_REDUCE &&
                  steps[i].kind != PL_RESHARD_REDUCE_SCATTER);
        const int next = new_temporary(pt, op, v, &steps[i].after);

        emit_step(pt, op, &steps[i], at, next);
        at = next;
    }
    remember(pt, op, v, wanted, at);
    return at;
}

/* Emit the steps from value t (as computed) to value v (as declared). */
static void reshard_output(partitioner *pt, const pl_op *op, int t, int v)
{
    pl_reshard_step steps[PL_MAX_RESHARD_STEPS];
    const pl_sharding from = value_of(pt, t)->sharding, to = value_of(pt, v)->sharding;
    const int n = plan(pt, v, &from, &to, steps);

    PL_ASSERT(n > 0);
    for (int i = 0; i < n; i++) {
        const int next = i == n - 1 ? v : new_temporary(pt, op, v, &steps[i].after);

        emit_step(pt, op, &steps[i], t, next);
        t = next;
    }
}

/* A value that may keep sums pending is declared to, as far as its split does not resolve them. */
static void declare_deferred(partitioner *pt, int v, const pl_sharding *computed)
{
    pl_value *value = &pt->out->values[v];
    const pl_axes pending =
        computed->sum & ~pl_sharding_axes(&value->sharding, value->shape.n_dims);

    if (value->defers_sums)
        value->sharding.sum |= pending;
}

/* The value that the op itself writes for output o: the declared one, or a temporary. */
static int computed_value(partitioner *pt, const pl_op *op, const pl_op *emitted, int o,
                          const pl_sharding *computed)
{
    const int v = op->out[o];

    declare_deferred(pt, v, computed);
    const pl_value *declared = value_of(pt, v);
    const int alias = declared->alias_of;

    if (pl_sharding_equal(computed, &declared->sharding, declared->shape.n_dims))
        return v;
    const int t = new_temporary(pt, op, v, computed);
    /* An output that updates an input in place updates what that input was resharded to. */
    for (int i = 0; i < op->n_in && alias != PL_NONE; i++)
        if (op->in[i] == alias)
            pt->out->values[t].alias_of = emitted->in[i];
    return t;
}

static void partition_reshard(partitioner *pt, const pl_op *op)
{
    const int from = op->in[0], to = op->out[0];

    if (pl_sharding_equal(&value_of(pt, from)->sharding, &value_of(pt, to)->sharding,
                          value_of(pt, to)->shape.n_dims))
        pt->out->values[to].alias_of = from;
    else
        reshard_output(pt, op, from, to);
}

static void partition_op(partitioner *pt, const pl_op *op)
{
    const pl_mesh *mesh = pt->out->mesh;
    axis_use use[PL_MAX_AXES];
    int in[PL_MAX_OPERANDS], out[PL_MAX_OPERANDS];
    pl_op emitted = *op;

    for (int a = 0; a < mesh->n_axes; a++)
        use[a] = mesh->axes[a].size > 1 ? use_of_axis(pt, op, a) : (axis_use){0};
    emitted.in = in;
    emitted.out = out;
    for (int i = 0; i < op->n_in; i++) {
        const pl_sharding needed = needed_input(pt, op, i, use);

        in[i] = reshard_input(pt, op, op->in[i], &needed);
    }
    for (int o = 0; o < op->n_out; o++) {
        const pl_sharding computed = computed_output(pt, op, o, use);

        out[o] = computed_value(pt, op, &emitted, o, &computed);
    }
    pl_op_append(pt->out, &emitted);
    for (int o = 0; o < op->n_out; o++)
        if (out[o] != op->out[o])
            reshard_output(pt, op, out[o], op->out[o]);
}

pl_program *pl_partition(const pl_program *logical)
{
    partitioner pt = {.logical = logical, .out = pl_program_copy_values(logical)};

    for (int i = 0; i < logical->n_ops; i++) {
        pl_op op = logical->ops[i];

        op.origin = i;
        if (op.kind == PL_RESHARD)
            partition_reshard(&pt, &op);
        else
            partition_op(&pt, &op);
    }
    pl_free(pt.done);
    return pt.out;
}
