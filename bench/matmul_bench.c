/* matmul_bench -- our matmul beside OpenBLAS's sgemm, one thread, shape by shape: rates, their
 * ratio, percent of the peak of multiply-add instructions on registers.
 *
 * Usage: matmul_bench [f32|bf16|packed|bf16packed|int8|bf16out] [GROUP | M N K [nn, nt, tn, tt]]
 * int8: weights of bytes, activations bf16; bf16out: the product is bf16 too. GROUP: square, model,
 * small, skinny. The two alternate; each figure is the fastest of several rounds. */
#include "config.h"

#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int8.h"
#include "kernels/matmul_openblas.h"

#include "kernels/lanes.h"
#include "src/base/bf16.h"
#include "src/base/clock.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/program/cores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    int64_t M, N, K;
    const char *trans;
    const char *group;
} shape;

static const shape shapes[] = {
    {256, 256, 256, "nn", "square"},    {384, 384, 384, "nn", "square"},
    {512, 512, 512, "nn", "square"},    {768, 768, 768, "nn", "square"},
    {1024, 1024, 1024, "nn", "square"}, {1536, 1536, 1536, "nn", "square"},
    {2048, 2048, 2048, "nn", "square"}, {2048, 512, 512, "nn", "model"},
    {2048, 256, 512, "nn", "model"},    {2048, 1536, 512, "nn", "model"},
    {2048, 512, 1536, "nn", "model"},   {2048, 512, 512, "nt", "model"},
    {2048, 512, 256, "nt", "model"},    {2048, 512, 1536, "nt", "model"},
    {2048, 1536, 512, "nt", "model"},   {512, 512, 2048, "tn", "model"},
    {512, 256, 2048, "tn", "model"},    {512, 1536, 2048, "tn", "model"},
    {1536, 512, 2048, "tn", "model"},   {1024, 1024, 1024, "tt", "model"},
    {64, 64, 64, "nn", "small"},        {64, 64, 64, "nt", "small"},
    {64, 64, 64, "tn", "small"},        {96, 96, 96, "nn", "small"},
    {128, 128, 128, "nn", "small"},     {128, 128, 128, "nt", "small"},
    {128, 128, 128, "tn", "small"},     {192, 192, 192, "nn", "small"},
    {192, 192, 192, "nt", "small"},     {256, 64, 256, "nn", "small"},
    {64, 256, 128, "nt", "small"},      {256, 256, 64, "nt", "small"},
    {256, 64, 256, "tn", "small"},      {1, 512, 512, "nn", "skinny"},
    {1, 1536, 512, "nn", "skinny"},     {1, 4096, 1024, "nn", "skinny"},
    {1, 512, 1536, "nt", "skinny"},     {2, 1536, 512, "nn", "skinny"},
    {4, 512, 512, "nn", "skinny"},      {4, 1536, 512, "nt", "skinny"},
    {8, 1536, 512, "nn", "skinny"},     {8, 512, 1536, "nt", "skinny"},
    {16, 512, 512, "nn", "skinny"},     {16, 1536, 512, "nt", "skinny"},
    {32, 1536, 512, "nn", "skinny"},    {32, 512, 1536, "nt", "skinny"},
    {64, 512, 512, "nn", "skinny"},     {64, 1536, 512, "nn", "skinny"},
    {64, 1536, 512, "nt", "skinny"},    {64, 4096, 1024, "nn", "skinny"},
    {64, 4096, 1024, "nt", "skinny"},   {2048, 1, 512, "nn", "skinny"},
    {2048, 4, 512, "nn", "skinny"},     {2048, 16, 512, "nn", "skinny"},
    {2048, 64, 512, "nn", "skinny"},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, ROUNDS = 25 };

typedef enum { F32, BF16, PACKED, BF16_PACKED, INT8, BF16_OUT, N_FLAVOURS } flavour;

/* --- peaks: 24 chains of multiply-adds, nothing else --- */

#if defined(__x86_64__)
#define BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

PL_AVX512 static double run_f32(int64_t n)
{
    __m512 sum[24], x = _mm512_set1_ps(1e-3f);

#pragma GCC unroll 24
    for (int i = 0; i < 24; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) {
            sum[i] = _mm512_fmadd_ps(x, x, sum[i]);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < 24; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (double)_mm512_reduce_add_ps(sum[0]);
}

BF16_TARGET static double run_bf16(int64_t n)
{
    const __m512bh x = (__m512bh)_mm512_set1_epi16(0x3a83);
    __m512 sum[24];

#pragma GCC unroll 24
    for (int i = 0; i < 24; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) {
            sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < 24; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (double)_mm512_reduce_add_ps(sum[0]);
}

PL_AVX2 static double run_avx2(int64_t n)
{
    __m256 sum[12], x = _mm256_set1_ps(1e-3f);

#pragma GCC unroll 24
    for (int i = 0; i < 12; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < 12; i++) {
            sum[i] = _mm256_fmadd_ps(x, x, sum[i]);
            __asm__("" : "+x"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < 12; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return (double)_mm256_cvtss_f32(sum[0]);
}

/** FLOP/s of the ISA in use; 0 where none is known. */
static double measure_peak(flavour what)
{
    enum { N = 200000 };
    const bool bf16 = (what == BF16 || what == BF16_PACKED || what == INT8 || what == BF16_OUT) &&
                      pl_isa_get() == PL_ISA_AVX512BF16;
    double best_s = INFINITY;
    volatile double sink;

    if (pl_isa_get() == PL_ISA_GENERIC)
        return 0.0;
    for (int r = 0; r < 10; r++) {
        const double begin_s = pl_now_s();

        sink = bf16 ? run_bf16(N) : pl_isa_get() == PL_ISA_AVX2 ? run_avx2(N) : run_f32(N);
        (void)sink;
        best_s = fmin(best_s, pl_now_s() - begin_s);
    }
    if (pl_isa_get() == PL_ISA_AVX2)
        return 12.0 * 8 * 2 * N / best_s;
    /* vpdpbusd runs as often as vpdpbf16ps and does four products a lane */
    return 24.0 * 16 * (what == INT8 ? 8 : bf16 ? 4 : 2) * N / best_s;
}
#else
static double measure_peak(flavour what)
{
    (void)what;
    return 0.0;
}
#endif

/* --- one shape --- */

typedef struct {
    double own_s, openblas_s;
} times;

static float *numbers(int64_t n, uint64_t state)
{
    float *x = pl_alloc((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(state >> 40) * 0x1p-24f - 0.5f;
    }
    return x;
}

static pl_bf16 *rounded(int64_t n, const float *x)
{
    pl_bf16 *y = pl_alloc((size_t)n * sizeof *y);

    for (int64_t i = 0; i < n; i++)
        y[i] = pl_bf16_of_f32(x[i]);
    return y;
}

/** Seconds per call of n calls. */
static double time_own(const pl_product *p, int64_t n)
{
    const double begin_s = pl_now_s();

    for (int64_t i = 0; i < n; i++)
        if (p->dtype == PL_F32 && p->packed == NULL) /* as the program calls it */
            pl_matmul(p->trans_a, p->trans_b, p->M, p->N, p->K, p->a, p->lda, p->b, p->ldb, false,
                      p->c, p->ldc, NULL);
        else
            pl_matmul_run(p, NULL);
    return (pl_now_s() - begin_s) / (double)n;
}

static double time_openblas(const pl_product *p, const float *a, const float *b, float *c,
                            int64_t n)
{
    const double begin_s = pl_now_s();

    for (int64_t i = 0; i < n; i++)
        pl_matmul_openblas(p->trans_a, p->trans_b, p->M, p->N, p->K, a, p->lda, b, p->ldb, false, c,
                           p->N, NULL);
    return (pl_now_s() - begin_s) / (double)n;
}

static times measure(shape z, flavour what)
{
    const bool bf16 = what == BF16 || what == BF16_PACKED || what == INT8 || what == BF16_OUT;
    float *a = numbers(z.M * z.K, 1), *b = numbers(z.K * z.N, 2), *c = numbers(z.M * z.N, 3);
    pl_bf16 *a_bf16 = rounded(z.M * z.K, a), *b_bf16 = rounded(z.K * z.N, b);
    const bool ta = z.trans[0] == 't', tb = z.trans[1] == 't';
    pl_product p = {.trans_a = ta ? PL_TRANS : PL_NO_TRANS,
                    .trans_b = tb ? PL_TRANS : PL_NO_TRANS,
                    .M = z.M,
                    .N = z.N,
                    .K = z.K,
                    .dtype = bf16 ? PL_BF16 : PL_F32,
                    .c_dtype = what == BF16_OUT ? PL_BF16 : PL_F32,
                    .a = bf16 ? (const void *)a_bf16 : a,
                    .b = bf16 ? (const void *)b_bf16 : b,
                    .lda = ta ? z.M : z.K,
                    .ldb = tb ? z.K : z.N,
                    .ldc = z.N,
                    .c = c,
                    .count = 1};
    pl_matmul_packed *packed = NULL;
    times best = {INFINITY, INFINITY};

    pl_int8_weights *weights = NULL;

    if (what == INT8) {
        weights = pl_int8_weights_create(z.K, z.N);
        pl_int8_weights_quantize(weights, p.trans_b, PL_F32, b, p.ldb);
        p.int8 = weights;
    }
    if (what == PACKED || what == BF16_PACKED) {
        packed = pl_matmul_packed_create(p.dtype, z.K, z.N);
        pl_matmul_pack(packed, p.trans_b, p.b, p.ldb);
        p.packed = packed;
    }
    /* about 2 ms a round each: many short ones find quiet moments */
    const double once_s = fmin(time_own(&p, 1), time_own(&p, 1));
    const int64_t n = 1 + (int64_t)(0.002 / once_s);

    time_openblas(&p, a, b, c, 1);
    for (int r = 0; r < ROUNDS; r++) {
        best.own_s = fmin(best.own_s, time_own(&p, n));
        best.openblas_s = fmin(best.openblas_s, time_openblas(&p, a, b, c, n));
    }
    pl_matmul_packed_destroy(packed);
    pl_int8_weights_destroy(weights);
    pl_free(a);
    pl_free(b);
    pl_free(c);
    pl_free(a_bf16);
    pl_free(b_bf16);
    return best;
}

static double print_shape(shape z, flavour what, double peak)
{
    const times t = measure(z, what);
    const double flops = 2.0 * (double)z.M * (double)z.N * (double)z.K;

    printf("%-7s %s %5lld %5lld %5lld  own %7.1f  openblas %7.1f GFLOP/s  ratio %5.2f  %5.1f%% of "
           "peak\n",
           z.group, z.trans, (long long)z.M, (long long)z.N, (long long)z.K, flops / t.own_s / 1e9,
           flops / t.openblas_s / 1e9, t.openblas_s / t.own_s,
           peak > 0.0 ? flops / t.own_s / peak * 100 : 0.0);
    fflush(stdout);
    return t.openblas_s / t.own_s;
}

static void print_group(const char *group, flavour what, double peak)
{
    double log_sum = 0.0, worst = INFINITY;
    int n = 0;

    for (int i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].group, group) == 0) {
            const double ratio = print_shape(shapes[i], what, peak);

            log_sum += log(ratio);
            worst = fmin(worst, ratio);
            n++;
        }
    printf("%-7s ratio: geometric mean %.3f, least %.3f\n", group, exp(log_sum / n), worst);
}

int main(int argc, char **argv)
{
    static const char *const names[N_FLAVOURS] = {"f32",        "bf16", "packed",
                                                  "bf16packed", "int8", "bf16out"};
    static const char *const groups[] = {"square", "model", "small", "skinny"};
    flavour what = F32;
    pl_topology topology;

    if (pl_isa_choose() != PL_OK) {
        fprintf(stderr, "%s\n", pl_status_message());
        return 2;
    }
    for (int i = 0; i < N_FLAVOURS && argc > 1; i++)
        if (strcmp(argv[1], names[i]) == 0)
            what = (flavour)i;
    PL_MPI(MPI_Init(&argc, &argv));
    pl_topology_discover(MPI_COMM_WORLD, &topology);
    topology.threads = 1;
    pl_cores_use(&topology);
    const double peak = measure_peak(what);

    printf("%s, %s; openblas: %s; peak %.1f GFLOP/s\n", names[what], pl_matmul_backend(),
           pl_matmul_openblas_name(), peak / 1e9);
    if (argc >= 5) {
        const shape z = {atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), argc > 5 ? argv[5] : "nn",
                         "one"};

        print_shape(z, what, peak);
    }
    for (int g = 0; g < 4; g++)
        if (argc < 3 || strcmp(argv[2], groups[g]) == 0)
            print_group(groups[g], what, peak);
    PL_MPI(MPI_Finalize());
    return 0;
}
