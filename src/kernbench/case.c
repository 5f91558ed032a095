#include "config.h"

#include "src/kernbench/case.h"

#include "src/base/bf16.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/program/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const pl_coords only_rank = {{0}};

const char *pl_group_name(pl_case_group group)
{
    static const char *const names[PL_N_GROUPS] = {
        "square", "model", "small", "skinny", "weights", "attention", "cache", "dram", "other"};
    return names[group];
}

/* ---- cost and traffic */

/* What cost.bytes consists of: an output is written; an output that is an input, or that is added
 * to, is read and written where it lies; what is scattered updates as it goes. */
static void find_traffic(pl_case *c)
{
    const pl_op *op = c->op;

    for (int i = 0; i < op->n_in; i++)
        c->set_bytes += pl_array_bytes(&c->in[i]);
    for (int i = 0; i < op->n_out; i++) {
        const bool is_input = c->program->values[op->out[i]].alias_of != PL_NONE;

        if (is_input || op->accumulate)
            c->updated_bytes += 2 * pl_array_bytes(&c->out[i]);
        else
            c->written_bytes += pl_array_bytes(&c->out[i]);
        if (!is_input)
            c->set_bytes += pl_array_bytes(&c->out[i]);
    }
    if (c->kernel->scatters)
        c->updated_bytes = c->cost.bytes - c->set_bytes;
    c->updated_bytes = fmin(c->updated_bytes, c->cost.bytes);
    c->written_bytes = fmin(c->written_bytes, c->cost.bytes - c->updated_bytes);
}

/* Whether input i is updated: some output is the same array. */
static bool is_updated(const pl_case *c, int i)
{
    for (int k = 0; k < c->op->n_out; k++)
        if (c->program->values[c->op->out[k]].alias_of == c->op->in[i])
            return true;
    return false;
}

/* Shares out what is read: all inputs in proportion, or the largest first while any is left. */
static void share_read(double read, int n, double *bytes)
{
    double inputs = 0;

    for (int i = 0; i < n; i++)
        inputs += bytes[i];
    for (int i = 0; i < n && read >= inputs; i++)
        bytes[i] *= read / inputs;
    while (inputs > read) {
        int least = 0;

        for (int i = 1; i < n; i++)
            if (bytes[least] == 0 || (bytes[i] > 0 && bytes[i] < bytes[least]))
                least = i;
        const double cut = fmin(bytes[least], inputs - read);

        bytes[least] -= cut;
        inputs -= cut;
    }
}

/* Every operand as a stream, and the bytes of it that pass once. */
static pl_mix streams(const pl_case *c, double *bytes)
{
    const pl_op *op = c->op;
    pl_mix mix = {0};

    for (int i = 0; i < op->n_in; i++) {
        if (is_updated(c, i))
            continue;
        mix.stream[mix.n].use = PL_STREAM_READ;
        bytes[mix.n++] = pl_array_bytes(&c->in[i]);
    }
    share_read(c->cost.bytes - c->written_bytes - c->updated_bytes, mix.n, bytes);
    for (int i = 0; i < op->n_out; i++) {
        const bool in_place = c->program->values[op->out[i]].alias_of != PL_NONE;

        mix.stream[mix.n].use = in_place || op->accumulate ? PL_STREAM_UPDATE : PL_STREAM_WRITE;
        bytes[mix.n++] = pl_array_bytes(&c->out[i]);
    }
    if (c->kernel->scatters) {
        mix.stream[mix.n].use = PL_STREAM_UPDATE;
        bytes[mix.n++] = c->updated_bytes / 2;
    }
    return mix;
}

pl_mix pl_case_mix(const pl_case *c)
{
    enum { LEAST_PART = 8 };
    double bytes[PL_MIX_STREAMS], most = 0, least;
    const pl_mix all = streams(c, bytes);
    pl_mix mix = {0};

    for (int i = 0; i < all.n; i++)
        most = fmax(most, bytes[i]);
    least = most;
    for (int i = 0; i < all.n; i++)
        if (bytes[i] >= most / LEAST_PART)
            least = fmin(least, bytes[i]);
    for (int i = 0; i < all.n; i++) {
        if (bytes[i] < least)
            continue;
        mix.stream[mix.n].use = all.stream[i].use;
        mix.stream[mix.n++].lines = (int)lround(bytes[i] / least);
    }
    return mix;
}

static void name_shape(pl_case *c)
{
    const char *names = c->kernel->sizes;
    size_t n = 0;

    for (int i = 0; i < c->kernel->n_sizes && n < sizeof c->shape; i++)
        if (c->is_product)
            n += (size_t)snprintf(c->shape + n, sizeof c->shape - n, "%s%lld", i > 0 ? "x" : "",
                                  (long long)c->size[i]);
        else
            n += (size_t)snprintf(c->shape + n, sizeof c->shape - n, "%s%c%lld", i > 0 ? " " : "",
                                  names[2 * i], (long long)c->size[i]);
}

void pl_case_open(pl_case *c, const pl_kernel *kernel, pl_case_group group, pl_dtype dtype,
                  const int64_t *size)
{
    *c = (pl_case){.kernel = kernel, .group = group, .dtype = dtype};
    memcpy(c->size, size, (size_t)kernel->n_sizes * sizeof *size);
    kernel->build(c, size);
    PL_ASSERT(c->op->n_in <= PL_CASE_OPERANDS && c->op->n_out <= PL_CASE_OPERANDS);
    c->view = (pl_op_view){.in = c->in, .out = c->out};
    pl_op_view_fill(&c->view, c->program, c->op, only_rank);
    c->cost = pl_op_cost_at(c->program, c->op, only_rank);
    if (kernel->run != NULL)
        c->cost.bytes = pl_view_bytes(&c->view);
    if (kernel->weights == PL_WEIGHTS_INT8)
        c->cost.bytes +=
            (double)pl_int8_weights_bytes(c->product.K, c->product.N) - pl_array_bytes(&c->in[1]);
    find_traffic(c);
    name_shape(c);
}

/* ---- arrays */

static void put(const pl_array *array, int64_t i, double x)
{
    if (array->dtype == PL_I32)
        ((int32_t *)array->data)[i] = (int32_t)x;
    else if (array->dtype == PL_BF16)
        ((pl_bf16 *)array->data)[i] = pl_bf16_of_f32((float)x);
    else
        ((float *)array->data)[i] = (float)x;
}

double pl_array_element(const pl_array *array, int64_t i)
{
    if (array->dtype == PL_I32)
        return (double)((const int32_t *)array->data)[i];
    if (array->dtype == PL_BF16)
        return (double)pl_bf16_to_f32(((const pl_bf16 *)array->data)[i]);
    return (double)((const float *)array->data)[i];
}

/* The cosine or sine of entry i of a table [positions, H / 2]. */
static double table_entry(const pl_array *array, int64_t i, bool cosine)
{
    const int64_t half = array->extents.n[1];
    const double angle = (double)(i / half) * pow(10000.0, -(double)(i % half) / (double)half);

    return cosine ? cos(angle) : sin(angle);
}

static void fill_array(const pl_case *c, int value, const pl_array *array, bool exact)
{
    const pl_fill fill = exact && c->is_product ? PL_FILL_INTEGERS : c->fill[value].fill;
    /* sums that are rounded to bf16 stay within +-256; 127 is a byte, and its scale 1 */
    const bool is_int8 = c->kernel->weights == PL_WEIGHTS_INT8;
    const double most = is_int8 || c->product.c_dtype == PL_BF16 ? 1 : 4;
    const double low = exact && c->is_product ? -most : c->fill[value].low;
    const double high = exact && c->is_product ? most : c->fill[value].high;
    const double factor = exact && is_int8 ? 127 : 1;
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(value + 1);

    for (int64_t i = 0; i < array->n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double u = (double)(state >> 40) * 0x1p-24;

        switch (fill) {
        case PL_FILL_UNIFORM:
            put(array, i, low + u * (high - low));
            break;
        case PL_FILL_INTEGERS:
            put(array, i, factor * (low + floor(u * (high - low + 1))));
            break;
        case PL_FILL_RISING:
            put(array, i, floor((double)i / low));
            break;
        case PL_FILL_LENGTHS:
            put(array, i, log(floor((double)i / low) + 1) + high);
            break;
        case PL_FILL_TABLE:
            put(array, i, table_entry(array, i, low > 0));
            break;
        }
    }
}

static void allocate(pl_case *c)
{
    const pl_op *op = c->op;

    for (int i = 0; i < op->n_in; i++)
        c->in[i].data = pl_alloc((size_t)pl_array_bytes(&c->in[i]));
    for (int i = 0; i < op->n_out; i++) {
        const int whole = c->program->values[op->out[i]].alias_of;

        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] == whole)
                c->out[i].data = c->in[k].data;
        if (whole == PL_NONE)
            c->out[i].data = pl_alloc((size_t)pl_array_bytes(&c->out[i]));
    }
    const pl_kind_info *kind = pl_kind_of(op->kind);
    if (kind->workspace != NULL)
        c->view.workspace = pl_alloc((size_t)kind->workspace(&c->view) * sizeof(float));
}

static void bind_product(pl_case *c)
{
    pl_product *p = &c->product;

    p->dots = true; /* as pl_matmul() asks for */
    p->a = c->in[0].data;
    p->b = c->in[1].data;
    p->c = c->out[0].data;
    if (c->kernel->weights == PL_WEIGHTS_PACKED)
        p->packed = c->packed = pl_matmul_packed_create(p->dtype, p->K, p->N);
    if (c->kernel->weights == PL_WEIGHTS_INT8)
        p->int8 = c->int8 = pl_int8_weights_create(p->K, p->N);
}

void pl_case_fill(pl_case *c, bool exact)
{
    const pl_op *op = c->op;

    if (c->in[0].data == NULL) {
        allocate(c);
        if (c->is_product)
            bind_product(c);
    }
    for (int i = 0; i < op->n_in; i++)
        fill_array(c, op->in[i], &c->in[i], exact);
    for (int i = 0; i < op->n_out; i++) /* its pages, too, are touched before any timing */
        if (c->program->values[op->out[i]].alias_of == PL_NONE)
            memset(c->out[i].data, 0, (size_t)pl_array_bytes(&c->out[i]));
    if (c->packed != NULL)
        pl_matmul_pack(c->packed, c->product.trans_b, c->product.b, c->product.ldb);
    if (c->int8 != NULL)
        pl_int8_weights_quantize(c->int8, c->product.trans_b, c->dtype, c->product.b,
                                 c->product.ldb);
}

void pl_case_run(pl_case *c)
{
    if (c->packed != NULL || c->int8 != NULL)
        pl_matmul_run(&c->product, NULL);
    else if (c->kernel->run != NULL)
        c->kernel->run(&c->view);
    else
        pl_kind_of(c->op->kind)->run(&c->view);
}

void pl_case_close(pl_case *c)
{
    for (int i = 0; i < c->op->n_out; i++)
        if (c->program->values[c->op->out[i]].alias_of == PL_NONE)
            pl_free(c->out[i].data);
    for (int i = 0; i < c->op->n_in; i++)
        pl_free(c->in[i].data);
    pl_free(c->view.workspace);
    pl_matmul_packed_destroy(c->packed);
    pl_int8_weights_destroy(c->int8);
    pl_program_destroy(c->program);
    *c = (pl_case){.kernel = NULL};
}
