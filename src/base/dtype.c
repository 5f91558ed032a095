#include "config.h"

#include "src/base/dtype.h"

const char *pl_dtype_name(pl_dtype dtype)
{
    static const char *const names[PL_N_DTYPES] = {
        [PL_F32] = "float32", [PL_I32] = "int32", [PL_BF16] = "bfloat16"};

    return names[dtype];
}

const char *pl_dtype_short(pl_dtype dtype)
{
    static const char *const names[PL_N_DTYPES] = {
        [PL_F32] = "f32", [PL_I32] = "i32", [PL_BF16] = "bf16"};

    return names[dtype];
}
