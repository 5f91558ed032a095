#include "config.h"

#include "src/model/hf_tensors.h"

#include <stdio.h>
#include <string.h>

/* In the order of pl_hf_kind. */
static const char *const names[] = {
    [PL_HF_EMBED] = "model.embed_tokens.weight",
    [PL_HF_ATTENTION_NORM] = "input_layernorm.weight",
    [PL_HF_Q] = "self_attn.q_proj.weight",
    [PL_HF_K] = "self_attn.k_proj.weight",
    [PL_HF_V] = "self_attn.v_proj.weight",
    [PL_HF_O] = "self_attn.o_proj.weight",
    [PL_HF_MLP_NORM] = "post_attention_layernorm.weight",
    [PL_HF_GATE] = "mlp.gate_proj.weight",
    [PL_HF_UP] = "mlp.up_proj.weight",
    [PL_HF_DOWN] = "mlp.down_proj.weight",
    [PL_HF_FINAL_NORM] = "model.norm.weight",
    [PL_HF_HEAD] = "lm_head.weight",
};

enum { FIRST_OF_LAYER = PL_HF_ATTENTION_NORM, PER_LAYER = PL_HF_DOWN - PL_HF_ATTENTION_NORM + 1 };

static void set_shape(pl_hf_tensor *t, int n_dims, int64_t rows, int64_t cols)
{
    t->n_dims = n_dims;
    t->rows = rows;
    t->cols = cols;
}

pl_hf_tensor pl_hf_tensor_of(const pl_model_config *c, pl_hf_kind kind, int layer)
{
    const int64_t q_rows = c->n_heads * c->head_dim, kv_rows = c->n_kv_heads * c->head_dim;
    pl_hf_tensor t = {.kind = kind, .layer = layer};

    switch (kind) {
    case PL_HF_EMBED:
    case PL_HF_HEAD:
        set_shape(&t, 2, c->vocab, c->d_model);
        break;
    case PL_HF_ATTENTION_NORM:
    case PL_HF_MLP_NORM:
    case PL_HF_FINAL_NORM:
        set_shape(&t, 1, 1, c->d_model);
        break;
    case PL_HF_Q:
        set_shape(&t, 2, q_rows, c->d_model);
        break;
    case PL_HF_K:
    case PL_HF_V:
        set_shape(&t, 2, kv_rows, c->d_model);
        break;
    case PL_HF_O:
        set_shape(&t, 2, c->d_model, q_rows);
        break;
    case PL_HF_GATE:
    case PL_HF_UP:
        set_shape(&t, 2, c->d_ff, c->d_model);
        break;
    case PL_HF_DOWN:
        set_shape(&t, 2, c->d_model, c->d_ff);
        break;
    }
    if (layer >= 0)
        snprintf(t.name, sizeof t.name, "model.layers.%d.%s", layer, names[kind]);
    else
        snprintf(t.name, sizeof t.name, "%s", names[kind]);
    return t;
}

int64_t pl_hf_tensor_count(const pl_model_config *c)
{
    return 2 + (int64_t)PER_LAYER * c->n_layers + (c->tied ? 0 : 1);
}

pl_hf_tensor pl_hf_tensor_at(const pl_model_config *c, int64_t i)
{
    const int64_t in_layers = (int64_t)PER_LAYER * c->n_layers;

    if (i == 0)
        return pl_hf_tensor_of(c, PL_HF_EMBED, -1);
    if (i - 1 < in_layers)
        return pl_hf_tensor_of(c, (pl_hf_kind)(FIRST_OF_LAYER + (i - 1) % PER_LAYER),
                               (int)((i - 1) / PER_LAYER));
    return pl_hf_tensor_of(c, i - 1 == in_layers ? PL_HF_FINAL_NORM : PL_HF_HEAD, -1);
}

bool pl_hf_tensor_find(const pl_model_config *c, const char *name, pl_hf_tensor *tensor)
{
    int layer = -1, head = 0;

    /* The name is built anew and compared, so that "layers.01." or "layers.+1." is none. */
    if (sscanf(name, "model.layers.%9d.%n", &layer, &head) != 1 || head == 0)
        layer = -1;
    else if (layer < 0 || layer >= c->n_layers)
        return false;
    for (int kind = PL_HF_EMBED; kind <= PL_HF_HEAD; kind++) {
        const bool in_layer = kind >= FIRST_OF_LAYER && kind < FIRST_OF_LAYER + PER_LAYER;

        if (in_layer != (layer >= 0))
            continue;

        const pl_hf_tensor t = pl_hf_tensor_of(c, (pl_hf_kind)kind, layer);

        if (strcmp(t.name, name) == 0) {
            *tensor = t;
            return true;
        }
    }
    return false;
}
