#include "config.h"

#include "src/roofline/shared.h"

#include "collectives/algorithms.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "kernels/elementwise.h"
#include "src/base/block.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/roofline/after.h"

#include <math.h>

enum { KIB = 1 << 10, MIB = 1 << 20, MANY_STAGES = 32 };

/* Bytes of the array, all of a host's ranks' together at most so many. */
static const int64_t sizes[] = {64,        256,       KIB,       4 * KIB, 16 * KIB, 64 * KIB,
                                128 * KIB, 256 * KIB, 512 * KIB, MIB,     2 * MIB,  4 * MIB,
                                8 * MIB,   16 * MIB,  32 * MIB,  64 * MIB};
enum {
    N_SIZES = sizeof sizes / sizeof sizes[0],
    MOST_TOGETHER = 256 * MIB,
    QUICK_TOGETHER = 16 * MIB,
    FAR_TOGETHER = 64 * MIB, /* of what comes from memory: little, but it goes past the caches */
    /* Of a rank's share of the last cache: so much displaces what was there, even where the share is
     * larger than is known. */
    SWEEP_CACHES = 8
};

/* The algorithm that shows how fast each class is, in the order in which they can be told. */
enum { PROBE_COPY };
static const struct {
    pl_shared_class class;
    pl_collective collective;
    pl_algorithm_write *write;
} probes[] = {
    [PROBE_COPY] = {PL_SHARED_COPY, PL_ALL_GATHER, pl_shared_all_gather},
    {PL_SHARED_REDUCE, PL_REDUCE_SCATTER, pl_shared_reduce_scatter},
    {PL_SHARED_SPREAD, PL_ALL_REDUCE, pl_shared_all_reduce},
    {PL_SHARED_FRESH, PL_ALL_REDUCE, pl_pulled_all_reduce},
    {PL_SHARED_STAGED, PL_ALL_REDUCE, pl_staged_all_reduce},
};
enum { N_PROBES = sizeof probes / sizeof probes[0] };

enum { INTO, FROM, N_ARRAYS };

typedef struct {
    const pl_measure *m;
    pl_heap *heap;
    pl_arena *arena;
    pl_group group; /* the ranks of this host */
    pl_site site;
    void *arrays[N_ARRAYS]; /* as large as the largest */
} laboratory;

static double time_schedule_s(const laboratory *lab, const pl_schedule *schedule)
{
    return pl_measure_schedule_s(lab->m, lab->heap, &lab->group, schedule, lab->arrays, N_ARRAYS);
}

static void measure_signal(const laboratory *lab, pl_machine *machine)
{
    pl_schedule *s = pl_measure_signals(&lab->group, MANY_STAGES);

    machine->signal_s = time_schedule_s(lab, s) / MANY_STAGES;
    machine->spread.signal_s = *lab->m->spread;
    pl_schedule_destroy(s);
}

/* Bytes per second of the class whose curve lacks its last point, when the schedule takes time_s.
 */
static double rate_of_class(const laboratory *lab, const pl_schedule *s, pl_shared_class class,
                            double time_s, const pl_machine *machine)
{
    pl_machine other = *machine; /* in which one byte of the class costs one second, or nothing */
    pl_curve *curve = &other.shared_bytes_per_s[class];

    *curve = (pl_curve){.n_points = 1, .size = {1}, .rate = {INFINITY}};
    const double rest_s = machine->comm_overhead_s +
                          pl_schedule_price_s(s, PL_F32, &other, &lab->site, lab->group.rank);
    curve->rate[0] = 1;
    const double bytes = machine->comm_overhead_s - rest_s +
                         pl_schedule_price_s(s, PL_F32, &other, &lab->site, lab->group.rank);
    /* however noisy the measurements, at least a part of it is the bytes' */
    return bytes / fmax(time_s - rest_s, time_s / 16);
}

/* The schedule by which a class is timed, of an array of so many bytes. */
static pl_schedule *schedule_of_probe(const laboratory *lab, int probe, int64_t bytes)
{
    const int P = lab->group.size;
    const int64_t n = bytes / (int64_t)sizeof(float);
    const pl_piece from = pl_piece_of(FROM, 0, n);
    pl_schedule *s = pl_schedule_create();
    pl_arena *arena = pl_schedule_arena(s);
    const pl_collective_call call = {
        .collective = probes[probe].collective,
        .dtype = PL_F32,
        .blocks = pl_blocks_of_arrays(arena, &n, 1, P),
        .from = pl_blocks_of_region(arena, (pl_region){1, &from}, P)}; /* AllReduce */

    probes[probe].write(s, &call, &lab->site, lab->group.rank);
    return s;
}

static void measure_class(const laboratory *lab, int probe, int64_t most_bytes, pl_machine *machine)
{
    const int stride = machine->ranks_per_core > 1 ? 2 : 1; /* turns blur the curve anyway */
    pl_curve *curve = &machine->shared_bytes_per_s[probes[probe].class];

    curve->n_points = 0;
    for (int i = 0; i < N_SIZES && sizes[i] <= most_bytes; i += stride) {
        pl_schedule *s = schedule_of_probe(lab, probe, sizes[i]);
        const double time_s = time_schedule_s(lab, s);
        const double rate = rate_of_class(lab, s, probes[probe].class, time_s, machine);

        curve->spread[curve->n_points] = *lab->m->spread;
        curve->size[curve->n_points] = (double)pl_schedule_count(s, PL_F32).touched_bytes;
        curve->rate[curve->n_points++] = rate;
        pl_schedule_destroy(s);
    }
}

static double time_after_s(const laboratory *lab, const pl_schedule *s, pl_measured before,
                           void *data)
{
    return pl_measure_after_s(lab->m, lab->heap, &lab->group, s, lab->arrays, N_ARRAYS, before,
                              data);
}

/* So many elements from one place to another. */
typedef struct {
    int64_t n;
    const float *from;
    float *to;
} pass;

/* What a rank writes just before peers read it, as a kernel would have. */
static void make_block(void *data)
{
    const pass *p = data;

    pl_copy(p->n, p->from, p->to);
}

static void measure_made(const laboratory *lab, int64_t most_bytes, pl_machine *machine)
{
    const int P = lab->group.size, r = lab->group.rank;
    pl_curve *curve = &machine->shared_made_bytes_per_s;

    curve->n_points = 0;
    for (int64_t size = 64 * KIB; size <= 32 * MIB && size <= most_bytes; size *= 4) {
        const int64_t n = size / (int64_t)sizeof(float);
        pl_schedule *s = schedule_of_probe(lab, PROBE_COPY, size);
        pass block = {.n = pl_block_count(n, P, r),
                      .from = lab->arrays[FROM],
                      .to = (float *)lab->arrays[INTO] + pl_block_begin(n, P, r)};
        const double touched = (double)pl_schedule_count(s, PL_F32).touched_bytes;
        const double time_s = time_after_s(lab, s, make_block, &block);
        const double moving_s = time_s - machine->comm_overhead_s - machine->signal_s;

        curve->size[curve->n_points] = touched;
        curve->spread[curve->n_points] = *lab->m->spread;
        /* however noisy the measurements, at least a part of it is the bytes' */
        curve->rate[curve->n_points++] = touched / fmax(moving_s, time_s / 16);
        pl_schedule_destroy(s);
    }
}

/* Fills the caches with what this rank has written. */
static void fill_caches(void *data)
{
    const pass *p = data;

    pl_scale(p->n, 1, p->from, p->to);
}

/* A loop over one array, as large as it may be, finds a part of it where the run before has left it,
 * and caches from which nothing must be written back first. A step does not: other arrays come
 * between. */
static void measure_far(const laboratory *lab, int64_t most_bytes, pl_machine *machine)
{
    const double sweep_bytes = (lab->m->quick ? 1 : SWEEP_CACHES) * machine->mid_bytes;
    const int64_t n = (int64_t)sweep_bytes / (int64_t)sizeof(float);
    float *x = pl_measure_array(NULL, n);
    pass sweep = {.n = n, .from = x, .to = x};
    pl_machine far = *machine; /* whose classes that are known already come from memory */

    for (int i = 0; i < N_PROBES; i++) {
        const pl_shared_class class = probes[i].class;
        pl_schedule *s = schedule_of_probe(lab, i, most_bytes);
        const double time_s = time_after_s(lab, s, fill_caches, &sweep);
        const double rate = rate_of_class(lab, s, class, time_s, &far);

        far.shared_bytes_per_s[class] = (pl_curve){.n_points = 1, .size = {1}, .rate = {rate}};
        machine->shared_far_bytes_per_s[class] = rate;
        machine->spread.shared_far_bytes_per_s[class] = *lab->m->spread;
        pl_schedule_destroy(s);
    }
    pl_heap_free(NULL, x);
}

static void measure_all(laboratory *lab, int64_t most_bytes, pl_machine *machine)
{
    const int64_t far_bytes = FAR_TOGETHER / lab->group.size;

    lab->arena = pl_arena_create();
    lab->site = pl_site_one_host(lab->arena, lab->group.size, true);
    for (int a = 0; a < N_ARRAYS; a++)
        lab->arrays[a] = pl_measure_array(lab->heap, most_bytes / (int64_t)sizeof(float));
    measure_signal(lab, machine);
    for (int i = 0; i < N_PROBES; i++)
        measure_class(lab, i, most_bytes, machine);
    measure_made(lab, most_bytes, machine);
    measure_far(lab, most_bytes < far_bytes ? most_bytes : far_bytes, machine);
    pl_measure_meet(lab->m);
    for (int a = 0; a < N_ARRAYS; a++)
        pl_heap_free(lab->heap, lab->arrays[a]);
    pl_arena_destroy(lab->arena);
}

void pl_measure_shared(const pl_measure *m, const pl_topology *topology, pl_heap *heap,
                       pl_machine *machine)
{
    laboratory lab = {.m = m, .heap = heap};
    int largest = topology->ranks_on_host;

    pl_mpi_all_reduce(m->comm, &largest, 1, MPI_INT, MPI_MAX);
    if (heap == NULL || largest < 2)
        return;
    PL_MPI(MPI_Comm_split(m->comm, topology->host, topology->rank_on_host, &lab.group.comm));
    PL_MPI(MPI_Comm_size(lab.group.comm, &lab.group.size));
    PL_MPI(MPI_Comm_rank(lab.group.comm, &lab.group.rank));
    measure_all(&lab, (m->quick ? QUICK_TOGETHER : MOST_TOGETHER) / largest, machine);
    PL_MPI(MPI_Comm_free(&lab.group.comm));
}
