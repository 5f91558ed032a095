/* bypass -- non-temporal stores where the CPU has them: SSE2 is part of x86-64. */
#include "config.h"

#include "kernels/bypass.h"

#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

enum { LINE = 64 };

/** Only whole lines are worth it: the ends are stored as usual. */
void pl_bypass(void *to, const void *from, size_t bytes)
{
    const size_t to_line = -(uintptr_t)to % LINE, head = to_line < bytes ? to_line : bytes;
    const size_t n_lines = (bytes - head) / LINE;
    const char *in = (const char *)from + head;
    char *out = (char *)to + head;

    memcpy(to, from, head);
    for (size_t i = 0; i < n_lines; i++, in += LINE, out += LINE)
        for (int part = 0; part < LINE; part += 16)
            _mm_stream_si128((__m128i *)(void *)(out + part),
                             _mm_loadu_si128((const __m128i *)(const void *)(in + part)));
    memcpy(out, in, bytes - head - n_lines * LINE);
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
