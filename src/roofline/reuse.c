#include "config.h"

#include "src/roofline/reuse.h"

#include "src/program/kinds.h"

#include <math.h>

enum { MOST_PIECES = 8192, LEAST_PIECE = 4096 };

/* When each piece of a pool was last touched: by the clock, and by which action. */
typedef struct {
    int64_t n_pieces, piece_bytes;
    double *at_bytes; /* -1: never */
    int *by;
} pool;

typedef struct {
    const pl_program *p;
    pl_coords coords;
    double near_bytes, mid_bytes;
    pool pools[PL_N_CLASSES];
    double clock_bytes;
    int n_done; /* actions */
} walk;

static void pool_init(pool *of, size_t bytes)
{
    const int64_t n = (int64_t)bytes;

    of->piece_bytes = (n + MOST_PIECES - 1) / MOST_PIECES;
    if (of->piece_bytes < LEAST_PIECE)
        of->piece_bytes = LEAST_PIECE;
    of->n_pieces = n / of->piece_bytes + 1;
    of->at_bytes = pl_alloc((size_t)of->n_pieces * sizeof *of->at_bytes);
    of->by = pl_alloc((size_t)of->n_pieces * sizeof *of->by);
    for (int64_t i = 0; i < of->n_pieces; i++)
        of->at_bytes[i] = of->by[i] = -1;
}

/* The part that no longer lies in a cache of c bytes what was touched d bytes ago. */
static double part_beyond(double d, double c)
{
    const double times = 2 * d / c;

    if (!(c > 0) || times >= 4)
        return 1;
    return times > 1 ? log2(times) / 2 : 0; /* over two octaves */
}

static void add_bytes(const walk *w, double bytes, double distance, pl_reuse *reuse)
{
    const double far = isinf(distance) ? 1 : part_beyond(distance, w->mid_bytes);
    const double not_near = isinf(distance) ? 1 : part_beyond(distance, w->near_bytes);

    reuse->bytes[0] += bytes * (1 - not_near);
    reuse->bytes[1] += bytes * (not_near > far ? not_near - far : 0);
    reuse->bytes[2] += bytes * (not_near > far ? far : not_near);
}

static double bytes_of(const walk *w, int v)
{
    return (double)pl_local_elements(w->p, v, w->coords) *
           (double)pl_dtype_bytes(w->p->values[v].dtype);
}

/* Operands are passed through side by side: a piece in the middle of one is touched when half of
 * all bytes of the op have been. What an op touches twice (in place) comes from near. */
static void touch(walk *w, int v, double op_bytes, pl_reuse *reuse)
{
    int64_t offset;
    const int owner = pl_value_storage(w->p, v, w->coords, &offset);
    const pl_value *value = &w->p->values[owner];
    pool *at = &w->pools[value->class];
    const double bytes = bytes_of(w, v);
    const int64_t begin =
        value->offset + offset * (int64_t)pl_dtype_bytes(w->p->values[v].dtype);
    int64_t first = begin / at->piece_bytes;
    int64_t last = (begin + (int64_t)bytes - 1) / at->piece_bytes;

    if (value->offset < 0 || bytes < 1)
        return;
    last = last < at->n_pieces ? last : at->n_pieces - 1;
    first = first < last ? first : last;
    const double n = (double)(last - first + 1);
    for (int64_t i = first; i <= last; i++) {
        const double now = w->clock_bytes + op_bytes * (double)(i - first) / n;
        double distance = at->at_bytes[i] < 0 ? INFINITY : now - at->at_bytes[i];

        if (at->by[i] == w->n_done) {
            distance = 0;
            reuse->again_bytes += bytes / n;
        }
        add_bytes(w, bytes / n, distance, reuse);
        at->at_bytes[i] = now;
        at->by[i] = w->n_done;
    }
}

static void touch_operands(walk *w, const pl_op *op, pl_reuse *reuse)
{
    double op_bytes = 0;

    for (int k = 0; k < op->n_in; k++)
        op_bytes += bytes_of(w, op->in[k]);
    for (int k = 0; k < op->n_out; k++)
        op_bytes += bytes_of(w, op->out[k]);
    *reuse = (pl_reuse){.again_bytes = 0};
    for (int k = 0; k < op->n_in; k++)
        touch(w, op->in[k], op_bytes, reuse);
    for (int k = 0; k < op->n_out; k++)
        touch(w, op->out[k], op_bytes, reuse);
    w->clock_bytes += op_bytes;
    w->n_done++;
}

void pl_reuse_find(const pl_program *p, pl_coords coords, double near_bytes, double mid_bytes,
                   pl_reuse *reuse)
{
    walk w = {.p = p, .coords = coords, .near_bytes = near_bytes, .mid_bytes = mid_bytes};

    for (int c = 0; c < PL_N_CLASSES; c++)
        pool_init(&w.pools[c], p->pool_bytes[c]);
    for (int i = 0; i < p->n_ops; i++)
        reuse[i] = (pl_reuse){.again_bytes = 0};
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < p->n_actions; a++)
            if (p->actions[a].kind != PL_ACTION_START)
                touch_operands(&w, &p->ops[p->actions[a].op], &reuse[p->actions[a].op]);
    for (int c = 0; c < PL_N_CLASSES; c++) {
        pl_free(w.pools[c].at_bytes);
        pl_free(w.pools[c].by);
    }
}
