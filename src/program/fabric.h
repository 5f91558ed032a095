/* fabric -- what carries a program's communication: where ranks are, whether those of a host share
 * memory, and by what algorithms are chosen. Equal on all ranks; the program is laid out for it. */
#ifndef PURLIN_PROGRAM_FABRIC_H
#define PURLIN_PROGRAM_FABRIC_H

#include "collectives/collective.h"
#include "src/machine/wires.h"

typedef struct {
    bool shared;        /* the arrays of a host's ranks lie in memory that they share */
    int ranks_per_host; /* ranks are dealt to hosts in order, so many each; 0: all on one */
    const int *host_of; /* [ranks] where they are not dealt so; NULL: they are */
    pl_chooser chooser;
    /* What carries each axis of the mesh, in a machine that is described and not at hand: prices
     * are then those of collectives/wires.h, whatever is above; collectives need no scratch. NULL:
     * none. */
    const pl_wires *wires; /* [mesh axes] */
} pl_fabric;

#endif
