/* elementwise -- plain loops, left to the compiler to vectorise. */
#include "config.h"

#include "kernels/elementwise.h"

#include "kernels/lanes.h"

#include <string.h>

void pl_add(int64_t n, const float *a, const float *b, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void pl_copy(int64_t n, const float *x, float *y)
{
    if (n > 0 && x != y)
        memcpy(y, x, (size_t)n * sizeof *y);
}

void pl_scale(int64_t n, float factor, const float *x, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

void pl_zero(int64_t n, float *y)
{
    if (n > 0)
        memset(y, 0, (size_t)n * sizeof *y);
}

double pl_sum_of_squares(const float *x, int64_t n)
{
    double lanes[PL_LANES] = {0};
    int64_t i = 0;

    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int l = 0; l < PL_LANES; l++)
            lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < n; i++, l++)
        lanes[l] += (double)x[i] * (double)x[i];
    for (int width = PL_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

/** Whether any of x[n] has all exponent bits set, without an early exit, so that it vectorises. */
static int any_non_finite(const float *x, int64_t n)
{
    uint32_t any = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        any |= (bits & 0x7F800000u) == 0x7F800000u;
    }
    return any != 0;
}

int64_t pl_first_non_finite(const float *x, int64_t n)
{
    enum { BLOCK = 4096 };

    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t end = n - begin < BLOCK ? n : begin + BLOCK;

        if (!any_non_finite(x + begin, end - begin))
            continue;
        for (int64_t i = begin; i < end; i++)
            if (any_non_finite(x + i, 1))
                return i;
    }
    return -1;
}
