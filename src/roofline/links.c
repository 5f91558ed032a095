#include "config.h"

#include "src/roofline/links.h"

#include "collectives/engine.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <string.h>

enum { SMALL = 1, LARGE = 1 << 18, MANY_ROUNDS = 32 }; /* elements: 4 bytes, 1 MiB */

enum { TO_SEND, TO_RECV, N_ARRAYS };

static pl_region whole(pl_piece *piece, int array, int64_t n)
{
    *piece = (pl_piece){.array = array, .count = 1, .stride = n, .length = n};
    return (pl_region){.n_pieces = 1, .pieces = piece};
}

/* n_rounds rounds, in each of which every rank sends n elements to the right and receives as many
 * from the left. */
static pl_schedule *ring(const pl_group *group, int n_rounds, int64_t n)
{
    const int right = (group->rank + 1) % group->size;
    const int left = (group->rank + group->size - 1) % group->size;
    pl_schedule *s = pl_schedule_create();
    pl_piece pieces[N_ARRAYS];

    for (int r = 0; r < n_rounds && group->size > 1; r++) {
        pl_schedule_send(s, right, whole(&pieces[TO_SEND], TO_SEND, n));
        pl_schedule_recv(s, left, whole(&pieces[TO_RECV], TO_RECV, n));
        pl_schedule_next_round(s);
    }
    return s;
}

/* Even ranks send n elements to the next. */
static pl_schedule *pairs(const pl_group *group, int64_t n)
{
    const int rank = group->rank;
    pl_schedule *s = pl_schedule_create();
    pl_piece piece;

    if (rank % 2 == 1)
        pl_schedule_recv(s, rank - 1, whole(&piece, TO_RECV, n));
    else if (rank + 1 < group->size)
        pl_schedule_send(s, rank + 1, whole(&piece, TO_SEND, n));
    return s;
}

typedef struct {
    pl_engine *engine;
    pl_transfer *transfer;
} started;

static void start_and_wait(void *data)
{
    const started *s = data;

    pl_engine_start(s->engine, s->transfer);
    pl_engine_wait(s->engine, s->transfer);
}

/* Seconds of one run of a schedule, which is destroyed. */
static double time_schedule_s(const pl_measure *m, const pl_group *group, pl_schedule *schedule,
                              float *const *arrays)
{
    pl_engine *engine = pl_engine_create();
    started s = {.engine = engine,
                 .transfer = pl_engine_prepare(engine, schedule, group, 0, arrays, N_ARRAYS, NULL,
                                               "calibration of messages")};
    const double time_s = pl_measure_time_s(m, start_and_wait, &s);

    pl_engine_destroy(engine);
    pl_schedule_destroy(schedule);
    return time_s;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Bytes per second of a large message that takes time_s, its latency apart (at most half of it). */
static double bandwidth(double time_s, double latency_s)
{
    return LARGE * sizeof(float) / larger(time_s - latency_s, time_s / 2);
}

static void measure_rings(const pl_measure *m, const pl_group *group, pl_link *link,
                          double *overhead_s)
{
    float *arrays[N_ARRAYS] = {pl_alloc(LARGE * sizeof(float)), pl_alloc(LARGE * sizeof(float))};

    *overhead_s = time_schedule_s(m, group, ring(group, 0, SMALL), arrays);
    link->latency_s =
        time_schedule_s(m, group, ring(group, MANY_ROUNDS, SMALL), arrays) / MANY_ROUNDS;
    link->one_way_bytes_per_s =
        bandwidth(time_schedule_s(m, group, pairs(group, LARGE), arrays), link->latency_s);
    link->both_ways_bytes_per_s =
        bandwidth(time_schedule_s(m, group, ring(group, 1, LARGE), arrays), link->latency_s);
    pl_free(arrays[TO_SEND]);
    pl_free(arrays[TO_RECV]);
}

void pl_measure_link(const pl_measure *m, const pl_topology *topology, pl_link_class class,
                     pl_link *link, double *overhead_s)
{
    const bool same_host = class == PL_LINK_SAME_HOST;
    const int color = same_host ? topology->host : topology->rank_on_host;
    const int key = same_host ? topology->rank_on_host : topology->host;
    pl_group group = {.axes = 0};
    MPI_Request request;
    int largest;

    memset(link, 0, sizeof *link);
    *overhead_s = 0;
    PL_MPI(MPI_Comm_split(m->comm, color, key, &group.comm));
    PL_MPI(MPI_Comm_size(group.comm, &group.size));
    PL_MPI(MPI_Comm_rank(group.comm, &group.rank));
    PL_MPI(MPI_Iallreduce(&group.size, &largest, 1, MPI_INT, MPI_MAX, m->comm, &request));
    pl_mpi_finish(&request, 1);
    if (largest > 1)
        measure_rings(m, &group, link, overhead_s);
    PL_MPI(MPI_Comm_free(&group.comm));
}
