/* program -- a training step as data: a list of operations on named, sharded arrays.
 *
 * It is built once (model/transformer, model/optimizer), rewritten by passes (differentiate,
 * partition, unroll, bucket, overlap, allocate) and then read by four readers: print, predict, run,
 * simulate. Before partition the program is logical: values have declared shardings and no
 * communication. After it, every collective is an op. After unroll it belongs to one pipeline
 * stage. Nothing here is per rank: local extents are a function of (value, coordinates). */
#ifndef PURLIN_PROGRAM_PROGRAM_H
#define PURLIN_PROGRAM_PROGRAM_H

#include "src/base/dtype.h"
#include "src/base/memory.h"
#include "src/mesh/sharding.h"
#include "src/program/fabric.h"

/* What an array is for. Strategies shard by class; memory is counted by class. */
typedef enum {
    PL_WEIGHT,
    PL_GRADIENT,
    PL_MOMENT,
    PL_MASTER, /* f32 weights that the optimizer keeps beside working weights of another dtype */
    PL_ACTIVATION,
    PL_TOKEN, /* one entry per position: ids, targets, positions, loss statistics */
    PL_SCALAR,
    PL_COMM_BUFFER, /* gathered weights, terms on their way to a sum, scratch of collectives */
    PL_WORKSPACE,   /* scratch of kernels */
    PL_N_CLASSES,
} pl_class;

const char *pl_class_name(pl_class c);

typedef enum { PL_FORWARD, PL_BACKWARD, PL_UPDATE } pl_phase;

const char *pl_phase_name(pl_phase phase);

enum {
    PL_LAYER_EMBED = -1,     /* ops and values before the first layer */
    PL_LAYER_HEAD = 1 << 20, /* after the last: final norm, output head, loss */
    PL_LAYER_ALL = 1 << 21,  /* of no layer: norm, clipping, the loss over all ranks */
    PL_NO_MICROBATCH = -1,   /* values and ops that exist once a step */
    PL_NONE = -1,            /* no value, no op */
};

typedef struct {
    const char *name; /* "layers.3.ffn.up" */
    pl_shape shape;   /* dims in memory order with global (maximum) extents */
    pl_dtype dtype;
    pl_class class;
    pl_sharding sharding; /* declared split of each dim, and pending sums */
    bool defers_sums;     /* sums over axes that do not split it may stay pending in it: the linear
                           * ops that read it pass them on (gradient accumulators, dk, dv) */
    bool persists;        /* lives over steps: weights, moments, inputs that the host fills */
    bool is_input;        /* filled by the host before the step: ids, learning rate, ... */
    bool is_output;       /* read by the host after the step: loss, norm */
    int layer;
    int microbatch;

    /* Storage. An alias lives inside another value: at the start, or, for a `block`, where this
     * rank's block of that value's dim lies (outermost dim, contiguous). */
    int alias_of; /* value, or PL_NONE */
    bool alias_is_block;
    int64_t offset; /* bytes into its class's pool; set by allocate for values that own storage */
} pl_value;

/* Each kind has one row in one table: src/program/kinds.c. */
typedef enum {
    PL_EINSUM, /* out = sum over pairs of in[2i] . in[2i+1], contracting the dims that out lacks; with
                * a last input of its own (by pl_fuse_additions()) that plus the sum */
    PL_ADD,    /* out = in[0] + in[1] */
    PL_RMSNORM,
    PL_RMSNORM_BACKWARD,
    PL_ROPE,
    PL_ROPE_BACKWARD,
    PL_ATTENTION,
    PL_ATTENTION_BACKWARD,
    PL_SWIGLU,
    PL_SWIGLU_BACKWARD,
    PL_EMBED,
    PL_EMBED_BACKWARD,
    PL_XENT_MAX,
    PL_XENT_SUM,
    PL_XENT_LOSS,
    PL_XENT_GRAD,
    PL_ACCUMULATE,  /* out (+)= in: a gradient into its accumulator */
    PL_FILL,        /* out = number[0] */
    PL_SUM_SQUARES, /* out = sum of squares of all elements of all inputs */
    PL_CLIP,        /* (norm, factor) from sums of squares */
    PL_ADAMW,
    PL_RESHARD, /* out = in under out's sharding; partition turns it into collectives. Reductions
                 * are in place: where in is a pending sum, its storage is used up */
    PL_SLICE,   /* out = this rank's block of in along `dim` (a view where it is contiguous) */
    PL_KIND_ALL_GATHER,
    PL_KIND_REDUCE_SCATTER,
    PL_KIND_ALL_REDUCE,
    PL_KIND_ALL_TO_ALL,
    PL_KIND_SEND, /* to the same coordinates on peer_stage */
    PL_KIND_RECV,
    PL_N_KINDS,
} pl_kind;

enum { PL_MAX_NUMBERS = 4 };

typedef struct {
    pl_kind kind;
    int n_in, n_out;
    int *in, *out;                 /* value ids */
    double number[PL_MAX_NUMBERS]; /* static attributes; the kind's file says which */
    bool accumulate;               /* adds to out[0] instead of overwriting it */
    pl_phase phase;
    int layer;
    int stage;
    int microbatch;
    int origin; /* op of the logical program that this one is a clone of, or PL_NONE */

    /* Communication. Many arrays may travel as one: in[i] becomes out[i], along dim[i]. */
    pl_axes axes;
    bool is_max;
    int *dim;       /* [n_in] dim gathered, scattered or left (AllToAll) */
    int *to_dim;    /* [n_in] AllToAll: the dim that gains the axes */
    int peer_stage; /* PL_KIND_SEND, PL_KIND_RECV */
    int tag;        /* tells transfers in flight on one group apart; set by overlap */
    int scratch;    /* value for scratch, or PL_NONE; set by overlap */
    bool critical;  /* nothing runs between its start and its wait; set by overlap */
} pl_op;

/* What the executor does, in order. Communication is started when its input is ready and waited for
 * just before its first reader; everything else runs where it stands. */
typedef enum { PL_ACTION_RUN, PL_ACTION_START, PL_ACTION_WAIT } pl_action_kind;

typedef struct {
    pl_action_kind kind;
    int op;
} pl_action;

/* The global batch and how it is cut: sequences over the data-parallel ranks, each rank's share
 * into microbatches (dim B of a value is its microbatch's part of its rank's share). */
typedef struct {
    int64_t n_sequences; /* in a step, all ranks */
    int64_t
        micro_batch; /* sequences per microbatch and data-parallel rank; the last may be smaller */
    int64_t seq;     /* T */
    int n_microbatches; /* the largest over ranks; ranks with fewer run empty ones */
    pl_split split;     /* the axes that split B */
} pl_batch;

typedef struct {
    const pl_mesh *mesh;
    pl_arena *arena; /* names and index lists */
    pl_batch batch;
    pl_fabric fabric;
    int stage, n_stages;
    int n_values;
    int64_t value_room;
    pl_value *values;
    int n_ops;
    int64_t op_room;
    pl_op *ops;
    int n_actions; /* set by overlap */
    pl_action *actions;
    int update_action;               /* first action of the update: what comes before it has left
                                      * the weights untouched and computed loss and norm */
    size_t pool_bytes[PL_N_CLASSES]; /* set by allocate */
} pl_program;

pl_program *pl_program_create(const pl_mesh *mesh, const pl_batch *batch);
void pl_program_destroy(pl_program *p); /* NULL is allowed */
/** A program with the same batch and values (same ids), and no ops. */
pl_program *pl_program_copy_values(const pl_program *p);

/** Append a value: dims like "TBD", extents in the same order. Returns its id. f32; layer, class
 * and the rest as given; sharding empty. `name` is kept: a literal, or in the program's arena. */
int pl_value_add(pl_program *p, pl_class class, int layer, const char *dims, const int64_t *extents,
                 const char *name);
/** Append a copy of value v; returns its id. */
int pl_value_clone(pl_program *p, int v);
/** Id of the value of that name (the first), or PL_NONE. */
int pl_value_find(const pl_program *p, const char *name);

/** Append an op with room for its lists (in, out: ids are copied). Returns its id; the pointer
 * p->ops + id is valid until the next op is added. */
int pl_op_add(pl_program *p, pl_kind kind, pl_phase phase, int layer, int n_in, const int *in,
              int n_out, const int *out);
/** Append a deep copy of `op` (may belong to another program). */
int pl_op_append(pl_program *p, const pl_op *op);

bool pl_kind_is_communication(pl_kind kind);
/** PL_KIND_SEND or PL_KIND_RECV. */
bool pl_kind_is_move(pl_kind kind);

/** Position of dim `name` in the shape, or -1. */
int pl_shape_dim(const pl_shape *shape, char name);

/** What the rank at `coords` holds of value v: n[d] elements of dim d, from begin[d]. */
typedef struct {
    int n_dims;
    int64_t n[PL_MAX_DIMS], begin[PL_MAX_DIMS];
} pl_extents;

pl_extents pl_local_extents(const pl_program *p, int v, pl_coords coords);
int64_t pl_local_elements(const pl_program *p, int v, pl_coords coords);
/** Bytes of one element of v. */
size_t pl_value_element_bytes(const pl_program *p, int v);
/** Bytes to set aside for v: its largest local size over all coordinates (blocks put the larger
 * ones first, so that is the rank at the origin). */
size_t pl_value_bytes(const pl_program *p, int v);
/** The same, rounded up to what allocate deals in. */
size_t pl_value_room(const pl_program *p, int v);

enum { PL_ALIGNMENT = 64 }; /* bytes; of every value's storage */

/** This rank's sequences: range of the step's global sequence indices in microbatch m. */
pl_range pl_batch_range(const pl_mesh *mesh, const pl_batch *batch, pl_coords coords, int m);
/** n_microbatches for a batch whose other fields are set. */
int pl_batch_microbatches(const pl_mesh *mesh, const pl_batch *batch);

/** Whether a layer is one of the model's, which have numbers: no PL_LAYER_. */
static inline bool pl_layer_is_numbered(int layer)
{
    return layer >= 0 && layer < PL_LAYER_HEAD;
}

/** The value that owns v's storage: the end of its chain of aliases. */
int pl_value_owner(const pl_program *p, int v);

/** The value that owns v's storage, and v's offset in it in elements for the rank at coords. */
int pl_value_storage(const pl_program *p, int v, pl_coords coords, int64_t *offset);

#endif
