/* kernels -- how the operation of each kernel is built: operands as the model's program has them
 * (src/model/transformer.c, optimizer.c, differentiate). */
#include "config.h"

#include "kernels/elementwise.h"
#include "src/base/panic.h"
#include "src/kernbench/case.h"

#include <string.h>

/* ---- the pieces */

/* The ids of an operation's operands, in order. */
typedef struct {
    int n_in, n_out;
    int in[PL_CASE_OPERANDS], out[PL_CASE_OPERANDS];
} operands;

/* An empty program over one rank; B sequences of T. */
static void begin(pl_case *c, int64_t T, int64_t B)
{
    const pl_batch batch = {.n_sequences = B, .micro_batch = B, .seq = T, .n_microbatches = 1};

    c->program = pl_program_create(&c->mesh, &batch);
}

static int value(pl_case *c, const char *dims, const int64_t *extents, pl_dtype dtype)
{
    const int v = pl_value_add(c->program, PL_ACTIVATION, 0, dims, extents, "value");

    PL_ASSERT(v < 2 * PL_CASE_OPERANDS);
    c->program->values[v].dtype = dtype;
    return v;
}

/* An input, filled. */
static void in(pl_case *c, operands *o, const char *dims, const int64_t *extents, pl_dtype dtype,
               pl_fill fill, double low, double high)
{
    const int v = value(c, dims, extents, dtype);

    c->fill[v].fill = fill;
    c->fill[v].low = low;
    c->fill[v].high = high;
    o->in[o->n_in++] = v;
}

static void uniform(pl_case *c, operands *o, const char *dims, const int64_t *extents)
{
    in(c, o, dims, extents, c->dtype, PL_FILL_UNIFORM, -0.5, 0.5);
}

/* An f32 number whatever the dtype. */
static void scalar(pl_case *c, operands *o, double x)
{
    in(c, o, "", NULL, PL_F32, PL_FILL_UNIFORM, x, x);
}

static void out(pl_case *c, operands *o, const char *dims, const int64_t *extents, pl_dtype dtype)
{
    o->out[o->n_out++] = value(c, dims, extents, dtype);
}

/* Input i, updated where it lies. */
static void out_of(pl_case *c, operands *o, int i)
{
    const int v = pl_value_clone(c->program, o->in[i]);

    c->program->values[v].alias_of = o->in[i];
    o->out[o->n_out++] = v;
}

static pl_op *end(pl_case *c, const operands *o, pl_kind kind)
{
    const int id = pl_op_add(c->program, kind, PL_FORWARD, 0, o->n_in, o->in, o->n_out, o->out);

    c->op = &c->program->ops[id];
    return c->op;
}

/* ---- products: c[M, N] = op(a) . op(b) */

static void build_product(pl_case *c, const int64_t *size, bool ta, bool tb, pl_dtype c_dtype)
{
    const int64_t M = size[0], N = size[1], K = size[2];
    const int64_t mk[] = {M, K}, km[] = {K, M}, kn[] = {K, N}, nk[] = {N, K}, mn[] = {M, N};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    uniform(c, &o, ta ? "KM" : "MK", ta ? km : mk);
    uniform(c, &o, tb ? "NK" : "KN", tb ? nk : kn);
    out(c, &o, "MN", mn, c_dtype);
    end(c, &o, PL_EINSUM);
    c->is_product = true;
    c->product = (pl_product){.trans_a = ta ? PL_TRANS : PL_NO_TRANS,
                              .trans_b = tb ? PL_TRANS : PL_NO_TRANS,
                              .M = M,
                              .N = N,
                              .K = K,
                              .dtype = c->dtype,
                              .c_dtype = c_dtype,
                              .lda = ta ? M : K,
                              .ldb = tb ? K : N,
                              .ldc = N,
                              .count = 1};
}

/* Forward: x . w. Activations have the type of the operands. */
static void build_matmul_nn(pl_case *c, const int64_t *size)
{
    build_product(c, size, false, false, c->dtype);
}

/* dX = dY . w^T. */
static void build_matmul_nt(pl_case *c, const int64_t *size)
{
    build_product(c, size, false, true, c->dtype);
}

/* dW = x^T . dY: gradients of weights are f32. */
static void build_matmul_tn(pl_case *c, const int64_t *size)
{
    build_product(c, size, true, false, PL_F32);
}

static void build_matmul_tt(pl_case *c, const int64_t *size)
{
    build_product(c, size, true, true, PL_F32);
}

/* Squares and the like: into f32, as libraries are compared. */
static void build_matmul(pl_case *c, const int64_t *size)
{
    build_product(c, size, false, false, PL_F32);
}

/* ---- attention */

static void build_attention(pl_case *c, const int64_t *size)
{
    const int64_t T = size[0], B = size[1], N = size[2], K = size[3], H = size[4];
    const int64_t tbnh[] = {T, B, N, H}, tbkh[] = {T, B, K, H};
    operands o = {.n_in = 0};

    begin(c, T, B);
    uniform(c, &o, "TBNH", tbnh);
    uniform(c, &o, "TBKH", tbkh);
    uniform(c, &o, "TBKH", tbkh);
    out(c, &o, "TBNH", tbnh, c->dtype);
    out(c, &o, "TBN", tbnh, PL_F32);
    end(c, &o, PL_ATTENTION);
}

static void build_attention_backward(pl_case *c, const int64_t *size)
{
    const int64_t T = size[0], B = size[1], N = size[2], K = size[3], H = size[4];
    const int64_t tbnh[] = {T, B, N, H}, tbkh[] = {T, B, K, H};
    operands o = {.n_in = 0};

    begin(c, T, B);
    uniform(c, &o, "TBNH", tbnh);
    uniform(c, &o, "TBKH", tbkh);
    uniform(c, &o, "TBKH", tbkh);
    uniform(c, &o, "TBNH", tbnh);
    uniform(c, &o, "TBNH", tbnh);
    /* weights exp(s - lse) about 1 / keys */
    in(c, &o, "TBN", tbnh, PL_F32, PL_FILL_LENGTHS, (double)(B * N), 0);
    out(c, &o, "TBNH", tbnh, c->dtype);
    out(c, &o, "TBKH", tbkh, c->dtype);
    out(c, &o, "TBKH", tbkh, c->dtype);
    end(c, &o, PL_ATTENTION_BACKWARD);
}

/* ---- rows */

static void build_rmsnorm(pl_case *c, const int64_t *size)
{
    const int64_t tbd[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    uniform(c, &o, "TBD", tbd);
    in(c, &o, "D", tbd + 2, c->dtype, PL_FILL_UNIFORM, 0.5, 1.5);
    out(c, &o, "TBD", tbd, c->dtype);
    out(c, &o, "TB", tbd, PL_F32);
    end(c, &o, PL_RMSNORM)->number[0] = 1e-5;
}

static void build_rmsnorm_backward(pl_case *c, const int64_t *size)
{
    const int64_t tbd[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    uniform(c, &o, "TBD", tbd);
    uniform(c, &o, "TBD", tbd);
    in(c, &o, "D", tbd + 2, c->dtype, PL_FILL_UNIFORM, 0.5, 1.5);
    in(c, &o, "TB", tbd, PL_F32, PL_FILL_UNIFORM, 3, 4);
    uniform(c, &o, "TBD", tbd); /* the residual stream's gradient, added in passing */
    out(c, &o, "TBD", tbd, c->dtype);
    out(c, &o, "D", tbd + 2, PL_F32);
    end(c, &o, PL_RMSNORM_BACKWARD);
}

static void build_turn(pl_case *c, const int64_t *size, pl_kind kind)
{
    const int64_t T = size[0], N = size[1], H = size[2];
    const int64_t tbnh[] = {T, 1, N, H}, most = T < 2048 ? T : 2048, table[] = {most, H / 2};
    operands o = {.n_in = 0};

    begin(c, T, 1);
    uniform(c, &o, "TBNH", tbnh);
    in(c, &o, "TB", tbnh, PL_I32, PL_FILL_INTEGERS, 0, (double)(most - 1));
    in(c, &o, "PR", table, PL_F32, PL_FILL_TABLE, 1, 0);
    in(c, &o, "PR", table, PL_F32, PL_FILL_TABLE, 0, 0);
    out(c, &o, "TBNH", tbnh, c->dtype);
    end(c, &o, kind);
}

static void build_rope(pl_case *c, const int64_t *size)
{
    build_turn(c, size, PL_ROPE);
}

static void build_rope_backward(pl_case *c, const int64_t *size)
{
    build_turn(c, size, PL_ROPE_BACKWARD);
}

static void build_swiglu(pl_case *c, const int64_t *size)
{
    const int64_t tbf[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    uniform(c, &o, "TBF", tbf);
    uniform(c, &o, "TBF", tbf);
    out(c, &o, "TBF", tbf, c->dtype);
    end(c, &o, PL_SWIGLU);
}

static void build_swiglu_backward(pl_case *c, const int64_t *size)
{
    const int64_t tbf[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    for (int i = 0; i < 3; i++)
        uniform(c, &o, "TBF", tbf);
    out(c, &o, "TBF", tbf, c->dtype);
    out(c, &o, "TBF", tbf, c->dtype);
    end(c, &o, PL_SWIGLU_BACKWARD);
}

static void build_embed(pl_case *c, const int64_t *size)
{
    const int64_t tbd[] = {size[0], 1, size[2]}, vd[] = {size[1], size[2]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    in(c, &o, "TB", tbd, PL_I32, PL_FILL_INTEGERS, 0, (double)(size[1] - 1));
    uniform(c, &o, "VD", vd);
    out(c, &o, "TBD", tbd, c->dtype);
    end(c, &o, PL_EMBED);
}

static void build_embed_backward(pl_case *c, const int64_t *size)
{
    const int64_t tbd[] = {size[0], 1, size[2]}, vd[] = {size[1], size[2]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    in(c, &o, "TB", tbd, PL_I32, PL_FILL_INTEGERS, 0, (double)(size[1] - 1));
    uniform(c, &o, "TBD", tbd);
    out(c, &o, "VD", vd, PL_F32);
    end(c, &o, PL_EMBED_BACKWARD);
}

/* ---- cross-entropy: logits in [-1/2, 1/2), so a maximum of 1/2 and a sum of V will do. */

static void logits_and_targets(pl_case *c, operands *o, const int64_t *tbv)
{
    begin(c, tbv[0], 1);
    uniform(c, o, "TBV", tbv);
    in(c, o, "TB", tbv, PL_I32, PL_FILL_INTEGERS, 0, (double)(tbv[2] - 1));
}

static void build_xent_max(pl_case *c, const int64_t *size)
{
    const int64_t tbv[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    begin(c, size[0], 1);
    uniform(c, &o, "TBV", tbv);
    out(c, &o, "TB", tbv, PL_F32);
    end(c, &o, PL_XENT_MAX);
}

static void build_xent_sum(pl_case *c, const int64_t *size)
{
    const int64_t tbv[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    logits_and_targets(c, &o, tbv);
    in(c, &o, "TB", tbv, PL_F32, PL_FILL_UNIFORM, 0.5, 0.5);
    out(c, &o, "TB", tbv, PL_F32);
    out(c, &o, "TB", tbv, PL_F32);
    end(c, &o, PL_XENT_SUM);
}

static void build_xent_grad(pl_case *c, const int64_t *size)
{
    const int64_t tbv[] = {size[0], 1, size[1]};
    operands o = {.n_in = 0};

    logits_and_targets(c, &o, tbv);
    in(c, &o, "TB", tbv, PL_F32, PL_FILL_UNIFORM, 0.5, 0.5);
    in(c, &o, "TB", tbv, PL_F32, PL_FILL_UNIFORM, 0.5 * (double)size[1], (double)size[1]);
    scalar(c, &o, 1.0 / (double)size[0]);
    out(c, &o, "TBV", tbv, c->dtype);
    end(c, &o, PL_XENT_GRAD);
}

/* ---- elementwise, and the update */

static void build_add(pl_case *c, const int64_t *size)
{
    const int64_t td[] = {size[0], 1};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    uniform(c, &o, "TD", td);
    uniform(c, &o, "TD", td);
    out(c, &o, "TD", td, c->dtype);
    end(c, &o, PL_ADD);
}

static void build_accumulate(pl_case *c, const int64_t *size)
{
    const int64_t td[] = {size[0], 1};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    uniform(c, &o, "TD", td);
    out(c, &o, "TD", td, PL_F32);
    end(c, &o, PL_ACCUMULATE)->accumulate = true;
}

static void build_sum_squares(pl_case *c, const int64_t *size)
{
    const int64_t td[] = {size[0], 1};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    in(c, &o, "TD", td, PL_F32, PL_FILL_UNIFORM, -0.5, 0.5);
    out(c, &o, "", NULL, PL_F32);
    end(c, &o, PL_SUM_SQUARES);
}

static void build_adamw(pl_case *c, const int64_t *size)
{
    static const double number[] = {0.9, 0.95, 1e-8, 0.1};
    const int64_t td[] = {size[0], 1};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    uniform(c, &o, "TD", td);
    for (int i = 0; i < 2; i++)
        in(c, &o, "TD", td, PL_F32, PL_FILL_UNIFORM, -0.5, 0.5);
    in(c, &o, "TD", td, PL_F32, PL_FILL_UNIFORM, 0.01, 0.5);
    scalar(c, &o, 0.5);
    scalar(c, &o, 1e-3);
    scalar(c, &o, 0.1);
    scalar(c, &o, 0.05);
    if (c->dtype == PL_F32) {
        out_of(c, &o, 0);
    } else { /* written, and not read: the master is what is updated */
        in(c, &o, "TD", td, PL_F32, PL_FILL_UNIFORM, -0.5, 0.5);
        out(c, &o, "TD", td, c->dtype);
    }
    out_of(c, &o, 2);
    out_of(c, &o, 3);
    if (c->dtype != PL_F32)
        out_of(c, &o, 8);
    memcpy(end(c, &o, PL_ADAMW)->number, number, sizeof number);
}

/* Between f32 and bf16: from the type of the case to the other. */
static void build_convert(pl_case *c, const int64_t *size)
{
    const int64_t td[] = {size[0], 1};
    operands o = {.n_in = 0};

    begin(c, 1, 1);
    uniform(c, &o, "TD", td);
    out(c, &o, "TD", td, c->dtype == PL_F32 ? PL_BF16 : PL_F32);
    end(c, &o, PL_RESHARD);
}

static void run_convert(const pl_op_view *view)
{
    if (view->in[0].dtype == PL_F32)
        pl_bf16_from_f32(view->out[0].n, view->in[0].data, view->out[0].data);
    else
        pl_f32_from_bf16(view->out[0].n, view->in[0].data, view->out[0].data);
}

/* ---- what shapes must keep to */

static const char *heads_divide(const int64_t *size)
{
    return size[2] % size[3] == 0 ? NULL : "K must divide N";
}

static const char *pairs(const int64_t *size)
{
    return size[2] % 2 == 0 ? NULL : "H must be even";
}

static const char *bytes_add_up(const int64_t *size)
{
    return size[2] <= PL_INT8_MOST_K ? NULL : "K is 65536 at most";
}

/* ---- the table */

#define F32_ONLY                                                                                   \
    {                                                                                              \
        [PL_F32] = true                                                                            \
    }
#define F32_AND_BF16                                                                               \
    {                                                                                              \
        [PL_F32] = true, [PL_BF16] = true                                                          \
    }

const pl_kernel pl_kernels[] = {
    {"matmul", "M,N,K", 3, F32_AND_BF16, .build = build_matmul},
    {"matmul_nn", "M,N,K", 3, F32_AND_BF16, .build = build_matmul_nn},
    {"matmul_nt", "M,N,K", 3, F32_AND_BF16, .build = build_matmul_nt},
    {"matmul_tn", "M,N,K", 3, F32_AND_BF16, .build = build_matmul_tn},
    {"matmul_tt", "M,N,K", 3, F32_AND_BF16, .build = build_matmul_tt},
    {"matmul_packed", "M,N,K", 3, F32_AND_BF16, PL_WEIGHTS_PACKED, .build = build_matmul},
    {"matmul_int8", "M,N,K", 3, F32_AND_BF16, PL_WEIGHTS_INT8, .build = build_matmul,
     .check = bytes_add_up},
    {"attention", "T,B,N,K,H", 5, F32_AND_BF16, .build = build_attention, .check = heads_divide},
    {"attention_backward", "T,B,N,K,H", 5, F32_AND_BF16, .build = build_attention_backward,
     .check = heads_divide},
    {"rmsnorm", "R,D", 2, F32_AND_BF16, .build = build_rmsnorm},
    {"rmsnorm_backward", "R,D", 2, F32_AND_BF16, .build = build_rmsnorm_backward},
    {"rope", "R,N,H", 3, F32_AND_BF16, .build = build_rope, .check = pairs},
    {"rope_backward", "R,N,H", 3, F32_AND_BF16, .build = build_rope_backward, .check = pairs},
    {"swiglu", "R,F", 2, F32_AND_BF16, .build = build_swiglu},
    {"swiglu_backward", "R,F", 2, F32_AND_BF16, .build = build_swiglu_backward},
    {"embed", "R,V,D", 3, F32_AND_BF16, .build = build_embed},
    {"embed_backward", "R,V,D", 3, F32_AND_BF16, .build = build_embed_backward,
     .scatters = true},
    {"xent_max", "R,V", 2, F32_AND_BF16, .build = build_xent_max},
    {"xent_sum", "R,V", 2, F32_AND_BF16, .build = build_xent_sum},
    {"xent_grad", "R,V", 2, F32_AND_BF16, .build = build_xent_grad},
    {"add", "n", 1, F32_AND_BF16, .build = build_add},
    {"accumulate", "n", 1, F32_ONLY, .build = build_accumulate},
    {"sum_squares", "n", 1, F32_ONLY, .build = build_sum_squares},
    {"adamw", "n", 1, F32_AND_BF16, .build = build_adamw},
    {"convert", "n", 1, F32_AND_BF16, .build = build_convert, .run = run_convert},
};
const int pl_n_kernels = sizeof pl_kernels / sizeof *pl_kernels;

const pl_kernel *pl_kernel_find(const char *name)
{
    for (int i = 0; i < pl_n_kernels; i++)
        if (strcmp(name, pl_kernels[i].name) == 0)
            return &pl_kernels[i];
    return NULL;
}
