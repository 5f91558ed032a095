/* figures -- comparing times that are worked out by hand, on machines that are made up. */
#ifndef PURLIN_TESTS_FIGURES_H
#define PURLIN_TESTS_FIGURES_H

#include "src/machine/machine.h"

#include <stdbool.h>

/** Every operation rounds once: a sum or product of n positive terms is off by at most n u / (1 - n
 * u) of itself. Both sides of a comparison have their own. Infinities and NaN never agree. */
bool agrees(double a, double b, int n_roundings);

/** The same rate at every size. */
pl_curve flat(double rate);

/** 1 GFLOP/s, 1 GB/s, 1 us to begin an op, 2 us to begin a collective; links of 10 us and 100 MB/s,
 * both ways at once 50 MB/s. */
pl_machine round_machine(void);

/** The path of tests/machine.json. */
const char *synthetic_path(char *path, size_t size);

/** What it says. */
pl_machine synthetic(void);

#endif
