/* plot -- the roofline: what memory and peak allow over intensity, and where kernels are. */
#ifndef PURLIN_KERNBENCH_PLOT_H
#define PURLIN_KERNBENCH_PLOT_H

#include "src/kernbench/record.h"

/** An SVG of FLOP/s over FLOPs a byte, both logarithmic: a slope for each level of memory (read),
 * a ceiling for each type of multiply-add that was measured, a dot for each point that counts
 * FLOPs. Local. */
pl_status pl_kernbench_plot(const char *path, const pl_topology *topology, const pl_peaks *peaks,
                            const pl_records *records);

#endif
