/* explain -- the book's inequalities with the numbers of this machine, model and batch in them. */
#ifndef PURLIN_TRAIN_EXPLAIN_H
#define PURLIN_TRAIN_EXPLAIN_H

#include "src/train/session.h"

typedef struct {
    double ranks, stages, microbatches;
    double tokens;   /* B: of a step, all ranks */
    double d_ff;     /* F */
    double flops_per_s;     /* C of a rank */
    double bytes_per_s;     /* W of a rank: an AllGather of V bytes takes V / W */
    double element_bytes;
    const char *network; /* what W is of */
} pl_explain;

/** W by the machine's own figures, for a gather of `bytes` over all ranks: inside a host what copies
 * of arrays made just before reach (each byte read and written), between hosts a ring, both ways at
 * once; either times P / (P - 1), since a rank's own part stays. Local. */
double pl_explain_bytes_per_s(const pl_machine *machine, int n_hosts, int n_ranks, double bytes);

/** C / W in the book's terms of 2-byte elements: C / W x element_bytes / 2. Local. */
double pl_explain_alpha(const pl_explain *explain);

/** Tokens of a step at which `a` and `b` move as many bytes, where one is DP or FSDP alone and the
 * other TP alone; else NaN. Local. */
double pl_explain_equal_bytes(const pl_session *session, const pl_spec *a, const pl_spec *b);

/** The numbers of a session that has been planned. Local. */
pl_explain pl_explain_of(const pl_session *session);

/** Print them: DP and FSDP, TP, both, pipeline, each with which side we are on and where the other
 * begins (book, section 5, by roofline/formula.h). The book's formulas are of 2-byte elements: W
 * counts 2 / element_bytes times. On rank 0. Local. */
void pl_explain_print(const pl_explain *e);

#endif
