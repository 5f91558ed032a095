/* place -- which chips a mesh's axes join: axes laid out on the levels of a network. */
#ifndef PURLIN_PLAN_PLACE_H
#define PURLIN_PLAN_PLACE_H

#include "collectives/collective.h"
#include "src/machine/wires.h"
#include "src/mesh/mesh.h"

/* What a step sends along an axis, by which placements are compared: `times` collectives of so
 * many bytes (pl_wires_collective()). */
typedef struct {
    pl_collective collective;
    double bytes, times;
} pl_axis_load;

/* The part of the machine that is used. */
typedef struct {
    int n_torus;               /* torus levels, the first so many */
    int length[PL_MAX_LEVELS]; /* chips along each torus axis */
    int64_t pods;              /* tori; 1 where there is none */
} pl_slice;

/** The slice of a machine with so many chips: of a torus whole pods, or inside one the shape with
 * the most axes that wrap around, then the one nearest to a cube. Refuses a number of chips that no
 * slice has, with those next to it; networks of switches have any. Local, as is everything here. */
pl_status pl_slice_of(const pl_hardware *hw, int64_t chips, pl_slice *slice);

/** Lay the mesh out on the slice, innermost axis first, so that the loads (one for each axis) take
 * the least time one after another:
 *
 *   torus    an axis takes a factor of one or several torus axes; what it leaves of one goes to the
 *            axes further out, whose members are then that many chips apart; all ways are tried
 *   switch   an axis fills the level that it is in, and goes on in the next
 *   pods     the axis for which it costs least goes over them, beside what it takes inside
 *
 * False where no layout exists: factors do not divide. */
bool pl_lay_out(const pl_hardware *hw, const pl_slice *slice, const pl_mesh *mesh,
                const pl_axis_load *loads, pl_wires wires[PL_MAX_AXES], double *time_s);

/** "ici_x:16 ici_y:4, dcn:2": the levels that wires use. */
void pl_wires_print(const pl_hardware *hw, const pl_wires *wires, char *text, size_t size);

#endif
