#include "config.h"

#include "src/kernbench/point.h"

#include "kernels/stream.h"
#include "src/base/memory.h"
#include "src/kernbench/check.h"

#include <math.h>
#include <string.h>

enum { LINE = 64, PEAK_ROUNDS = 2000 };

double pl_point_intensity(const pl_point *p)
{
    return p->flops / p->bytes;
}

double pl_point_rate(const pl_point *p, double time_s)
{
    return (p->counts_flops ? p->flops : p->bytes) / time_s;
}

double pl_point_percent(const pl_point *p)
{
    return 100 * p->roof_s / p->time_s;
}

/* ---- the contenders */

/* The loops beside a kernel: which of them run is told by what they would measure. */
typedef enum { LOOP_PEAK, LOOP_READ, LOOP_COPY, LOOP_PAST, LOOP_UPDATE, N_LOOPS } loop;

typedef struct {
    char *x;
    size_t bytes;
    pl_multiply_kind peak;
    volatile double sink; /* results that nobody reads */
} loop_data;

typedef struct {
    pl_contender ours, peer[PL_N_PEERS], loop[N_LOOPS];
    pl_peer_call *call[PL_N_PEERS];
    loop_data data;
    int n;
    pl_contender *all[1 + PL_N_PEERS + N_LOOPS];
} field;

static void run_case(void *data, int64_t number)
{
    (void)number;
    pl_case_run(data);
}

static void run_peer(void *data, int64_t number)
{
    (void)number;
    pl_peer_call_run(data);
}

static void run_peak(void *data, int64_t number)
{
    loop_data *l = data;

    (void)number;
    l->sink = pl_multiply_run(l->peak, PEAK_ROUNDS);
}

static void run_read(void *data, int64_t number)
{
    loop_data *l = data;

    (void)number;
    l->sink = (double)pl_stream_read(l->x, l->bytes);
}

/* Halves of the working set, not a multiple of a page apart. */
static void copy_half(const loop_data *l, int past)
{
    const size_t half = l->bytes / 2 / LINE * LINE;

    pl_stream_copy(l->x, l->x + half + 17 * LINE, half, past);
}

static void run_copy(void *data, int64_t number)
{
    (void)number;
    copy_half(data, 0);
}

static void run_past(void *data, int64_t number)
{
    (void)number;
    copy_half(data, 1);
}

static void run_update(void *data, int64_t number)
{
    const loop_data *l = data;

    (void)number;
    pl_stream_update(l->x, l->bytes);
}

static void enter(field *f, pl_contender *c, void (*call)(void *, int64_t), void *data)
{
    *c = (pl_contender){.call = call, .data = data};
    f->all[f->n++] = c;
}

static bool counts_flops(const pl_case *c)
{
    return c->cost.is_matmul || c->cost.is_attention;
}

/* The peak that a case is held against: bf16 and bytes have one only where there are such
 * instructions. */
static pl_multiply_kind peak_of(const pl_case *c)
{
    if (c->kernel->weights == PL_WEIGHTS_INT8 && pl_multiply_operations(PL_MULTIPLY_INT8) > 0)
        return PL_MULTIPLY_INT8;
    if (counts_flops(c) && c->dtype == PL_BF16 && pl_multiply_operations(PL_MULTIPLY_BF16) > 0)
        return PL_MULTIPLY_BF16;
    return PL_MULTIPLY_F32;
}

static void prepare_memory(pl_stand *stand, const pl_case *c, field *f)
{
    const size_t bytes = (size_t)c->set_bytes / LINE * LINE, room = bytes + 18 * LINE;

    if (room > stand->stream_bytes) {
        pl_free(stand->stream);
        stand->stream = pl_alloc(room);
        stand->stream_bytes = room;
        memset(stand->stream, 1, room);
    }
    f->data.x = stand->stream;
    f->data.bytes = bytes;
}

static void prepare(pl_stand *stand, pl_case *c, field *f)
{
    *f = (field){.data = {.peak = peak_of(c)}};
    enter(f, &f->ours, run_case, c);
    if (counts_flops(c)) {
        for (int i = 0; i < PL_N_PEERS; i++) {
            f->call[i] =
                stand->peers.asked[i] ? pl_peer_call_create(&stand->peers, (pl_peer)i, c) : NULL;
            if (f->call[i] != NULL)
                enter(f, &f->peer[i], run_peer, f->call[i]);
        }
        enter(f, &f->loop[LOOP_PEAK], run_peak, &f->data);
        return;
    }
    prepare_memory(stand, c, f);
    if (c->cost.bytes > c->written_bytes + c->updated_bytes)
        enter(f, &f->loop[LOOP_READ], run_read, &f->data);
    if (c->written_bytes > 0) {
        enter(f, &f->loop[LOOP_COPY], run_copy, &f->data);
        enter(f, &f->loop[LOOP_PAST], run_past, &f->data);
    }
    if (c->updated_bytes > 0)
        enter(f, &f->loop[LOOP_UPDATE], run_update, &f->data);
}

/* ---- what was found */

static double rate(const pl_contender *c, double per_call)
{
    return c->call != NULL ? per_call / c->median_s : 0;
}

/* Bytes per second of each use of memory: as just measured, or, of what had no part, as before. */
static void find_bandwidth(const pl_stand *stand, const pl_case *c, const field *f,
                           double bytes_per_s[PL_N_STREAMS])
{
    const double bytes = (double)f->data.bytes;
    const double now[PL_N_STREAMS] = {
        [PL_STREAM_READ] = rate(&f->loop[LOOP_READ], bytes),
        [PL_STREAM_COPY] = fmax(rate(&f->loop[LOOP_COPY], bytes), rate(&f->loop[LOOP_PAST], bytes)),
        [PL_STREAM_UPDATE] = rate(&f->loop[LOOP_UPDATE], 2 * bytes)};

    for (int u = 0; u < PL_N_STREAMS; u++)
        bytes_per_s[u] =
            now[u] > 0 ? now[u] : pl_curve_at(&stand->peaks.bytes_per_s[u], c->set_bytes);
}

static void find_roof(const pl_stand *stand, const pl_case *c, const field *f, pl_point *p)
{
    const double read = c->cost.bytes - c->written_bytes - c->updated_bytes;
    double bytes_per_s[PL_N_STREAMS];
    double flops_per_s =
        rate(&f->loop[LOOP_PEAK], PEAK_ROUNDS * pl_multiply_operations(f->data.peak));

    if (!(flops_per_s > 0))
        flops_per_s = stand->peaks.flops_per_s[f->data.peak];
    find_bandwidth(stand, c, f, bytes_per_s);
    const double memory_s = pl_stream_time_s(bytes_per_s, read, c->written_bytes, c->updated_bytes);
    const double flops_s = c->cost.flops / flops_per_s;

    p->limit = flops_s >= memory_s ? PL_LIMIT_FLOPS : PL_LIMIT_MEMORY;
    p->roof_s = fmax(flops_s, memory_s);
}

/* Ours and the peers' results, all on numbers that have an exact or a bounded answer. */
static int64_t count_wrong(pl_stand *stand, pl_case *c)
{
    int64_t wrong = pl_check_case(c);

    for (int i = 0; i < PL_N_PEERS && c->is_product; i++) {
        pl_peer_call *call =
            stand->peers.asked[i] ? pl_peer_call_create(&stand->peers, (pl_peer)i, c) : NULL;
        if (call == NULL)
            continue;
        pl_peer_call_run(call);
        const pl_array result = pl_peer_call_result(call);
        wrong += pl_check_product(c, &result);
        pl_peer_call_destroy(call);
    }
    return wrong;
}

void pl_point_measure(pl_stand *stand, pl_case *c, pl_point *p)
{
    field f;

    *p = (pl_point){.kernel = c->kernel,
                    .group = c->group,
                    .dtype = c->dtype,
                    .flops = c->cost.flops,
                    .bytes = c->cost.bytes,
                    .set_bytes = c->set_bytes,
                    .counts_flops = counts_flops(c),
                    .wrong = stand->check ? count_wrong(stand, c) : -1};
    memcpy(p->shape, c->shape, sizeof p->shape);
    pl_case_fill(c, false);
    prepare(stand, c, &f);
    pl_contenders_time(&stand->clock, f.all, f.n);
    p->time_s = f.ours.median_s;
    p->min_s = f.ours.min_s;
    for (int i = 0; i < PL_N_PEERS; i++) {
        p->peer_s[i] = f.call[i] != NULL ? f.peer[i].median_s : NAN;
        pl_peer_call_destroy(f.call[i]);
    }
    find_roof(stand, c, &f, p);
}
