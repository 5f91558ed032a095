/* clock -- monotonic time. */
#ifndef PURLIN_BASE_CLOCK_H
#define PURLIN_BASE_CLOCK_H

/** Seconds since an arbitrary start, monotonic, nanosecond resolution. Local. */
double pl_now_s(void);

/** Seconds of processor that this process has used, all its threads together. Local. */
double pl_used_s(void);

#endif
