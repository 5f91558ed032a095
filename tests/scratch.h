/* scratch -- files of a test's own, in a folder that scratch_remove() removes with all in it. */
#ifndef PURLIN_TESTS_SCRATCH_H
#define PURLIN_TESTS_SCRATCH_H

#include "src/base/status.h"

#include <stddef.h>

enum { SCRATCH_PATH = 512 };

/** Make the folder; for a checked fixture, with scratch_remove() as its other half. */
void scratch_create(void);
void scratch_remove(void);

/** The path of `name` in the folder. */
const char *scratch_path(const char *name, char path[SCRATCH_PATH]);

/** Write n bytes to `name` in the folder. */
void scratch_write(const char *name, const void *bytes, size_t n);

/** All bytes of the file at a path and their count; free() them. Fails the test when unreadable. */
char *scratch_read(const char *path, size_t *n);

/** That `status` refuses bad input with a message that holds each of the texts; the message is
 * cleared. End the texts with NULL. */
void ck_refused(pl_status status, const char *text, ...) __attribute__((sentinel));

/** That `status` is PL_OK; prints the message otherwise. */
void ck_accepted(pl_status status);

#endif
