#include "config.h"

#include "src/program/overlap.h"

#include "src/base/panic.h"
#include "src/program/bucket.h"
#include "src/program/communicate.h"

#include <string.h>

enum { MOVE_TAGS = 16384, N_TAGS = 16384 }; /* collectives count in 0..16383, moves above */

/* One list of ops in the order in which they now stand, and for each where it starts. */
typedef struct {
    pl_program *p;
    int *segment_begin; /* [n_ops] first op of the segment that op i is in */
    int *first_start;   /* [n_ops + 1] the first communication that starts just before op i, ... */
    int *next_start;    /* [n_ops] ... and the one that starts after it there; PL_NONE ends */
    int *in_flight;     /* [n_in_flight] while actions are written, in order of their starts */
    int n_in_flight;
    int n_actions;
} planner;

/* Accumulations are of the segment that they stand behind, though moved there from another. */
static bool begins_segment(const pl_program *p, int i)
{
    return i == 0 || (p->ops[i].kind != PL_ACCUMULATE &&
                      !pl_same_segment(&p->ops[i], &p->ops[i - 1]));
}

static void find_segments(planner *pn)
{
    for (int i = 0; i < pn->p->n_ops; i++)
        pn->segment_begin[i] = begins_segment(pn->p, i) ? i : pn->segment_begin[i - 1];
}

static bool writes_storage(const pl_program *p, const pl_op *op, int storage)
{
    for (int k = 0; k < op->n_out; k++)
        if (pl_value_owner(p, op->out[k]) == storage)
            return true;
    return false;
}

static bool reads_storage(const pl_program *p, const pl_op *op, int storage)
{
    for (int k = 0; k < op->n_in; k++)
        if (pl_value_owner(p, op->in[k]) == storage)
            return true;
    return false;
}

/* The last op before i that writes an input of op i, or PL_NONE. */
static int last_writer_of_inputs(const pl_program *p, int i)
{
    for (int j = i - 1; j >= 0; j--)
        for (int k = 0; k < p->ops[i].n_in; k++)
            if (writes_storage(p, &p->ops[j], pl_value_owner(p, p->ops[i].in[k])))
                return j;
    return PL_NONE;
}

/* Whether op i adds up what communication has brought. */
static bool accumulates_reduced(const pl_program *p, int i)
{
    const int writer = p->ops[i].kind == PL_ACCUMULATE ? last_writer_of_inputs(p, i) : PL_NONE;

    return writer != PL_NONE && pl_kind_is_communication(p->ops[writer].kind);
}

/* Move the accumulations of reduced gradients behind the next segment of the backward pass, so that
 * the reduction has that long to finish. */
static void delay_accumulations(pl_program *p)
{
    pl_op *list = pl_alloc((size_t)(p->n_ops + 1) * sizeof *list);
    pl_op *held = pl_alloc((size_t)(p->n_ops + 1) * sizeof *held);
    int n = 0, n_held = 0;

    for (int begin = 0, end; begin < p->n_ops; begin = end) {
        const int n_before = n_held;

        for (end = begin; end < p->n_ops && pl_same_segment(&p->ops[begin], &p->ops[end]); end++) {
            if (accumulates_reduced(p, end))
                held[n_held++] = p->ops[end];
            else
                list[n++] = p->ops[end];
        }
        const bool ends = end == p->n_ops || p->ops[end].phase == PL_UPDATE;
        const int n_released = ends ? n_held : n_before;
        memcpy(list + n, held, (size_t)n_released * sizeof *held);
        n += n_released;
        memmove(held, held + n_released, (size_t)(n_held - n_released) * sizeof *held);
        n_held -= n_released;
    }
    memcpy(p->ops, list, (size_t)n * sizeof *list);
    pl_free(list);
    pl_free(held);
}

/* First op of the slot (phase and microbatch) before the one that op i is in. */
static int previous_slot(const pl_program *p, int i)
{
    int j = i;

    for (int crossed = 0; j > 0; j--)
        if (p->ops[j - 1].phase != p->ops[j].phase ||
            p->ops[j - 1].microbatch != p->ops[j].microbatch)
            if (++crossed == 2)
                break;
    return j;
}

static int start_of(const planner *pn, int i)
{
    const pl_program *p = pn->p;
    const pl_op *op = &p->ops[i];

    if (op->kind == PL_KIND_RECV)
        return previous_slot(p, i);
    if (op->kind == PL_KIND_ALL_GATHER && op->phase != PL_UPDATE && p->values[op->in[0]].persists) {
        const int mine = pn->segment_begin[i];

        return mine > 0 ? pn->segment_begin[mine - 1] : 0;
    }
    if (op->axes & pl_mesh_family(p->mesh, "pp"))
        return i; /* stages differ in what comes before: where it stands is the same for all */
    const int writer = last_writer_of_inputs(p, i);
    return writer == PL_NONE ? 0 : writer + 1;
}

static void add_action(planner *pn, pl_action_kind kind, int op)
{
    pn->p->actions[pn->n_actions++] = (pl_action){kind, op};
}

/* Whether op i must wait for communication c: it makes an input of i, or touches storage that i
 * writes; sends to one stage go one by one. */
static bool must_wait_for(const pl_program *p, int i, int c)
{
    const pl_op *op = &p->ops[i], *other = &p->ops[c];

    if (other->kind == PL_KIND_SEND && op->kind == PL_KIND_SEND &&
        other->peer_stage == op->peer_stage)
        return true;
    for (int k = 0; k < op->n_in; k++)
        if (writes_storage(p, other, pl_value_owner(p, op->in[k])))
            return true;
    for (int k = 0; k < op->n_out; k++)
        if (writes_storage(p, other, pl_value_owner(p, op->out[k])) ||
            reads_storage(p, other, pl_value_owner(p, op->out[k])))
            return true;
    return false;
}

static void wait_for_inputs(planner *pn, int i)
{
    int kept = 0;

    for (int f = 0; f < pn->n_in_flight; f++) {
        const int c = pn->in_flight[f];

        if (must_wait_for(pn->p, i, c))
            add_action(pn, PL_ACTION_WAIT, c);
        else
            pn->in_flight[kept++] = c;
    }
    pn->n_in_flight = kept;
}

static void start_those_before(planner *pn, int i)
{
    for (int c = pn->first_start[i]; c != PL_NONE; c = pn->next_start[c]) {
        wait_for_inputs(pn, c);
        add_action(pn, PL_ACTION_START, c);
        pn->in_flight[pn->n_in_flight++] = c;
    }
}

static void wait_for_all(planner *pn)
{
    for (int f = 0; f < pn->n_in_flight; f++)
        add_action(pn, PL_ACTION_WAIT, pn->in_flight[f]);
    pn->n_in_flight = 0;
}

static void write_actions(planner *pn)
{
    pl_program *p = pn->p;

    p->update_action = PL_NONE;
    for (int i = 0; i < p->n_ops; i++) {
        start_those_before(pn, i);
        if (pl_kind_is_communication(p->ops[i].kind))
            continue;
        if (p->ops[i].kind == PL_ADAMW && p->update_action == PL_NONE) {
            wait_for_all(pn); /* the host looks at loss and norm here */
            p->update_action = pn->n_actions;
        }
        wait_for_inputs(pn, i);
        add_action(pn, PL_ACTION_RUN, i);
    }
    start_those_before(pn, p->n_ops);
    wait_for_all(pn);
    if (p->update_action == PL_NONE)
        p->update_action = pn->n_actions;
    p->n_actions = pn->n_actions;
}

/* A move's tag says which microbatch it carries, and which way: the two ends count differently, and
 * may start two moves in opposite orders. */
static int move_tag(const pl_program *p, const pl_op *op)
{
    const bool goes_up = (op->kind == PL_KIND_SEND) == (op->peer_stage > p->stage);
    const int move = ((op->microbatch + 1) * 3 + (int)op->phase) * 2 + goes_up;

    return MOVE_TAGS + move % (N_TAGS - 1);
}

/* Tags count per group in the order of starts, which is the same on all its ranks. */
static void assign_tags(pl_program *p)
{
    pl_axes seen[1 << 6];
    int count[1 << 6], n_seen = 0;

    for (int a = 0; a < p->n_actions; a++) {
        pl_op *op = &p->ops[p->actions[a].op];
        int g = 0;

        if (p->actions[a].kind != PL_ACTION_START)
            continue;
        if (pl_kind_is_move(op->kind)) {
            op->tag = move_tag(p, op);
            continue;
        }
        while (g < n_seen && seen[g] != op->axes)
            g++;
        if (g == n_seen) {
            PL_ASSERT(n_seen < 1 << 6);
            seen[n_seen] = op->axes;
            count[n_seen++] = 0;
        }
        op->tag = count[g]++ % N_TAGS;
    }
}

/* Communication is critical when nothing runs between its start and its wait. */
static void mark_critical(pl_program *p)
{
    for (int a = 0; a < p->n_actions; a++) {
        int b = a + 1;

        if (p->actions[a].kind != PL_ACTION_START)
            continue;
        while (p->actions[b].kind == PL_ACTION_START)
            b++;
        while (p->actions[b].kind == PL_ACTION_WAIT && p->actions[b].op != p->actions[a].op)
            b++;
        p->ops[p->actions[a].op].critical =
            p->actions[b].kind == PL_ACTION_WAIT && p->actions[b].op == p->actions[a].op;
    }
}

static void add_scratch(pl_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        if (!pl_kind_is_communication(p->ops[i].kind))
            continue;
        const int64_t n = pl_op_scratch_elements(p, &p->ops[i]);
        if (n == 0)
            continue;
        const char *name = pl_arena_join(p->arena, "scratch of ", p->values[p->ops[i].out[0]].name);
        p->ops[i].scratch = pl_value_add(p, PL_COMM_BUFFER, p->ops[i].layer, "S", &n, name);
        p->values[p->ops[i].scratch].dtype = pl_op_dtype(p, &p->ops[i]);
    }
}

/* List the communications by where they start; those of one place in program order. */
static void plan_starts(planner *pn)
{
    const int n = pn->p->n_ops;

    for (int i = 0; i <= n; i++)
        pn->first_start[i] = PL_NONE;
    for (int i = n - 1; i >= 0; i--) {
        if (!pl_kind_is_communication(pn->p->ops[i].kind))
            continue;
        const int before = start_of(pn, i);
        pn->next_start[i] = pn->first_start[before];
        pn->first_start[before] = i;
    }
}

void pl_overlap(pl_program *p)
{
    const size_t n = (size_t)p->n_ops + 1;
    planner pn = {.p = p};

    delay_accumulations(p);
    pn.segment_begin = pl_alloc(n * sizeof *pn.segment_begin);
    pn.first_start = pl_alloc(n * sizeof *pn.first_start);
    pn.next_start = pl_alloc(n * sizeof *pn.next_start);
    pn.in_flight = pl_alloc(n * sizeof *pn.in_flight);
    p->actions = pl_alloc(2 * n * sizeof *p->actions);
    find_segments(&pn);
    plan_starts(&pn);
    write_actions(&pn);
    assign_tags(p);
    mark_critical(p);
    add_scratch(p);
    pl_free(pn.segment_begin);
    pl_free(pn.first_start);
    pl_free(pn.next_start);
    pl_free(pn.in_flight);
}
