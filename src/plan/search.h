/* search -- the strategies that a machine can run a model with, and the fastest of them.
 *
 * Every way to write the chips as pp x dp x fsdp x tp is laid out on the machine's network
 * (plan/place.h), bounded from below, and, the most promising first, estimated from the program
 * (roofline/estimate.h) with the least ZeRO stage, the largest microbatch and the least
 * rematerialisation that fit in memory. What cannot beat the best few is not looked at. */
#ifndef PURLIN_PLAN_SEARCH_H
#define PURLIN_PLAN_SEARCH_H

#include "src/machine/hardware.h"
#include "src/plan/place.h"
#include "src/roofline/estimate.h"

enum { PL_AUTO = -1, PL_MAX_PLANS = 16, PL_SPEC_TEXT = 96 };

typedef struct {
    pl_model_config model;
    pl_hardware hw;
    pl_machine machine; /* of pl_hardware_machine() */
    double peak_flops_per_s;
    pl_dtype dtype; /* of weights and activations */
    int64_t chips;
    int64_t sequences, seq; /* in a step */
    pl_spec fixed;          /* degrees that are given, other strategies are 1; n 0: all are open */
    int cp;              /* given with `fixed`, whose fsdp (or dp) it is then part of; 0: chosen */
    const char *typed;   /* `fixed` as the user wrote it */
    int zero;            /* PL_AUTO, or 0 to 2 */
    int64_t micro_batch; /* 0: chosen */
    int remat;           /* PL_AUTO, or a pl_remat */
    pl_pipeline_kind pipeline;
    int effort;  /* programs to price at the most, though as many as it takes to find a plan */
    int n_plans; /* how many of the best are wanted, at most PL_MAX_PLANS */
} pl_search_options;

typedef struct {
    pl_plan plan; /* its batch and seq as the program has them: see cp */
    int cp; /* context parallelism by formula: every sequence in so many pieces, and so many times
             * fewer ranks of plan's fsdp (or dp) hold different sequences */
    pl_additions more;
    pl_mesh mesh;
    pl_wires wires[PL_MAX_AXES]; /* [mesh axes] */
    /* No step of it is shorter than bound_s, which is made of: kernels, transfers that nothing
     * hides, gradients over dp, and weights over fsdp, once. */
    double bound_s, math_s, critical_s, reduce_s, gather_s;
    bool is_done;
    pl_estimate estimate;
    double mfu;
} pl_candidate;

typedef struct {
    int n_meshes;    /* ways to write the chips */
    int n_refused;   /* heads, layers or batch do not allow them */
    int n_unplaced;  /* the network does not have them */
    int n_too_large; /* for memory, whatever was tried */
    int n_bounded;   /* were not looked at: */
    bool is_proven;  /* because none of them can be among the best; else effort ran out */
    int n_priced;
    int n; /* plans, the fastest first */
    pl_candidate best[PL_MAX_PLANS];
    bool has_smallest; /* of those that are too large: */
    char smallest[PL_SPEC_TEXT];
    double smallest_bytes;
} pl_search_result;

/** Search. Refuses what no mesh can do: given degrees whose product is not the chips, a slice that
 * does not exist, memory that nothing fits in (says by how much and what would). Deterministic.
 * Local. */
pl_status pl_search(const pl_search_options *options, pl_search_result *result);

/** "pp:4+fsdp:8+cp:2+tp:8": the candidate's degrees, cp taken out of fsdp. */
void pl_candidate_print(const pl_candidate *c, char *text, size_t size);

/** Bytes a chip needs at the least: weights, gradients, moments and masters, evenly sharded. */
double pl_persistent_bytes(const pl_search_options *o, const pl_spec *spec);

#endif
