/* trial_file -- the file that keeps which of own tiles and OpenBLAS was faster, shape by shape. */
#ifndef PURLIN_ROOFLINE_TRIAL_FILE_H
#define PURLIN_ROOFLINE_TRIAL_FILE_H

#include "kernels/matmul_trial.h"
#include "src/base/status.h"
#include "src/mesh/topology.h"

typedef struct {
    int64_t n, room;
    pl_matmul_tried *entry; /* [n] */
} pl_trials;

/* As many as a file holds. */
enum { PL_TRIALS_MOST = 2048 };

/** Add a copy of `tried`, in place of an entry of the same shape; beyond PL_TRIALS_MOST the one added
 * longest ago goes. */
void pl_trials_put(pl_trials *trials, const pl_matmul_tried *tried);
pl_matmul_tried *pl_trials_find(const pl_trials *trials, const pl_matmul_shape *shape);
void pl_trials_free(pl_trials *trials);

/** Path of the file for this CPU, instruction set, OpenBLAS's core, hosts, cores, ranks and threads
 * (see roofline/cache.h); "" when there is none. Local. */
void pl_trials_path(const pl_topology *topology, char *path);

/** Read what was tried; refuses, with the file's name, what is no such file, misses an entry or has
 * one out of range or twice, contradicts itself, or was found with another OpenBLAS. `trials` is
 * empty then. Local. */
pl_status pl_trials_read(const char *path, pl_trials *trials);
/** The file appears whole or not at all. Local. */
pl_status pl_trials_write(const char *path, const pl_trials *trials);

#endif
