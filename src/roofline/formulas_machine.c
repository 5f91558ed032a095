/* Sections 2 and 12: rates and sizes of chips and networks from what they are built of. */
#include "config.h"

#include "src/roofline/formula.h"
#include "src/roofline/price.h"

#include <math.h>

static void systolic(const double *in, double *out)
{
    const double clock = in[0], side = in[1], rows = in[2], cycles = in[3], units = in[4];

    out[0] = 2 * rows * side * side / cycles * clock;
    out[1] = units * out[0];
    out[2] = out[1] / 2;
}

static void vector_unit(const double *in, double *out)
{
    const double lanes = in[0], sublanes = in[1], alus = in[2], clock = in[3], cores = in[4];
    const double per_lane = in[5], matmul = in[6], total = lanes * sublanes * alus;

    out[0] = total;
    out[1] = total * cores;
    out[2] = per_lane * total * clock;
    out[3] = cores * out[2];
    out[4] = matmul / out[3];
    out[5] = per_lane * total;
}

/* A clock from a rate, and what a unit does in a cycle. */
static void per_cycle(const double *in, double *out)
{
    const double rate = in[0], units = in[1], subunits = in[2], clock = in[3], per = in[4];

    out[0] = rate / units / subunits / clock;
    out[1] = rate / (units * subunits * per);
    out[2] = per * units * subunits;
    out[3] = out[2] * clock;
}

static void registers(const double *in, double *out)
{
    const double banks = in[0], regs = in[1], bytes = in[2], threads = in[3], each = in[4];

    out[0] = banks * regs * bytes;
    out[1] = out[0] / (bytes * threads * each);
}

static void pod(const double *in, double *out)
{
    const double chips = in[0] * in[1] * in[2], per_host = in[3], cores = in[4], C = in[5];

    out[0] = chips;
    out[1] = chips / per_host;
    out[2] = chips * cores;
    out[3] = chips * C;
    out[4] = chips * in[6];
    out[5] = chips * in[7];
}

/* Ports of `gbit` Gbit/s or of link_bytes_per_s. in: link gbit ports units sharers other */
static void links(const double *in, double *out)
{
    const double link = pl_given(in[0], in[1] * 1e9 / 8), ports = in[2], units = in[3];

    out[0] = link;
    out[1] = link * ports;
    out[2] = out[1] * units;
    out[3] = out[2] / in[4];
    out[4] = out[2] / in[5];
    out[5] = 2 * out[2];
}

/* A node: its GPUs' ports against its switches'. */
static void node(const double *in, double *out)
{
    const double ports = in[0], link = in[1], switches = in[2], gpus = in[3], egress = in[4];

    out[0] = ports * link;
    out[1] = switches * out[0];
    out[2] = gpus * egress;
    out[3] = fmin(out[1], out[2]);
    out[4] = out[3] / 2; /* half of the GPUs send to the other half */
}

/* in: nics gbit nodes leaves spines uplinks pod_nodes spine_ports */
static void fat_tree(const double *in, double *out)
{
    const double link = in[1] * 1e9 / 8, nics = in[0], nodes = in[2], leaves = in[3];
    const double spines = in[4], uplinks = in[5], pod = in[6], ports = in[7];

    out[0] = nics * link;
    out[1] = leaves * nodes * link;
    out[2] = out[1] / nodes;
    out[3] = leaves * spines * uplinks * link;
    out[4] = out[3] / nodes;
    out[5] = spines * ports * link;
    out[6] = out[5] / pod;
}

/* Units of the next level from units of this one, and switches that join them. */
static void pods(const double *in, double *out)
{
    const double gpus = in[0], per_unit = in[1], spines_of = in[2], units_of = in[3];
    const double leaves_of = in[4];

    out[0] = gpus / per_unit;
    out[1] = spines_of * out[0] / units_of;
    out[2] = out[1];
    out[3] = out[0] * leaves_of;
    out[4] = out[3];
    out[5] = out[3] / 2;
}

static void stages(const double *in, double *out)
{
    const double bytes = in[0], links_n = in[1], pcie = in[2], received = in[3], ports = in[4];
    const double link = in[5], hbm = in[6], flops = 2 * in[7] * in[8] * in[8], C = in[9];

    out[0] = bytes / links_n / pcie;
    out[1] = received / (ports * link);
    out[2] = bytes / hbm;
    out[3] = flops;
    out[4] = flops / C;
    out[5] = pl_known_max(pl_known_max(out[0], out[1]), pl_known_max(out[2], out[4]));
}

/* Dims of a product padded to the matrix unit, as plans price it. */
static void padding(const double *in, double *out)
{
    const double tile = in[3], flops = 2 * in[0] * in[1] * in[2], C = in[4];
    const bool known = !isnan(flops) && tile >= 1;
    const double share =
        known ? pl_tile_share((int64_t)tile, (int64_t)in[0], (int64_t)in[1], (int64_t)in[2]) : NAN;

    out[0] = share;
    out[1] = flops;
    out[2] = flops / share;
    out[3] = flops / share / C;
}

/* From host to host: over PCIe, the network, PCIe. */
static void host_path(const double *in, double *out)
{
    const double bytes = in[0], pcie = in[1], network = in[2];

    out[0] = bytes / pcie;
    out[1] = bytes / network;
    out[2] = 2 * out[0] + out[1];
    out[3] = pl_known_max(out[0], out[1]);
}

static void ratio(const double *in, double *out)
{
    out[0] = in[0] / in[1];
    out[1] = in[0] * in[2];
}

const pl_formula pl_formulas_machine[] = {
    {"systolic", 2, "matrix units of side x side multiply-adders", "2 rows side^2 / cycles x clock",
     "clock_hz side rows=8 cycles=8 units=1", "unit_flops_per_s flops_per_s macs_per_s", systolic},
    {"vector_unit", 2, "vector units: lanes that add or (2 FLOPs) multiply-add each cycle",
     "lanes x sublanes x ALUs x clock",
     "lanes sublanes=1 alus=1 clock_hz cores=1 flops_per_lane=1 "
     "matmul_flops_per_s",
     "lanes_per_core total_lanes core_flops_per_s flops_per_s matmul_over_vector flops_per_cycle",
     vector_unit},
    {"per_cycle", 12, "FLOPs of one unit in a cycle, or the clock behind a rate",
     "rate / units / clock", "flops_per_s units subunits=1 clock_hz flops_per_unit_cycle=2",
     "flops_per_cycle clock_hz total_flops_per_cycle total_flops_per_s", per_cycle},
    {"registers", 12, "register memory, and thread groups that fit in it",
     "banks x registers x bytes",
     "banks registers bytes_per_register=4 threads=32 "
     "registers_per_thread",
     "register_bytes groups", registers},
    {"pod", 2, "a torus of chips as one machine", "chips x what a chip has",
     "x y=1 z=1 chips_per_host cores_per_chip flops_per_s hbm_bytes hbm_bytes_per_s",
     "chips hosts cores total_flops_per_s total_hbm_bytes total_hbm_bytes_per_s", pod},
    {"links", 12, "links of a rate: per port, per unit, in all, and a sharer's part",
     "rate = Gbit/s / 8; all = rate x ports x units",
     "link_bytes_per_s gbit ports=1 units=1 sharers=1 other_bytes_per_s",
     "link_bytes_per_s unit_bytes_per_s total_bytes_per_s sharer_bytes_per_s over_other "
     "duplex_bytes_per_s",
     links},
    {"node", 12,
     "a node of GPUs on switches: the smaller of what both can move; bisection: from one half to "
     "the "
     "other",
     "min(switches x ports x link, GPUs x egress); bisection: half of it",
     "ports link_bytes_per_s switches gpus egress_bytes_per_s",
     "switch_bytes_per_s switches_bytes_per_s gpus_bytes_per_s node_bytes_per_s "
     "bisection_bytes_per_s",
     node},
    {"fat_tree", 12, "nodes under leaf and spine switches: bandwidth of a node at each stage",
     "NICs x rate; leaves x nodes x rate; leaves x spines x uplinks x rate; spines x ports x rate",
     "nics gbit nodes leaves spines uplinks pod_nodes spine_ports=64",
     "node_bytes_per_s leaf_ingress_bytes_per_s node_at_leaf_bytes_per_s uplink_bytes_per_s "
     "node_at_uplink_bytes_per_s spine_bytes_per_s node_at_spine_bytes_per_s",
     fat_tree},
    {"pods", 12, "a larger pod of the same units: units, and spines where `spines` join `units`",
     "units = GPUs / unit; spines grow with the units; with a third level: as many spines as "
     "leaves, half as many cores",
     "gpus gpus_per_unit=256 spines=16 units=4 leaves=8",
     "units spines leaf_up_ports leaf_switches three_level_spines cores", pods},
    {"stages", 2, "an array from host memory over PCIe and links to a chip's matrix units",
     "bytes over PCIe links, then ICI ports, then HBM, then 2 rows side^2 FLOPs: the slowest "
     "bounds",
     "bytes pcie_links pcie_bytes_per_s received_bytes ports link_bytes_per_s hbm_bytes_per_s rows "
     "side flops_per_s",
     "pcie_s link_s hbm_s flops math_s bound_s", stages},
    {"padding", 2,
     "a product [B, D] . [D, F] whose dims are padded to a matrix unit of side x side",
     "share = B D F / (B' D' F'), each dim rounded up to a multiple of the side",
     "B D F side=128 flops_per_s", "share flops padded_flops math_s", padding},
    {"host_path", 2, "bytes of one chip to another pod: PCIe, the data-centre network, PCIe",
     "one after the other: 2 bytes/W_pcie + bytes/W_dcn; streamed: the slowest alone",
     "bytes pcie_bytes_per_s dcn_bytes_per_s", "pcie_s network_s serial_s streamed_s", host_path},
    {"ratio", 2, "one rate or size over another", "a / b", "a b share=1", "ratio scaled", ratio},
};
const int pl_n_formulas_machine = sizeof pl_formulas_machine / sizeof *pl_formulas_machine;
