#include "config.h"

#include "src/model/architecture.h"

#include "src/base/panic.h"

#include <inttypes.h>
#include <string.h>

const char *pl_part_group_name(pl_part_group group)
{
    static const char *const names[PL_N_PARTS] = {"embedding", "attention", "ffn",
                                                  "router",    "norms",     "head"};

    return names[group];
}

/* --- the list of weights --- */

typedef struct {
    pl_part *parts;
    int n;
} list;

static pl_part *add(list *l, const char *name, pl_part_group group, int64_t n_layers, int64_t rows,
                    int64_t cols)
{
    PL_ASSERT(l->n < PL_MAX_PARTS);
    l->parts[l->n] = (pl_part){.name = name,
                               .group = group,
                               .rows = rows,
                               .cols = cols,
                               .n_layers = n_layers,
                               .n_each = 1,
                               .n_active = 1};
    return &l->parts[l->n++];
}

static pl_part *add_matrix(list *l, const char *name, pl_part_group group, int64_t n_layers,
                           int64_t rows, int64_t cols)
{
    pl_part *part = add(l, name, group, n_layers, rows, cols);

    part->is_matmul = true;
    return part;
}

static void add_bias(list *l, bool has, const char *name, pl_part_group group, int64_t n_layers,
                     int64_t cols)
{
    if (has)
        add(l, name, group, n_layers, 1, cols);
}

static int64_t norm_rows(const pl_architecture *a)
{
    return a->layer_norm ? 2 : 1;
}

/* DeepSeek: q and (k, v) by way of short vectors, which are normed. */
static void add_compressed_attention(list *l, const pl_architecture *a)
{
    const int64_t L = a->n_layers, D = a->d_model, N = a->n_heads;
    const int64_t q_dim = a->head_dim + a->rope_dim;

    if (a->q_rank > 0) {
        add_matrix(l, "attention.q_a", PL_PART_ATTENTION, L, D, a->q_rank);
        add(l, "attention.q_a_norm", PL_PART_NORM, L, 1, a->q_rank);
        add_matrix(l, "attention.q_b", PL_PART_ATTENTION, L, a->q_rank, N * q_dim);
    } else {
        add_matrix(l, "attention.q", PL_PART_ATTENTION, L, D, N * q_dim);
    }
    add_matrix(l, "attention.kv_a", PL_PART_ATTENTION, L, D, a->kv_rank + a->rope_dim);
    add(l, "attention.kv_a_norm", PL_PART_NORM, L, 1, a->kv_rank);
    add_matrix(l, "attention.kv_b", PL_PART_ATTENTION, L, a->kv_rank, N * (a->head_dim + a->v_dim));
    add_matrix(l, "attention.o", PL_PART_ATTENTION, L, N * a->v_dim, D);
}

static void add_attention(list *l, const pl_architecture *a)
{
    const int64_t L = a->n_layers, D = a->d_model, H = a->head_dim;
    const int64_t NH = a->n_heads * H, KH = a->n_kv_heads * H;

    add_matrix(l, "attention.q", PL_PART_ATTENTION, L, D, NH);
    add_matrix(l, "attention.k", PL_PART_ATTENTION, L, D, KH);
    add_matrix(l, "attention.v", PL_PART_ATTENTION, L, D, KH);
    add_bias(l, a->qkv_bias, "attention.qkv_bias", PL_PART_ATTENTION, L, NH + 2 * KH);
    if (a->qk_norm)
        add(l, "attention.qk_norm", PL_PART_NORM, L, 2, H);
    add_matrix(l, "attention.o", PL_PART_ATTENTION, L, NH, D);
    add_bias(l, a->out_bias, "attention.o_bias", PL_PART_ATTENTION, L, D);
}

static void add_ffn(list *l, const pl_architecture *a, const char *in, const char *out,
                    int64_t n_layers, int64_t F, int64_t n_each, int64_t n_active)
{
    pl_part *part = add_matrix(l, in, PL_PART_FFN, n_layers, a->d_model, (a->gated ? 2 : 1) * F);

    part->n_each = n_each;
    part->n_active = n_active;
    part = add_matrix(l, out, PL_PART_FFN, n_layers, F, a->d_model);
    part->n_each = n_each;
    part->n_active = n_active;
}

static void add_ffns(list *l, const pl_architecture *a)
{
    const bool sparse = a->n_experts > 0;
    const int64_t n_dense = sparse ? a->n_dense_layers : a->n_layers;
    const int64_t n_sparse = a->n_layers - n_dense;

    if (n_dense > 0) {
        add_ffn(l, a, "ffn.in", "ffn.out", n_dense, a->d_ff, 1, 1);
        add_bias(l, a->ffn_bias, "ffn.bias", PL_PART_FFN, n_dense,
                 (a->gated ? 2 : 1) * a->d_ff + a->d_model);
    }
    if (!sparse)
        return;
    add_matrix(l, "router", PL_PART_ROUTER, n_sparse, a->d_model, a->n_experts);
    add_bias(l, a->router_bias, "router.bias", PL_PART_ROUTER, n_sparse, a->n_experts);
    add_ffn(l, a, "experts.in", "experts.out", n_sparse, a->d_ff_expert, a->n_experts,
            a->n_active_experts);
    if (a->n_shared_experts > 0)
        add_ffn(l, a, "shared.in", "shared.out", n_sparse, a->d_ff_expert * a->n_shared_experts, 1,
                1);
}

int pl_architecture_parts(const pl_architecture *a, pl_part parts[PL_MAX_PARTS])
{
    list l = {.parts = parts};

    add(&l, "embedding", PL_PART_EMBEDDING, 1, a->vocab, a->d_model);
    if (a->learned_positions)
        add(&l, "positions", PL_PART_EMBEDDING, 1, a->max_seq, a->d_model);
    add(&l, "layer norms", PL_PART_NORM, a->n_layers, norm_rows(a) * a->norms_per_layer,
        a->d_model);
    if (a->kv_rank > 0)
        add_compressed_attention(&l, a);
    else
        add_attention(&l, a);
    add_ffns(&l, a);
    add(&l, "final norm", PL_PART_NORM, 1, norm_rows(a), a->d_model);
    add_matrix(&l, "head", PL_PART_HEAD, 1, a->d_model, a->vocab)->is_shared = a->tied;
    return l.n;
}

/* --- counts --- */

pl_param_counts pl_architecture_params(const pl_architecture *a)
{
    pl_part parts[PL_MAX_PARTS];
    pl_param_counts counts = {0};
    const int n = pl_architecture_parts(a, parts);

    for (int i = 0; i < n; i++) {
        const pl_part *p = &parts[i];
        const int64_t one = p->rows * p->cols * p->n_layers;

        if (!p->is_shared) {
            counts.total += one * p->n_each;
            counts.active += one * p->n_active;
            counts.group[p->group] += one * p->n_each;
        }
        if (p->is_matmul)
            counts.matmul += one * p->n_active;
    }
    return counts;
}

double pl_architecture_matmul_flops(const pl_architecture *a)
{
    return 2.0 * (double)pl_architecture_params(a).matmul;
}

double pl_architecture_attention_flops(const pl_architecture *a, double n_keys)
{
    const int64_t qk = a->kv_rank > 0 ? a->head_dim + a->rope_dim : a->head_dim;
    const int64_t v = a->kv_rank > 0 ? a->v_dim : a->head_dim;

    return 2.0 * n_keys * (double)(a->n_layers * a->n_heads * (qk + v));
}

double pl_architecture_train_flops(const pl_architecture *a, double seq,
                                   pl_flops_convention convention)
{
    const double six_n = 6.0 * (double)pl_architecture_params(a).active;

    switch (convention) {
    case PL_FLOPS_6N:
        return six_n;
    case PL_FLOPS_PALM:
        return six_n + 3.0 * pl_architecture_attention_flops(a, seq);
    case PL_FLOPS_FULL:
    case PL_FLOPS_CAUSAL:
        break;
    }
    const double n_keys = convention == PL_FLOPS_FULL ? seq : seq / 2;

    return 3.0 * (pl_architecture_matmul_flops(a) + pl_architecture_attention_flops(a, n_keys));
}

double pl_architecture_kv_bytes(const pl_architecture *a, double bytes_per_element)
{
    const int64_t per_layer =
        a->kv_rank > 0 ? a->kv_rank + a->rope_dim : 2 * a->n_kv_heads * a->head_dim;

    return bytes_per_element * (double)(a->n_layers * per_layer);
}

/* What the matrix products of one layer give for one token: the columns of its matrices. Of the
 * layers with experts where the model has them. */
static double products_of_layer(const pl_architecture *a)
{
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        const pl_part *p = &parts[i];
        const bool is_dense_ffn = p->group == PL_PART_FFN && strncmp(p->name, "ffn", 3) == 0;
        const bool in_layer = p->group == PL_PART_ATTENTION || p->group == PL_PART_ROUTER ||
                              (p->group == PL_PART_FFN && !(a->n_experts > 0 && is_dense_ffn));

        if (p->is_matmul && in_layer)
            sum += p->cols * p->n_active;
    }
    return (double)sum;
}

/* F of all feed-forward blocks that a token passes in a layer. */
static double activated_width(const pl_architecture *a)
{
    return a->n_experts > 0 ? (double)((a->n_active_experts + a->n_shared_experts) * a->d_ff_expert)
                            : (double)a->d_ff;
}

double pl_architecture_kept_elements(const pl_architecture *a, pl_keep keep)
{
    const double D = (double)a->d_model;
    const int64_t v = a->kv_rank > 0 ? a->v_dim : a->head_dim;

    if (keep == PL_KEEP_BLOCK)
        return D;
    if (keep == PL_KEEP_MATMULS)
        return D + products_of_layer(a);
    /* The inputs of both blocks, what their norms give, all products but those that are only added
     * to the residual (experts' outputs are weighted first), attention's output and statistic, and
     * the activation of the feed-forward block. */
    const double only_added = a->n_experts > 0 ? D : 2 * D;

    return 4 * D + products_of_layer(a) - only_added + (double)(a->n_heads * (v + 1)) +
           activated_width(a);
}

double pl_architecture_kept_by_loss(const pl_architecture *a)
{
    return (double)(a->d_model + a->vocab);
}

double pl_architecture_recomputed_flops(const pl_architecture *a, double n_keys, pl_keep keep)
{
    const double attention = pl_architecture_attention_flops(a, n_keys);

    switch (keep) {
    case PL_KEEP_ALL:
        return 0;
    case PL_KEEP_MATMULS:
        return attention;
    case PL_KEEP_BLOCK:
        return attention + pl_architecture_matmul_flops(a) - 2.0 * (double)(a->d_model * a->vocab);
    }
    return 0;
}

void pl_architecture_init(pl_architecture *a, int64_t L, int64_t D, int64_t N, int64_t K, int64_t H,
                          int64_t F, int64_t V)
{
    *a = (pl_architecture){.n_layers = L,
                           .d_model = D,
                           .n_heads = N,
                           .n_kv_heads = K,
                           .head_dim = H > 0 || N <= 0 ? H : D / N,
                           .d_ff = F,
                           .vocab = V,
                           .max_seq = 2048,
                           .gated = true,
                           .norms_per_layer = 2};
}

pl_status pl_architecture_check(const char *where, const pl_architecture *a)
{
    /* The largest of each: far above any model, low enough that no product overflows. */
    const struct {
        const char *what;
        int64_t value, least, most;
    } extents[] = {
        {"number of layers L", a->n_layers, 1, 1 << 12},
        {"width D", a->d_model, 1, 1 << 20},
        {"number of heads N", a->n_heads, 1, 1 << 12},
        {"number of key/value heads K", a->n_kv_heads, 1, 1 << 12},
        {"head size H", a->head_dim, 1, 1 << 12},
        {"feed-forward width F", a->d_ff, a->n_experts > 0 ? 0 : 1, 1 << 22},
        {"vocabulary V", a->vocab, 1, 1 << 28},
        {"longest sequence T", a->max_seq, 1, 1 << 30},
        {"number of experts E", a->n_experts, 0, 1 << 12},
        {"number of experts per token k", a->n_active_experts, a->n_experts > 0, a->n_experts},
        {"number of shared experts", a->n_shared_experts, 0, 1 << 10},
        {"width of an expert", a->d_ff_expert, a->n_experts > 0, 1 << 20},
        {"number of dense layers", a->n_dense_layers, 0, a->n_layers},
        {"rank of the queries", a->q_rank, 0, 1 << 20},
        {"rank of keys and values", a->kv_rank, 0, 1 << 20},
        {"head size with positions", a->rope_dim, a->kv_rank > 0, 1 << 12},
        {"head size of values", a->v_dim, a->kv_rank > 0, 1 << 12},
    };

    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i].value < extents[i].least || extents[i].value > extents[i].most)
            return pl_refuse(PL_BAD_INPUT, "%s: %s is %" PRId64 ", not in %" PRId64 " to %" PRId64,
                             where, extents[i].what, extents[i].value, extents[i].least,
                             extents[i].most);
    if (a->n_heads % a->n_kv_heads != 0)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: %" PRId64 " query heads do not share %" PRId64
                         " key/value heads evenly",
                         where, a->n_heads, a->n_kv_heads);
    return PL_OK;
}
