/* The passes over a program, each by what it promises, on programs of every strategy: partition's
 * four cases of a matrix product, the starts and waits of overlap, the buckets, the memory of
 * allocate; and the pipeline schedules. */
#include "config.h"

#include "src/base/memory.h"
#include "src/program/allocate.h"
#include "src/program/communicate.h"
#include "src/program/fuse.h"
#include "src/program/kinds.h"
#include "src/program/overlap.h"
#include "src/program/partition.h"
#include "tests/check_main.h"
#include "tests/toy.h"

#include <stdlib.h>
#include <string.h>

/* partition */

/* A product C = A . B with declared shardings on a mesh x:2 y:2, partitioned; the kinds of the ops,
 * as letters: G AllGather, S ReduceScatter, R AllReduce, A AllToAll, s slice, . the product. */
static void kinds_of_product(const char *a, const char *b, const char *c, char *kinds)
{
    static const char letters[PL_N_KINDS] = {
        [PL_EINSUM] = '.',          [PL_SLICE] = 's',
        [PL_KIND_ALL_GATHER] = 'G', [PL_KIND_REDUCE_SCATTER] = 'S',
        [PL_KIND_ALL_REDUCE] = 'R', [PL_KIND_ALL_TO_ALL] = 'A'};
    const char *const text[3] = {a, b, c};
    const pl_batch batch = {.micro_batch = 1, .n_microbatches = 1, .n_sequences = 1};
    pl_mesh mesh = {0};
    int v[3], n = 0;

    ck_assert(pl_mesh_add(&mesh, "x", 2) == PL_OK && pl_mesh_add(&mesh, "y", 2) == PL_OK);
    pl_program *p = pl_program_create(&mesh, &batch);
    for (int i = 0; i < 3; i++) {
        const int64_t extents[2] = {8, 8};
        char name[8], dims[3] = "";
        pl_shape shape = {0};
        pl_sharding sharding;

        ck_assert(pl_sharding_parse(&mesh, text[i], name, sizeof name, &shape, &sharding) == PL_OK);
        memcpy(dims, shape.name, 2);
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, dims, extents, pl_arena_join(p->arena, name, ""));
        p->values[v[i]].sharding = sharding;
    }
    pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, v, 1, &v[2]);
    pl_program *out = pl_partition(p);
    for (int i = 0; i < out->n_ops; i++)
        kinds[n++] = letters[out->ops[i].kind];
    kinds[n] = '\0';
    pl_program_destroy(out);
    pl_program_destroy(p);
}

/* Book, section 3: cases 1 to 4, and what the wanted output makes of them. */
static const struct {
    const char *a, *b, *c, *kinds;
} products[] = {
    {"A[I_x, J]", "B[J, K_y]", "C[I_x, K_y]", "."},      /* 1: nothing */
    {"A[I, J]", "B[J, K]", "C[I, K]", "."},              /* 1 */
    {"A[I, J_x]", "B[J, K]", "C[I, K]", "G."},           /* 2: gather the split operand */
    {"A[I, J]", "B[J_x, K]", "C[I, K]", "G."},           /* 2 */
    {"A[I, J_x]", "B[J_x, K]", "C[I, K]", ".R"},         /* 3: terms, summed */
    {"A[I, J_x]", "B[J_x, K]", "C[I_x, K]", ".S"},       /* 3, scattered */
    {"A[I, J_x]", "B[J_x, K]", "C[I, K_x]", ".S"},       /* 3, scattered along the other dim */
    {"A[I_y, J_x]", "B[J_x, K]", "C[I_y, K]", ".R"},     /* 3 on x, 1 on y */
    {"A[I_x, J]", "B[J, K_x]", "C[I_x, K]", "G."},       /* 4: gather what the output lacks */
    {"A[I_x, J]", "B[J, K_x]", "C[I, K_x]", "G."},       /* 4 */
    {"A[I, J]", "B[J, K]", "C[I_x, K]", "s."},           /* replicated to split: a slice */
    {"A[I_x, J]", "B[J, K]", "C[I, K_x]", "Gs."},        /* follow the output */
    {"A[I, J_{y,x}]", "B[J_{y,x}, K]", "C[I, K]", ".R"}, /* both axes as one */
    {"A[I, J_x]{U_y}", "B[J_x, K]", "C[I, K]", ".R"},    /* linear: a pending sum passes */
    {"A[I, J_y]", "B[J, K]{U_y}", "C[I, K]", "G.R"},     /* beside it the other operand is whole */
};

START_TEST(a_product_gets_the_communication_of_its_case)
{
    char kinds[32];

    kinds_of_product(products[_i].a, products[_i].b, products[_i].c, kinds);
    ck_assert_msg(strcmp(kinds, products[_i].kinds) == 0, "%s . %s -> %s: %s, not %s",
                  products[_i].a, products[_i].b, products[_i].c, kinds, products[_i].kinds);
}
END_TEST

/* Whole programs */

static const struct {
    const char *spec;
    int zero, micro_batch, n_stages;
} plans[] = {
    {"dp:1", 0, 0, 1},        {"dp:1", 0, 1, 1},
    {"dp:2", 0, 2, 1},        {"dp:2", 1, 0, 1},
    {"dp:4", 2, 1, 1},        {"fsdp:2", 0, 0, 1},
    {"fsdp:4", 0, 1, 1},      {"tp:4", 0, 0, 1},
    {"fsdp:2+tp:2", 0, 2, 1}, {"dp:2+fsdp:2+tp:2", 1, 1, 1},
    {"pp:3", 0, 1, 3},        {"pp:2+fsdp:2", 0, 2, 2},
};
enum { N_PLANS = sizeof plans / sizeof *plans };

static pl_program *program_of(int i, int stage, pl_mesh *mesh)
{
    pl_plan plan = toy_plan(plans[i].spec, 5, 8, plans[i].micro_batch);

    plan.spec.zero = plans[i].zero;
    return toy_program(&plan, mesh, stage);
}

static bool touches(const pl_program *p, const pl_op *op, int storage, bool outputs_only)
{
    for (int k = 0; k < op->n_out; k++)
        if (pl_value_owner(p, op->out[k]) == storage)
            return true;
    for (int k = 0; k < op->n_in && !outputs_only; k++)
        if (pl_value_owner(p, op->in[k]) == storage)
            return true;
    return false;
}

/* Follow the actions: every communication starts once and is waited for once, later; while it is in
 * flight nothing reads or writes what it writes, and nothing writes what it reads. */
static void follow(const pl_program *p)
{
    int *state = pl_alloc((size_t)p->n_ops * sizeof *state); /* 0 ahead, 1 in flight, 2 done */

    for (int a = 0; a < p->n_actions; a++) {
        const int i = p->actions[a].op;
        const pl_op *op = &p->ops[i];

        ck_assert_int_eq(state[i], p->actions[a].kind == PL_ACTION_WAIT);
        state[i] = p->actions[a].kind == PL_ACTION_START ? 1 : 2;
        for (int c = 0; c < p->n_ops && p->actions[a].kind != PL_ACTION_WAIT; c++) {
            if (state[c] != 1 || c == i)
                continue;
            for (int k = 0; k < op->n_in; k++)
                ck_assert(!touches(p, &p->ops[c], pl_value_owner(p, op->in[k]), true));
            for (int k = 0; k < op->n_out; k++)
                ck_assert(!touches(p, &p->ops[c], pl_value_owner(p, op->out[k]), false));
        }
    }
    for (int i = 0; i < p->n_ops; i++)
        ck_assert_int_eq(state[i], 2);
    pl_free(state);
}

START_TEST(nothing_touches_what_is_in_flight)
{
    for (int stage = 0; stage < plans[_i].n_stages; stage++) {
        pl_mesh mesh;
        pl_program *p = program_of(_i, stage, &mesh);

        follow(p);
        pl_program_destroy(p);
    }
}
END_TEST

/* First and last action that touches each owner; communication from start to wait. */
static void find_lives(const pl_program *p, int *first, int *last)
{
    for (int v = 0; v < p->n_values; v++) {
        first[v] = p->n_actions;
        last[v] = -1;
    }
    for (int a = 0; a < p->n_actions; a++)
        for (int v = 0; v < p->n_values; v++) {
            const pl_op *op = &p->ops[p->actions[a].op];

            if (p->values[v].alias_of == PL_NONE &&
                (touches(p, op, v, false) || op->scratch == v)) {
                first[v] = a < first[v] ? a : first[v];
                last[v] = a;
            }
        }
}

START_TEST(values_that_live_together_share_no_memory)
{
    pl_mesh mesh;
    pl_program *p = program_of(_i, 0, &mesh);
    int *first = pl_alloc((size_t)p->n_values * sizeof *first);
    int *last = pl_alloc((size_t)p->n_values * sizeof *last);

    find_lives(p, first, last);
    for (int v = 0; v < p->n_values; v++) {
        const pl_value *x = &p->values[v];

        if (last[v] < 0)
            continue;
        const int64_t end = x->offset + (int64_t)pl_value_bytes(p, v);
        ck_assert_int_ge(x->offset, 0);
        ck_assert_int_eq(x->offset % PL_ALIGNMENT, 0);
        ck_assert_int_le(end, (int64_t)p->pool_bytes[x->class]);
        for (int u = 0; u < v; u++) {
            const pl_value *y = &p->values[u];
            const bool together =
                x->persists || y->persists || (first[u] <= last[v] && first[v] <= last[u]);
            const int64_t y_end = y->offset + (int64_t)pl_value_bytes(p, u);

            if (last[u] >= 0 && together && x->class == y->class)
                ck_assert_msg(end <= y->offset || y_end <= x->offset, "%s and %s overlap", x->name,
                              y->name);
        }
    }
    pl_free(first);
    pl_free(last);
    pl_program_destroy(p);
}
END_TEST

START_TEST(nothing_is_read_after_an_op_has_worked_in_its_place)
{
    pl_mesh mesh;
    pl_program *p = program_of(_i, 0, &mesh);
    int n_in_place = 0;

    for (int a = 0; a < p->n_actions; a++) {
        const pl_op *op = &p->ops[p->actions[a].op];
        const int which = pl_kind_of(op->kind)->in_place;

        if (which == PL_NONE || which >= op->n_in ||
            pl_value_owner(p, op->out[0]) != pl_value_owner(p, op->in[which]))
            continue;
        n_in_place++;
        for (int b = a + 1; b < p->n_actions; b++) {
            const pl_op *later = &p->ops[p->actions[b].op];

            for (int k = 0; k < later->n_in; k++)
                ck_assert_msg(later->in[k] != op->in[which], "%s is read later",
                              p->values[op->in[which]].name);
        }
    }
    ck_assert_int_gt(n_in_place, 0);
    pl_program_destroy(p);
}
END_TEST

START_TEST(an_input_that_is_read_again_keeps_its_storage)
{
    const pl_batch batch = {.micro_batch = 1, .n_microbatches = 1, .n_sequences = 1};
    const int64_t extent = 100;
    pl_mesh mesh = {0};
    pl_program *p = pl_program_create(&mesh, &batch);
    int v[4]; /* c = a + b; d = c + b */

    for (int i = 0; i < 4; i++)
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "I", &extent, pl_arena_printf(p->arena, "v%d", i));
    const int for_c[2] = {v[0], v[1]}, for_d[2] = {v[2], v[1]};
    pl_op_add(p, PL_FILL, PL_FORWARD, 0, 0, NULL, 1, &v[0]);
    pl_op_add(p, PL_FILL, PL_FORWARD, 0, 0, NULL, 1, &v[1]);
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, for_c, 1, &v[2]);
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, for_d, 1, &v[3]);
    p->values[v[3]].is_output = true;
    pl_overlap(p);
    pl_allocate(p);
    ck_assert_int_ne(pl_value_owner(p, v[2]), pl_value_owner(p, v[1]));
    ck_assert_int_eq(pl_value_owner(p, v[3]), pl_value_owner(p, v[1]));
    pl_program_destroy(p);
}
END_TEST

/* How many ops of a kind in a phase satisfy the layer; *op is the last. */
static int count_ops(const pl_program *p, pl_kind kind, pl_phase phase, int layer, int *op)
{
    int n = 0;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && p->ops[i].phase == phase && p->ops[i].layer == layer) {
            *op = i;
            n++;
        }
    return n;
}

/* fuse */

/* Additions of the forward pass, and products that add to a residual; bytes that kernels pass, and
 * elements of results that products read or write. */
typedef struct {
    int n_additions, n_fused;
    double bytes, c_elements;
} residual_stream;

static residual_stream find_stream(int plan, bool keeps_additions)
{
    pl_mesh mesh;
    pl_plan of = toy_plan(plans[plan].spec, 5, 8, plans[plan].micro_batch);
    residual_stream s = {0};

    of.spec.zero = plans[plan].zero;
    of.keeps_additions = keeps_additions;
    pl_program *p = toy_program(&of, &mesh, 0);
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        if (op->phase != PL_FORWARD || pl_kind_is_communication(op->kind))
            continue;
        s.n_additions += op->kind == PL_ADD;
        s.n_fused += op->kind == PL_EINSUM && op->n_in % 2 != 0;
        const pl_op_cost cost = pl_op_cost_at(p, op, (pl_coords){{0}});

        s.bytes += cost.bytes;
        s.c_elements += cost.c_elements;
    }
    pl_program_destroy(p);
    return s;
}

/* Each saves writing the product and reading it; the product reads the residual instead. */
START_TEST(products_are_added_to_the_residual_stream_unless_tp_must_sum_them_first)
{
    const residual_stream apart = find_stream(_i, true), fused = find_stream(_i, false);
    const bool sums = strstr(plans[_i].spec, "tp") != NULL;
    pl_mesh mesh;
    pl_program *p = program_of(_i, 0, &mesh);
    double saved = 0;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == PL_EINSUM && p->ops[i].n_in % 2 != 0)
            saved += 2 * (double)pl_local_elements(p, p->ops[i].out[0], (pl_coords){{0}}) * 4;
    ck_assert_int_gt(apart.n_additions, 0);
    ck_assert_int_eq(apart.n_fused, 0);
    ck_assert_int_eq(fused.n_additions, sums ? apart.n_additions : 0);
    ck_assert_int_eq(fused.n_fused, sums ? 0 : apart.n_additions);
    ck_assert(fused.bytes == apart.bytes - saved);
    ck_assert(fused.c_elements == apart.c_elements + saved / 8);
    pl_program_destroy(p);
}
END_TEST

typedef enum {
    NOTHING_ELSE,
    READ_AGAIN,
    READ_BY_HOST,
    LATE_RESIDUAL,
    LATE_PRODUCT,
    TWICE,
    OTHER_LAYER,
    OTHER_DTYPE,
    ALIASED,
    ALIAS,
    SECOND_RESIDUAL,
    N_OBSTACLES
} obstacle;

/* y = a . b; z = x + y, and what may keep y and the sum apart; how many additions are left. */
static int additions_left(obstacle o)
{
    const pl_batch batch = {.micro_batch = 1, .n_microbatches = 1, .n_sequences = 1};
    const int64_t extents[2] = {4, 4};
    pl_mesh mesh = {0};
    pl_program *p = pl_program_create(&mesh, &batch);
    int v[6], n = 0, layer = o == OTHER_LAYER; /* a, b, x, y, z, another */

    for (int i = 0; i < 6; i++)
        v[i] = pl_value_add(p, PL_ACTIVATION, 0,
                            i == 0   ? "IJ"
                            : i == 1 ? "JK"
                                     : "IK",
                            extents, pl_arena_printf(p->arena, "v%d", i));
    p->values[v[3]].is_output = o == READ_BY_HOST;
    if (o == OTHER_DTYPE)
        p->values[v[2]].dtype = PL_BF16;
    if (o == ALIASED || o == ALIAS)
        p->values[v[o == ALIASED ? 5 : 3]].alias_of = v[o == ALIASED ? 3 : 5];
    if (o != LATE_RESIDUAL)
        pl_op_add(p, PL_FILL, PL_FORWARD, 0, 0, NULL, 1, &v[2]);
    if (o != LATE_PRODUCT)
        pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, v, 1, &v[3]);
    if (o == LATE_RESIDUAL)
        pl_op_add(p, PL_FILL, PL_FORWARD, 0, 0, NULL, 1, &v[2]);
    pl_op_add(p, PL_ADD, PL_FORWARD, layer, 2, (int[]){v[o == TWICE ? 3 : 2], v[3]}, 1, &v[4]);
    if (o == READ_AGAIN)
        pl_op_add(p, PL_ACCUMULATE, PL_FORWARD, 0, 1, &v[3], 1, &v[5]);
    if (o == SECOND_RESIDUAL)
        pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, (int[]){v[2], v[4]}, 1, &v[5]);
    if (o == LATE_PRODUCT)
        pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, v, 1, &v[3]);
    pl_fuse_additions(p);
    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == PL_ADD;
    pl_program_destroy(p);
    return n;
}

START_TEST(a_product_that_is_needed_elsewhere_is_not_fused)
{
    ck_assert_int_eq(additions_left(NOTHING_ELSE), 0);
    for (obstacle o = READ_AGAIN; o < N_OBSTACLES; o++)
        ck_assert_msg(additions_left(o) == 1, "obstacle %d", (int)o);
}
END_TEST

/* A program of n square arrays and no ops; ids count from 0. */
static pl_program *squares(const pl_mesh *mesh, int n)
{
    const pl_batch batch = {.micro_batch = 1, .n_microbatches = 1, .n_sequences = 1};
    const int64_t extents[2] = {4, 4};
    pl_program *p = pl_program_create(mesh, &batch);

    for (int i = 0; i < n; i++)
        pl_value_add(p, PL_ACTIVATION, 0, "IJ", extents, "square");
    return p;
}

/* u = a . b; y = c . d; w = x + u; z = w + y: when the first product makes w, w is there before y.
 */
START_TEST(a_sum_is_made_where_the_product_that_took_it_over_stands)
{
    enum { A, B, C, D, X, U, Y, W, Z, N };
    const pl_mesh mesh = {0};
    pl_program *p = squares(&mesh, N);

    pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, (int[]){A, B}, 1, (int[]){U});
    pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, (int[]){C, D}, 1, (int[]){Y});
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, (int[]){X, U}, 1, (int[]){W});
    pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, (int[]){W, Y}, 1, (int[]){Z});
    pl_fuse_additions(p);
    ck_assert_int_eq(p->n_ops, 2);
    for (int i = 0; i < 2; i++)
        ck_assert(p->ops[i].kind == PL_EINSUM && p->ops[i].n_in == 3);
    ck_assert(p->ops[0].in[2] == X && p->ops[0].out[0] == W);
    ck_assert(p->ops[1].in[2] == W && p->ops[1].out[0] == Z);
    pl_program_destroy(p);
}
END_TEST

/* u = a . b; v += u; w += v: the product is behind both. */
START_TEST(accumulations_in_a_row_fuse_into_one_product)
{
    enum { A, B, U, V, W, N };
    const pl_mesh mesh = {0};
    pl_program *p = squares(&mesh, N);

    pl_op_add(p, PL_EINSUM, PL_BACKWARD, 0, 2, (int[]){A, B}, 1, (int[]){U});
    pl_op_add(p, PL_ACCUMULATE, PL_BACKWARD, 0, 1, (int[]){U}, 1, (int[]){V});
    pl_op_add(p, PL_ACCUMULATE, PL_BACKWARD, 0, 1, (int[]){V}, 1, (int[]){W});
    pl_fuse_accumulations(p);
    ck_assert_int_eq(p->n_ops, 1);
    ck_assert(p->ops[0].kind == PL_EINSUM && p->ops[0].out[0] == W);
    pl_program_destroy(p);
}
END_TEST

/* When the first and the last kernel of a layer run in a phase, those of accumulations left out. */
static void find_kernels(const pl_program *p, pl_phase phase, int layer, int *first, int *last)
{
    *first = *last = -1;
    for (int a = 0; a < p->n_actions; a++) {
        const pl_op *op = &p->ops[p->actions[a].op];

        if (p->actions[a].kind != PL_ACTION_RUN || op->phase != phase || op->layer != layer ||
            op->kind == PL_ACCUMULATE)
            continue;
        *first = *first < 0 ? a : *first;
        *last = a;
    }
}

static int action_of(const pl_program *p, pl_action_kind kind, int op)
{
    for (int a = 0; a < p->n_actions; a++)
        if (p->actions[a].kind == kind && p->actions[a].op == op)
            return a;
    return -1;
}

/* Forward to layer 3 from layer 2, and back: beside the gathers of the backward pass gradients are
 * reduced. */
START_TEST(fsdp_gathers_a_layer_at_once_and_a_layer_ahead)
{
    const pl_phase phase = _i == 0 ? PL_FORWARD : PL_BACKWARD;
    const int layer = _i == 0 ? 3 : 2, before = _i == 0 ? 2 : 3;
    pl_mesh mesh;
    pl_plan plan = toy_plan("fsdp:2", 5, 8, 0);
    pl_program *p = toy_program(&plan, &mesh, 0);
    int gather, first, last;

    ck_assert_int_eq(count_ops(p, PL_KIND_ALL_GATHER, phase, layer, &gather), 1);
    ck_assert_int_eq(p->ops[gather].n_in, 9); /* the layer's weights */
    const int start = action_of(p, PL_ACTION_START, gather),
              wait = action_of(p, PL_ACTION_WAIT, gather);
    find_kernels(p, phase, before, &first, &last);
    ck_assert(0 <= start && start < first && first < last && last < wait);
    ck_assert(!p->ops[gather].critical);
    pl_program_destroy(p);
}
END_TEST

START_TEST(dp_reduces_a_layers_gradients_beside_the_backward_pass_of_the_one_below)
{
    pl_mesh mesh;
    pl_plan plan = toy_plan("dp:2", 5, 8, 0);
    pl_program *p = toy_program(&plan, &mesh, 0);
    int reduce, start = -1, last_of_layer = -1, first_below = -1;

    ck_assert_int_eq(count_ops(p, PL_KIND_ALL_REDUCE, PL_UPDATE, 3, &reduce), 1);
    for (int a = 0; a < p->n_actions; a++) {
        const pl_op *op = &p->ops[p->actions[a].op];

        if (p->actions[a].op == reduce && p->actions[a].kind == PL_ACTION_START)
            start = a;
        if (p->actions[a].kind != PL_ACTION_RUN || op->phase != PL_BACKWARD)
            continue;
        if (op->layer == 3)
            last_of_layer = a;
        if (op->layer == 2 && first_below < 0)
            first_below = a;
    }
    ck_assert_int_gt(start, last_of_layer);
    ck_assert_int_gt(first_below, start);
    pl_program_destroy(p);
}
END_TEST

START_TEST(tp_gathers_activations_on_the_critical_path)
{
    pl_mesh mesh;
    pl_plan plan = toy_plan("tp:2", 5, 8, 0);
    pl_program *p = toy_program(&plan, &mesh, 0);
    int op;

    /* Before attention and before the feed-forward block; q, k and v share one. */
    ck_assert_int_eq(count_ops(p, PL_KIND_ALL_GATHER, PL_FORWARD, 3, &op), 2);
    ck_assert(p->ops[op].critical);
    ck_assert_int_eq(count_ops(p, PL_KIND_REDUCE_SCATTER, PL_FORWARD, 3, &op), 2);
    ck_assert(p->ops[op].critical);
    ck_assert_int_eq(count_ops(p, PL_KIND_REDUCE_SCATTER, PL_BACKWARD, 3, &op), 2);
    pl_program_destroy(p);
}
END_TEST

START_TEST(zero_stages_shrink_moments_then_gradients)
{
    size_t moments[3], gradients[3];

    for (int zero = 0; zero < 3; zero++) {
        pl_mesh mesh;
        pl_plan plan = toy_plan("dp:4", 5, 8, 0);

        plan.spec.zero = zero;
        pl_program *p = toy_program(&plan, &mesh, 0);
        moments[zero] = p->pool_bytes[PL_MOMENT];
        gradients[zero] = p->pool_bytes[PL_GRADIENT];
        pl_program_destroy(p);
    }
    ck_assert_uint_eq(moments[1], moments[2]);
    ck_assert_uint_lt(moments[1] * 7, moments[0] * 2); /* a quarter, but for alignment */
    ck_assert_uint_eq(gradients[0], gradients[1]);
    ck_assert_uint_lt(gradients[2] * 7, gradients[0] * 2);
}
END_TEST

/* bf16 */

static pl_program *in_dtype(const char *spec, int zero, pl_dtype dtype, pl_mesh *mesh)
{
    pl_plan plan = toy_plan(spec, 5, 8, 0);

    plan.spec.zero = zero;
    plan.dtype = dtype;
    return toy_program(&plan, mesh, 0);
}

START_TEST(bf16_halves_weights_and_keeps_f32_masters_beside_the_moments)
{
    /* Arrays are of D 16 and more: 4 ranks hold shards of whole cache lines, but for norms. */
    static const struct {
        const char *spec;
        int zero;
    } cases[] = {{"dp:1", 0}, {"dp:4", 0}, {"dp:4", 1}, {"dp:4", 2}, {"fsdp:4", 0}, {"tp:4", 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_mesh mesh[2];
        pl_program *f32 = in_dtype(cases[i].spec, cases[i].zero, PL_F32, &mesh[0]);
        pl_program *bf16 = in_dtype(cases[i].spec, cases[i].zero, PL_BF16, &mesh[1]);
        const pl_coords origin = {{0}};
        int n_weights = 0;

        ck_assert_uint_eq(f32->pool_bytes[PL_MASTER], 0);
        ck_assert_uint_eq(bf16->pool_bytes[PL_GRADIENT], f32->pool_bytes[PL_GRADIENT]);
        ck_assert_uint_eq(bf16->pool_bytes[PL_MOMENT], f32->pool_bytes[PL_MOMENT]);
        for (int w = 0; w < bf16->n_values; w++) {
            char name[128];

            if (bf16->values[w].class != PL_WEIGHT || !bf16->values[w].persists)
                continue;
            snprintf(name, sizeof name, "master.%s", bf16->values[w].name);
            const int master = pl_value_find(bf16, name);
            snprintf(name, sizeof name, "m.%s", bf16->values[w].name);
            const int moment = pl_value_find(bf16, name);
            ck_assert_int_eq(bf16->values[w].dtype, PL_BF16);
            ck_assert(master != PL_NONE && bf16->values[master].class == PL_MASTER);
            ck_assert_int_eq(bf16->values[master].dtype, PL_F32);
            ck_assert_int_ge(bf16->values[master].offset, 0);
            ck_assert_int_eq(pl_local_elements(bf16, master, origin),
                             pl_local_elements(bf16, moment, origin));
            n_weights++;
        }
        ck_assert_int_eq(n_weights, 5 * 9 + 3);
        pl_program_destroy(f32);
        pl_program_destroy(bf16);
    }
}
END_TEST

/* Bytes that the rank at the origin sends in communications of that kind. */
static int64_t sent_by(const pl_program *p, pl_kind kind)
{
    const pl_coords origin = {{0}};
    int64_t bytes = 0;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind)
            bytes += pl_op_sent_bytes(p, &p->ops[i], origin);
    return bytes;
}

START_TEST(bf16_halves_what_is_gathered_and_not_what_is_summed_into_gradients)
{
    static const struct {
        const char *spec;
        int zero;
        pl_kind halved, kept; /* PL_N_KINDS: none */
    } cases[] = {{"fsdp:4", 0, PL_KIND_ALL_GATHER, PL_KIND_REDUCE_SCATTER},
                 {"dp:4", 0, PL_N_KINDS, PL_KIND_ALL_REDUCE},
                 {"dp:4", 1, PL_KIND_ALL_GATHER, PL_KIND_REDUCE_SCATTER},
                 {"tp:4", 0, PL_KIND_ALL_GATHER, PL_N_KINDS},
                 {"tp:4", 0, PL_KIND_REDUCE_SCATTER, PL_N_KINDS}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_mesh mesh[2];
        pl_program *f32 = in_dtype(cases[i].spec, cases[i].zero, PL_F32, &mesh[0]);
        pl_program *bf16 = in_dtype(cases[i].spec, cases[i].zero, PL_BF16, &mesh[1]);

        if (cases[i].halved != PL_N_KINDS) {
            ck_assert_int_gt(sent_by(f32, cases[i].halved), 0);
            ck_assert_int_eq(2 * sent_by(bf16, cases[i].halved), sent_by(f32, cases[i].halved));
        }
        if (cases[i].kept != PL_N_KINDS) {
            ck_assert_int_gt(sent_by(f32, cases[i].kept), 0);
            ck_assert_int_eq(sent_by(bf16, cases[i].kept), sent_by(f32, cases[i].kept));
        }
        pl_program_destroy(f32);
        pl_program_destroy(bf16);
    }
}
END_TEST

/* pipeline */

START_TEST(a_pipeline_gets_two_microbatches_a_stage_unless_told)
{
    pl_mesh mesh;
    pl_plan plan = toy_plan("pp:2+dp:2", 5, 16, 0); /* a share of 8 sequences */
    pl_program *p = toy_program(&plan, &mesh, 1);

    ck_assert_int_eq(p->batch.micro_batch, 2);
    ck_assert_int_eq(p->batch.n_microbatches, 4);
    pl_program_destroy(p);
}
END_TEST

START_TEST(stages_built_together_are_those_built_alone)
{
    pl_mesh mesh;
    const pl_plan plan = toy_plan("pp:3+fsdp:2", 5, 12, 2);
    pl_program *together[3];

    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    pl_build_stages(&plan, &mesh, together);
    for (int s = 0; s < 3; s++) {
        pl_program *alone = pl_build(&plan, &mesh, s), *p = together[s];

        ck_assert_int_eq(p->stage, s);
        ck_assert(p->n_values == alone->n_values && p->n_ops == alone->n_ops);
        for (int v = 0; v < p->n_values; v++) {
            ck_assert_str_eq(p->values[v].name, alone->values[v].name);
            ck_assert(p->values[v].offset == alone->values[v].offset);
        }
        for (int i = 0; i < p->n_ops; i++)
            ck_assert(p->ops[i].kind == alone->ops[i].kind &&
                      p->ops[i].layer == alone->ops[i].layer &&
                      p->ops[i].microbatch == alone->ops[i].microbatch);
        ck_assert(p->n_actions == alone->n_actions);
        ck_assert(memcmp(p->actions, alone->actions, (size_t)p->n_actions * sizeof *p->actions) ==
                  0);
        pl_program_destroy(alone);
        pl_program_destroy(p);
    }
}
END_TEST

/* With fewer key/value heads than tp ranks these rotate sequences that are split: what an input
 * says of a token's place is cut to each rank's part, on every stage, none of which sends it on. */
START_TEST(inputs_are_cut_on_every_stage_that_reads_them)
{
    pl_mesh mesh;
    pl_plan plan = toy_plan("pp:3+tp:2", 3, 4, 2);
    pl_program *stages[3];

    plan.model.n_kv_heads = 1;
    ck_assert(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    pl_build_stages(&plan, &mesh, stages);
    for (int s = 0; s < 3; s++) {
        int n_cut = 0;

        for (int i = 0; i < stages[s]->n_ops; i++) {
            const pl_op *op = &stages[s]->ops[i];

            if (op->n_in == 1 && op->n_out == 1 && !pl_kind_is_communication(op->kind) &&
                stages[s]->values[op->in[0]].class == PL_TOKEN &&
                stages[s]->values[op->out[0]].class == PL_TOKEN)
                n_cut++;
        }
        ck_assert_int_eq(n_cut, 2); /* a layer, two microbatches */
        pl_program_destroy(stages[s]);
    }
}
END_TEST

START_TEST(every_schedule_completes)
{
    for (int stages = 1; stages <= 9; stages++)
        for (int m = 1; m <= 12; m++) {
            ck_assert(pl_pipeline_completes(PL_GPIPE, stages, m));
            ck_assert(pl_pipeline_completes(PL_1F1B, stages, m));
        }
}
END_TEST

/* Most microbatches whose forward pass is done and whose backward pass is not. */
static int most_live(pl_pipeline_kind kind, int stages, int m, int stage)
{
    pl_slot slots[64];
    bool forward[32] = {false}, backward[32] = {false};
    int live = 0, most = 0;
    const int n = pl_pipeline_slots(kind, stages, m, stage, false, slots);

    ck_assert_int_eq(n, 2 * m);
    for (int i = 0; i < n; i++) {
        const int b = slots[i].microbatch;

        if (slots[i].phase == PL_FORWARD) {
            ck_assert(!forward[b]);
            forward[b] = true;
            live++;
        } else {
            ck_assert(forward[b] && !backward[b]);
            backward[b] = true;
            live--;
        }
        most = live > most ? live : most;
    }
    ck_assert_int_eq(live, 0);
    return most;
}

START_TEST(one_f_one_b_keeps_few_microbatches_alive)
{
    for (int stage = 0; stage < 4; stage++) {
        ck_assert_int_eq(most_live(PL_1F1B, 4, 12, stage), 4 - stage);
        ck_assert_int_eq(most_live(PL_GPIPE, 4, 12, stage), 12);
        ck_assert_int_eq(most_live(PL_1F1B, 4, 3, stage), stage == 0 ? 3 : 4 - stage);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("program");
    TCase *partition = tcase_create("partition"), *passes = tcase_create("passes"),
          *pipeline = tcase_create("pipeline");

    tcase_add_loop_test(partition, a_product_gets_the_communication_of_its_case, 0,
                        sizeof products / sizeof *products);
    tcase_add_loop_test(passes, nothing_touches_what_is_in_flight, 0, N_PLANS);
    tcase_add_loop_test(passes, values_that_live_together_share_no_memory, 0, N_PLANS);
    tcase_add_loop_test(passes, nothing_is_read_after_an_op_has_worked_in_its_place, 0, N_PLANS);
    tcase_add_test(passes, an_input_that_is_read_again_keeps_its_storage);
    tcase_add_loop_test(passes,
                        products_are_added_to_the_residual_stream_unless_tp_must_sum_them_first, 0,
                        N_PLANS);
    tcase_add_test(passes, a_product_that_is_needed_elsewhere_is_not_fused);
    tcase_add_test(passes, a_sum_is_made_where_the_product_that_took_it_over_stands);
    tcase_add_test(passes, accumulations_in_a_row_fuse_into_one_product);
    tcase_add_loop_test(passes, fsdp_gathers_a_layer_at_once_and_a_layer_ahead, 0, 2);
    tcase_add_test(passes, dp_reduces_a_layers_gradients_beside_the_backward_pass_of_the_one_below);
    tcase_add_test(passes, tp_gathers_activations_on_the_critical_path);
    tcase_add_test(passes, zero_stages_shrink_moments_then_gradients);
    tcase_add_test(passes, bf16_halves_weights_and_keeps_f32_masters_beside_the_moments);
    tcase_add_test(passes, bf16_halves_what_is_gathered_and_not_what_is_summed_into_gradients);
    tcase_add_test(pipeline, a_pipeline_gets_two_microbatches_a_stage_unless_told);
    tcase_add_test(pipeline, stages_built_together_are_those_built_alone);
    tcase_add_test(pipeline, inputs_are_cut_on_every_stage_that_reads_them);
    tcase_add_test(pipeline, every_schedule_completes);
    tcase_add_test(pipeline, one_f_one_b_keeps_few_microbatches_alive);
    suite_add_tcase(suite, partition);
    suite_add_tcase(suite, passes);
    suite_add_tcase(suite, pipeline);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
