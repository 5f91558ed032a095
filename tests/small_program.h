/* small_program -- programs of a few operations, written by hand. */
#ifndef PURLIN_TESTS_SMALL_PROGRAM_H
#define PURLIN_TESTS_SMALL_PROGRAM_H

#include "src/roofline/predict.h"
#include "tests/figures.h"

/** A step, and what it runs on. */
typedef struct {
    pl_machine machine; /* round_machine(), until a test makes it another */
    pl_mesh mesh;       /* of one axis */
    int n_stages;       /* 1 to 3 */
    pl_program *p[3];   /* a stage's program: for one sequence of one token, room for 64 actions */
} small_step;

/** One program without operations, for so many ranks of dp. */
small_step *one_stage(int n_ranks);

/** Two or three, each for one of as many ranks of pp. */
small_step *two_stages(void);
small_step *three_stages(void);

void small_step_destroy(small_step *step);

/** Deal the ranks to hosts, so many each; 0, as at first: all on one. */
void deal_to_hosts(small_step *step, int ranks_per_host);

/** The step as replayed on its machine; free with pl_prediction_destroy(). */
pl_prediction *predict(const small_step *step);

/** One more action. */
void act(pl_program *p, pl_action_kind kind, int op);

/** START and WAIT at once. */
void start_and_wait(pl_program *p, int op);

/* Operations; each returns its place in the program. */

/** c = a + b of n elements. */
int add_op(pl_program *p, int64_t n);

/** y[T, F] = x[T, D] . w[D, F]. */
int product_op(pl_program *p, int64_t T, int64_t D, int64_t F);

/** AllReduce of n elements over the mesh's first axis. */
int all_reduce_op(pl_program *p, int64_t n);

/** PL_KIND_SEND or PL_KIND_RECV of n elements, to or from a stage. */
int move_op(pl_program *p, pl_kind kind, int peer, int64_t n);

/** An AllReduce of 800,000 bytes over two ranks, beside it an add of n elements, 12 bytes each:
 * START, RUN, WAIT; ops 0 and 1. */
pl_prediction *predict_beside_add(const pl_machine *machine, int64_t n, int ranks_per_host);

/* An AllReduce of 2 x 400,000 bytes between two ranks of round_machine(), whichever of ring and
 * direct carries it: a round that sends and receives a half and reduces it, and one that gathers
 * the halves. */
enum { HALF_BYTES = 400000 };
static const double all_reduce_s = 2 * (1e-5 + HALF_BYTES / 5e7) + HALF_BYTES / 2e8;

#endif
