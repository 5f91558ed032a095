#include "config.h"

#include "src/model/weight_file.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/model/hf_tensors.h"
#include "src/model/llama2c.h"
#include "src/model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pl_weight_file {
    pl_model_config config;
    bool is_safetensors;
    pl_llama2c llama2c;
    pl_safetensors st;
};

/* --- a Hugging Face folder --- */

/** "[rows, cols]" as a text. */
static const char *shape_text(int n_dims, const int64_t *shape, char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "[");

    for (int i = 0; i < n_dims && used < room; i++)
        used +=
            (size_t)snprintf(text + used, room - used, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
    if (used < room)
        snprintf(text + used, room - used, "]");
    return text;
}

static const pl_safetensor *find_stored(const pl_weight_file *f, const pl_hf_tensor *t)
{
    const pl_safetensor *stored = NULL;

    if (f->config.tied && t->kind == PL_HF_HEAD)
        stored = pl_safetensors_find(&f->st, "model.embed_tokens.weight");
    if (stored == NULL)
        stored = pl_safetensors_find(&f->st, t->name);
    if (stored == NULL && f->config.tied && t->kind == PL_HF_EMBED)
        stored = pl_safetensors_find(&f->st, "lm_head.weight");
    return stored;
}

static pl_status check_stored(const pl_weight_file *f, const pl_hf_tensor *t,
                              const pl_safetensor *stored)
{
    const char *path = f->st.file.path;
    const int64_t wanted[2] = {t->n_dims == 2 ? t->rows : t->cols, t->cols};
    bool fits = stored->n_dims == t->n_dims;
    char is[256], should[128];

    for (int i = 0; fits && i < t->n_dims; i++)
        fits = stored->shape[i] == wanted[i];
    if (!fits)
        return pl_refuse(PL_BAD_INPUT, "%s: tensor \"%s\" is %s, but config.json makes it %s", path,
                         stored->name, shape_text(stored->n_dims, stored->shape, is, sizeof is),
                         shape_text(t->n_dims, wanted, should, sizeof should));
    if (!pl_safetensor_is_float(stored))
        return pl_refuse(PL_BAD_INPUT,
                         "%s: tensor \"%s\" has dtype %s; purlin reads F32, F16 and BF16", path,
                         stored->name, stored->dtype);
    return PL_OK;
}

static pl_status check_tensors(const pl_weight_file *f)
{
    const int64_t n = pl_hf_tensor_count(&f->config);

    for (int64_t i = 0; i < n; i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(&f->config, i);
        const pl_safetensor *stored = find_stored(f, &t);
        pl_status status;

        if (stored == NULL)
            return pl_refuse(
                PL_BAD_INPUT, "%s: tensor \"%s\" is missing%s", f->st.file.path, t.name,
                t.kind == PL_HF_HEAD
                    ? "; a config.json with \"tie_word_embeddings\": true would do without it"
                    : "");
        status = check_stored(f, &t, stored);
        if (status != PL_OK)
            return status;
    }
    return PL_OK;
}

/* Buffers that old exporters stored; they are functions of the configuration. */
static bool is_harmless(const char *name)
{
    const char *tail = strrchr(name, '.');

    return tail != NULL && strcmp(tail, ".inv_freq") == 0;
}

static void warn_of_unknown(const pl_weight_file *f)
{
    enum { NAMED = 3 };
    pl_hf_tensor t;
    int64_t n_unknown = 0;

    for (int64_t i = 0; i < f->st.n_tensors; i++) {
        const char *name = f->st.tensors[i].name;

        if (pl_hf_tensor_find(&f->config, name, &t) || is_harmless(name))
            continue;
        if (n_unknown < NAMED)
            pl_warn("%s: skipping tensor \"%s\": the model has no use for it", f->st.file.path,
                    name);
        n_unknown++;
    }
    if (n_unknown > NAMED)
        pl_warn("%s: and %" PRId64 " more such tensors", f->st.file.path, n_unknown - NAMED);
}

static pl_status open_hugging_face(const char *path, pl_weight_file *f)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    char config_path[4096 + 16];
    pl_status status = pl_safetensors_open(path, &f->st);

    if (status != PL_OK)
        return status;
    f->is_safetensors = true;
    snprintf(config_path, sizeof config_path, "%.*sconfig.json", folder, path);
    status = pl_model_config_read(config_path, &f->config);
    if (status == PL_OK)
        status = check_tensors(f);
    if (status == PL_OK)
        warn_of_unknown(f);
    return status;
}

/* --- either --- */

static bool ends_with(const char *text, const char *tail)
{
    const size_t n = strlen(text), m = strlen(tail);

    return n >= m && strcmp(text + n - m, tail) == 0;
}

/** Whether the first bytes are a safetensors header's: a length, then a brace. */
static bool begins_like_safetensors(const char *path)
{
    pl_file_bytes file;
    char bytes[9] = "";

    if (ends_with(path, ".safetensors"))
        return true;
    if (pl_file_bytes_open(path, &file) != PL_OK) {
        pl_status_clear(); /* whoever opens it next says so */
        return false;
    }
    if (file.n_bytes >= (int64_t)sizeof bytes &&
        pl_file_bytes_read(&file, 0, sizeof bytes, bytes) != PL_OK)
        pl_status_clear();
    pl_file_bytes_close(&file);
    return bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0; /* a length below 2^48 */
}

/** The file within a folder, or the path itself. */
static pl_status find_file(const char *path, char *found, size_t room)
{
    struct stat about;
    char index[4096 + 32];
    int length;

    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        length = snprintf(found, room, "%s", path);
    } else {
        length = snprintf(found, room, "%s/model.safetensors", path);
        snprintf(index, sizeof index, "%s.index.json", found);
        if (access(found, F_OK) != 0 && access(index, F_OK) == 0)
            return pl_refuse(PL_BAD_INPUT,
                             "%s: the weights are split over several files; purlin reads a single "
                             "model.safetensors",
                             path);
    }
    if (length < 0 || (size_t)length >= room)
        return pl_refuse(PL_BAD_INPUT, "the path is too long: %.80s...", path);
    return PL_OK;
}

pl_status pl_weight_file_open(const char *path, pl_model_config *config, pl_weight_file **file)
{
    char found[4096];
    pl_weight_file *f;
    pl_status status = find_file(path, found, sizeof found);

    if (status != PL_OK)
        return status;
    f = pl_alloc(sizeof *f);
    f->llama2c.file.fd = f->st.file.fd = -1;
    if (begins_like_safetensors(found)) {
        status = open_hugging_face(found, f);
    } else {
        status = pl_llama2c_open(found, &f->llama2c);
        if (status == PL_OK)
            f->config = f->llama2c.config;
    }
    if (status != PL_OK) {
        pl_weight_file_close(f);
        return status;
    }
    *config = f->config;
    *file = f;
    return PL_OK;
}

static pl_status read_stored(const pl_weight_file *f, const pl_hf_tensor *t, int64_t row_begin,
                             int64_t n_rows, int64_t col_begin, int64_t n_cols, float *out)
{
    const pl_safetensor *stored = find_stored(f, t);
    pl_status status = PL_OK;

    PL_ASSERT(stored != NULL); /* checked when the file was opened */
    if (n_cols == t->cols)
        return pl_safetensors_read_f32(&f->st, stored, row_begin * n_cols, n_rows * n_cols, out);
    for (int64_t r = 0; r < n_rows && status == PL_OK; r++)
        status = pl_safetensors_read_f32(&f->st, stored, (row_begin + r) * t->cols + col_begin,
                                         n_cols, out + r * n_cols);
    return status;
}

pl_status pl_weight_file_read(const pl_weight_file *f, const char *name, int64_t row_begin,
                              int64_t n_rows, int64_t col_begin, int64_t n_cols, float *out)
{
    pl_hf_tensor t;

    if (!pl_hf_tensor_find(&f->config, name, &t))
        return pl_refuse(PL_INTERNAL, "the model has no tensor \"%s\"", name);
    PL_ASSERT(row_begin >= 0 && n_rows >= 0 && row_begin <= t.rows - n_rows);
    PL_ASSERT(col_begin >= 0 && n_cols >= 0 && col_begin <= t.cols - n_cols);
    if (f->is_safetensors)
        return read_stored(f, &t, row_begin, n_rows, col_begin, n_cols, out);
    return pl_llama2c_read(&f->llama2c, &t, row_begin, n_rows, col_begin, n_cols, out);
}

void pl_weight_file_close(pl_weight_file *f)
{
    if (f == NULL)
        return;
    pl_llama2c_close(&f->llama2c);
    pl_safetensors_close(&f->st);
    pl_free(f);
}
