/* hf_tensors -- the tensors of a model as Hugging Face names and shapes them: the one list that
 * every weight file is read, checked and written by. All functions are local.
 *
 *   model.embed_tokens.weight                               [V, D]
 *   model.layers.I.input_layernorm.weight                   [D]
 *   model.layers.I.self_attn.{q,k,v}_proj.weight            [N H, D], [K H, D], [K H, D]
 *   model.layers.I.self_attn.o_proj.weight                  [D, N H]
 *   model.layers.I.post_attention_layernorm.weight          [D]
 *   model.layers.I.mlp.{gate,up}_proj.weight                [F, D]
 *   model.layers.I.mlp.down_proj.weight                     [D, F]
 *   model.norm.weight                                       [D]
 *   lm_head.weight                                          [V, D], none when tied
 *
 * Within a head of q and k, rows j and j + H/2 are the pair that RoPE rotates ("rotate half"). */
#ifndef PURLIN_MODEL_HF_TENSORS_H
#define PURLIN_MODEL_HF_TENSORS_H

#include "src/model/model_config.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    PL_HF_EMBED,
    PL_HF_ATTENTION_NORM,
    PL_HF_Q,
    PL_HF_K,
    PL_HF_V,
    PL_HF_O,
    PL_HF_MLP_NORM,
    PL_HF_GATE,
    PL_HF_UP,
    PL_HF_DOWN,
    PL_HF_FINAL_NORM,
    PL_HF_HEAD,
} pl_hf_kind;

typedef struct {
    pl_hf_kind kind;
    int layer;          /* -1 outside layers */
    int n_dims;         /* 1: the shape is [cols]; 2: [rows, cols] */
    int64_t rows, cols; /* rows is 1 when n_dims is 1 */
    char name[96];
} pl_hf_tensor;

/** How many tensors the model has: 2 + 9 L, and 1 more when untied. */
int64_t pl_hf_tensor_count(const pl_model_config *config);

/** The i-th in the order of the list above, which is the order of a saved file. */
pl_hf_tensor pl_hf_tensor_at(const pl_model_config *config, int64_t i);

/** The tensor of a kind; `layer` is -1 for those outside layers. */
pl_hf_tensor pl_hf_tensor_of(const pl_model_config *config, pl_hf_kind kind, int layer);

/** The tensor called `name`; lm_head.weight of a tied model is found too (its values are the
 * embedding's). False when the model has none of that name. */
bool pl_hf_tensor_find(const pl_model_config *config, const char *name, pl_hf_tensor *tensor);

#endif
