#include "config.h"

#include "src/model/transformer.h"

#include <stdio.h>

typedef struct {
    pl_program *p;
    const pl_model_config *m;
    int64_t T, B;
    int layer;
    char prefix[32];             /* of the names of its values: "layers.3." */
    int positions, cosine, sine; /* value ids */
} builder;

static void enter_layer(builder *b, int layer)
{
    b->layer = layer;
    if (pl_layer_is_numbered(layer))
        snprintf(b->prefix, sizeof b->prefix, "layers.%d.", layer);
    else
        b->prefix[0] = '\0';
}

/* A value of the layer in hand: "layers.3." and the name. */
static int value(builder *b, pl_class class, const char *dims, const int64_t *extents,
                 const char *name)
{
    return pl_value_add(b->p, class, b->layer, dims, extents,
                        pl_arena_join(b->p->arena, b->prefix, name));
}

static int weight(builder *b, const char *dims, const int64_t *extents, const char *name)
{
    const int v = value(b, PL_WEIGHT, dims, extents, name);

    b->p->values[v].persists = true;
    return v;
}

static int activation(builder *b, pl_class class, const char *dims, const int64_t *extents,
                      const char *name)
{
    const int v = value(b, class, dims, extents, name);

    b->p->values[v].microbatch = 0;
    return v;
}

/* Something that the host fills; [T, B] tables exist once a microbatch, the rest once. */
static int input(builder *b, pl_class class, const char *dims, const int64_t *extents,
                 const char *name)
{
    const int v = pl_value_add(b->p, class, PL_LAYER_EMBED, dims, extents, name);

    b->p->values[v].is_input = true;
    b->p->values[v].persists = true;
    return v;
}

static int op(builder *b, pl_kind kind, int n_in, const int *in, int n_out, const int *out)
{
    const int id = pl_op_add(b->p, kind, PL_FORWARD, b->layer, n_in, in, n_out, out);

    b->p->ops[id].microbatch = 0;
    return id;
}

/* out[dims] = x . w. */
static int product(builder *b, int x, int w, const char *dims, const int64_t *extents,
                   const char *name)
{
    const int out = activation(b, PL_ACTIVATION, dims, extents, name), in[2] = {x, w};

    op(b, PL_EINSUM, 2, in, 1, &out);
    return out;
}

static int rmsnorm(builder *b, int x, const char *name)
{
    const int64_t D = b->m->d_model, tbd[] = {b->T, b->B, D};
    const char *normed = pl_arena_join(b->p->arena, name, ".out"),
               *rstd = pl_arena_join(b->p->arena, name, ".rstd");
    const int in[2] = {x, weight(b, "D", &D, name)};
    const int out[2] = {activation(b, PL_ACTIVATION, "TBD", tbd, normed),
                        activation(b, PL_ACTIVATION, "TB", tbd, rstd)};
    const int i = op(b, PL_RMSNORM, 2, in, 2, out); /* may move b->p->ops */

    b->p->ops[i].number[0] = b->m->rms_eps;
    return out[0];
}

static int rope(builder *b, int x, const char *dims, const int64_t *extents, const char *name)
{
    const int in[4] = {x, b->positions, b->cosine, b->sine};
    const int out = activation(b, PL_ACTIVATION, dims, extents, name);

    op(b, PL_ROPE, 4, in, 1, &out);
    return out;
}

/* x + y, the residual stream. */
static int add(builder *b, int x, int y, const char *name)
{
    const int64_t tbd[] = {b->T, b->B, b->m->d_model};
    const int in[2] = {x, y}, out = activation(b, PL_ACTIVATION, "TBD", tbd, name);

    op(b, PL_ADD, 2, in, 1, &out);
    return out;
}

static int attention_block(builder *b, int x)
{
    const int64_t T = b->T, B = b->B, D = b->m->d_model, N = b->m->n_heads, K = b->m->n_kv_heads,
                  H = b->m->head_dim;
    const int64_t tbnh[] = {T, B, N, H}, tbkh[] = {T, B, K, H}, tbd[] = {T, B, D},
                  dnh[] = {D, N, H}, dkh[] = {D, K, H};
    const int h = rmsnorm(b, x, "attn.norm");
    const int wq = weight(b, "DNH", dnh, "attn.wq"), wk = weight(b, "DKH", dkh, "attn.wk"),
              wv = weight(b, "DKH", dkh, "attn.wv"), wo = weight(b, "DNH", dnh, "attn.wo");
    const int q = rope(b, product(b, h, wq, "TBNH", tbnh, "attn.q"), "TBNH", tbnh, "attn.q_rot");
    const int k = rope(b, product(b, h, wk, "TBKH", tbkh, "attn.k"), "TBKH", tbkh, "attn.k_rot");
    const int v = product(b, h, wv, "TBKH", tbkh, "attn.v");
    const int in[3] = {q, k, v};
    const int out[2] = {activation(b, PL_ACTIVATION, "TBNH", tbnh, "attn.o"),
                        activation(b, PL_ACTIVATION, "TBN", tbnh, "attn.lse")};

    op(b, PL_ATTENTION, 3, in, 2, out);
    return add(b, x, product(b, out[0], wo, "TBD", tbd, "attn.out"), "attn.x");
}

static int ffn_block(builder *b, int x)
{
    const int64_t T = b->T, B = b->B, D = b->m->d_model, F = b->m->d_ff;
    const int64_t tbf[] = {T, B, F}, tbd[] = {T, B, D}, df[] = {D, F};
    const int h = rmsnorm(b, x, "ffn.norm");
    const int w_gate = weight(b, "DF", df, "ffn.w_gate"), w_up = weight(b, "DF", df, "ffn.w_up"),
              w_down = weight(b, "DF", df, "ffn.w_down");
    const int in[2] = {product(b, h, w_gate, "TBF", tbf, "ffn.gate"),
                       product(b, h, w_up, "TBF", tbf, "ffn.up")};
    const int a = activation(b, PL_ACTIVATION, "TBF", tbf, "ffn.act");

    op(b, PL_SWIGLU, 2, in, 1, &a);
    return add(b, x, product(b, a, w_down, "TBD", tbd, "ffn.out"), "ffn.x");
}

static void loss_head(builder *b, int x, int embed, int targets, int scale)
{
    const int64_t T = b->T, B = b->B, D = b->m->d_model, V = b->m->vocab;
    const int64_t tbv[] = {T, B, V}, vd[] = {V, D};
    const int h = rmsnorm(b, x, "final.norm");
    const int head = b->m->tied ? embed : weight(b, "VD", vd, "head");
    const int logits = product(b, h, head, "TBV", tbv, "logits");
    const int m = activation(b, PL_TOKEN, "TB", tbv, "xent.max");
    const int sums[2] = {activation(b, PL_TOKEN, "TB", tbv, "xent.sum"),
                         activation(b, PL_TOKEN, "TB", tbv, "xent.picked")};
    const int for_sum[3] = {logits, targets, m};
    const int for_loss[4] = {m, sums[0], sums[1], scale};
    const int loss = pl_value_add(b->p, PL_SCALAR, PL_LAYER_ALL, "", NULL, PL_NAME_LOSS);

    b->p->values[loss].defers_sums = true;
    b->p->values[loss].sharding.sum = pl_mesh_family(b->p->mesh, "pp"); /* all but one are zero */
    op(b, PL_XENT_MAX, 1, &logits, 1, &m);
    op(b, PL_XENT_SUM, 3, for_sum, 2, sums);
    op(b, PL_XENT_LOSS, 4, for_loss, 1, &loss);
}

int pl_transformer_forward(pl_program *p, const pl_model_config *model)
{
    builder b = {
        .p = p, .m = model, .T = p->batch.seq, .B = p->batch.micro_batch, .layer = PL_LAYER_EMBED};
    const int64_t tb[] = {b.T, b.B}, tbd[] = {b.T, b.B, model->d_model},
                  vd[] = {model->vocab, model->d_model};
    const int64_t table[] = {b.T, model->head_dim / 2};
    const int tokens = input(&b, PL_TOKEN, "TB", tb, PL_NAME_TOKENS);
    const int targets = input(&b, PL_TOKEN, "TB", tb, PL_NAME_TARGETS);
    const int scale = input(&b, PL_SCALAR, "", NULL, PL_NAME_SCALE);

    b.positions = input(&b, PL_TOKEN, "TB", tb, PL_NAME_POSITIONS);
    b.cosine = input(&b, PL_WORKSPACE, "PR", table, PL_NAME_COSINE);
    b.sine = input(&b, PL_WORKSPACE, "PR", table, PL_NAME_SINE);
    p->values[tokens].dtype = p->values[targets].dtype = p->values[b.positions].dtype = PL_I32;
    p->values[tokens].microbatch = p->values[targets].microbatch =
        p->values[b.positions].microbatch = 0;

    const int embed = weight(&b, "VD", vd, "embed");
    const int in[2] = {tokens, embed};
    int x = activation(&b, PL_ACTIVATION, "TBD", tbd, "embed.x");
    op(&b, PL_EMBED, 2, in, 1, &x);
    for (int l = 0; l < model->n_layers; l++) {
        enter_layer(&b, l);
        x = ffn_block(&b, attention_block(&b, x));
    }
    enter_layer(&b, PL_LAYER_HEAD);
    loss_head(&b, x, embed, targets, scale);
    return p->n_values;
}
