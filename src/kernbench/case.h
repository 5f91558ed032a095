/* case -- one kernel on one shape, as a program of a single operation: what runs is what training
 * runs, and FLOPs and bytes are those that predictions use (pl_op_cost_at). */
#ifndef PURLIN_KERNBENCH_CASE_H
#define PURLIN_KERNBENCH_CASE_H

#include "kernels/matmul.h"
#include "kernels/matmul_int8.h"
#include "kernels/stream.h"
#include "src/program/kinds.h"

enum { PL_CASE_OPERANDS = 10, PL_CASE_SIZES = 5 };

/* What the points are summed up by. */
typedef enum {
    PL_GROUP_SQUARE,  /* matmul, 256 to 2048 on a side */
    PL_GROUP_MODEL,   /* matmul, a transformer's own: forward, dX, dW */
    PL_GROUP_SMALL,   /* matmul, 64 to 256 on a side */
    PL_GROUP_SKINNY,  /* matmul, 1 to 64 rows, or columns */
    PL_GROUP_WEIGHTS, /* matmul with weights that were packed, or made bytes, beforehand */
    PL_GROUP_ATTENTION,
    PL_GROUP_CACHE, /* streaming kernels, in cache */
    PL_GROUP_DRAM,  /* streaming kernels, in memory */
    PL_GROUP_OTHER, /* a --shape of the user's */
    PL_N_GROUPS,
} pl_case_group;

/** "square", "model", ... */
const char *pl_group_name(pl_case_group group);

/* How a product finds its weights. */
typedef enum {
    PL_WEIGHTS_PLAIN,  /* as they lie */
    PL_WEIGHTS_PACKED, /* packed once, beforehand */
    PL_WEIGHTS_INT8,   /* made bytes once, beforehand */
} pl_weights;

typedef struct pl_case pl_case;

/* A kernel: what it is called, what its sizes are, and how its operation is built. */
typedef struct {
    const char *name;  /* "matmul_nt" */
    const char *sizes; /* "M,N,K": what --shape gives */
    int n_sizes;
    bool in_dtype[PL_N_DTYPES]; /* which types it has */
    pl_weights weights;         /* matmul: what b is made into */
    void (*build)(pl_case *c, const int64_t *size);
    /* What no program runs as an operation of its own runs by this; NULL: by its kind's row. Its
     * bytes are each operand's once. */
    void (*run)(const pl_op_view *view);
    const char *(*check)(const int64_t *size); /* what is wrong with sizes, or NULL; may be NULL */
    bool scatters; /* its output is zeroed, and then rows of it are added to */
} pl_kernel;

extern const pl_kernel pl_kernels[];
extern const int pl_n_kernels;

/** The kernel of that name, or NULL. */
const pl_kernel *pl_kernel_find(const char *name);

/* With what an operand is filled. */
typedef enum {
    PL_FILL_UNIFORM,  /* in [low, high) */
    PL_FILL_INTEGERS, /* whole numbers from low to high */
    PL_FILL_RISING,   /* 0, 1, 2, ... in steps of `low` elements */
    PL_FILL_LENGTHS,  /* the logarithm of 1, 2, ... in steps of `low` elements, plus `high` */
    PL_FILL_TABLE,    /* cosines: `low`, or sines, of the positions of rope */
} pl_fill;

struct pl_case {
    const pl_kernel *kernel;
    pl_case_group group;
    pl_dtype dtype;
    char shape[64]; /* "2048x512x1536", "T 1024, B 1, ..." */
    int64_t size[PL_CASE_SIZES];

    pl_mesh mesh; /* of one rank */
    pl_program *program;
    pl_op *op;
    pl_array in[PL_CASE_OPERANDS], out[PL_CASE_OPERANDS];
    pl_op_view view;
    struct {
        pl_fill fill;
        double low, high;
    } fill[2 * PL_CASE_OPERANDS]; /* by value */

    pl_op_cost cost;
    double set_bytes;     /* of all operands */
    double written_bytes; /* of cost.bytes: what is written elsewhere than where it was read */
    double updated_bytes; /* of cost.bytes: read and written in the same place, counted twice */

    /* matmul */
    bool is_product;
    pl_product product;
    pl_matmul_packed *packed;
    pl_int8_weights *int8;
};

/** Build the case: its program, cost and traffic, without arrays. Local, as is all here. */
void pl_case_open(pl_case *c, const pl_kernel *kernel, pl_case_group group, pl_dtype dtype,
                  const int64_t *size);
/** Allocate and fill its arrays; with `exact` those of a matmul with small whole numbers, whose
 * products any order of summation gives exactly (up to 256 where c is bf16). */
void pl_case_fill(pl_case *c, bool exact);
/** One call. */
void pl_case_run(pl_case *c);
void pl_case_close(pl_case *c);

/** The mix of streams that carries the case's traffic: every operand a stream of its own that is no
 * less than an eighth of the largest one, lines in proportion to the bytes that are read, written
 * and updated of it. Where the kernel reads less than its inputs hold, the largest are read. */
pl_mix pl_case_mix(const pl_case *c);

/** Element i of an array as a number. */
double pl_array_element(const pl_array *array, int64_t i);

#endif
