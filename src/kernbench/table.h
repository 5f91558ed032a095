/* table -- what ./kernbench prints: the machine, rows as they are measured, means at the end. */
#ifndef PURLIN_KERNBENCH_TABLE_H
#define PURLIN_KERNBENCH_TABLE_H

#include "src/kernbench/record.h"

/** The machine and its peaks, peers, method. Local, as is all here. */
void pl_kernbench_print_banner(const pl_topology *topology, const pl_stand *stand, int cpu);
/** The heading of a group's rows. */
void pl_kernbench_print_heading(const pl_stand *stand, pl_case_group group);
void pl_kernbench_print_row(const pl_stand *stand, const pl_point *point);
/** Geometric means by group and type; the same as records. */
pl_status pl_kernbench_print_summary(const pl_stand *stand, pl_records *records);

#endif
