/* isa -- what the CPU says, what the environment wants. */
#include "config.h"

#include "kernels/isa.h"

#include "src/base/panic.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const char *const names[PL_N_ISA] = {"generic",    "avx2", "avx512",
                                            "avx512bf16", "neon", "neonbf16"};
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
    return PL_ISA_GENERIC;
#elif defined(__aarch64__)
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? PL_ISA_NEONBF16 : PL_ISA_NEON;
#else
    return PL_ISA_GENERIC;
#endif
}

bool pl_isa_covers(pl_isa best, pl_isa isa)
{
    return isa == PL_ISA_GENERIC || (isa <= best && (isa >= PL_ISA_NEON) == (best >= PL_ISA_NEON));
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
        if (!pl_isa_covers(best, (pl_isa)isa))
            return pl_refuse(PL_BAD_INPUT,
                             "PURLIN_ISA=%s: this CPU lacks it; the best it has is %s", wanted,
                             names[best]);
        *found = (pl_isa)isa;
        return PL_OK;
    }
    return pl_refuse(PL_BAD_INPUT,
                     "PURLIN_ISA=%s is unknown; it may be generic, avx2, avx512, avx512bf16, "
                     "neon or neonbf16",
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
    PL_ASSERT(pl_isa_covers(pl_isa_best(), isa));
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

    if (isa >= PL_ISA_NEON)
        return PL_ISA_GENERIC;
    return isa < PL_ISA_AVX512BF16 ? isa : PL_ISA_AVX512;
}

bool pl_isa_multiplies_bf16(void)
{
    return pl_isa_get() == PL_ISA_AVX512BF16 || pl_isa_get() == PL_ISA_NEONBF16;
}
