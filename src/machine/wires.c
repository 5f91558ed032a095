#include "config.h"

#include "src/machine/wires.h"

#include "src/base/panic.h"

pl_wire_dim pl_wire_dim_of(const pl_hardware *hw, int level, int extent, int stride, int length)
{
    const pl_level *l = &hw->level[level];
    const int whole = length > 0 ? length : l->size;
    const bool torus = l->kind == PL_LEVEL_TORUS;
    const double shared = torus ? stride : 1;

    return (pl_wire_dim){.extent = extent,
                         .kind = l->kind,
                         .is_ring = torus && l->ring_multiple > 0 &&
                                    whole % l->ring_multiple == 0 && extent * stride == whole,
                         .one_way_bytes_per_s =
                             l->one_way_bytes_per_s * hw->efficiency.network / shared,
                         .latency_s = l->latency_s * shared,
                         .level = level};
}

void pl_wires_add(pl_wires *wires, pl_wire_dim dim)
{
    if (dim.extent <= 1)
        return;
    PL_ASSERT(wires->n < PL_MAX_WIRE_DIMS);
    wires->dim[wires->n++] = dim;
}

int64_t pl_wires_chips(const pl_wires *wires)
{
    int64_t n = 1;

    for (int i = 0; i < wires->n; i++)
        n *= wires->dim[i].extent;
    return n;
}
