/* model_config_test -- configurations by name and from Hugging Face's config.json. */
#include "config.h"

#include "src/model/hf_tensors.h"
#include "src/model/model_config.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- parameters --- */

/* Published counts of public models, beside the dimensions of their public config.json. */
static const struct {
    pl_model_config config;
    int64_t n_params;
} published[] = {
    /* Llama 2 7B: dimensions and 6,738,415,616 parameters from its model card's safetensors data.
     */
    {{.n_layers = 32,
      .d_model = 4096,
      .n_heads = 32,
      .n_kv_heads = 32,
      .head_dim = 128,
      .d_ff = 11008,
      .vocab = 32000},
     6738415616},
    /* Llama 3 8B: grouped key/value heads; 8,030,261,248. */
    {{.n_layers = 32,
      .d_model = 4096,
      .n_heads = 32,
      .n_kv_heads = 8,
      .head_dim = 128,
      .d_ff = 14336,
      .vocab = 128256},
     8030261248},
    /* Llama 3.1 405B; 405,853,388,800. */
    {{.n_layers = 126,
      .d_model = 16384,
      .n_heads = 128,
      .n_kv_heads = 8,
      .head_dim = 128,
      .d_ff = 53248,
      .vocab = 128256},
     405853388800},
    /* TinyLlama 1.1B; 1,100,048,384. */
    {{.n_layers = 22,
      .d_model = 2048,
      .n_heads = 32,
      .n_kv_heads = 4,
      .head_dim = 64,
      .d_ff = 5632,
      .vocab = 32000},
     1100048384},
    /* Gemma 2B: tied, N x H = D but K = 1; 2,506,172,416. */
    {{.n_layers = 18,
      .d_model = 2048,
      .n_heads = 8,
      .n_kv_heads = 1,
      .head_dim = 256,
      .d_ff = 16384,
      .vocab = 256000,
      .tied = true},
     2506172416},
    /* llama2.c's stories260K: tied; 260,032, the floats of its file without RoPE's tables. */
    {{.n_layers = 5,
      .d_model = 64,
      .n_heads = 8,
      .n_kv_heads = 4,
      .head_dim = 8,
      .d_ff = 172,
      .vocab = 512,
      .tied = true},
     260032},
};

enum { N_PUBLISHED = sizeof published / sizeof *published };

START_TEST(parameters_equal_the_published_count)
{
    ck_assert_int_eq(pl_model_n_params(&published[_i].config), published[_i].n_params);
}
END_TEST

START_TEST(the_tensors_hold_the_parameters_once)
{
    const pl_model_config *c = &published[_i].config;
    int64_t n = 0;

    for (int64_t i = 0; i < pl_hf_tensor_count(c); i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(c, i);

        n += t.rows * t.cols;
    }
    ck_assert_int_eq(n, published[_i].n_params);
}
END_TEST

START_TEST(every_tensor_is_found_by_its_name)
{
    const pl_model_config *c = &published[_i].config;

    for (int64_t i = 0; i < pl_hf_tensor_count(c); i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(c, i);
        pl_hf_tensor found;

        ck_assert(pl_hf_tensor_find(c, t.name, &found));
        ck_assert_int_eq(found.kind, t.kind);
        ck_assert_int_eq(found.layer, t.layer);
    }
}
END_TEST

START_TEST(tensors_have_hugging_faces_shapes)
{
    /* Of tiny, where N H = 144 and K H = 72, so that no two extents can be taken for each other. */
    static const struct {
        const char *name;
        int n_dims;
        int64_t rows, cols;
    } shapes[] = {
        {"model.embed_tokens.weight", 2, 257, 72},
        {"model.layers.4.input_layernorm.weight", 1, 1, 72},
        {"model.layers.4.self_attn.q_proj.weight", 2, 144, 72},
        {"model.layers.4.self_attn.k_proj.weight", 2, 72, 72},
        {"model.layers.4.self_attn.v_proj.weight", 2, 72, 72},
        {"model.layers.4.self_attn.o_proj.weight", 2, 72, 144},
        {"model.layers.4.post_attention_layernorm.weight", 1, 1, 72},
        {"model.layers.4.mlp.gate_proj.weight", 2, 172, 72},
        {"model.layers.4.mlp.up_proj.weight", 2, 172, 72},
        {"model.layers.4.mlp.down_proj.weight", 2, 72, 172},
        {"model.norm.weight", 1, 1, 72},
        {"lm_head.weight", 2, 257, 72},
    };
    pl_model_config tiny;
    pl_hf_tensor t;

    ck_accepted(pl_model_config_preset("tiny", &tiny));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ck_assert_msg(pl_hf_tensor_find(&tiny, shapes[i].name, &t), "%s", shapes[i].name);
        ck_assert_int_eq(t.n_dims, shapes[i].n_dims);
        ck_assert_int_eq(t.rows, shapes[i].rows);
        ck_assert_int_eq(t.cols, shapes[i].cols);
    }
}
END_TEST

START_TEST(names_that_only_resemble_a_tensor_are_not_found)
{
    static const char *const names[] = {
        "",
        "model",
        "model.layers.5.mlp.up_proj.weight", /* layers are 0 to 4 */
        "model.layers.-1.mlp.up_proj.weight",
        "model.layers.+1.mlp.up_proj.weight",
        "model.layers.01.mlp.up_proj.weight",
        "model.layers.1.mlp.up_proj.weight2",
        "model.layers.1.mlp.up_proj.bias",
        "model.layers.99999999999999999999.mlp.up_proj.weight",
        "mlp.up_proj.weight",
        "model.layers.1.model.norm.weight",
    };
    pl_model_config tiny;
    pl_hf_tensor t;

    ck_accepted(pl_model_config_preset("tiny", &tiny));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(!pl_hf_tensor_find(&tiny, names[i], &t), "%s", names[i]);
}
END_TEST

/* --- presets --- */

START_TEST(tiny_has_the_stated_extents)
{
    pl_model_config c;

    ck_accepted(pl_model_config_preset("tiny", &c));
    ck_assert_int_eq(c.n_layers, 5);
    ck_assert_int_eq(c.d_model, 72);
    ck_assert_int_eq(c.n_heads, 8);
    ck_assert_int_eq(c.n_kv_heads, 4);
    ck_assert_int_eq(c.head_dim, 18);
    ck_assert_int_eq(c.d_ff, 172);
    ck_assert_int_eq(c.vocab, 257);
    ck_assert_int_eq(c.max_seq, 63);
}
END_TEST

START_TEST(every_preset_passes_the_check)
{
    static const char *const names[] = {"tiny", "small", "base"};
    pl_model_config c;

    for (int i = 0; i < 3; i++) {
        ck_accepted(pl_model_config_preset(names[i], &c));
        ck_accepted(pl_model_config_check(names[i], &c));
        ck_assert_str_eq(c.name, names[i]);
        ck_assert_ptr_nonnull(strstr(pl_model_config_presets(), names[i]));
    }
}
END_TEST

START_TEST(base_is_about_gpt2s_size)
{
    const double gpt2 = 124439808; /* llm.c, train_gpt2.cu, d12 */
    pl_model_config c;

    ck_accepted(pl_model_config_preset("base", &c));
    ck_assert(fabs((double)pl_model_n_params(&c) / gpt2 - 1) < 0.01);
}
END_TEST

START_TEST(an_unknown_preset_is_refused_with_the_list)
{
    pl_model_config c;

    ck_refused(pl_model_config_preset("huge", &c), "huge", "tiny", "small", "base", NULL);
    ck_refused(pl_model_config_find("huge", &c), "huge", "tiny, small, base", NULL);
}
END_TEST

/* --- config.json --- */

#define LEAST                                                                                      \
    "\"hidden_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 6, "                  \
    "\"intermediate_size\": 200, \"vocab_size\": 1000"

static pl_status read_text(const char *members, pl_model_config *c)
{
    char text[2048], path[SCRATCH_PATH];

    snprintf(text, sizeof text, "{%s}", members);
    scratch_write("config.json", text, strlen(text));
    return pl_model_config_read(scratch_path("config.json", path), c);
}

START_TEST(absent_keys_have_hugging_faces_defaults)
{
    pl_model_config c;

    ck_accepted(read_text(LEAST, &c));
    ck_assert_int_eq(c.n_kv_heads, 6);
    ck_assert_int_eq(c.head_dim, 16);
    ck_assert_int_eq(c.max_seq, 2048);
    ck_assert(c.rms_eps == 1e-6);
    ck_assert(c.rope_theta == 10000);
    ck_assert(!c.tied);
}
END_TEST

START_TEST(every_key_is_honoured)
{
    pl_model_config c;

    ck_accepted(read_text(LEAST ", \"num_key_value_heads\": 2, \"head_dim\": 20, "
                                "\"max_position_embeddings\": 77, \"rms_norm_eps\": 1e-5, "
                                "\"rope_theta\": 500000.0, \"tie_word_embeddings\": true, "
                                "\"rope_scaling\": null, \"attention_bias\": false, "
                                "\"mlp_bias\": false, \"hidden_act\": \"silu\", "
                                "\"model_type\": \"llama\"",
                          &c));
    ck_assert_int_eq(c.d_model, 96);
    ck_assert_int_eq(c.n_layers, 3);
    ck_assert_int_eq(c.n_heads, 6);
    ck_assert_int_eq(c.d_ff, 200);
    ck_assert_int_eq(c.vocab, 1000);
    ck_assert_int_eq(c.n_kv_heads, 2);
    ck_assert_int_eq(c.head_dim, 20);
    ck_assert_int_eq(c.max_seq, 77);
    ck_assert(c.rms_eps == 1e-5);
    ck_assert(c.rope_theta == 500000);
    ck_assert(c.tied);
}
END_TEST

START_TEST(theta_is_found_in_rope_parameters)
{
    pl_model_config c;

    ck_accepted(read_text(LEAST ", \"rope_parameters\": {\"rope_type\": \"default\", "
                                "\"rope_theta\": 12345}",
                          &c));
    ck_assert(c.rope_theta == 12345);
}
END_TEST

/* What the file adds, and two texts that the message must hold. */
static const char *const refusals[][3] = {
    {", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}", "rope_scaling", "config.json"},
    {", \"rope_parameters\": {\"rope_type\": \"llama3\"}", "rope_type", "llama3"},
    {", \"attention_bias\": true", "attention_bias", "config.json"},
    {", \"mlp_bias\": true", "mlp_bias", "config.json"},
    {", \"hidden_act\": \"gelu\"", "hidden_act", "gelu"},
    {", \"model_type\": \"mistral\"", "model_type", "mistral"},
    {", \"architectures\": [\"GPT2LMHeadModel\"]", "architectures", "GPT2LMHeadModel"},
    {", \"quantization_config\": {}", "quantization_config", "config.json"},
    {", \"num_key_value_heads\": 4", "6 query heads", "4 key/value heads"},
    {", \"num_key_value_heads\": 0", "num_key_value_heads", "0"},
    {", \"num_key_value_heads\": -6", "num_key_value_heads", "-6"},
    {", \"head_dim\": 15", "head size 15", "odd"},
    {", \"head_dim\": 4611686018427387904", "head_dim", "4611686018427387904"},
    {", \"head_dim\": \"16\"", "head_dim", "integer"},
    {", \"max_position_embeddings\": 0", "max_position_embeddings", "0"},
    {", \"rms_norm_eps\": 0", "epsilon", "0"},
    {", \"rms_norm_eps\": -1e-5", "rms_norm_eps", "-1e-05"},
    {", \"rope_theta\": 0.0", "theta", "0"},
    {", \"tie_word_embeddings\": 1", "tie_word_embeddings", "true or false"},
    {", \"hidden_size\": 96", "duplicate", "config.json"},
    {", \"max_position_embeddings\": 99999999999999999999", "config.json", "integer"},
};

START_TEST(what_would_be_computed_otherwise_is_refused_by_name)
{
    char members[1024];
    pl_model_config c;

    snprintf(members, sizeof members, "%s%s", LEAST, refusals[_i][0]);
    ck_refused(read_text(members, &c), refusals[_i][1], refusals[_i][2], NULL);
}
END_TEST

START_TEST(a_missing_extent_is_refused_by_name)
{
    static const char *const keys[] = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                       "intermediate_size", "vocab_size"};
    char members[1024] = LEAST;
    pl_model_config c;

    strstr(members, keys[_i])[0] = 'x';
    ck_refused(read_text(members, &c), keys[_i], "missing", NULL);
}
END_TEST

START_TEST(a_width_that_heads_do_not_divide_needs_a_head_dim)
{
    static const char members[] =
        "\"hidden_size\": 97, \"num_hidden_layers\": 3, \"num_attention_heads\": 6, "
        "\"intermediate_size\": 200, \"vocab_size\": 1000";
    char with[1024];
    pl_model_config c;

    ck_refused(read_text(members, &c), "97", "6", "head_dim", NULL);
    snprintf(with, sizeof with, "%s, \"head_dim\": 16", members);
    ck_accepted(read_text(with, &c));
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
    char path[SCRATCH_PATH];
    pl_model_config c, back;

    ck_accepted(pl_model_config_preset("tiny", &c));
    c.tied = _i == 1;
    c.rms_eps = 1.23456789e-5;
    c.rope_theta = 54321.125;
    ck_accepted(pl_model_config_write(scratch_path("config.json", path), &c));
    ck_accepted(pl_model_config_read(path, &back));
    memcpy(back.name, c.name, sizeof back.name);
    ck_assert_int_eq(back.n_layers, c.n_layers);
    ck_assert_int_eq(back.d_model, c.d_model);
    ck_assert_int_eq(back.n_heads, c.n_heads);
    ck_assert_int_eq(back.n_kv_heads, c.n_kv_heads);
    ck_assert_int_eq(back.head_dim, c.head_dim);
    ck_assert_int_eq(back.d_ff, c.d_ff);
    ck_assert_int_eq(back.vocab, c.vocab);
    ck_assert_int_eq(back.max_seq, c.max_seq);
    ck_assert(back.rms_eps == c.rms_eps);
    ck_assert(back.rope_theta == c.rope_theta);
    ck_assert_int_eq(back.tied, c.tied);
}
END_TEST

START_TEST(a_folder_stands_for_its_config_json)
{
    char path[SCRATCH_PATH];
    pl_model_config c;

    ck_accepted(read_text(LEAST, &c));
    memset(&c, 0, sizeof c);
    ck_accepted(pl_model_config_find(scratch_path("", path), &c));
    ck_assert_int_eq(c.d_model, 96);
}
END_TEST

START_TEST(story656k_is_read)
{
    char path[SCRATCH_PATH];
    pl_model_config c;

    if (!ck_testdata_path("weights/story656K/config.json", path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_model_config_read(path, &c));
    ck_assert_int_eq(pl_model_n_params(&c), 656000); /* its name */
    ck_assert_int_eq(c.head_dim, 16);
    ck_assert(c.rms_eps == 1e-6);
    ck_assert(c.tied);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("model_config");
    TCase *tests = tcase_create("model_config");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
    tcase_add_loop_test(tests, parameters_equal_the_published_count, 0, N_PUBLISHED);
    tcase_add_loop_test(tests, the_tensors_hold_the_parameters_once, 0, N_PUBLISHED);
    tcase_add_loop_test(tests, every_tensor_is_found_by_its_name, 0, N_PUBLISHED);
    tcase_add_test(tests, tensors_have_hugging_faces_shapes);
    tcase_add_test(tests, names_that_only_resemble_a_tensor_are_not_found);
    tcase_add_test(tests, tiny_has_the_stated_extents);
    tcase_add_test(tests, every_preset_passes_the_check);
    tcase_add_test(tests, base_is_about_gpt2s_size);
    tcase_add_test(tests, an_unknown_preset_is_refused_with_the_list);
    tcase_add_test(tests, absent_keys_have_hugging_faces_defaults);
    tcase_add_test(tests, every_key_is_honoured);
    tcase_add_test(tests, theta_is_found_in_rope_parameters);
    tcase_add_loop_test(tests, what_would_be_computed_otherwise_is_refused_by_name, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(tests, a_missing_extent_is_refused_by_name, 0, 5);
    tcase_add_test(tests, a_width_that_heads_do_not_divide_needs_a_head_dim);
    tcase_add_loop_test(tests, what_is_written_is_read_back, 0, 2);
    tcase_add_test(tests, a_folder_stands_for_its_config_json);
    tcase_add_test(tests, story656k_is_read);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
