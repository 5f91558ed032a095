/* safetensors_test -- Hugging Face folders: what is read, what refused. */
#include "config.h"

#include "src/base/rng.h"
#include "src/model/safetensors.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/weight_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* story656K: the length of its header, by the file's first eight bytes. */
enum { STORY_HEADER = 2160, STORY_DATA = 8 + STORY_HEADER, STORY_BYTES = 2626168 };

/* --- story656K --- */

typedef struct {
    char *header; /* JSON text, NUL at its end */
    char *data;
    size_t n_data;
} container;

/** story656K taken apart; false when there is none. Its config.json is put into the folder. */
static bool take_story(container *s)
{
    char path[SCRATCH_PATH];
    size_t n;

    if (!ck_testdata_path(STORY_FOLDER "/config.json", path, sizeof path))
        return false;

    char *config = scratch_read(path, &n);

    scratch_write("config.json", config, n);
    free(config);
    if (!ck_testdata_path(STORY, path, sizeof path))
        return false;

    char *bytes = scratch_read(path, &n);

    ck_assert_uint_eq(n, STORY_BYTES);
    s->n_data = n - STORY_DATA;
    s->header = calloc(2 * STORY_HEADER, 1);
    s->data = malloc(s->n_data + 64);
    memcpy(s->header, bytes + 8, STORY_HEADER);
    memcpy(s->data, bytes + STORY_DATA, s->n_data);
    memset(s->data + s->n_data, 0, 64);
    free(bytes);
    return true;
}

static void release(container *s)
{
    free(s->header);
    free(s->data);
}

/** Writes model.safetensors with n_data bytes of data. */
static void put_story(const container *s, uint64_t length, size_t n_data)
{
    const size_t n_header = strlen(s->header);
    char *bytes = malloc(8 + n_header + n_data);

    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, s->header, n_header);
    memcpy(bytes + 8 + n_header, s->data, n_data);
    scratch_write("model.safetensors", bytes, 8 + n_header + n_data);
    free(bytes);
}

/** Replaces the first `old` in the header. */
static void replace(container *s, const char *old, const char *new)
{
    char *at = strstr(s->header, old);

    ck_assert_msg(at != NULL, "no %s in the header", old);
    memmove(at + strlen(new), at + strlen(old), strlen(at + strlen(old)) + 1);
    memcpy(at, new, strlen(new));
}

static pl_status open_story(pl_model_config *c, pl_weight_file **file)
{
    return open_scratch("model.safetensors", c, file);
}

START_TEST(safetensors_tensors_are_the_files_bytes)
{
    /* Byte ranges from the file's own header. */
    static const struct {
        const char *name;
        int64_t begin, end;
    } ranges[] = {
        {"lm_head.weight", 0, 1048576},
        {"model.embed_tokens.weight", 0, 1048576}, /* tied: stored once */
        {"model.layers.0.self_attn.k_proj.weight", 1639424, 1672192},
        {"model.layers.1.self_attn.q_proj.weight", 2525184, 2590720},
        {"model.layers.1.mlp.down_proj.weight", 1836544, 2033152},
        {"model.norm.weight", 2623488, 2624000},
    };
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    size_t n;

    if (!ck_testdata_path(STORY, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));

    char *bytes = scratch_read(path, &n);

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        float *read = read_whole(file, &c, ranges[i].name);

        ck_assert_mem_eq(read, bytes + STORY_DATA + ranges[i].begin,
                         (size_t)(ranges[i].end - ranges[i].begin));
        free(read);
    }
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

START_TEST(a_folder_stands_for_its_model)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;

    if (!ck_testdata_path(STORY_FOLDER, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    ck_assert_int_eq(pl_model_n_params(&c), 656000);
    pl_weight_file_close(file);
}
END_TEST

START_TEST(wrong_header_lengths_are_refused_with_both_numbers)
{
    static const struct {
        uint64_t length;
        const char *text, *more;
    } lengths[] = {
        {0, "0 bytes", "2626160 bytes follow"},
        {1, "not JSON", "model.safetensors"},
        {STORY_HEADER - 1, "2626167", "2626168"}, /* its last byte is padding: all is off by one */
        {STORY_BYTES - 8 + 1, "2626161 bytes", "2626160 bytes follow"},
        {132095296, "132095296 bytes", "2626160 bytes follow"},
        {(uint64_t)1 << 40, "1099511627776 bytes", "2626160 bytes follow"},
        {(uint64_t)1 << 63, "9223372036854775808 bytes", "2626160 bytes follow"},
        {UINT64_MAX, "18446744073709551615 bytes", "2626160 bytes follow"},
        {UINT64_MAX - 7, "18446744073709551608 bytes", "2626160 bytes follow"},
    };
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    put_story(&s, lengths[_i].length, s.n_data);
    ck_refused(open_story(&c, &file), lengths[_i].text, lengths[_i].more, NULL);
    release(&s);
}
END_TEST

START_TEST(safetensors_cut_short_are_refused_with_what_is_missing)
{
    static const struct {
        long n;
        const char *text, *more;
    } cuts[] = {
        {0, "0 bytes", "truncated"},
        {4, "4 bytes", "truncated"},
        {8, "2160 bytes", "0 bytes follow"},
        {1000, "2160 bytes", "992 bytes follow"},
        {STORY_DATA, "2624000 more", "lm_head.weight"},
        {STORY_BYTES - 1, "1 more", "model.norm.weight"},
    };
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    put_story(&s, STORY_HEADER, s.n_data);
    ck_assert_int_eq(truncate(scratch_path("model.safetensors", path), cuts[_i].n), 0);
    ck_refused(open_story(&c, &file), cuts[_i].text, cuts[_i].more, NULL);
    release(&s);
}
END_TEST

START_TEST(trailing_bytes_are_refused)
{
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    put_story(&s, STORY_HEADER, s.n_data + 1);
    ck_refused(open_story(&c, &file), "2626169", "2626168", "1 trailing", NULL);
    release(&s);
}
END_TEST

/* What of the header is replaced by what, and what the refusal must name. */
static const char *const edits[][4] = {
    {"[1048576,1049088]", "[1048572,1049084]", "model.layers.0.input_layernorm.weight", "overlap"},
    {"[1048576,1049088]", "[1048580,1049092]", "model.layers.0.input_layernorm.weight",
     "gap, as of a tensor that the header lacks"},
    {"[1048576,1049088]", "[1049088,1048576]", "model.layers.0.input_layernorm.weight",
     "begin <= end"},
    {"[1048576,1049088]", "[-512,0]", "model.layers.0.input_layernorm.weight", "data_offsets"},
    {"[1048576,1049088]", "[1048576]", "model.layers.0.input_layernorm.weight", "data_offsets"},
    {"[1048576,1049088]", "[9223372036854775295,9223372036854775807]",
     "model.layers.0.input_layernorm.weight", "data_offsets"},
    {"[1048576,1049088]", "[1048576,1049084]", "model.layers.0.input_layernorm.weight",
     "508 bytes"},
    {"\"shape\":[128]", "\"shape\":[127]", "model.layers.0.input_layernorm.weight", "127 elements"},
    {"\"shape\":[128]", "\"shape\":[2,64]", "input_layernorm.weight\" is [2, 64]", "[128]"},
    {"\"shape\":[128]", "\"shape\":[4294967296,4294967296]", "input_layernorm", "shape"},
    {"\"shape\":[128]", "\"shape\":[4611686018427387936,4]", "input_layernorm", /* 2^64 + 128 */
     "impossible shape"},
    {"\"shape\":[128]", "\"shape\":[-128]", "input_layernorm", "shape"},
    {"\"shape\":[128]", "\"shape\":[128.0]", "input_layernorm", "shape"},
    {"\"shape\":[128]", "\"shape\":128", "input_layernorm", "shape"},
    {"\"shape\":[2048,128]", "\"shape\":[128,2048]", "is [128, 2048]", "[2048, 128]"},
    {"\"F32\"", "\"I32\"", "lm_head.weight", "I32"},
    {"\"F32\"", "\"F31\"", "lm_head.weight", "F31"},
    {"\"F32\"", "\"F64\"", "lm_head.weight", "F64"},
    {"\"dtype\":\"F32\",", "", "lm_head.weight", "dtype"},
    {"\"model.norm.weight\"", "\"model.norm.weights\"", "model.norm.weight\" is missing", "model"},
    {"\"lm_head.weight\":{", "\"head\":{", "model.embed_tokens.weight\" is missing", "model"},
    {"\"model.norm.weight\"", "\"lm_head.weight\"", "lm_head.weight", "twice"},
    {"\"model.layers.1.mlp.up_proj.weight\"", "\"model.layers.0.mlp.up_proj.weight\"",
     "model.layers.0.mlp.up_proj.weight", "twice"},
};

START_TEST(headers_that_contradict_the_file_are_refused_by_tensor)
{
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    replace(&s, edits[_i][0], edits[_i][1]);
    put_story(&s, strlen(s.header), s.n_data);
    ck_refused(open_story(&c, &file), "model.safetensors", edits[_i][2], edits[_i][3], NULL);
    release(&s);
}
END_TEST

START_TEST(a_header_that_is_no_object_is_refused)
{
    static const char *const headers[] = {"[1, 2, 3]", "nonsense", "{", "{\"a\": 1}",
                                          "{\"a\": {\"dtype\": \"F32\"}}"};
    pl_model_config c;
    pl_weight_file *file;

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char header[64] = "";

        snprintf(header, sizeof header, "%s", headers[i]);
        put_story(&(container){.header = header, .data = header}, strlen(header), 0);
        ck_refused(open_story(&c, &file), "model.safetensors", NULL);
    }
}
END_TEST

START_TEST(an_unknown_tensor_is_warned_of_and_skipped)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    container s;
    size_t n;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    replace(
        &s, "{\"__metadata__\"",
        "{\"extra.bias\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[2624000,2624008]},"
        "\"__metadata__\"");
    put_story(&s, strlen(s.header), s.n_data + 8);
    ck_assert_ptr_nonnull(freopen(scratch_path("stderr", path), "w", stderr));
    ck_accepted(open_story(&c, &file));
    fflush(stderr);

    char *said = scratch_read(path, &n);

    ck_assert_ptr_nonnull(strstr(said, "warning"));
    ck_assert_ptr_nonnull(strstr(said, "extra.bias"));
    free(said);
    pl_weight_file_close(file);
    release(&s);
}
END_TEST

START_TEST(a_tied_model_may_store_both_names)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    container s;
    size_t n;
    float x;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    /* A second embedding, of zeros, behind the others. */
    s.data = realloc(s.data, s.n_data + 1048576);
    memset(s.data + s.n_data, 0, 1048576);
    replace(&s, "{\"__metadata__\"",
            "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2048,128],"
            "\"data_offsets\":[2624000,3672576]},\"__metadata__\"");
    put_story(&s, strlen(s.header), s.n_data + 1048576);
    ck_assert_ptr_nonnull(freopen(scratch_path("stderr", path), "w", stderr));
    ck_accepted(open_story(&c, &file));
    fflush(stderr);
    free(scratch_read(path, &n));
    ck_assert_uint_eq(n, 0); /* no warning */
    ck_accepted(pl_weight_file_read(file, "model.embed_tokens.weight", 0, 1, 0, 1, &x));
    ck_assert(x == 0);
    ck_accepted(pl_weight_file_read(file, "lm_head.weight", 0, 1, 0, 1, &x));
    ck_assert(x == 0);
    pl_weight_file_close(file);
    release(&s);
}
END_TEST

START_TEST(an_untied_model_needs_embedding_and_head)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_model_config_read(scratch_path("config.json", path), &c));
    c.tied = false;
    ck_accepted(pl_model_config_write(path, &c));
    put_story(&s, strlen(s.header), s.n_data);
    ck_refused(open_story(&c, &file), "model.embed_tokens.weight\" is missing", NULL);
    replace(&s, "\"lm_head.weight\":{", "\"model.embed_tokens.weight\":{");
    put_story(&s, strlen(s.header), s.n_data);
    ck_refused(open_story(&c, &file), "lm_head.weight", "missing", "tie_word_embeddings", NULL);
    release(&s);
}
END_TEST

START_TEST(a_missing_config_json_is_refused)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    put_story(&s, STORY_HEADER, s.n_data);
    unlink(scratch_path("config.json", path));
    ck_refused(open_story(&c, &file), "config.json", "No such file", NULL);
    release(&s);
}
END_TEST

/** Changes one byte; digits become digits, so that numbers stay numbers. */
static void mutate(char *header, size_t n_header, uint64_t i)
{
    char *at = header + pl_rng_below(1, 0, i, (int64_t)n_header);

    if (*at >= '0' && *at <= '9')
        *at = (char)('0' + pl_rng_below(1, 1, i, 10));
    else
        *at = (char)(1 + pl_rng_below(1, 1, i, 255));
}

START_TEST(no_mutated_header_is_believed_or_fatal)
{
    char path[SCRATCH_PATH], header[STORY_HEADER + 1];
    pl_model_config c;
    container s;

    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* unknown tensors are warned of */
    put_story(&s, STORY_HEADER, s.n_data);

    FILE *story = fopen(scratch_path("model.safetensors", path), "r+b");

    ck_assert_ptr_nonnull(story);
    for (uint64_t i = 0; i < 500; i++) {
        pl_weight_file *file = NULL;

        memcpy(header, s.header, sizeof header);
        for (uint64_t change = 0; change <= i % 3; change++)
            mutate(header, STORY_HEADER, 3 * i + change);
        ck_assert_int_eq(fseek(story, 8, SEEK_SET), 0);
        ck_assert_uint_eq(fwrite(header, 1, STORY_HEADER, story), STORY_HEADER);
        ck_assert_int_eq(fflush(story), 0);
        if (open_story(&c, &file) == PL_OK) {
            /* Only names and metadata can change unseen; all tensors are there to be read. */
            free(read_whole(file, &c, "model.norm.weight"));
            pl_weight_file_close(file);
        } else {
            ck_assert_str_ne(pl_status_message(), "");
            pl_status_clear();
        }
    }
    fclose(story);
    release(&s);
}
END_TEST

/* --- dtypes --- */

START_TEST(files_of_every_dtype_open)
{
    static const struct {
        const char *file, *tensor, *dtype;
    } samples[] = {
        {"B", "B", "U8"},  {"H", "H", "U16"},       {"I", "I", "U32"}, {"b", "b", "I8"},
        {"d", "d", "F64"}, {"e", "e", "F16"},       {"f", "f", "F32"}, {"h", "h", "I16"},
        {"i", "i", "I32"}, {"overall", "d", "F64"},
    };
    char path[SCRATCH_PATH], name[128];
    pl_safetensors st;

    snprintf(name, sizeof name, "weights/safetensors_samples/%s.safetensors", samples[_i].file);
    if (!ck_testdata_path(name, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_safetensors_open(path, &st));

    const pl_safetensor *t = pl_safetensors_find(&st, samples[_i].tensor);

    ck_assert_ptr_nonnull(t);
    ck_assert_str_eq(t->dtype, samples[_i].dtype);
    ck_assert_int_eq(t->n_dims, 1);
    ck_assert_int_eq(t->shape[0], 6);
    ck_assert_int_eq(st.n_tensors, strcmp(samples[_i].file, "overall") == 0 ? 9 : 1);
    ck_assert_ptr_null(pl_safetensors_find(&st, "test")); /* metadata is no tensor */
    pl_safetensors_close(&st);
}
END_TEST

START_TEST(floats_of_the_samples_are_read_at_odd_offsets)
{
    const char *const files[] = {"e", "f"};
    char path[SCRATCH_PATH], name[128];
    float x[6];
    pl_safetensors st;

    snprintf(name, sizeof name, "weights/safetensors_samples/%s.safetensors", files[_i]);
    if (!ck_testdata_path(name, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_safetensors_open(path, &st));
    ck_accepted(pl_safetensors_read_f32(&st, &st.tensors[0], 0, 6, x));
    for (int i = 0; i < 6; i++)
        ck_assert(x[i] == (float)(i - 3)); /* -3 ... 2, in each sample */
    pl_safetensors_close(&st);
}
END_TEST

/** A file of one tensor "x" of 65,536 halves, every bit pattern once. */
static pl_safetensors all_halves(const char *dtype)
{
    enum { N_HALVES = 65536 };
    static char bytes[8 + 128 + 2 * N_HALVES];
    char path[SCRATCH_PATH];
    const int n = snprintf(bytes + 8, 128,
                           "{\"x\":{\"dtype\":\"%s\",\"shape\":[256,256],\"data_offsets\":[0,%d]}}",
                           dtype, 2 * N_HALVES);
    const uint64_t length = (uint64_t)n;
    pl_safetensors st;

    memcpy(bytes, &length, 8);
    for (int i = 0; i < N_HALVES; i++) {
        const uint16_t half = (uint16_t)i;

        memcpy(bytes + 8 + n + 2 * i, &half, 2);
    }
    scratch_write("halves.safetensors", bytes, 8 + (size_t)n + 2 * N_HALVES);
    ck_accepted(pl_safetensors_open(scratch_path("halves.safetensors", path), &st));
    return st;
}

/** (-1)^sign 2^(exponent - bias) (1 + fraction / 2^bits), and its special cases, by ldexp. */
static double decode(int half, int fraction_bits, int exponent_bits)
{
    const int fraction = half & ((1 << fraction_bits) - 1), top = (1 << exponent_bits) - 1;
    const int exponent = half >> fraction_bits & top, bias = top / 2;
    double x = ldexp(fraction, 1 - bias - fraction_bits);

    if (exponent == top)
        x = fraction == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent > 0)
        x = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return half & 0x8000 ? -x : x;
}

START_TEST(every_half_is_widened_exactly)
{
    const char *const dtypes[] = {"F16", "BF16"};
    const int fraction_bits[] = {10, 7}, exponent_bits[] = {5, 8};
    static float x[65536];
    pl_safetensors st = all_halves(dtypes[_i]);
    int n_wrong = 0;

    ck_accepted(pl_safetensors_read_f32(&st, &st.tensors[0], 0, 65536, x));
    for (int i = 0; i < 65536; i++) {
        const double expected = decode(i, fraction_bits[_i], exponent_bits[_i]);

        if (isnan(expected))
            n_wrong += !isnan(x[i]);
        else
            n_wrong += (double)x[i] != expected || !signbit(x[i]) != !signbit(expected);
    }
    ck_assert_int_eq(n_wrong, 0);
    ck_accepted(pl_safetensors_read_f32(&st, &st.tensors[0], 5001, 3, x));
    ck_assert((double)x[2] == decode(5003, fraction_bits[_i], exponent_bits[_i]));
    pl_safetensors_close(&st);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tests = tcase_create("safetensors");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
    tcase_add_test(tests, safetensors_tensors_are_the_files_bytes);
    tcase_add_test(tests, a_folder_stands_for_its_model);
    tcase_add_loop_test(tests, wrong_header_lengths_are_refused_with_both_numbers, 0, 9);
    tcase_add_loop_test(tests, safetensors_cut_short_are_refused_with_what_is_missing, 0, 6);
    tcase_add_test(tests, trailing_bytes_are_refused);
    tcase_add_loop_test(tests, headers_that_contradict_the_file_are_refused_by_tensor, 0,
                        sizeof edits / sizeof *edits);
    tcase_add_test(tests, a_header_that_is_no_object_is_refused);
    tcase_add_test(tests, an_unknown_tensor_is_warned_of_and_skipped);
    tcase_add_test(tests, a_tied_model_may_store_both_names);
    tcase_add_test(tests, an_untied_model_needs_embedding_and_head);
    tcase_add_test(tests, a_missing_config_json_is_refused);
    tcase_add_test(tests, no_mutated_header_is_believed_or_fatal);
    tcase_add_loop_test(tests, files_of_every_dtype_open, 0, 10);
    tcase_add_loop_test(tests, floats_of_the_samples_are_read_at_odd_offsets, 0, 2);
    tcase_add_loop_test(tests, every_half_is_widened_exactly, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
