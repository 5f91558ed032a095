/* reshard -- a change of sharding asked for by the logical program; partition turns it into
 *            collectives, and what is left of it is a view.
 * slice   -- out = this rank's block of in along number[0] (a dim): a view where the block is
 *            contiguous (then out is an alias of in and there is nothing to run), else a copy. */
#include "config.h"

#include "src/program/ops/ops.h"

#include <string.h>

static void run_nothing(const pl_op_view *view)
{
    (void)view;
}

static void cost_nothing(const pl_op_view *view, pl_op_cost *cost)
{
    (void)view;
    (void)cost;
}

const pl_kind_info pl_op_reshard = {.name = "reshard",
                                    .whole = "",
                                    .linear = true,
                                    .in_place = PL_NONE,
                                    .cost = cost_nothing,
                                    .run = run_nothing};

static bool is_view(const pl_op_view *view)
{
    return view->program->values[view->op->out[0]].alias_of != PL_NONE;
}

static void run_slice(const pl_op_view *view)
{
    const int dim = (int)view->op->number[0];
    const pl_extents *from = &view->in[0].extents, *to = &view->out[0].extents;
    int64_t outer = 1, inner = 1;

    if (is_view(view))
        return;
    for (int d = 0; d < dim; d++)
        outer *= to->n[d];
    for (int d = dim + 1; d < to->n_dims; d++)
        inner *= to->n[d];
    const char *source = view->in[0].data;
    char *target = view->out[0].data;
    const size_t row = (size_t)inner * pl_dtype_bytes(view->in[0].dtype);
    const size_t run = (size_t)to->n[dim] * row, stride = (size_t)from->n[dim] * row;
    const size_t skipped = (size_t)(to->begin[dim] - from->begin[dim]) * row;

    for (int64_t i = 0; i < outer; i++)
        memcpy(target + (size_t)i * run, source + (size_t)i * stride + skipped, run);
}

static void cost_slice(const pl_op_view *view, pl_op_cost *cost)
{
    if (!is_view(view))
        cost->bytes = 2 * pl_array_bytes(&view->out[0]);
}

const pl_kind_info pl_op_slice = {
    .name = "slice", .whole = "", .in_place = PL_NONE, .cost = cost_slice, .run = run_slice};
