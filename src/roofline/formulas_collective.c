/* Sections 3 and 12: collectives on the axes of a torus, and on switches. Rings are priced as the
 * schedules that would run (src/roofline/rings.h). */
#include "config.h"

#include "src/roofline/formula.h"
#include "src/roofline/rings.h"

#include <math.h>

/* An axis: n chips, links of `link` bytes/s each way to both neighbours. Without wrap-around, and
 * with one direction only, all goes round the longer way. */
typedef struct {
    double n, bytes, link, latency, axes;
    double all_hops; /* along all axes */
    bool both_ways, is_line;
} axis;

static double hops_along(double n, bool both_ways)
{
    return both_ways ? floor(n / 2) : n - 1;
}

static axis axis_of(const double *in)
{
    const bool is_line = in[2] == 0, both_ways = !is_line && in[3] >= 2;

    return (axis){.bytes = in[0],
                  .n = in[1],
                  .both_ways = both_ways,
                  .is_line = is_line,
                  .axes = in[4],
                  .link = in[5],
                  .latency = in[6],
                  .all_hops = in[4] * hops_along(in[1], both_ways)};
}

/* With further axes of N2 and N3. */
static axis axes_of(const double *in)
{
    axis a = axis_of(in);
    const int more = (in[7] > 1) + (in[8] > 1);

    if (more > 0) {
        a.axes = 1 + more;
        a.all_hops = hops_along(a.n, a.both_ways) + hops_along(in[7], a.both_ways) +
                     hops_along(in[8], a.both_ways);
    }
    return a;
}

/* `passes` 1: AllGather or ReduceScatter; 2: AllReduce, which is both. */
static void gather(const axis *a, double passes, pl_collective collective, double *out)
{
    const double hops = hops_along(a->n, a->both_ways);
    const double hop_bytes = (a->both_ways ? 2 : 1) * a->bytes / a->n;
    const double rate = (a->both_ways ? 2 : 1) * a->link;
    const double bandwidth_s =
        a->both_ways ? a->bytes / rate : a->bytes * (a->n - 1) / (a->n * a->link);
    const double latency_s = a->latency * a->all_hops;

    out[0] = passes * hops;
    out[1] = hop_bytes;
    out[2] = pl_known_max(a->latency, hop_bytes / rate);
    out[3] = a->axes > 1 ? passes * bandwidth_s / a->axes : passes * hops * hop_bytes / rate;
    out[4] = passes * bandwidth_s / a->axes;
    out[5] = passes * latency_s;
    out[6] = pl_known_max(out[4], out[5]);
    out[7] = pl_known_greater(out[5], out[4]);
    out[8] = a->bytes * (a->n - 1) / a->n / (a->both_ways ? 2 : 1) * passes;
    if (a->axes <= 1)
        out[9] = pl_ring_price_s(collective, a->both_ways ? "bidirectional-ring" : "ring", a->n,
                                 a->bytes, rate, a->latency);
    out[10] = rate * a->axes;
}

static void all_gather(const double *in, double *out)
{
    const axis a = axes_of(in);

    gather(&a, 1, PL_ALL_GATHER, out);
}

static void reduce_scatter(const double *in, double *out)
{
    const axis a = axes_of(in);

    gather(&a, 1, PL_REDUCE_SCATTER, out);
}

static void all_reduce(const double *in, double *out)
{
    const axis a = axes_of(in);

    gather(&a, 2, PL_ALL_REDUCE, out);
}

/* V bytes over all devices. */
static void all_to_all(const double *in, double *out)
{
    const axis a = axis_of(in);
    const double one_way = a.bytes * (a.n - 1) / (2 * a.n), both = a.bytes / 8;
    const double half = floor(a.n / 2); /* of a line, what crosses its middle each way */
    const double across = a.bytes * half * (a.n - half) / (a.n * a.n);

    out[0] = a.is_line ? across : a.both_ways ? both : one_way;
    out[1] = out[0] / a.link;
    out[2] = a.n / 2 * (a.n / 2 + 1) / 2;
    out[3] = a.n / 2 * (a.n / 2 - 1) / 2;
    out[4] = out[2] + out[3];
    out[5] = out[4] * a.bytes / (a.n * a.n);
    out[6] = pl_known_max(out[1], a.latency * floor(a.n / 2));
}

/* The longest axis decides; a line's middle carries twice as much as a ring's. in: V x y z link
 * wrap */
static void torus_all_to_all(const double *in, double *out)
{
    const double V = in[0], x = in[1], y = in[2], z = in[3], link = in[4];

    out[0] = x * y * z;
    out[1] = V * pl_known_max(x, pl_known_max(y, z)) / (4 * out[0] * 2 * link);
    out[1] *= in[5] != 0 ? 1 : 2;
}

static void point_to_point(const double *in, double *out)
{
    const double bytes = in[0], ports = in[1], hops = in[2], link = in[3], latency = in[4];

    out[0] = hops * latency;
    out[1] = bytes / (ports * link);
    out[2] = out[0] + out[1];
}

static void latency_bound(const double *in, double *out)
{
    const double link = in[0], latency = in[1], ways = in[2], bytes = in[3];

    out[0] = link * latency * ways;
    out[1] = pl_known_greater(out[0], bytes);
}

static void torus_hops(const double *in, double *out)
{
    out[0] = in[0] - 1;
    out[1] = floor(in[0] / 2);
}

/* A switch among n units, each with a port of W bytes/s each way. */
static void switched(const double *in, double *out)
{
    const double V = in[0], n = in[1], W = in[2], k = in[3], bus = pl_given(in[4], W);
    const double used = isnan(k) ? 1 : fmin(k / n, 1);

    out[0] = V * (n - 1) / (n * W);
    out[1] = V / W;
    out[2] = 2 * out[0];
    out[3] = 2 * V / W;
    out[4] = V / W; /* SHARP: the switch adds */
    out[5] = V * (n - 1) / (n * n * W);
    out[6] = V / (n * W);
    out[7] = used * out[6];
    out[8] = used * (n - 1) / n;
    out[9] = (1 - pow((n - 1) / n, k)) * (n - 1) / n;
    out[10] = 2 * (n - 1) / n;
    out[11] = bus / out[10];
    out[12] = 2 * V * (n - 1) / (n * bus);
    out[13] = V * n;
    out[14] = W * n / (n - 1);
    out[15] = pl_ring_price_s(PL_ALL_GATHER, "ring", n, V, W, 0);
}

/* M nodes of N chips: in the node `chip` bytes/s a chip, between nodes `node` bytes/s a node. Y:
 * the array is also split over an inner axis of so many chips. */
static void hierarchy(const double *in, double *out)
{
    const double V = in[0], N = in[1], M = in[2], chip = in[3], node = in[4], Y = in[5];
    const double inside_s = V * (N - 1) / (N * chip), outside_s = V * (M - 1) / (M * node);

    out[0] = V / chip / fmin(Y, N);
    out[1] = V / node * N / fmax(N, Y);
    out[2] = pl_known_max(out[0], out[1]);
    out[3] = 2 * out[2];
    out[4] = pl_known_max(inside_s, outside_s);
    out[5] = 2 * out[4];
    out[6] = chip * N / (N - 1);
    out[7] = node * M / (M - 1);
    out[8] = fmin(out[6], out[7]);
    out[9] = V * (M - 1) / (M * M * node);
    out[10] = V / (M * node);
    out[11] = V * (N - 1) / (N * N * chip);
    out[12] = (M - 1) / (M * M * node) / ((N - 1) / (N * N * chip));
    out[13] = outside_s * N / fmax(N, Y);
    /* bytes through the switches of one node, and of the leaf above, for an AllGather */
    out[14] = V / M + V * (M - 1) / M;
    out[15] = V / M + N * (V - V / (M * N));
    out[16] = V;
    out[17] = V * (M - 1);
    out[18] = out[15] / (N * chip);
    out[19] = outside_s;
    out[20] = pl_known_max(out[18], out[19]);
}

/* A tree of switches: at each level the degree and the rate of a unit's port. */
static void tree(const double *in, double *out)
{
    double least = INFINITY;

    for (int level = 0; level < 4; level++) {
        const double degree = in[2 * level], W = in[2 * level + 1];

        out[level] = degree * W / (degree - 1);
        if (!isnan(out[level]))
            least = fmin(least, out[level]);
    }
    out[4] = isinf(least) ? NAN : least;
    out[5] = in[8] / out[4];
}

#define AXIS "V_bytes N wrap=1 directions=2 axes=1 link_bytes_per_s hop_latency_s=0"
#define AXES AXIS " N2=1 N3=1"
#define GATHERED                                                                                   \
    "hops hop_bytes hop_s time_s bandwidth_s latency_s bound_s latency_bound link_bytes "          \
    "schedule_s algorithm_bytes_per_s"

const pl_formula pl_formulas_collective[] = {
    {"all_gather", 3,
     "AllGather of V bytes in all over an axis of N (or several, all at once: N2, N3, or as long)",
     "both ways: floor(N/2) hops of 2V/N at 2 W_link: V/W; one way or no wrap: N-1 hops of V/N: "
     "(N-1)/N V/W_link; not below hops x latency, (N + N2 + N3)/2 of them",
     AXES, GATHERED, all_gather},
    {"reduce_scatter", 3, "ReduceScatter of V bytes: as AllGather", "as all_gather", AXES, GATHERED,
     reduce_scatter},
    {"all_reduce", 3, "AllReduce of V bytes: a ReduceScatter and an AllGather",
     "twice all_gather: 2 V/W, no wrap 2 (N-1)/N V/W_link", AXES, GATHERED, all_reduce},
    {"all_to_all", 3, "AllToAll of V bytes in all over an axis of N",
     "one way: V (N-1)/(2 N W_link); both ways: V/(4 W), W = 2 W_link; no wrap: V/(4 W_link)", AXIS,
     "link_bytes time_s chunks_right chunks_left chunks device_bytes bound_s", all_to_all},
    {"torus_all_to_all", 3, "AllToAll of V bytes in all over a torus x . y . z",
     "V max(x, y, z)/(4 x y z W); no wrap: twice that", "V_bytes x y=1 z=1 link_bytes_per_s wrap=1",
     "devices time_s", torus_all_to_all},
    {"point_to_point", 2, "an array from one chip to another, over `ports` links at once",
     "first byte: hops x latency; then bytes / (ports W_link)",
     "bytes ports=1 hops=1 link_bytes_per_s hop_latency_s=0", "first_byte_s serial_s time_s",
     point_to_point},
    {"latency_bound", 3, "the size below which a hop's latency decides",
     "bytes < W_link x latency x ways", "link_bytes_per_s hop_latency_s=1e-6 ways=1 bytes",
     "threshold_bytes latency_bound", latency_bound},
    {"torus_hops", 2, "hops to the farthest chip of an axis", "line N-1, ring floor(N/2)", "N",
     "line_hops ring_hops", torus_hops},
    {"switched", 12,
     "collectives of V bytes among N chips on one switch, W each way a chip; k of N "
     "destinations used; bus: a measured bus bandwidth",
     "AllGather V (N-1)/(N W); AllReduce twice; in the switch (SHARP) V/W; AllToAll V (N-1)/(N^2 "
     "W), "
     "about V/(N W), of which min(k/N, 1) is used, or (1 - ((N-1)/N)^k) with random choices",
     "V_bytes N chip_bytes_per_s k bus_bytes_per_s",
     "all_gather_s large_all_gather_s all_reduce_s large_all_reduce_s sharp_all_reduce_s "
     "all_to_all_s large_all_to_all_s ragged_all_to_all_s ragged_share random_share "
     "bus_over_algorithm algorithm_bytes_per_s bus_all_reduce_s sharp_switch_bytes "
     "gather_bytes_per_s schedule_s",
     switched},
    {"hierarchy", 12, "collectives over M nodes of N chips; Y: also split over an inner axis of Y",
     "AllGather max(V/(W_chip min(Y, N)), V/W_node N/max(N, Y)); exact with (N-1)/N and (M-1)/M; "
     "AllToAll V (M-1)/(M^2 W_node)",
     "V_bytes N=8 M chip_bytes_per_s node_bytes_per_s Y=1",
     "node_s scaleout_s all_gather_s all_reduce_s exact_all_gather_s exact_all_reduce_s "
     "node_rate_bytes_per_s cross_rate_bytes_per_s rate_bytes_per_s all_to_all_s "
     "large_all_to_all_s node_all_to_all_s all_to_all_ratio exact_scaleout_s node_in_bytes "
     "node_out_bytes leaf_in_bytes leaf_out_bytes node_switch_s leaf_switch_s switches_s",
     hierarchy},
    {"tree", 12, "AllGather up a tree of switches: degree and port rate of each level",
     "T = V max (d - 1)/(d W)",
     "d0 w0_bytes_per_s d1 w1_bytes_per_s d2 w2_bytes_per_s d3 w3_bytes_per_s V_bytes",
     "level0_bytes_per_s level1_bytes_per_s level2_bytes_per_s level3_bytes_per_s "
     "rate_bytes_per_s time_s",
     tree},
};
const int pl_n_formulas_collective = sizeof pl_formulas_collective / sizeof *pl_formulas_collective;
