#include "config.h"

#include "src/kernbench/bench.h"

#include "src/base/command.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/kernbench/plot.h"
#include "src/kernbench/shapes.h"
#include "src/kernbench/table.h"
#include "src/program/cores.h"

#include <sched.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { MOST_SAMPLES = 25, WARMUP = 1 };
static const double sample_s = 1e-3;

typedef struct {
    const pl_kernbench_options *options;
    pl_topology topology;
    pl_stand stand;
    pl_records records;
    int64_t wrong;
    pl_case_group heading; /* of the rows so far */
} bench;

/* ---- before anything is measured */

/* All are tried before one is emptied; the plot is written at the end. */
static pl_status open_outputs(bench *b)
{
    const pl_kernbench_options *o = b->options;
    pl_status status = pl_command_check_output("--csv", o->csv);

    if (status == PL_OK)
        status = pl_command_check_output("--json", o->json);
    if (status == PL_OK)
        status = pl_command_check_output("--plot", o->plot);
    return status == PL_OK ? pl_records_open(&b->records, o->csv, o->json) : status;
}

/* To the last CPU that it may use (the first has more interrupts); -1 when that is refused. */
static int pin(void)
{
    cpu_set_t set;
    int cpu = -1;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            cpu = i;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 ? cpu : -1;
}

static void use_one_thread(pl_topology *topology)
{
#ifdef _OPENMP
    omp_set_num_threads(1); /* oneDNN's and BLIS's too */
#endif
    topology->threads = 1;
    pl_cores_use(topology);
}

static void measure_peaks(bench *b)
{
    pl_measure m;

    pl_measure_init(&m, MPI_COMM_SELF, &b->topology, false);
    pl_peaks_measure(&m, &b->topology, &b->stand.peaks);
    pl_measure_free(&m);
}

/* ---- the points */

static pl_status measure_case(bench *b, const pl_shape_entry *e, pl_dtype dtype)
{
    pl_case c;
    pl_point point;

    if (e->group != b->heading)
        pl_kernbench_print_heading(&b->stand, e->group);
    b->heading = e->group;
    pl_case_open(&c, pl_kernel_find(e->kernel), e->group, dtype, e->size);
    pl_point_measure(&b->stand, &c, &point);
    pl_case_close(&c);
    pl_kernbench_print_row(&b->stand, &point);
    b->wrong += point.wrong > 0 ? point.wrong : 0;
    return pl_records_add(&b->records, &point);
}

/* The i-th thing that may be asked for: a shape of the list, or --shape of the i-th kernel. */
static bool find_entry(const pl_kernbench_options *o, int i, pl_shape_entry *e)
{
    if (o->has_shape) {
        if (i >= pl_n_kernels)
            return false;
        *e = (pl_shape_entry){.kernel = pl_kernels[i].name, .group = PL_GROUP_OTHER};
        memcpy(e->size, o->shape, sizeof e->size);
        return true;
    }
    if (i >= pl_n_shapes)
        return false;
    *e = pl_shapes[i];
    return true;
}

static bool is_asked(const pl_kernbench_options *o, const pl_shape_entry *e, pl_dtype dtype)
{
    const pl_kernel *kernel = pl_kernel_find(e->kernel);

    PL_ASSERT(kernel != NULL);
    return (e->group == PL_GROUP_OTHER || o->group[e->group]) && o->dtype[dtype] &&
           kernel->in_dtype[dtype] && o->kernel[kernel - pl_kernels];
}

/* Call `visit` (may be NULL) for all that is asked for, group by group; how many there were. */
static int visit_all(bench *b, pl_status (*visit)(bench *, const pl_shape_entry *, pl_dtype),
                     pl_status *status)
{
    pl_shape_entry e;
    int n = 0;

    for (int g = 0; g < PL_N_GROUPS; g++)
        for (int d = 0; d < PL_N_DTYPES; d++)
            for (int i = 0; find_entry(b->options, i, &e); i++) {
                if ((int)e.group != g || !is_asked(b->options, &e, (pl_dtype)d))
                    continue;
                n++;
                if (visit != NULL && *status == PL_OK)
                    *status = visit(b, &e, (pl_dtype)d);
            }
    return n;
}

/* A case whose arrays, and as much again for the loops of its roof and what peers keep, would not
 * leave a fifth of the memory to the others. (The list's own shapes fit wherever purlin does.) */
static pl_status check_memory(bench *b, const pl_shape_entry *e, pl_dtype dtype)
{
    const double has = 0.8 * pl_topology_memory_bytes();
    pl_case c;

    (void)b;
    pl_case_open(&c, pl_kernel_find(e->kernel), e->group, dtype, e->size);
    const double needs = 2 * c.set_bytes;

    pl_case_close(&c);
    if (needs <= has)
        return PL_OK;
    return pl_refuse(PL_BAD_INPUT, "--shape: %s in %s needs about %.3g GB, and there are %.3g GB",
                     e->kernel, pl_dtype_short(dtype), needs / 1e9, has / 1e9);
}

static pl_status measure_all(bench *b)
{
    const pl_kernbench_options *o = b->options;
    pl_status status = pl_records_machine(&b->records, &b->topology, &b->stand);

    if (status == PL_OK)
        visit_all(b, measure_case, &status);
    if (status == PL_OK)
        status = pl_kernbench_print_summary(&b->stand, &b->records);
    if (status == PL_OK && o->plot != NULL)
        status = pl_kernbench_plot(o->plot, &b->topology, &b->stand.peaks, &b->records);
    return status;
}

pl_status pl_kernbench_run(const pl_kernbench_options *options)
{
    bench b = {.options = options, .heading = PL_N_GROUPS};
    pl_status status = PL_OK, closed;

    if (visit_all(&b, NULL, NULL) == 0)
        return pl_refuse(PL_BAD_INPUT, "--kernel, --group, --dtype: nothing has all three");
    if (options->has_shape)
        visit_all(&b, check_memory, &status);
    if (status == PL_OK)
        status = pl_peers_open(options->vs, &b.stand.peers);
    if (status == PL_OK)
        status = open_outputs(&b);
    if (status != PL_OK)
        return status;
    pl_topology_discover(MPI_COMM_SELF, &b.topology);
    const int cpu = pin();
    use_one_thread(&b.topology);
    b.stand.check = options->check;
    b.stand.clock = (pl_bench_clock){.comm = MPI_COMM_SELF,
                                     .n_samples = MOST_SAMPLES,
                                     .n_warmup = WARMUP,
                                     .sample_s = sample_s,
                                     .budget_s = options->seconds};
    measure_peaks(&b);
    pl_kernbench_print_banner(&b.topology, &b.stand, cpu);
    status = measure_all(&b);
    closed = pl_records_close(&b.records);
    pl_free(b.stand.stream);
    pl_peers_close(&b.stand.peers);
    if (status == PL_OK)
        status = closed;
    if (status == PL_OK && b.wrong > 0)
        status = pl_refuse(PL_WRONG, "%lld results are wrong", (long long)b.wrong);
    return status;
}
