#include "config.h"

#include "src/roofline/links.h"

#include "collectives/engine.h"
#include "collectives/region.h"
#include "src/base/clock.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/finish.h"
#include "src/roofline/beside.h"

#include <math.h>
#include <string.h>

enum {
    KIB = 1 << 10,
    MIB = 1 << 20,
    MANY_ROUNDS = 32,
    FEW_ROUNDS = 4,
    N_PASSES = 2,
    SHARED_TRIES = 7,
    ONE_WAY_TRIES = 5,
    ROOM_TRIES = 7
};

/* Bytes of a message, each so many times the one before; TURNS_GROWTH inside a host where ranks
 * take turns, which blur the curve anyway. */
enum {
    SMALLEST = 256,
    LARGEST = 16 * MIB,
    QUICK_LARGEST = 256 * KIB,
    GROWTH = 4,
    TURNS_GROWTH = 16
};

/* A slow link need not be asked about larger messages: its bandwidth is known. */
static const double long_s = 0.3;
static const double beside_s = 0.05, shared_beside_s = 0.2;

enum { TO_SEND, TO_RECV, N_ARRAYS };

typedef struct {
    const pl_measure *m;
    pl_heap *heap;
    pl_group group;
    bool leaves_host;       /* every message does: no two of the group are on one */
    void *arrays[N_ARRAYS]; /* LARGEST bytes each */
} laboratory;

/* Elements r n .. (r + 1) n of an array, round its end; n divides LARGEST. */
static pl_region part(pl_piece *piece, int array, int r, int64_t n)
{
    const int64_t n_parts = LARGEST / (int64_t)sizeof(float) / n;

    *piece = pl_piece_of(array, r % n_parts * n, n);
    return (pl_region){.n_pieces = 1, .pieces = piece};
}

/* n_rounds rounds, in each of which every rank sends n elements to the right and receives as many
 * from the left, other ones in every round. */
static pl_schedule *ring(const pl_group *group, int n_rounds, int64_t n)
{
    const int right = (group->rank + 1) % group->size;
    const int left = (group->rank + group->size - 1) % group->size;
    pl_schedule *s = pl_schedule_create();
    pl_piece piece;

    for (int r = 0; r < n_rounds && group->size > 1; r++) {
        pl_schedule_send(s, right, part(&piece, TO_SEND, r, n));
        pl_schedule_recv(s, left, part(&piece, TO_RECV, r, n));
        pl_schedule_next_round(s);
    }
    return s;
}

/* One round of n_messages of an element to and from each rank: to all others in turn. */
static pl_schedule *volley(const pl_group *group, int n_messages)
{
    const int P = group->size, rank = group->rank;
    pl_schedule *s = pl_schedule_create();
    pl_piece piece;

    for (int k = 0; k < n_messages && P > 1; k++) {
        const int far = 1 + k % (P - 1);

        pl_schedule_send(s, (rank + far) % P, part(&piece, TO_SEND, k, 1));
        pl_schedule_recv(s, (rank + P - far) % P, part(&piece, TO_RECV, k, 1));
    }
    pl_schedule_next_round(s);
    return s;
}

/* The rank that this one is a pair with, or itself. */
static int partner_of(const pl_group *group)
{
    const int partner = group->rank % 2 == 0 ? group->rank + 1 : group->rank - 1;

    return partner < group->size ? partner : group->rank;
}

/* Of each pair the first rank sends n elements to the second, or, on the way back, that one to the
 * first. */
static bool sends(const pl_group *group, bool back)
{
    return partner_of(group) != group->rank && (group->rank % 2 == 1) == back;
}

static pl_schedule *pairs(const pl_group *group, bool back, int64_t n)
{
    const int partner = partner_of(group);
    pl_schedule *s = pl_schedule_create();
    pl_piece piece;

    if (sends(group, back))
        pl_schedule_send(s, partner, part(&piece, TO_SEND, 0, n));
    else if (partner != group->rank)
        pl_schedule_recv(s, partner, part(&piece, TO_RECV, 0, n));
    return s;
}

/* A host for each rank. */
static void spread(pl_schedule *schedule, const pl_group *group)
{
    int *const host = pl_alloc((size_t)group->size * sizeof *host);

    for (int r = 0; r < group->size; r++)
        host[r] = r;
    pl_schedule_set_hosts(schedule, host, group->size, group->rank);
    pl_free(host);
}

/* Seconds of one run of a schedule, which is destroyed. */
static double time_schedule_s(const laboratory *lab, pl_schedule *schedule)
{
    if (lab->leaves_host)
        spread(schedule, &lab->group);
    const double time_s =
        pl_measure_schedule_s(lab->m, lab->heap, &lab->group, schedule, lab->arrays, N_ARRAYS);

    pl_schedule_destroy(schedule);
    return time_s;
}

/* Of more ranks than a machine holds, what the one has where it is most. */
static void gather_costs(const pl_measure *m, pl_core_cost own, pl_link *link)
{
    int n_ranks, rank;

    PL_MPI(MPI_Comm_size(m->comm, &n_ranks));
    PL_MPI(MPI_Comm_rank(m->comm, &rank));
    pl_core_cost *const all = pl_alloc((size_t)n_ranks * sizeof *all); /* zeros */
    all[rank] = own;
    pl_mpi_all_reduce(m->comm, all, n_ranks * (int)(sizeof *all / sizeof(double)), MPI_DOUBLE,
                      MPI_SUM);
    link->n_cores = n_ranks <= PL_MACHINE_RANKS ? n_ranks : 1;
    for (int r = 0; r < n_ranks; r++) {
        pl_core_cost *const cost = &link->core[r < link->n_cores ? r : 0];

        *cost = pl_core_cost_larger(*cost, all[r]);
    }
    pl_free(all);
}

/* Elements that take about that long both ways; they divide LARGEST. */
static int64_t elements_for(double time_s, const pl_link *link)
{
    int64_t n = LARGEST / (int64_t)sizeof(float);

    while (n > 1 && (double)n * sizeof(float) > time_s * link->both_ways_bytes_per_s)
        n /= 2;
    return n;
}

/* The schedule, which is destroyed, and products beside it. */
static pl_beside beside(const laboratory *lab, pl_schedule *schedule, int n_tries)
{
    spread(schedule, &lab->group);
    const pl_beside all =
        pl_measure_beside(lab->m, lab->heap, &lab->group, schedule, lab->arrays, N_ARRAYS, n_tries);

    pl_schedule_destroy(schedule);
    return all;
}

/* What messages both ways and kernels cost each other. Sent for about beside_s, so that it is not
 * the ends that count, in rounds, as collectives do: 1 and 4 of 16 MB at 1 Gbit/s took 62 and 74
 * ms. Where ranks take turns on cores, longer and so much the fewer times: a turn of 4 ms more or
 * less was a seventh of what messages of 0.05 s took of a core. */
static void measure_both_ways(const laboratory *lab, pl_link *link, pl_core_cost *own)
{
    const bool take_turns = lab->m->take_turns;
    const int64_t n =
        (elements_for(take_turns ? shared_beside_s : beside_s, link) + FEW_ROUNDS - 1) / FEW_ROUNDS;
    const double n_bytes = (double)n * FEW_ROUNDS * sizeof(float);
    const pl_beside both =
        beside(lab, ring(&lab->group, FEW_ROUNDS, n), take_turns ? SHARED_TRIES : PL_BESIDE_TRIES);

    *own = (pl_core_cost){.byte_s = both.core_s / n_bytes,
                          .polled_byte_s = both.apart_s / n_bytes,
                          .sent_byte_s = both.core_s / n_bytes,
                          .received_byte_s = both.core_s / n_bytes};
    link->late_s = both.late_s / FEW_ROUNDS;
    pl_mpi_all_reduce(lab->m->comm, &link->late_s, 1, MPI_DOUBLE, MPI_MAX);
}

/* What they cost that go one way; each rank of a pair sends once. */
static void measure_one_way(const laboratory *lab, int64_t n, pl_core_cost *own)
{
    const double n_bytes = (double)n * sizeof(float);

    for (int back = 0; back < 2; back++) {
        const pl_beside one = beside(lab, pairs(&lab->group, back, n), ONE_WAY_TRIES);

        if (sends(&lab->group, back))
            own->sent_byte_s = one.core_s / n_bytes;
        else if (partner_of(&lab->group) != lab->group.rank)
            own->received_byte_s = one.core_s / n_bytes;
    }
}

/* How much of what both ranks of a pair send each other has room before the link, since who sends
 * is done with so much less, and what it takes to put it there. */
static void measure_room(const laboratory *lab, int64_t n, pl_core_cost *own)
{
    pl_schedule *way[2];
    pl_engine *engine = pl_engine_create(lab->heap);
    pl_transfer *transfer[2];
    double start_s[ROOM_TRIES], part[ROOM_TRIES];
    const int mine = sends(&lab->group, true) ? 1 : 0; /* the way that this rank sends */

    for (int back = 0; back < 2; back++) {
        way[back] = pairs(&lab->group, back, n);
        spread(way[back], &lab->group);
        transfer[back] = pl_engine_prepare(engine, way[back], &lab->group, back, PL_F32,
                                           lab->arrays, N_ARRAYS, NULL, "calibration");
    }
    for (int i = 0; i < ROOM_TRIES; i++) {
        pl_measure_meet(lab->m);
        pl_engine_start(engine, transfer[1 - mine]);
        const double begin_s = pl_now_s();
        pl_engine_start(engine, transfer[mine]);
        start_s[i] = pl_now_s() - begin_s;
        pl_engine_wait(engine, transfer[mine]);
        pl_engine_wait(engine, transfer[1 - mine]);
        part[i] =
            1 - pl_transfer_duration_s(transfer[mine]) / pl_transfer_duration_s(transfer[1 - mine]);
    }
    if (partner_of(&lab->group) != lab->group.rank) {
        own->buffered_bytes = fmax(pl_median(part, ROOM_TRIES), 0) * (double)n * sizeof(float);
        if (own->buffered_bytes > 0)
            own->start_byte_s = pl_lower_quartile(start_s, ROOM_TRIES) / own->buffered_bytes;
    }
    pl_measure_meet(lab->m); /* nobody may still look at what is freed */
    pl_engine_destroy(engine);
    for (int back = 0; back < 2; back++)
        pl_schedule_destroy(way[back]);
}

static void measure_beside(const laboratory *lab, pl_link *link)
{
    pl_core_cost own;

    measure_both_ways(lab, link, &own);
    if (!lab->m->take_turns) {
        const int64_t n = elements_for(2 * beside_s, link);

        measure_one_way(lab, n, &own);
        measure_room(lab, n, &own);
    }
    gather_costs(lab->m, own, link);
}

/* Bytes per second by message size, where that is more than the curve has. A round of time_s is a
 * latency and bytes; however noisy the measurements, a part of it is the bytes'. */
static void raise_curve(const laboratory *lab, bool both_ways, double longest_s, double overhead_s,
                        double latency_s, pl_curve *curve)
{
    const int most_rounds = lab->group.size - 1;
    const int n_rounds = !both_ways || most_rounds < 1 ? 1
                         : most_rounds < FEW_ROUNDS    ? most_rounds
                                                       : FEW_ROUNDS;
    const int growth = lab->m->take_turns && !lab->leaves_host ? TURNS_GROWTH : GROWTH;
    const int64_t largest = lab->m->quick ? QUICK_LARGEST : LARGEST;
    int64_t size = SMALLEST;
    double time_s = 0;

    for (int i = 0; size <= largest && time_s * growth < longest_s; i++, size *= growth) {
        const int64_t n = size / (int64_t)sizeof(float);

        time_s = time_schedule_s(lab, both_ways ? ring(&lab->group, n_rounds, n)
                                                : pairs(&lab->group, false, n));
        const double round_s = fmax(time_s - overhead_s, time_s / 16) / n_rounds;
        curve->size[i] = (double)size;
        const double rate = curve->size[i] / fmax(round_s - latency_s, round_s / 16);
        if (rate > curve->rate[i]) {
            curve->rate[i] = rate;
            curve->spread[i] = *lab->m->spread;
        }
        curve->n_points = i + 1 > curve->n_points ? i + 1 : curve->n_points;
    }
}

static void measure_rings(const laboratory *lab, pl_link *link, double *overhead_s,
                          double *overhead_spread)
{
    *overhead_s = time_schedule_s(lab, ring(&lab->group, 0, 1));
    *overhead_spread = *lab->m->spread;
    link->latency_s =
        (time_schedule_s(lab, ring(&lab->group, MANY_ROUNDS, 1)) - *overhead_s) / MANY_ROUNDS;
    link->latency_spread = *lab->m->spread;
    const double volley_s = time_schedule_s(lab, volley(&lab->group, MANY_ROUNDS)) - *overhead_s;
    /* however noisy, a part of it is the further messages', and none takes longer than the first */
    link->message_s =
        fmin(fmax(volley_s - link->latency_s, volley_s / 16) / (MANY_ROUNDS - 1), link->latency_s);
    /* twice, one after the other: what disturbs messages lasts longer than the windows of a size,
     * but those of long ones */
    for (int pass = 0; pass < N_PASSES; pass++) {
        const double longest_s = pass == 0 ? long_s : long_s / 10;

        raise_curve(lab, false, longest_s, *overhead_s, link->latency_s, &link->one_way_by_size);
        raise_curve(lab, true, longest_s, *overhead_s, link->latency_s, &link->both_ways_by_size);
    }
    link->one_way_bytes_per_s = pl_curve_at(&link->one_way_by_size, INFINITY);
    link->both_ways_bytes_per_s = pl_curve_at(&link->both_ways_by_size, INFINITY);
    if (lab->leaves_host)
        measure_beside(lab, link);
}

void pl_measure_link(const pl_measure *m, const pl_topology *topology, pl_heap *heap,
                     pl_link_class class, pl_link *link, double *overhead_s,
                     double *overhead_spread)
{
    const bool same_host = class == PL_LINK_SAME_HOST;
    const int color = same_host ? topology->host : topology->rank_on_host;
    const int key = same_host ? topology->rank_on_host : topology->host;
    laboratory lab = {.m = m, .heap = heap, .leaves_host = !same_host};

    memset(link, 0, sizeof *link);
    *overhead_s = *overhead_spread = 0;
    PL_MPI(MPI_Comm_split(m->comm, color, key, &lab.group.comm));
    PL_MPI(MPI_Comm_size(lab.group.comm, &lab.group.size));
    PL_MPI(MPI_Comm_rank(lab.group.comm, &lab.group.rank));
    int largest = lab.group.size;
    pl_mpi_all_reduce(m->comm, &largest, 1, MPI_INT, MPI_MAX);
    if (largest > 1) {
        for (int a = 0; a < N_ARRAYS; a++)
            lab.arrays[a] = pl_measure_array(heap, LARGEST / (int64_t)sizeof(float));
        measure_rings(&lab, link, overhead_s, overhead_spread);
        for (int a = 0; a < N_ARRAYS; a++)
            pl_heap_free(heap, lab.arrays[a]);
    }
    PL_MPI(MPI_Comm_free(&lab.group.comm));
}
