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
    double exposed_s; /* communication that is waited for in the step, on the rank that waits least:
                       * all others wait for that one, too */
} pl_step_times;

typedef struct {
    pl_spec spec;        /* all degrees set */
    int64_t batch, seq;  /* sequences, tokens in each */
    int64_t micro_batch; /* sequences; 0: as the plan would have it */
    bool apart;          /* kernels and communication are run each by themselves, too: T_math and
                          * T_comms. Else kernels_s is of the step, and comms_s not measured */
    const char *over;    /* comms_s counts what goes over axes of this family alone; NULL: all */
    pl_step_times predicted, measured;
} pl_probe;

/** Predict the probe on the session's machine; *memory_bytes of a rank. The
 * same on all ranks. Cost: building the programs. Local. */
void pl_probe_predict(const pl_session *session, pl_probe *probe, double *memory_bytes);

/** Run it as a session of its own, with the session's options otherwise and its machine: one step
 * that does not count and n_steps that do, of which the medians are taken; then, where asked for, as
 * often its kernels and its communication by themselves. Fills predicted and measured. Refuses as a run of these options would.
 * Collective over the session's world. */
pl_status pl_probe_measure(const pl_session *session, int n_steps, pl_probe *probe);

#endif
