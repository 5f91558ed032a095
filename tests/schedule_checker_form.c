#include "tests/schedule_checker_run.h"

static bool names(const pl_place *places, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (places[i].rank == rank)
            return true;
    return false;
}

/* What a rank has to do with a peer through memory. */
typedef struct {
    bool awaits, touches;
} relation;

static relation relation_to(const sc_world *w, int rank, int peer)
{
    relation to = {false, false};

    for (int r = 0; r < pl_schedule_n_rounds(w->schedules[rank]); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(w->schedules[rank], r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            to.awaits |= steps[i].kind == PL_STEP_AWAIT && steps[i].peer == peer;
            to.touches |= names(steps[i].to, steps[i].n_to, peer) ||
                          names(steps[i].from, steps[i].n_from, peer);
        }
    }
    return to;
}

void sc_check_partners(sc_checker *x, int rank)
{
    const pl_site *site = x->w->site;

    for (int p = 0; p < x->w->n_ranks; p++) {
        const relation to = relation_to(x->w, rank, p);

        if (p == rank || (!to.awaits && !to.touches))
            continue;
        if (!to.awaits || !relation_to(x->w, p, rank).awaits)
            sc_blame(x, rank, "is a partner of rank %d, but they don't both await the other", p);
        if (x->ranks[rank].n_staging != x->ranks[p].n_staging)
            sc_blame(x, rank, "other staging than rank %d", p);
        if (site && (!site->shared || site->host[rank] != site->host[p]))
            sc_blame(x, rank, "rank %d is out of reach", p);
    }
}

static bool is_peer(const sc_checker *x, int rank, int peer)
{
    return peer >= 0 && peer < x->w->n_ranks && peer != rank;
}

static void check_places(sc_checker *x, int rank, const pl_place *places, int n)
{
    for (int i = 0; i < n; i++)
        if (places[i].rank != PL_SELF && !is_peer(x, rank, places[i].rank))
            sc_blame(x, rank, "takes itself, or nobody, for a peer: %d", places[i].rank);
}

static void check_step(sc_checker *x, int rank, const pl_step *step)
{
    const bool awaits = step->kind == PL_STEP_AWAIT;

    if ((awaits || sc_is_message(step)) && !is_peer(x, rank, step->peer))
        sc_blame(x, rank, "takes itself, or nobody, for a peer: %d", step->peer);
    else if (awaits && step->stage != PL_STAGE_END && step->stage > x->ranks[step->peer].n_stages)
        sc_blame(x, rank, "rank %d never signals stage %d", step->peer, step->stage);
    check_places(x, rank, step->to, step->n_to);
    check_places(x, rank, step->from, step->n_from);
}

void sc_check_steps(sc_checker *x, int rank)
{
    for (int r = 0; r < pl_schedule_n_rounds(x->w->schedules[rank]); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(x->w->schedules[rank], r, &n_steps);

        for (int i = 0; i < n_steps; i++)
            check_step(x, rank, &steps[i]);
    }
}
