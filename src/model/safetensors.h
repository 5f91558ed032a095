/* safetensors -- the container: 8 bytes of header length, a JSON header of names, dtypes, shapes
 * and byte ranges, then the data. Every claim of the header is checked against the file before
 * anything is believed or allocated. All functions are local.
 *
 * Source: the format's description, https://huggingface.co/docs/safetensors. */
#ifndef PURLIN_MODEL_SAFETENSORS_H
#define PURLIN_MODEL_SAFETENSORS_H

#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/model/file_bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum { PL_SAFETENSOR_DIMS = 8 };

typedef struct {
    const char *name;  /* lives in the file's arena */
    const char *dtype; /* as the format spells it: "F32" */
    int dtype_bytes;
    int n_dims;
    int64_t shape[PL_SAFETENSOR_DIMS];
    int64_t n_elements;
    int64_t begin_bytes; /* in the file */
    int64_t n_bytes;
} pl_safetensor;

typedef struct {
    pl_file_bytes file;
    int64_t n_tensors;
    pl_safetensor *tensors; /* in the order of their data */
    pl_arena *arena;
} pl_safetensors;

/** Open a file of tensors of any dtype. Refuses, naming the tensor or the missing bytes: a header
 * longer than the file, broken JSON, a name given twice, a shape whose product is not its byte
 * range, ranges that overlap, leave a gap, or do not end with the file. */
pl_status pl_safetensors_open(const char *path, pl_safetensors *st);

/** The tensor called `name`, or NULL. */
const pl_safetensor *pl_safetensors_find(const pl_safetensors *st, const char *name);

/** Whether pl_safetensors_read_f32() reads it: F32, F16 or BF16. */
bool pl_safetensor_is_float(const pl_safetensor *tensor);

/** out = n elements from element `begin` on, converted to f32 (exactly: F16 and BF16 are subsets).
 */
pl_status pl_safetensors_read_f32(const pl_safetensors *st, const pl_safetensor *tensor,
                                  int64_t begin, int64_t n, float *out);

void pl_safetensors_close(pl_safetensors *st);

#endif
