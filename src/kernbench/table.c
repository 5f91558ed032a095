#include "config.h"

#include "src/kernbench/table.h"

#include "kernels/isa.h"
#include "src/base/log.h"
#include "src/base/units.h"

#include <math.h>
#include <stdio.h>

static void print_peaks(const pl_peaks *peaks)
{
    pl_print("peaks  ");
    for (int k = 0; k < PL_N_MULTIPLIES; k++)
        if (peaks->flops_per_s[k] > 0)
            pl_print("%s%s %.1f %s", k > 0 ? ", " : "", pl_multiply_name((pl_multiply_kind)k),
                     1e-9 * peaks->flops_per_s[k], k == PL_MULTIPLY_INT8 ? "GOP/s" : "GFLOP/s");
    pl_print(" (multiply-adds on registers, one core)\n");
    for (int u = 0; u < PL_N_TRAFFIC; u++) {
        const pl_curve *c = &peaks->bytes_per_s[u];

        pl_print("%-7s", pl_traffic_name((pl_traffic)u));
        for (int i = 0; i < c->n_points; i++)
            pl_print("%s%.1f GB/s of %s", i > 0 ? ", " : "", 1e-9 * c->rate[i],
                     pl_si(c->size[i], "B").text);
        pl_print("\n");
    }
}

void pl_kernbench_print_banner(const pl_topology *t, const pl_stand *stand, int cpu)
{
    pl_print("%s\ncpu    %s, L1 %lld KiB, L2 %lld KiB, L3 %lld KiB; one thread", PACKAGE_STRING,
             t->cpu, (long long)t->l1_bytes >> 10, (long long)t->l2_bytes >> 10,
             (long long)t->l3_bytes >> 10);
    if (cpu >= 0)
        pl_print(", pinned to CPU %d", cpu);
    pl_print("\nisa    %s\n", pl_isa_name(pl_isa_get()));
    print_peaks(&stand->peaks);
    for (int i = 0; i < PL_N_PEERS; i++)
        if (stand->peers.asked[i])
            pl_print("vs     %s: %s\n", pl_peer_name((pl_peer)i), stand->peers.version[i]);
    pl_print(
        "method median of samples of back-to-back calls, all contenders in turn, %s a point%s\n",
        pl_si(stand->clock.budget_s, "s").text,
        stand->check ? "; results verified before timing" : "");
}

void pl_kernbench_print_heading(const pl_stand *stand, pl_case_group group)
{
    pl_print("\n%s\n%-18s %-24s %-5s %9s %9s %9s %10s %10s %8s %8s %6s %-6s", pl_group_name(group),
             "kernel", "shape", "dtype", "FLOPs", "bytes", "intensity", "time", "min", "rate",
             "roof", "roof", "bound");
    for (int i = 0; i < PL_N_PEERS; i++)
        if (stand->peers.asked[i] && group < PL_GROUP_ATTENTION)
            pl_print(" %8s", pl_peer_name((pl_peer)i));
    if (stand->check)
        pl_print(" %6s", "#wrong");
    pl_print("\n%-18s %-24s %-5s %9s %9s %9s %10s %10s %8s %8s %6s %-6s", "", "", "", "M", "MB",
             "FLOP/B", "us", "us", group <= PL_GROUP_ATTENTION ? "GFLOP/s" : "GB/s",
             group <= PL_GROUP_ATTENTION ? "GFLOP/s" : "GB/s", "%", "");
    for (int i = 0; i < PL_N_PEERS; i++)
        if (stand->peers.asked[i] && group < PL_GROUP_ATTENTION)
            pl_print(" %8s", "ratio");
    pl_print("\n");
}

void pl_kernbench_print_row(const pl_stand *stand, const pl_point *p)
{
    pl_print("%-18s %-24s %-5s %9.4g %9.4g %9.4g %10.2f %10.2f %8.1f %8.1f %6.1f %-6s",
             p->kernel->name, p->shape, pl_dtype_short(p->dtype), 1e-6 * p->flops, 1e-6 * p->bytes,
             pl_point_intensity(p), 1e6 * p->time_s, 1e6 * p->min_s,
             1e-9 * pl_point_rate(p, p->time_s), 1e-9 * pl_point_rate(p, p->roof_s),
             pl_point_percent(p), p->limit == PL_LIMIT_FLOPS ? "FLOPs" : "memory");
    for (int i = 0; i < PL_N_PEERS; i++) {
        if (!stand->peers.asked[i] || p->group >= PL_GROUP_ATTENTION)
            continue;
        if (isfinite(p->peer_s[i]))
            pl_print(" %8.3f", p->peer_s[i] / p->time_s);
        else
            pl_print(" %8s", "-");
    }
    if (p->wrong >= 0)
        pl_print(" %6lld", (long long)p->wrong);
    pl_print("\n");
    fflush(stdout);
}

static void print_means(const pl_stand *stand, const char *group, pl_dtype dtype,
                        const pl_summary *s)
{
    pl_print("%-10s %-5s %4d points | roof %5.1f%%, least %5.1f%%", group, pl_dtype_short(dtype),
             s->n, s->percent, s->least_percent);
    for (int k = 0; k < PL_N_PEERS; k++)
        if (stand->peers.asked[k] && isfinite(s->ratio[k]))
            pl_print(" | %s %5.3f, least %5.3f", pl_peer_name((pl_peer)k), s->ratio[k],
                     s->least_ratio[k]);
    if (stand->check)
        pl_print(" | #wrong %lld", (long long)s->wrong);
    pl_print("\n");
}

pl_status pl_kernbench_print_summary(const pl_stand *stand, pl_records *records)
{
    pl_status status = PL_OK;

    pl_print(
        "\nrate counts FLOPs of matmul and attention, bytes read and written of the rest; roof "
        "is the most that\npeak and memory allow, and the share of it that was reached. A ratio "
        "is the peer's time over ours\n(bf16: OpenBLAS and BLIS in f32).\n\n"
        "Geometric means\n");
    for (int d = 0; d < PL_N_DTYPES; d++)
        for (int g = 0; g <= PL_N_GROUPS; g++) {
            const pl_summary s = pl_records_summarize(records, (pl_case_group)g, (pl_dtype)d);

            if (s.n == 0)
                continue;
            print_means(stand, g == PL_N_GROUPS ? "all matmul" : pl_group_name((pl_case_group)g),
                        (pl_dtype)d, &s);
            if (status == PL_OK)
                status = pl_records_sum_up(records, (pl_case_group)g, (pl_dtype)d, &s);
        }
    return status;
}
