/* strategy -- a strategy is a table of sharding rules; a composition is the union of tables.
 *
 * Rules are ordered: for each array, rule by rule, a dim that the array has takes the rule's axis
 * unless the array already uses it. So q[T, B, N, H] is split N_tp and the residual x[T, B, D] is
 * split T_tp by one table. */
#ifndef PURLIN_STRATEGIES_STRATEGY_H
#define PURLIN_STRATEGIES_STRATEGY_H

#include "src/model/model_config.h"
#include "src/program/program.h"

typedef struct {
    pl_class class;
    char dim;
    int zero; /* the rule applies from this ZeRO stage on (dp only; 0 elsewhere) */
} pl_rule;

typedef struct {
    const char *name; /* also its mesh axis */
    const char *what; /* one line for --help */
    const pl_rule *rules;
    int n_rules;
} pl_strategy;

extern const pl_strategy pl_dp, pl_fsdp, pl_tp, pl_pp;

/** A strategy spec as typed: "fsdp+tp", "dp:2+tp:4". Degrees left out are 0 until chosen. */
enum { PL_MAX_STRATEGIES = 4 };
typedef struct {
    int n;
    const pl_strategy *strategy[PL_MAX_STRATEGIES];
    int degree[PL_MAX_STRATEGIES];
    int zero; /* ZeRO stage over dp: 0, 1, 2 */
} pl_spec;

/** Parse a spec. Refuses unknown or repeated strategies (lists what there is), degrees < 1. */
pl_status pl_spec_parse(const char *text, pl_spec *spec);
/** "dp:2+tp:4" (degrees of 0 are left out). */
void pl_spec_print(const pl_spec *spec, char *text, size_t size);
/** Degree of a strategy in a spec; 1 where it is absent. */
int pl_spec_degree(const pl_spec *spec, const char *name);

/** Why the spec (all degrees set) does not suit the model and n_ranks ranks, or PL_OK: product unlike
 * n_ranks (says what fits), heads that tp does not fit (lists the degrees that do), more stages
 * than layers, batch below the data-parallel degree. */
pl_status pl_spec_suits(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                        int64_t n_ranks);
/** Whether pl_spec_suits() gives PL_OK, for those who try thousands and want no reasons. */
bool pl_spec_is_suitable(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                         int64_t n_ranks);
/** pl_spec_suits(), and whether the engine can run it: at most PL_MAX_STAGES stages. */
pl_status pl_spec_check(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                        int64_t n_ranks);

/** The mesh of a spec: axes pp, dp, fsdp, tp in that order, those of the spec; tp factored when it
 * is more than the key/value heads. */
pl_status pl_spec_mesh(const pl_spec *spec, const pl_model_config *model, pl_mesh *mesh);

/** Declare a sharding for every value of the program that has none yet, by class and dims. */
void pl_spec_shard(const pl_spec *spec, const pl_mesh *mesh, pl_program *program, int first_value);

/** The axes that split B, in order. */
void pl_spec_batch_split(const pl_spec *spec, const pl_mesh *mesh, pl_split *split);

#endif
