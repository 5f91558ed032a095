#include "config.h"

#include "src/kernbench/point.h"

#include "kernels/stream.h"
#include "src/base/memory.h"
#include "src/kernbench/check.h"

#include <math.h>
#include <string.h>

enum { PEAK_ROUNDS = 2000 };

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

/* The loops beside a kernel. */
typedef struct {
    pl_multiply_kind kind;
    volatile double sink; /* results that nobody reads */
} peak_loop;

typedef struct {
    const pl_mix *mix;
    int way;
    char *x;
    size_t bytes;
    volatile uint64_t sink;
} memory_loop;

typedef struct {
    pl_contender ours, peer[PL_N_PEERS], peak, memory[PL_MIX_WAYS];
    pl_peer_call *call[PL_N_PEERS];
    peak_loop peak_loop;
    pl_mix mix;
    memory_loop memory_loop[PL_MIX_WAYS];
    int n;
    pl_contender *all[2 + PL_N_PEERS + PL_MIX_WAYS];
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
    peak_loop *l = data;

    (void)number;
    l->sink = pl_multiply_run(l->kind, PEAK_ROUNDS);
}

static void run_memory(void *data, int64_t number)
{
    memory_loop *l = data;

    (void)number;
    l->sink = pl_mix_run(l->mix, l->way, l->x, l->bytes);
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

static bool writes_apart(const pl_mix *mix)
{
    for (int i = 0; i < mix->n; i++)
        if (mix->stream[i].use == PL_STREAM_WRITE)
            return true;
    return false;
}

/* The kernel's own mix of streams over as large a working set, in each way that differs. */
static void prepare_memory(pl_stand *stand, const pl_case *c, field *f)
{
    f->mix = pl_case_mix(c);
    const size_t bytes = (size_t)c->set_bytes, room = pl_mix_room(&f->mix, bytes);

    if (room > stand->stream_bytes) {
        pl_free(stand->stream);
        stand->stream = pl_alloc(room);
        stand->stream_bytes = room;
        memset(stand->stream, 1, room);
    }
    for (int way = 0; way < PL_MIX_WAYS; way++) {
        if (way % 2 == PL_MIX_PAST && !writes_apart(&f->mix))
            continue;
        f->memory_loop[way] =
            (memory_loop){.mix = &f->mix, .way = way, .x = stand->stream, .bytes = bytes};
        enter(f, &f->memory[way], run_memory, &f->memory_loop[way]);
    }
}

static void prepare(pl_stand *stand, pl_case *c, field *f)
{
    *f = (field){.peak_loop = {.kind = peak_of(c)}};
    enter(f, &f->ours, run_case, c);
    if (counts_flops(c)) {
        for (int i = 0; i < PL_N_PEERS; i++) {
            f->call[i] =
                stand->peers.asked[i] ? pl_peer_call_create(&stand->peers, (pl_peer)i, c) : NULL;
            if (f->call[i] != NULL)
                enter(f, &f->peer[i], run_peer, f->call[i]);
        }
        enter(f, &f->peak, run_peak, &f->peak_loop);
    } else {
        prepare_memory(stand, c, f);
    }
}

/* ---- what was found */

static double rate(const pl_contender *c, double per_call)
{
    return c->call != NULL ? per_call / c->median_s : 0;
}

/* Seconds that the case's traffic takes at least: as the fastest of the loops in turn with it; of
 * products as before, at their working set. */
static double memory_s(const pl_stand *stand, const pl_case *c, const field *f)
{
    double bytes_per_s[PL_N_TRAFFIC], best = 0;

    if (!counts_flops(c)) {
        for (int way = 0; way < PL_MIX_WAYS; way++)
            best = fmax(best, rate(&f->memory[way], pl_mix_bytes(&f->mix, (size_t)c->set_bytes)));
        return c->cost.bytes / best;
    }
    for (int t = 0; t < PL_N_TRAFFIC; t++)
        bytes_per_s[t] = pl_curve_at(&stand->peaks.bytes_per_s[t], c->set_bytes);
    return pl_traffic_time_s(bytes_per_s, c->cost.bytes - c->written_bytes - c->updated_bytes,
                             c->written_bytes, c->updated_bytes);
}

static void find_roof(const pl_stand *stand, const pl_case *c, const field *f, pl_point *p)
{
    double flops_per_s = rate(&f->peak, PEAK_ROUNDS * pl_multiply_operations(f->peak_loop.kind));

    if (!(flops_per_s > 0))
        flops_per_s = stand->peaks.flops_per_s[f->peak_loop.kind];
    const double flops_s = c->cost.flops / flops_per_s, traffic_s = memory_s(stand, c, f);

    p->limit = flops_s >= traffic_s ? PL_LIMIT_FLOPS : PL_LIMIT_MEMORY;
    p->roof_s = fmax(flops_s, traffic_s);
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
