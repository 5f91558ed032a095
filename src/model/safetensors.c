#include "config.h"

#include "src/model/safetensors.h"
#include "src/base/json.h"
#include "src/base/panic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors files are little-endian");

enum { LENGTH_BYTES = 8 };

static const struct {
    const char *name;
    int n_bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8},
};

/* --- the header's JSON --- */

/** The name that a duplicate-key error points behind, or "" . */
static void duplicate_name(const char *header, int64_t n, int position, char *name, size_t room)
{
    int64_t end = position - 1, begin;

    name[0] = '\0';
    if (end < 1 || end >= n || header[end] != '"')
        return;
    for (begin = end - 1; begin > 0 && header[begin] != '"'; begin--)
        ;
    snprintf(name, room, "%.*s", (int)(end - begin - 1), header + begin + 1);
}

static pl_status parse_header(const char *path, const char *header, int64_t n, json_t **root)
{
    json_error_t error;
    char name[256];
    json_t *value = json_loadb(header, (size_t)n, JSON_REJECT_DUPLICATES, &error);

    if (value != NULL && !json_is_object(value)) {
        json_decref(value);
        return pl_refuse(PL_BAD_INPUT, "%s: the header is no JSON object", path);
    }
    if (value != NULL) {
        *root = value;
        return PL_OK;
    }
    if (json_error_code(&error) == json_error_duplicate_key) {
        duplicate_name(header, n, error.position, name, sizeof name);
        return pl_refuse(PL_BAD_INPUT, "%s: the header names \"%s\" twice", path, name);
    }
    return pl_refuse(PL_BAD_INPUT, "%s: the header is not JSON: byte %d: %s", path, error.position,
                     error.text);
}

static pl_status read_dtype(const char *path, const json_t *entry, pl_safetensor *t)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));

    for (size_t i = 0; dtype != NULL && i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, dtype) == 0) {
            t->dtype = dtypes[i].name;
            t->dtype_bytes = dtypes[i].n_bytes;
            return PL_OK;
        }
    }
    return pl_refuse(PL_BAD_INPUT, "%s: tensor \"%s\" has the unknown dtype %s", path, t->name,
                     dtype != NULL ? dtype : "(none)");
}

static pl_status read_shape(const char *path, const json_t *entry, pl_safetensor *t)
{
    const json_t *shape = json_object_get(entry, "shape");
    const size_t n_dims = json_array_size(shape);

    if (!json_is_array(shape) || n_dims > PL_SAFETENSOR_DIMS)
        return pl_refuse(PL_BAD_INPUT, "%s: tensor \"%s\" has no shape of at most %d dims", path,
                         t->name, PL_SAFETENSOR_DIMS);
    t->n_dims = (int)n_dims;
    t->n_elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *extent = json_array_get(shape, (size_t)i);

        t->shape[i] = json_integer_value(extent);
        if (!json_is_integer(extent) || t->shape[i] < 0 ||
            __builtin_mul_overflow(t->n_elements, t->shape[i], &t->n_elements))
            return pl_refuse(PL_BAD_INPUT, "%s: tensor \"%s\" has an impossible shape", path,
                             t->name);
    }
    return PL_OK;
}

/** Reads data_offsets, relative to the data; begin_bytes is then absolute. */
static pl_status read_offsets(const char *path, const json_t *entry, int64_t data_begin,
                              pl_safetensor *t)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    const int64_t begin = json_integer_value(first), end = json_integer_value(second);
    int64_t wanted_bytes, last;

    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second) ||
        begin < 0 || end < begin || __builtin_add_overflow(end, data_begin, &last))
        return pl_refuse(PL_BAD_INPUT,
                         "%s: tensor \"%s\" has no data_offsets [begin, end], 0 <= begin <= end",
                         path, t->name);
    if (__builtin_mul_overflow(t->n_elements, t->dtype_bytes, &wanted_bytes) ||
        wanted_bytes != end - begin)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: tensor \"%s\" has %" PRId64 " elements of %s by its shape, but its "
                         "data_offsets [%" PRId64 ", %" PRId64 "] span %" PRId64 " bytes",
                         path, t->name, t->n_elements, t->dtype, begin, end, end - begin);
    t->begin_bytes = data_begin + begin;
    t->n_bytes = end - begin;
    return PL_OK;
}

static pl_status read_entries(pl_safetensors *st, json_t *root, int64_t data_begin)
{
    const char *path = st->file.path, *name;
    json_t *entry;

    st->tensors = pl_arena_alloc(st->arena, (json_object_size(root) + 1) * sizeof *st->tensors);
    json_object_foreach(root, name, entry)
    {
        pl_safetensor *t = &st->tensors[st->n_tensors];
        pl_status status;

        if (strcmp(name, "__metadata__") == 0)
            continue;
        t->name = pl_arena_printf(st->arena, "%s", name);
        if (!json_is_object(entry))
            return pl_refuse(PL_BAD_INPUT, "%s: tensor \"%s\" is described by no object", path,
                             name);
        status = read_dtype(path, entry, t);
        if (status == PL_OK)
            status = read_shape(path, entry, t);
        if (status == PL_OK)
            status = read_offsets(path, entry, data_begin, t);
        if (status != PL_OK)
            return status;
        st->n_tensors++;
    }
    return PL_OK;
}

/* --- the ranges against the file --- */

static int by_range(const void *left, const void *right)
{
    const pl_safetensor *a = left, *b = right;

    if (a->begin_bytes != b->begin_bytes)
        return a->begin_bytes < b->begin_bytes ? -1 : 1;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static pl_status check_ranges(pl_safetensors *st, int64_t data_begin)
{
    const char *path = st->file.path;
    int64_t end = data_begin;

    qsort(st->tensors, (size_t)st->n_tensors, sizeof *st->tensors, by_range);
    for (int64_t i = 0; i < st->n_tensors; i++) {
        const pl_safetensor *t = &st->tensors[i];

        if (t->begin_bytes != end)
            return pl_refuse(PL_BAD_INPUT,
                             "%s: tensor \"%s\" begins at byte %" PRId64
                             " of the data, but what comes before it ends at byte %" PRId64
                             ": they %s",
                             path, t->name, t->begin_bytes - data_begin, end - data_begin,
                             t->begin_bytes < end
                                 ? "overlap"
                                 : "leave a gap, as of a tensor that the header lacks");
        end += t->n_bytes;
        if (end > st->file.n_bytes) {
            const pl_safetensor *last = &st->tensors[st->n_tensors - 1];

            return pl_refuse(PL_BAD_INPUT,
                             "%s: truncated: the file is %" PRId64 " bytes, the header describes "
                             "%" PRId64 ", %" PRId64 " more; tensor \"%s\" is the first cut short",
                             path, st->file.n_bytes, last->begin_bytes + last->n_bytes,
                             last->begin_bytes + last->n_bytes - st->file.n_bytes, t->name);
        }
    }
    if (end != st->file.n_bytes)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: the file is %" PRId64 " bytes, but the header describes %" PRId64
                         ": %" PRId64 " trailing bytes belong to no tensor",
                         path, st->file.n_bytes, end, st->file.n_bytes - end);
    return PL_OK;
}

static pl_status read_length(pl_safetensors *st, int64_t *n_header)
{
    const char *path = st->file.path;
    const int64_t left_bytes = st->file.n_bytes - LENGTH_BYTES;
    uint64_t length;
    char first;
    pl_status status;

    if (left_bytes < 0)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: truncated: the file is %" PRId64
                         " bytes, its header's length alone takes %d",
                         path, st->file.n_bytes, LENGTH_BYTES);
    status = pl_file_bytes_read(&st->file, 0, LENGTH_BYTES, &length);
    if (status != PL_OK)
        return status;
    if (length == 0 || length > (uint64_t)left_bytes)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: the header's length is given as %" PRIu64 " bytes, but %" PRId64
                         " bytes follow in this file of %" PRId64 ": %s",
                         path, length, left_bytes, st->file.n_bytes,
                         length == 0 ? "there is no header" : "truncated, or no safetensors file");
    status = pl_file_bytes_read(&st->file, LENGTH_BYTES, 1, &first);
    if (status == PL_OK && first != '{')
        status = pl_refuse(PL_BAD_INPUT,
                           "%s: no safetensors file: its header does not begin with {", path);
    *n_header = (int64_t)length;
    return status;
}

static pl_status read_header(pl_safetensors *st)
{
    int64_t n_header = 0;
    json_t *root = NULL;
    pl_status status = read_length(st, &n_header);

    if (status != PL_OK)
        return status;

    char *header = pl_alloc((size_t)n_header);

    status = pl_file_bytes_read(&st->file, LENGTH_BYTES, n_header, header);
    if (status == PL_OK)
        status = parse_header(st->file.path, header, n_header, &root);
    if (status == PL_OK)
        status = read_entries(st, root, LENGTH_BYTES + n_header);
    if (status == PL_OK)
        status = check_ranges(st, LENGTH_BYTES + n_header);
    json_decref(root);
    pl_free(header);
    return status;
}

pl_status pl_safetensors_open(const char *path, pl_safetensors *out)
{
    pl_safetensors st = {0};
    pl_status status = pl_file_bytes_open(path, &st.file);

    if (status != PL_OK)
        return status;
    st.arena = pl_arena_create();
    status = read_header(&st);
    if (status == PL_OK)
        *out = st;
    else
        pl_safetensors_close(&st);
    return status;
}

void pl_safetensors_close(pl_safetensors *st)
{
    pl_file_bytes_close(&st->file);
    pl_arena_destroy(st->arena);
    *st = (pl_safetensors){.file.fd = -1};
}

/* --- the data --- */

const pl_safetensor *pl_safetensors_find(const pl_safetensors *st, const char *name)
{
    for (int64_t i = 0; i < st->n_tensors; i++)
        if (strcmp(st->tensors[i].name, name) == 0)
            return &st->tensors[i];
    return NULL;
}

bool pl_safetensor_is_float(const pl_safetensor *t)
{
    return strcmp(t->dtype, "F32") == 0 || strcmp(t->dtype, "F16") == 0 ||
           strcmp(t->dtype, "BF16") == 0;
}

static float from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/** 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, fraction = half & 0x3ff;
    const uint32_t exponent = half >> 10 & 0x1f;
    uint32_t bits;
    float x;

    if (exponent == 0) { /* zero or subnormal: fraction x 2^-24 */
        x = (float)fraction * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
    } else if (exponent == 0x1f) { /* infinite or not a number */
        bits = 0x7f800000 | fraction << 13;
    } else {
        bits = (exponent + 127 - 15) << 23 | fraction << 13;
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void widen(const pl_safetensor *t, const uint16_t *in, int64_t n, float *out)
{
    const bool is_bf16 = t->dtype[0] == 'B';

    for (int64_t i = 0; i < n; i++)
        out[i] = is_bf16 ? from_bf16(in[i]) : from_f16(in[i]);
}

pl_status pl_safetensors_read_f32(const pl_safetensors *st, const pl_safetensor *t, int64_t begin,
                                  int64_t n, float *out)
{
    enum { CHUNK = 4096 };
    uint16_t halves[CHUNK];
    const int64_t at = t->begin_bytes + begin * t->dtype_bytes;

    PL_ASSERT(pl_safetensor_is_float(t) && begin >= 0 && n >= 0 && begin <= t->n_elements - n);
    if (t->dtype_bytes == sizeof *out)
        return pl_file_bytes_read(&st->file, at, n * (int64_t)sizeof *out, out);
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t count = n - i < CHUNK ? n - i : CHUNK;
        const pl_status status = pl_file_bytes_read(&st->file, at + 2 * i, 2 * count, halves);

        if (status != PL_OK)
            return status;
        widen(t, halves, count, out + i);
    }
    return PL_OK;
}
