#include "config.h"

#include "collectives/cost.h"

#include "collectives/region.h"

/* What one round does. */
static pl_schedule_counts count_round(const pl_schedule *s, int r)
{
    pl_schedule_counts c = {0};
    int n_steps, n_messages = 0;
    const pl_step *steps = pl_schedule_round(s, r, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        const int64_t elements = pl_region_elements(steps[i].region);
        const int64_t bytes = elements * (int64_t)sizeof(float);

        switch (steps[i].kind) {
        case PL_STEP_COPY:
            c.copied_bytes += bytes;
            break;
        case PL_STEP_SEND:
            c.messages += pl_chunk_count(elements, PL_CHUNK_ELEMENTS);
            c.sent_bytes += bytes;
            n_messages++;
            break;
        case PL_STEP_RECV_REDUCE:
            c.reduced_bytes += bytes;
            c.received_bytes += bytes;
            n_messages++;
            break;
        case PL_STEP_RECV:
            c.received_bytes += bytes;
            n_messages++;
            break;
        }
    }
    c.rounds = n_messages > 0;
    return c;
}

pl_schedule_counts pl_schedule_count(const pl_schedule *s)
{
    pl_schedule_counts sum = {0};

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const pl_schedule_counts c = count_round(s, r);

        sum.rounds += c.rounds;
        sum.messages += c.messages;
        sum.sent_bytes += c.sent_bytes;
        sum.received_bytes += c.received_bytes;
        sum.reduced_bytes += c.reduced_bytes;
        sum.copied_bytes += c.copied_bytes;
    }
    return sum;
}

static double round_price_s(pl_schedule_counts c, const pl_machine *machine, const pl_link *link)
{
    const int64_t more = c.sent_bytes > c.received_bytes ? c.sent_bytes : c.received_bytes;
    const bool both = c.sent_bytes > 0 && c.received_bytes > 0;
    double time_s = 0;

    if (c.rounds > 0) {
        const double rate = both ? link->both_ways_bytes_per_s : link->one_way_bytes_per_s;

        time_s += link->latency_s * (double)(c.messages > 1 ? c.messages : 1);
        time_s += (double)more / rate;
    }
    if (c.reduced_bytes > 0)
        time_s += (double)c.reduced_bytes / machine->reduce_bytes_per_s;
    if (c.copied_bytes > 0)
        time_s += (double)c.copied_bytes / machine->copy_bytes_per_s;
    return time_s;
}

double pl_schedule_price_s(const pl_schedule *s, const pl_machine *machine, pl_link_class link)
{
    double time_s = 0;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++)
        time_s += round_price_s(count_round(s, r), machine, &machine->link[link]);
    return time_s;
}
