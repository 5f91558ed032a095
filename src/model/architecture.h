/* architecture -- what there is to count in a decoder: every weight, its FLOPs, its caches.
 *
 * One description for the families that people plan for: LLaMA-like models, GPT-2 (LayerNorm,
 * biases, learned positions), Gemma (tied, norms around each block), Qwen (biases on q, k, v, or
 * norms of q and k), mixtures of experts with and without shared experts, and DeepSeek's attention
 * with compressed keys and values. Every count comes from one list of weights, so that parameters
 * and FLOPs cannot disagree. src/model/model_config.h holds what purlin can train; it is counted
 * here too. All functions are local. Letters as in doc/notation.md: L layers, D width, N heads, K
 * key/value heads, H head size, F feed-forward, V vocabulary, E experts, k of them per token. */
#ifndef PURLIN_MODEL_ARCHITECTURE_H
#define PURLIN_MODEL_ARCHITECTURE_H

#include "src/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    char name[256];
    int64_t n_layers;   /* L */
    int64_t d_model;    /* D */
    int64_t n_heads;    /* N */
    int64_t n_kv_heads; /* K */
    int64_t head_dim;   /* H; with compressed keys and values: the part without positions */
    int64_t d_ff;       /* F of a dense layer */
    int64_t vocab;      /* V: rows of the embedding */
    int64_t max_seq;    /* the longest sequence; rows of a learned position table */
    bool tied;          /* the embedding serves as the output head */

    bool gated;              /* three matrices of D x F in the feed-forward block, else two */
    bool layer_norm;         /* norms have a bias */
    int64_t norms_per_layer; /* 2; 4 where each block's output is normed too */
    bool qk_norm;            /* q and k are normed, over H */
    bool learned_positions;
    bool qkv_bias, out_bias, ffn_bias;

    /* Keys and values compressed to kv_rank (DeepSeek's multi-head latent attention); 0: not. */
    int64_t q_rank, kv_rank, rope_dim, v_dim;

    /* Experts; n_experts 0: all layers are dense. */
    int64_t n_experts, n_active_experts, n_shared_experts; /* E, k, and those of every token */
    int64_t d_ff_expert;
    int64_t n_dense_layers; /* the first layers that have no experts */
    bool router_bias;
} pl_architecture;

typedef enum {
    PL_PART_EMBEDDING,
    PL_PART_ATTENTION,
    PL_PART_FFN,
    PL_PART_ROUTER,
    PL_PART_NORM,
    PL_PART_HEAD,
    PL_N_PARTS,
} pl_part_group;

/** "embedding", "attention", "ffn", "router", "norms", "head". */
const char *pl_part_group_name(pl_part_group group);

/* A kind of weight: an array [rows, cols] that n_layers layers hold n_each times. */
typedef struct {
    const char *name; /* "attention.q" */
    pl_part_group group;
    int64_t rows, cols;
    int64_t n_layers; /* 1 for what is outside the layers */
    int64_t n_each;   /* experts; 1 for what is dense */
    int64_t n_active; /* of those, how many a token uses */
    bool is_matmul;   /* a token costs 2 rows x cols FLOPs forward */
    bool is_shared;   /* belongs to another weight (a tied head): no parameters of its own */
} pl_part;

enum { PL_MAX_PARTS = 40 };

/** Every kind of weight, in the order in which a token meets them; returns how many. */
int pl_architecture_parts(const pl_architecture *a, pl_part parts[PL_MAX_PARTS]);

typedef struct {
    int64_t total;
    int64_t active;            /* used by one token: k of E experts, and all else */
    int64_t group[PL_N_PARTS]; /* their sum is total */
    int64_t matmul;            /* elements of matrices that a token is multiplied with */
} pl_param_counts;

/** Parameters; a tied embedding counts once. */
pl_param_counts pl_architecture_params(const pl_architecture *a);

/** FLOPs of all matrix products of one token, forward: 2 x pl_param_counts.matmul. Backward is
 * twice that. (Book, section 4.) */
double pl_architecture_matmul_flops(const pl_architecture *a);

/** FLOPs of q . k and p . v of one token that sees n_keys keys, forward, all layers:
 *   L N (2 n_keys H + 2 n_keys H)
 * Over a causal sequence of T tokens a token sees (T + 1) / 2 keys on average. Backward is twice
 * that (2.5 times where p is computed anew). (Book, section 4.) */
double pl_architecture_attention_flops(const pl_architecture *a, double n_keys);

/* How the FLOPs of training are counted. */
typedef enum {
    PL_FLOPS_CAUSAL, /* products, and attention to the T/2 keys that the mask lets through */
    PL_FLOPS_FULL,   /* products, and attention to all T keys, masked or not */
    PL_FLOPS_PALM,   /* 6 x active parameters (lookups and norms too), attention to all T keys: what
                      * the PaLM paper's MFU counts */
    PL_FLOPS_6N,     /* 6 x active parameters, no attention: the book's estimate */
} pl_flops_convention;

/** Training FLOPs of one token in a sequence of `seq`, forward and backward, nothing recomputed:
 * 3 x (products + attention), or 6 x active parameters (+ 3 x attention). */
double pl_architecture_train_flops(const pl_architecture *a, double seq,
                                   pl_flops_convention convention);

/** Bytes of keys and values that one token leaves in the cache, all layers: 2 L K H x bytes, or
 * L (kv_rank + rope_dim) x bytes where they are compressed. (Book, section 7.) */
double pl_architecture_kv_bytes(const pl_architecture *a, double bytes_per_element);

/* What the forward pass keeps for the backward pass. */
typedef enum {
    PL_KEEP_ALL,     /* all that the backward pass reads */
    PL_KEEP_MATMULS, /* what the matrix products give (7 of a LLaMA layer); the rest is computed
                      * anew, attention among it */
    PL_KEEP_BLOCK,   /* the input of each layer; a layer's forward pass is done again */
} pl_keep;

/** Elements that one token leaves per layer for the backward pass (of a dense layer, or of the k
 * experts that it visits). Attention keeps its output and one statistic a head, never the scores.
 * (Book, section 4.) */
double pl_architecture_kept_elements(const pl_architecture *a, pl_keep keep);

/** The same beside the layers: what the loss keeps of a token (the normed output and the logits).
 */
double pl_architecture_kept_by_loss(const pl_architecture *a);

/** FLOPs of one token that are done again in the backward pass, all layers: 0; attention's q . k
 * and p . v; or a whole forward pass of the layers. */
double pl_architecture_recomputed_flops(const pl_architecture *a, double n_keys, pl_keep keep);

/** A LLaMA-like model of the given dims (gated, RMSNorm, untied); H = 0 means D / N. */
void pl_architecture_init(pl_architecture *a, int64_t L, int64_t D, int64_t N, int64_t K, int64_t H,
                          int64_t F, int64_t V);

/** Refuses extents that do not fit each other; `where` opens the message. */
pl_status pl_architecture_check(const char *where, const pl_architecture *a);

/* --- presets and files: src/model/presets.c --- */

/** A preset by name ("llama3-70b"; case, dashes, dots and spaces do not matter), one of the models
 * that ./train knows ("small"), or the path of a Hugging Face config.json or of a folder that holds
 * one. Refuses what it does not know, with the names. */
pl_status pl_architecture_find(const char *name_or_path, pl_architecture *a);

/** A Hugging Face config.json of a family that is known (llama, mistral, mixtral, qwen2, qwen3,
 * qwen3_moe, gemma, gemma2, gemma3_text, gpt2, mpt, deepseek_v2, deepseek_v3). */
pl_status pl_architecture_read(const char *path, pl_architecture *a);

/** Name i of the presets, or NULL after the last. */
const char *pl_architecture_preset_name(int i);

#endif
