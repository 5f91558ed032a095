/* reuse -- how far back each operand of an op was last touched, and so which memory it comes from.
 *
 * The actions of a step are walked through twice, as if one step followed another; what is touched
 * moves a clock on by its bytes. What was touched d bytes ago still lies in a cache of c bytes if d
 * is well below c, does not if d is well above; between c/2 and 2c part of it does. */
#ifndef PURLIN_ROOFLINE_REUSE_H
#define PURLIN_ROOFLINE_REUSE_H

#include "src/program/program.h"

/* L2, L3, memory beyond. */
enum { PL_N_REUSE = 3 };

typedef struct {
    double bytes[PL_N_REUSE]; /* of all operands of an op, each once */
    double again_bytes;       /* of the nearest: touched by the op itself before (in place) */
} pl_reuse;

/** reuse[n_ops], by the caches of a rank: `near_bytes` its own, `mid_bytes` its share of the one
 * that ranks share. The rank is the one at coords. Pools are watched in pieces of 1/8192, 4 KiB at
 * least. Cost: the bytes that a step touches over such a piece. Local. */
void pl_reuse_find(const pl_program *p, pl_coords coords, double near_bytes, double mid_bytes,
                   pl_reuse *reuse);

#endif
