/* weight_file_test -- llama2.c and Hugging Face files: what is read, refused, saved. */
#include "config.h"

#include "src/base/json.h"
#include "src/base/rng.h"
#include "src/model/hf_tensors.h"
#include "src/model/safetensors.h"
#include "src/model/weight_file.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORIES "weights/stories260K/stories260K.bin"
#define STORY_FOLDER "weights/story656K"
#define STORY STORY_FOLDER "/model.safetensors"

/* stories260K, by the header of its file. */
enum { D = 64, F = 172, L = 5, N = 8, K = 4, H = D / N, V = 512, T = 512, STORIES_BYTES = 1056540 };
/* story656K: the length of its header, by the file's first eight bytes. */
enum { STORY_HEADER = 2160, STORY_DATA = 8 + STORY_HEADER, STORY_BYTES = 2626168 };

static pl_status open_scratch(const char *name, pl_model_config *config, pl_weight_file **file)
{
    char path[SCRATCH_PATH];

    return pl_weight_file_open(scratch_path(name, path), config, file);
}

/** The whole of a tensor; free() it. */
static float *read_whole(const pl_weight_file *file, const pl_model_config *c, const char *name)
{
    pl_hf_tensor t;
    float *out;

    ck_assert(pl_hf_tensor_find(c, name, &t));
    out = malloc((size_t)(t.rows * t.cols) * sizeof *out);
    ck_accepted(pl_weight_file_read(file, name, 0, t.rows, 0, t.cols, out));
    return out;
}

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

/* --- story656K: safetensors --- */

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
    {"[1048576,1049088]", "[1048580,1049092]", "model.layers.0.input_layernorm.weight", "gap"},
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

START_TEST(an_untied_model_needs_its_head)
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

START_TEST(no_mutated_header_is_believed_or_fatal)
{
    pl_model_config c;
    container s;
    size_t n_header;
    FILE *quiet = freopen("/dev/null", "w", stderr); /* unknown tensors are warned of */

    ck_assert_ptr_nonnull(quiet);
    if (!take_story(&s))
        ck_skip("needs PURLIN_TESTDATA");
    n_header = strlen(s.header);

    char *good = malloc(n_header + 1);

    memcpy(good, s.header, n_header + 1);
    for (uint64_t i = 0; i < 500; i++) {
        const int n_changes = 1 + (int)(i % 3);
        pl_weight_file *file = NULL;

        memcpy(s.header, good, n_header + 1);
        for (int j = 0; j < n_changes; j++) {
            const uint64_t at = 3 * i + (uint64_t)j;
            const char was = s.header[pl_rng_below(1, 0, at, (int64_t)n_header)];

            /* digits become digits, so that numbers stay numbers */
            s.header[pl_rng_below(1, 0, at, (int64_t)n_header)] =
                was >= '0' && was <= '9' ? (char)('0' + pl_rng_below(1, 1, at, 10))
                                         : (char)(1 + pl_rng_below(1, 1, at, 255));
        }
        put_story(&s, n_header, s.n_data);
        if (open_story(&c, &file) == PL_OK) {
            /* Only names and metadata can change unseen; all tensors are there to be read. */
            free(read_whole(file, &c, "model.norm.weight"));
            pl_weight_file_close(file);
        } else {
            ck_assert_str_ne(pl_status_message(), "");
            pl_status_clear();
        }
    }
    free(good);
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

/* --- saving --- */

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
    ck_assert_int_eq(pl_weight_writer_append(writer, "model.norm.weight", zeros, 72), PL_INTERNAL);
    ck_assert_int_eq(pl_weight_writer_close(writer, true), PL_INTERNAL);
    ck_assert_int_ne(access(scratch_path("saved/model.safetensors", path), F_OK), 0);
}
END_TEST

static void add_llama2c(TCase *tests)
{
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
}

static void add_safetensors(TCase *tests)
{
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
    tcase_add_test(tests, an_untied_model_needs_its_head);
    tcase_add_test(tests, a_missing_config_json_is_refused);
    tcase_add_test(tests, no_mutated_header_is_believed_or_fatal);
    tcase_add_loop_test(tests, files_of_every_dtype_open, 0, 10);
    tcase_add_loop_test(tests, floats_of_the_samples_are_read_at_odd_offsets, 0, 2);
    tcase_add_loop_test(tests, every_half_is_widened_exactly, 0, 2);
}

static void add_saving(TCase *tests)
{
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
}

static Suite *make_suite(void)
{
    Suite *suite = suite_create("weight_file");
    static void (*const add[])(TCase *) = {add_llama2c, add_safetensors, add_saving};
    static const char *const names[] = {"llama2c", "safetensors", "saving"};

    for (int i = 0; i < 3; i++) {
        TCase *tests = tcase_create(names[i]);

        tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
        add[i](tests);
        suite_add_tcase(suite, tests);
    }
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
