/* price -- what one op costs one rank, from its shapes and the machine's peaks.
 *
 *   kernels         T = max(FLOPs / C, bytes / W) + overhead        (the roofline; book, section 1)
 *                   C: the matmul rate at the size of the product, the attention rate, or the peak;
 *                   W: the memory bandwidth at the op's working set
 *   communication   T = the price of the very schedule that will run (collectives/cost.h)
 *
 * Part of a communication is work of this rank's cores, and steals time from the kernels that it
 * hides behind: reductions, copies and combinations always, and inside a host the transfer too,
 * since there it is the cores that move the bytes. Waiting for signals is none.
 *
 * What lies in cache moves as what a kernel has just made does, what was touched long ago
 * (roofline/reuse.h) as the largest arrays do: a communication's price lies between the two. */
#ifndef PURLIN_ROOFLINE_PRICE_H
#define PURLIN_ROOFLINE_PRICE_H

#include "src/machine/hardware.h"
#include "src/program/program.h"

/* What an op spends most of its time on. */
typedef enum { PL_BOUND_FLOPS, PL_BOUND_MEMORY, PL_BOUND_LINK, PL_BOUND_LATENCY } pl_bound;

/** The share of a product's extents, padded to multiples of `tile` (0, 1: not), that is asked for.
 * Local. */
double pl_tile_share(int64_t tile, int64_t m, int64_t n, int64_t k);

/** "FLOPs", "memory", "link", "latency". */
const char *pl_bound_name(pl_bound bound);

/* A message of a collective to a rank of another host. */
typedef struct {
    int round;   /* of the schedule: its messages leave together */
    int to;      /* place in the collective's group */
    double part; /* of what the rank sends to other hosts */
} pl_message_price;

enum { PL_MOST_MESSAGES = 32 };

typedef struct {
    double time_s; /* alone. Kernels: with op_overhead_s; communication: without comm_overhead_s */
    double core_s; /* communication: the part of time_s that is work of this rank's cores */
    bool by_cores; /* communication: nothing but cores moves it, all its ranks being on one host */
    double core_bytes; /* communication: of messages to other hosts, that take of a core from kernels
                        * while they are under way; as if as many were received as are sent */
    double first_bytes; /* of these, those that leave as soon as this rank starts it */
    double late_s; /* communication: how much longer messages to other hosts take while kernels run */
    int n_messages; /* collectives between hosts; 0: more than PL_MOST_MESSAGES, or none */
    const pl_message_price *messages; /* [n_messages] by rounds; the pricer's */
    double far_s;  /* kernels: the part of time_s in which bytes come from memory */
    double flops;  /* kernels */
    double bytes;  /* kernels: read and written, each operand once */
    double link_s[PL_MAX_LEVELS]; /* communication: how long it keeps each link busy: the levels of
                                   * the network, or, alone, the one link of a rank */
    int64_t wire_bytes;           /* communication: sent by this rank, or read from or written to a
                                   * peer's memory by it */
    pl_bound bound;
} pl_op_price;

typedef struct pl_pricer pl_pricer;

/** Prices for one mesh; equal communications are priced once. `machine` may be NULL when only
 * wire_bytes are asked for, else it must outlive the pricer. Where ranks are, and by which machine
 * algorithms are chosen, is the program's (its fabric). Local, as is everything here. */
pl_pricer *pl_pricer_create(const pl_machine *machine);
void pl_pricer_destroy(pl_pricer *pricer); /* NULL is allowed */

/** The price of an op of program p for the rank at coords. */
pl_op_price pl_price_op(pl_pricer *pricer, const pl_program *p, const pl_op *op, pl_coords coords);

#endif
