/* probe -- a few real steps of another plan than the session's: predicted, and measured. */
#ifndef PURLIN_TRAIN_PROBE_H
#define PURLIN_TRAIN_PROBE_H

#include "src/train/session.h"

/* Of a step; the mean over ranks, but the step itself, which is the slowest rank's, and what is
 * exposed. */
typedef struct {
    double kernels_s; /* of the forward and backward pass, what may hide communication: within the
                       * step, or T_math, by themselves */
    double update_s;  /* the optimizer's */
    double comms_s;   /* T_comms: communication by itself */
    double step_s;
    double exposed_s; /* what is left of the step beside the rank that waits least in it, from when
                       * all begin until the last is done: a rank whose messages are on their way
                       * does not wait for them to arrive, but the step does */
} pl_step_times;

enum { PL_PROBE_MOST_STEPS = 20 };

typedef struct {
    pl_spec spec;        /* all degrees set */
    int64_t batch, seq;  /* sequences, tokens in each */
    int64_t micro_batch; /* sequences; 0: as the plan would have it */
    bool apart;          /* kernels and communication are run each by themselves, too: T_math and
                          * T_comms. Else kernels_s is of the step, and comms_s not measured */
    const char *over;    /* comms_s counts what goes over axes of this family alone; NULL: all */
    pl_step_times predicted, measured;
    int n_rounds;                             /* steps that count; 0: none was run */
    pl_step_times round[PL_PROBE_MOST_STEPS]; /* [n_rounds] whose medians are what is measured */
} pl_probe;

/** Predict the probe on the session's machine; *memory_bytes of a rank. The
 * same on all ranks. Cost: building the programs. Local. */
void pl_probe_predict(const pl_session *session, pl_probe *probe, double *memory_bytes);

/** Run it as a session of its own, with the session's options otherwise and its machine: one step
 * that does not count and n_steps (at most PL_PROBE_MOST_STEPS) that do, before each of which ranks
 * meet; then, where asked for, as often its kernels and its communication by themselves. Fills
 * predicted and measured. Refuses as a run of these options would.
 * Collective over the session's world. */
pl_status pl_probe_measure(const pl_session *session, int n_steps, pl_probe *probe);

/** How far the rounds of what was measured lie apart, over their median: the range of fewer than 5,
 * the middle half of more; the most of the step, the kernels and the communication. *what names it.
 * Local. */
double pl_probe_spread(const pl_probe *probe, const char **what);

#endif
