/* peak -- one loop an ISA. Each accumulator is a chain of its own; what is multiplied never
 * changes, and the sums remain far from overflow for any n that can be waited for. */
#include "config.h"

#include "kernels/peak.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "src/base/panic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Accumulators of a loop: 24 of the 32 registers of AVX-512, 12 of the 16 before it. */
enum { WIDE_CHAINS = 24, CHAINS = 12, GENERIC_LANES = 4 };

typedef float generic __attribute__((vector_size(4 * GENERIC_LANES)));

const char *pl_multiply_name(pl_multiply_kind kind)
{
    static const char *const names[PL_N_MULTIPLIES] = {"f32", "bf16", "int8"};

    return names[kind];
}

/* x is less than 1, so that the chains tend to a limit; a compiler may not reorder them. */
static double f32_generic(int64_t n)
{
    const generic x = {0.5f, 0.25f, 0.125f, 0.0625f};
    generic sum[CHAINS];

    for (int i = 0; i < CHAINS; i++)
        sum[i] = x * (float)i;
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = x * sum[i] + x;
    for (int i = 1; i < CHAINS; i++)
        sum[0] += sum[i];
    return (double)sum[0][0];
}

#if defined(__x86_64__)
#define PL_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PL_VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

/* The empty asm keeps each result in a register of its own. The three loops of AVX-512 stay written
 * out: one that is given the instruction reached a ninth less (measured). */

PL_AVX2 static double f32_avx2(int64_t n)
{
    const __m256 x = _mm256_set1_ps(0.5f);
    __m256 sum[CHAINS];

#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sum[i] = _mm256_fmadd_ps(x, x, sum[i]);
            __asm__("" : "+x"(sum[i]));
        }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return (double)_mm256_cvtss_f32(sum[0]);
}

PL_AVX512 static double f32_avx512(int64_t n)
{
    const __m512 x = _mm512_set1_ps(0.5f);
    __m512 sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = _mm512_fmadd_ps(x, x, sum[i]);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < WIDE_CHAINS; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (double)_mm512_reduce_add_ps(sum[0]);
}

PL_BF16_TARGET static double bf16_avx512(int64_t n)
{
    const __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f00); /* 0.5 */
    __m512 sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < WIDE_CHAINS; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (double)_mm512_reduce_add_ps(sum[0]);
}

PL_VNNI_TARGET static double int8_avx512(int64_t n)
{
    const __m512i x = _mm512_set1_epi8(1);
    __m512i sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = _mm512_set1_epi32(i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = _mm512_dpbusd_epi32(sum[i], x, x);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < WIDE_CHAINS; i++)
        sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    return (double)_mm512_reduce_add_epi32(sum[0]);
}

/* A loop, its accumulators, and the operations of one of its instructions. */
typedef struct {
    double (*run)(int64_t n);
    int chains, operations;
} loop;

static loop loop_of(pl_multiply_kind kind)
{
    const pl_isa isa = pl_isa_get();

    if (kind == PL_MULTIPLY_BF16)
        return isa == PL_ISA_AVX512BF16 ? (loop){bf16_avx512, WIDE_CHAINS, 64} : (loop){0};
    if (kind == PL_MULTIPLY_INT8)
        return isa >= PL_ISA_AVX512 && __builtin_cpu_supports("avx512vnni")
                   ? (loop){int8_avx512, WIDE_CHAINS, 128}
                   : (loop){0};
    if (isa == PL_ISA_GENERIC)
        return (loop){f32_generic, CHAINS, 2 * GENERIC_LANES};
    return isa == PL_ISA_AVX2 ? (loop){f32_avx2, CHAINS, 16} : (loop){f32_avx512, WIDE_CHAINS, 32};
}
#else

#if defined(__aarch64__)
__attribute__((target("arch=armv8.2-a+bf16"))) static double bf16_neon(int64_t n)
{
    const bfloat16x8_t x = (bfloat16x8_t)vdupq_n_u16(0x3f81); /* a little above 1 */
    float32x4_t sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = vdupq_n_f32((float)i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = vbfdotq_f32(sum[i], x, x);
            __asm__("" : "+w"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 1; i < WIDE_CHAINS; i++)
        sum[0] += sum[i];
    return (double)sum[0][0];
}
#endif

typedef struct {
    double (*run)(int64_t n);
    int chains, operations;
} loop;

static loop loop_of(pl_multiply_kind kind)
{
#if defined(__aarch64__)
    if (kind == PL_MULTIPLY_BF16 && pl_isa_multiplies_bf16())
        return (loop){bf16_neon, WIDE_CHAINS, 16};
#endif
    return kind == PL_MULTIPLY_F32 ? (loop){f32_generic, CHAINS, 2 * GENERIC_LANES} : (loop){0};
}
#endif

double pl_multiply_operations(pl_multiply_kind kind)
{
    const loop l = loop_of(kind);

    return (double)(l.chains * l.operations);
}

double pl_multiply_run(pl_multiply_kind kind, int64_t n)
{
    const loop l = loop_of(kind);

    PL_ASSERT(l.run != NULL);
    return l.run(n);
}
