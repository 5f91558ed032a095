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
    PL_TRAFFIC_READ,   /* bytes read */
    PL_TRAFFIC_COPY,   /* bytes read and as many written elsewhere, by the faster kind of store */
    PL_TRAFFIC_UPDATE, /* bytes read and as many written where they were read */
    PL_N_TRAFFIC,
} pl_traffic;

/** "read", "copy", "update". */
const char *pl_traffic_name(pl_traffic traffic);

typedef struct {
    double flops_per_s[PL_N_MULTIPLIES]; /* 0: the ISA in use has no such instruction */
    /* Bytes read + written per second, over the bytes of the working set: half of the L1, half of
     * the L2, a quarter of the L3, eight times the L3. */
    pl_curve bytes_per_s[PL_N_TRAFFIC];
} pl_peaks;

/** Measure them, all ranks at once, each figure the best of three windows and of all ways of
 * kernels/stream.h. Collective over m->comm. */
void pl_peaks_measure(const pl_measure *m, const pl_topology *topology, pl_peaks *peaks);

/** Seconds in which these loops would carry traffic one after the other: `updated` bytes, read and
 * written in place and counted twice, as an update; as many of the bytes that are only `read` as
 * are `written` elsewhere, together with those, as a copy; what is left of either as a read, or a
 * copy. For products, whose roof is rarely memory. Local. */
double pl_traffic_time_s(const double bytes_per_s[PL_N_TRAFFIC], double read, double written,
                         double updated);

#endif
