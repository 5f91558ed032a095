/* weight_writer_test -- saving: what is written, and what a save cut short leaves behind. */
#include "config.h"

#include "src/base/json.h"
#include "src/base/rng.h"
#include "src/model/hf_tensors.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/weight_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static pl_model_config preset(const char *name, bool tied)
{
    pl_model_config c;

    ck_accepted(pl_model_config_preset(name, &c));
    c.tied = tied;
    return c;
}

/** Element i of tensor t of the model made from `seed`: any bits but those of a NaN. */
static float element(uint64_t seed, int64_t t, int64_t i)
{
    return (float)(pl_rng_uniform(seed, (uint64_t)t, (uint64_t)i) - 0.5);
}

/** Saves the first n_tensors of the model made from `seed`. */
static pl_status save(const char *folder, const pl_model_config *c, uint64_t seed,
                      int64_t n_tensors)
{
    pl_weight_writer *writer;
    pl_status status = pl_weight_writer_open(folder, c, &writer);

    if (status != PL_OK)
        return status;
    for (int64_t t = 0; t < n_tensors && status == PL_OK; t++) {
        const pl_hf_tensor tensor = pl_hf_tensor_at(c, t);
        const int64_t n = tensor.rows * tensor.cols;
        float *data = malloc((size_t)n * sizeof *data);

        for (int64_t i = 0; i < n; i++)
            data[i] = element(seed, t, i);
        status = pl_weight_writer_append(writer, tensor.name, data, n);
        free(data);
    }

    const bool complete = status == PL_OK && n_tensors == pl_hf_tensor_count(c);
    const pl_status closed = pl_weight_writer_close(writer, complete);

    return status != PL_OK ? status : closed;
}

static pl_status save_all(const char *folder, const pl_model_config *c, uint64_t seed)
{
    return save(folder, c, seed, pl_hf_tensor_count(c));
}

/** How many elements of the model saved in `folder` are not those made from `seed`. */
static int64_t count_wrong(const char *folder, uint64_t seed, pl_model_config *c)
{
    pl_weight_file *file;
    int64_t n_wrong = 0;

    ck_accepted(pl_weight_file_open(folder, c, &file));
    for (int64_t t = 0; t < pl_hf_tensor_count(c); t++) {
        const pl_hf_tensor tensor = pl_hf_tensor_at(c, t);
        float *data = read_whole(file, c, tensor.name);

        for (int64_t i = 0; i < tensor.rows * tensor.cols; i++)
            n_wrong += data[i] != element(seed, t, i);
        free(data);
    }
    pl_weight_file_close(file);
    return n_wrong;
}

START_TEST(what_is_saved_is_loaded_bit_for_bit)
{
    const pl_model_config c = preset("tiny", _i == 1);
    char folder[SCRATCH_PATH];
    pl_model_config back;

    scratch_path("saved/here", folder);
    ck_accepted(save_all(folder, &c, 3));
    ck_assert_int_eq(count_wrong(folder, 3, &back), 0);
    ck_assert_int_eq(back.tied, c.tied);
    ck_assert_int_eq(back.head_dim, 18);
}
END_TEST

START_TEST(equal_weights_give_equal_bytes)
{
    const pl_model_config c = preset("tiny", false);
    char folder[SCRATCH_PATH], path[SCRATCH_PATH];
    size_t n, n_again;

    for (int i = 0; i < 2; i++)
        ck_accepted(save_all(scratch_path(i == 0 ? "first" : "second", folder), &c, 3));

    char *bytes = scratch_read(scratch_path("first/model.safetensors", path), &n);
    char *again = scratch_read(scratch_path("second/model.safetensors", path), &n_again);

    ck_assert_uint_eq(n, n_again);
    ck_assert_mem_eq(bytes, again, n);
    free(bytes);
    free(again);
}
END_TEST

START_TEST(a_saved_file_is_what_the_format_says)
{
    const pl_model_config c = preset("tiny", true);
    char folder[SCRATCH_PATH], path[SCRATCH_PATH];
    uint64_t length;
    size_t n;
    json_t *root, *entry;
    const char *name;
    int64_t n_data = 0;

    ck_accepted(save_all(scratch_path("saved", folder), &c, 3));

    char *bytes = scratch_read(scratch_path("saved/model.safetensors", path), &n);

    memcpy(&length, bytes, 8);
    ck_assert_uint_eq(length % 8, 0); /* so that the data are aligned */
    ck_accepted(pl_json_parse("header", bytes + 8, length, &root));
    json_object_foreach(root, name, entry)
    {
        json_t *offsets = json_object_get(entry, "data_offsets");

        if (strcmp(name, "__metadata__") == 0) {
            ck_assert_str_eq(json_string_value(json_object_get(entry, "format")), "pt");
            continue;
        }
        ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")), "F32");
        ck_assert_int_eq(json_integer_value(json_array_get(offsets, 0)), n_data);
        n_data = json_integer_value(json_array_get(offsets, 1));
    }
    ck_assert_int_eq(n_data, 4 * pl_model_n_params(&c));
    ck_assert_uint_eq(n, 8 + length + (uint64_t)n_data);
    ck_assert_ptr_null(json_object_get(root, "lm_head.weight"));
    json_decref(root);
    free(bytes);
}
END_TEST

START_TEST(a_loaded_model_saved_again_has_the_same_bytes)
{
    char path[SCRATCH_PATH], folder[SCRATCH_PATH];
    pl_model_config c, back;
    pl_weight_file *file, *saved;
    pl_weight_writer *writer;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    ck_accepted(pl_weight_writer_open(scratch_path("saved", folder), &c, &writer));
    for (int64_t t = 0; t < pl_hf_tensor_count(&c); t++) {
        const pl_hf_tensor tensor = pl_hf_tensor_at(&c, t);
        float *data = read_whole(file, &c, tensor.name);

        ck_accepted(pl_weight_writer_append(writer, tensor.name, data, tensor.rows * tensor.cols));
        free(data);
    }
    ck_accepted(pl_weight_writer_close(writer, true));
    ck_accepted(pl_weight_file_open(folder, &back, &saved));
    ck_assert(back.rms_eps == c.rms_eps && back.rope_theta == c.rope_theta && back.tied);
    for (int64_t t = 0; t < pl_hf_tensor_count(&c); t++) {
        const pl_hf_tensor tensor = pl_hf_tensor_at(&c, t);
        float *data = read_whole(file, &c, tensor.name);
        float *again = read_whole(saved, &back, tensor.name);

        ck_assert_mem_eq(data, again, (size_t)(tensor.rows * tensor.cols) * sizeof *data);
        free(data);
        free(again);
    }
    pl_weight_file_close(file);
    pl_weight_file_close(saved);
}
END_TEST

START_TEST(a_save_given_up_leaves_the_one_before_it)
{
    const pl_model_config c = preset("tiny", false);
    char folder[SCRATCH_PATH], path[SCRATCH_PATH];
    pl_model_config back;

    ck_accepted(save_all(scratch_path("saved", folder), &c, 3));
    ck_accepted(save(folder, &c, 4, 17));
    ck_assert_int_eq(count_wrong(folder, 3, &back), 0);
    ck_assert_int_ne(access(scratch_path("saved/model.safetensors.partial", path), F_OK), 0);
}
END_TEST

START_TEST(a_save_killed_half_way_leaves_the_one_before_it)
{
    const pl_model_config c = preset("tiny", false);
    static const float zeros[257 * 72];
    char folder[SCRATCH_PATH];
    pl_model_config back;
    pl_weight_writer *writer;

    ck_accepted(save_all(scratch_path("saved", folder), &c, 3));
    ck_accepted(pl_weight_writer_open(folder, &c, &writer));
    ck_accepted(pl_weight_writer_append(writer, "model.embed_tokens.weight", zeros, 257 * 72));
    /* The writer is not closed, as kill -9 would leave it; the next save goes over its remains. */
    ck_assert_int_eq(count_wrong(folder, 3, &back), 0);
    ck_accepted(save_all(folder, &c, 4));
    ck_assert_int_eq(count_wrong(folder, 4, &back), 0);
    pl_weight_writer_close(writer, false);
}
END_TEST

START_TEST(a_file_size_limit_in_mid_save_is_refused_and_leaves_the_one_before_it)
{
    const pl_model_config c = preset("tiny", false);
    struct rlimit limit;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH];
    pl_model_config back;

    ck_accepted(save_all(scratch_path("saved", folder), &c, 3));
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 300000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_refused(save_all(folder, &c, 4), "saved/model.safetensors", "File too large", NULL);
    ck_assert_int_eq(count_wrong(folder, 3, &back), 0);
    ck_assert_int_ne(access(scratch_path("saved/model.safetensors.partial", path), F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_is_refused_early)
{
    static const char *const folders[] = {"/dev/null/saved", "/proc/saved", ""};

    ck_refused(pl_weight_writer_check(folders[_i]), "--save", folders[_i], NULL);
}
END_TEST

START_TEST(a_file_in_the_folders_place_is_refused)
{
    char path[SCRATCH_PATH];

    scratch_write("file", "x", 1);
    ck_refused(pl_weight_writer_check(scratch_path("file", path)), "file", "Not a directory", NULL);
    ck_refused(pl_weight_writer_check(scratch_path("file/in/it", path)), "Not a directory", NULL);
}
END_TEST

START_TEST(the_check_leaves_an_empty_folder)
{
    char path[SCRATCH_PATH];

    ck_accepted(pl_weight_writer_check(scratch_path("a/b/c/", path)));
    ck_assert_int_eq(rmdir(path), 0); /* fails unless it is there and empty */
}
END_TEST

START_TEST(tensors_out_of_order_are_a_fault_and_save_nothing)
{
    const pl_model_config c = preset("tiny", false);
    static const float zeros[257 * 72];
    char folder[SCRATCH_PATH], path[SCRATCH_PATH];
    pl_weight_writer *writer;

    ck_accepted(pl_weight_writer_open(scratch_path("saved", folder), &c, &writer));
    /* the head has the embedding's size, but not its place */
    ck_assert_int_eq(pl_weight_writer_append(writer, "lm_head.weight", zeros, 257 * 72),
                     PL_INTERNAL);
    ck_assert_int_eq(pl_weight_writer_close(writer, true), PL_INTERNAL);
    ck_assert_int_ne(access(scratch_path("saved/model.safetensors", path), F_OK), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("weight_writer");
    TCase *tests = tcase_create("weight_writer");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
    tcase_add_loop_test(tests, what_is_saved_is_loaded_bit_for_bit, 0, 2);
    tcase_add_test(tests, equal_weights_give_equal_bytes);
    tcase_add_test(tests, a_saved_file_is_what_the_format_says);
    tcase_add_test(tests, a_loaded_model_saved_again_has_the_same_bytes);
    tcase_add_test(tests, a_save_given_up_leaves_the_one_before_it);
    tcase_add_test(tests, a_save_killed_half_way_leaves_the_one_before_it);
    tcase_add_test(tests, a_file_size_limit_in_mid_save_is_refused_and_leaves_the_one_before_it);
    tcase_add_loop_test(tests, a_folder_that_cannot_be_written_is_refused_early, 0, 3);
    tcase_add_test(tests, a_file_in_the_folders_place_is_refused);
    tcase_add_test(tests, the_check_leaves_an_empty_folder);
    tcase_add_test(tests, tensors_out_of_order_are_a_fault_and_save_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
