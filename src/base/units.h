/* units -- numbers as people read them. */
#ifndef PURLIN_BASE_UNITS_H
#define PURLIN_BASE_UNITS_H

#include <stdint.h>

/** A short text by value, so that several fit in one printf. */
typedef struct {
    char text[32];
} pl_text;

/** Three significant digits and an SI prefix: (0.0123, "s") gives "12.3 ms", (4.2e6, "B") gives
 * "4.20 MB", (0, "s") gives "0 s". "-" when x is not finite. Local. */
pl_text pl_si(double x, const char *unit);

/** An integer with thousands set apart: "1,234,567". Local. */
pl_text pl_thousands(int64_t n);

#endif
