#include "config.h"

#include "collectives/cost.h"

#include "collectives/region.h"

#include <math.h>

/* What one round does. */
typedef struct {
    pl_schedule_counts counts;
    int n_messages[PL_N_LINKS]; /* that this rank sends or receives, whichever is more */
    int64_t sent[PL_N_LINKS], received[PL_N_LINKS]; /* bytes, by link */
    int64_t shared[PL_N_SHARED]; /* bytes that combinations and copies touch (spread: write) */
    int last_stage;              /* the highest that is awaited of this run; 0: none */
} load;

static int64_t bytes_of(pl_region region, pl_dtype dtype)
{
    return pl_region_elements(region) * (int64_t)pl_dtype_bytes(dtype);
}

static bool is_staging(pl_region region)
{
    return region.n_pieces > 0 && region.pieces[0].array == PL_STAGING;
}

static bool any_peer(const pl_place *places, int n)
{
    for (int i = 0; i < n; i++)
        if (places[i].rank != PL_SELF)
            return true;
    return false;
}

static bool any_staging(const pl_place *places, int n)
{
    for (int i = 0; i < n; i++)
        if (is_staging(places[i].region))
            return true;
    return false;
}

static pl_shared_class class_of(const pl_step *step)
{
    if (any_staging(step->from, step->n_from) || any_staging(step->to, step->n_to))
        return PL_SHARED_STAGED;
    if (any_peer(step->to, step->n_to))
        return PL_SHARED_SPREAD;
    if (step->is_published || (step->has_news && any_peer(step->from, step->n_from)))
        return PL_SHARED_FRESH;
    return step->n_from > 1 ? PL_SHARED_REDUCE : PL_SHARED_COPY;
}

static int count_peers(const pl_place *places, int n)
{
    int n_peers = 0;

    for (int i = 0; i < n; i++)
        n_peers += places[i].rank != PL_SELF;
    return n_peers;
}

static void load_combine(load *l, const pl_step *step, int64_t bytes)
{
    const int n_from = step->n_from, n_to = step->n_to;
    const pl_shared_class class = class_of(step);
    int n_touched = n_from + n_to;

    /* in place, places are listed in the same order, or there is but one `to` */
    for (int i = 0; i < n_from; i++)
        n_touched -= pl_place_same(&step->from[i], &step->to[n_to > 1 && i < n_to ? i : 0]);
    l->counts.read_bytes += n_from * bytes;
    l->counts.written_bytes += n_to * bytes;
    l->counts.wire_bytes += (count_peers(step->from, n_from) + count_peers(step->to, n_to)) * bytes;
    l->shared[class] += n_touched * bytes;
    l->counts.touched_bytes += n_touched * bytes;
}

static void load_copy(load *l, const pl_step *step, int64_t bytes)
{
    const bool staged = is_staging(step->region) || is_staging(step->source);

    l->counts.copied_bytes += bytes;
    l->shared[staged               ? PL_SHARED_STAGED
              : step->is_published ? PL_SHARED_FRESH
                                   : PL_SHARED_COPY] += 2 * bytes;
    l->counts.touched_bytes += 2 * bytes;
}

/* Links between hosts that have not been measured are taken for links inside one. */
static pl_link_class link_of(const pl_machine *machine, const pl_site *site, int rank, int peer)
{
    if (machine == NULL || !(machine->link[PL_LINK_OTHER_HOST].both_ways_bytes_per_s > 0))
        return PL_LINK_SAME_HOST;
    return site->host[rank] == site->host[peer] ? PL_LINK_SAME_HOST : PL_LINK_OTHER_HOST;
}

/* Without a machine all messages count as one link's. */
static load load_of_round(const pl_schedule *s, int r, pl_dtype dtype, const pl_machine *machine,
                          const pl_site *site, int rank)
{
    load l = {.last_stage = 0};
    int n_steps, n_sent[PL_N_LINKS] = {0}, n_received[PL_N_LINKS] = {0};
    const pl_step *steps = pl_schedule_round(s, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        const pl_step *step = &steps[i];
        const int64_t elements = pl_region_elements(step->region);
        const int64_t bytes = elements * (int64_t)pl_dtype_bytes(dtype);
        pl_link_class link;

        switch (step->kind) {
        case PL_STEP_COPY:
            load_copy(&l, step, bytes);
            break;
        case PL_STEP_SEND:
            link = link_of(machine, site, rank, step->peer);
            l.counts.messages += pl_chunk_count(elements, PL_CHUNK_ELEMENTS);
            l.counts.sent_bytes += bytes;
            l.counts.wire_bytes += bytes;
            l.sent[link] += bytes;
            n_sent[link]++;
            break;
        case PL_STEP_RECV_REDUCE:
        case PL_STEP_RECV:
            link = link_of(machine, site, rank, step->peer);
            l.counts.reduced_bytes += step->kind == PL_STEP_RECV_REDUCE ? bytes : 0;
            l.counts.received_bytes += bytes;
            l.received[link] += bytes;
            n_received[link]++;
            break;
        case PL_STEP_AWAIT:
            if (step->lag == 0) {
                l.counts.awaits = 1;
                l.last_stage = step->stage > l.last_stage ? step->stage : l.last_stage;
            }
            break;
        case PL_STEP_COMBINE:
            load_combine(&l, step, bytes_of(step->to[0].region, dtype));
            break;
        case PL_STEP_SIGNAL:
            break;
        }
    }
    for (int c = 0; c < PL_N_LINKS; c++) {
        l.n_messages[c] = n_sent[c] > n_received[c] ? n_sent[c] : n_received[c];
        l.counts.rounds = l.counts.rounds || l.n_messages[c] > 0;
        l.counts.touched_bytes += l.sent[c] + l.received[c];
    }
    return l;
}

pl_schedule_counts pl_schedule_count(const pl_schedule *s, pl_dtype dtype)
{
    pl_schedule_counts sum = {0};

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const pl_schedule_counts c = load_of_round(s, r, dtype, NULL, NULL, 0).counts;

        sum.rounds += c.rounds;
        sum.messages += c.messages;
        sum.sent_bytes += c.sent_bytes;
        sum.received_bytes += c.received_bytes;
        sum.reduced_bytes += c.reduced_bytes;
        sum.copied_bytes += c.copied_bytes;
        sum.awaits += c.awaits;
        sum.read_bytes += c.read_bytes;
        sum.written_bytes += c.written_bytes;
        sum.wire_bytes += c.wire_bytes;
        sum.touched_bytes += c.touched_bytes;
    }
    return sum;
}

/* All messages of a round on one link: they share its bandwidth, and are under way together. */
static double messages_price_s(const pl_link *link, int n_messages, int64_t sent, int64_t received)
{
    const bool both = sent > 0 && received > 0;
    const int64_t more = sent > received ? sent : received;
    const pl_curve *curve = both ? &link->both_ways_by_size : &link->one_way_by_size;
    double rate = both ? link->both_ways_bytes_per_s : link->one_way_bytes_per_s;

    if (n_messages == 0)
        return 0;
    if (curve->n_points > 0)
        rate = pl_curve_at(curve, (double)more / n_messages);
    const double next_s = link->message_s > 0 ? link->message_s : link->latency_s;
    return link->latency_s + next_s * (n_messages - 1) + (double)more / rate;
}

/* Where nothing was measured in shared memory, everything is a copy of half the bytes. */
static double combine_price_s(const pl_machine *machine, const int64_t *shared, double touched)
{
    double time_s = 0;

    for (int c = 0; c < PL_N_SHARED; c++) {
        const pl_curve *curve = &machine->shared_bytes_per_s[c];

        if (shared[c] > 0)
            time_s += (double)shared[c] / (curve->n_points > 0 ? pl_curve_at(curve, touched)
                                                               : 2 * machine->copy_bytes_per_s);
    }
    return time_s;
}

/* A stage is waited for once: who has seen one peer reach it finds that the others have, too. */
static double round_price_s(const load *l, const pl_machine *machine, bool is_new_stage,
                            double touched)
{
    double link_s[PL_N_LINKS], time_s = is_new_stage ? machine->signal_s : 0;
    const double combine_s = combine_price_s(machine, l->shared, touched);

    for (int c = 0; c < PL_N_LINKS; c++)
        link_s[c] =
            messages_price_s(&machine->link[c], l->n_messages[c], l->sent[c], l->received[c]);
    /* inside a host it is the cores that move messages; between hosts they are free meanwhile */
    time_s += link_s[PL_LINK_SAME_HOST] + fmax(link_s[PL_LINK_OTHER_HOST], combine_s);
    if (l->counts.reduced_bytes > 0)
        time_s += (double)l->counts.reduced_bytes / machine->reduce_bytes_per_s;
    return time_s;
}

double pl_schedule_price_s(const pl_schedule *s, pl_dtype dtype, const pl_machine *machine,
                           const pl_site *site, int rank)
{
    const double touched = (double)pl_schedule_count(s, dtype).touched_bytes;
    double time_s = 0;
    int stage = 0; /* the highest awaited */

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const load l = load_of_round(s, r, dtype, machine, site, rank);

        time_s += round_price_s(&l, machine, l.last_stage > stage, touched);
        stage = l.last_stage > stage ? l.last_stage : stage;
    }
    return time_s;
}
