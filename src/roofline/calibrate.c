#include "config.h"

#include "src/roofline/calibrate.h"

#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/wait.h"
#include "src/program/cores.h"
#include "src/roofline/contention.h"
#include "src/roofline/core_places.h"
#include "src/roofline/kernels.h"
#include "src/roofline/line.h"
#include "src/roofline/links.h"
#include "src/roofline/measure.h"
#include "src/roofline/rates.h"
#include "src/roofline/shared.h"
#include "src/roofline/turns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* Where no two ranks share a host, nothing of them is met but in predictions for more ranks. */
static void suppose_sharing(pl_machine *machine)
{
    const double rates[PL_N_SHARED] = {
        [PL_SHARED_COPY] = 2 * machine->copy_bytes_per_s,
        [PL_SHARED_REDUCE] = 3 * machine->reduce_bytes_per_s,
        [PL_SHARED_SPREAD] = machine->copy_bytes_per_s,
        [PL_SHARED_FRESH] = 2 * machine->copy_bytes_per_s,
        [PL_SHARED_STAGED] = 2 * machine->copy_bytes_per_s,
    };

    machine->signal_s = machine->link[PL_LINK_SAME_HOST].latency_s;
    for (int c = 0; c < PL_N_SHARED; c++)
        machine->shared_bytes_per_s[c] =
            (pl_curve){.n_points = 1, .size = {MIB}, .rate = {rates[c]}};
}

static void measure_links(const pl_measure *m, const pl_topology *t, pl_heap *heap,
                          pl_machine *machine)
{
    double overhead_s[PL_N_LINKS] = {0}, spread[PL_N_LINKS] = {0};

    for (int c = 0; c < PL_N_LINKS; c++)
        pl_measure_link(m, t, heap, (pl_link_class)c, &machine->link[c], &overhead_s[c],
                        &spread[c]);

    pl_link *same = &machine->link[PL_LINK_SAME_HOST];
    if (!(same->latency_s > 0)) {
        same->latency_s = same->message_s = machine->op_overhead_s;
        same->one_way_bytes_per_s = machine->copy_bytes_per_s;
        same->both_ways_bytes_per_s = machine->copy_bytes_per_s;
    }
    machine->comm_overhead_s = fmax(overhead_s[PL_LINK_SAME_HOST], overhead_s[PL_LINK_OTHER_HOST]);
    machine->spread.comm_overhead_s = fmax(spread[PL_LINK_SAME_HOST], spread[PL_LINK_OTHER_HOST]);
    if (!(machine->comm_overhead_s > 0))
        machine->comm_overhead_s = machine->op_overhead_s;
}

/* What a rank has of cores and caches, on the host where it is least. */
static void measure_places(MPI_Comm comm, const pl_topology *t, pl_machine *machine)
{
    const double ranks = t->ranks_on_host;
    const double l2 = t->l2_bytes > 0 ? (double)t->l2_bytes : 512 * KIB;
    const double l3 = t->l3_bytes > 0 ? (double)t->l3_bytes / ranks : l2;
    double least[3] = {l2, l3, -ranks / t->cores_on_host};

    pl_mpi_all_reduce(comm, least, 3, MPI_DOUBLE, MPI_MIN);
    machine->near_bytes = least[0];
    machine->mid_bytes = fmax(least[0], least[1]);
    machine->ranks_per_core = fmax(1, -least[2]);
}

/* Rank 0's, to all. */
static void share(MPI_Comm comm, const pl_machine *measured, pl_machine *machine)
{
    MPI_Request request;

    memcpy(machine, measured, sizeof *machine);
    PL_MPI(MPI_Ibcast(machine, (int)sizeof *machine, MPI_BYTE, 0, comm, &request));
    pl_mpi_finish(&request, 1);
}

void pl_calibrate_bf16(MPI_Comm comm, const pl_topology *topology, pl_heap *heap, bool quick,
                       pl_machine *machine)
{
    pl_machine measured;
    pl_measure m;

    memcpy(&measured, machine, sizeof measured);
    pl_measure_init(&m, comm, topology, quick);
    pl_measure_set_turns(&m, measured.ranks_per_core > 1);
    pl_cores_use(topology);
    pl_measure_bf16_rates(&m, &measured);
    pl_measure_kernels(&m, PL_BF16, heap, &measured);
    pl_measure_free(&m);
    share(comm, &measured, machine);
}

/* A calibration under way. */
typedef struct {
    pl_measure m;
    const pl_topology *topology;
    pl_heap *heap;
    int64_t largest; /* bytes of a working set; the same on all ranks although hosts may differ */
    pl_core_places places;
} calibration;

static void run_passes(const calibration *c, pl_machine *machine)
{
    pl_measure_rates(&c->m, c->largest, machine);
}

static void run_contention(const calibration *c, pl_machine *machine)
{
    pl_measure_contention(&c->m, c->largest, machine);
}

static void run_kernels(const calibration *c, pl_machine *machine)
{
    pl_measure_kernels(&c->m, PL_F32, c->heap, machine);
}

static void run_links(const calibration *c, pl_machine *machine)
{
    measure_links(&c->m, c->topology, c->heap, machine);
}

static void run_shared(const calibration *c, pl_machine *machine)
{
    suppose_sharing(machine);
    pl_measure_shared(&c->m, c->topology, c->heap, machine);
}

static double look(const calibration *c)
{
    return pl_measure_line(c->m.comm, c->topology, c->heap);
}

/* The next part of a place. It counts if cores are still there when it is over, or in any case. */
static void measure_part(const calibration *c, pl_core_place *place, bool in_any_case)
{
    static void (*const parts[PL_N_PARTS])(const calibration *, pl_machine *) = {
        run_passes, run_contention, run_kernels, run_links, run_shared};
    pl_machine measured;

    memcpy(&measured, &place->machine, sizeof measured);
    parts[place->n_parts](c, &measured);
    const double now_s = look(c);
    if (in_any_case || pl_core_place_is(place, now_s))
        pl_core_place_add(place, &measured, now_s);
    else
        pl_say("cores have moved: a cache line to the next rank took %.0f ns and now takes %.0f; "
               "what that changes is measured again",
               1e9 * place->line_s[0], 1e9 * now_s);
}

/* Part by part, each for the place in which cores are then, until all of one place are done. What
 * takes too long that way is measured wherever they are. */
static pl_core_place *measure_parts(calibration *c, const pl_machine *begun)
{
    enum { MOST_RUNS = 2 * PL_N_PARTS };
    pl_core_place *place = NULL;

    for (int run = 0; run < MOST_RUNS; run++) {
        place = pl_core_places_at(&c->places, begun, look(c));
        measure_part(c, place, false);
        if (place->n_parts == PL_N_PARTS)
            return place;
    }
    place = pl_core_places_most(&c->places);
    while (place->n_parts < PL_N_PARTS)
        measure_part(c, place, true);
    return place;
}

pl_status pl_calibrate(MPI_Comm comm, const pl_topology *topology, pl_heap *heap, bool quick,
                       pl_machine *machine)
{
    const pl_topology *t = topology;
    calibration *c = pl_alloc(sizeof *c);
    pl_machine begun;

    c->topology = t;
    c->heap = heap;
    c->largest = pl_largest_set(t);
    memset(&begun, 0, sizeof begun); /* with its padding: sent as bytes */
    snprintf(begun.name, sizeof begun.name, "%.60s, %d host%s, %d core%s, %d rank%s", t->cpu,
             t->n_hosts, t->n_hosts == 1 ? "" : "s", t->cores_on_host,
             t->cores_on_host == 1 ? "" : "s", t->n_ranks, t->n_ranks == 1 ? "" : "s");
    begun.ranks_per_host = t->ranks_on_host;
    measure_places(comm, t, &begun);
    begun.threads_per_rank = t->threads;
    pl_mpi_all_reduce(comm, &c->largest, 1, MPI_INT64_T, MPI_MIN);

    pl_measure_init(&c->m, comm, t, quick);
    begun.ranks_per_core *= pl_measure_turns(&c->m, t);
    pl_measure_set_turns(&c->m, begun.ranks_per_core > 1);
    pl_wait_set_oversubscribed(begun.ranks_per_core > 1);
    pl_cores_use(t);
    pl_core_place *measured = measure_parts(c, &begun);
    pl_measure_free(&c->m);
    share(comm, pl_core_place_machine(measured), machine);
    pl_free(c);
    return PL_OK;
}
