/* presets -- models that people plan for, by name, and Hugging Face's config.json.
 *
 * A family says what a model is made of, a row its dims. Vocabularies are the rows of the embedding,
 * which are often more than the tokens of the tokenizer. The dims are public: each model's
 * config.json, and for those marked * the configurations of Lightning-AI/litgpt and
 * AI-Hypercomputer/maxtext, which agree; GPT-2 from karpathy/llm.c, DeepSeek-V3 from its
 * inference/configs/config_671B.json, MPT from mosaicml/llm-foundry. */
#include "config.h"

#include "src/base/json.h"
#include "src/model/architecture.h"
#include "src/model/model_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* --- families --- */

typedef struct {
    const char *model_type; /* as Hugging Face has it */
    pl_architecture made_of; /* the variants; dims are a model's own */
} family;

static const family families[] = {
    {"llama", {.gated = true, .norms_per_layer = 2}},
    {"mistral", {.gated = true, .norms_per_layer = 2}},
    {"mixtral", {.gated = true, .norms_per_layer = 2}},
    {"qwen2", {.gated = true, .norms_per_layer = 2, .qkv_bias = true}},
    {"qwen3", {.gated = true, .norms_per_layer = 2, .qk_norm = true}},
    {"qwen3_moe", {.gated = true, .norms_per_layer = 2, .qk_norm = true}},
    {"gemma", {.gated = true, .norms_per_layer = 2, .tied = true}},
    {"gemma2", {.gated = true, .norms_per_layer = 4, .tied = true}},
    {"gemma3_text", {.gated = true, .norms_per_layer = 4, .tied = true, .qk_norm = true}},
    {"gpt2",
     {.norms_per_layer = 2,
      .layer_norm = true,
      .learned_positions = true,
      .tied = true,
      .qkv_bias = true,
      .out_bias = true,
      .ffn_bias = true}},
    {"mpt",
     {.norms_per_layer = 2,
      .layer_norm = true,
      .learned_positions = true,
      .tied = true,
      .qkv_bias = true,
      .out_bias = true,
      .ffn_bias = true}},
    {"deepseek_v2", {.gated = true, .norms_per_layer = 2}},
    {"deepseek_v3", {.gated = true, .norms_per_layer = 2, .router_bias = true}},
};

static const family *find_family(const char *model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

/* --- presets --- */

typedef struct {
    const char *name, *family;
    int64_t L, D, N, K, H, F, V, T;
    bool tied;
    int64_t E, k, F_expert;
} row;

/* clang-format off */
static const row rows[] = {
    /* name, family, L, D, N, K, H, F, V, T, tied, E, k, F of an expert */
    {"llama2-7b", "llama", 32, 4096, 32, 32, 128, 11008, 32000, 4096, false, 0, 0, 0},
    {"llama2-13b", "llama", 40, 5120, 40, 40, 128, 13824, 32000, 4096, false, 0, 0, 0},
    {"llama2-70b", "llama", 80, 8192, 64, 8, 128, 28672, 32000, 4096, false, 0, 0, 0},
    {"llama3-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 8192, false, 0, 0, 0},
    {"llama3-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 8192, false, 0, 0, 0},
    {"llama3-405b", "llama", 126, 16384, 128, 8, 128, 53248, 128256, 131072, false, 0, 0, 0},
    {"llama3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, false, 0, 0, 0},
    {"llama3.1-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 131072, false, 0, 0, 0},
    {"llama3.1-405b", "llama", 126, 16384, 128, 8, 128, 53248, 128256, 131072, false, 0, 0, 0},
    {"llama3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, 0, 0, 0},
    {"llama3.2-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 131072, true, 0, 0, 0},
    {"llama3.3-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 131072, false, 0, 0, 0},
    {"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 2048, false, 0, 0, 0},
    {"stories260k", "llama", 5, 64, 8, 4, 8, 172, 512, 512, true, 0, 0, 0},
    {"story656k", "llama", 2, 128, 8, 4, 16, 384, 2048, 512, true, 0, 0, 0},
    {"mistral-7b", "mistral", 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, 0, 0, 0},
    {"mixtral-8x7b", "mixtral", 32, 4096, 32, 8, 128, 0, 32000, 32768, false, 8, 2, 14336},
    {"mixtral-8x22b", "mixtral", 56, 6144, 48, 8, 128, 0, 32768, 65536, false, 8, 2, 16384},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, true, 0, 0, 0},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, true, 0, 0, 0},
    {"qwen2.5-3b", "qwen2", 36, 2048, 16, 2, 128, 11008, 151936, 32768, true, 0, 0, 0},
    {"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, false, 0, 0, 0},
    {"qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 128, 13824, 152064, 32768, false, 0, 0, 0},
    {"qwen2.5-32b", "qwen2", 64, 5120, 40, 8, 128, 27648, 152064, 32768, false, 0, 0, 0},
    {"qwen2.5-72b", "qwen2", 80, 8192, 64, 8, 128, 29568, 152064, 32768, false, 0, 0, 0},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, true, 0, 0, 0},
    {"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 40960, true, 0, 0, 0},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 40960, true, 0, 0, 0},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, false, 0, 0, 0},
    {"qwen3-14b", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 40960, false, 0, 0, 0},
    {"qwen3-32b", "qwen3", 64, 5120, 64, 8, 128, 25600, 151936, 40960, false, 0, 0, 0},
    {"qwen3-30b-a3b", "qwen3_moe", 48, 2048, 32, 4, 128, 6144, 151936, 40960, false, 128, 8, 768},
    {"qwen3-235b-a22b", "qwen3_moe", 94, 4096, 64, 4, 128, 12288, 151936, 40960, false, 128, 8, 1536},
    {"gemma-2b", "gemma", 18, 2048, 8, 1, 256, 16384, 256000, 8192, true, 0, 0, 0},
    {"gemma-7b", "gemma", 28, 3072, 16, 16, 256, 24576, 256000, 8192, true, 0, 0, 0},
    {"gemma2-2b", "gemma2", 26, 2304, 8, 4, 256, 9216, 256000, 8192, true, 0, 0, 0},
    {"gemma2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 256000, 8192, true, 0, 0, 0},
    {"gemma2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, 8192, true, 0, 0, 0},
    {"gpt2", "gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, true, 0, 0, 0},
    {"gpt2-124m", "gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, true, 0, 0, 0},
    {"gpt2-medium", "gpt2", 24, 1024, 16, 16, 64, 4096, 50257, 1024, true, 0, 0, 0},
    {"gpt2-large", "gpt2", 36, 1280, 20, 20, 64, 5120, 50257, 1024, true, 0, 0, 0},
    {"gpt2-xl", "gpt2", 48, 1600, 25, 25, 64, 6400, 50257, 1024, true, 0, 0, 0},
    {"gpt3-175b", "gpt2", 96, 12288, 96, 96, 128, 49152, 51200, 2048, true, 0, 0, 0},
    {"mt-nlg-530b", "gpt2", 105, 20480, 128, 128, 160, 81920, 51200, 2048, true, 0, 0, 0},
    {"mpt-125m", "mpt", 12, 768, 12, 12, 64, 3072, 50368, 2048, true, 0, 0, 0},
    {"mpt-350m", "mpt", 24, 1024, 16, 16, 64, 4096, 50368, 2048, true, 0, 0, 0},
    {"mpt-760m", "mpt", 24, 1536, 12, 12, 128, 6144, 50368, 2048, true, 0, 0, 0},
    {"mpt-1b", "mpt", 24, 2048, 16, 16, 128, 8192, 50368, 2048, true, 0, 0, 0},
    {"mpt-3b", "mpt", 32, 2560, 20, 20, 128, 10240, 50368, 2048, true, 0, 0, 0},
    {"mpt-7b", "mpt", 32, 4096, 32, 32, 128, 16384, 50368, 2048, true, 0, 0, 0},
    {"mpt-13b", "mpt", 40, 5120, 40, 40, 128, 20480, 50368, 2048, true, 0, 0, 0},
    {"mpt-30b", "mpt", 48, 7168, 56, 56, 128, 28672, 50368, 2048, true, 0, 0, 0},
    {"mpt-70b", "mpt", 80, 8192, 64, 64, 128, 32768, 50368, 2048, true, 0, 0, 0},
    {"deepseek-v3", "deepseek_v3", 61, 7168, 128, 128, 128, 18432, 129280, 163840, false, 256, 8, 2048},
};
/* clang-format on */

enum { N_ROWS = sizeof rows / sizeof *rows };

const char *pl_architecture_preset_name(int i)
{
    return i >= 0 && i < N_ROWS ? rows[i].name : NULL;
}

static void take_row(const row *r, pl_architecture *a)
{
    *a = find_family(r->family)->made_of;
    snprintf(a->name, sizeof a->name, "%s", r->name);
    a->n_layers = r->L;
    a->d_model = r->D;
    a->n_heads = r->N;
    a->n_kv_heads = r->K;
    a->head_dim = r->H;
    a->d_ff = r->F;
    a->vocab = r->V;
    a->max_seq = r->T;
    a->tied = r->tied;
    a->n_experts = r->E;
    a->n_active_experts = r->k;
    a->d_ff_expert = r->F_expert;
    if (strcmp(r->name, "deepseek-v3") == 0) {
        a->q_rank = 1536;
        a->kv_rank = 512;
        a->rope_dim = 64;
        a->v_dim = 128;
        a->n_shared_experts = 1;
        a->n_dense_layers = 3;
    }
}

/* Equal but for case and for all that is no letter or digit: "Llama-3-70B" is llama3-70b. */
static bool same_name(const char *a, const char *b)
{
    for (;;) {
        while (*a != '\0' && !isalnum((unsigned char)*a))
            a++;
        while (*b != '\0' && !isalnum((unsigned char)*b))
            b++;
        if (*a == '\0' || *b == '\0')
            return *a == *b;
        if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++))
            return false;
    }
}

static const row *find_row(const char *name)
{
    for (int i = 0; i < N_ROWS; i++)
        if (same_name(rows[i].name, name))
            return &rows[i];
    return NULL;
}

/* --- reading config.json --- */

enum { LARGEST = 1 << 30 };

/* The first of the keys (up to the NULL) that the file has; `absent` < 0: there must be one. */
static pl_status integer_of(const json_t *root, const char *path, const char *const *keys,
                            int64_t absent, int64_t *value)
{
    for (int i = 0; keys[i] != NULL; i++)
        if (pl_json_has(root, keys[i]))
            return pl_json_integer(root, path, keys[i], 0, LARGEST, value);
    if (absent < 0)
        return pl_json_integer(root, path, keys[0], 0, LARGEST, value); /* refuses */
    *value = absent;
    return PL_OK;
}

static pl_status flag_of(const json_t *root, const char *path, const char *key, bool *value)
{
    return pl_json_has(root, key) ? pl_json_boolean(root, path, key, value) : PL_OK;
}

static pl_status read_dims(const json_t *root, const char *path, pl_architecture *a)
{
    struct {
        const char *keys[4];
        int64_t absent, *value;
    } const dims[] = {
        {{"num_hidden_layers", "n_layer", "n_layers"}, -1, &a->n_layers},
        {{"hidden_size", "n_embd", "d_model"}, -1, &a->d_model},
        {{"num_attention_heads", "n_head", "n_heads"}, -1, &a->n_heads},
        {{"num_key_value_heads"}, 0, &a->n_kv_heads},
        {{"head_dim"}, 0, &a->head_dim},
        {{"intermediate_size", "n_inner"}, 0, &a->d_ff},
        {{"vocab_size"}, -1, &a->vocab},
        {{"max_position_embeddings", "n_positions", "max_seq_len"}, 2048, &a->max_seq},
    };
    pl_status status = PL_OK;

    for (size_t i = 0; i < sizeof dims / sizeof *dims && status == PL_OK; i++)
        status = integer_of(root, path, dims[i].keys, dims[i].absent, dims[i].value);
    if (status != PL_OK)
        return status;
    if (a->n_kv_heads == 0)
        a->n_kv_heads = a->n_heads;
    if (a->head_dim == 0 && a->n_heads > 0)
        a->head_dim = a->d_model / a->n_heads;
    if (a->d_ff == 0)
        a->d_ff = 4 * a->d_model;
    return PL_OK;
}

static pl_status read_experts(const json_t *root, const char *path, pl_architecture *a)
{
    static const char *const E[] = {"num_local_experts", "num_experts", "n_routed_experts", NULL};
    static const char *const k[] = {"num_experts_per_tok", NULL};
    static const char *const F[] = {"moe_intermediate_size", "intermediate_size", NULL};
    static const char *const shared[] = {"n_shared_experts", NULL};
    static const char *const dense[] = {"first_k_dense_replace", NULL};
    pl_status status = integer_of(root, path, E, 0, &a->n_experts);

    if (status != PL_OK || a->n_experts == 0)
        return status;
    status = integer_of(root, path, k, -1, &a->n_active_experts);
    if (status == PL_OK)
        status = integer_of(root, path, F, -1, &a->d_ff_expert);
    if (status == PL_OK)
        status = integer_of(root, path, shared, 0, &a->n_shared_experts);
    if (status == PL_OK)
        status = integer_of(root, path, dense, 0, &a->n_dense_layers);
    return status;
}

static pl_status read_compressed(const json_t *root, const char *path, pl_architecture *a)
{
    struct {
        const char *keys[2];
        int64_t *value;
    } const dims[] = {
        {{"q_lora_rank"}, &a->q_rank},
        {{"kv_lora_rank"}, &a->kv_rank},
        {{"qk_rope_head_dim"}, &a->rope_dim},
        {{"v_head_dim"}, &a->v_dim},
        {{"qk_nope_head_dim"}, &a->head_dim},
    };
    pl_status status = PL_OK;

    for (size_t i = 0; i < sizeof dims / sizeof *dims && status == PL_OK; i++)
        status = integer_of(root, path, dims[i].keys, i == 0 ? 0 : -1, dims[i].value);
    return status;
}

static pl_status read_config(const json_t *root, const char *path, pl_architecture *a)
{
    const char *type;
    pl_status status = pl_json_string(root, path, "model_type", &type);
    const family *f = status == PL_OK ? find_family(type) : NULL;

    if (status == PL_OK && f == NULL)
        status = pl_refuse(PL_BAD_INPUT,
                           "%s: model_type \"%s\" is not known; known are llama, mistral, mixtral, "
                           "qwen2, qwen3, qwen3_moe, gemma, gemma2, gemma3_text, gpt2, mpt, "
                           "deepseek_v2, deepseek_v3",
                           path, type);
    if (status != PL_OK)
        return status;
    *a = f->made_of;
    snprintf(a->name, sizeof a->name, "%s", path);
    status = read_dims(root, path, a);
    if (status == PL_OK)
        status = read_experts(root, path, a);
    if (status == PL_OK && pl_json_has(root, "kv_lora_rank"))
        status = read_compressed(root, path, a);
    if (status == PL_OK)
        status = flag_of(root, path, "tie_word_embeddings", &a->tied);
    if (status == PL_OK && pl_json_has(root, "attention_bias")) {
        status = flag_of(root, path, "attention_bias", &a->qkv_bias);
        a->out_bias = a->qkv_bias;
    }
    if (status == PL_OK)
        status = flag_of(root, path, "mlp_bias", &a->ffn_bias);
    return status == PL_OK ? pl_architecture_check(path, a) : status;
}

pl_status pl_architecture_read(const char *path, pl_architecture *architecture)
{
    pl_architecture a;
    json_t *root;
    pl_status status = pl_json_load(path, &root);

    if (status != PL_OK)
        return status;
    status = read_config(root, path, &a);
    json_decref(root);
    if (status == PL_OK)
        *architecture = a;
    return status;
}

static pl_status refuse_name(const char *name)
{
    char known[2048];
    size_t n = 0;

    for (int i = 0; i < N_ROWS && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, ", %s", rows[i].name);
    return pl_refuse(PL_BAD_INPUT,
                     "\"%s\" is no model that purlin knows, nor can it be read as a config.json "
                     "(%s); known are %s%s",
                     name, strerror(errno), pl_model_config_presets(), known);
}

pl_status pl_architecture_find(const char *name_or_path, pl_architecture *a)
{
    char path[4096];
    struct stat about;
    pl_model_config trainable;
    const row *r = find_row(name_or_path);

    if (r != NULL) {
        take_row(r, a);
        return PL_OK;
    }
    if (pl_model_config_is_preset(name_or_path)) {
        const pl_status status = pl_model_config_preset(name_or_path, &trainable);

        if (status == PL_OK)
            pl_model_config_describe(&trainable, a);
        return status;
    }
    if (stat(name_or_path, &about) != 0)
        return refuse_name(name_or_path);
    snprintf(path, sizeof path, S_ISDIR(about.st_mode) ? "%s/config.json" : "%s", name_or_path);
    return pl_architecture_read(path, a);
}
