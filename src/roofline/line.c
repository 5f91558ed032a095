#include "config.h"

#include "src/roofline/line.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/panic.h"
#include "src/roofline/measure.h"

#include <math.h>
#include <sched.h>

enum { N_BATCHES = 32, ROUNDS = 50, MOST_POLLS = 1 << 14, LINE_BYTES = 64 };

/* What stands in a counter at the end. */
static const uint64_t over = UINT64_MAX;

/* All batches, however busy the cores are. */
static const double most_s = 0.02;

/* Beyond this it was not a line that took the time. */
static const double most_line_s = 3e-6;

/* Every rank's counter, in memory of its own; it polls that one and writes the next one's. */
typedef struct {
    uint64_t *mine, *next;
} ring;

static uint64_t await_other(const uint64_t *counter, uint64_t last)
{
    uint64_t x;

    for (int polls = 0; (x = __atomic_load_n(counter, __ATOMIC_ACQUIRE)) == last; polls++)
        if (polls >= MOST_POLLS)
            sched_yield(); /* perhaps another process has its core */
    return x;
}

static void pass_on(const ring *r, uint64_t x)
{
    __atomic_store_n(r->next, x, __ATOMIC_RELEASE);
}

/* The first rank begins rounds and times them. */
static double lead(const ring *r, int n_ranks)
{
    double hop_s[N_BATCHES];
    const double begin_s = pl_now_s();
    uint64_t round = 0;
    int n = 0;

    do {
        const double batch_s = pl_now_s();

        for (int i = 0; i < ROUNDS; i++) {
            pass_on(r, ++round);
            await_other(r->mine, round - 1);
        }
        hop_s[n++] = (pl_now_s() - batch_s) / (ROUNDS * n_ranks);
    } while (n < N_BATCHES && pl_now_s() - begin_s < most_s);
    pass_on(r, over);
    await_other(r->mine, round);
    return pl_lower_quartile(hop_s, n);
}

static void follow(const ring *r)
{
    uint64_t x = 0;

    while (x != over) {
        x = await_other(r->mine, x);
        pass_on(r, x);
    }
}

bool pl_lines_differ(double line_s, double other_s)
{
    return line_s > 0 && other_s > 0 &&
           fmax(line_s, other_s) >= PL_MOST_ALIKE * fmin(line_s, other_s);
}

double pl_measure_line(MPI_Comm comm, const pl_topology *topology, pl_heap *heap)
{
    const pl_topology *t = topology;
    const int n = t->ranks_on_host, rank = t->rank_on_host;
    double line_s = 0;
    MPI_Request request;

    if (heap == NULL || t->n_hosts > 1 || n < 2 || n > t->cores_on_host)
        return 0;
    uint64_t *mine = pl_heap_alloc(heap, LINE_BYTES);
    int64_t *offset = pl_alloc((size_t)t->n_ranks * sizeof *offset);
    offset[rank] = pl_heap_offset(heap, mine);
    PL_MPI(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, offset, 1, MPI_INT64_T, comm,
                          &request));
    pl_mpi_finish(&request, 1);
    const int next = (rank + 1) % n;
    const ring r = {mine, pl_heap_at(heap, next, offset[next])};
    if (rank == 0)
        line_s = lead(&r, n);
    else
        follow(&r);
    pl_mpi_meet(comm); /* nobody may still write to what is freed */
    PL_MPI(MPI_Ibcast(&line_s, 1, MPI_DOUBLE, 0, comm, &request));
    pl_mpi_finish(&request, 1);
    pl_free(offset);
    pl_heap_free(heap, mine);
    return line_s < most_line_s ? line_s : 0;
}
