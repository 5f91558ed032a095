/* file_bytes -- reading a range of a file, the whole of it or a refusal. Local. */
#ifndef PURLIN_MODEL_FILE_BYTES_H
#define PURLIN_MODEL_FILE_BYTES_H

#include "src/base/status.h"

#include <stdint.h>

typedef struct {
    int fd; /* -1: closed */
    int64_t n_bytes;
    char path[4096];
} pl_file_bytes;

/** Open a regular file for reading; refuses with path and cause. */
pl_status pl_file_bytes_open(const char *path, pl_file_bytes *file);

/** out = bytes begin .. begin + n - 1. Refuses a failed read, and a file that has become shorter.
 */
pl_status pl_file_bytes_read(const pl_file_bytes *file, int64_t begin, int64_t n, void *out);

void pl_file_bytes_close(pl_file_bytes *file);

#endif
