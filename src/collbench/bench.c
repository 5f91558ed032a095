#include "config.h"

#include "src/collbench/bench.h"

#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/wait.h"
#include "src/collbench/axes.h"
#include "src/collbench/plot.h"
#include "src/collbench/point.h"
#include "src/collbench/race.h"
#include "src/collbench/table.h"
#include "src/program/cores.h"
#include "src/roofline/calibrate.h"

#include <stdlib.h>

/* A sample's least length: where ranks take turns on cores, some turns. */
static const double sample_s = 1e-3, sample_turns_s = 5e-3;

/* Where hwloc knows no last cache. */
static const int64_t assumed_cache_bytes = 32 << 20;

/* ---- what the command line names */

/* --algo, else the environment's, as rank 0 has it. Collective over world. */
static pl_status take_algo(pl_bench *b)
{
    pl_command_word(b->world, b->options->algo, PL_ALGO_VARIABLE, b->algo, sizeof b->algo);
    if (b->options->race)
        b->algo[0] = '\0';
    return pl_chooser_check(b->algo);
}

/* All are tried before one is emptied; the plot is written at the end. */
static pl_status open_outputs(pl_bench *b)
{
    const pl_bench_options *o = b->options;
    pl_status status;

    if (pl_log_rank() != 0)
        return PL_OK;
    status = pl_command_check_output("--csv", o->csv);
    if (status == PL_OK)
        status = pl_command_check_output("--json", o->json);
    if (status == PL_OK)
        status = pl_command_check_output("--plot", o->plot);
    return status == PL_OK ? pl_bench_records_open(&b->records, o->csv, o->json) : status;
}

pl_status pl_bench_open(MPI_Comm world, const pl_bench_options *options, pl_bench *b)
{
    pl_status status, algo;
    int n_ranks;

    *b = (pl_bench){.options = options, .world = world};
    PL_MPI(MPI_Comm_size(world, &n_ranks));
    algo = take_algo(b); /* collective: before anything is refused */
    status = pl_bench_mesh_parse(options->mesh, n_ranks, &b->mesh);
    if (status == PL_OK)
        status = pl_bench_axes_parse(options->axis, &b->mesh, &b->axes);
    if (status == PL_OK)
        status = algo;
    if (status == PL_OK && options->machine != NULL)
        status = pl_machine_read(options->machine, &b->machine);
    return pl_agree(world, status);
}

/* ---- ranks, groups, memory */

/* Bytes that the largest point needs on a rank: arrays of ours and MPI's, scratch, staging. */
static double most_memory(const pl_bench *b)
{
    double most = 0;

    for (int c = 0; c < PL_N_COLLECTIVES; c++) {
        const pl_bench_case like = {.collective = (pl_collective)c,
                                    .dtype = PL_F32,
                                    .count = pl_bench_count((pl_collective)c, b->options->max_bytes,
                                                            PL_F32, b->group->size),
                                    .n_ranks = b->group->size};
        const double arrays = (double)(pl_bench_elements(&like, PL_BENCH_IN) +
                                       pl_bench_elements(&like, PL_BENCH_OUT)) *
                              (double)pl_dtype_bytes(PL_F32);
        const double sets = pl_bench_n_sets(b, &like) * (b->options->vs_mpi ? 3.0 : 1.0);
        const double needs = arrays * (sets + 2); /* a scratch and a staging of the whole */

        if (b->options->op[c] && needs > most)
            most = needs;
    }
    return most;
}

static pl_status check_memory(const pl_bench *b)
{
    const double has = 0.8 * pl_topology_memory_bytes() / b->topology.ranks_on_host, needs = most_memory(b);

    if (needs <= has)
        return PL_OK;
    return pl_refuse(PL_BAD_INPUT,
                     "--maxbytes: arrays of %lld bytes need about %.3g GB a rank, and there are "
                     "%.3g GB for each; give a smaller --maxbytes or fewer ranks",
                     (long long)b->options->max_bytes, needs / 1e9, has / 1e9);
}

/* Where the group's ranks are. */
static void find_site(pl_bench *b)
{
    const int n = b->group->size;
    int *host_of = pl_alloc((size_t)n * sizeof *host_of);
    MPI_Request request;

    PL_MPI(MPI_Iallgather(&b->topology.host, 1, MPI_INT, host_of, 1, MPI_INT, b->group->comm,
                          &request));
    pl_mpi_finish(&request, 1);
    b->site = pl_site_on_hosts(b->arena, n, host_of, b->heap != NULL);
    pl_bench_site_set_axes(&b->site, &b->mesh, b->axes);
    pl_free(host_of);
    b->across = pl_bench_max(b->world, b->site.n_hosts > 1) > 0;
}

/* Hosts may differ, and yet all ranks must do the same. */
static void agree_on_caches(pl_bench *b)
{
    const int64_t l3 = b->topology.l3_bytes;

    b->cache_bytes = (int64_t)pl_bench_max(b->world, (double)(l3 > 0 ? l3 : assumed_cache_bytes));
    b->fewest_on_host = (int)-pl_bench_max(b->world, -(double)b->topology.ranks_on_host);
}

static pl_status prepare(pl_bench *b)
{
    const pl_bench_options *o = b->options;
    pl_status status;

    pl_topology_discover(b->world, &b->topology);
    pl_wait_set_oversubscribed(b->topology.oversubscribed);
    pl_cores_use(&b->topology);
    b->heap = pl_heap_create(b->world);
    pl_comms_create(b->world, &b->mesh, &b->axes, 1, &b->comms);
    b->group = pl_comms_group(&b->comms, b->axes);
    b->arena = pl_arena_create();
    b->is_open = true;
    find_site(b);
    agree_on_caches(b);
    status = check_memory(b);
    if (status == PL_OK)
        status = open_outputs(b);
    status = pl_agree(b->world, status);
    if (status == PL_OK && o->machine == NULL)
        status = pl_machine_cached(b->world, &b->topology, b->heap, o->recalibrate, false, PL_F32,
                                   &b->machine);
    b->chooser = (pl_chooser){.machine = &b->machine, .algo = b->algo};
    b->clock = (pl_bench_clock){.comm = b->world,
                                .n_samples = o->n_samples,
                                .n_warmup = o->n_warmup,
                                .sample_s = b->topology.oversubscribed ? sample_turns_s : sample_s};
    return status;
}

/* ---- the sweep */

/* All sizes of one collective, type and reduction. */
static pl_status sweep_sizes(pl_bench *b, pl_bench_case like, int64_t *wrong)
{
    const pl_bench_options *o = b->options;
    pl_status status = PL_OK;

    if (o->race)
        return pl_bench_race(b, like.collective, like.dtype, like.reduction, wrong);
    for (int64_t bytes = o->min_bytes; bytes <= o->max_bytes && status == PL_OK;
         bytes = pl_bench_next_bytes(o, bytes)) {
        pl_bench_point points[2];

        like.count = pl_bench_count(like.collective, bytes, like.dtype, like.n_ranks);
        const int n = pl_bench_point_measure(b, &like, points);
        pl_bench_print_row(b, points, n);
        for (int i = 0; i < n; i++) {
            *wrong += points[i].wrong > 0 ? points[i].wrong : 0;
            if (status == PL_OK)
                status = pl_bench_records_add(&b->records, &points[i]);
        }
        status = pl_agree(b->world, status);
    }
    return status;
}

static pl_status sweep_collective(pl_bench *b, pl_collective collective, int64_t *wrong)
{
    const pl_bench_options *o = b->options;
    const int n_reductions = pl_bench_reduces(collective) ? PL_N_REDUCTIONS : 1;
    pl_status status = PL_OK;

    if (!o->race)
        pl_bench_print_heading(b, collective);
    for (int d = 0; d < PL_N_DTYPES; d++)
        for (int r = 0; r < n_reductions; r++) {
            const bool asked = o->dtype[d] && (n_reductions == 1 || o->reduction[r]);

            if (asked && status == PL_OK)
                status = sweep_sizes(b,
                                     (pl_bench_case){.collective = collective,
                                                     .dtype = (pl_dtype)d,
                                                     .reduction = (pl_reduction)r,
                                                     .n_ranks = b->group->size,
                                                     .rank = b->group->rank},
                                     wrong);
        }
    return status;
}

static pl_status report(pl_bench *b)
{
    pl_status status = PL_OK;

    if (pl_log_rank() == 0 && !b->options->race) {
        status = pl_bench_print_summary(b);
        if (status == PL_OK && b->options->plot != NULL)
            status = pl_bench_plot(b->options->plot, &b->records);
    }
    return pl_agree(b->world, status);
}

pl_status pl_bench_run(pl_bench *b)
{
    pl_status status = prepare(b);
    int64_t wrong = 0;

    if (status != PL_OK)
        return status;
    pl_bench_print_banner(b);
    for (int c = 0; c < PL_N_COLLECTIVES && status == PL_OK; c++)
        if (b->options->op[c])
            status = sweep_collective(b, (pl_collective)c, &wrong);
    if (status == PL_OK)
        status = report(b);
    if (status == PL_OK && wrong > 0)
        status = pl_agree(b->world, pl_refuse(PL_WRONG, "%lld elements were wrong (column #wrong)",
                                              (long long)wrong));
    return status;
}

pl_status pl_bench_close(pl_bench *b)
{
    const pl_status status = pl_bench_records_close(&b->records);

    if (b->is_open) {
        pl_mpi_meet(b->world);
        pl_arena_destroy(b->arena);
        pl_comms_destroy(&b->comms);
        pl_heap_destroy(b->heap);
    }
    return pl_agree(b->world, status);
}
