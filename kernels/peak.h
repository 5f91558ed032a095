/* peak -- multiply-adds on registers and nothing else: the most that the arithmetic of a core can
 * do, which is the roof of every product. */
#ifndef PURLIN_KERNELS_PEAK_H
#define PURLIN_KERNELS_PEAK_H

#include <stdint.h>

/* What is multiplied: f32 into f32; pairs of bf16 into f32 (vdpbf16ps); fours of int8 into int32
 * (vpdpbusd). */
typedef enum {
    PL_MULTIPLY_F32,
    PL_MULTIPLY_BF16,
    PL_MULTIPLY_INT8,
    PL_N_MULTIPLIES
} pl_multiply_kind;

/** "f32", "bf16", "int8". */
const char *pl_multiply_name(pl_multiply_kind kind);

/** Operations of one round, a multiply-add counting 2, on the ISA in use; 0 where it has no
 * instruction of that kind. */
double pl_multiply_operations(pl_multiply_kind kind);

/** n rounds of independent chains of multiply-adds, enough of them to hide the latency: all
 * operands stay in registers. There must be such an instruction. Returns a number that depends on
 * all of them. Cost: n pl_multiply_operations(kind). Local. */
double pl_multiply_run(pl_multiply_kind kind, int64_t n);

#endif
