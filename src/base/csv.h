/* csv -- a table that programs write row by row while they measure. All functions are local. */
#ifndef PURLIN_BASE_CSV_H
#define PURLIN_BASE_CSV_H

#include "src/base/status.h"

#include <stdio.h>

typedef struct {
    FILE *file;       /* NULL: closed, or never asked for; writing is then a no-op */
    const char *path; /* borrowed; for messages */
} pl_csv;

/** Open `path` (NULL: none), replacing a file that is there, and write `header`, the columns' names.
 */
pl_status pl_csv_open(pl_csv *csv, const char *path, const char *header);
/** The first fields of a row, printf style, with the commas between them. */
void pl_csv_begin(pl_csv *csv, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** One more: a text; a number, or nothing where x is not finite. */
void pl_csv_text(pl_csv *csv, const char *text);
void pl_csv_number(pl_csv *csv, double x);
/** Complete the row and flush it. */
void pl_csv_end(pl_csv *csv);
/** Refuses when what was written did not reach the file. */
pl_status pl_csv_close(pl_csv *csv);

#endif
