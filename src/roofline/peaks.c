#include "config.h"

#include "src/roofline/peaks.h"

#include "kernels/stream.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N_TRIES = 3, ROUNDS = 2000, LINE = 64, N_SETS = 4 };

static const int64_t KIB = 1 << 10, MIB = 1 << 20;

const char *pl_stream_name(pl_stream_use use)
{
    static const char *const names[PL_N_STREAMS] = {"read", "copy", "update"};

    return names[use];
}

static double best_rate(const pl_measure *m, pl_measured run, void *data)
{
    double best = 0;

    for (int i = 0; i < N_TRIES; i++)
        best = fmax(best, pl_measure_rate(m, run, data));
    return best;
}

typedef struct {
    pl_multiply_kind kind;
    double sum;
} multiplication;

static void run_multiplication(void *data)
{
    multiplication *x = data;

    if (pl_multiply_operations(x->kind) > 0) /* hosts may differ, and yet all measure alike */
        x->sum += pl_multiply_run(x->kind, ROUNDS);
}

typedef struct {
    char *x;
    size_t bytes; /* of the working set: of one array, or of two halves */
    bool past;
    uint64_t sum;
} stream;

static void run_read(void *data)
{
    stream *s = data;

    s->sum += pl_stream_read(s->x, s->bytes);
}

static void run_copy(void *data)
{
    const stream *s = data;
    const size_t half = s->bytes / 2 / LINE * LINE;

    /* not a multiple of a page apart: that would make loads wait for stores */
    pl_stream_copy(s->x, s->x + half + LINE * 17, half, s->past);
}

static void run_update(void *data)
{
    const stream *s = data;

    pl_stream_update(s->x, s->bytes);
}

static void measure_streams(const pl_measure *m, size_t bytes, int at, char *memory,
                            pl_peaks *peaks)
{
    stream s = {.x = memory, .bytes = bytes}, past = {.x = memory, .bytes = bytes, .past = true};
    const double rate[PL_N_STREAMS] = {
        [PL_STREAM_READ] = best_rate(m, run_read, &s),
        [PL_STREAM_COPY] = fmax(best_rate(m, run_copy, &s), best_rate(m, run_copy, &past)),
        [PL_STREAM_UPDATE] = 2 * best_rate(m, run_update, &s)};

    for (int u = 0; u < PL_N_STREAMS; u++) {
        peaks->bytes_per_s[u].size[at] = (double)bytes;
        peaks->bytes_per_s[u].rate[at] = (double)bytes * rate[u];
        peaks->bytes_per_s[u].n_points = at + 1;
    }
}

/* The same on all ranks, although their hosts may differ: what the first of them has. */
static void choose_sets(const pl_measure *m, const pl_topology *t, int64_t sets[N_SETS])
{
    const int64_t l1 = t->l1_bytes > 0 ? t->l1_bytes : 32 * KIB;
    const int64_t l2 = t->l2_bytes > l1 ? t->l2_bytes : 16 * l1;
    const int64_t l3 = t->l3_bytes > l2 ? t->l3_bytes : 16 * l2;
    const int64_t most = 512 * MIB / t->ranks_on_host, mine = l3 / t->ranks_on_host;

    sets[0] = l1 / 2;
    sets[1] = l2 / 2;
    sets[2] = mine / 4 > 2 * l2 ? mine / 4 : 2 * l2;
    sets[3] = 8 * mine < most ? 8 * mine : most;
    sets[3] = sets[3] > 2 * sets[2] ? sets[3] : 2 * sets[2];
    MPI_Request request;
    PL_MPI(MPI_Ibcast(sets, N_SETS, MPI_INT64_T, 0, m->comm, &request));
    pl_mpi_finish(&request, 1);
}

void pl_peaks_measure(const pl_measure *m, const pl_topology *topology, pl_peaks *peaks)
{
    int64_t sets[N_SETS];

    memset(peaks, 0, sizeof *peaks);
    for (int k = 0; k < PL_N_MULTIPLIES; k++) {
        multiplication x = {.kind = (pl_multiply_kind)k};
        const double operations = pl_multiply_operations(x.kind);

        peaks->flops_per_s[k] = ROUNDS * operations * best_rate(m, run_multiplication, &x);
    }
    choose_sets(m, topology, sets);
    char *memory = pl_alloc((size_t)sets[N_SETS - 1] + 18 * LINE);

    memset(memory, 1, (size_t)sets[N_SETS - 1] + 18 * LINE); /* pages of its own, not of zeros */
    for (int i = 0; i < N_SETS; i++)
        measure_streams(m, (size_t)sets[i], i, memory, peaks);
    pl_free(memory);
}

double pl_stream_time_s(const double bytes_per_s[PL_N_STREAMS], double read, double written,
                        double updated)
{
    const double copied = fmin(read, written), alone = fmax(read, written) - copied;
    const pl_stream_use use = read >= written ? PL_STREAM_READ : PL_STREAM_COPY;

    return 2 * copied / bytes_per_s[PL_STREAM_COPY] + alone / bytes_per_s[use] +
           updated / bytes_per_s[PL_STREAM_UPDATE];
}
