/* rounds -- collectives between hosts on the link of one rank, message by message: those to one
 * rank go one after the other, in the order in which they were handed over; those to several share
 * the link evenly; and a round's leave when all of the round before are through. So one that is
 * started while others are under way goes between their rounds and beside their messages, and makes
 * them later. All functions are local. */
#ifndef PURLIN_ROOFLINE_ROUNDS_H
#define PURLIN_ROOFLINE_ROUNDS_H

#include "src/roofline/streams.h"

/** Put communication i of r on its link, from ready_s on at the earliest, and say anew when what is
 * on it begins and is through (r->begin_s, r->through_s; r->link_free_s[0] for all). False, and
 * nothing is done, where it must go as a whole: its messages are not known, it is a stream, or too
 * much is on the link. */
bool pl_rounds_begin(const pl_simulation *sim, pl_replay *r, int i, double ready_s);

/** Add what is on the link of r at now_s, which may not be before something was put there last; as
 * many bytes come as go. */
void pl_rounds_add(const pl_replay *r, double now_s, pl_traffic *traffic);

#endif
