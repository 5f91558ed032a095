/* units -- numbers as people read them. */
#include "config.h"

#include "src/base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

pl_text pl_si(double x, const char *unit)
{
    static const char *const prefixes[] = {"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes, ONE = 4 };
    pl_text out;
    int power = ONE;

    if (!isfinite(x) || x == 0) {
        snprintf(out.text, sizeof out.text, "%s%s", x == 0 ? "0 " : "-", x == 0 ? unit : "");
        return out;
    }
    /* 999.5 is where three digits would round up to 1000. */
    while (fabs(x) >= 999.5 && power < N_PREFIXES - 1) {
        x /= 1000;
        power++;
    }
    while (fabs(x) < 0.9995 && power > 0) {
        x *= 1000;
        power--;
    }
    const int decimals = fabs(x) < 9.995 ? 2 : fabs(x) < 99.95 ? 1 : 0;
    snprintf(out.text, sizeof out.text, "%.*f %s%s", decimals, x, prefixes[power], unit);
    return out;
}

pl_text pl_thousands(int64_t n)
{
    char digits[24];
    pl_text out;
    size_t at = 0;
    const int length = snprintf(digits, sizeof digits, "%" PRId64, n);
    const int first = n < 0 ? 1 : 0;

    for (int i = 0; i < length; i++) {
        if (i > first && (length - i) % 3 == 0)
            out.text[at++] = ',';
        out.text[at++] = digits[i];
    }
    out.text[at] = '\0';
    return out;
}
