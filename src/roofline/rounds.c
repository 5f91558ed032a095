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

/* Of messages that take of cores. */
typedef struct {
    double begin_s, end_s, bytes_per_s;
} flow;

enum { MOST_FLOWS = MOST_ON_LINK * PL_MOST_MESSAGES + 1 }; /* each ends with a message, or is cut */

typedef struct {
    double now_s;
    int64_t n_turns;
    int n;
    transfer at[MOST_ON_LINK];
} link_state;

struct pl_on_link {
    link_state state;
    int n_flows; /* since something was put there before the last time, and to the end, by what has
                  * been started so far */
    flow flows[MOST_FLOWS];
};

/* Whether message m of t moves: nothing that goes to the same rank is before it. */
static bool is_next(const link_state *link, const transfer *t, int m)
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
    double least_left_s, bytes_per_s;
    double *left_s[MOST_ON_LINK * PL_MOST_MESSAGES];
} moving;

static void find_moving(link_state *link, pl_replay *r, moving *all)
{
    double bytes_per_s = 0;

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
            bytes_per_s += r->price[t->op].core_bytes / r->price[t->op].time_s;
        }
    }
    all->bytes_per_s = bytes_per_s / all->n;
}

static void begin_round(link_state *link, const pl_op_price *price, transfer *t)
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
static void end_rounds(link_state *link, pl_replay *r)
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

/* Returns how many flows there are. */
static int run_until(link_state *link, pl_replay *r, double end_s, flow *flows)
{
    int n_flows = 0;

    for (;;) {
        moving all;

        end_rounds(link, r);
        if (link->n == 0 || !(link->now_s < end_s))
            return n_flows;
        find_moving(link, r, &all);
        const double begin_s = link->now_s;
        const bool is_whole = link->now_s + all.n * all.least_left_s <= end_s;
        const double each_s = is_whole ? all.least_left_s : (end_s - link->now_s) / all.n;

        for (int m = 0; m < all.n; m++)
            *all.left_s[m] = fmax(*all.left_s[m] - each_s, 0);
        link->now_s = is_whole ? link->now_s + all.n * each_s : end_s;
        flows[n_flows++] = (flow){begin_s, link->now_s, all.bytes_per_s};
    }
}

static void add(link_state *link, pl_replay *r, int i, double begin_s)
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
    link->now_s = fmax(link->now_s, begin_s);
    r->begin_s[i] = link->now_s;
    begin_round(link, price, t);
}

bool pl_rounds_begin(const pl_simulation *sim, pl_replay *r, int i, double ready_s)
{
    if (r->price[i].n_messages == 0 || r->is_stream[i])
        return false;
    if (r->on_link == NULL)
        r->on_link = pl_arena_alloc(sim->arena, sizeof *r->on_link);
    pl_on_link *on_link = r->on_link;
    link_state *link = &on_link->state;
    const double begin_s = fmax(ready_s, r->whole_until_s);
    on_link->n_flows = run_until(link, r, begin_s, on_link->flows);
    const bool has_room = link->n < MOST_ON_LINK;
    if (has_room)
        add(link, r, i, begin_s);
    link_state ahead = *link;
    on_link->n_flows += run_until(&ahead, r, INFINITY, &on_link->flows[on_link->n_flows]);
    r->link_free_s[0] = fmax(r->link_free_s[0], ahead.now_s);
    return has_room;
}

void pl_rounds_add(const pl_replay *r, double now_s, pl_traffic *traffic)
{
    for (int k = 0; r->on_link != NULL && k < r->on_link->n_flows; k++) {
        const flow *f = &r->on_link->flows[k];
        const bool flies = f->begin_s <= now_s && now_s < f->end_s;
        const double change_s = flies ? f->end_s : f->begin_s;

        if (flies) {
            traffic->sent += f->bytes_per_s;
            traffic->received += f->bytes_per_s;
        }
        if (change_s > now_s) {
            traffic->next_s = fmin(traffic->next_s, change_s);
            return;
        }
    }
}
