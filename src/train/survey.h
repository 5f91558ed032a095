/* survey -- what `--explain measure` looks at: which batches, degrees or microbatches, chosen by
 * prediction so that they lie around where something becomes larger than something else. */
#ifndef PURLIN_TRAIN_SURVEY_H
#define PURLIN_TRAIN_SURVEY_H

#include "src/train/probe.h"

enum { PL_SURVEY_MOST = 12 };

/* What is varied, and what is compared. */
typedef enum {
    PL_SURVEY_BATCH,   /* T_math with T_comms */
    PL_SURVEY_AGAINST, /* the batch: one strategy's step with another's */
    PL_SURVEY_DEGREE,  /* tp's: T_math with T_comms over tp */
    PL_SURVEY_MICROBATCHES,
} pl_survey_subject;

typedef struct {
    pl_session *s; /* that was planned */
    pl_survey_subject subject;
    int n_specs;              /* 2 for PL_SURVEY_AGAINST */
    pl_spec spec[2];          /* all degrees set */
    int64_t unit;             /* sequences: one for each data rank */
    int64_t seq;              /* tokens in each */
    double memory_bytes;      /* that a rank may take */
    int n;                    /* points; 0: there is no crossover */
    double x[PL_SURVEY_MOST]; /* rising: tokens of a step, ranks, microbatches */
    pl_probe probe[PL_SURVEY_MOST][2];
    double first[2]; /* sides with one sequence a data rank */
} pl_survey;

/** Whether T_math and T_comms are compared, so that probes run them each by itself. Local. */
bool pl_survey_runs_apart(const pl_survey *survey);

/** Choose subject and points, by the session's --strategy, --against, --seq. Refuses an --against
 * of which no degrees suit. The same on all ranks. Collective over the session's world. */
pl_status pl_survey_choose(pl_session *session, pl_survey *survey);

/** A point beyond the one end, for when no crossover is among those there are: half as many tokens
 * again, or a third fewer; its index in *at. False where there is no room, memory, or smaller
 * batch. Local. */
bool pl_survey_extend(pl_survey *survey, bool up, int *at);

#endif
