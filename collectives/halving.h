/* halving -- ranks halved again and again, any number of them: who talks to whom.
 *
 * A group of n consecutive ranks is cut into a lower half of n/2 ranks, rounded up, and an upper
 * one. Rank i of the lower half has rank i of the upper for a partner; when n is odd, the last of
 * the lower half, the odd rank, has none and turns to the last of the upper, which has a partner
 * already. */
#ifndef PURLIN_COLLECTIVES_HALVING_H
#define PURLIN_COLLECTIVES_HALVING_H

#include <stdbool.h>

enum { PL_MAX_HALVINGS = 31 };

typedef struct {
    int mine, n_mine;     /* first rank of this rank's half; how many there are */
    int theirs, n_theirs; /* of the other half */
    int partner;          /* whom this rank exchanges with, or, if it is odd, turns to */
    bool is_odd;
    int odd; /* the odd rank, if it turns to this one; else -1 */
} pl_halving;

/** How a rank of P takes part in the halvings, from all ranks down to two or three; returns how
 * many there are, at most ceil(log2 P). Local. */
int pl_halvings(int P, int rank, pl_halving at[PL_MAX_HALVINGS]);

#endif
