#include "config.h"

#include "src/program/allocate.h"

#include "src/base/panic.h"
#include "src/program/kinds.h"

#include <limits.h>
#include <stdlib.h>

/* Actions first..last during which a value's storage is in use; first > last: never. */
typedef struct {
    int first, last;
} lifetime;

static void touch(const pl_program *p, lifetime *lives, int v, int action)
{
    lifetime *l = &lives[pl_value_owner(p, v)];

    if (action < l->first)
        l->first = action;
    if (action > l->last)
        l->last = action;
}

static void find_lifetimes(const pl_program *p, lifetime *lives)
{
    for (int v = 0; v < p->n_values; v++)
        lives[v] = (lifetime){p->n_actions, -1};
    for (int a = 0; a < p->n_actions; a++) {
        const pl_op *op = &p->ops[p->actions[a].op];

        for (int k = 0; k < op->n_in; k++)
            touch(p, lives, op->in[k], a);
        for (int k = 0; k < op->n_out; k++)
            touch(p, lives, op->out[k], a);
        if (op->scratch != PL_NONE)
            touch(p, lives, op->scratch, a);
    }
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].persists && lives[v].last >= 0)
            lives[v] = (lifetime){0, p->n_actions - 1};
        if (p->values[v].is_output)
            touch(p, lives, v, p->n_actions - 1);
    }
}

/* Let op's first output take the storage of the input that its kind allows, where that input dies
 * here. */
static void work_in_place(pl_program *p, const pl_op *op, int action, lifetime *lives)
{
    const int which = pl_kind_of(op->kind)->in_place;

    if (which == PL_NONE || which >= op->n_in)
        return;
    const int from = pl_value_owner(p, op->in[which]), to = op->out[0];
    pl_value *target = &p->values[to];
    if (target->alias_of != PL_NONE || target->persists || p->values[from].persists ||
        p->values[from].is_input || lives[from].last != action || lives[to].first != action ||
        target->class != p->values[from].class || target->dtype != p->values[from].dtype ||
        pl_value_bytes(p, from) != pl_value_bytes(p, to))
        return;
    target->alias_of = from;
    lives[from].last = lives[to].last;
    lives[to] = (lifetime){p->n_actions, -1};
}

typedef struct {
    int value;
    lifetime life;
    size_t bytes;
    size_t offset;
} block;

/* Larger blocks first; ties by value id, so that the order is total. */
static int by_size(const void *a, const void *b)
{
    const block *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Blocks that have been placed, listed by stretches of the actions, so that only those that may
 * live at the same time are looked at. */
enum { N_STRETCHES = 256, ACTIONS_OF_STRETCH = 32 };

typedef struct {
    int n_actions, n_stretches;
    int n[N_STRETCHES];
    int64_t room[N_STRETCHES];
    const block **in[N_STRETCHES];
    const block **busy; /* room for all blocks: the ones that meet the one being placed */
} timetable;

static int stretch_of(const timetable *t, int action)
{
    return (int)((int64_t)action * t->n_stretches / t->n_actions);
}

static void timetable_add(timetable *t, const block *b)
{
    for (int i = stretch_of(t, b->life.first); i <= stretch_of(t, b->life.last); i++) {
        t->in[i] = pl_room_for_one(t->in[i], t->n[i], &t->room[i], sizeof *t->in[i]);
        t->in[i][t->n[i]++] = b;
    }
}

static void timetable_free(timetable *t)
{
    for (int i = 0; i < N_STRETCHES; i++)
        pl_free(t->in[i]);
    pl_free(t->busy);
}

/* The placed blocks that live at the same time as b, each once, in t->busy; returns how many. */
static int find_busy(timetable *t, const block *b)
{
    const int begin = stretch_of(t, b->life.first);
    int n = 0;

    for (int i = begin; i <= stretch_of(t, b->life.last); i++)
        for (int k = 0; k < t->n[i]; k++) {
            const block *other = t->in[i][k];
            const int seen_from = stretch_of(t, other->life.first);

            /* A block is listed in many stretches: it counts in the first that both have. */
            if (i == (seen_from > begin ? seen_from : begin) && other->life.first <= b->life.last &&
                b->life.first <= other->life.last)
                t->busy[n++] = other;
        }
    return n;
}

/* The lowest offset at which `b` meets no placed block that lives at the same time. What it meets
 * at one offset it meets at all others before that block's end, so it goes there. Blocks come about
 * in the order of their offsets: few passes do. */
static size_t lowest_offset(timetable *t, const block *b)
{
    const int n_busy = find_busy(t, b);
    size_t offset = 0;
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        for (int i = 0; i < n_busy; i++) {
            const size_t begin = t->busy[i]->offset, end = begin + t->busy[i]->bytes;

            if (begin < offset + b->bytes && offset < end) {
                offset = end;
                has_moved = true;
            }
        }
    }
    return offset;
}

/* The blocks of a class, larger ones first; returns how many. */
static int blocks_of_class(const pl_program *p, pl_class class, const lifetime *lives,
                           block *blocks)
{
    int n = 0;

    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].class != class || lives[v].last < lives[v].first)
            continue;
        blocks[n++] = (block){.value = v, .life = lives[v], .bytes = pl_value_room(p, v)};
    }
    qsort(blocks, (size_t)n, sizeof *blocks, by_size);
    return n;
}

/* Whether all blocks live at one time, as those do that last over steps. */
static bool all_meet(const block *blocks, int n)
{
    int last_first = INT_MIN, first_last = INT_MAX;

    for (int i = 0; i < n; i++) {
        last_first = blocks[i].life.first > last_first ? blocks[i].life.first : last_first;
        first_last = blocks[i].life.last < first_last ? blocks[i].life.last : first_last;
    }
    return last_first <= first_last;
}

static timetable timetable_of(int n_actions, int n_blocks)
{
    const int n = n_actions / ACTIONS_OF_STRETCH + 1;

    return (timetable){.n_actions = n_actions,
                       .n_stretches = n < N_STRETCHES ? n : N_STRETCHES,
                       .busy = pl_alloc((size_t)(n_blocks + 1) * sizeof(const block *))};
}

static void place_class(pl_program *p, pl_class class, const lifetime *lives, block *blocks)
{
    const int n = blocks_of_class(p, class, lives, blocks);
    const bool in_a_row = all_meet(blocks, n);
    timetable t = timetable_of(p->n_actions, n);

    p->pool_bytes[class] = 0;
    for (int i = 0; i < n; i++) {
        blocks[i].offset = in_a_row ? p->pool_bytes[class] : lowest_offset(&t, &blocks[i]);
        if (!in_a_row)
            timetable_add(&t, &blocks[i]);
        p->values[blocks[i].value].offset = (int64_t)blocks[i].offset;
        if (blocks[i].offset + blocks[i].bytes > p->pool_bytes[class])
            p->pool_bytes[class] = blocks[i].offset + blocks[i].bytes;
    }
    timetable_free(&t);
}

/* One workspace serves all kernels, since they run one at a time. */
static void add_workspace(pl_program *p)
{
    const pl_coords origin = {{0}};
    pl_array in[PL_MAX_OPERANDS], out[PL_MAX_OPERANDS];
    pl_op_view view = {.in = in, .out = out};
    int64_t most = 0;

    for (int i = 0; i < p->n_ops; i++) {
        const pl_kind_info *kind = pl_kind_of(p->ops[i].kind);

        if (kind->workspace == NULL)
            continue;
        pl_op_view_fill(&view, p, &p->ops[i], origin);
        const int64_t n = kind->workspace(&view);
        if (n > most)
            most = n;
    }
    if (most == 0)
        return;
    const int v = pl_value_add(p, PL_WORKSPACE, PL_LAYER_ALL, "S", &most, "kernel workspace");
    for (int i = 0; i < p->n_ops; i++)
        if (pl_kind_of(p->ops[i].kind)->workspace != NULL)
            p->ops[i].scratch = v;
}

void pl_allocate(pl_program *p)
{
    add_workspace(p);

    lifetime *lives = pl_alloc((size_t)(p->n_values + 1) * sizeof *lives);
    block *blocks = pl_alloc((size_t)(p->n_values + 1) * sizeof *blocks); /* room for any class's */
    find_lifetimes(p, lives);
    for (int a = 0; a < p->n_actions; a++)
        if (p->actions[a].kind == PL_ACTION_RUN)
            work_in_place(p, &p->ops[p->actions[a].op], a, lives);
    for (int c = 0; c < PL_N_CLASSES; c++)
        place_class(p, (pl_class)c, lives, blocks);
    pl_free(blocks);
    pl_free(lives);
}
