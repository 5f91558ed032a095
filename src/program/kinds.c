#include "config.h"

#include "src/program/kinds.h"

#include "src/base/panic.h"
#include "src/program/ops/ops.h"

/* Communication kinds are run by the engine and priced by their schedules. */
#define COMMUNICATION(text)                                                                        \
    {                                                                                              \
        .name = (text), .whole = "", .in_place = PL_NONE                                           \
    }

const pl_kind_info *pl_kind_of(pl_kind kind)
{
    static const pl_kind_info all_gather = COMMUNICATION("AllGather");
    static const pl_kind_info reduce_scatter = COMMUNICATION("ReduceScatter");
    static const pl_kind_info all_reduce = COMMUNICATION("AllReduce");
    static const pl_kind_info all_to_all = COMMUNICATION("AllToAll");
    static const pl_kind_info send = COMMUNICATION("Send");
    static const pl_kind_info recv = COMMUNICATION("Recv");
    static const pl_kind_info *const table[PL_N_KINDS] = {
        [PL_EINSUM] = &pl_op_einsum,
        [PL_ADD] = &pl_op_add_arrays,
        [PL_RMSNORM] = &pl_op_rmsnorm,
        [PL_RMSNORM_BACKWARD] = &pl_op_rmsnorm_backward,
        [PL_ROPE] = &pl_op_rope,
        [PL_ROPE_BACKWARD] = &pl_op_rope_backward,
        [PL_ATTENTION] = &pl_op_attention,
        [PL_ATTENTION_BACKWARD] = &pl_op_attention_backward,
        [PL_SWIGLU] = &pl_op_swiglu,
        [PL_SWIGLU_BACKWARD] = &pl_op_swiglu_backward,
        [PL_EMBED] = &pl_op_embed,
        [PL_EMBED_BACKWARD] = &pl_op_embed_backward,
        [PL_XENT_MAX] = &pl_op_xent_max,
        [PL_XENT_SUM] = &pl_op_xent_sum,
        [PL_XENT_LOSS] = &pl_op_xent_loss,
        [PL_XENT_GRAD] = &pl_op_xent_grad,
        [PL_ACCUMULATE] = &pl_op_accumulate,
        [PL_FILL] = &pl_op_fill,
        [PL_SUM_SQUARES] = &pl_op_sum_squares,
        [PL_CLIP] = &pl_op_clip,
        [PL_ADAMW] = &pl_op_adamw,
        [PL_RESHARD] = &pl_op_reshard,
        [PL_SLICE] = &pl_op_slice,
        [PL_KIND_ALL_GATHER] = &all_gather,
        [PL_KIND_REDUCE_SCATTER] = &reduce_scatter,
        [PL_KIND_ALL_REDUCE] = &all_reduce,
        [PL_KIND_ALL_TO_ALL] = &all_to_all,
        [PL_KIND_SEND] = &send,
        [PL_KIND_RECV] = &recv,
    };
    return table[kind];
}

static void fill_operands(pl_array *arrays, const int *values, int n, const pl_program *p,
                          pl_coords coords)
{
    for (int i = 0; i < n; i++) {
        arrays[i] = (pl_array){.extents = pl_local_extents(p, values[i], coords),
                               .n = pl_local_elements(p, values[i], coords),
                               .dtype = p->values[values[i]].dtype};
    }
}

void pl_op_view_fill(pl_op_view *view, const pl_program *p, const pl_op *op, pl_coords coords)
{
    view->program = p;
    view->op = op;
    view->workspace = NULL;
    view->progress = NULL;
    fill_operands(view->in, op->in, op->n_in, p, coords);
    fill_operands(view->out, op->out, op->n_out, p, coords);
}

pl_op_cost pl_op_cost_at(const pl_program *p, const pl_op *op, pl_coords coords)
{
    pl_array in[PL_MAX_OPERANDS], out[PL_MAX_OPERANDS];
    pl_op_view view = {.in = in, .out = out};
    pl_op_cost cost = {0};

    if (pl_kind_is_communication(op->kind))
        return cost;
    PL_ASSERT(op->n_in <= PL_MAX_OPERANDS && op->n_out <= PL_MAX_OPERANDS);
    pl_op_view_fill(&view, p, op, coords);
    pl_kind_of(op->kind)->cost(&view, &cost);
    return cost;
}

int pl_op_products(const pl_program *p, const pl_op *op, pl_coords coords, pl_matmul_shape *shapes)
{
    pl_array in[PL_MAX_OPERANDS], out[PL_MAX_OPERANDS];
    pl_op_view view = {.in = in, .out = out};

    if (op->kind != PL_EINSUM)
        return 0;
    pl_op_view_fill(&view, p, op, coords);
    return pl_einsum_shapes(&view, shapes);
}

int64_t pl_array_dim(const pl_op_view *view, bool is_out, int operand, char name)
{
    const int v = is_out ? view->op->out[operand] : view->op->in[operand];
    const int d = pl_shape_dim(&view->program->values[v].shape, name);
    const pl_array *array = is_out ? &view->out[operand] : &view->in[operand];

    return d < 0 ? 1 : array->extents.n[d];
}
