/* kinds -- what there is to know about each kind of operation: one row a kind.
 *
 * A kind's file in src/program/ops/ holds how it differentiates, what it costs and what runs it,
 * forward beside backward; kinds.c is the table. How a kind partitions follows from its dims: all
 * of them may be split, but for those in `whole`; dims that the output lacks are summed over. */
#ifndef PURLIN_PROGRAM_KINDS_H
#define PURLIN_PROGRAM_KINDS_H

#include "kernels/matmul_trial.h"
#include "src/program/program.h"

enum { PL_MAX_OPERANDS = 64 };

/** An operand of an op on one rank. */
typedef struct {
    void *data; /* NULL when only the shape is asked for */
    pl_extents extents;
    int64_t n; /* elements */
    pl_dtype dtype;
} pl_array;

/** An op as one rank sees it: what `cost` and `run` read. */
typedef struct {
    const pl_program *program;
    const pl_op *op;
    pl_array *in, *out;
    float *workspace; /* of the op's workspace elements */
    const pl_progress *progress;
} pl_op_view;

typedef struct {
    double flops;   /* multiply-add counts 2 */
    double done_flops; /* those that the kernel computes, where that is more; else 0 */
    double bytes;   /* read and written, each operand once */
    bool is_matmul; /* runs at the matmul rate; attention at its own; the rest at memory speed */
    bool is_attention;
    pl_dtype dtype;      /* matmul and attention: of the operands that are multiplied */
    double matmul_flops; /* FLOPs of one matmul call, where the rate depends on it */
    int64_t m, n, k;     /* the extents of that call */
    /* Matmul: how its operands are stored, and their elements over all calls; those of the product
     * count twice where it is added to what is there. Attention: its weights as computed; what is
     * packed, of queries, keys and values; the pages in which rows of those begin. Norms and
     * cross-entropy: their rows. */
    bool trans_a, trans_b;
    double a_elements, b_elements, c_elements;
    double aliased_elements; /* matmul: of operands in rows that are pages apart, and so share few
                              * sets of a cache */
} pl_op_cost;

/* Where differentiate keeps its state; see differentiate.h. */
typedef struct pl_tape pl_tape;

typedef struct {
    const char *name;   /* as printed: "rmsnorm" */
    const char *whole;  /* dims that no axis may split in this op */
    bool linear;        /* a pending sum may pass through it */
    int term;           /* inputs to a term where out is a sum of terms (einsum 2, add 1); 0: one
                         * term of all inputs */
    const char *linked; /* two dims: an axis that splits the first may split the second too (the
                         * heads of attention), or leave it whole */
    int n_statistics;   /* the last so many outputs stay f32 whatever the activations are */
    int in_place;       /* the input whose storage out[0] may take when nothing reads it later, or
                         * PL_NONE */
    void (*differentiate)(pl_tape *tape, const pl_op *op);
    void (*cost)(const pl_op_view *view, pl_op_cost *cost);
    void (*run)(const pl_op_view *view);
    int64_t (*workspace)(const pl_op_view *view); /* f32 elements; NULL for none */
} pl_kind_info;

const pl_kind_info *pl_kind_of(pl_kind kind);

/** Fill a view of `op` for the rank at coords, with data pointers NULL. in[] and out[] of the view
 * must have room for the op's operands. */
void pl_op_view_fill(pl_op_view *view, const pl_program *p, const pl_op *op, pl_coords coords);

/** Cost of an op on the rank at coords (zero for communication). */
pl_op_cost pl_op_cost_at(const pl_program *p, const pl_op *op, pl_coords coords);

/** The products that an op on the rank at coords asks pl_matmul() for (f32, and OpenBLAS could do
 * them), shapes[PL_MAX_OPERANDS / 2]; returns how many. Local. */
int pl_op_products(const pl_program *p, const pl_op *op, pl_coords coords, pl_matmul_shape *shapes);

/** Extent of dim `name` in an operand of the view; 1 where it lacks the dim. */
int64_t pl_array_dim(const pl_op_view *view, bool is_out, int operand, char name);

#endif
