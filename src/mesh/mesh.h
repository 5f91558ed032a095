/* mesh -- a named logical grid of ranks. Pure arithmetic: no MPI here (see mesh/comms.h), so a mesh
 * of 100,000 chips costs no more than one of 8.
 *
 * Axes are kept outermost first in the canonical order pp, dp, fsdp, tp: the axis that talks most
 * and can least be hidden is innermost, so that it stays inside a host. (cp, ep will sit between
 * fsdp and tp.)
 *
 * An axis may be split into factors: with more tp ranks than key/value heads, tp:8 over 4 heads
 * becomes the axes tp.0:4 and tp.1:2, and `tp` is the pair. Code that shards over tp then lists
 * both; only code that must tell them apart looks. */
#ifndef PURLIN_MESH_MESH_H
#define PURLIN_MESH_MESH_H

#include "src/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_MAX_AXES = 8, PL_AXIS_NAME = 8 };

typedef struct {
    char name[PL_AXIS_NAME];   /* "tp", or "tp.0" for a factor */
    char family[PL_AXIS_NAME]; /* "tp" in both cases */
    int size;                  /* >= 1 */
} pl_axis;

typedef struct {
    int n_axes;
    pl_axis axes[PL_MAX_AXES]; /* outermost first; ranks are numbered row-major */
} pl_mesh;

/** A set of axes: bit i stands for mesh->axes[i]. */
typedef uint32_t pl_axes;

/** Coordinates of one rank, one per axis. */
typedef struct {
    int at[PL_MAX_AXES];
} pl_coords;

/** Append an axis (innermost so far). Refuses a repeated name, a size < 1, too many axes. */
pl_status pl_mesh_add(pl_mesh *mesh, const char *name, int size);

/** Split axis `name` into `name`.0 of size `outer` and `name`.1 of size/outer. */
pl_status pl_mesh_factor(pl_mesh *mesh, const char *name, int outer);

/** Product of the axis sizes. */
int64_t pl_mesh_size(const pl_mesh *mesh);

/** Index of the axis of that exact name, -1 if there is none. */
int pl_mesh_axis(const pl_mesh *mesh, const char *name);

/** All axes of a family ("tp" gives {tp} or {tp.0, tp.1}); 0 if there is none. */
pl_axes pl_mesh_family(const pl_mesh *mesh, const char *family);

/** Product of the sizes of the axes in `set`; 1 for the empty set. */
int pl_mesh_extent(const pl_mesh *mesh, pl_axes set);

pl_coords pl_mesh_coords(const pl_mesh *mesh, int64_t rank);
int64_t pl_mesh_rank(const pl_mesh *mesh, pl_coords coords);

/** Row-major position of `coords` within the group that varies only over `set` (mesh order). */
int pl_mesh_position(const pl_mesh *mesh, pl_axes set, pl_coords coords);
/** `coords` moved to position `position` within its group over `set`. */
pl_coords pl_mesh_member(const pl_mesh *mesh, pl_axes set, pl_coords coords, int position);

/** "dp:2 fsdp:2 tp:4" into text; factors are shown as their family ("tp:8"). */
void pl_mesh_print(const pl_mesh *mesh, char *text, size_t size);

/** "fsdp", "fsdp,dp": the set's axes as printed in notation and reports; complete families are
 * shown by their name. */
void pl_axes_print(const pl_mesh *mesh, pl_axes set, char *text, size_t size);

#endif
