#include "config.h"

#include "src/program/unroll.h"

#include "src/base/block.h"
#include "src/base/panic.h"

/* What is known of each value of the one-microbatch program. */
typedef struct {
    int maker_stage;  /* stage of the forward or backward op that makes it; PL_NONE if none does */
    pl_phase phase;   /* of that op */
    uint64_t readers; /* stages whose forward or backward ops read it */
    uint64_t writers; /* stages that write it (accumulators may have two) */
} value_facts;

typedef struct {
    const pl_program *from;
    pl_program *out;
    int n_layers, n_stages, stage;
    int n_microbatches;
    int *map; /* [n_microbatches][from->n_values]: the clone, PL_NONE before it is asked for */
    value_facts *facts;
    bool *written; /* accumulators (by their id in `from`) that this step has stored to */
} unroller;

int pl_stage_of_layer(int layer, int n_layers, int n_stages)
{
    if (layer == PL_LAYER_EMBED)
        return 0;
    if (layer >= PL_LAYER_HEAD)
        return n_stages - 1;
    return pl_block_owner(n_layers, n_stages, layer);
}

static int stage_of(const unroller *u, int layer)
{
    return pl_stage_of_layer(layer, u->n_layers, u->n_stages);
}

static void learn_facts(unroller *u)
{
    const pl_program *p = u->from;

    for (int v = 0; v < p->n_values; v++)
        u->facts[v].maker_stage = PL_NONE;
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        const int stage = stage_of(u, op->layer);

        if (op->phase == PL_UPDATE)
            continue;
        for (int k = 0; k < op->n_in; k++)
            u->facts[op->in[k]].readers |= UINT64_C(1) << stage;
        for (int k = 0; k < op->n_out; k++) {
            value_facts *f = &u->facts[op->out[k]];

            f->maker_stage = stage;
            f->phase = op->phase;
            f->writers |= UINT64_C(1) << stage;
        }
    }
}

/* Value v of microbatch m in the unrolled program. Values that exist once keep their id. */
static int mapped(unroller *u, int v, int m)
{
    if (v == PL_NONE || u->from->values[v].microbatch == PL_NO_MICROBATCH || m == PL_NO_MICROBATCH)
        return v;
    int *slot = &u->map[(int64_t)m * u->from->n_values + v];
    if (*slot != PL_NONE)
        return *slot;
    const int clone = m == 0 ? v : pl_value_clone(u->out, v);

    *slot = clone; /* before the alias is looked at: chains end, but may be long */
    u->out->values[clone].microbatch = m;
    u->out->values[clone].alias_of = mapped(u, u->from->values[v].alias_of, m);
    return clone;
}

static bool writes_accumulator(const pl_program *p, const pl_op *op)
{
    const pl_value *out = &p->values[op->out[0]];

    return op->phase != PL_UPDATE && op->n_out > 0 && out->microbatch == PL_NO_MICROBATCH &&
           (out->class == PL_GRADIENT || out->class == PL_SCALAR);
}

static void emit_op(unroller *u, const pl_op *op, int m)
{
    const int id = pl_op_append(u->out, op);

    for (int k = 0; k < op->n_in; k++) {
        const int v = mapped(u, op->in[k], m);

        u->out->ops[id].in[k] = v;
    }
    for (int k = 0; k < op->n_out; k++) {
        const int v = mapped(u, op->out[k], m);

        u->out->ops[id].out[k] = v;
    }
    u->out->ops[id].stage = u->stage;
    u->out->ops[id].microbatch = m;
    if (writes_accumulator(u->from, op)) {
        u->out->ops[id].accumulate = u->written[op->out[0]];
        u->written[op->out[0]] = true;
    }
}

/* A send or receive of value v (an id of the unrolled program). */
static void emit_move(unroller *u, pl_kind kind, int v, int peer, pl_phase phase, int layer, int m)
{
    const bool sends = kind == PL_KIND_SEND;
    const int id = pl_op_add(u->out, kind, phase, layer, sends ? 1 : 0, &v, sends ? 0 : 1, &v);
    pl_op *op = &u->out->ops[id];

    op->stage = u->stage;
    op->peer_stage = peer;
    op->microbatch = m;
    op->axes = pl_mesh_family(u->out->mesh, "pp");
}

static void check_neighbours(const unroller *u, int v, int peer)
{
    if (peer != u->stage - 1 && peer != u->stage + 1)
        PL_PANIC("%s crosses from stage %d to %d", u->from->values[v].name, u->stage, peer);
}

/* What other stages make in this phase and this one reads. */
static void receive_inputs(unroller *u, pl_phase phase, int m)
{
    for (int v = 0; v < u->from->n_values; v++) {
        const value_facts *f = &u->facts[v];

        if (f->maker_stage == PL_NONE || f->maker_stage == u->stage || f->phase != phase ||
            !((f->readers >> u->stage) & 1) || ((f->writers >> u->stage) & 1))
            continue;
        check_neighbours(u, v, f->maker_stage);
        const int received = mapped(u, v, m);
        u->out->values[received].alias_of = PL_NONE;
        emit_move(u, PL_KIND_RECV, received, f->maker_stage, phase, u->from->values[v].layer, m);
    }
}

/* What this stage makes in this phase and others read. */
static void send_outputs(unroller *u, pl_phase phase, int m)
{
    for (int v = 0; v < u->from->n_values; v++) {
        const value_facts *f = &u->facts[v];

        if (f->maker_stage != u->stage || f->phase != phase)
            continue;
        for (int s = 0; s < u->n_stages; s++) {
            if (s == u->stage || !((f->readers >> s) & 1) || ((f->writers >> s) & 1))
                continue;
            check_neighbours(u, v, s);
            emit_move(u, PL_KIND_SEND, mapped(u, v, m), s, phase, u->from->values[v].layer, m);
        }
    }
}

static void emit_slot(unroller *u, const pl_slot *slot)
{
    receive_inputs(u, slot->phase, slot->microbatch);
    for (int i = 0; i < u->from->n_ops; i++) {
        const pl_op *op = &u->from->ops[i];

        if (op->phase == slot->phase && stage_of(u, op->layer) == u->stage)
            emit_op(u, op, slot->microbatch);
    }
    send_outputs(u, slot->phase, slot->microbatch);
}

/* This stage's accumulator of a weight that another stage holds too becomes the sum of both; later
 * ops read that. */
static void exchange_shared_gradient(unroller *u, int acc)
{
    pl_program *p = u->out;
    const uint64_t others = u->facts[acc].writers & ~(UINT64_C(1) << u->stage);
    int peer = 0;

    while (!((others >> peer) & 1))
        peer++;
    const int theirs = pl_value_clone(p, acc), sum = pl_value_clone(p, acc);
    const int in[2] = {acc, theirs};

    p->values[theirs].class = PL_COMM_BUFFER;
    emit_move(u, PL_KIND_SEND, acc, peer, PL_UPDATE, p->values[acc].layer, PL_NO_MICROBATCH);
    emit_move(u, PL_KIND_RECV, theirs, peer, PL_UPDATE, p->values[acc].layer, PL_NO_MICROBATCH);
    pl_op_add(p, PL_ADD, PL_UPDATE, p->values[acc].layer, 2, in, 1, &sum);
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].alias_of == acc)
            p->values[v].alias_of = sum;
    u->map[acc] = sum; /* accumulators exist once: row 0 of the map is free for this */
}

/* Whether this stage runs an update op: those of no layer run everywhere, the others where their
 * layer's weights are; the embedding's also on the stage that shares it. */
static bool updates_here(const unroller *u, const pl_op *op)
{
    if (op->layer == PL_LAYER_ALL || stage_of(u, op->layer) == u->stage)
        return true;
    if (op->layer != PL_LAYER_EMBED)
        return false;
    for (int v = 0; v < u->from->n_values; v++)
        if (u->from->values[v].class == PL_WEIGHT && u->from->values[v].layer == PL_LAYER_EMBED &&
            u->from->values[v].persists && ((u->facts[v].readers >> u->stage) & 1))
            return true;
    return false;
}

/* The norm counts each gradient on one stage. */
static void keep_own_gradients(unroller *u, int op)
{
    pl_op *squares = &u->out->ops[op];
    int kept = 0;

    for (int k = 0; k < squares->n_in; k++)
        if (stage_of(u, u->out->values[squares->in[k]].layer) == u->stage)
            squares->in[kept++] = squares->in[k];
    squares->n_in = kept;
}

static void emit_update(unroller *u)
{
    for (int v = 0; v < u->from->n_values; v++)
        if (u->from->values[v].class == PL_GRADIENT &&
            u->from->values[v].microbatch == PL_NO_MICROBATCH &&
            ((u->facts[v].writers >> u->stage) & 1) &&
            u->facts[v].writers != UINT64_C(1) << u->stage)
            exchange_shared_gradient(u, v);
    for (int i = 0; i < u->from->n_ops; i++) {
        const pl_op *op = &u->from->ops[i];

        if (op->phase != PL_UPDATE || !updates_here(u, op))
            continue;
        emit_op(u, op, PL_NO_MICROBATCH);
        const int id = u->out->n_ops - 1;
        for (int k = 0; k < op->n_in; k++)
            if (u->from->values[op->in[k]].class == PL_GRADIENT && u->map[op->in[k]] != PL_NONE)
                u->out->ops[id].in[k] = u->map[op->in[k]];
        if (op->kind == PL_SUM_SQUARES)
            keep_own_gradients(u, id);
    }
}

/* Sums that no op of this stage adds to must still be there for the reduction over stages. */
static void zero_unwritten_sums(unroller *u)
{
    for (int v = 0; v < u->from->n_values; v++) {
        const value_facts *f = &u->facts[v];

        if (u->from->values[v].class == PL_SCALAR && f->writers != 0 &&
            !((f->writers >> u->stage) & 1))
            pl_op_add(u->out, PL_FILL, PL_FORWARD, PL_LAYER_ALL, 0, NULL, 1, &v);
    }
}

pl_program *pl_unroll(const pl_program *partitioned, int n_layers, int n_stages, int stage,
                      const pl_slot *slots, int n_slots)
{
    const int n_values = partitioned->n_values;
    unroller u = {.from = partitioned,
                  .out = pl_program_copy_values(partitioned),
                  .n_layers = n_layers,
                  .n_stages = n_stages,
                  .stage = stage,
                  .n_microbatches = partitioned->batch.n_microbatches};
    const size_t n_map = (size_t)u.n_microbatches * (size_t)n_values;

    u.out->stage = stage;
    u.out->n_stages = n_stages;
    u.map = pl_alloc(n_map * sizeof *u.map);
    for (size_t i = 0; i < n_map; i++)
        u.map[i] = PL_NONE;
    u.facts = pl_alloc((size_t)n_values * sizeof *u.facts);
    u.written = pl_alloc((size_t)n_values * sizeof *u.written);
    learn_facts(&u);
    zero_unwritten_sums(&u);
    for (int i = 0; i < n_slots; i++)
        emit_slot(&u, &slots[i]);
    emit_update(&u);
    pl_free(u.map);
    pl_free(u.facts);
    pl_free(u.written);
    return u.out;
}
