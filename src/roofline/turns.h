/* turns -- whether hosts of the job share cores: virtual machines and containers of one machine may,
 * and nothing that a rank sees of its own host tells. */
#ifndef PURLIN_ROOFLINE_TURNS_H
#define PURLIN_ROOFLINE_TURNS_H

#include "src/mesh/topology.h"
#include "src/roofline/measure.h"

/** How many times as long a rank's turns on a core last with the ranks of all hosts busy as with
 * those of its own host alone: 1 with one host, or with cores of its own. The rank of the first host
 * that is slowed most; what differs by less than a quarter is noise. The same on all ranks.
 * Collective over m->comm. */
double pl_measure_turns(const pl_measure *m, const pl_topology *topology);

#endif
