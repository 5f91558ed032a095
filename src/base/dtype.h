/* dtype -- the types of array elements. */
#ifndef PURLIN_BASE_DTYPE_H
#define PURLIN_BASE_DTYPE_H

#include <stddef.h>

typedef enum { PL_F32, PL_I32, PL_BF16, PL_N_DTYPES } pl_dtype;

/** Bytes of one element. */
static inline size_t pl_dtype_bytes(pl_dtype dtype)
{
    return dtype == PL_BF16 ? 2 : 4;
}

/** "float32", "int32", "bfloat16". */
const char *pl_dtype_name(pl_dtype dtype);
/** As typed and printed: "f32", "i32", "bf16". */
const char *pl_dtype_short(pl_dtype dtype);

#endif
