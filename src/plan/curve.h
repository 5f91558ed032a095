/* curve -- the best plan over a range of batches or numbers of chips. */
#ifndef PURLIN_PLAN_CURVE_H
#define PURLIN_PLAN_CURVE_H

#include "src/base/json.h"
#include "src/plan/search_options.h"

enum { PL_CURVE_POINTS = 24 };

typedef struct {
    double x; /* tokens a step, or chips */
    char strategy[PL_SPEC_TEXT];
    double step_s, math_s, comm_s, tokens_per_s, mfu; /* comm_s: all axes, one after the other */
    bool comm_bound;                                  /* comm_s > math_s */
} pl_curve_point;

typedef struct {
    pl_vary vary;
    int n; /* points that have a plan, x increasing */
    pl_curve_point point[PL_CURVE_POINTS];
    double crossover; /* x at which T_comms = T_math, between two points; 0: no such place */
} pl_plan_curve;

/** Search at the command's batch or chips times 1/16, 1/8, ... 16. Local. */
void pl_curve_of(const pl_search_command *c, pl_plan_curve *curve);

void pl_curve_print(const pl_plan_curve *curve);
json_t *pl_curve_json(const pl_plan_curve *curve);

/** Tokens a second and T_math, T_comms over x, both axes logarithmic, as SVG. */
pl_status pl_curve_plot(const pl_search_command *c, const pl_plan_curve *curve, const char *path);

#endif
