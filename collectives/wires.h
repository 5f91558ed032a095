/* wires -- prices of collectives over a network of levels: closed forms, and the price of a
 * schedule message by message. Both follow one model of the network, and tests hold them equal.
 *
 *   torus    a link to either neighbour of every axis, all at once, each way at full rate. A
 *            message goes the shorter way round, axis by axis, and takes up every link on its way;
 *            since all ranks do alike, a link carries bytes x hops of one rank.
 *   switch   a port of each chip into the level, each way at full rate; a message takes the port of
 *            the outermost level that its ends do not share.
 *
 * A round takes its longest latency and its busiest link. Work of the chips themselves (additions,
 * copies) goes on beside the messages and is not counted. Source: the book, sections 2, 3 and 12.
 * All are local. */
#ifndef PURLIN_COLLECTIVES_WIRES_H
#define PURLIN_COLLECTIVES_WIRES_H

#include "collectives/collective.h"
#include "collectives/schedule.h"
#include "src/machine/wires.h"

typedef struct {
    double time_s;     /* of the whole, as below */
    double latency_s;  /* the part that does not grow with the bytes, were there one chunk */
    double transfer_s; /* bytes of the busiest level / its rate: what the book's bound is made of */
    double wire_bytes; /* sent by a chip, mean */
    int n_chunks;
    int busiest;                    /* the dim */
    double dim_s[PL_MAX_WIRE_DIMS]; /* how long each dim's links are in use */
} pl_wires_price;

/** The price of a collective on `bytes`, the bytes of all blocks (AllToAll: of what one rank holds;
 * Permute: of the message, one chip on along dim `wires->n - 1`):
 *
 *   AllGather, ReduceScatter   level after level, the outermost first (last), all axes of a torus
 *                              as one by rings both ways round (multi_axis_all_gather; on an axis
 *                              without wrap-around a line), a switch by doubling: ceil(log2 D)
 *                              latencies, (D-1)/D V / W. V on a level is what a chip ends with.
 *   over several levels        in equal chunks, so that the levels work at once:
 *                              sum of levels + (chunks - 1) x slowest level; the best of 1, 2, 4,
 *                              ... 64 chunks
 *   AllReduce                  both after each other; on switches alone also by doubling:
 *                              ceil(log2 P) (latency + V / W)
 *   AllToAll                   direct: every message at once
 *
 * With many bytes this is the book's V / W of the busiest level. */
pl_wires_price pl_wires_collective(const pl_wires *wires, pl_collective c, double bytes);

/** The message of one stage of a pipeline to the next, from place `from` to place `to` along the
 * group: the outermost dim in which they differ carries it. */
pl_wires_price pl_wires_move(const pl_wires *wires, int64_t from, int64_t to, double bytes);

/** A rank's schedule, round by round, by the model above. */
double pl_wires_schedule_s(const pl_wires *wires, const pl_schedule *s, pl_dtype dtype, int rank);

#endif
