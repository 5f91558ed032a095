#include "config.h"

#include "src/roofline/trial_file.h"

#include "kernels/matmul_openblas.h"
#include "src/base/json.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/roofline/cache.h"

#include <stdio.h>
#include <string.h>

/* Raised when what is tried, or how, changes: older files are then left alone. */
enum { FORMAT_VERSION = 1 };

static const int64_t most_extent = INT64_C(1) << 48;

pl_matmul_tried *pl_trials_find(const pl_trials *trials, const pl_matmul_shape *shape)
{
    for (int64_t i = 0; i < trials->n; i++)
        if (pl_matmul_shape_equal(&trials->entry[i].shape, shape))
            return &trials->entry[i];
    return NULL;
}

void pl_trials_put(pl_trials *trials, const pl_matmul_tried *tried)
{
    pl_matmul_tried *old = pl_trials_find(trials, &tried->shape);

    if (old != NULL) {
        *old = *tried;
        return;
    }
    if (trials->n == PL_TRIALS_MOST)
        memmove(trials->entry, trials->entry + 1, (size_t)--trials->n * sizeof *trials->entry);
    trials->entry =
        pl_room_for_one(trials->entry, trials->n, &trials->room, sizeof *trials->entry);
    trials->entry[trials->n++] = *tried;
}

void pl_trials_free(pl_trials *trials)
{
    pl_free(trials->entry);
    *trials = (pl_trials){0};
}

/* The core alone: a file's name has no room for all; the rest is compared when it is read. */
void pl_trials_path(const pl_topology *topology, char *path)
{
    const char *core = strstr(pl_matmul_openblas_name(), "core ");

    pl_cache_file("matmul", FORMAT_VERSION, core != NULL ? core : "openblas", topology, "", path);
}

/* Members of an entry, in the order of a file. */
static const char *const flags[] = {"trans_a", "trans_b", "accumulate"};
static const char *const extents[] = {"M", "N", "K", "lda", "ldb", "ldc"};
enum { N_FLAGS = sizeof flags / sizeof flags[0], N_EXTENTS = sizeof extents / sizeof extents[0] };

static pl_status read_shape(const json_t *object, const char *where, pl_matmul_shape *shape)
{
    bool flag[N_FLAGS];
    int64_t extent[N_EXTENTS];
    pl_status status = PL_OK;

    for (int i = 0; i < N_FLAGS && status == PL_OK; i++)
        status = pl_json_boolean(object, where, flags[i], &flag[i]);
    for (int i = 0; i < N_EXTENTS && status == PL_OK; i++)
        status = pl_json_integer(object, where, extents[i], 1, most_extent, &extent[i]);
    if (status != PL_OK)
        return status;
    *shape = (pl_matmul_shape){.trans_a = flag[0] ? PL_TRANS : PL_NO_TRANS,
                               .trans_b = flag[1] ? PL_TRANS : PL_NO_TRANS,
                               .accumulate = flag[2],
                               .M = extent[0],
                               .N = extent[1],
                               .K = extent[2],
                               .lda = extent[3],
                               .ldb = extent[4],
                               .ldc = extent[5]};
    return PL_OK;
}

static pl_status read_entry(const json_t *object, const char *path, int64_t i, pl_trials *trials)
{
    const double least_s = 1e-12, most_s = 1e6;
    pl_matmul_tried tried;
    char where[PL_CACHE_PATH + 32];

    snprintf(where, sizeof where, "%s: trials[%lld]", path, (long long)i);
    if (!json_is_object(object))
        return pl_refuse(PL_BAD_INPUT, "%s is no object", where);
    pl_status status = read_shape(object, where, &tried.shape);
    if (status == PL_OK)
        status = pl_json_number(object, where, "own_s", least_s, most_s, &tried.own_s);
    if (status == PL_OK)
        status = pl_json_number(object, where, "openblas_s", least_s, most_s, &tried.openblas_s);
    if (status == PL_OK)
        status = pl_json_boolean(object, where, "openblas", &tried.openblas);
    if (status != PL_OK)
        return status;
    if (tried.openblas && !(tried.openblas_s < tried.own_s))
        return pl_refuse(PL_BAD_INPUT, "%s: openblas is chosen although it takes %g s, own %g s",
                         where, tried.openblas_s, tried.own_s);
    if (pl_trials_find(trials, &tried.shape) != NULL)
        return pl_refuse(PL_BAD_INPUT, "%s: this shape is there twice", where);
    pl_trials_put(trials, &tried);
    return PL_OK;
}

static pl_status read_all(const json_t *root, const char *path, pl_trials *trials)
{
    const char *library;
    json_t *list;
    pl_status status = pl_json_string(root, path, "openblas", &library);

    if (status == PL_OK && strcmp(library, pl_matmul_openblas_name()) != 0)
        status = pl_refuse(PL_BAD_INPUT, "%s: found with '%s', which is now '%s'", path, library,
                           pl_matmul_openblas_name());
    if (status == PL_OK)
        status = pl_json_array(root, path, "trials", &list);
    for (size_t i = 0; status == PL_OK && i < json_array_size(list); i++)
        status = read_entry(json_array_get(list, i), path, (int64_t)i, trials);
    return status;
}

pl_status pl_trials_read(const char *path, pl_trials *trials)
{
    json_t *root;

    *trials = (pl_trials){0};
    pl_status status = pl_json_load(path, &root);
    if (status != PL_OK)
        return status;
    status = read_all(root, path, trials);
    json_decref(root);
    if (status != PL_OK)
        pl_trials_free(trials);
    return status;
}

static json_t *entry_json(const pl_matmul_tried *tried)
{
    const pl_matmul_shape *s = &tried->shape;
    const bool flag[N_FLAGS] = {s->trans_a == PL_TRANS, s->trans_b == PL_TRANS, s->accumulate};
    const int64_t extent[N_EXTENTS] = {s->M, s->N, s->K, s->lda, s->ldb, s->ldc};
    json_t *entry = json_object();

    for (int i = 0; i < N_FLAGS; i++)
        json_object_set_new(entry, flags[i], json_boolean(flag[i]));
    for (int i = 0; i < N_EXTENTS; i++)
        json_object_set_new(entry, extents[i], json_integer(extent[i]));
    json_object_set_new(entry, "own_s", pl_json_real(tried->own_s));
    json_object_set_new(entry, "openblas_s", pl_json_real(tried->openblas_s));
    json_object_set_new(entry, "openblas", json_boolean(tried->openblas));
    return entry;
}

pl_status pl_trials_write(const char *path, const pl_trials *trials)
{
    json_t *root = json_object(), *list = json_array();

    json_object_set_new(root, "openblas", json_string(pl_matmul_openblas_name()));
    json_object_set_new(root, "trials", list);
    for (int64_t i = 0; i < trials->n; i++)
        PL_ASSERT(json_array_append_new(list, entry_json(&trials->entry[i])) == 0);
    const pl_status status = pl_json_save(path, root);
    json_decref(root);
    return status;
}
