#include "config.h"

#include "src/roofline/rates.h"

#include "collectives/combine.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "src/base/bf16.h"
#include "src/base/clock.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/span.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20, MOST_PASSES = 3, TURNS_PASSES = 2 };

static void *alloc_ones(pl_dtype dtype, int64_t n)
{
    float *x = pl_alloc((size_t)n * pl_dtype_bytes(dtype));
    pl_bf16 *halves = (pl_bf16 *)x;

    for (int64_t i = 0; i < n; i++) {
        if (dtype == PL_BF16)
            halves[i] = pl_bf16_of_f32(1.0f);
        else
            x[i] = 1.0f;
    }
    return x;
}

typedef struct {
    pl_dtype dtype;
    int64_t n;
    void *a, *b, *c; /* [n, n] of dtype */
} square;

static void run_matmul(void *data)
{
    const square *s = data;
    const int64_t n = s->n;

    if (s->dtype == PL_F32)
        pl_matmul(PL_NO_TRANS, PL_NO_TRANS, n, n, n, s->a, n, s->b, n, false, s->c, n, NULL);
    else
        pl_matmul_run(&(pl_product){.M = n,
                                    .N = n,
                                    .K = n,
                                    .dtype = s->dtype,
                                    .c_dtype = s->dtype,
                                    .a = s->a,
                                    .b = s->b,
                                    .lda = n,
                                    .ldb = n,
                                    .ldc = n,
                                    .c = s->c,
                                    .count = 1},
                      NULL);
}

/* Square products, so that FLOPs alone say the size; matmul cuts larger products than
 * the last into blocks of about its size. */
static void measure_matmul(const pl_measure *m, pl_dtype dtype, pl_curve *curve)
{
    static const int64_t sizes[] = {8, 16, 32, 64, 128, 256, 512};
    enum { N_SIZES = sizeof sizes / sizeof sizes[0], LARGEST = 512 };
    square s = {.dtype = dtype,
                .a = alloc_ones(dtype, LARGEST * LARGEST),
                .b = alloc_ones(dtype, LARGEST * LARGEST),
                .c = alloc_ones(dtype, LARGEST * LARGEST)};

    curve->n_points = N_SIZES;
    for (int i = 0; i < N_SIZES; i++) {
        s.n = sizes[i];
        curve->size[i] = 2.0 * (double)(s.n * s.n * s.n);
        curve->rate[i] = curve->size[i] * pl_measure_rate(m, run_matmul, &s);
    }
    pl_free(s.a);
    pl_free(s.b);
    pl_free(s.c);
}

int64_t pl_largest_set(const pl_topology *t)
{
    const int64_t shared = t->l3_bytes > 0 ? t->l3_bytes : 32 * MIB;
    const int64_t bytes = 4 * shared / t->ranks_on_host;

    return bytes < 12 * MIB ? 12 * MIB : bytes > 128 * MIB ? 128 * MIB : bytes;
}

/* y = a + b, two arrays read and one written: inside L1, inside L2, beyond it, in memory. */
static void measure_memory(const pl_measure *m, int64_t largest, pl_machine *machine)
{
    const int64_t sets[] = {24 * KIB, 192 * KIB, 768 * KIB, 3 * MIB, largest};
    enum { N_SETS = sizeof sets / sizeof sets[0], APART = 272 };
    pl_curve *curve = &machine->memory_bytes_per_s;
    float *all = alloc_ones(PL_F32, largest / (int64_t)sizeof(float) + 3 * APART);

    curve->n_points = N_SETS;
    for (int i = 0; i < N_SETS; i++) {
        const int64_t n = sets[i] / (3 * (int64_t)sizeof(float));
        /* not a multiple of a page apart: that would make loads wait for stores */
        pl_sum s = {.n = n, .a = all, .b = all + n + APART, .y = all + 2 * (n + APART)};

        curve->size[i] = (double)(3 * n) * sizeof(float);
        curve->rate[i] = curve->size[i] * pl_measure_rate(m, pl_run_sum, &s);
    }
    pl_free(all);
}

enum { T = 256, B = 1, N = 4, K = 2, H = 64 };

typedef struct {
    pl_dtype dtype;
    void *q, *k, *v, *o, *do_, *dq, *dk, *dv;
    float *lse, *scratch;
} attention;

static void run_attention(void *data)
{
    const attention *a = data;
    const float scale = 0.125f; /* 1 / sqrt(H) */

    if (a->dtype == PL_BF16) {
        pl_attention_forward_bf16(T, B, N, K, H, scale, a->q, a->k, a->v, a->o, a->lse, a->scratch,
                                  NULL);
        pl_attention_backward_bf16(T, B, N, K, H, scale, a->q, a->k, a->v, a->o, a->do_, a->lse,
                                   a->dq, a->dk, a->dv, a->scratch, NULL);
        return;
    }
    pl_attention_forward(T, B, N, K, H, scale, a->q, a->k, a->v, a->o, a->lse, a->scratch, NULL);
    pl_attention_backward(T, B, N, K, H, scale, a->q, a->k, a->v, a->o, a->do_, a->lse, a->dq,
                          a->dk, a->dv, a->scratch, NULL);
}

static double measure_attention(const pl_measure *m, pl_dtype dtype)
{
    const double flops = 7.0 * B * N * H * T * (T + 1); /* 2 forward, 5 backward */
    const int64_t queries = T * B * N * H, keys = T * B * K * H;
    attention a = {.dtype = dtype,
                   .q = alloc_ones(dtype, queries),
                   .k = alloc_ones(dtype, keys),
                   .v = alloc_ones(dtype, keys),
                   .o = alloc_ones(dtype, queries),
                   .lse = alloc_ones(PL_F32, T * B * N),
                   .do_ = alloc_ones(dtype, queries),
                   .dq = alloc_ones(dtype, queries),
                   .dk = alloc_ones(dtype, keys),
                   .dv = alloc_ones(dtype, keys),
                   .scratch = alloc_ones(PL_F32, pl_attention_scratch(T, H))};
    void *const all[] = {a.q, a.k, a.v, a.o, a.lse, a.do_, a.dq, a.dk, a.dv, a.scratch};
    const double flops_per_s = flops * pl_measure_rate(m, run_attention, &a);

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        pl_free(all[i]);
    return flops_per_s;
}

static void run_reduce(void *data)
{
    const pl_sum *s = data;

    pl_combine_into(PL_F32, PL_SUM, s->y, s->a, s->n);
}

static void run_copy(void *data)
{
    const pl_sum *s = data;

    pl_copy(s->n, s->a, s->y);
}

/* At the size at which messages are measured. */
static void measure_reduce_and_copy(const pl_measure *m, pl_machine *machine)
{
    enum { LENGTH = MIB / sizeof(float) };
    pl_sum s = {.n = LENGTH, .a = alloc_ones(PL_F32, LENGTH), .y = alloc_ones(PL_F32, LENGTH)};

    machine->reduce_bytes_per_s = MIB * pl_measure_rate(m, run_reduce, &s);
    machine->copy_bytes_per_s = MIB * pl_measure_rate(m, run_copy, &s);
    pl_free(s.a);
    pl_free(s.y);
}

typedef struct {
    pl_measured kernel;
    pl_sum sum;
    pl_span_buffer spans;
} op;

/* What running an op costs beside its arithmetic: the call by pointer, two looks at the clock, a
 * span. */
static void run_op(void *data)
{
    op *o = data;
    const double begin_s = pl_now_s();

    o->kernel(&o->sum);
    o->spans.n_spans = 0;
    pl_span_add(&o->spans, PL_TRACK_COMPUTE, 0, 0, begin_s, pl_now_s());
}

static void measure_op_overhead(const pl_measure *m, pl_machine *machine)
{
    float x[3] = {0};
    op o = {.kernel = pl_run_sum, .sum = {.n = 1, .a = x, .b = x + 1, .y = x + 2}};

    pl_span_buffer_init(&o.spans, 1);
    machine->op_overhead_s = 1 / pl_measure_rate(m, run_op, &o);
    pl_span_buffer_free(&o.spans);
}

static void measure_kernels(const pl_measure *m, int64_t largest, pl_machine *machine)
{
    measure_matmul(m, PL_F32, &machine->matmul_flops_per_s);
    measure_memory(m, largest, machine);
    machine->attention_flops_per_s = measure_attention(m, PL_F32);
    measure_reduce_and_copy(m, machine);
    measure_op_overhead(m, machine);
}

/* What passes have measured, and how far they differ: the range of each figure over its median. */
typedef struct {
    pl_machine machine[MOST_PASSES];
    int n, n_figures;
    double difference[4 * PL_MACHINE_POINTS];
} passes;

/* The median of a figure, which lies `offset` bytes into each pass, and how far they lie apart. */
static void take_median(passes *p, size_t offset, double *spread, pl_machine *machine)
{
    double x[MOST_PASSES];

    for (int i = 0; i < p->n; i++)
        memcpy(&x[i], (const char *)&p->machine[i] + offset, sizeof x[i]);
    const double median = pl_median(x, p->n); /* sorts */
    memcpy((char *)machine + offset, &median, sizeof median);
    *spread = (x[p->n - 1] - x[0]) / median;
    p->difference[p->n_figures++] = *spread;
}

/* The same of a curve: of its rate at each size. */
static void take_median_curve(passes *p, size_t offset, pl_machine *machine)
{
    pl_curve *curve = (pl_curve *)((char *)machine + offset);

    memcpy(curve, (const char *)&p->machine[0] + offset, sizeof *curve);
    for (int i = 0; i < curve->n_points; i++)
        take_median(p, offset + offsetof(pl_curve, rate) + (size_t)i * sizeof(double),
                    &curve->spread[i], machine);
}

static double best_of(const pl_curve *curve)
{
    double best = 0;

    for (int i = 0; i < curve->n_points; i++)
        best = fmax(best, curve->rate[i]);
    return best;
}

/* A disturbance that lasts for less than a pass spoils one value of each figure at most. Where
 * ranks take turns there is no time for a third. */
static passes begin_passes(const pl_measure *m)
{
    return (passes){.n = m->take_turns ? TURNS_PASSES : MOST_PASSES};
}

/* Everything about kernels: passes, each figure their median. */
void pl_measure_rates(const pl_measure *m, int64_t largest, pl_machine *machine)
{
    pl_spreads *spread = &machine->spread;
    passes p = begin_passes(m);

    for (int i = 0; i < p.n; i++)
        measure_kernels(m, largest, &p.machine[i]);
    take_median(&p, offsetof(pl_machine, attention_flops_per_s), &spread->attention_flops_per_s,
                machine);
    take_median(&p, offsetof(pl_machine, reduce_bytes_per_s), &spread->reduce_bytes_per_s, machine);
    take_median(&p, offsetof(pl_machine, copy_bytes_per_s), &spread->copy_bytes_per_s, machine);
    take_median(&p, offsetof(pl_machine, op_overhead_s), &spread->op_overhead_s, machine);
    take_median_curve(&p, offsetof(pl_machine, matmul_flops_per_s), machine);
    take_median_curve(&p, offsetof(pl_machine, memory_bytes_per_s), machine);
    machine->peak_flops_per_s = best_of(&machine->matmul_flops_per_s);
    machine->difference = pl_median(p.difference, p.n_figures);
}

/* The same of what bf16 needs. */
void pl_measure_bf16_rates(const pl_measure *m, pl_machine *machine)
{
    passes p = begin_passes(m);

    for (int i = 0; i < p.n; i++) {
        measure_matmul(m, PL_BF16, &p.machine[i].matmul_bf16_flops_per_s);
        p.machine[i].attention_bf16_flops_per_s = measure_attention(m, PL_BF16);
    }
    take_median(&p, offsetof(pl_machine, attention_bf16_flops_per_s),
                &machine->spread.attention_bf16_flops_per_s, machine);
    take_median_curve(&p, offsetof(pl_machine, matmul_bf16_flops_per_s), machine);
    machine->peak_bf16_flops_per_s = best_of(&machine->matmul_bf16_flops_per_s);
    machine->difference = fmax(machine->difference, pl_median(p.difference, p.n_figures));
}
