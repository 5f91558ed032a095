/* architecture_test -- parameters of public models, exactly; FLOPs and caches from the same list.
 */
#include "config.h"

#include "src/base/json.h"
#include "src/model/architecture.h"
#include "src/model/model_config.h"
#include "src/model/transformer.h"
#include "src/program/kinds.h"
#include "src/program/program.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Published counts: the parameters that each model's safetensors metadata or model card says. */
static const struct {
    const char *name;
    int64_t total, active; /* active 0: all */
} published[] = {
    {"llama2-7b", 6738415616, 0},
    {"llama2-13b", 13015864320, 0},
    {"llama2-70b", 68976648192, 0},
    {"llama3-8b", 8030261248, 0},
    {"llama3-70b", 70553706496, 0},
    {"llama3.1-8b", 8030261248, 0},
    {"llama3.1-70b", 70553706496, 0},
    {"llama3.1-405b", 405853388800, 0},
    {"llama3.2-1b", 1235814400, 0},
    {"llama3.2-3b", 3212749824, 0},
    {"llama3.3-70b", 70553706496, 0},
    {"tinyllama-1.1b", 1100048384, 0},
    {"mistral-7b", 7241732096, 0},
    {"mixtral-8x7b", 46702792704, 12879925248},
    {"mixtral-8x22b", 140630071296, 0},
    {"qwen2.5-0.5b", 494032768, 0},
    {"qwen2.5-1.5b", 1543714304, 0},
    {"qwen2.5-3b", 3085938688, 0},
    {"qwen2.5-7b", 7615616512, 0},
    {"qwen2.5-14b", 14770033664, 0},
    {"qwen2.5-32b", 32763876352, 0},
    {"qwen2.5-72b", 72706203648, 0},
    {"qwen3-4b", 4022468096, 0},
    {"qwen3-8b", 8190735360, 0},
    {"qwen3-32b", 32762123264, 0},
    {"qwen3-30b-a3b", 30532122624, 3353032704},
    {"qwen3-235b-a22b", 235093634560, 0},
    {"gemma-2b", 2506172416, 0},
    {"gemma-7b", 8537680896, 0},
    {"gemma2-2b", 2614341888, 0},
    {"gemma2-9b", 9241705984, 0},
    {"gemma2-27b", 27227128320, 0},
    {"gpt2-124m", 124439808, 0},
    {"gpt2-medium", 354823168, 0},
    {"gpt2-large", 774030080, 0},
    {"gpt2-xl", 1557611200, 0},
    {"mpt-70b", 64862437376, 0},
    {"deepseek-v3", 671026419200, 37552297472},
};

static pl_architecture find(const char *name)
{
    pl_architecture a;

    ck_assert_msg(pl_architecture_find(name, &a) == PL_OK, "%s", pl_status_message());
    ck_assert_msg(pl_architecture_check(name, &a) == PL_OK, "%s", pl_status_message());
    return a;
}

START_TEST(published_parameters_exactly)
{
    const pl_architecture a = find(published[_i].name);
    const pl_param_counts counts = pl_architecture_params(&a);

    ck_assert_int_eq(counts.total, published[_i].total);
    if (published[_i].active > 0)
        ck_assert_int_eq(counts.active, published[_i].active);
    else if (a.n_experts == 0)
        ck_assert_int_eq(counts.active, counts.total);
}
END_TEST

START_TEST(every_preset_is_consistent)
{
    for (int i = 0; pl_architecture_preset_name(i) != NULL; i++) {
        const pl_architecture a = find(pl_architecture_preset_name(i));
        const pl_param_counts counts = pl_architecture_params(&a);
        int64_t sum = 0;

        for (int g = 0; g < PL_N_PARTS; g++)
            sum += counts.group[g];
        ck_assert_int_eq(sum, counts.total);
        ck_assert_int_le(counts.active, counts.total);
    }
}
END_TEST

START_TEST(names_may_be_typed_otherwise)
{
    ck_assert_int_eq(find("Llama-3.1-405B").n_layers, 126);
    ck_assert_int_eq(find("LLAMA 3 70B").n_layers, 80);
    ck_assert_int_eq(find("GPT-2-124M").d_model, 768);
}
END_TEST

START_TEST(unknown_model_is_refused_with_the_list)
{
    pl_architecture a;

    ck_assert_int_eq(pl_architecture_find("llama9", &a), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "llama9"));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "deepseek-v3"));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "small"));
}
END_TEST

/* --- against the program that trains --- */

/* The forward program of a trainable model: its weights, and the FLOPs of its products. */
START_TEST(trainable_model_counts_as_its_program)
{
    static const char *const names[] = {"tiny", "small", "base"};
    pl_model_config model;
    const pl_mesh mesh = {0};
    const pl_batch batch = {.n_sequences = 3, .micro_batch = 3, .seq = 48, .n_microbatches = 1};
    const double n_tokens = 3 * 48;
    const pl_coords origin = {{0}};
    double matmul = 0, attention = 0;
    int64_t n_params = 0;

    ck_assert_int_eq(pl_model_config_preset(names[_i], &model), PL_OK);
    const pl_architecture a = find(names[_i]);
    pl_program *p = pl_program_create(&mesh, &batch);
    pl_transformer_forward(p, &model);
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].class == PL_WEIGHT && p->values[v].persists)
            n_params += pl_local_elements(p, v, origin);
    for (int o = 0; o < p->n_ops; o++) {
        const pl_op_cost cost = pl_op_cost_at(p, &p->ops[o], origin);

        matmul += cost.is_matmul ? cost.flops : 0;
        attention += cost.is_attention ? cost.flops : 0;
    }
    ck_assert_int_eq(pl_architecture_params(&a).total, n_params);
    ck_assert_int_eq(pl_model_n_params(&model), n_params);
    ck_assert(pl_architecture_matmul_flops(&a) * n_tokens == matmul);
    ck_assert(pl_architecture_attention_flops(&a, (48 + 1) / 2.0) * n_tokens == attention);
    pl_program_destroy(p);
}
END_TEST

/* --- FLOPs and caches --- */

/* LLaMA 3 70B, by hand: a token multiplies with everything but the embedding and the norms. */
START_TEST(flops_follow_from_the_list)
{
    const pl_architecture a = find("llama3-70b");
    const double matmul =
        80.0 * (2.0 * 8192 * (64 + 8) * 128 + 3.0 * 8192 * 28672) + 8192.0 * 128256;
    const double attention = 4.0 * 80 * 64 * 128; /* a key */

    ck_assert(pl_architecture_matmul_flops(&a) == 2 * matmul);
    ck_assert(pl_architecture_attention_flops(&a, 100) == 100 * attention);
    ck_assert(pl_architecture_train_flops(&a, 8192, PL_FLOPS_CAUSAL) ==
              3 * (2 * matmul + 4096 * attention));
    ck_assert(pl_architecture_train_flops(&a, 8192, PL_FLOPS_FULL) ==
              3 * (2 * matmul + 8192 * attention));
    ck_assert(pl_architecture_train_flops(&a, 8192, PL_FLOPS_6N) == 6.0 * 70553706496);
    ck_assert(pl_architecture_recomputed_flops(&a, 4096, PL_KEEP_BLOCK) ==
              2 * matmul - 2 * 8192.0 * 128256 + 4096 * attention);
    ck_assert(pl_architecture_recomputed_flops(&a, 4096, PL_KEEP_MATMULS) == 4096 * attention);
    ck_assert(pl_architecture_recomputed_flops(&a, 4096, PL_KEEP_ALL) == 0);
}
END_TEST

START_TEST(caches_hold_what_attention_reads)
{
    const pl_architecture llama = find("llama3-70b"), deepseek = find("deepseek-v3");

    ck_assert(pl_architecture_kv_bytes(&llama, 2) == 2.0 * 2 * 80 * 8 * 128);
    ck_assert(pl_architecture_kv_bytes(&deepseek, 2) == 2.0 * 61 * (512 + 64));
}
END_TEST

/* A LLaMA layer: 4 D (inputs and norms of both blocks), q, k, v, attention's output and a statistic
 * a head, gate, up and their product. */
START_TEST(less_is_kept_the_more_is_done_again)
{
    const pl_architecture a = find("llama3-8b");
    const double D = 4096, NH = 4096, KH = 1024, F = 14336, N = 32;

    ck_assert(pl_architecture_kept_elements(&a, PL_KEEP_BLOCK) == D);
    ck_assert(pl_architecture_kept_elements(&a, PL_KEEP_MATMULS) ==
              D + NH + 2 * KH + D + 2 * F + D);
    ck_assert(pl_architecture_kept_elements(&a, PL_KEEP_ALL) ==
              4 * D + 2 * NH + 2 * KH + N + 3 * F);
}
END_TEST

/* --- config.json of each family --- */

static pl_status read_text(const char *text, pl_architecture *a)
{
    char path[SCRATCH_PATH];

    scratch_write("config.json", text, strlen(text));
    return pl_architecture_read(scratch_path("config.json", path), a);
}

START_TEST(config_of_deepseek_is_read)
{
    pl_architecture a;

    ck_assert_msg(
        read_text("{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, "
                  "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, "
                  "\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
                  "\"n_routed_experts\": 256, \"num_experts_per_tok\": 8, "
                  "\"n_shared_experts\": 1, \"first_k_dense_replace\": 3, \"q_lora_rank\": 1536, "
                  "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
                  "\"v_head_dim\": 128, \"vocab_size\": 129280}",
                  &a) == PL_OK,
        "%s", pl_status_message());
    ck_assert_int_eq(pl_architecture_params(&a).total, 671026419200);
}
END_TEST

START_TEST(config_of_gpt2_and_mixtral_is_read)
{
    pl_architecture a;

    ck_assert_int_eq(read_text("{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, "
                               "\"n_head\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}",
                               &a),
                     PL_OK);
    ck_assert_int_eq(pl_architecture_params(&a).total, 124439808);
    ck_assert_int_eq(read_text("{\"model_type\": \"mixtral\", \"hidden_size\": 4096, "
                               "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
                               "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
                               "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
                               "\"vocab_size\": 32000}",
                               &a),
                     PL_OK);
    ck_assert_int_eq(pl_architecture_params(&a).total, 46702792704);
}
END_TEST

START_TEST(config_of_another_family_is_refused)
{
    pl_architecture a;

    ck_assert_int_eq(read_text("{\"model_type\": \"mamba\"}", &a), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "mamba"));
}
END_TEST

/* --- the facts file, where it is --- */

static int64_t number(const json_t *model, const char *key)
{
    return json_integer_value(json_object_get(model, key));
}

/* One model of the file: its preset has these dims and this many parameters. */
static void check_fact(const json_t *model)
{
    const char *title = json_string_value(json_object_get(model, "name"));
    const json_t *count = json_object_get(model, "published_params");
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(title, " "), title);
    const pl_architecture a = find(name);
    const pl_param_counts counts = pl_architecture_params(&a);

    ck_assert_int_eq(a.n_layers, number(model, "num_layers"));
    ck_assert_int_eq(a.d_model, number(model, "hidden_size"));
    ck_assert_int_eq(a.n_heads, number(model, "num_heads"));
    ck_assert_int_eq(a.vocab, number(model, "vocab_size"));
    ck_assert_int_eq(a.tied, json_is_true(json_object_get(model, "tie_embeddings")));
    if (!json_is_integer(count)) /* rounded in its name: "260K" */
        count = json_object_get(model, "recounted_params");
    ck_assert_msg(counts.total == json_integer_value(count), "%s: %lld, published %lld", name,
                  (long long)counts.total, (long long)json_integer_value(count));
    if (json_is_integer(json_object_get(model, "published_active_params")))
        ck_assert_int_eq(counts.active, number(model, "published_active_params"));
}

START_TEST(facts_agree)
{
    char path[4096];
    json_t *root, *models;
    size_t i;
    json_t *model;

    if (!ck_testdata_path("../facts/model_configs.json", path, sizeof path))
        ck_skip("no file of model configurations beside the test data");
    ck_assert_int_eq(pl_json_load(path, &root), PL_OK);
    ck_assert_int_eq(pl_json_array(root, path, "models", &models), PL_OK);
    ck_assert_uint_gt(json_array_size(models), 0);
    json_array_foreach(models, i, model) check_fact(model);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("architecture");
    TCase *counts = tcase_create("counts"), *files = tcase_create("files");

    tcase_add_loop_test(counts, published_parameters_exactly, 0,
                        (int)(sizeof published / sizeof *published));
    tcase_add_test(counts, every_preset_is_consistent);
    tcase_add_test(counts, names_may_be_typed_otherwise);
    tcase_add_test(counts, unknown_model_is_refused_with_the_list);
    tcase_add_loop_test(counts, trainable_model_counts_as_its_program, 0, 3);
    tcase_add_test(counts, flops_follow_from_the_list);
    tcase_add_test(counts, caches_hold_what_attention_reads);
    tcase_add_test(counts, less_is_kept_the_more_is_done_again);
    tcase_add_checked_fixture(files, scratch_create, scratch_remove);
    tcase_add_test(files, config_of_deepseek_is_read);
    tcase_add_test(files, config_of_gpt2_and_mixtral_is_read);
    tcase_add_test(files, config_of_another_family_is_refused);
    tcase_add_test(files, facts_agree);
    suite_add_tcase(suite, counts);
    suite_add_tcase(suite, files);
    return ck_main(suite);
}
