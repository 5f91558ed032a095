/* isa -- which instruction set the kernels use on this CPU, chosen at run time so that one binary
 * runs anywhere. */
#ifndef PURLIN_KERNELS_ISA_H
#define PURLIN_KERNELS_ISA_H

#include "src/base/status.h"

#include <stdbool.h>

typedef enum {
    PL_ISA_GENERIC = 0,    /* what the compiler's own flags allow; always there */
    PL_ISA_AVX2 = 1,       /* with FMA */
    PL_ISA_AVX512 = 2,     /* F, BW, DQ, VL */
    PL_ISA_AVX512BF16 = 3, /* and BF16: products of bf16 pairs */
    PL_ISA_NEON = 4,       /* of aarch64 */
    PL_ISA_NEONBF16 = 5,   /* and BF16: bfdot */
    PL_N_ISA
} pl_isa;

/** "generic", "avx2", "avx512", "avx512bf16", "neon", "neonbf16". */
const char *pl_isa_name(pl_isa isa);

/** The best ISA that both this CPU and this build have. Local. */
pl_isa pl_isa_best(void);

/** Whether a CPU whose best ISA is `best` has `isa`. Local. */
bool pl_isa_covers(pl_isa best, pl_isa isa);

/** The ISA of that name, `best` for NULL or ""; refuses an unknown name and, on a CPU that has no
 * more than `best`, what it lacks (PL_BAD_INPUT). Local. */
pl_status pl_isa_find(const char *wanted, pl_isa best, pl_isa *found);

/** Choose by the environment variable PURLIN_ISA (generic, avx2, avx512, avx512bf16, neon or
 * neonbf16; unset or empty: the best). Refuses an unknown name and an ISA that this CPU lacks
 * (PL_BAD_INPUT). Call once at start, before the first kernel; not calling it means the best.
 * Local. */
pl_status pl_isa_choose(void);

/** Use `isa`, which pl_isa_best() must cover. For tests and benches. Local. */
void pl_isa_set(pl_isa isa);

/** The ISA in use. Local. */
pl_isa pl_isa_get(void);

/** The ISA in use, for kernels that need only its vectors: at most PL_ISA_AVX512. On aarch64
 * generic: there the compiler's own flags allow NEON. Local. */
pl_isa pl_isa_vectors(void);

/** Whether the ISA in use multiplies pairs of bf16. Local. */
bool pl_isa_multiplies_bf16(void);

#endif
