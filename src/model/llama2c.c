#include "config.h"

#include "src/model/llama2c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "llama2.c's files are little-endian");

enum { HEADER_WORDS = 7, HEADER_BYTES = 4 * HEADER_WORDS, F32_BYTES = 4 };

/* What a user may give by mistake, by its first four bytes. */
static const struct {
    char magic[5];
    const char *what;
} foreign[] = {
    {"24ka", "a llama2.c file of version 1 or later; purlin reads version 0"},
    {"GGUF", "a GGUF file"},
    {"lmgg", "a GGML file"},
    {"tjgg", "a GGML file"},
    {"PK\3\4", "a zip archive, such as PyTorch saves"},
    {"\177ELF", "a program"},
};

static pl_status refuse_foreign(const char *path, const int32_t *header)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (memcmp(header, foreign[i].magic, 4) == 0)
            return pl_refuse(PL_BAD_INPUT,
                             "%s: this is %s; --init takes a llama2.c .bin or a model.safetensors",
                             path, foreign[i].what);
    return PL_OK;
}

static pl_status read_config(const pl_file_bytes *file, pl_model_config *config)
{
    int32_t h[HEADER_WORDS];
    char where[sizeof file->path + 64];
    pl_model_config c = {.rms_eps = 1e-5, .rope_theta = 10000};
    pl_status status = PL_OK;

    if (file->n_bytes < HEADER_BYTES)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: truncated: a llama2.c file has a header of %d bytes, this file is "
                         "%" PRId64 " bytes: %" PRId64 " are missing",
                         file->path, HEADER_BYTES, file->n_bytes, HEADER_BYTES - file->n_bytes);
    status = pl_file_bytes_read(file, 0, HEADER_BYTES, h);
    if (status == PL_OK)
        status = refuse_foreign(file->path, h);
    if (status != PL_OK)
        return status;
    snprintf(c.name, sizeof c.name, "%.*s", (int)sizeof c.name - 1, file->path);
    c.d_model = h[0];
    c.d_ff = h[1];
    c.n_layers = h[2];
    c.n_heads = h[3];
    c.n_kv_heads = h[4];
    c.vocab = h[5] < 0 ? -(int64_t)h[5] : h[5];
    c.tied = h[5] >= 0;
    c.max_seq = h[6];
    c.head_dim = h[3] > 0 && h[0] > 0 && h[0] % h[3] == 0 ? h[0] / h[3] : 0;
    snprintf(where, sizeof where, "%s: no llama2.c file by its first 28 bytes", file->path);
    if (h[0] > 0 && h[3] > 0 && c.head_dim == 0)
        return pl_refuse(PL_BAD_INPUT, "%s: %" PRId32 " heads do not divide the width %" PRId32,
                         where, h[3], h[0]);
    status = pl_model_config_check(where, &c);
    if (status == PL_OK)
        *config = c;
    return status;
}

/** Lays the arrays out and compares their end with the file's. */
static pl_status lay_out(pl_llama2c *f)
{
    static const pl_hf_kind order[] = {
        PL_HF_EMBED,    PL_HF_ATTENTION_NORM, PL_HF_Q,    PL_HF_K,  PL_HF_V,          PL_HF_O,
        PL_HF_MLP_NORM, PL_HF_GATE,           PL_HF_DOWN, PL_HF_UP, PL_HF_FINAL_NORM, PL_HF_HEAD};
    const pl_model_config *c = &f->config;
    const int64_t rope_bytes = c->max_seq * c->head_dim * F32_BYTES; /* both tables */
    const char *path = f->file.path;
    char cut[sizeof(((pl_hf_tensor *)0)->name)] = "";
    int64_t end = HEADER_BYTES;

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const pl_hf_kind kind = order[i];
        const bool in_layers = kind >= PL_HF_ATTENTION_NORM && kind <= PL_HF_DOWN;
        const pl_hf_tensor t = pl_hf_tensor_of(c, kind, in_layers ? 0 : -1);

        if (kind == PL_HF_HEAD)
            end += rope_bytes;
        if (cut[0] == '\0' && end > f->file.n_bytes)
            snprintf(cut, sizeof cut, "RoPE's tables");
        f->begin_bytes[kind] = end;
        if (kind == PL_HF_HEAD && c->tied) {
            f->begin_bytes[kind] = f->begin_bytes[PL_HF_EMBED];
            break;
        }
        end += t.rows * t.cols * F32_BYTES * (in_layers ? c->n_layers : 1);
        if (cut[0] == '\0' && end > f->file.n_bytes)
            snprintf(cut, sizeof cut, "%s", t.name);
    }
    if (end > f->file.n_bytes)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: truncated, or no llama2.c file: its header describes %" PRId64
                         " bytes, the file is %" PRId64 ": %" PRId64
                         " are missing; %s is the first array cut short",
                         path, end, f->file.n_bytes, end - f->file.n_bytes, cut);
    if (end < f->file.n_bytes)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: its header describes %" PRId64 " bytes, but the file is %" PRId64
                         ": %" PRId64 " trailing bytes belong to no array",
                         path, end, f->file.n_bytes, f->file.n_bytes - end);
    return PL_OK;
}

pl_status pl_llama2c_open(const char *path, pl_llama2c *file)
{
    pl_llama2c f = {0};
    pl_status status = pl_file_bytes_open(path, &f.file);

    if (status != PL_OK)
        return status;
    status = read_config(&f.file, &f.config);
    if (status == PL_OK)
        status = lay_out(&f);
    if (status == PL_OK)
        *file = f;
    else
        pl_llama2c_close(&f);
    return status;
}

/** Where Hugging Face's row of q or k is stored. */
static int64_t stored_row(const pl_model_config *c, int64_t row)
{
    const int64_t H = c->head_dim, head = row / H, j = row % H;

    return head * H + (j < H / 2 ? 2 * j : 2 * (j - H / 2) + 1);
}

pl_status pl_llama2c_read(const pl_llama2c *f, const pl_hf_tensor *t, int64_t row_begin,
                          int64_t n_rows, int64_t col_begin, int64_t n_cols, float *out)
{
    const bool reordered = t->kind == PL_HF_Q || t->kind == PL_HF_K;
    const int64_t layer = t->layer < 0 ? 0 : t->layer;
    const int64_t base = f->begin_bytes[t->kind] + layer * t->rows * t->cols * F32_BYTES;
    pl_status status = PL_OK;

    if (!reordered && n_cols == t->cols)
        return pl_file_bytes_read(&f->file, base + row_begin * n_cols * F32_BYTES,
                                  n_rows * n_cols * F32_BYTES, out);
    for (int64_t r = 0; r < n_rows && status == PL_OK; r++) {
        const int64_t row = reordered ? stored_row(&f->config, row_begin + r) : row_begin + r;

        status = pl_file_bytes_read(&f->file, base + (row * t->cols + col_begin) * F32_BYTES,
                                    n_cols * F32_BYTES, out + r * n_cols);
    }
    return status;
}

void pl_llama2c_close(pl_llama2c *f)
{
    pl_file_bytes_close(&f->file);
}
