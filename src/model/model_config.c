#include "config.h"

#include "src/model/model_config.h"
#include "src/base/json.h"
#include "src/base/panic.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const pl_model_config presets[] = {
    {.name = "tiny",
     .n_layers = 5,
     .d_model = 72,
     .n_heads = 8,
     .n_kv_heads = 4,
     .head_dim = 18,
     .d_ff = 172,
     .vocab = 257,
     .max_seq = 63,
     .rms_eps = 1e-5,
     .rope_theta = 10000},
    {.name = "small",
     .n_layers = 8,
     .d_model = 512,
     .n_heads = 8,
     .n_kv_heads = 4,
     .head_dim = 64,
     .d_ff = 1536,
     .vocab = 256,
     .max_seq = 256,
     .rms_eps = 1e-5,
     .rope_theta = 10000},
    {.name = "base",
     .n_layers = 12,
     .d_model = 768,
     .n_heads = 12,
     .n_kv_heads = 12,
     .head_dim = 64,
     .d_ff = 2048,
     .vocab = 50257,
     .max_seq = 1024,
     .rms_eps = 1e-5,
     .rope_theta = 10000,
     .tied = true},
};

const char *pl_model_config_presets(void)
{
    return "tiny, small, base";
}

static const pl_model_config *find_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

bool pl_model_config_is_preset(const char *name)
{
    return find_preset(name) != NULL;
}

pl_status pl_model_config_preset(const char *name, pl_model_config *config)
{
    const pl_model_config *preset = find_preset(name);

    if (preset == NULL)
        return pl_refuse(PL_BAD_INPUT, "no model is called \"%s\"; there are %s", name,
                         pl_model_config_presets());
    *config = *preset;
    return PL_OK;
}

pl_status pl_model_config_check(const char *where, const pl_model_config *c)
{
    /* The largest of each: far above any model, low enough that no product below overflows. */
    const struct {
        const char *what;
        int64_t value, most;
    } extents[] = {
        {"number of layers", c->n_layers, 1 << 12},
        {"width D", c->d_model, 1 << 20},
        {"number of heads N", c->n_heads, 1 << 12},
        {"number of key/value heads K", c->n_kv_heads, 1 << 12},
        {"head size H", c->head_dim, 1 << 12},
        {"feed-forward width F", c->d_ff, 1 << 24},
        {"vocabulary V", c->vocab, 1 << 30},
        {"longest sequence T", c->max_seq, 1 << 30},
    };

    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i].value < 1 || extents[i].value > extents[i].most)
            return pl_refuse(PL_BAD_INPUT, "%s: %s is %" PRId64 ", not in 1 to %" PRId64, where,
                             extents[i].what, extents[i].value, extents[i].most);
    if (c->n_heads % c->n_kv_heads != 0)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: %" PRId64 " query heads do not share %" PRId64
                         " key/value heads evenly",
                         where, c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2 != 0)
        return pl_refuse(PL_BAD_INPUT, "%s: head size %" PRId64 " is odd, but RoPE rotates pairs",
                         where, c->head_dim);
    if (!(c->rms_eps > 0 && c->rms_eps < 1))
        return pl_refuse(PL_BAD_INPUT, "%s: the RMSNorm epsilon is %g, not between 0 and 1", where,
                         c->rms_eps);
    if (!(c->rope_theta > 0 && c->rope_theta <= 1e15))
        return pl_refuse(PL_BAD_INPUT, "%s: RoPE's theta is %g, not in (0, 1e15]", where,
                         c->rope_theta);
    return PL_OK;
}

/* --- reading config.json --- */

enum { LARGEST = 1 << 30 }; /* of any integer in the file; pl_model_config_check() says more */

static pl_status optional_integer(const json_t *root, const char *path, const char *key,
                                  int64_t absent, int64_t *value)
{
    *value = absent;
    return pl_json_has(root, key) ? pl_json_integer(root, path, key, 1, LARGEST, value) : PL_OK;
}

static pl_status optional_number(const json_t *root, const char *path, const char *key,
                                 double *value)
{
    return pl_json_has(root, key) ? pl_json_number(root, path, key, 0, 1e300, value) : PL_OK;
}

/** A string that, where it is given, must be `wanted`. */
static pl_status expect_string(const json_t *root, const char *path, const char *key,
                               const char *wanted)
{
    const char *found = NULL;
    pl_status status = PL_OK;

    if (!pl_json_has(root, key))
        return PL_OK;
    status = pl_json_string(root, path, key, &found);
    if (status == PL_OK && strcmp(found, wanted) != 0)
        status = pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is \"%s\"; purlin computes only \"%s\"", path,
                           key, found, wanted);
    return status;
}

/** A flag that, where it is given, must be false. */
static pl_status expect_false(const json_t *root, const char *path, const char *key)
{
    bool on = false;
    pl_status status = PL_OK;

    if (pl_json_has(root, key))
        status = pl_json_boolean(root, path, key, &on);
    if (status == PL_OK && on)
        status =
            pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is true; purlin's model has no biases", path, key);
    return status;
}

static pl_status expect_absent(const json_t *root, const char *path, const char *key)
{
    if (pl_json_has(root, key))
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is set; purlin does not support it", path, key);
    return PL_OK;
}

static pl_status refuse_other_models(const json_t *root, const char *path)
{
    const json_t *architectures = json_object_get(root, "architectures");
    pl_status status = expect_string(root, path, "model_type", "llama");

    if (status == PL_OK && !pl_json_has(root, "model_type") && json_is_array(architectures) &&
        json_array_size(architectures) > 0) {
        const char *name = json_string_value(json_array_get(architectures, 0));

        if (name == NULL || strcmp(name, "LlamaForCausalLM") != 0)
            status = pl_refuse(PL_BAD_INPUT,
                               "%s: \"architectures\" begins with \"%s\"; purlin computes only "
                               "\"LlamaForCausalLM\"",
                               path, name != NULL ? name : "?");
    }
    if (status == PL_OK)
        status = expect_string(root, path, "hidden_act", "silu");
    if (status == PL_OK)
        status = expect_false(root, path, "attention_bias");
    if (status == PL_OK)
        status = expect_false(root, path, "mlp_bias");
    if (status == PL_OK)
        status = expect_absent(root, path, "rope_scaling");
    if (status == PL_OK)
        status = expect_absent(root, path, "quantization_config");
    return status;
}

/** rope_theta at the top, or in the rope_parameters of newer files. */
static pl_status read_rope(const json_t *root, const char *path, double *theta)
{
    char where[4096 + 32];
    json_t *inner;
    pl_status status = optional_number(root, path, "rope_theta", theta);

    if (status != PL_OK || !pl_json_has(root, "rope_parameters"))
        return status;
    status = pl_json_object(root, path, "rope_parameters", &inner);
    if (status != PL_OK)
        return status;
    snprintf(where, sizeof where, "%s: rope_parameters", path);
    status = expect_string(inner, where, "rope_type", "default");
    if (status == PL_OK)
        status = optional_number(inner, where, "rope_theta", theta);
    return status;
}

static pl_status read_extents(const json_t *root, const char *path, pl_model_config *c)
{
    int64_t n_layers = 0;
    pl_status status = pl_json_integer(root, path, "num_hidden_layers", 1, LARGEST, &n_layers);

    c->n_layers = (int)n_layers;
    if (status == PL_OK)
        status = pl_json_integer(root, path, "hidden_size", 1, LARGEST, &c->d_model);
    if (status == PL_OK)
        status = pl_json_integer(root, path, "num_attention_heads", 1, LARGEST, &c->n_heads);
    if (status == PL_OK)
        status = pl_json_integer(root, path, "intermediate_size", 1, LARGEST, &c->d_ff);
    if (status == PL_OK)
        status = pl_json_integer(root, path, "vocab_size", 1, LARGEST, &c->vocab);
    if (status == PL_OK)
        status = optional_integer(root, path, "num_key_value_heads", c->n_heads, &c->n_kv_heads);
    if (status == PL_OK)
        status = optional_integer(root, path, "max_position_embeddings", 2048, &c->max_seq);
    if (status == PL_OK && !pl_json_has(root, "head_dim") && c->d_model % c->n_heads != 0)
        status = pl_refuse(PL_BAD_INPUT,
                           "%s: hidden_size %" PRId64 " is no multiple of num_attention_heads "
                           "%" PRId64 ", and there is no head_dim",
                           path, c->d_model, c->n_heads);
    if (status == PL_OK)
        status = optional_integer(root, path, "head_dim", c->d_model / c->n_heads, &c->head_dim);
    return status;
}

static pl_status read_config(const json_t *root, const char *path, pl_model_config *c)
{
    pl_status status = refuse_other_models(root, path);

    if (status == PL_OK)
        status = read_extents(root, path, c);
    if (status == PL_OK)
        status = optional_number(root, path, "rms_norm_eps", &c->rms_eps);
    if (status == PL_OK)
        status = read_rope(root, path, &c->rope_theta);
    if (status == PL_OK && pl_json_has(root, "tie_word_embeddings"))
        status = pl_json_boolean(root, path, "tie_word_embeddings", &c->tied);
    if (status == PL_OK)
        status = pl_model_config_check(path, c);
    return status;
}

pl_status pl_model_config_read(const char *path, pl_model_config *config)
{
    pl_model_config c = {.rms_eps = 1e-6, .rope_theta = 10000};
    json_t *root;
    pl_status status = pl_json_load(path, &root);

    if (status != PL_OK)
        return status;
    snprintf(c.name, sizeof c.name, "%s", path);
    status = read_config(root, path, &c);
    json_decref(root);
    if (status == PL_OK)
        *config = c;
    return status;
}

pl_status pl_model_config_find(const char *name_or_path, pl_model_config *config)
{
    char path[4096];
    struct stat about;
    const pl_model_config *preset = find_preset(name_or_path);

    if (preset != NULL) {
        *config = *preset;
        return PL_OK;
    }
    if (stat(name_or_path, &about) != 0)
        return pl_refuse(PL_BAD_INPUT,
                         "\"%s\" is no model that purlin knows (%s), nor can it be read as a "
                         "config.json: %s",
                         name_or_path, pl_model_config_presets(), strerror(errno));
    snprintf(path, sizeof path, S_ISDIR(about.st_mode) ? "%s/config.json" : "%s", name_or_path);
    return pl_model_config_read(path, config);
}

/* --- writing --- */

static void set(json_t *root, const char *key, json_t *value)
{
    PL_ASSERT(json_object_set_new(root, key, value) == 0);
}

pl_status pl_model_config_write(const char *path, const pl_model_config *c)
{
    json_t *root = json_object();
    pl_status status;

    set(root, "architectures", json_pack("[s]", "LlamaForCausalLM"));
    set(root, "model_type", json_string("llama"));
    set(root, "attention_bias", json_false());
    set(root, "mlp_bias", json_false());
    set(root, "hidden_act", json_string("silu"));
    set(root, "num_hidden_layers", json_integer(c->n_layers));
    set(root, "hidden_size", json_integer(c->d_model));
    set(root, "num_attention_heads", json_integer(c->n_heads));
    set(root, "num_key_value_heads", json_integer(c->n_kv_heads));
    set(root, "head_dim", json_integer(c->head_dim));
    set(root, "intermediate_size", json_integer(c->d_ff));
    set(root, "vocab_size", json_integer(c->vocab));
    set(root, "max_position_embeddings", json_integer(c->max_seq));
    set(root, "rms_norm_eps", pl_json_real(c->rms_eps));
    set(root, "rope_theta", pl_json_real(c->rope_theta));
    set(root, "rope_scaling", json_null());
    set(root, "tie_word_embeddings", json_boolean(c->tied));
    set(root, "torch_dtype", json_string("float32"));
    status = pl_json_save(path, root);
    json_decref(root);
    return status;
}

void pl_model_config_describe(const pl_model_config *c, pl_architecture *a)
{
    pl_architecture_init(a, c->n_layers, c->d_model, c->n_heads, c->n_kv_heads, c->head_dim,
                         c->d_ff, c->vocab);
    snprintf(a->name, sizeof a->name, "%s", c->name);
    a->max_seq = c->max_seq;
    a->tied = c->tied;
}

int64_t pl_model_n_params(const pl_model_config *c)
{
    pl_architecture a;

    pl_model_config_describe(c, &a);
    return pl_architecture_params(&a).total;
}
