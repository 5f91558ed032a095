/* json -- thin helpers over jansson. */
#include "config.h"

#include "src/base/json.h"
#include "src/base/panic.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 17 }; /* of a double: what was written is what is read back */

static pl_status refuse_json(const char *where, const json_error_t *error)
{
    if (error->line > 0)
        return pl_refuse(PL_BAD_INPUT, "%s: line %d, column %d: %s", where, error->line,
                         error->column, error->text);
    return pl_refuse(PL_BAD_INPUT, "%s: %s", where, error->text);
}

static pl_status take_object(const char *where, json_t *value, json_t **root)
{
    if (!json_is_object(value)) {
        json_decref(value);
        return pl_refuse(PL_BAD_INPUT, "%s: the outermost value is no object", where);
    }
    *root = value;
    return PL_OK;
}

pl_status pl_json_load(const char *path, json_t **root)
{
    json_error_t error;
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        return pl_refuse(PL_BAD_INPUT, "%s: cannot read: %s", path, strerror(errno));

    json_t *value = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    const int failed = ferror(file), cause = errno;

    fclose(file);
    if (failed) {
        json_decref(value);
        return pl_refuse(PL_BAD_INPUT, "%s: cannot read: %s", path, strerror(cause));
    }
    if (value == NULL)
        return refuse_json(path, &error);
    return take_object(path, value, root);
}

pl_status pl_json_parse(const char *where, const char *text, size_t n_bytes, json_t **root)
{
    json_error_t error;
    json_t *value = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);

    if (value == NULL)
        return refuse_json(where, &error);
    return take_object(where, value, root);
}

bool pl_json_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value != NULL && !json_is_null(value);
}

static pl_status refuse_type(const json_t *value, const char *where, const char *key,
                             const char *wanted)
{
    if (value == NULL)
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is missing", where, key);
    return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" must be %s", where, key, wanted);
}

pl_status pl_json_integer(const json_t *object, const char *where, const char *key, int64_t least,
                          int64_t most, int64_t *value)
{
    const json_t *found = json_object_get(object, key);

    if (!json_is_integer(found))
        return refuse_type(found, where, key, "an integer");

    const int64_t n = json_integer_value(found);

    if (n < least || n > most)
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is %" PRId64 ", not in %" PRId64 " to %" PRId64,
                         where, key, n, least, most);
    *value = n;
    return PL_OK;
}

pl_status pl_json_number(const json_t *object, const char *where, const char *key, double least,
                         double most, double *value)
{
    const json_t *found = json_object_get(object, key);

    if (!json_is_number(found))
        return refuse_type(found, where, key, "a number");

    const double x = json_number_value(found);

    if (!(x >= least && x <= most))
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is %g, not in %g to %g", where, key, x, least,
                         most);
    *value = x;
    return PL_OK;
}

pl_status pl_json_boolean(const json_t *object, const char *where, const char *key, bool *value)
{
    const json_t *found = json_object_get(object, key);

    if (!json_is_boolean(found))
        return refuse_type(found, where, key, "true or false");
    *value = json_is_true(found);
    return PL_OK;
}

pl_status pl_json_string(const json_t *object, const char *where, const char *key,
                         const char **value)
{
    const json_t *found = json_object_get(object, key);

    if (!json_is_string(found))
        return refuse_type(found, where, key, "a string");
    *value = json_string_value(found);
    return PL_OK;
}

pl_status pl_json_object(const json_t *object, const char *where, const char *key, json_t **value)
{
    json_t *found = json_object_get(object, key);

    if (!json_is_object(found))
        return refuse_type(found, where, key, "an object");
    *value = found;
    return PL_OK;
}

pl_status pl_json_array(const json_t *object, const char *where, const char *key, json_t **value)
{
    json_t *found = json_object_get(object, key);

    if (!json_is_array(found))
        return refuse_type(found, where, key, "an array");
    *value = found;
    return PL_OK;
}

json_t *pl_json_real(double x)
{
    json_t *value = isfinite(x) ? json_real(x) : json_null();

    PL_ASSERT(value != NULL);
    return value;
}

static pl_status refuse_write(const char *path)
{
    return pl_refuse(PL_BAD_INPUT, "%s: cannot write: %s", path, strerror(errno));
}

/* Whether there is something at `path` that no file may take the place of: a device, a pipe. (A
 * link is followed, as what it names would be written.) */
static bool is_special(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}

pl_status pl_json_save(const char *path, const json_t *root)
{
    const bool in_place = is_special(path);
    char beside[4096];
    const int length = in_place
                           ? snprintf(beside, sizeof beside, "%s", path)
                           : snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid());

    if (length < 0 || (size_t)length >= sizeof beside) {
        errno = ENAMETOOLONG;
        return refuse_write(path);
    }

    FILE *file = fopen(beside, "wb");

    if (file == NULL)
        return refuse_write(path);

    const int flags = JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS);
    bool good = json_dumpf(root, file, flags) == 0 && fputc('\n', file) != EOF;

    good = fclose(file) == 0 && good;
    good = good && (in_place || rename(beside, path) == 0);
    if (!good) {
        const int cause = errno;

        if (!in_place)
            unlink(beside);
        errno = cause;
        return refuse_write(path);
    }
    return PL_OK;
}

pl_status pl_json_lines_open(pl_json_lines *lines, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL)
        return refuse_write(path);
    *lines = (pl_json_lines){.file = file, .path = path};
    return PL_OK;
}

pl_status pl_json_lines_write(pl_json_lines *lines, json_t *record)
{
    const int flags = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS);
    bool good = true;

    PL_ASSERT(record != NULL);
    if (lines->file != NULL)
        good = json_dumpf(record, lines->file, flags) == 0 && fputc('\n', lines->file) != EOF &&
               fflush(lines->file) == 0;
    json_decref(record);
    return good ? PL_OK : refuse_write(lines->path);
}

pl_status pl_json_lines_close(pl_json_lines *lines)
{
    FILE *file = lines->file;
    const char *path = lines->path;

    *lines = (pl_json_lines){0};
    if (file != NULL && fclose(file) != 0)
        return refuse_write(path);
    return PL_OK;
}
