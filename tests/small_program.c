#include "config.h"

#include "tests/small_program.h"

#include "src/base/memory.h"

#include <check.h>

static pl_program *empty_program(const pl_mesh *mesh, int stage, int n_stages)
{
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(mesh, &batch);

    p->stage = stage;
    p->n_stages = n_stages;
    p->actions = pl_alloc(64 * sizeof *p->actions);
    return p;
}

static small_step *step_of(const char *axis, int size, int n_stages)
{
    small_step *step = pl_alloc(sizeof *step);

    step->machine = round_machine();
    ck_assert(pl_mesh_add(&step->mesh, axis, size) == PL_OK);
    step->n_stages = n_stages;
    for (int i = 0; i < n_stages; i++)
        step->p[i] = empty_program(&step->mesh, i, n_stages);
    return step;
}

small_step *one_stage(int n_ranks)
{
    return step_of("dp", n_ranks, 1);
}

small_step *two_stages(void)
{
    return step_of("pp", 2, 2);
}

small_step *three_stages(void)
{
    return step_of("pp", 3, 3);
}

void small_step_destroy(small_step *step)
{
    for (int i = 0; i < step->n_stages; i++)
        pl_program_destroy(step->p[i]);
    pl_free(step);
}

void deal_to_hosts(small_step *step, int ranks_per_host)
{
    for (int i = 0; i < step->n_stages; i++)
        step->p[i]->fabric.ranks_per_host = ranks_per_host;
}

pl_prediction *predict(const small_step *step)
{
    const pl_program *stages[] = {step->p[0], step->p[1], step->p[2]};

    return pl_predict(stages, step->n_stages, &step->machine);
}

void act(pl_program *p, pl_action_kind kind, int op)
{
    p->actions[p->n_actions++] = (pl_action){kind, op};
}

void start_and_wait(pl_program *p, int op)
{
    act(p, PL_ACTION_START, op);
    act(p, PL_ACTION_WAIT, op);
}

int add_op(pl_program *p, int64_t n)
{
    int v[3];

    for (int i = 0; i < 3; i++)
        v[i] = pl_value_add(p, PL_ACTIVATION, 0, "D", &n, pl_arena_printf(p->arena, "v%d", i));
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

pl_prediction *predict_beside_add(const pl_machine *machine, int64_t n, int ranks_per_host)
{
    small_step *step = one_stage(2);
    pl_program *p = step->p[0];
    const int reduce = all_reduce_op(p, HALF_BYTES / 2), add = add_op(p, n);

    step->machine = *machine;
    act(p, PL_ACTION_START, reduce);
    act(p, PL_ACTION_RUN, add);
    act(p, PL_ACTION_WAIT, reduce);
    deal_to_hosts(step, ranks_per_host);
    pl_prediction *prediction = predict(step);
    small_step_destroy(step);
    return prediction;
}
