/* build -- the one place where a training or evaluation step is put together: from a plan (what is
 * to be computed, by which strategy) to the program of one pipeline stage.
 *
 *   forward -> precision -> differentiate -> reduce, clip, AdamW      what is computed
 *   -> shard                                             where (the strategy's rules)
 *   -> partition -> fuse                                 with which communication
 *   -> unroll                                            microbatches, of one stage
 *   -> bucket -> overlap -> allocate                     when, and in which memory
 *
 * Training, prediction, planning and printing all read what comes out of here. */
#ifndef PURLIN_ROOFLINE_BUILD_H
#define PURLIN_ROOFLINE_BUILD_H

#include "src/model/optimizer.h"
#include "src/model/transformer.h"
#include "strategies/pipeline.h"
#include "strategies/strategy.h"

typedef struct {
    pl_spec spec; /* all degrees set, but for pl_choose() */
    pl_model_config model;
    pl_adamw_config adamw;
    int64_t batch;       /* sequences in a step, over all ranks */
    int64_t micro_batch; /* sequences per microbatch and data-parallel rank; 0: its whole
                          * share, with pp cut into two microbatches a stage */
    int64_t seq;         /* T */
    pl_pipeline_kind pipeline;
    pl_dtype dtype;    /* of activations and working weights: PL_F32 or PL_BF16 */
    pl_fabric fabric;  /* what communication is laid out for; zeros: messages on one host */
    bool forward_only; /* evaluation: forward pass and PL_NAME_TOTAL_LOSS */
    bool keeps_additions; /* of products to the residual stream apart, as tp does */
} pl_plan;

/** How the plan's global batch is cut over `mesh`. Local. */
pl_batch pl_plan_batch(const pl_plan *plan, const pl_mesh *mesh);

/** The program of `stage` (0 where there is no pp), ready to be run, predicted or printed. `mesh`
 * comes from pl_spec_mesh(), must outlive the program, and the spec must have passed
 * pl_spec_check(). The same on all ranks of the stage. Free with pl_program_destroy(). Local. */
pl_program *pl_build(const pl_plan *plan, const pl_mesh *mesh, int stage);

/** The programs of all stages, into stages[degree of pp]. */
void pl_build_stages(const pl_plan *plan, const pl_mesh *mesh, pl_program **stages);

/** pl_build() in two parts: one microbatch of all stages with its communication, as far as `fuse`,
 * and the program of a stage from that. */
pl_program *pl_build_whole(const pl_plan *plan, const pl_mesh *mesh);
pl_program *pl_build_stage(const pl_plan *plan, const pl_program *whole, int stage);

#endif
