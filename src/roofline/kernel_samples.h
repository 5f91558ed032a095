/* kernel_samples -- what the ops of some steps took, measured in one round or several, and the
 * terms that a machine gets from them (roofline/kernel_model.h). */
#ifndef PURLIN_ROOFLINE_KERNEL_SAMPLES_H
#define PURLIN_ROOFLINE_KERNEL_SAMPLES_H

#include "src/machine/machine.h"

/* Zeroed, it holds none. */
typedef struct {
    int n, room;
    int next; /* the sample that comes next in this round */
    char (*name)[PL_KERNEL_NAME];
    double (*terms)[PL_N_KERNEL_TERMS];
    double *time_s; /* 0: not seen yet */
} pl_kernel_samples;

/** The same samples come again, in the same order. Local. */
void pl_kernel_samples_begin_round(pl_kernel_samples *s);

/** One more sample. Of those that an earlier round has, the least time counts, since what disturbs
 * makes slower; a time of 0 (shorter than the clock can tell) says nothing. Local. */
void pl_kernel_samples_add(pl_kernel_samples *s, const char *name,
                           const double terms[PL_N_KERNEL_TERMS], double time_s);

/** Add to machine->kernel a fit for each name that it has none of, in the order of their first
 * samples. Local. */
void pl_kernel_samples_fit(const pl_kernel_samples *s, pl_machine *machine);

void pl_kernel_samples_free(pl_kernel_samples *s);

#endif
