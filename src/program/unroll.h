/* unroll -- from the program of one microbatch to the program of one pipeline stage.
 *
 * Layers are dealt to stages in contiguous blocks; the embedding goes to the first, the head to the
 * last. A stage's program is its slots one after another, each the forward or backward ops of its
 * layers for one microbatch, with values of the microbatch cloned; then the update of what it
 * holds. What one stage makes and another reads becomes a send and a receive. The first write to a
 * gradient accumulator in a step stores, later ones add. With one stage this is gradient
 * accumulation.
 *
 * A tied embedding has two holders, the first and the last stage: before the update they exchange
 * their gradients and both add them up, so both copies stay equal; it is counted once in the norm.
 */
#ifndef PURLIN_PROGRAM_UNROLL_H
#define PURLIN_PROGRAM_UNROLL_H

#include "src/program/program.h"

enum { PL_MAX_STAGES = 64 }; /* sets of stages are 64-bit masks */

typedef struct {
    pl_phase phase; /* PL_FORWARD or PL_BACKWARD */
    int microbatch;
} pl_slot;

/** The stage that runs `layer` (PL_LAYER_EMBED: the first, PL_LAYER_HEAD: the last). */
int pl_stage_of_layer(int layer, int n_layers, int n_stages);

/** The program of `stage`. */
pl_program *pl_unroll(const pl_program *partitioned, int n_layers, int n_stages, int stage,
                      const pl_slot *slots, int n_slots);

#endif
