#include "config.h"

#include "src/roofline/sharing.h"

#include <math.h>

pl_coords pl_origin_of_stage(const pl_program *p)
{
    const int pp = pl_mesh_axis(p->mesh, "pp");
    pl_coords coords = {{0}};

    if (pp >= 0)
        coords.at[pp] = p->stage;
    return coords;
}

pl_core_cost pl_core_of_stage(const pl_machine *machine, const pl_program *p)
{
    const int pp = pl_mesh_axis(p->mesh, "pp");
    pl_core_cost most = {0};

    if (machine->link[PL_LINK_OTHER_HOST].n_cores == 0)
        return most;
    for (int64_t rank = 0; rank < pl_mesh_size(p->mesh); rank++)
        if (pp < 0 || pl_mesh_coords(p->mesh, rank).at[pp] == p->stage)
            most = pl_core_cost_larger(most, pl_machine_core_cost(machine, rank));
    return most;
}

int64_t pl_core_index(const pl_machine *machine, int64_t rank)
{
    const double cores = machine->ranks_per_host / machine->ranks_per_core;

    if (cores < 1 || cores != floor(cores))
        return -1;
    return rank / machine->ranks_per_host * (int64_t)cores +
           rank % machine->ranks_per_host % (int64_t)cores;
}

void pl_find_neighbours(const pl_simulation *sim)
{
    const pl_mesh *mesh = sim->replays[0].p->mesh;
    const int pp = pl_mesh_axis(mesh, "pp");

    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *r = &sim->replays[k];
        const int64_t core =
            pl_core_index(sim->machine, pl_mesh_rank(mesh, pl_origin_of_stage(r->p)));
        double n = 0;

        r->of_core = pl_arena_alloc(sim->arena, (size_t)sim->n_replays * sizeof *r->of_core);
        for (int64_t rank = 0; rank < pl_mesh_size(mesh); rank++)
            if (pl_core_index(sim->machine, rank) == core) {
                r->of_core[pl_mesh_coords(mesh, rank).at[pp]] += 1;
                n += 1;
            }
        for (int other = 0; other < sim->n_replays; other++)
            r->of_core[other] /= n;
    }
}

static bool is_busy(const pl_replay *other, double now_s)
{
    return other->at < other->p->n_actions && !other->blocked && !(other->idle_from_s <= now_s);
}

double pl_part_of_busy(const pl_simulation *sim, const pl_replay *r)
{
    const double share = sim->machine->ranks_per_core;
    double busy = 0;

    if (r->of_core == NULL)
        return 1;
    for (int k = 0; k < sim->n_replays; k++)
        if (&sim->replays[k] == r || is_busy(&sim->replays[k], r->now_s))
            busy += r->of_core[k];
    return fmax(1 / share, busy);
}

/* Where one stands for each stage, all stages are taken to be on one host. */
static bool shares_memory(const pl_simulation *sim, const pl_replay *r, const pl_replay *other)
{
    const int64_t on_host = sim->machine->ranks_per_host;

    return other != r && (!sim->by_rank || pl_mesh_rank(r->p->mesh, r->coords) / on_host ==
                                               pl_mesh_rank(r->p->mesh, other->coords) / on_host);
}

double pl_saved_by_idle_s(const pl_simulation *sim, const pl_replay *r, const pl_op_price *price)
{
    const double contention = sim->machine->memory_contention;
    int n = 0, n_idle = 0;

    if (!sim->in_time || !(contention > 1))
        return 0;
    for (int k = 0; k < sim->n_replays; k++)
        if (shares_memory(sim, r, &sim->replays[k])) {
            n++;
            n_idle += !is_busy(&sim->replays[k], r->now_s);
        }
    return n > 0 ? price->far_s * (1 - 1 / contention) * n_idle / n : 0;
}
