#include "config.h"

#include "src/model/params.h"

#include "kernels/rope.h"
#include "src/base/agree.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/rng.h"
#include "src/base/bf16.h"
#include "src/model/optimizer.h"
#include "src/model/transformer.h"
#include "src/model/weight_writer.h"
#include "src/mesh/exchange.h"
#include "src/program/unroll.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Weights of the program and their tensors in a Hugging Face file, [out_features, in_features]
 * there. `transposed`: the program keeps in_features (D) outermost. */
typedef struct {
    const char *ours; /* without the layer */
    pl_hf_kind theirs;
    bool in_layer, transposed;
} weight_row;

static const weight_row weight_table[] = {
    {"embed", PL_HF_EMBED, false, false},
    {"attn.norm", PL_HF_ATTENTION_NORM, true, false},
    {"attn.wq", PL_HF_Q, true, true},
    {"attn.wk", PL_HF_K, true, true},
    {"attn.wv", PL_HF_V, true, true},
    {"attn.wo", PL_HF_O, true, false},
    {"ffn.norm", PL_HF_MLP_NORM, true, false},
    {"ffn.w_gate", PL_HF_GATE, true, true},
    {"ffn.w_up", PL_HF_UP, true, true},
    {"ffn.w_down", PL_HF_DOWN, true, false},
    {"final.norm", PL_HF_FINAL_NORM, false, false},
    {"head", PL_HF_HEAD, false, false},
};

enum { N_ROWS = sizeof weight_table / sizeof *weight_table };

static const weight_row *row_of_kind(pl_hf_kind kind)
{
    for (int i = 0; i < N_ROWS; i++)
        if (weight_table[i].theirs == kind)
            return &weight_table[i];
    PL_PANIC("no weight for tensor kind %d", (int)kind);
}

int pl_params_find(const pl_program *p, const pl_hf_tensor *t)
{
    const weight_row *row = row_of_kind(t->kind);
    char name[96];

    if (row->in_layer)
        snprintf(name, sizeof name, "layers.%d.%s", t->layer, row->ours);
    else
        snprintf(name, sizeof name, "%s", row->ours);
    return pl_value_find(p, name);
}

bool pl_is_weight(const pl_value *v)
{
    return v->class == PL_WEIGHT && v->persists;
}

int pl_params_master(const pl_program *p, int w)
{
    char name[128];

    snprintf(name, sizeof name, "%s%s", PL_MASTER_PREFIX, p->values[w].name);
    const int master = pl_value_find(p, name);
    return master != PL_NONE ? master : w;
}

/* A shard as a rectangle of the weight seen as a matrix: rows are the outermost dim, columns the
 * others flattened (only the first of them is ever split, so columns are one range). */
typedef struct {
    int64_t row_begin, n_rows, col_begin, n_cols;
} rectangle;

static rectangle shard_rectangle(const pl_program *p, int v, pl_coords coords)
{
    const pl_extents e = pl_local_extents(p, v, coords);
    rectangle r = {.row_begin = e.begin[0], .n_rows = e.n[0], .n_cols = 1};
    int64_t inner = 1;

    for (int d = 2; d < e.n_dims; d++)
        inner *= e.n[d];
    if (e.n_dims > 1) {
        r.col_begin = e.begin[1] * inner;
        r.n_cols = e.n[1] * inner;
    }
    return r;
}

static int64_t columns(const pl_value *v)
{
    int64_t n = 1;

    for (int d = 1; d < v->shape.n_dims; d++)
        n *= v->shape.extent[d];
    return n;
}

static double deviation_of(const char *name, const pl_model_config *model)
{
    const bool writes_residual = strstr(name, "attn.wo") != NULL || strstr(name, "w_down") != NULL;

    return writes_residual ? 0.02 / sqrt(2.0 * (double)model->n_layers) : 0.02;
}

/* This rank's shard of v, which is weight w or its master. */
static void init_shard(const pl_program *p, int w, int v, pl_coords coords, uint64_t seed,
                       const pl_model_config *model, float *shard)
{
    const pl_value *value = &p->values[v];
    const rectangle r = shard_rectangle(p, v, coords);
    const int64_t n_columns = columns(value);
    const uint64_t stream = pl_rng_stream(p->values[w].name);
    const double deviation = deviation_of(p->values[w].name, model);

    for (int64_t i = 0; i < r.n_rows; i++)
        for (int64_t j = 0; j < r.n_cols; j++) {
            const int64_t index = (r.row_begin + i) * n_columns + r.col_begin + j;

            shard[i * r.n_cols + j] =
                value->shape.n_dims == 1
                    ? 1.0f
                    : (float)(deviation * pl_rng_normal(seed, stream, (uint64_t)index));
        }
}

/* Where to put this rank's shard of v in f32: where it lies, or, for a bf16 one, in *staging. */
static float *begin_shard(const pl_program *p, int v, pl_coords coords, void *data, float **staging)
{
    *staging = NULL;
    if (p->values[v].dtype == PL_BF16)
        *staging = pl_alloc((size_t)pl_local_elements(p, v, coords) * sizeof **staging);
    return *staging != NULL ? *staging : data;
}

/* Round *staging into place and free it. */
static void end_shard(const pl_program *p, int v, pl_coords coords, float *staging, pl_bf16 *data)
{
    const int64_t n = staging != NULL ? pl_local_elements(p, v, coords) : 0;

    for (int64_t i = 0; i < n; i++)
        data[i] = pl_bf16_of_f32(staging[i]);
    pl_free(staging);
}

void pl_params_init(const pl_program *p, pl_run *run, pl_coords coords, uint64_t seed,
                    const pl_model_config *model)
{
    for (int w = 0; w < p->n_values; w++) {
        const int master = pl_is_weight(&p->values[w]) ? pl_params_master(p, w) : w;
        float *staging = NULL;

        if (!pl_is_weight(&p->values[w]) || pl_run_data(run, w) == NULL)
            continue;
        float *shard = begin_shard(p, w, coords, pl_run_data(run, w), &staging);
        init_shard(p, w, w, coords, seed, model, shard);
        end_shard(p, w, coords, staging, pl_run_data(run, w));
        if (master != w)
            init_shard(p, w, master, coords, seed, model, pl_run_data(run, master));
    }
}

/* to[c, r] = from[r, c]. */
static void transpose(int64_t n_rows, int64_t n_cols, const float *from, float *to)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t c = 0; c < n_cols; c++)
            to[c * n_rows + r] = from[r * n_cols + c];
}

static pl_status load_shard(const pl_program *p, int v, const pl_hf_tensor *t, pl_coords coords,
                            pl_weight_file *file, float *shard)
{
    const rectangle r = shard_rectangle(p, v, coords);

    if (p->values[v].shape.n_dims == 1) /* a file's vector is one row */
        return pl_weight_file_read(file, t->name, 0, 1, r.row_begin, r.n_rows, shard);
    if (!row_of_kind(t->kind)->transposed)
        return pl_weight_file_read(file, t->name, r.row_begin, r.n_rows, r.col_begin, r.n_cols,
                                   shard);
    float *theirs = pl_alloc((size_t)(r.n_rows * r.n_cols) * sizeof *theirs);
    const pl_status status =
        pl_weight_file_read(file, t->name, r.col_begin, r.n_cols, r.row_begin, r.n_rows, theirs);
    transpose(r.n_cols, r.n_rows, theirs, shard);
    pl_free(theirs);
    return status;
}

pl_status pl_params_load(const pl_program *p, pl_run *run, pl_coords coords,
                         const pl_model_config *model, pl_weight_file *file)
{
    pl_status status = PL_OK;

    for (int64_t i = 0; i < pl_hf_tensor_count(model) && status == PL_OK; i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(model, i);
        const int w = pl_params_find(p, &t);
        float *staging = NULL;

        PL_ASSERT(w != PL_NONE);
        if (pl_run_data(run, w) == NULL)
            continue;
        const int master = pl_params_master(p, w);
        float *shard = begin_shard(p, w, coords, pl_run_data(run, w), &staging);
        status = load_shard(p, w, &t, coords, file, shard);
        end_shard(p, w, coords, staging, pl_run_data(run, w));
        if (status == PL_OK && master != w)
            status = load_shard(p, master, &t, coords, file, pl_run_data(run, master));
    }
    return status;
}

/* Whether the rank at `coords` is the one that gives its shard of v: it holds it, and of the ranks
 * that hold the same shard it is the first. */
static bool gives_shard(const pl_program *p, int v, pl_coords coords, const pl_model_config *model)
{
    const pl_value *value = &p->values[v];
    const pl_axes split = pl_sharding_axes(&value->sharding, value->shape.n_dims);
    const int pp = pl_mesh_axis(p->mesh, "pp");

    for (int a = 0; a < p->mesh->n_axes; a++)
        if (a != pp && !((split >> a) & 1) && coords.at[a] != 0)
            return false;
    return pp < 0 || coords.at[pp] == pl_stage_of_layer(value->layer, (int)model->n_layers,
                                                        p->mesh->axes[pp].size);
}

/* row[n] = elements from `begin` on of a shard, in f32. */
static void copy_row(pl_dtype dtype, const void *shard, int64_t begin, int64_t n, float *row)
{
    const pl_bf16 *halves = shard;

    if (dtype != PL_BF16)
        memcpy(row, (const float *)shard + begin, (size_t)n * sizeof *row);
    else
        for (int64_t i = 0; i < n; i++)
            row[i] = pl_bf16_to_f32(halves[begin + i]);
}

void pl_params_gather(const pl_program *p, const pl_run *run, const pl_comms *comms,
                      const pl_model_config *model, int v, float *full)
{
    const int64_t n_columns = columns(&p->values[v]);
    void *staging = NULL;

    if (comms->rank == 0)
        staging = pl_alloc(pl_value_bytes(p, v));
    for (int rank = 0; rank < (int)pl_mesh_size(p->mesh); rank++) {
        const pl_coords coords = pl_mesh_coords(p->mesh, rank);
        const rectangle r = shard_rectangle(p, v, coords);
        const size_t bytes = (size_t)(r.n_rows * r.n_cols) * pl_value_element_bytes(p, v);

        if (!gives_shard(p, v, coords, model))
            continue;
        if (rank != 0 && comms->rank == rank)
            pl_bytes_send(comms->world, 0, pl_run_data(run, v), bytes);
        if (comms->rank != 0)
            continue;
        const void *shard = rank == 0 ? pl_run_data(run, v) : staging;
        if (rank != 0)
            pl_bytes_recv(comms->world, rank, staging, bytes);
        for (int64_t i = 0; i < r.n_rows; i++)
            copy_row(p->values[v].dtype, shard, i * r.n_cols, r.n_cols,
                     full + (r.row_begin + i) * n_columns + r.col_begin);
    }
    pl_free(staging);
}

/* Gather the weight that is tensor t and append it to the file (rank 0) in the file's layout. */
static pl_status save_tensor(const pl_program *p, const pl_run *run, const pl_comms *comms,
                             const pl_model_config *model, const pl_hf_tensor *t,
                             pl_weight_writer *writer)
{
    const int v = pl_params_find(p, t);
    const int64_t n_rows = p->values[v].shape.extent[0], n_cols = columns(&p->values[v]);
    const size_t bytes = (size_t)(n_rows * n_cols) * sizeof(float);
    float *full = NULL, *theirs = NULL;
    pl_status status = PL_OK;

    if (comms->rank == 0)
        full = pl_alloc(bytes);
    pl_params_gather(p, run, comms, model, pl_params_master(p, v), full);
    if (comms->rank == 0 && row_of_kind(t->kind)->transposed) {
        theirs = pl_alloc(bytes);
        transpose(n_rows, n_cols, full, theirs);
    }
    if (comms->rank == 0)
        status = pl_weight_writer_append(writer, t->name, theirs != NULL ? theirs : full,
                                         n_rows * n_cols);
    pl_free(full);
    pl_free(theirs);
    return pl_agree(comms->world, status);
}

pl_status pl_params_save(const pl_program *p, const pl_run *run, const pl_comms *comms,
                         const pl_model_config *model, const char *dir)
{
    pl_weight_writer *writer = NULL;
    pl_status status = PL_OK;

    if (comms->rank == 0)
        status = pl_weight_writer_open(dir, model, &writer);
    status = pl_agree(comms->world, status);
    for (int64_t i = 0; status == PL_OK && i < pl_hf_tensor_count(model); i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(model, i);

        status = save_tensor(p, run, comms, model, &t, writer);
    }
    /* `status` has been agreed on and told; closing after a refusal only cleans up. */
    pl_status closed = PL_OK;
    if (comms->rank == 0 && writer != NULL)
        closed = pl_weight_writer_close(writer, status == PL_OK);
    closed = pl_agree(comms->world, closed);
    return status == PL_OK ? closed : status;
}

void pl_params_fill_constants(const pl_program *p, pl_run *run, pl_coords coords,
                              const pl_model_config *model)
{
    const int cosine = pl_value_find(p, PL_NAME_COSINE), sine = pl_value_find(p, PL_NAME_SINE);

    if (pl_run_data(run, cosine) != NULL)
        pl_rope_table(p->values[cosine].shape.extent[0], model->head_dim, model->rope_theta,
                      pl_run_data(run, cosine), pl_run_data(run, sine));
    for (int v = 0; v < p->n_values; v++) {
        int32_t *positions = pl_run_data(run, v);

        if (strcmp(p->values[v].name, PL_NAME_POSITIONS) != 0 || positions == NULL)
            continue;
        const pl_extents e = pl_local_extents(p, v, coords);
        for (int64_t t = 0; t < e.n[0]; t++)
            for (int64_t b = 0; b < e.n[1]; b++)
                positions[t * e.n[1] + b] = (int32_t)(e.begin[0] + t);
    }
}
