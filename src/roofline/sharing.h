/* sharing -- what stages that are replayed together take of each other's core and memory. All
 * functions are local. */
#ifndef PURLIN_ROOFLINE_SHARING_H
#define PURLIN_ROOFLINE_SHARING_H

#include "src/roofline/replay.h"

/** The rank of a stage that is predicted. */
pl_coords pl_origin_of_stage(const pl_program *p);

/** What messages to other hosts take of a core, on the rank of the stage where that is most: the one
 * that others wait for. */
pl_core_cost pl_core_of_stage(const pl_machine *machine, const pl_program *p);

/** The core of a rank, of all hosts' cores; -1: ranks are not dealt evenly, and keep to none
 * (pl_topology_spread()). */
int64_t pl_core_index(const pl_machine *machine, int64_t rank);

/** Note of each stage whose ranks it shares its core with (of_core). */
void pl_find_neighbours(const pl_simulation *sim);

/** Prices are those of a rank that shares its core with as many others as the machine says. While
 * stages wait it is shared by fewer: the part of the price that a kernel of r takes that begins
 * now. */
double pl_part_of_busy(const pl_simulation *sim, const pl_replay *r);

/** Likewise they are those of a rank that shares memory with all others of its host: what bytes
 * from there then take less, between one stage that is busy alone and all. */
double pl_saved_by_idle_s(const pl_simulation *sim, const pl_replay *r, const pl_op_price *price);

#endif
