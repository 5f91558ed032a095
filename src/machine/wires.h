/* wires -- what carries the messages of a group of chips: for each dim of the group, the level of
 * the network that joins the chips along it. */
#ifndef PURLIN_MACHINE_WIRES_H
#define PURLIN_MACHINE_WIRES_H

#include "src/machine/hardware.h"

enum { PL_MAX_WIRE_DIMS = 12 };

typedef struct {
    int extent; /* chips along it */
    pl_level_kind kind;
    bool is_ring; /* torus: wraps around; else it is a line */
    double
        one_way_bytes_per_s; /* of a chip, each way: torus: to each neighbour; switch: its port */
    double latency_s;        /* of a hop */
    int level;               /* of the hardware */
} pl_wire_dim;

typedef struct {
    int n;
    pl_wire_dim dim[PL_MAX_WIRE_DIMS]; /* innermost first: chip = at[0] + extent[0] * at[1] ... */
} pl_wires;

/** `extent` chips along a level, `stride` chips apart (torus: the chips between them share the
 * links, so each group has 1/stride of them, and a hop is `stride` hops), in a slice whose axis is
 * `length` chips long (0: the level's whole size). A torus axis is a ring when the group reaches
 * all round it and its length is a multiple of the level's ring_multiple. Local. */
pl_wire_dim pl_wire_dim_of(const pl_hardware *hw, int level, int extent, int stride, int length);

/** Append a dim, outermost so far; one of extent 1 adds nothing. */
void pl_wires_add(pl_wires *wires, pl_wire_dim dim);

/** Product of the extents. */
int64_t pl_wires_chips(const pl_wires *wires);

#endif
