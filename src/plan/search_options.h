/* search_options -- the command line of `plan search` and `plan simulate`. */
#ifndef PURLIN_PLAN_SEARCH_OPTIONS_H
#define PURLIN_PLAN_SEARCH_OPTIONS_H

#include "src/plan/here.h"
#include "src/plan/search.h"

typedef enum { PL_VARY_NOTHING, PL_VARY_BATCH, PL_VARY_CHIPS } pl_vary;

typedef struct {
    pl_search_options search;
    const char *model, *hw, *dtype;
    double batch_tokens;
    pl_peak peak;
    bool rounded;           /* the batch was not a number of sequences that many ranks can share */
    double train_tokens;    /* 0: not given */
    double price_usd;       /* of a chip and hour; 0: unknown */
    double measured_step_s; /* 0: not given */
    pl_vary vary;
    const char *plot, *trace; /* NULL: none */
    bool json;
    bool is_here; /* --hw this: only `here` is set, a job of train */
    pl_here here;
    char here_batch[24];    /* its sequences a step */
    bool done;              /* --help or --version was answered */
    int straggler;          /* simulate: a stage; -1: none */
    double straggle_factor; /* its slots take so many times as long */
    double link_factor;     /* hops take so many times as long */
    int lost_chips;
    bool simulate;
} pl_search_command;

/** Parse, find model and machine, complete. Refuses by option. Local. */
pl_status pl_search_options_parse(int argc, char **argv, bool simulate, pl_search_command *c);

/** Sequences of a batch of so many tokens; where that is no whole number, the multiple of the
 * highest power of two within a twentieth of it, which most ranks can share. */
int64_t pl_sequences_of(double tokens, int64_t seq, bool *rounded);

#endif
