/* machine -- the peaks of a machine as data: measured by `calibrate`, read from a file, or made up
 * in a test. Rates are per rank, with all ranks of its host busy. SI units. */
#ifndef PURLIN_MACHINE_MACHINE_H
#define PURLIN_MACHINE_MACHINE_H

#include "src/base/dtype.h"
#include "src/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { PL_LINK_SAME_HOST = 0, PL_LINK_OTHER_HOST = 1, PL_N_LINKS } pl_link_class;

enum { PL_MACHINE_POINTS = 24, PL_MACHINE_RANKS = 64 };

/** A measured curve: y at n_points sizes, increasing; linear in log(size) between points, flat
 * outside them. */
typedef struct {
    int n_points;
    double size[PL_MACHINE_POINTS];
    double rate[PL_MACHINE_POINTS];
    double spread[PL_MACHINE_POINTS]; /* see pl_spreads */
} pl_curve;

/* What a copy or combination does decides how fast it is. */
typedef enum {
    PL_SHARED_COPY,   /* one's own memory from one source */
    PL_SHARED_REDUCE, /* one's own memory from several sources */
    PL_SHARED_SPREAD, /* peers' memory is written */
    PL_SHARED_FRESH,  /* writes what peers read in the same run, or reads what they wrote in it */
    PL_SHARED_STAGED, /* the same by way of staging */
    PL_N_SHARED,
} pl_shared_class;

/** How far repeated measurements of a figure lie apart, over their median: the range of few, the
 * middle half of many; 0: not known. */
typedef struct {
    double attention_flops_per_s, attention_bf16_flops_per_s, op_overhead_s, comm_overhead_s,
        reduce_bytes_per_s, copy_bytes_per_s, signal_s, memory_contention, handover_s, slice_s,
        line_s, shared_far_bytes_per_s[PL_N_SHARED];
} pl_spreads;

/* Beyond this, a figure cannot be trusted. */
#define PL_MOST_SPREAD 0.25

/* What messages to other hosts take of a rank's core, from kernels that run meanwhile: seconds for
 * each byte ... And what lies between the rank and its link. */
typedef struct {
    double byte_s;        /* sent while another is received */
    double polled_byte_s; /* of these, in calls that make progress, and where ranks take turns
                             while others have the core: not in the kernels themselves */
    double sent_byte_s;   /* sent while none is received */
    double received_byte_s; /* received while none is sent */
    double start_byte_s;    /* handed on when a message is started */
    double buffered_bytes;  /* handed on at most that have not gone through the link */
} pl_core_cost;

typedef struct {
    double latency_s;             /* one small message, one way */
    double latency_spread;
    double message_s; /* each further message of a round; 0 unknown: as much as the first */
    double one_way_bytes_per_s;   /* large messages, one direction */
    double both_ways_bytes_per_s; /* per direction, both directions at once */
    int n_cores; /* 0: none, the network moves messages by itself; 1: all ranks alike */
    pl_core_cost core[PL_MACHINE_RANKS]; /* between hosts, by rank */
    double late_s; /* by which a round of a collective takes longer while kernels run, since messages
                    * are looked after between parts of them only */
    int64_t eager_bytes;          /* up to here a message costs no handshake; 0 unknown */
    /* The same over the bytes of a message; no points: the figures above at every size. */
    pl_curve one_way_by_size, both_ways_by_size;
} pl_link;

/* A kernel's time, fitted: the sum of these times what its shapes give of each; see
 * roofline/kernel_model.h. Seconds for each ... */
typedef enum {
    PL_TERM_CALL,
    PL_TERM_FLOP,
    PL_TERM_A, /* element of the first operand of a matrix product */
    PL_TERM_B,
    PL_TERM_C,    /* element of the product, read or written */
    PL_TERM_ALIASED, /* element in a row that shares its cache sets with others */
    PL_TERM_NEAR, /* byte that comes from the rank's own cache */
    PL_TERM_MID,  /* from the cache that ranks share */
    PL_TERM_FAR,  /* from memory */
    PL_N_KERNEL_TERMS,
} pl_kernel_term;

enum { PL_KERNEL_NAME = 32, PL_MACHINE_KERNELS = 64 };

typedef struct {
    char name[PL_KERNEL_NAME];
    double term_s[PL_N_KERNEL_TERMS];
    double residual; /* median of |fitted / measured - 1| over the samples */
    int n_samples;
} pl_kernel_fit;

typedef struct {
    char name[96];      /* "AMD EPYC, 2 cores, 8 ranks" */
    int ranks_per_host; /* while measured */
    double ranks_per_core; /* 0 or less than 1: each has a core of its own */
    int threads_per_rank;
    int matmul_tile; /* dims of a matrix product are padded to it; 0, 1: not, and so in files */
    double cast_bytes; /* moved to narrow a number that a product reads; 0: none, and so in files */
    pl_curve matmul_flops_per_s;  /* f32, over FLOPs of one matmul */
    double peak_flops_per_s;      /* f32: the best of the curve; what MFU is measured against */
    pl_curve memory_bytes_per_s;  /* read + written, over working-set bytes */
    double attention_flops_per_s; /* f32, forward and backward tiles */
    /* The same for bf16 operands; no points and zeros: not measured. */
    pl_curve matmul_bf16_flops_per_s;
    double peak_bf16_flops_per_s;
    double attention_bf16_flops_per_s;
    double op_overhead_s;      /* fixed cost of starting one op */
    double comm_overhead_s;    /* fixed cost of starting one collective */
    double reduce_bytes_per_s; /* of received data added to local data */
    double copy_bytes_per_s;
    double signal_s; /* one stage of shared memory: all ranks signal, and await each other */
    /* Copies and combinations: bytes touched, over the bytes of memory
     * that one run touches. */
    pl_curve shared_bytes_per_s[PL_N_SHARED];
    pl_curve shared_made_bytes_per_s; /* likewise, of what kernels have made just before; may be absent */
    /* Copies and combinations of what comes from memory, however little it is, while the caches are
     * full of what was written since; 0 unknown: the last points of the curves. */
    double shared_far_bytes_per_s[PL_N_SHARED];
    pl_link link[PL_N_LINKS]; /* other host: zeros where there is one host */
    /* What kernels cost by their shapes; none: the rates above serve for all. */
    double jitter_s; /* ranks drift apart: variance of the time that they need for the same, over that
                      * time */
    double drift;    /* and some are slower for long: standard deviation over the ranks of
                      * the time for the same, beyond that of jitter_s, over that time */
    double difference; /* of repeated measurements of kernels: median of (most - least) / median */
    bool disturbed;    /* something else was running meanwhile: not to be trusted */
    /* How many times as fast memory serves a rank while all others of its host wait; 0: unknown. */
    double memory_contention;
    double slice_s;    /* how long a rank has its core while others want it too; 0: none does */
    double handover_s; /* one rank's leaving a core to another that shares it; 0: none does */
    double line_s;     /* a cache line from one rank's core to the next one's; 0: not known */
    pl_spreads spread;
    double near_bytes, mid_bytes; /* caches of a rank: its own, its share of the shared one */
    int n_kernels;
    pl_kernel_fit kernel[PL_MACHINE_KERNELS];
} pl_machine;

/** y at `size`. */
double pl_curve_at(const pl_curve *curve, double size);

/** Rates of products and of attention whose operands are of `dtype` (PL_F32 or PL_BF16), and what
 * MFU of such a step is measured against. */
const pl_curve *pl_machine_matmul(const pl_machine *machine, pl_dtype dtype);
double pl_machine_attention(const pl_machine *machine, pl_dtype dtype);
double pl_machine_peak(const pl_machine *machine, pl_dtype dtype);
/** What messages to other hosts take of a rank's core; of a rank that was not measured as much as of
 * that where it is most. */
pl_core_cost pl_machine_core_cost(const pl_machine *machine, int64_t rank);
/** The one of two that takes more. */
pl_core_cost pl_core_cost_larger(pl_core_cost a, pl_core_cost b);
/** Whether the machine has the rates of `dtype`. */
bool pl_machine_has(const pl_machine *machine, pl_dtype dtype);

/** Read and write the JSON form (keys as the fields, units in them). Refuses missing or
 * non-positive entries by name. Local. */
pl_status pl_machine_read(const char *path, pl_machine *machine);
pl_status pl_machine_write(const char *path, const pl_machine *machine);

#endif
