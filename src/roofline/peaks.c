#include "config.h"

#include "src/roofline/peaks.h"

#include "kernels/stream.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N_TRIES = 3, ROUNDS = 2000, N_SETS = 4 };

static const int64_t KIB = 1 << 10, MIB = 1 << 20;

const char *pl_traffic_name(pl_traffic traffic)
{
    static const char *const names[PL_N_TRAFFIC] = {"read", "copy", "update"};

    return names[traffic];
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
    const pl_mix *mix;
    int way;
    char *x;
    size_t bytes; /* of the working set */
    uint64_t sum;
} stream;

static void run_stream(void *data)
{
    stream *s = data;

    s->sum += pl_mix_run(s->mix, s->way, s->x, s->bytes);
}

static const pl_mix mixes[PL_N_TRAFFIC] = {
    [PL_TRAFFIC_READ] = {1, {{PL_STREAM_READ, 1}}},
    [PL_TRAFFIC_COPY] = {2, {{PL_STREAM_READ, 1}, {PL_STREAM_WRITE, 1}}},
    [PL_TRAFFIC_UPDATE] = {1, {{PL_STREAM_UPDATE, 1}}}};

/* Ways to write make no difference to what writes nothing apart. */
static bool is_way(const pl_mix *mix, int way)
{
    return mix->n > 1 || way % 2 != PL_MIX_PAST;
}

static void measure_streams(const pl_measure *m, size_t bytes, int at, char *memory,
                            pl_peaks *peaks)
{
    for (int t = 0; t < PL_N_TRAFFIC; t++) {
        pl_curve *curve = &peaks->bytes_per_s[t];
        double rate = 0;

        for (int way = 0; way < PL_MIX_WAYS; way++) {
            stream s = {.mix = &mixes[t], .way = way, .x = memory, .bytes = bytes};

            if (is_way(&mixes[t], way))
                rate = fmax(rate, best_rate(m, run_stream, &s));
        }
        curve->size[at] = (double)bytes;
        curve->rate[at] = rate * pl_mix_bytes(&mixes[t], bytes);
        curve->n_points = at + 1;
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
    const size_t room = pl_mix_room(&mixes[PL_TRAFFIC_COPY], (size_t)sets[N_SETS - 1]);
    char *memory = pl_alloc(room);

    memset(memory, 1, room); /* pages of its own, not of zeros */
    for (int i = 0; i < N_SETS; i++)
        measure_streams(m, (size_t)sets[i], i, memory, peaks);
    pl_free(memory);
}

double pl_traffic_time_s(const double bytes_per_s[PL_N_TRAFFIC], double read, double written,
                         double updated)
{
    const double copied = fmin(read, written), alone = fmax(read, written) - copied;
    const pl_traffic rest = read >= written ? PL_TRAFFIC_READ : PL_TRAFFIC_COPY;

    return 2 * copied / bytes_per_s[PL_TRAFFIC_COPY] + alone / bytes_per_s[rest] +
           updated / bytes_per_s[PL_TRAFFIC_UPDATE];
}
