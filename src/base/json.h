/* json -- reading files and writing lines over jansson, with refusals that name file and key.
 *
 * `where` is what the message calls the object: a path, or a path and a place in it
 * ("m.json: links"). All functions are local. */
#ifndef PURLIN_BASE_JSON_H
#define PURLIN_BASE_JSON_H

#include "src/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The object in a file; release with json_decref(). Refuses what cannot be read, is no JSON (path,
 * line, column, cause), repeats a key, or is no object. */
pl_status pl_json_load(const char *path, json_t **root);

/** The same from n_bytes of memory. */
pl_status pl_json_parse(const char *where, const char *text, size_t n_bytes, json_t **root);

/* Required members. Each refuses by key: absent, of another type, or out of [least, most]. A number
 * may be written as an integer; an integer may not be written as a real. Strings, objects and
 * arrays are borrowed from `object`. */
pl_status pl_json_integer(const json_t *object, const char *where, const char *key, int64_t least,
                          int64_t most, int64_t *value);
pl_status pl_json_number(const json_t *object, const char *where, const char *key, double least,
                         double most, double *value);
pl_status pl_json_boolean(const json_t *object, const char *where, const char *key, bool *value);
pl_status pl_json_string(const json_t *object, const char *where, const char *key,
                         const char **value);
pl_status pl_json_object(const json_t *object, const char *where, const char *key, json_t **value);
pl_status pl_json_array(const json_t *object, const char *where, const char *key, json_t **value);

/** Whether `object` has `key` with a value other than null; an optional member is one of these
 * before the getter, and a default without. */
bool pl_json_has(const json_t *object, const char *key);

/** A new number, or a new null when x is not finite (JSON has no NaN). */
json_t *pl_json_real(double x);

/** Write an object to a file, indented, reals with 17 significant digits; the file appears whole or
 * not at all (written beside, then renamed); a device or a pipe is written as it is. */
pl_status pl_json_save(const char *path, const json_t *root);

/* Records, one a line, reals with 17 significant digits. */
typedef struct {
    FILE *file;       /* NULL: closed, or never asked for; writing is then a no-op */
    const char *path; /* borrowed; for messages */
} pl_json_lines;

/** Open `path`, replacing a file that is there. */
pl_status pl_json_lines_open(pl_json_lines *lines, const char *path);
/** Write one record and flush it; takes the reference to `record`. */
pl_status pl_json_lines_write(pl_json_lines *lines, json_t *record);
/** Refuses when what was written did not reach the file. */
pl_status pl_json_lines_close(pl_json_lines *lines);

#endif
