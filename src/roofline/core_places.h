/* core_places -- a calibration in parts, kept apart by where the ranks' cores were meanwhile
 * (roofline/line.h). All functions are local. */
#ifndef PURLIN_ROOFLINE_CORE_PLACES_H
#define PURLIN_ROOFLINE_CORE_PLACES_H

#include "src/machine/machine.h"

#include <stdbool.h>

enum { PL_N_PARTS = 5, PL_N_PLACES = 2 };

/* What has been measured in one place. */
typedef struct {
    pl_machine machine;
    int n_parts; /* the first of them are done */
    int n_lines;
    double line_s[PL_N_PARTS + 1]; /* what a cache line took before and after each part; only what
                                    * is known */
} pl_core_place;

typedef struct {
    int n;
    pl_core_place place[PL_N_PLACES];
} pl_core_places;

/** The place in which cores are when a cache line takes line_s (0: not known, and taken to be the
 * first), with `begun` as its machine if nothing was measured there yet. When there are too many,
 * the one that has most parts. */
pl_core_place *pl_core_places_at(pl_core_places *places, const pl_machine *begun, double line_s);

/** The one that has most parts; there must be one. */
pl_core_place *pl_core_places_most(pl_core_places *places);

/** Whether cores are in the place when a line takes line_s: if that is known, by it. */
bool pl_core_place_is(const pl_core_place *place, double line_s);

/** Note the place's next part: its machine with that, and what a line takes now. */
void pl_core_place_add(pl_core_place *place, const pl_machine *measured, double line_s);

/** When all parts are done: the machine, with what a line has taken and how far that differs. */
const pl_machine *pl_core_place_machine(pl_core_place *place);

#endif
