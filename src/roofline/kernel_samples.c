#include "config.h"

#include "src/roofline/kernel_samples.h"

#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/roofline/kernel_model.h"

#include <stdio.h>
#include <string.h>

static void grow(pl_kernel_samples *s)
{
    const size_t had = (size_t)s->room, room = had > 0 ? 2 * had : 512;

    s->name = pl_realloc(s->name, had * sizeof *s->name, room * sizeof *s->name);
    s->terms = pl_realloc(s->terms, had * sizeof *s->terms, room * sizeof *s->terms);
    s->time_s = pl_realloc(s->time_s, had * sizeof *s->time_s, room * sizeof *s->time_s);
    s->room = (int)room;
}

void pl_kernel_samples_begin_round(pl_kernel_samples *s)
{
    s->next = 0;
}

void pl_kernel_samples_add(pl_kernel_samples *s, const char *name,
                           const double terms[PL_N_KERNEL_TERMS], double time_s)
{
    const int at = s->next++;

    if (at == s->n) {
        if (s->n == s->room)
            grow(s);
        snprintf(s->name[at], sizeof s->name[at], "%s", name);
        memcpy(s->terms[at], terms, sizeof s->terms[at]);
        s->time_s[at] = 0;
        s->n++;
    }
    PL_ASSERT(strcmp(s->name[at], name) == 0);
    if (time_s > 0 && (!(s->time_s[at] > 0) || time_s < s->time_s[at]))
        s->time_s[at] = time_s;
}

/* Bring the samples of one name together; how many there are. */
static int gather(const pl_kernel_samples *s, const char *name, double (*terms)[PL_N_KERNEL_TERMS],
                  double *time_s)
{
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->name[i], name) != 0 || !(s->time_s[i] > 0))
            continue;
        memcpy(terms[n], s->terms[i], sizeof *terms);
        time_s[n++] = s->time_s[i];
    }
    return n;
}

void pl_kernel_samples_fit(const pl_kernel_samples *s, pl_machine *machine)
{
    double(*terms)[PL_N_KERNEL_TERMS] = pl_alloc((size_t)(s->n + 1) * sizeof *terms);
    double *time_s = pl_alloc((size_t)(s->n + 1) * sizeof *time_s);

    for (int first = 0; first < s->n; first++) {
        if (pl_kernel_fit_find(machine, s->name[first]) != NULL)
            continue;
        const int n = gather(s, s->name[first], terms, time_s);
        if (n == 0)
            continue;
        PL_ASSERT(machine->n_kernels < PL_MACHINE_KERNELS);
        pl_kernel_fit *fit = &machine->kernel[machine->n_kernels++];
        memcpy(fit->name, s->name[first], sizeof fit->name);
        pl_kernel_fit_terms(n, terms, time_s, fit);
    }
    pl_free(terms);
    pl_free(time_s);
}

void pl_kernel_samples_free(pl_kernel_samples *s)
{
    pl_free(s->name);
    pl_free(s->terms);
    pl_free(s->time_s);
    *s = (pl_kernel_samples){0};
}
