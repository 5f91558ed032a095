#include "config.h"

#include "src/collbench/table.h"

#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Open MPI's name is one line, MPICH's the first of many. */
static void print_mpi(void)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    PL_MPI(MPI_Get_library_version(name, &length));
    name[strcspn(name, ",\n")] = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (*c == '\t')
            *c = ' ';
    pl_print("mpi    %s\n", name);
}

void pl_bench_print_banner(const pl_bench *b)
{
    const pl_bench_options *o = b->options;
    char text[2048], axes[64];

    pl_topology_print(b->world, &b->topology, &b->mesh, text, sizeof text);
    pl_axes_print(&b->mesh, b->axes, axes, sizeof axes);
    pl_print("%s\n%s", PACKAGE_STRING, text);
    print_mpi();
    pl_print("groups %lld of %d rank%s along %s, side by side; %s\n",
             (long long)pl_mesh_size(&b->mesh) / b->group->size, b->group->size,
             b->group->size == 1 ? "" : "s", axes[0] != '\0' ? axes : "no axis",
             b->heap != NULL ? "memory shared inside a host" : "messages only");
    pl_print("peaks  of %s\n", b->machine.name);
    if (b->algo[0] != '\0')
        pl_print("algos  %s\n", b->algo);
    pl_print("method median of %lld samples of back-to-back calls, at least %s each, after %lld "
             "calls; the slowest rank's time%s%s%s\n",
             (long long)o->n_samples, pl_si(b->clock.sample_s, "s").text, (long long)o->n_warmup,
             o->check ? "; results verified before and after" : "",
             o->off_cache ? "; buffers in turn, off the caches" : "",
             o->fresh ? "; inputs written again before each call" : "");
}

void pl_bench_print_heading(const pl_bench *b, pl_collective c)
{
    pl_print("\n%s\n", pl_collective_name(c));
    pl_print("%63s | %-33s | %-33s | %-43s", "", "out of place", "in place", "out of place");
    if (b->options->vs_mpi)
        pl_print(" | %-16s | %-16s", "out of place", "in place");
    pl_print("\n");
    pl_print("%12s %12s %9s %6s %-20s | %9s %7s %7s %7s | %9s %7s %7s %7s | %9s %9s %9s %6s %6s",
             "size", "count", "type", "redop", "algo", "time", "algbw", "busbw", "#wrong", "time",
             "algbw", "busbw", "#wrong", "min", "p99", "predicted", "error", "limit");
    if (b->options->vs_mpi)
        pl_print(" | %9s %6s | %9s %6s", "mpi", "ratio", "mpi", "ratio");
    if (b->options->overlap)
        pl_print(" | %6s", "hidden");
    pl_print("\n%12s %12s %9s %6s %-20s | %9s %7s %7s %7s | %9s %7s %7s %7s | %9s %9s %9s %6s %6s",
             "B", "elements", "", "", "", "us", "GB/s", "GB/s", "", "us", "GB/s", "GB/s", "", "us",
             "us", "us", "%", "%");
    if (b->options->vs_mpi)
        pl_print(" | %9s %6s | %9s %6s", "us", "", "us", "");
    if (b->options->overlap)
        pl_print(" | %6s", "%");
    pl_print("\n");
}

static void print_times(const pl_bench_point *p)
{
    char wrong[24] = "-";

    if (p == NULL) {
        pl_print(" | %9s %7s %7s %7s", "-", "-", "-", "-");
        return;
    }
    if (p->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%lld", (long long)p->wrong);
    pl_print(" | %9.2f %7.2f %7.2f %7s", 1e6 * p->time_s, 1e-9 * pl_bench_algbw(p, p->time_s),
             1e-9 * pl_bench_busbw(p, p->time_s), wrong);
}

static void print_rival(const pl_bench_point *p)
{
    if (p == NULL || !isfinite(p->mpi_s))
        pl_print(" | %9s %6s", "-", "-");
    else
        pl_print(" | %9.2f %6.2f", 1e6 * p->mpi_s, p->mpi_s / p->time_s);
}

void pl_bench_print_row(const pl_bench *b, const pl_bench_point *points, int n)
{
    const pl_bench_point *p = &points[0], *in = n > 1 ? &points[1] : NULL;
    const char *redop = "none";

    if (pl_bench_reduces(p->c.collective))
        redop = p->c.reduction == PL_SUM ? "sum" : "max";
    pl_print("%12lld %12lld %9s %6s %-20s", (long long)pl_bench_point_bytes(p),
             (long long)p->c.count, pl_dtype_name(p->c.dtype), redop, p->algo);
    print_times(p);
    print_times(in);
    pl_print(" | %9.2f %9.2f %9.2f %+6.1f %6.1f", 1e6 * p->min_s, 1e6 * p->p99_s,
             1e6 * p->predicted_s, 100 * (p->predicted_s / p->time_s - 1),
             100 * p->limit_s / p->time_s);
    if (b->options->vs_mpi) {
        print_rival(p);
        print_rival(in);
    }
    if (b->options->overlap)
        pl_print(" | %6.1f", 100 * p->hidden);
    pl_print("\n");
    if (pl_log_rank() == 0)
        fflush(stdout);
}

static void print_means(const char *name, const pl_bench_summary *s)
{
    pl_print(
        "%-14s %7lld points | busbw %7.2f GB/s | %5.1f%% of the limit | median |error| %5.1f%%",
        name, (long long)s->n, 1e-9 * s->busbw, 100 * s->limit_share, 100 * s->median_error);
    if (isfinite(s->mpi_ratio))
        pl_print(" | MPI's time / ours %6.2f", s->mpi_ratio);
    pl_print(" | #wrong %lld\n", (long long)s->wrong);
}

static void explain(const pl_bench *b)
{
    pl_print(
        "\nalgbw is size / time; busbw is what each rank receives in that time, one way: algbw x "
        "(n-1)/n\n(AllReduce 2(n-1)/n; Permute, Broadcast 1). Of AllGather, ReduceScatter, "
        "AllReduce, AllToAll and Permute\nas much leaves each rank at the same time: both ways it "
        "is twice busbw. Broadcast goes one way only.\n"
        "algo, min, p99, predicted, error (predicted / time - 1) and limit (share of what %s "
        "allow) are of out of place.\n",
        b->across ? "links" : "copies");
}

pl_status pl_bench_print_summary(pl_bench *b)
{
    pl_status status = PL_OK;
    int n_ops = 0;

    explain(b);
    pl_print("\nGeometric means\n");
    for (int c = 0; c <= PL_N_COLLECTIVES; c++) {
        const pl_collective op = (pl_collective)c;
        const pl_bench_summary s = pl_bench_summarize(&b->records, op);

        if (s.n == 0 || (op == PL_N_COLLECTIVES && n_ops < 2))
            continue;
        n_ops++;
        print_means(op == PL_N_COLLECTIVES ? "all" : pl_collective_name(op), &s);
        if (status == PL_OK)
            status = pl_bench_records_sum_up(&b->records, op, &s);
    }
    return status;
}
