/* weight_file_test -- llama2.c files, and rectangles of both formats: what is read, what refused.
 */
#include "config.h"

#include "src/base/rng.h"
#include "src/model/hf_tensors.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/weight_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* stories260K, by the header of its file. */
enum { D = 64, F = 172, L = 5, N = 8, K = 4, H = D / N, V = 512, T = 512, STORIES_BYTES = 1056540 };
/* --- stories260K: llama2.c --- */

/** The file's floats from element `at` on, behind its seven int32. */
static const float *raw(const char *bytes, int64_t at)
{
    return (const float *)(const void *)(bytes + 28) + at;
}

/* Where its arrays begin, counted in floats from the sizes before them. */
enum {
    EMBED = 0,
    ATTENTION_NORM = EMBED + V * D,
    WQ = ATTENTION_NORM + L * D,
    WK = WQ + L * N * H * D,
    WV = WK + L * K * H * D,
    WO = WV + L * K * H * D,
    MLP_NORM = WO + L * D * N * H,
    W1 = MLP_NORM + L * D,
    W2 = W1 + L * F * D,
    W3 = W2 + L * D * F,
    FINAL_NORM = W3 + L * F * D,
};

static const struct {
    const char *name; /* within layer 3, or whole */
    int begin, per_layer;
} plain[] = {
    {"model.embed_tokens.weight", EMBED, 0},
    {"lm_head.weight", EMBED, 0},
    {"model.norm.weight", FINAL_NORM, 0},
    {"model.layers.3.input_layernorm.weight", ATTENTION_NORM, D},
    {"model.layers.3.self_attn.v_proj.weight", WV, K *H *D},
    {"model.layers.3.self_attn.o_proj.weight", WO, D *N *H},
    {"model.layers.3.post_attention_layernorm.weight", MLP_NORM, D},
    {"model.layers.3.mlp.gate_proj.weight", W1, F *D},
    {"model.layers.3.mlp.down_proj.weight", W2, D *F},
    {"model.layers.3.mlp.up_proj.weight", W3, F *D},
};

START_TEST(llama2c_header_becomes_the_configuration)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    ck_assert(c.d_model == D && c.d_ff == F && c.n_layers == L && c.n_heads == N);
    ck_assert(c.n_kv_heads == K && c.head_dim == H && c.vocab == V && c.max_seq == T && c.tied);
    ck_assert(c.rms_eps == 1e-5 && c.rope_theta == 10000);
    pl_weight_file_close(file);
}
END_TEST

START_TEST(llama2c_tensors_are_the_files_bytes)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    pl_hf_tensor t;
    size_t n;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    ck_assert(pl_hf_tensor_find(&c, plain[_i].name, &t));

    char *bytes = scratch_read(path, &n);
    float *read = read_whole(file, &c, plain[_i].name);

    ck_assert_mem_eq(read, raw(bytes, plain[_i].begin + 3 * plain[_i].per_layer),
                     (size_t)(t.rows * t.cols) * sizeof *read);
    free(read);
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

START_TEST(llama2c_q_and_k_rows_come_in_rotate_half_order)
{
    const char *const names[] = {"model.layers.4.self_attn.q_proj.weight",
                                 "model.layers.4.self_attn.k_proj.weight"};
    const int heads[] = {N, K}, begins[] = {WQ + 4 * N * H * D, WK + 4 * K * H * D};
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    size_t n;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));

    char *bytes = scratch_read(path, &n);
    float *read = read_whole(file, &c, names[_i]);

    /* The pair that llama2.c keeps side by side is H/2 rows apart in Hugging Face's order. */
    for (int head = 0; head < heads[_i]; head++)
        for (int pair = 0; pair < H / 2; pair++) {
            const float *stored = raw(bytes, begins[_i] + (head * H + 2 * pair) * D);

            ck_assert_mem_eq(read + (head * H + pair) * D, stored, D * sizeof *read);
            ck_assert_mem_eq(read + (head * H + pair + H / 2) * D, stored + D, D * sizeof *read);
        }
    free(read);
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

/** out[rows] = w[rows, D] . x, in f64. */
static void apply(const float *w, const double *x, int rows, double *out)
{
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int d = 0; d < D; d++)
            out[r] += w[r * D + d] * x[d];
    }
}

/** RoPE of one head at `position`; the pair j is at first[j], second[j]. */
static void rotate(double *head, int stride, int gap, int position)
{
    for (int j = 0; j < H / 2; j++) {
        const double angle = position * pow(10000, -2.0 * j / H), c = cos(angle), s = sin(angle);
        double *a = head + j * stride, *b = a + gap;
        const double x = *a, y = *b;

        *a = x * c - y * s;
        *b = x * s + y * c;
    }
}

START_TEST(attention_scores_are_those_of_llama2cs_own_order)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    double x[D], y[D], q[2][N * H], k[2][K * H];
    size_t n;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    for (int d = 0; d < D; d++) {
        x[d] = pl_rng_uniform(1, 0, (uint64_t)d) - 0.5;
        y[d] = pl_rng_uniform(1, 1, (uint64_t)d) - 0.5;
    }

    char *bytes = scratch_read(path, &n);
    float *wq = read_whole(file, &c, "model.layers.2.self_attn.q_proj.weight");
    float *wk = read_whole(file, &c, "model.layers.2.self_attn.k_proj.weight");

    apply(raw(bytes, WQ + 2 * N * H * D), x, N * H, q[0]);
    apply(raw(bytes, WK + 2 * K * H * D), y, K * H, k[0]);
    apply(wq, x, N * H, q[1]);
    apply(wk, y, K * H, k[1]);
    for (int head = 0; head < N; head++) {
        rotate(q[0] + head * H, 2, 1, 11); /* pairs side by side */
        rotate(q[1] + head * H, 1, H / 2, 11);
    }
    for (int head = 0; head < K; head++) {
        rotate(k[0] + head * H, 2, 1, 5);
        rotate(k[1] + head * H, 1, H / 2, 5);
    }
    for (int head = 0; head < N; head++) {
        double score[2] = {0}, terms = 0;

        for (int i = 0; i < 2; i++)
            for (int h = 0; h < H; h++)
                score[i] += q[i][head * H + h] * k[i][head / (N / K) * H + h];
        for (int h = 0; h < H; h++)
            terms += fabs(q[0][head * H + h] * k[0][head / (N / K) * H + h]);
        /* the same H terms in another order, each sum off by at most H u sum|terms| */
        ck_assert(fabs(score[0] - score[1]) <= 2 * H * 0x1p-53 * terms);
    }
    free(wq);
    free(wk);
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(float));
}

START_TEST(reordering_keeps_every_value_and_so_the_norm)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;
    size_t n;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));

    char *bytes = scratch_read(path, &n);
    float *stored = malloc(N * H * D * sizeof *stored);

    for (int layer = 0; layer < L; layer++) {
        char name[96];

        snprintf(name, sizeof name, "model.layers.%d.self_attn.q_proj.weight", layer);

        float *read = read_whole(file, &c, name);

        memcpy(stored, raw(bytes, WQ + layer * N * H * D), N * H * D * sizeof *stored);
        qsort(stored, N * H * D, sizeof *stored, by_value);
        qsort(read, N * H * D, sizeof *read, by_value);
        ck_assert_mem_eq(read, stored, N * H * D * sizeof *read);
        free(read);
    }
    free(stored);
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

/* --- rectangles, of both formats --- */

START_TEST(a_rectangle_is_the_part_of_the_whole)
{
    const char *const files[] = {STORIES, STORY};
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;

    if (!ck_testdata_path(files[_i], path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_weight_file_open(path, &c, &file));
    for (int64_t i = 0; i < pl_hf_tensor_count(&c); i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(&c, i);
        const int64_t row = t.rows / 3, n_rows = (t.rows + 1) / 2, col = t.cols / 5,
                      n_cols = t.cols / 2;
        float *whole = read_whole(file, &c, t.name);
        float *part = malloc((size_t)(n_rows * n_cols) * sizeof *part);

        ck_accepted(pl_weight_file_read(file, t.name, row, n_rows, col, n_cols, part));
        for (int64_t r = 0; r < n_rows; r++)
            ck_assert_mem_eq(part + r * n_cols, whole + (row + r) * t.cols + col,
                             (size_t)n_cols * sizeof *part);
        free(part);
        part = malloc((size_t)(n_rows * t.cols) * sizeof *part);
        ck_accepted(pl_weight_file_read(file, t.name, row, n_rows, 0, t.cols, part));
        ck_assert_mem_eq(part, whole + row * t.cols, (size_t)(n_rows * t.cols) * sizeof *part);
        ck_accepted(pl_weight_file_read(file, t.name, t.rows, 0, 0, t.cols, NULL));
        ck_accepted(pl_weight_file_read(file, t.name, 0, t.rows, t.cols, 0, NULL));
        free(part);
        free(whole);
    }
    pl_weight_file_close(file);
}
END_TEST

/* --- llama2.c files that are refused --- */

/** The first n bytes of stories260K.bin (padded with zeros beyond its end) with header word `word`
 * set to `value`, as a file of the test's own; false when there is no stories260K. */
static bool write_stories(const char *name, size_t n, int word, int32_t value)
{
    char path[SCRATCH_PATH];
    size_t n_whole;

    if (!ck_testdata_path(STORIES, path, sizeof path))
        return false;

    char *whole = scratch_read(path, &n_whole);
    char *bytes = calloc(n + 1, 1);

    memcpy(bytes, whole, n < n_whole ? n : n_whole);
    if (word >= 0)
        memcpy(bytes + 4 * word, &value, sizeof value);
    scratch_write(name, bytes, n);
    free(bytes);
    free(whole);
    return true;
}

START_TEST(llama2c_files_cut_short_are_refused_with_what_is_missing)
{
    /* where the file is cut; bytes missing; the array first cut */
    static const struct {
        size_t n;
        const char *missing, *what;
    } cuts[] = {
        {0, "28 are missing", "header"},
        {4, "24 are missing", "header"},
        {27, "1 are missing", "header"},
        {28, "1056512 are missing", "model.embed_tokens.weight"},
        {1000, "1055540 are missing", "model.embed_tokens.weight"},
        {28 + 4 * WK - 1, "are missing", "self_attn.q_proj.weight"},
        {28 + 4 * WK, "are missing", "self_attn.k_proj.weight"},
        {28 + 4 * FINAL_NORM, "are missing", "model.norm.weight"},
        {STORIES_BYTES - 1, "1 are missing", "RoPE"},
    };
    pl_model_config c;
    pl_weight_file *file;

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        if (!write_stories("cut.bin", cuts[i].n, -1, 0))
            ck_skip("needs PURLIN_TESTDATA");
        ck_refused(open_scratch("cut.bin", &c, &file), "cut.bin", cuts[i].missing, cuts[i].what,
                   NULL);
    }
}
END_TEST

START_TEST(a_grown_llama2c_file_is_refused)
{
    pl_model_config c;
    pl_weight_file *file;

    if (!write_stories("grown.bin", STORIES_BYTES + 1, -1, 0))
        ck_skip("needs PURLIN_TESTDATA");
    ck_refused(open_scratch("grown.bin", &c, &file), "1056540", "1056541", "1 trailing", NULL);
}
END_TEST

START_TEST(impossible_llama2c_headers_are_refused)
{
    static const struct {
        int word;
        int32_t value;
        const char *message;
    } headers[] = {
        {0, 0, "width D is 0"},
        {0, -64, "width D is -64"},
        {0, 2147483647, "do not divide the width"},
        {1, 0, "feed-forward width F is 0"},
        {2, -1, "layers is -1"},
        {2, 2147483647, "layers is 2147483647"},
        {3, 0, "heads N is 0"},
        {3, 7, "7 heads do not divide"},
        {3, 64, "odd"},
        {4, 3, "3 key/value heads"},
        {4, 0, "key/value heads K is 0"},
        {5, 0, "vocabulary V is 0"},
        {5, INT32_MIN, "vocabulary V is 2147483648"},
        {5, -512, "lm_head.weight"}, /* untied: a head of 512 x 64 floats is missing */
        {6, 0, "longest sequence T is 0"},
        {6, 511, "32 trailing"}, /* RoPE's tables shrink by H floats */
        {0, 0x616b3432, "version 1 or later"},
        {0, 0x46554747, "GGUF"},
        {0, 0x04034b50, "zip"},
    };
    pl_model_config c;
    pl_weight_file *file;

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (!write_stories("header.bin", STORIES_BYTES, headers[i].word, headers[i].value))
            ck_skip("needs PURLIN_TESTDATA");
        ck_refused(open_scratch("header.bin", &c, &file), "header.bin", headers[i].message, NULL);
    }
}
END_TEST

START_TEST(an_untied_llama2c_file_has_its_own_head)
{
    char path[SCRATCH_PATH];
    const float marked = 0.125f;
    pl_model_config c;
    pl_weight_file *file;
    float x[2];
    size_t n;

    if (!write_stories("untied.bin", STORIES_BYTES + 4 * V * D, 5, -V))
        ck_skip("needs PURLIN_TESTDATA");

    char *bytes = scratch_read(scratch_path("untied.bin", path), &n);

    memcpy(bytes + STORIES_BYTES, &marked, sizeof marked);
    scratch_write("untied.bin", bytes, n);
    ck_accepted(open_scratch("untied.bin", &c, &file));
    ck_assert(!c.tied);
    ck_accepted(pl_weight_file_read(file, "lm_head.weight", 0, 1, 0, 2, x));
    ck_assert(x[0] == marked && x[1] == 0);
    ck_accepted(pl_weight_file_read(file, "model.embed_tokens.weight", 0, 1, 0, 1, x));
    ck_assert(x[0] == *raw(bytes, EMBED));
    free(bytes);
    pl_weight_file_close(file);
}
END_TEST

START_TEST(paths_that_hold_no_weights_are_refused)
{
    char path[SCRATCH_PATH];
    pl_model_config c;
    pl_weight_file *file;

    ck_refused(open_scratch("absent.bin", &c, &file), "absent.bin", "No such file", NULL);
    ck_refused(open_scratch("", &c, &file), "model.safetensors", "No such file", NULL);
    scratch_write("model.safetensors.index.json", "{}", 2);
    ck_refused(open_scratch("", &c, &file), "several files", NULL);
    ck_assert_int_eq(mkfifo(scratch_path("pipe", path), 0600), 0);
    ck_refused(open_scratch("pipe", &c, &file), "no regular file", NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("weight_file");
    TCase *tests = tcase_create("weight_file");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
    tcase_add_test(tests, llama2c_header_becomes_the_configuration);
    tcase_add_loop_test(tests, llama2c_tensors_are_the_files_bytes, 0,
                        sizeof plain / sizeof *plain);
    tcase_add_loop_test(tests, llama2c_q_and_k_rows_come_in_rotate_half_order, 0, 2);
    tcase_add_test(tests, attention_scores_are_those_of_llama2cs_own_order);
    tcase_add_test(tests, reordering_keeps_every_value_and_so_the_norm);
    tcase_add_loop_test(tests, a_rectangle_is_the_part_of_the_whole, 0, 2);
    tcase_add_test(tests, llama2c_files_cut_short_are_refused_with_what_is_missing);
    tcase_add_test(tests, a_grown_llama2c_file_is_refused);
    tcase_add_test(tests, impossible_llama2c_headers_are_refused);
    tcase_add_test(tests, an_untied_llama2c_file_has_its_own_head);
    tcase_add_test(tests, paths_that_hold_no_weights_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
