/* predict -- the time of a step before it runs, from the programs that will run.
 *
 * A rank's actions are replayed on two resources: its cores and its link.
 *
 *   RUN    the cores are busy for the op's price (roofline/price.h)
 *   START  costs comm_overhead_s, then the transfer queues for the link (of a network of levels:
 *          for the levels that it uses; between hosts message by message, roofline/rounds.h)
 *   WAIT   the cores idle until the transfer is over (exposed time); what it needed of the cores
 *          and has not been done while they idled is then made up for, since it slowed the kernels
 *          that it hid behind
 *
 * Stages are replayed together: a receive ends no earlier than its send began, plus its price; a
 * collective over stages no earlier than the last of them started it. Ranks of one stage are taken
 * to run alike, and the one at the origin of the other axes, which holds the largest shards, stands
 * for all. Few ranks are all replayed on several hosts, since messages cost their cores unlike
 * (roofline/streams.h), and on one host where they take turns on its cores
 * (roofline/round_robin.h); of each stage the rank is kept that waits least. */
#ifndef PURLIN_ROOFLINE_PREDICT_H
#define PURLIN_ROOFLINE_PREDICT_H

#include "src/model/model_config.h"
#include "src/roofline/price.h"

typedef struct {
    int64_t calls;      /* 1, or 0 for what no action runs */
    double busy_s;      /* kernels: running, on their core. Communication: from its
                         * start to its completion */
    double alone_s;     /* kernels beside no communication, all ranks busy. Communication: its price
                         * and overhead */
    double turns_s;     /* kernels: what others use of its core meanwhile, where ranks take turns */
    double exposed_s;   /* communication: the cores start it or do nothing but wait for it */
    double flops;       /* kernels */
    double bytes;       /* kernels: to and from memory */
    int64_t wire_bytes; /* communication: sent by this rank */
    pl_bound bound;
} pl_op_prediction;

typedef struct {
    int n_ops;
    pl_op_prediction *ops; /* indexed like the program's */
    double step_s;         /* when its last action is done */
    double math_s;         /* sum over kernels */
    double comm_s;         /* sum over communication, alone */
    double exposed_s;      /* sum over communication */
    int n_microbatches;
    double *slot_begin_s; /* [2][n_microbatches] forward, backward: when the first kernel ran; -1:
                           * none did */
    double slots_end_s;   /* when the last kernel of any slot was done; after it comes the update */
} pl_stage_prediction;

typedef struct {
    int n_stages;
    pl_stage_prediction *stages;
    double step_s;  /* of the slowest stage */
    double lower_s; /* max(T_math, T_comms) of the stage where it is largest; kernels beside no
                     * communication, here and in upper_s */
    double upper_s; /* T_math + T_comms. With stages, as if nothing overlapped in any slot: (m +
                     * stages - 1) times the slowest slots, and the update */
    size_t memory_bytes[PL_N_CLASSES]; /* of a rank; the largest over stages */
} pl_prediction;

/** Predict a step of `stages` (programs from pl_build(), one for each stage; they are not kept).
 * One stage of several, alone, is replayed as if what it receives were there when it is asked for.
 * Deterministic: equal on all ranks that hold the same machine. Free with pl_prediction_destroy().
 * Local. */
pl_prediction *pl_predict(const pl_program *const *stages, int n_stages, const pl_machine *machine);
void pl_prediction_destroy(pl_prediction *prediction); /* NULL is allowed */

/* What one step puts on the wire, per set of axes, summed over all ranks of the mesh. */
enum { PL_MAX_WIRES = 64 };
typedef struct {
    int n;
    pl_axes axes[PL_MAX_WIRES];
    int64_t bytes[PL_MAX_WIRES];
} pl_wire;

/** Count it from the schedules that will run; equals what the engines of all ranks count. Cost: all
 * ranks x communications. Local. */
pl_wire pl_predict_wire(const pl_program *const *stages, int n_stages);

/** FLOPs that the model asks for, as MFU counts them (book, section 4): every weight of a matrix
 * product once per token, 2 FLOPs each, and causal attention exactly, 4 N H T (T + 1) / 2 per
 * sequence and layer; the backward pass twice the forward. The lookup of embeddings, norms and
 * recomputation do not count. */
double pl_model_flops(const pl_model_config *model, int64_t n_sequences, int64_t seq,
                      bool with_backward);

#endif
