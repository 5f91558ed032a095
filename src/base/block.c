/* block -- with n = q P + r, the first r blocks hold q + 1 things and the others q. */
#include "config.h"

#include "src/base/block.h"

int64_t pl_block_begin(int64_t n, int P, int i)
{
    const int64_t q = n / P, r = n % P;

    return i * q + (i < r ? i : r);
}

int64_t pl_block_count(int64_t n, int P, int i)
{
    return n / P + (i < n % P);
}

int64_t pl_block_largest(int64_t n, int P)
{
    return n / P + (n % P > 0);
}

int pl_block_owner(int64_t n, int P, int64_t index)
{
    const int64_t q = n / P, r = n % P, in_larger = r * (q + 1);

    return (int)(index < in_larger ? index / (q + 1) : r + (index - in_larger) / q);
}
