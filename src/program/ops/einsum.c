/* einsum -- out = sum over pairs of in[2i] . in[2i+1]: the dims that out lacks are contracted. An
 * input without a partner, the last, is a residual, an array like out: out = residual + that sum.
 *
 * Every pair is one matrix product: out's dims are [M..., N...] with M from one operand and N from
 * the other, the contracted dims K stand together in both, in the same order (or the first operand
 * supplies N and the second M: then the product is transposed by swapping them). The transformer's
 * products all have this form; anything else is refused as a fault of ours. Operands are of one
 * type; the output may be f32 where they are bf16. Pairs after the first add to the output, which
 * rounds it once a pair where it is bf16; a residual is added to the first pair's f32 sums. */
#include "config.h"

#include "src/base/panic.h"
#include "src/program/ops/ops.h"

/* One pair as a matrix product: out[M, N] += op(a)[M, K] . op(b)[K, N]. */
typedef struct {
    const pl_array *a, *b;
    pl_trans trans_a, trans_b;
    int64_t M, N, K;
} product;

/* Elements of the dims of `of` that are (or are not) in `in`. */
static int64_t common(const pl_shape *of, const pl_extents *extents, const pl_shape *in,
                      bool wanted)
{
    int64_t n = 1;

    for (int d = 0; d < of->n_dims; d++)
        if ((pl_shape_dim(in, of->name[d]) >= 0) == wanted)
            n *= extents->n[d];
    return n;
}

static product as_product(const pl_op_view *view, int pair)
{
    const pl_program *p = view->program;
    const pl_shape *out = &p->values[view->op->out[0]].shape;
    int first = 2 * pair, second = 2 * pair + 1;
    product m;

    /* The operand that holds out's outermost dim gives M. */
    if (pl_shape_dim(&p->values[view->op->in[first]].shape, out->name[0]) < 0) {
        first = 2 * pair + 1;
        second = 2 * pair;
    }
    const pl_shape *a = &p->values[view->op->in[first]].shape;
    const pl_shape *b = &p->values[view->op->in[second]].shape;

    m.a = &view->in[first];
    m.b = &view->in[second];
    m.M = common(a, &m.a->extents, out, true);
    m.N = common(b, &m.b->extents, out, true);
    m.K = common(a, &m.a->extents, out, false);
    /* Stored [M, K] when its outermost dim survives, else [K, M]; likewise b: [K, N] or [N, K]. */
    m.trans_a = pl_shape_dim(out, a->name[0]) >= 0 ? PL_NO_TRANS : PL_TRANS;
    m.trans_b = pl_shape_dim(out, b->name[0]) >= 0 ? PL_TRANS : PL_NO_TRANS;
    PL_ASSERT(m.a->dtype == m.b->dtype);
    PL_ASSERT(pl_shape_dim(a, out->name[0]) >= 0 && m.M * m.N == view->out[0].n &&
              common(b, &m.b->extents, out, false) == m.K);
    return m;
}

static int n_pairs(const pl_op *op)
{
    return op->n_in / 2;
}

/* What the pair's product is added to, if not to out itself. */
static const pl_array *residual_of(const pl_op_view *view, int pair)
{
    const int n_in = view->op->n_in;

    return pair == 0 && n_in % 2 != 0 ? &view->in[n_in - 1] : NULL;
}

static bool adds_to_out(const pl_op_view *view, int pair)
{
    return view->op->accumulate || pair > 0;
}

/* What matmul is told of a pair. */
static pl_product product_of(const pl_op_view *view, int pair)
{
    const product m = as_product(view, pair);
    const pl_array *residual = residual_of(view, pair), *out = &view->out[0];

    PL_ASSERT(residual == NULL || residual->dtype == out->dtype);
    return (pl_product){.trans_a = m.trans_a,
                        .trans_b = m.trans_b,
                        .M = m.M,
                        .N = m.N,
                        .K = m.K,
                        .dtype = m.a->dtype,
                        .c_dtype = out->dtype,
                        .a = m.a->data,
                        .b = m.b->data,
                        .lda = m.trans_a == PL_TRANS ? m.M : m.K,
                        .ldb = m.trans_b == PL_TRANS ? m.K : m.N,
                        .ldc = m.N,
                        .c = out->data,
                        .accumulate = adds_to_out(view, pair),
                        .residual = residual != NULL ? residual->data : NULL,
                        .ld_residual = m.N,
                        .count = 1};
}

int pl_einsum_shapes(const pl_op_view *view, pl_matmul_shape *shapes)
{
    int n = 0;

    for (int pair = 0; pair < n_pairs(view->op); pair++) {
        const pl_product m = product_of(view, pair);

        if (m.dtype == PL_F32 && m.M * m.N * m.K > 0)
            shapes[n++] = (pl_matmul_shape){
                m.trans_a, m.trans_b, m.M,   m.N,
                m.K,       m.lda,     m.ldb, m.ldc,
                m.accumulate || residual_of(view, pair) != NULL};
    }
    return n;
}

static void run(const pl_op_view *view)
{
    for (int pair = 0; pair < n_pairs(view->op); pair++) {
        const pl_product m = product_of(view, pair);

        pl_matmul_by_choice(&m, view->progress);
    }
}

/* Elements of n rows of `length`, times the part of the rows that begin at the same offset in a
 * page: those lie in the same sets of a cache. */
static double aliased(int64_t n, int64_t length, pl_dtype dtype)
{
    enum { PAGE = 4096 };
    const int64_t bytes = length * (int64_t)pl_dtype_bytes(dtype), common = bytes & -bytes;

    return (double)(n * length) * (double)(common < PAGE ? common : PAGE) / PAGE;
}

static double aliased_elements(const product *m, pl_dtype c_dtype)
{
    const bool ta = m->trans_a == PL_TRANS, tb = m->trans_b == PL_TRANS;
    const pl_dtype dtype = m->a->dtype;

    return aliased(ta ? m->K : m->M, ta ? m->M : m->K, dtype) +
           aliased(tb ? m->N : m->K, tb ? m->K : m->N, dtype) + aliased(m->M, m->N, c_dtype);
}

static void cost(const pl_op_view *view, pl_op_cost *cost)
{
    for (int pair = 0; pair < n_pairs(view->op); pair++) {
        const product m = as_product(view, pair);
        const bool adds = adds_to_out(view, pair) || residual_of(view, pair) != NULL;

        cost->matmul_flops = 2.0 * (double)m.M * (double)m.N * (double)m.K;
        cost->flops += cost->matmul_flops;
        cost->m = m.M;
        cost->n = m.N;
        cost->k = m.K;
        cost->trans_a = m.trans_a == PL_TRANS;
        cost->trans_b = m.trans_b == PL_TRANS;
        cost->a_elements += (double)m.M * (double)m.K;
        cost->b_elements += (double)m.K * (double)m.N;
        cost->c_elements += (double)m.M * (double)m.N * (adds ? 2 : 1);
        cost->aliased_elements += aliased_elements(&m, view->out[0].dtype);
    }
    cost->bytes = pl_view_bytes(view);
    cost->is_matmul = true;
    cost->dtype = view->in[0].dtype;
}

/* C = A . B:  dA = dC . B,  dB = A . dC. */
static void differentiate(pl_tape *tape, const pl_op *op)
{
    const int dc = pl_tape_gradient(tape, op->out[0]);

    if (dc == PL_NONE)
        return;
    if (op->n_in % 2 != 0)
        pl_tape_contribute(tape, op->in[op->n_in - 1], dc);
    for (int i = 0; i + 1 < op->n_in; i += 2) {
        /* The weight's gradient first, as in the book's listing. */
        pl_tape_contribute_product(tape, op->in[i + 1], op->in[i], dc);
        pl_tape_contribute_product(tape, op->in[i], dc, op->in[i + 1]);
    }
}

const pl_kind_info pl_op_einsum = {.name = "einsum",
                                   .whole = "",
                                   .linear = true,
                                   .term = 2,
                                   .in_place = PL_NONE,
                                   .differentiate = differentiate,
                                   .cost = cost,
                                   .run = run};
