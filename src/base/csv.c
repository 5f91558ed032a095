#include "config.h"

#include "src/base/csv.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

pl_status pl_csv_open(pl_csv *csv, const char *path, const char *header)
{
    *csv = (pl_csv){.path = path};
    if (path == NULL)
        return PL_OK;
    csv->file = fopen(path, "w");
    if (csv->file == NULL)
        return pl_refuse(PL_BAD_INPUT, "--csv: cannot write %s: %s", path, strerror(errno));
    fprintf(csv->file, "%s\n", header);
    return PL_OK;
}

void pl_csv_begin(pl_csv *csv, const char *format, ...)
{
    va_list arguments;

    if (csv->file == NULL)
        return;
    va_start(arguments, format);
    vfprintf(csv->file, format, arguments);
    va_end(arguments);
}

void pl_csv_text(pl_csv *csv, const char *text)
{
    if (csv->file != NULL)
        fprintf(csv->file, ",%s", text);
}

void pl_csv_number(pl_csv *csv, double x)
{
    if (csv->file != NULL && isfinite(x))
        fprintf(csv->file, ",%.9g", x);
    else if (csv->file != NULL)
        fprintf(csv->file, ",");
}

void pl_csv_end(pl_csv *csv)
{
    if (csv->file == NULL)
        return;
    fprintf(csv->file, "\n");
    fflush(csv->file);
}

pl_status pl_csv_close(pl_csv *csv)
{
    FILE *file = csv->file;

    if (file == NULL)
        return PL_OK;
    csv->file = NULL;
    const bool failed = ferror(file) != 0;

    if (fclose(file) != 0 || failed)
        return pl_refuse(PL_BAD_INPUT, "--csv: %s is not whole: writing failed", csv->path);
    return PL_OK;
}
