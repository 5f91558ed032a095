/* parse -- numbers and words as people type them, refused with the reason. */
#ifndef PURLIN_BASE_PARSE_H
#define PURLIN_BASE_PARSE_H

#include "src/base/status.h"

#include <stdint.h>

/** An integer in [least, most], with an optional K, M, G or T (powers of 1000; Ki, Mi, Gi, Ti are
 * powers of 1024). `flag` names the option in the message. */
pl_status pl_parse_integer(const char *flag, const char *text, int64_t least, int64_t most,
                           int64_t *value);
/** A finite number in [least, most]. */
pl_status pl_parse_number(const char *flag, const char *text, double least, double most,
                          double *value);

/** One of words[n]: *at is its place. */
pl_status pl_parse_word(const char *flag, const char *text, const char *const *words, int n,
                        int *at);

#endif
