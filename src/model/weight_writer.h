/* weight_writer -- saves a model as Hugging Face does: config.json and model.safetensors in a
 * folder. One rank writes, tensor by tensor; the files' names appear only when all of it is on the
 * disk, so a save cut short leaves the one before it as it was. Equal weights give equal bytes. All
 * functions are local. */
#ifndef PURLIN_MODEL_WEIGHT_WRITER_H
#define PURLIN_MODEL_WEIGHT_WRITER_H

#include "src/base/status.h"
#include "src/model/model_config.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct pl_weight_writer pl_weight_writer;

/** Make the folder, parents too, and see that files can be made in it: to be asked before training
 * starts. */
pl_status pl_weight_writer_check(const char *folder);

/** Begin a save (makes the folder as pl_weight_writer_check() does) under a name of its own. Takes
 * SIGXFSZ out of action for the process: a file-size limit then is a refused write. */
pl_status pl_weight_writer_open(const char *folder, const pl_model_config *config,
                                pl_weight_writer **writer);

/** The next tensor of pl_hf_tensor_at()'s order, whole, n elements in Hugging Face's layout; `name`
 * is checked against that order. */
pl_status pl_weight_writer_append(pl_weight_writer *writer, const char *name, const float *data,
                                  int64_t n);

/** End the save and release the writer. `complete`: all tensors came; the files get their names
 * once they are on the disk. Otherwise, or when that fails, what was written is removed and the
 * save before it stays. */
pl_status pl_weight_writer_close(pl_weight_writer *writer, bool complete);

#endif
