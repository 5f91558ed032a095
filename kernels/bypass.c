/* bypass -- non-temporal stores where the CPU has them: of 16 bytes with SSE2, which is part of
 * x86-64, of whole lines with AVX-512. */
#include "config.h"

#include "kernels/bypass.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <string.h>

#if defined(__SSE2__)

#include <immintrin.h>

enum { LINE = 64 };

/* Whole lines. */
static void lines_sse2(char *out, const char *in, size_t n_lines)
{
    for (size_t i = 0; i < n_lines; i++, in += LINE, out += LINE)
        for (int part = 0; part < LINE; part += 16)
            _mm_stream_si128((__m128i *)(void *)(out + part),
                             _mm_loadu_si128((const __m128i *)(const void *)(in + part)));
}

PL_AVX512 static void lines_avx512(char *out, const char *in, size_t n_lines)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < n_lines; i++, in += LINE, out += LINE)
        _mm512_stream_si512((__m512i *)(void *)out, _mm512_loadu_si512(in));
}

/** Only whole lines are worth it: the ends are stored as usual. */
void pl_bypass(void *to, const void *from, size_t bytes)
{
    const size_t to_line = -(uintptr_t)to % LINE, head = to_line < bytes ? to_line : bytes;
    const size_t n_lines = (bytes - head) / LINE, tail = head + n_lines * LINE;
    const char *in = from;
    char *out = to;

    if (head > 0)
        memcpy(out, in, head);
    if (pl_isa_vectors() == PL_ISA_AVX512)
        lines_avx512(out + head, in + head, n_lines);
    else
        lines_sse2(out + head, in + head, n_lines);
    if (tail < bytes)
        memcpy(out + tail, in + tail, bytes - tail);
}

void pl_bypass_end(void)
{
    _mm_sfence();
}

#else

void pl_bypass(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void pl_bypass_end(void)
{
}

#endif
