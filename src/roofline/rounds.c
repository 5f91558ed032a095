#include "config.h"

#include "src/roofline/rounds.h"

#include "src/program/communicate.h"

#include <math.h>

enum { MOST_ON_LINK = 64 };

/* A collective, and of its messages the ones of the round that it is in: first to end - 1. */
typedef struct {
    int op, first, end;
    int64_t turn;                    /* the round's place among all that were handed over */
    bool has_begun;                  /* some of it has moved */
    double left_s[PL_MOST_MESSAGES]; /* of each message, with the link to itself */
    int64_t to[PL_MOST_MESSAGES];    /* rank of the mesh */
} transfer;

struct pl_on_link {
    double now_s;
    int64_t n_turns;
    int n;
    transfer at[MOST_ON_LINK];
};

/* Whether message m of t moves: nothing that goes to the same rank is before it. */
static bool is_next(const pl_on_link *link, const transfer *t, int m)
{
    for (int k = 0; k < link->n; k++) {
        const transfer *other = &link->at[k];

        for (int n = other->first; n < other->end; n++)
            if (other->left_s[n] > 0 && other->to[n] == t->to[m] &&
                (other->turn < t->turn || (other == t && n < m)))
                return false;
    }
    return true;
}

/* Messages that move. */
typedef struct {
    int n;
    double least_left_s;
    double *left_s[MOST_ON_LINK * PL_MOST_MESSAGES];
} moving;

static void find_moving(pl_on_link *link, pl_replay *r, moving *all)
{
    all->n = 0;
    all->least_left_s = INFINITY;
    for (int k = 0; k < link->n; k++) {
        transfer *t = &link->at[k];

        for (int m = t->first; m < t->end; m++) {
            if (!(t->left_s[m] > 0) || !is_next(link, t, m))
                continue;
            if (!t->has_begun)
                r->begin_s[t->op] = link->now_s;
            t->has_begun = true;
            all->left_s[all->n++] = &t->left_s[m];
            all->least_left_s = fmin(all->least_left_s, t->left_s[m]);
        }
    }
}

static void begin_round(pl_on_link *link, const pl_op_price *price, transfer *t)
{
    t->first = t->end;
    while (t->end < price->n_messages &&
           price->messages[t->end].round == price->messages[t->first].round)
        t->end++;
    t->turn = link->n_turns++;
}

static bool is_through(const transfer *t)
{
    for (int m = t->first; m < t->end; m++)
        if (t->left_s[m] > 0)
            return false;
    return true;
}

/* Rounds that are through are followed by the next, or their collective is over. */
static void end_rounds(pl_on_link *link, pl_replay *r)
{
    int kept = 0;

    for (int k = 0; k < link->n; k++) {
        transfer *t = &link->at[k];
        const pl_op_price *price = &r->price[t->op];

        while (is_through(t) && t->end < price->n_messages)
            begin_round(link, price, t);
        if (is_through(t))
            r->through_s[t->op] = link->now_s;
        else
            link->at[kept++] = *t;
    }
    link->n = kept;
}

static void run_until(pl_on_link *link, pl_replay *r, double end_s)
{
    while (link->n > 0 && link->now_s < end_s) {
        moving all;

        find_moving(link, r, &all);
        const bool is_whole = link->now_s + all.n * all.least_left_s <= end_s;
        const double each_s = is_whole ? all.least_left_s : (end_s - link->now_s) / all.n;

        for (int m = 0; m < all.n; m++)
            *all.left_s[m] = fmax(*all.left_s[m] - each_s, 0);
        link->now_s = is_whole ? link->now_s + all.n * each_s : end_s;
        end_rounds(link, r);
    }
}

static void add(pl_on_link *link, const pl_replay *r, int i)
{
    const pl_op_price *price = &r->price[i];
    const pl_mesh *mesh = r->p->mesh;
    const pl_axes group = pl_op_group(r->p, &r->p->ops[i]);
    transfer *t = &link->at[link->n++];

    *t = (transfer){.op = i};
    for (int m = 0; m < price->n_messages; m++) {
        t->left_s[m] = price->messages[m].part * price->time_s;
        t->to[m] =
            pl_mesh_rank(mesh, pl_mesh_member(mesh, group, r->coords, price->messages[m].to));
    }
    begin_round(link, price, t);
}

bool pl_rounds_begin(const pl_simulation *sim, pl_replay *r, int i, double ready_s)
{
    if (r->price[i].n_messages == 0 || r->is_stream[i])
        return false;
    if (r->on_link == NULL)
        r->on_link = pl_arena_alloc(sim->arena, sizeof *r->on_link);
    pl_on_link *link = r->on_link;
    const double begin_s = fmax(ready_s, r->whole_until_s);
    run_until(link, r, begin_s);
    if (link->n == MOST_ON_LINK)
        return false;
    link->now_s = fmax(link->now_s, begin_s);
    add(link, r, i);
    pl_on_link ahead = *link;
    run_until(&ahead, r, INFINITY);
    r->link_free_s[0] = fmax(r->link_free_s[0], ahead.now_s);
    return true;
}
