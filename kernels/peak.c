/* peak -- one loop an ISA. Each accumulator is a chain of its own; what is multiplied never
 * changes, and the sums remain far from overflow for any n that can be waited for. */
#include "config.h"

#include "kernels/peak.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "src/base/panic.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Accumulators of a loop: 24 of the 32 registers of AVX-512, 12 of the 16 before it. */
enum { WIDE_CHAINS = 24, CHAINS = 12, GENERIC_LANES = 4, MOST_LANES = 16 * WIDE_CHAINS };

/* The accumulators before and after a loop: sums of bf16 are f32, those of int8 are int32. */
typedef union {
    float f32[MOST_LANES];
    int32_t i32[MOST_LANES];
} __attribute__((aligned(64))) lanes;

typedef float vec4 __attribute__((vector_size(4 * GENERIC_LANES), may_alias));

const char *pl_multiply_name(pl_multiply_kind kind)
{
    static const char *const names[PL_N_MULTIPLIES] = {"f32", "bf16", "int8"};

    return names[kind];
}

/* x is less than 1, so that the chains tend to a limit; a compiler may not reorder them. */
static void f32_generic(int64_t n, lanes *l)
{
    const vec4 x = {0.5f, 0.25f, 0.125f, 0.0625f};
    vec4 *at = (vec4 *)l, sum[CHAINS];

#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sum[i] = at[i];
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = x * sum[i] + x;
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        at[i] = sum[i];
}

/* A loop, its accumulators, their lanes, and the operations of one of its instructions. */
typedef struct {
    void (*run)(int64_t n, lanes *l);
    int chains, n_lanes, operations;
} loop;

static const loop generic_loop = {f32_generic, CHAINS, GENERIC_LANES, 2 * GENERIC_LANES};

#if defined(__x86_64__)
#define PL_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PL_VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

/* The empty asm keeps each result in a register of its own. */

PL_AVX2 static void f32_avx2(int64_t n, lanes *l)
{
    const __m256 x = _mm256_set1_ps(0.5f);
    __m256 *at = (__m256 *)l, sum[CHAINS];

#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sum[i] = at[i];
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sum[i] = _mm256_fmadd_ps(x, x, sum[i]);
            __asm__("" : "+x"(sum[i]));
        }
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        at[i] = sum[i];
}

/* sum + x * x, by the instruction in question. */
typedef __m512i multiply(__m512i sum, __m512i x);

PL_AVX512 static inline __m512i multiply_f32(__m512i sum, __m512i x)
{
    return _mm512_castps_si512(_mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(x),
                                               _mm512_castsi512_ps(sum)));
}

PL_BF16_TARGET static inline __m512i multiply_bf16(__m512i sum, __m512i x)
{
    return _mm512_castps_si512(
        _mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)x, (__m512bh)x));
}

PL_VNNI_TARGET static inline __m512i multiply_int8(__m512i sum, __m512i x)
{
    return _mm512_dpbusd_epi32(sum, x, x);
}

/* A body for each instruction: both functions are inlined into one that may use it. */
__attribute__((target("avx512f"))) PL_INLINE void wide(int64_t n, __m512i x, multiply *add,
                                                       lanes *l)
{
    __m512i *at = (__m512i *)l, sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = at[i];
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = add(sum[i], x);
            __asm__("" : "+v"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        at[i] = sum[i];
}

PL_AVX512 static void f32_avx512(int64_t n, lanes *l)
{
    wide(n, _mm512_castps_si512(_mm512_set1_ps(0.5f)), multiply_f32, l);
}

PL_BF16_TARGET static void bf16_avx512(int64_t n, lanes *l)
{
    wide(n, _mm512_set1_epi16(0x3f00), multiply_bf16, l); /* 0.5 */
}

PL_VNNI_TARGET static void int8_avx512(int64_t n, lanes *l)
{
    wide(n, _mm512_set1_epi8(1), multiply_int8, l);
}

static loop loop_of(pl_multiply_kind kind)
{
    const pl_isa isa = pl_isa_get();

    if (kind == PL_MULTIPLY_BF16)
        return isa == PL_ISA_AVX512BF16 ? (loop){bf16_avx512, WIDE_CHAINS, 16, 64} : (loop){0};
    if (kind == PL_MULTIPLY_INT8)
        return isa >= PL_ISA_AVX512 && __builtin_cpu_supports("avx512vnni")
                   ? (loop){int8_avx512, WIDE_CHAINS, 16, 128}
                   : (loop){0};
    if (isa == PL_ISA_GENERIC)
        return generic_loop;
    return isa == PL_ISA_AVX2 ? (loop){f32_avx2, CHAINS, 8, 16}
                              : (loop){f32_avx512, WIDE_CHAINS, 16, 32};
}
#else

#if defined(__aarch64__)
__attribute__((target("arch=armv8.2-a+bf16"))) static void bf16_neon(int64_t n, lanes *l)
{
    const bfloat16x8_t x = (bfloat16x8_t)vdupq_n_u16(0x3f81); /* a little above 1 */
    float32x4_t sum[WIDE_CHAINS];

#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        sum[i] = vld1q_f32(l->f32 + 4 * i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < WIDE_CHAINS; i++) {
            sum[i] = vbfdotq_f32(sum[i], x, x);
            __asm__("" : "+w"(sum[i]));
        }
#pragma GCC unroll 24
    for (int i = 0; i < WIDE_CHAINS; i++)
        vst1q_f32(l->f32 + 4 * i, sum[i]);
}
#endif

static loop loop_of(pl_multiply_kind kind)
{
#if defined(__aarch64__)
    if (kind == PL_MULTIPLY_BF16 && pl_isa_multiplies_bf16())
        return (loop){bf16_neon, WIDE_CHAINS, 4, 16};
#endif
    return kind == PL_MULTIPLY_F32 ? generic_loop : (loop){0};
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
    const bool counts = kind == PL_MULTIPLY_INT8;
    lanes sums;
    double total = 0;

    PL_ASSERT(l.run != NULL);
    for (int i = 0; i < l.chains * l.n_lanes; i++)
        if (counts)
            sums.i32[i] = i / l.n_lanes;
        else
            sums.f32[i] = (float)(i / l.n_lanes);
    l.run(n, &sums);
    for (int i = 0; i < l.chains * l.n_lanes; i++)
        total += counts ? sums.i32[i] : (double)sums.f32[i];
    return total;
}
