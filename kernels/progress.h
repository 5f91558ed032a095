/* progress -- a chance for others to get on while a long kernel runs.
 *
 * MPI makes no progress by itself, and kernels know no MPI: whoever wants background transfers to
 * move hands a hook to the long kernels (matmul, attention), which call it between macro-blocks,
 * about once a millisecond. */
#ifndef PURLIN_KERNELS_PROGRESS_H
#define PURLIN_KERNELS_PROGRESS_H

#include <stddef.h>

typedef struct {
    void (*call)(void *data);
    void *data;
} pl_progress;

/** Call the hook; `progress` or its `call` may be NULL. Local. */
static inline void pl_progress_call(const pl_progress *progress)
{
    if (progress != NULL && progress->call != NULL)
        progress->call(progress->data);
}

#endif
