/* params -- the weights of a sharded program: made, loaded, saved, compared.
 *
 * One table says which tensor of a Hugging Face LLaMA file (model/hf_tensors.h) each weight is, and
 * whether the file stores it transposed; loading and saving both read it. */
#ifndef PURLIN_MODEL_PARAMS_H
#define PURLIN_MODEL_PARAMS_H

#include "src/mesh/comms.h"
#include "src/model/hf_tensors.h"
#include "src/model/model_config.h"
#include "src/model/weight_file.h"
#include "src/program/run.h"

/** Whether v is a weight as stored (not a gathered copy of one). */
bool pl_is_weight(const pl_value *v);

/** Where weight w is kept in full precision: its master, or w itself where it has none. */
int pl_params_master(const pl_program *p, int w);

/** The value that is tensor t of a Hugging Face file, or PL_NONE. */
int pl_params_find(const pl_program *p, const pl_hf_tensor *t);

/** Fill this rank's shards of all weights from (seed, name, global index): normal with deviation
 * 0.02, 0.02 / sqrt(2 L) for wo and w_down, which write to the residual stream; norms are 1. Any
 * mesh gives the same model. Masters get the same values, bf16 weights what those round to. Local. */
void pl_params_init(const pl_program *p, pl_run *run, pl_coords coords, uint64_t seed,
                    const pl_model_config *model);

/** Fill what the host fills once: positions and RoPE tables. Local. */
void pl_params_fill_constants(const pl_program *p, pl_run *run, pl_coords coords,
                              const pl_model_config *model);

/** Fill this rank's shards from a file, masters in f32 and bf16 weights rounded from that; each rank
 * reads only its own rows. Local. */
pl_status pl_params_load(const pl_program *p, pl_run *run, pl_coords coords,
                         const pl_model_config *model, pl_weight_file *file);

/** Write config.json and model.safetensors into `dir`, weights in f32 (masters where there are any).
 * Shards travel to rank 0 tensor by tensor;
 * equal weights give equal bytes under every strategy. n_layers and the program's stages say who
 * holds what. Collective over comms->world. */
pl_status pl_params_save(const pl_program *p, const pl_run *run, const pl_comms *comms,
                         const pl_model_config *model, const char *dir);

/** Gather weight v (or any value sharded like one) to rank 0 in the program's own memory order.
 * `full` (rank 0) has room for all its elements, in f32 (to which bf16 converts exactly). Collective
 * over comms->world. */
void pl_params_gather(const pl_program *p, const pl_run *run, const pl_comms *comms,
                      const pl_model_config *model, int v, float *full);

#endif
