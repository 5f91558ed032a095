/* parse -- digits, then a unit; nothing else may follow. */
#include "config.h"

#include "src/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The factor that `suffix` stands for, or 0 when it is none. */
static int64_t unit(const char *suffix)
{
    static const char letters[] = "KMGT";
    int64_t thousands = 1, binary = 1;

    if (*suffix == '\0')
        return 1;
    for (int i = 0; i < 4; i++) {
        thousands *= 1000;
        binary *= 1024;
        if (suffix[0] == letters[i] && suffix[1] == '\0')
            return thousands;
        if (suffix[0] == letters[i] && strcmp(suffix + 1, "i") == 0)
            return binary;
    }
    return 0;
}

static bool starts_like_a_number(const char *text, bool may_be_fraction)
{
    if (*text == '-' || *text == '+')
        text++;
    return isdigit((unsigned char)*text) ||
           (may_be_fraction && *text == '.' && isdigit((unsigned char)text[1]));
}

pl_status pl_parse_integer(const char *flag, const char *text, int64_t least, int64_t most,
                           int64_t *value)
{
    char *end = NULL;
    int64_t n = 0, factor = 0;
    bool fits = false;

    if (starts_like_a_number(text, false)) {
        errno = 0;
        n = strtoll(text, &end, 10);
        fits = errno == 0;
        factor = unit(end);
    }
    if (factor == 0)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: \"%s\" is not an integer (digits, then K, M, G, T, Ki, Mi, Gi, Ti or "
                         "nothing)",
                         flag, text);
    fits = fits && !__builtin_mul_overflow(n, factor, &n);
    if (!fits || n < least || n > most)
        return pl_refuse(PL_BAD_INPUT, "%s: %s is out of range: give %" PRId64 " to %" PRId64, flag,
                         text, least, most);
    *value = n;
    return PL_OK;
}

pl_status pl_parse_number(const char *flag, const char *text, double least, double most,
                          double *value)
{
    char *end = NULL;
    double x = 0;

    if (starts_like_a_number(text, true))
        x = strtod(text, &end);
    if (end == NULL || *end != '\0' || strpbrk(text, "xX") != NULL) /* no hexadecimal */
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is not a finite number", flag, text);
    if (!isfinite(x) || x < least || x > most)
        return pl_refuse(PL_BAD_INPUT, "%s: %s is out of range: give %.8g to %.8g", flag, text,
                         least, most);
    *value = x;
    return PL_OK;
}

pl_status pl_parse_word(const char *flag, const char *text, const char *const *words, int n,
                        int *at)
{
    char all[256] = "";

    for (int i = 0; i < n; i++) {
        const size_t length = strlen(all);

        if (strcmp(text, words[i]) == 0) {
            *at = i;
            return PL_OK;
        }
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" is none of %s", flag, text, all);
}
