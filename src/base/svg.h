/* svg -- a picture as a text file: what plots share. */
#ifndef PURLIN_BASE_SVG_H
#define PURLIN_BASE_SVG_H

#include "src/base/status.h"

#include <stdio.h>

/** Begin a picture of width x height pixels on white, sans-serif, 11 pixels. Refuses, naming
 * --plot, when the path cannot be written. Local, as is all here. */
pl_status pl_svg_open(const char *path, int width, int height, FILE **file);

/** A straight line; `dashes` as SVG has them, "none" for none. */
void pl_svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *color,
                 double width, const char *dashes);

/** A text (no markup in it) that starts, ends or is centred at x: anchor "start", "end", "middle".
 */
void pl_svg_text(FILE *file, double x, double y, const char *anchor, const char *color,
                 const char *text);

/** End it and close the file. Refuses when not all of it was written. */
pl_status pl_svg_close(FILE *file, const char *path);

#endif
