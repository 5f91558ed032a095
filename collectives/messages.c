#include "config.h"

#include "collectives/messages.h"

#include "collectives/region.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>

/* A message on its way; those from one rank to another arrive in order. */
typedef struct {
    int from, to;
    double arrives_s;
    bool is_received;
} message;

typedef struct {
    int round;
    bool has_sent; /* the messages of its round */
    double now_s, sent_s;
    double *free_s; /* [dims][2] its links: when the last message has left; of a switch one port */
} chip;

typedef struct {
    const pl_wires *wires;
    const pl_schedule *const *schedules;
    pl_dtype dtype;
    pl_slow_chip slow;
    int n_ranks;
    chip *chips;
    int64_t n, room;
    message *messages;
    int64_t *first; /* [n_ranks] the first message to it that it may not have received */
} world;

/* The link that a message leaves by, how fast, and how long it takes to get there. */
static double route(const world *w, int from, int to, int *link, double *rate)
{
    const pl_wires *wires = w->wires;
    double latency_s = 0;
    bool switched = false;

    *link = 0;
    *rate = INFINITY;
    for (int i = wires->n - 1, stride = (int)pl_wires_chips(wires); i >= 0; i--) {
        const pl_wire_dim *d = &wires->dim[i];

        stride /= d->extent;
        const int a = from / stride % d->extent, b = to / stride % d->extent;
        int up = b - a;

        if (up == 0 || switched)
            continue;
        if (d->is_ring)
            up = (up + d->extent) % d->extent;
        const bool down = up < 0 || (d->is_ring && 2 * up > d->extent);
        const int hops = up < 0 ? -up : down ? d->extent - up : up;
        switched = d->kind == PL_LEVEL_SWITCH;
        latency_s = switched ? d->latency_s : latency_s + hops * d->latency_s;
        *link = 2 * i + (switched ? 0 : down);
        *rate = d->one_way_bytes_per_s;
    }
    return latency_s;
}

static void put(world *w, message m)
{
    w->messages = pl_room_for_one(w->messages, w->n, &w->room, sizeof *w->messages);
    w->messages[w->n++] = m;
}

static void send_round(world *w, int rank)
{
    chip *c = &w->chips[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(w->schedules[rank], c->round, &n_steps);

    c->sent_s = c->now_s;
    for (int i = 0; i < n_steps; i++) {
        int link;
        double rate;

        if (steps[i].kind != PL_STEP_SEND)
            continue;
        const double latency_s = route(w, rank, steps[i].peer, &link, &rate);
        const double bytes =
            (double)pl_region_elements(steps[i].region) * (double)pl_dtype_bytes(w->dtype);
        const double begin_s = fmax(c->now_s, c->free_s[link]);
        c->free_s[link] = begin_s + bytes / rate * (rank == w->slow.rank ? w->slow.factor : 1);
        c->sent_s = fmax(c->sent_s, c->free_s[link]);
        put(w,
            (message){.from = rank, .to = steps[i].peer, .arrives_s = c->free_s[link] + latency_s});
    }
    c->has_sent = true;
}

/* The next message from `from` to `rank`; -1: it has not been sent. */
static int64_t find_message(world *w, int rank, int from)
{
    for (int64_t i = w->first[rank]; i < w->n; i++)
        if (w->messages[i].to == rank && w->messages[i].from == from && !w->messages[i].is_received)
            return i;
    return -1;
}

/* All that rank's round receives, or nothing of it. */
static bool receive_round(world *w, int rank)
{
    chip *c = &w->chips[rank];
    int n_steps, n_taken = 0;
    const pl_step *steps = pl_schedule_round(w->schedules[rank], c->round, &n_steps);
    int64_t *taken = pl_alloc((size_t)(n_steps + 1) * sizeof *taken);
    double end_s = c->sent_s;
    bool all = true;

    for (int i = 0; i < n_steps && all; i++) {
        if (steps[i].kind != PL_STEP_RECV && steps[i].kind != PL_STEP_RECV_REDUCE)
            continue;
        const int64_t m = find_message(w, rank, steps[i].peer);
        all = m >= 0;
        if (all) {
            w->messages[m].is_received = true;
            end_s = fmax(end_s, w->messages[m].arrives_s);
            taken[n_taken++] = m;
        }
    }
    for (int i = 0; i < n_taken && !all; i++)
        w->messages[taken[i]].is_received = false;
    pl_free(taken);
    if (!all)
        return false;
    while (w->first[rank] < w->n &&
           (w->messages[w->first[rank]].to != rank || w->messages[w->first[rank]].is_received))
        w->first[rank]++;
    c->now_s = end_s;
    c->round++;
    c->has_sent = false;
    return true;
}

/* Everyone by as many rounds as can be; whether anyone moved. */
static bool advance_all(world *w)
{
    bool moved = false;

    for (int r = 0; r < w->n_ranks; r++) {
        chip *c = &w->chips[r];

        while (c->round < pl_schedule_n_rounds(w->schedules[r])) {
            if (!c->has_sent) {
                send_round(w, r);
                moved = true;
            }
            if (!receive_round(w, r))
                break;
            moved = true;
        }
    }
    return moved;
}

double pl_messages_simulate(const pl_wires *wires, const pl_schedule *const *schedules,
                            pl_dtype dtype, pl_slow_chip slow, int64_t *n_messages)
{
    pl_arena *arena = pl_arena_create();
    const int P = (int)pl_wires_chips(wires);
    world w = {.wires = wires,
               .schedules = schedules,
               .dtype = dtype,
               .slow = slow,
               .n_ranks = P,
               .chips = pl_arena_alloc(arena, (size_t)P * sizeof(chip)),
               .first = pl_arena_alloc(arena, (size_t)P * sizeof(int64_t))};
    double last_s = 0;

    for (int r = 0; r < P; r++)
        w.chips[r].free_s =
            pl_arena_alloc(arena, 2 * (size_t)(wires->n + 1) * sizeof *w.chips[r].free_s);
    while (advance_all(&w))
        ;
    for (int r = 0; r < P; r++) {
        if (w.chips[r].round < pl_schedule_n_rounds(schedules[r]))
            PL_PANIC("rank %d waits for a message in round %d", r, w.chips[r].round);
        last_s = fmax(last_s, w.chips[r].now_s);
    }
    if (n_messages)
        *n_messages = w.n;
    pl_free(w.messages);
    pl_arena_destroy(arena);
    return last_s;
}
