#include "config.h"

#include "tests/small_program.h"

#include "src/base/memory.h"

#include <check.h>

pl_mesh mesh_of(const char *name, int size)
{
    pl_mesh mesh = {0};

    ck_assert(pl_mesh_add(&mesh, name, size) == PL_OK);
    return mesh;
}

pl_program *empty_program(const pl_mesh *mesh)
{
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(mesh, &batch);

    p->actions = pl_alloc(64 * sizeof *p->actions);
    return p;
}

void act(pl_program *p, pl_action_kind kind, int op)
{
    p->actions[p->n_actions++] = (pl_action){kind, op};
}

int add_op(pl_program *p, int64_t n)
{
    int v[3];

    for (int i = 0; i < 3; i++)
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, "v%d", i);
    return pl_op_add(p, PL_ADD, PL_FORWARD, 0, 2, v, 1, &v[2]);
}

int product_op(pl_program *p, int64_t T, int64_t D, int64_t F)
{
    const int64_t td[] = {T, D}, df[] = {D, F}, tf[] = {T, F};
    const int in[2] = {pl_value_add(p, PL_ACTIVATION, 0, "TD", td, "x"),
                       pl_value_add(p, PL_WEIGHT, 0, "DF", df, "w")};
    const int out = pl_value_add(p, PL_ACTIVATION, 0, "TF", tf, "y");

    return pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, in, 1, &out);
}

int all_reduce_op(pl_program *p, int64_t n)
{
    const int in = pl_value_add(p, PL_COMM_BUFFER, 0, "D", &n, "x");
    const int out = pl_value_clone(p, in);
    const int op = pl_op_add(p, PL_KIND_ALL_REDUCE, PL_BACKWARD, 0, 1, &in, 1, &out);

    p->values[out].alias_of = in;
    p->ops[op].axes = 1;
    return op;
}

int move_op(pl_program *p, pl_kind kind, int peer, int64_t n)
{
    const int v = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, "x");
    const bool sends = kind == PL_KIND_SEND;
    const int op = pl_op_add(p, kind, PL_FORWARD, 0, sends, &v, !sends, &v);

    p->ops[op].axes = 1;
    p->ops[op].microbatch = 0;
    p->ops[op].peer_stage = peer;
    return op;
}
