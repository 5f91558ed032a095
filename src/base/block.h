/* block -- who owns what when n things are dealt to P owners in contiguous blocks.
 *
 * Blocks differ by at most one thing, larger ones first: 73 over 4 gives 19, 18, 18, 18. Any n >= 0
 * and P >= 1; blocks may be empty. All functions are local. */
#ifndef PURLIN_BASE_BLOCK_H
#define PURLIN_BASE_BLOCK_H

#include <stdint.h>

/** Index of the first thing of block i. */
int64_t pl_block_begin(int64_t n, int P, int i);
/** Things in block i. */
int64_t pl_block_count(int64_t n, int P, int i);
/** Things in the largest block. */
int64_t pl_block_largest(int64_t n, int P);
/** The block that holds thing `index`, 0 <= index < n. */
int pl_block_owner(int64_t n, int P, int64_t index);

#endif
