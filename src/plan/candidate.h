/* candidate -- one way to train a model on a machine, and what is asked of the search.
 *
 * Programs know pp, dp, fsdp and tp. Two more axes are formulas (plan/beyond.h): cp cuts every
 * sequence in pieces, ep deals out experts. Both are taken out of the axis that holds different
 * sequences, fsdp, or dp where there is no fsdp: "fsdp:4+ep:8" is a program of fsdp:32. */
#ifndef PURLIN_PLAN_CANDIDATE_H
#define PURLIN_PLAN_CANDIDATE_H

#include "src/machine/hardware.h"
#include "src/model/architecture.h"
#include "src/plan/place.h"
#include "src/roofline/estimate.h"

enum { PL_AUTO = -1, PL_SPEC_TEXT = 96 };

/* Kinds of degree that programs know, outermost first. */
enum { PL_KIND_PP, PL_KIND_DP, PL_KIND_FSDP, PL_KIND_TP, PL_N_DEGREES };
extern const char *const pl_degree_names[PL_N_DEGREES];

typedef struct {
    pl_model_config model;        /* that programs are built of */
    pl_architecture architecture; /* what it stands for; n_layers 0: the model itself */
    pl_hardware hw;
    pl_machine machine; /* of pl_hardware_machine() */
    double peak_flops_per_s;
    pl_dtype dtype; /* of weights and activations */
    int64_t chips;
    int64_t sequences, seq; /* in a step */
    pl_spec fixed;          /* degrees that are given, other strategies are 1; n 0: all are open */
    int cp, ep;             /* given with `fixed`, whose fsdp (or dp) they are part of; 0: chosen */
    const char *typed;      /* `fixed` as the user wrote it */
    int zero;               /* PL_AUTO, or 0 to 2 */
    int64_t micro_batch;    /* 0: chosen */
    int remat;              /* PL_AUTO, or a pl_remat */
    pl_pipeline_kind pipeline;
    int interleave; /* chunks of layers a stage, by formula: PL_AUTO: chosen; 0: one */
    int effort;     /* programs to price at the most, though as many as it takes to find a plan */
    int n_plans;    /* how many of the best are wanted, at most PL_MAX_PLANS */
} pl_search_options;

typedef struct {
    pl_plan plan; /* its batch and seq as the program has them: see cp */
    int cp; /* every sequence in so many pieces: so many times fewer ranks hold different ones */
    int ep; /* experts over so many ranks of that axis */
    pl_additions more;
    pl_mesh mesh;
    pl_wires wires[PL_MAX_AXES]; /* [mesh axes] */
    double bound_s;              /* no step of it is shorter (plan/bound.h) */
    pl_estimate estimate;
    double mfu;
} pl_candidate;

/** A candidate with these degrees, its program as yet without a microbatch that fits. Local, as is
 * everything here. */
pl_candidate pl_candidate_of(const pl_search_options *o, const pl_spec *spec, int cp, int ep);

/** "fsdp", or "dp" where there is no fsdp: the axis that cp and ep are part of. */
const char *pl_candidate_shared_axis(const pl_spec *spec);

/** "pp:4+fsdp:8+cp:2+tp:8": the candidate's degrees, cp and ep taken out of fsdp. */
void pl_candidate_print(const pl_candidate *c, char *text, size_t size);

/** The opposite: degrees of --strategy into o->fixed, o->cp, o->ep. `text` is kept. */
pl_status pl_candidate_parse(const char *text, pl_search_options *o);

/** The most chunks of layers that a stage may have: one a layer, at most eight; 1 where there is no
 * pipeline, or another schedule than 1F1B. */
int pl_candidate_chunks(const pl_candidate *c);

/** FLOPs that a step asks for, as MFU counts them. */
double pl_search_flops(const pl_search_options *o);

/** The architecture that is planned for. */
void pl_search_architecture(const pl_search_options *o, pl_architecture *a);

#endif
