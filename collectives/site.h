/* site -- where the ranks of a group are: on which hosts, with or without shared memory, and how the
 * group is laid out over mesh axes. What algorithms and prices need to know of the machine's shape.
 */
#ifndef PURLIN_COLLECTIVES_SITE_H
#define PURLIN_COLLECTIVES_SITE_H

#include "src/base/memory.h"
#include "src/mesh/mesh.h"

#include <stdbool.h>

typedef struct {
    int n_ranks;
    bool shared;      /* ranks of a host reach each other's arrays */
    int n_hosts;
    const int *host;  /* [n_ranks] numbered by first appearance: host[0] is 0 */
    const int *local; /* [n_ranks] place among the group's ranks of its host */
    int n_axes;       /* the group's axes of size > 1, outermost first; their product is n_ranks */
    int extent[PL_MAX_AXES];
} pl_site;

/** n_ranks ranks on one host, along one axis. Local, as is everything here. */
pl_site pl_site_one_host(pl_arena *arena, int n_ranks, bool shared);
/** Ranks on hosts as host_of[n_ranks] says (any numbers), along one axis. */
pl_site pl_site_on_hosts(pl_arena *arena, int n_ranks, const int *host_of, bool shared);

/** How many of the group's ranks are on host h. */
int pl_site_count(const pl_site *site, int h);
/** The rank at place `local` of host h; -1 if there is none. */
int pl_site_rank(const pl_site *site, int h, int local);
/** Whether every host has equally many ranks. */
bool pl_site_is_even(const pl_site *site);

#endif
