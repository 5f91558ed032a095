/* round_robin -- ranks of one host that outnumber its cores: those of a core take turns on it. All
 * functions are local. */
#ifndef PURLIN_ROOFLINE_ROUND_ROBIN_H
#define PURLIN_ROOFLINE_ROUND_ROBIN_H

#include "src/roofline/replay.h"

/** Whether every rank of these programs can be replayed so: all on one host, as many on each
 * core, and how long a turn is is known. */
bool pl_takes_turns(const pl_program *p, const pl_machine *machine);

/** Replay every rank. A core goes on with its rank until that must wait, or until its slice is over
 * and another of its ranks has something to do; these come in the order in which they could go on.
 * Kernels count by what they use of the core (busy_s) and by how long others use it meanwhile
 * (turns_s). Of a communication each rank does its own part when it comes to it after all have
 * started, and is done when all have done theirs. */
void pl_round_robin(pl_simulation *sim);

#endif
