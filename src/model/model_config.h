/* model_config -- the numbers that define a LLaMA-like transformer, by name or from a Hugging Face
 * config.json. All functions are local. */
#ifndef PURLIN_MODEL_MODEL_CONFIG_H
#define PURLIN_MODEL_MODEL_CONFIG_H

#include "src/base/status.h"
#include "src/model/architecture.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char name[256];     /* of the preset, or the path that it was read from */
    int n_layers;       /* L */
    int64_t d_model;    /* D, width */
    int64_t n_heads;    /* N, query heads */
    int64_t n_kv_heads; /* K, key/value heads; divides N */
    int64_t head_dim;   /* H, even; N x H need not be D */
    int64_t d_ff;       /* F */
    int64_t vocab;      /* V */
    int64_t max_seq;    /* T, the longest sequence */
    double rms_eps;
    double rope_theta;
    bool tied; /* the embedding serves as the output head */
} pl_model_config;

/** The names that pl_model_config_preset() knows, for help texts: "tiny, small, base". */
const char *pl_model_config_presets(void);

/** Whether `name` is one of them. */
bool pl_model_config_is_preset(const char *name);

/** A preset. Refuses an unknown name with the list of those known.
 *   tiny    every extent awkward on purpose: head_dim is not D/N, nothing is a power of two
 *   small   a byte-level model that trains in minutes on a few cores
 *   base    GPT-2's width, depth, vocabulary and tying with LLaMA's blocks: 123,551,232
 *           parameters beside GPT-2's 124,439,808 */
pl_status pl_model_config_preset(const char *name, pl_model_config *config);

/** A Hugging Face LLaMA config.json. Honours head_dim (default D/N), num_key_value_heads (N),
 * max_position_embeddings (2048), rms_norm_eps (1e-6), rope_theta (10000, also inside
 * rope_parameters) and tie_word_embeddings (false). Refuses, by key, what purlin would compute
 * differently: rope_scaling, biases, an activation other than silu, another model_type,
 * quantization. */
pl_status pl_model_config_read(const char *path, pl_model_config *config);

/** A preset's name, else the path of a config.json or of a folder that holds one. */
pl_status pl_model_config_find(const char *name_or_path, pl_model_config *config);

/** Write a config.json that pl_model_config_read() and Hugging Face's LlamaForCausalLM read. The
 * file appears whole or not at all. */
pl_status pl_model_config_write(const char *path, const pl_model_config *config);

/** Refuses extents that are not positive, absurd, or do not fit each other; `where` opens the
 * message. Within these limits 4 x pl_model_n_params() fits in int64_t. */
pl_status pl_model_config_check(const char *where, const pl_model_config *config);

/** The same model as a list of weights can be counted from. */
void pl_model_config_describe(const pl_model_config *config, pl_architecture *architecture);

/** Parameters; a tied embedding counts once:
 *   V D (2 if untied)  +  L (2 D N H + 2 D K H + 3 D F + 2 D)  +  D  */
int64_t pl_model_n_params(const pl_model_config *config);

#endif
