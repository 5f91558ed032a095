/* matmul_single -- one row of c in f32: no tile, since no word of b is used twice. */
#ifndef PURLIN_KERNELS_MATMUL_SINGLE_H
#define PURLIN_KERNELS_MATMUL_SINGLE_H

#include "kernels/matmul_nest.h"

/** Whether pl_matmul_single() takes the job: one row, f32, whole operands, at least a few vectors
 * of columns; b stored along K only with job->dots. */
bool pl_matmul_is_single(const pl_matmul_job *job);

/** pl_matmul_nest() for such a job. Order: that of the nest; with b stored along K and job->dots,
 * blocks of PL_DOT_K of K, ascending, added to one another and to what is added last; each
 * PL_DOT_CHAINS chains, element k of the block in chain k mod PL_DOT_CHAINS, of which the upper
 * half is added to the lower until one is left.
 * Cost: reads K N words of b once. Local. */
void pl_matmul_single(const pl_matmul_job *job, pl_matmul_part part, const pl_progress *progress);

enum { PL_DOT_K = 4096 };

#endif
