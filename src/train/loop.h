/* loop -- what ./train does with a session: train with a line a step, evaluate, report, save. */
#ifndef PURLIN_TRAIN_LOOP_H
#define PURLIN_TRAIN_LOOP_H

#include "src/train/session.h"

/** Run the whole command: plan, print what was asked for, train or evaluate, report, save. The
 * session has been opened. Collective over session->world. */
pl_status pl_train(pl_session *session);

#endif
