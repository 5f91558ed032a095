/* hierarchical_all_to_all -- messages to other hosts, reading inside.
 * Idea:   round i exchanges with all ranks of the i-th host on and the i-th back, so that the two
 *         directions of a host's link are busy; the blocks of the own host are read from where they
 *         lie while the first messages fly.
 * Needs:  H hosts of L ranks; to know where the peers' blocks lie.
 * Cost:   H-1 rounds of L messages, and 2 stages; n(H-1)/H elements sent when even, n being what a
 *         rank holds, n(L-1)/(HL) read from peers.
 * Source: the rounds of pairwise_all_to_all, host by host. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/hierarchy.h"
#include "collectives/terms.h"

static void exchange_with_hosts(pl_schedule *s, const pl_collective_call *call,
                                const pl_hierarchy *k, int i)
{
    const int L = k->n_locals;

    for (int j = 0; j < L; j++) {
        const int to = pl_hierarchy_at(k, i, (k->local + j) % L);
        const int from = pl_hierarchy_at(k, -i, (k->local + L - j) % L);

        pl_schedule_send(s, to, pl_blocks_at(call->from, to));
        pl_schedule_recv(s, from, pl_blocks_at(call->to, from));
    }
}

void pl_hierarchical_all_to_all(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                                int rank)
{
    const pl_hierarchy k = pl_hierarchy_of(s, site, rank);
    int read = 0; /* the stage that says so */

    pl_hierarchy_await(s, &k, pl_hierarchy_signal(s, &k));
    pl_schedule_move(s, pl_blocks_at(call->to, rank), pl_blocks_at(call->from, rank));
    for (int j = 1; j < k.n_locals; j++) {
        const int peer = k.mates[(k.local + j) % k.n_locals];

        pl_schedule_read(s, pl_blocks_at(call->to, peer), peer, pl_blocks_at(call->there, peer));
    }
    for (int i = 1; i < k.n_hosts; i++) {
        exchange_with_hosts(s, call, &k, i);
        if (i == 1)
            read = pl_hierarchy_signal(s, &k);
        pl_schedule_next_round(s);
    }
    pl_hierarchy_await(s, &k, read);
    pl_schedule_next_round(s);
}
