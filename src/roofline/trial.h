/* trial -- which of own tiles and OpenBLAS computes each f32 product of a program, by a short trial
 * whose result is kept on disk, so that every later run chooses alike. */
#ifndef PURLIN_ROOFLINE_TRIAL_H
#define PURLIN_ROOFLINE_TRIAL_H

#include "src/machine/machine.h"
#include "src/mesh/topology.h"
#include "src/program/program.h"

#include <mpi.h>
#include <stdbool.h>

/** Let pl_matmul() choose for the products of programs[n] (NULL: none) as the ranks at their coords
 * run them. Shapes that the cache knows are chosen as it says; the others are tried, all ranks at
 * once: at most 9 samples of each in turn, as pl_matmul_judge() judges them, of each sample the
 * time of the slowest rank (where ranks share cores, what it used of its core); 40 ms a shape, 1.6 s
 * together, as far as machine->peak_flops_per_s can tell. They are then added to the cache
 * (pl_trials_path); where it cannot be written nothing is tried and the rule of kernels/matmul.h
 * serves, so that all runs have the same bits. A file that cannot be read is spoken of and replaced.
 * `again`: whatever the cache knows is tried once more, and replaced.
 * Of more than PL_MATMUL_MOST_TRIED shapes the last go by the rule.
 *
 * The same on all ranks. Once for each program, before it is predicted. Collective over comm. */
void pl_trial_products(MPI_Comm comm, const pl_topology *topology, const pl_machine *machine,
                       const pl_program *const *programs, int n, pl_coords coords,
                       bool again);

/** How many times as long as with own tiles an op takes by what has been chosen: 1, or less. Local. */
double pl_trial_factor(const pl_program *p, const pl_op *op, pl_coords coords);

#endif
