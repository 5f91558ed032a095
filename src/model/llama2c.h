/* llama2c -- version 0 of the weight files of llama2.c: seven int32 and then float32 arrays, with
 * nothing in the file to say which. All functions are local.
 *
 *   dim hidden_dim n_layers n_heads n_kv_heads vocab_size seq_len     (vocab_size < 0: untied)
 *   embed[V, D]  attention_norm[L, D]  wq[L, N H, D]  wk, wv[L, K H, D]  wo[L, D, N H]
 *   mlp_norm[L, D]  w1[L, F, D]  w2[L, D, F]  w3[L, F, D]  final_norm[D]
 *   RoPE's cosines and sines, T H/2 each (not used)  head[V, D] (untied only)
 *
 * RoPE pairs are rows 2 j and 2 j + 1 of a head here, rows j and j + H/2 in Hugging Face's order,
 * so the rows of wq and wk are read in another order than they are stored in. Source: the llama2.c
 * project's export of its first models (eps 1e-5, theta 10000). */
#ifndef PURLIN_MODEL_LLAMA2C_H
#define PURLIN_MODEL_LLAMA2C_H

#include "src/base/status.h"
#include "src/model/file_bytes.h"
#include "src/model/hf_tensors.h"
#include "src/model/model_config.h"

#include <stdint.h>

typedef struct {
    pl_file_bytes file;
    pl_model_config config;
    int64_t begin_bytes[PL_HF_HEAD + 1]; /* by pl_hf_kind: layer 0's tensor in the file */
} pl_llama2c;

/** Refuses files of other kinds and versions, impossible extents, and any size but the exact one,
 * with the bytes missing or left over and the array that is cut. */
pl_status pl_llama2c_open(const char *path, pl_llama2c *file);

/** A rectangle out[n_rows, n_cols] of a tensor in Hugging Face's row order. */
pl_status pl_llama2c_read(const pl_llama2c *file, const pl_hf_tensor *tensor, int64_t row_begin,
                          int64_t n_rows, int64_t col_begin, int64_t n_cols, float *out);

void pl_llama2c_close(pl_llama2c *file);

#endif
