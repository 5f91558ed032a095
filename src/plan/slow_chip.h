/* slow_chip -- what a collective takes when the links of one chip are slow. */
#ifndef PURLIN_PLAN_SLOW_CHIP_H
#define PURLIN_PLAN_SLOW_CHIP_H

#include "collectives/collective.h"
#include "src/base/status.h"
#include "src/machine/wires.h"

enum { PL_SLOW_CHIPS = 256 };

/** The schedules of all ranks, simulated message by message (collectives/messages.h), once as they
 * are and once with every byte that one chip sends taking `factor` times as long: *even_s, *slow_s.
 * `bytes` as for pl_wires_collective(), made whole elements of 4 B a chip. The schedules are those
 * that its prices are made of: rings both ways on the axes of a torus, doubling on a switch (Bruck
 * where the chips are no power of two), direct for AllToAll. Refuses more than PL_SLOW_CHIPS chips,
 * axes without wrap-around, and networks of several levels, whose levels work in chunks. Local. */
pl_status pl_slow_chip_collective(const pl_wires *wires, pl_collective c, double bytes,
                                  double factor, double *even_s, double *slow_s);

#endif
