/* peaks -- what the hardware under a rank can do at best: multiply-adds on registers, and memory
 * read, copied and updated by loops that do nothing else, by working set. They are the roofs that
 * kernels are held against; what the kernels themselves reach is calibrate's business. */
#ifndef PURLIN_ROOFLINE_PEAKS_H
#define PURLIN_ROOFLINE_PEAKS_H

#include "kernels/peak.h"
#include "src/machine/machine.h"
#include "src/roofline/measure.h"

/* How memory is used. */
typedef enum {
    PL_STREAM_READ,   /* bytes read */
    PL_STREAM_COPY,   /* bytes read and as many written elsewhere, by the faster kind of store */
    PL_STREAM_UPDATE, /* bytes read and as many written where they were read */
    PL_N_STREAMS,
} pl_stream_use;

/** "read", "copy", "update". */
const char *pl_stream_name(pl_stream_use use);

typedef struct {
    double flops_per_s[PL_N_MULTIPLIES]; /* 0: the ISA in use has no such instruction */
    /* Bytes read + written per second, over the bytes of the working set: half of the L1, half of
     * the L2, a quarter of the L3, eight times the L3. */
    pl_curve bytes_per_s[PL_N_STREAMS];
} pl_peaks;

/** Measure them, all ranks at once, each figure the best of three windows. Collective over
 * m->comm. */
void pl_peaks_measure(const pl_measure *m, const pl_topology *topology, pl_peaks *peaks);

/** Seconds in which these loops would carry a kernel's traffic: `updated` bytes, read and written
 * in place and counted twice, as an update; as many of the bytes that are only `read` as are
 * `written` elsewhere, together with those, as a copy; what is left of either as a read, or a copy.
 * Local. */
double pl_stream_time_s(const double bytes_per_s[PL_N_STREAMS], double read, double written,
                        double updated);

#endif
