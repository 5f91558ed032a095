/* overlap -- decides where each communication starts and where it is waited for.
 *
 *   gathers of stored weights   start one layer ahead of their use
 *   gradient reductions         start when their terms are complete; what reads them (the
 *                               accumulation) is moved behind the next layer's backward ops,
 *                               and counts as one of them
 *   receives                    start one slot ahead
 *   sends                       are waited for before the next send that way
 *   everything else             starts when its input is there
 * and all are waited for just before their first reader. The result is the list of actions that
 * run, predict, print and simulate follow.  Source: book, section 5 ([A] and [C] tags). */
#ifndef PURLIN_PROGRAM_OVERLAP_H
#define PURLIN_PROGRAM_OVERLAP_H

#include "src/program/program.h"

/** Set actions, update_action, and each communication's tag, scratch value and critical flag. */
void pl_overlap(pl_program *p);

#endif
