/* measure -- `--explain measure`: short real steps around the place where the book's inequalities
 * change sides, predicted and measured beside each other. */
#ifndef PURLIN_TRAIN_MEASURE_H
#define PURLIN_TRAIN_MEASURE_H

#include "src/base/json.h"
#include "src/train/explain.h"

/** For a planned session. What is varied:
 *
 *   --against SPEC   the batch, around the one at which both strategies take as long
 *   pp alone         microbatches, from 1 to four times the stages: the bubble
 *   tp alone         its degree over all that divide the ranks, the rest dp: T_comms over tp
 *   else             the batch, around the one at which T_math = T_comms; and where exposed
 *                    communication stops to fall as the batch grows
 *
 * Sequences are shortened, where --seq does not say how long they are, until there are four a rank
 * at the crossover. Says on stderr how long it will take, and refuses to take longer than --within;
 * a table and the crossovers on stdout; records crossover_point and crossover in the log. The order
 * is the same on all ranks. Collective over the session's world. */
pl_status pl_explain_measure(pl_session *session, const pl_explain *explain, pl_json_lines *log);

#endif
