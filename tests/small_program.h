/* small_program -- programs of a few operations, written by hand. */
#ifndef PURLIN_TESTS_SMALL_PROGRAM_H
#define PURLIN_TESTS_SMALL_PROGRAM_H

#include "src/roofline/price.h"
#include "tests/figures.h"

/** A mesh of one axis. */
pl_mesh mesh_of(const char *name, int size);

/** A program without operations, for one sequence of one token; room for 64 actions. */
pl_program *empty_program(const pl_mesh *mesh);

/** One more action. */
void act(pl_program *p, pl_action_kind kind, int op);

/* Operations; each returns its place in the program. */

/** c = a + b of n elements. */
int add_op(pl_program *p, int64_t n);

/** y[T, F] = x[T, D] . w[D, F]. */
int product_op(pl_program *p, int64_t T, int64_t D, int64_t F);

/** AllReduce of n elements over the mesh's first axis. */
int all_reduce_op(pl_program *p, int64_t n);

/** PL_KIND_SEND or PL_KIND_RECV of n elements, to or from a stage. */
int move_op(pl_program *p, pl_kind kind, int peer, int64_t n);

/* An AllReduce of 2 x 400,000 bytes between two ranks of round_machine(), whichever of ring and direct
 * carries it: a round that sends and receives a half and reduces it, and one that gathers the halves. */
enum { HALF_BYTES = 400000 };
static const double all_reduce_s = 2 * (1e-5 + HALF_BYTES / 5e7) + HALF_BYTES / 2e8;

#endif
