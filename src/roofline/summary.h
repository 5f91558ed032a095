/* summary -- a machine's figures for people (a table with the roofline's knees) and for programs
 * (JSON lines). */
#ifndef PURLIN_ROOFLINE_SUMMARY_H
#define PURLIN_ROOFLINE_SUMMARY_H

#include "src/machine/machine.h"

#include <stdio.h>

/** A fit whose samples lie further from it than this, in the median, cannot be trusted. */
#define PL_RESIDUAL_LIMIT 0.15

/** Figures with their spread, knees (FLOPs per byte above which matrix products, not bytes, take the
 * time: C / W), and kernels with their fits. At most 100 columns. Local. */
void pl_summary_print(FILE *out, const pl_machine *machine);

/** One object a figure that is known: figure, value, unit, spread (0: not known), trusted; of a curve
 * also size and size_unit, of a link its name; of a kernel's term residual and samples for spread. Local. */
void pl_summary_json(FILE *out, const pl_machine *machine);

#endif
