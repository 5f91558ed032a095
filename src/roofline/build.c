#include "config.h"

#include "src/roofline/build.h"

#include "src/program/allocate.h"
#include "src/program/bucket.h"
#include "src/program/differentiate.h"
#include "src/program/fuse.h"
#include "src/program/overlap.h"
#include "src/program/partition.h"
#include "src/program/precision.h"
#include "src/program/unroll.h"

/* A rank's whole share; with a pipeline, so that there are two microbatches a stage. */
static int64_t default_micro_batch(const pl_spec *spec, int64_t share)
{
    const int64_t stages = pl_spec_degree(spec, "pp"), parts = stages > 1 ? 2 * stages : 1;

    return (share + parts - 1) / parts;
}

pl_batch pl_plan_batch(const pl_plan *plan, const pl_mesh *mesh)
{
    pl_batch batch = {
        .n_sequences = plan->batch, .micro_batch = plan->micro_batch, .seq = plan->seq};

    pl_spec_batch_split(&plan->spec, mesh, &batch.split);
    const int64_t share = pl_split_largest(mesh, &batch.split, batch.n_sequences);
    if (batch.micro_batch <= 0)
        batch.micro_batch = default_micro_batch(&plan->spec, share);
    if (batch.micro_batch > share)
        batch.micro_batch = share;
    if (batch.micro_batch == 0) /* a rank without sequences runs an empty one */
        batch.micro_batch = 1;
    batch.n_microbatches = pl_batch_microbatches(mesh, &batch);
    return batch;
}

/* The backward pass and the update. An op that sums by sharding needs to know it: what has been
 * made is sharded before the norm is written. */
static void add_training(const pl_plan *plan, pl_program *p, int n_forward)
{
    int *accumulator = pl_alloc((size_t)n_forward * sizeof *accumulator);
    int *reduced = pl_alloc((size_t)n_forward * sizeof *reduced);

    pl_differentiate(p, accumulator);
    pl_optimizer_total_loss(p);
    pl_optimizer_reduce(p, accumulator, n_forward, reduced);
    pl_spec_shard(&plan->spec, p->mesh, p, n_forward);
    const int n_reduced = p->n_values;
    pl_optimizer_update(p, &plan->adamw, reduced, n_forward);
    pl_spec_shard(&plan->spec, p->mesh, p, n_reduced);
    pl_free(accumulator);
    pl_free(reduced);
}

/* One microbatch, whole arrays, shardings declared, no communication. */
static pl_program *build_logical(const pl_plan *plan, const pl_mesh *mesh)
{
    const pl_batch batch = pl_plan_batch(plan, mesh);
    pl_program *p = pl_program_create(mesh, &batch);
    const int n_forward = pl_transformer_forward(p, &plan->model);

    pl_set_precision(p, plan->dtype);
    pl_spec_shard(&plan->spec, mesh, p, 0);
    if (plan->forward_only)
        pl_optimizer_total_loss(p);
    else
        add_training(plan, p, n_forward);
    return p;
}

pl_program *pl_build_whole(const pl_plan *plan, const pl_mesh *mesh)
{
    pl_program *logical = build_logical(plan, mesh);
    pl_program *whole = pl_partition(logical);

    pl_fuse_accumulations(whole);
    if (!plan->keeps_additions)
        pl_fuse_additions(whole);
    pl_program_destroy(logical);
    return whole;
}

pl_program *pl_build_stage(const pl_plan *plan, const pl_program *whole, int stage)
{
    const int n_stages = pl_spec_degree(&plan->spec, "pp"), m = whole->batch.n_microbatches;
    pl_slot *slots = pl_alloc(2 * (size_t)m * sizeof *slots);
    const int n_slots =
        pl_pipeline_slots(plan->pipeline, n_stages, m, stage, plan->forward_only, slots);
    pl_program *p = pl_unroll(whole, plan->model.n_layers, n_stages, stage, slots, n_slots);

    p->fabric = plan->fabric;
    pl_bucket(p);
    pl_overlap(p);
    pl_allocate(p);
    pl_free(slots);
    return p;
}

pl_program *pl_build(const pl_plan *plan, const pl_mesh *mesh, int stage)
{
    pl_program *whole = pl_build_whole(plan, mesh);
    pl_program *p = pl_build_stage(plan, whole, stage);

    pl_program_destroy(whole);
    return p;
}

void pl_build_stages(const pl_plan *plan, const pl_mesh *mesh, pl_program **stages)
{
    pl_program *whole = pl_build_whole(plan, mesh);

    for (int s = 0; s < pl_spec_degree(&plan->spec, "pp"); s++)
        stages[s] = pl_build_stage(plan, whole, s);
    pl_program_destroy(whole);
}
