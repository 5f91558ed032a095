/* kernel_model -- the time of a kernel as a sum of terms that its shapes give and coefficients that
 * calibration fits.
 *
 *   T = call + flop x FLOPs + a x elements of A + b x elements of B + c x elements of C
 *       + aliased x elements in rows pages apart + near x bytes from L2 + mid x bytes from L3 + far x bytes from memory
 *
 * A, B and C are the operands of a matrix product, in the order in which matmul takes them: packing
 * A and B and writing C (reading it too, where products accumulate) cost time that vanishes only in
 * large products. For attention FLOPs are those of the tiles that are computed, A is its weights (each
 * costs an exponential, whatever H is), B what is packed and C the pages where its rows begin; for norms
 * and cross-entropy A is their rows. Which bytes come from where follows from the program (roofline/reuse.h). The
 * coefficients are not negative. The book's roofline is the case of one large term. */
#ifndef PURLIN_ROOFLINE_KERNEL_MODEL_H
#define PURLIN_ROOFLINE_KERNEL_MODEL_H

#include "src/machine/machine.h"
#include "src/program/kinds.h"
#include "src/roofline/reuse.h"

/** The name under which a machine keeps the coefficients of such an op: its kind, for products how
 * the operands are stored, and "bf16" where any of them is: "einsum.nt.bf16". Ops that
 * move bytes alike share one. */
void pl_kernel_name(const pl_program *p, const pl_op *op, const pl_op_cost *cost,
                    char name[PL_KERNEL_NAME]);

/** What the coefficients are multiplied by. */
void pl_kernel_terms(const pl_op_cost *cost, const pl_reuse *reuse,
                     double terms[PL_N_KERNEL_TERMS]);

/** Seconds of the terms. */
double pl_kernel_time_s(const pl_kernel_fit *fit, const double terms[PL_N_KERNEL_TERMS]);

/** The fit of that name, or NULL. */
const pl_kernel_fit *pl_kernel_fit_find(const pl_machine *machine, const char *name);

/** Coefficients x >= 0 that make rows[i] . x come near time_s[i]: least squares, each square over
 * time_s[i], as if an op of twice the time were two ops; a term that no row has stays 0. rows is [n][PL_N_KERNEL_TERMS]. Sets
 * fit->term_s, n_samples and residual (the median of |predicted / measured - 1|). Coordinate
 * descent; deterministic. Local. */
void pl_kernel_fit_terms(int n, double (*rows)[PL_N_KERNEL_TERMS], const double *time_s,
                         pl_kernel_fit *fit);

#endif
