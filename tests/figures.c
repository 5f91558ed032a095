#include "config.h"

#include "tests/figures.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool agrees(double a, double b, int n_roundings)
{
    const double nu = n_roundings * DBL_EPSILON / 2;

    return isfinite(a) && fabs(a - b) <= 2 * nu / (1 - nu) * fmax(fabs(a), fabs(b));
}

pl_curve flat(double rate)
{
    return (pl_curve){.n_points = 1, .size = {1}, .rate = {rate}};
}

pl_machine round_machine(void)
{
    const pl_link link = {
        .latency_s = 1e-5, .one_way_bytes_per_s = 1e8, .both_ways_bytes_per_s = 5e7};

    return (pl_machine){.ranks_per_host = 8,
                        .threads_per_rank = 1,
                        .matmul_flops_per_s = {.n_points = 1, .size = {1}, .rate = {1e9}},
                        .peak_flops_per_s = 2e9,
                        .memory_bytes_per_s = {.n_points = 1, .size = {1}, .rate = {1e9}},
                        .attention_flops_per_s = 5e8,
                        .op_overhead_s = 1e-6,
                        .comm_overhead_s = 2e-6,
                        .reduce_bytes_per_s = 2e8,
                        .copy_bytes_per_s = 4e8,
                        .link = {link, link}};
}

const char *synthetic_path(char *path, size_t size)
{
    const char *srcdir = getenv("srcdir");

    snprintf(path, size, "%s/tests/machine.json", srcdir != NULL ? srcdir : ".");
    return path;
}

pl_machine synthetic(void)
{
    pl_machine machine;
    char path[512];

    ck_assert_msg(pl_machine_read(synthetic_path(path, sizeof path), &machine) == PL_OK, "%s",
                  pl_status_message());
    return machine;
}
