/* isa -- what the CPU says, what the environment wants. */
#include "config.h"

#include "kernels/isa.h"

#include "src/base/panic.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[PL_N_ISA] = {"generic", "avx2", "avx512", "avx512bf16"};
static int current = -1; /* set once at start; -1: the best */

const char *pl_isa_name(pl_isa isa)
{
    return names[isa];
}

pl_isa pl_isa_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return __builtin_cpu_supports("avx512bf16") ? PL_ISA_AVX512BF16 : PL_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return PL_ISA_AVX2;
#endif
    return PL_ISA_GENERIC;
}

pl_status pl_isa_find(const char *wanted, pl_isa best, pl_isa *found)
{
    if (wanted == NULL || *wanted == '\0') {
        *found = best;
        return PL_OK;
    }
    for (int isa = 0; isa < PL_N_ISA; isa++) {
        if (strcmp(wanted, names[isa]) != 0)
            continue;
        if (isa > (int)best)
            return pl_refuse(PL_BAD_INPUT, "PURLIN_ISA=%s: this CPU has no more than %s", wanted,
                             names[best]);
        *found = (pl_isa)isa;
        return PL_OK;
    }
    return pl_refuse(PL_BAD_INPUT,
                     "PURLIN_ISA=%s is unknown; it may be generic, avx2, avx512 or avx512bf16",
                     wanted);
}

pl_status pl_isa_choose(void)
{
    pl_isa isa = PL_ISA_GENERIC;
    const pl_status status = pl_isa_find(getenv("PURLIN_ISA"), pl_isa_best(), &isa);

    if (status == PL_OK)
        current = (int)isa;
    return status;
}

void pl_isa_set(pl_isa isa)
{
    PL_ASSERT(isa <= pl_isa_best());
    current = (int)isa;
}

pl_isa pl_isa_get(void)
{
    if (current < 0)
        current = (int)pl_isa_best();
    return (pl_isa)current;
}

pl_isa pl_isa_vectors(void)
{
    const pl_isa isa = pl_isa_get();

    return isa < PL_ISA_AVX512BF16 ? isa : PL_ISA_AVX512;
}
