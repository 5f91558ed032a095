/* status -- what went wrong, as a value that is also the exit code.
 *
 * A function that can refuse its input records one message with pl_refuse() and returns the
 * status; callers pass it up untouched. Nothing is printed on the way: ranks first agree
 * (base/agree.h), then the lowest rank that holds the worst status prints its message, so that a
 * fault seen by one rank and a fault seen by all of them both give exactly one message. */
#ifndef PURLIN_BASE_STATUS_H
#define PURLIN_BASE_STATUS_H

typedef enum {
    PL_OK = 0,
    PL_WRONG = 1,       /* wrong result: a non-finite loss, a failed check */
    PL_BAD_INPUT = 2,   /* anything the command line names: options, inputs, output paths */
    PL_ENVIRONMENT = 3, /* no launcher, too few slots, no memory */
    PL_INTERNAL = 4,    /* a fault of ours */
} pl_status;

/** Record a message (printf style, a few lines at most, no trailing newline) and return `status`.
 * Local. The first message since the last pl_status_clear() is kept; later ones are dropped. */
pl_status pl_refuse(pl_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The recorded message, or "" when there is none. Local. */
const char *pl_status_message(void);

/** Forget the recorded message. Local. */
void pl_status_clear(void);

#endif
