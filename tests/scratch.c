#include "config.h"

#include "tests/scratch.h"
#include "tests/check_main.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[SCRATCH_PATH - 128]; /* of this process: every test forks */

void scratch_create(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/purlin-test-XXXXXX", parent != NULL ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/** Removes what is in a folder; folders in it may hold files only. */
static void empty(const char *path, int depth)
{
    DIR *dir = opendir(path);

    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char inner[1024];
        struct stat about;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (lstat(inner, &about) == 0 && S_ISDIR(about.st_mode) && depth > 0)
            empty(inner, depth - 1);
        remove(inner);
    }
    closedir(dir);
}

void scratch_remove(void)
{
    empty(folder, 4);
    rmdir(folder);
}

const char *scratch_path(const char *name, char path[SCRATCH_PATH])
{
    snprintf(path, SCRATCH_PATH, "%s/%s", folder, name);
    return path;
}

void scratch_write(const char *name, const void *bytes, size_t n)
{
    char path[SCRATCH_PATH];
    FILE *file = fopen(scratch_path(name, path), "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

char *scratch_read(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    struct stat about;

    ck_assert_msg(file != NULL && fstat(fileno(file), &about) == 0, "cannot read %s", path);

    char *bytes = malloc((size_t)about.st_size + 1);

    *n = fread(bytes, 1, (size_t)about.st_size, file);
    ck_assert_int_eq((long long)*n, (long long)about.st_size);
    bytes[*n] = '\0';
    fclose(file);
    return bytes;
}

void ck_refused(pl_status status, const char *text, ...)
{
    va_list texts;

    ck_assert_msg(status == PL_BAD_INPUT, "not refused: status %d", (int)status);
    va_start(texts, text);
    for (; text != NULL; text = va_arg(texts, const char *))
        ck_assert_msg(strstr(pl_status_message(), text) != NULL, "no \"%s\" in \"%s\"", text,
                      pl_status_message());
    va_end(texts);
    pl_status_clear();
}

void ck_accepted(pl_status status)
{
    ck_assert_msg(status == PL_OK, "refused: %s", pl_status_message());
}
