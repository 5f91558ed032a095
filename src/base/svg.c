#include "config.h"

#include "src/base/svg.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

pl_status pl_svg_open(const char *path, int width, int height, FILE **file)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return pl_refuse(PL_BAD_INPUT, "--plot: cannot write %s: %s", path, strerror(errno));
    fprintf(
        f,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
        "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
        width, height);
    *file = f;
    return PL_OK;
}

void pl_svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *color,
                 double width, const char *dashes)
{
    fprintf(file,
            "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='%g' "
            "stroke-dasharray='%s'/>\n",
            x1, y1, x2, y2, color, width, dashes);
}

void pl_svg_text(FILE *file, double x, double y, const char *anchor, const char *color,
                 const char *text)
{
    fprintf(file, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>%s</text>\n", x, y, anchor,
            color, text);
}

pl_status pl_svg_close(FILE *file, const char *path)
{
    fprintf(file, "</svg>\n");
    const bool failed = ferror(file) != 0;

    if (fclose(file) != 0 || failed)
        return pl_refuse(PL_BAD_INPUT, "--plot: %s is not whole: writing failed", path);
    return PL_OK;
}
