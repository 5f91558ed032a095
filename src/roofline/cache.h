/* cache -- where what was measured of a machine is kept between runs. */
#ifndef PURLIN_ROOFLINE_CACHE_H
#define PURLIN_ROOFLINE_CACHE_H

#include "src/mesh/topology.h"

enum { PL_CACHE_PATH = 1024 };

/** The file of `what` ("machine"), as written by `version` of the code, about this CPU and
 * instruction set, what multiplies, hosts, cores, ranks and threads: in $XDG_CACHE_HOME/purlin or
 * ~/.cache/purlin, which is made where it can be; "" when the environment names no place. `kind`
 * is added to the name. Local. */
void pl_cache_file(const char *what, int version, const char *matmul, const pl_topology *topology,
                   const char *kind, char path[PL_CACHE_PATH]);

#endif
