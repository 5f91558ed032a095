/* banner -- what ./train says before it runs: model, mesh, machine, data, and what is predicted. */
#ifndef PURLIN_TRAIN_BANNER_H
#define PURLIN_TRAIN_BANNER_H

#include "src/roofline/predict.h"
#include "src/train/session.h"

/** Print the header on stdout (rank 0). Collective over session->world (hosts are asked). */
void pl_banner_print(const pl_session *session);

#endif
