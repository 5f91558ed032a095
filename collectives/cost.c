#include "config.h"

#include "collectives/cost.h"

#include "collectives/region.h"

/* What one round does. */
typedef struct {
    pl_schedule_counts counts;
    int n_messages[PL_N_LINKS]; /* that this rank sends or receives, whichever is more */
    int64_t sent[PL_N_LINKS], received[PL_N_LINKS]; /* bytes, by link */
    int64_t shared[PL_N_SHARED]; /* bytes that combinations and copies read and write, by kind */
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

static pl_shared_class class_of(const pl_step *step)
{
    bool staged = false, spread = false;

    for (int i = 0; i < step->n_from; i++)
        staged = staged || is_staging(step->from[i].region);
    for (int i = 0; i < step->n_to; i++) {
        staged = staged || is_staging(step->to[i].region);
        spread = spread || step->to[i].rank != PL_SELF;
    }
    if (staged)
        return PL_SHARED_STAGED;
    if (spread)
        return PL_SHARED_SPREAD;
    return step->n_from > 1 ? PL_SHARED_REDUCE : PL_SHARED_COPY;
}

/* Bytes of places; *peers receives those in peers' memory besides. */
static int64_t bytes_of_places(const pl_place *places, int n, pl_dtype dtype, int64_t *peers)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        const int64_t bytes = bytes_of(places[i].region, dtype);

        sum += bytes;
        if (places[i].rank != PL_SELF)
            *peers += bytes;
    }
    return sum;
}

static void load_combine(load *l, const pl_step *step, pl_dtype dtype)
{
    int64_t peers = 0;
    const int64_t read = bytes_of_places(step->from, step->n_from, dtype, &peers);
    const int64_t written = bytes_of_places(step->to, step->n_to, dtype, &peers);

    l->counts.read_bytes += read;
    l->counts.written_bytes += written;
    l->counts.wire_bytes += peers;
    l->shared[class_of(step)] += read + written;
}

static void load_copy(load *l, const pl_step *step, int64_t bytes)
{
    const bool staged = is_staging(step->region) || is_staging(step->source);

    l->counts.copied_bytes += bytes;
    l->shared[staged ? PL_SHARED_STAGED : PL_SHARED_COPY] += 2 * bytes;
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
            load_combine(&l, step, dtype);
            break;
        case PL_STEP_SIGNAL:
            break;
        }
    }
    for (int c = 0; c < PL_N_LINKS; c++) {
        l.n_messages[c] = n_sent[c] > n_received[c] ? n_sent[c] : n_received[c];
        l.counts.rounds = l.counts.rounds || l.n_messages[c] > 0;
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
    }
    return sum;
}

/* All messages of a round on one link: they share its bandwidth, and each costs a latency. */
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
    return link->latency_s * n_messages + (double)more / rate;
}

/* Where nothing was measured in shared memory, everything is a copy of half the bytes. */
static double combine_price_s(const pl_machine *machine, const int64_t *shared, double set_bytes)
{
    double time_s = 0;

    for (int c = 0; c < PL_N_SHARED; c++) {
        const pl_curve *curve = &machine->shared_bytes_per_s[c];

        if (shared[c] > 0)
            time_s += (double)shared[c] / (curve->n_points > 0 ? pl_curve_at(curve, set_bytes)
                                                               : 2 * machine->copy_bytes_per_s);
    }
    return time_s;
}

/* A stage is waited for once: who has seen one peer reach it finds that the others have, too. */
static double round_price_s(const load *l, const pl_machine *machine, bool new_stage,
                            double set_bytes)
{
    double link_s[PL_N_LINKS], time_s = new_stage ? machine->signal_s : 0;
    const double combine_s = combine_price_s(machine, l->shared, set_bytes);

    for (int c = 0; c < PL_N_LINKS; c++)
        link_s[c] =
            messages_price_s(&machine->link[c], l->n_messages[c], l->sent[c], l->received[c]);
    /* inside a host it is the cores that move messages; between hosts they are free meanwhile */
    time_s += link_s[PL_LINK_SAME_HOST];
    time_s += link_s[PL_LINK_OTHER_HOST] > combine_s ? link_s[PL_LINK_OTHER_HOST] : combine_s;
    if (l->counts.reduced_bytes > 0)
        time_s += (double)l->counts.reduced_bytes / machine->reduce_bytes_per_s;
    return time_s;
}

/* Bytes that a run reads and writes, its messages' among them. */
static double set_of(const pl_schedule *s, pl_dtype dtype)
{
    double bytes = 0;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const load l = load_of_round(s, r, dtype, NULL, NULL, 0);

        for (int c = 0; c < PL_N_SHARED; c++)
            bytes += (double)l.shared[c];
        for (int c = 0; c < PL_N_LINKS; c++)
            bytes += (double)(l.sent[c] + l.received[c]);
    }
    return bytes;
}

double pl_schedule_price_s(const pl_schedule *s, pl_dtype dtype, const pl_machine *machine,
                           const pl_site *site, int rank)
{
    const double set_bytes = set_of(s, dtype);
    double time_s = 0;
    int stage = 0;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const load l = load_of_round(s, r, dtype, machine, site, rank);

        time_s += round_price_s(&l, machine, l.last_stage > stage, set_bytes);
        stage = l.last_stage > stage ? l.last_stage : stage;
    }
    return time_s;
}
