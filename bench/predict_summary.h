/* predict_summary -- what many runs of bench/predict_bench come to, and whether predictions reach
 * their targets. */
#ifndef PURLIN_BENCH_PREDICT_SUMMARY_H
#define PURLIN_BENCH_PREDICT_SUMMARY_H

#include "bench/predict_records.h"

#include <stdio.h>

/** Print the median error of steps by case, single runs beside it; the ops that make up 90% of each
 * step with their errors; exposed communication; the speed of the machine; how often its cores had
 * moved since calibration (roofline/line.h), and the errors of the other runs. Then the verdict by
 * the place of ranks: true when every target is reached. A core each: each case's step within 10%,
 * all runs' median within 5%, each of those ops within 15%. Cores shared: steps, and kernels
 * among those ops, within 20%. Several hosts: steps and ops within 15%. Local. */
bool records_report(FILE *out, const records *list);

#endif
