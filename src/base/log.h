/* log -- talk on stderr, results on stdout, each from one rank. */
#ifndef PURLIN_BASE_LOG_H
#define PURLIN_BASE_LOG_H

#include <stdbool.h>

/** Tell the log which rank this process is (set once after MPI_Init; rank 0 until then). */
void pl_log_set_rank(int rank);
int pl_log_rank(void);

/** A line of talk on stderr, from rank 0 only; a newline is added. Local. */
void pl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** "warning: ..." on stderr, from rank 0 only. Local. */
void pl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Results on stdout, from rank 0 only; nothing is added. Local. */
void pl_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
