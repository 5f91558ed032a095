/* weight_file -- a model's weights in a file, whichever format it has: a llama2.c .bin, or a
 * Hugging Face model.safetensors with its config.json beside it. Names, shapes and row order are
 * Hugging Face's (src/model/hf_tensors.h) in both. All functions are local: each rank opens the
 * file and reads its own shards. */
#ifndef PURLIN_MODEL_WEIGHT_FILE_H
#define PURLIN_MODEL_WEIGHT_FILE_H

#include "src/base/status.h"
#include "src/model/model_config.h"
#include "src/model/weight_writer.h" /* the other direction */

#include <stdint.h>

typedef struct pl_weight_file pl_weight_file;

/** Open `path`: a folder that holds a model.safetensors, a safetensors file (by its name or its
 * first bytes), else a llama2.c file. Everything is checked here, before any weight is read: sizes,
 * shapes against the configuration, missing tensors. Tensors that the model has no use for are
 * warned of and skipped. A tied model may store its embedding under either name or both (then
 * model.embed_tokens.weight counts). */
pl_status pl_weight_file_open(const char *path, pl_model_config *config, pl_weight_file **file);

/** out[n_rows, n_cols] = rows row_begin.. and columns col_begin.. of the tensor that Hugging Face
 * calls `name`; a tensor of one dim is one row. Costs one read of the file when whole rows are
 * asked for (and one a row for wq and wk of llama2.c files), else one a row. */
pl_status pl_weight_file_read(const pl_weight_file *file, const char *name, int64_t row_begin,
                              int64_t n_rows, int64_t col_begin, int64_t n_cols, float *out);

void pl_weight_file_close(pl_weight_file *file); /* NULL is allowed */

#endif
