/* hardware -- machines that are described, not measured: a chip and the network between chips, as
 * data from a file of doc/hardware. What a pod is to `plan` a pl_machine is to `train`; the same
 * prices are made of both (collectives/wires.h, roofline/price.h).
 *
 * All figures are peaks per chip in SI units; what share of them real programs reach is a figure of
 * its own (`efficiency`, 1 where the file says nothing: the book's bounds). */
#ifndef PURLIN_MACHINE_HARDWARE_H
#define PURLIN_MACHINE_HARDWARE_H

#include "src/base/status.h"
#include "src/machine/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number formats that a chip may multiply in; a file gives those that it has. */
typedef enum {
    PL_PEAK_F32,
    PL_PEAK_TF32,
    PL_PEAK_BF16,
    PL_PEAK_FP16,
    PL_PEAK_FP8,
    PL_PEAK_INT8,
    PL_PEAK_FP4,
    PL_N_PEAKS,
} pl_peak;

/** "f32", "bf16", ...: as options and keys (peak_bf16_flops_per_s) write it. */
const char *pl_peak_name(pl_peak peak);
/** By that name; PL_N_PEAKS if there is none. */
pl_peak pl_peak_find(const char *name);
/** Bytes of one number: 4 for f32 and tf32, 0.5 for fp4. */
double pl_peak_bytes(pl_peak peak);

typedef struct {
    double peak_flops_per_s[PL_N_PEAKS]; /* dense matrix products; 0: the chip lacks the format */
    double hbm_bytes, hbm_bytes_per_s;
    double fast_bytes, fast_bytes_per_s; /* VMEM, or L2 of a GPU; 0: unknown */
    int matmul_tile;                     /* dims of a matrix product are padded to it; 1: none */
    int chips_per_host;
    double price_usd_per_hour; /* 0: unknown */
    double host_bytes_per_s;   /* PCIe to the host's memory; 0: unknown */
    double vector_flops_per_s; /* not matrix products; 0: unknown */
    double op_overhead_s;      /* fixed cost of an operation; 0 unless the file says */
    double comm_overhead_s;    /* fixed cost of starting a collective; likewise */
} pl_chip;

typedef enum {
    PL_LEVEL_TORUS,  /* one axis of a torus: links to the two neighbours, all axes at once */
    PL_LEVEL_SWITCH, /* every unit of the level below has a port to a switch (or a fat tree) */
} pl_level_kind;

enum { PL_MAX_LEVELS = 8, PL_LEVEL_NAME = 24 };

/* One level of the network, innermost first. */
typedef struct {
    char name[PL_LEVEL_NAME]; /* "ici_x", "nvlink", "leaf", "dcn" */
    pl_level_kind kind;
    int size; /* torus: chips along the whole axis; switch: units of the level below that one
               * switch joins; 0: any number (the outermost level only) */
    int ring_multiple; /* torus: an axis wraps around when its length is a multiple; 0: never */
    double one_way_bytes_per_s; /* of a chip, each way. Torus: each of the axis' two links; switch:
                                 * a chip's share of its unit's port */
    double latency_s;           /* of a hop */
} pl_level;

/* Shares of the peaks that programs reach. */
typedef struct {
    double matmul, attention, memory, network;
} pl_efficiency;

/* Of programs as people run them, on any machine: the four numbers with which 72 published steps
 * are predicted best (tests/published_steps_test.c, which uses them), products as large as those of
 * training large models. Attention's is of causal attention, of which half is masked. */
extern const pl_efficiency pl_efficiency_typical;

typedef struct {
    char name[96];
    char path[512];
    pl_chip chip;
    int n_levels;
    pl_level level[PL_MAX_LEVELS];
    pl_efficiency efficiency;
} pl_hardware;

/** Read a file. Refuses by name what is missing, not positive, unknown, or given without its source
 * ("source" beside every group of figures). Local, as is everything here. */
pl_status pl_hardware_read(const char *path, pl_hardware *hw);

/** A path (it has a '/' or ends in .json), or the name of a file in $PURLIN_HARDWARE, the source
 * tree's doc/hardware, or where it is installed. Refuses an unknown name with the list of those
 * known. */
pl_status pl_hardware_find(const char *name_or_path, pl_hardware *hw);

/** The names that pl_hardware_find() knows: "a100, b200, ...". Cut where it is too long. */
void pl_hardware_names(char *text, size_t size);

/** The chip as a machine of one rank that computes in one format, for prices of kernels: peaks
 * times efficiencies, flat over sizes, of arrays of any type. Its links are the innermost level's.
 * In a format narrower than 16 bits products alone are computed: attention is in bf16 (fp16), and
 * operands are narrowed before they are multiplied (cast_bytes).
 * Refuses a format that the chip lacks, with those that it has. */
pl_status pl_hardware_machine(const pl_hardware *hw, pl_peak peak, pl_machine *machine);

/** Chips of the largest machine: the product of the levels' sizes; 0: any number. */
int64_t pl_hardware_chips(const pl_hardware *hw);

/** Chips that the levels below `level` hold: of a node for the first level outside it. */
int64_t pl_hardware_chips_below(const pl_hardware *hw, int level);

#endif
