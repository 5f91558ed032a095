/* choose -- which algorithm a collective uses: the one that an override names, else the fastest by
 * the prices of collectives/cost.h.
 *
 * All ranks must choose alike, though each knows only its own part of the call. So prices are those
 * of a model of the call that holds only what all ranks know, seen by ranks that all agree on:
 *
 *   AllGather, ReduceScatter   in place, unless the peers' own blocks are known; rank 0, whose
 *   and AllReduce              block is the largest
 *   AllToAll                   every block as large as the largest of any rank; rank 0. Where that
 *                              is not known, there is no common ground: the first in the table
 *   Permute                    a shift of the call's elements by one rank; rank 0. Ranks that a
 *                              permute joins must agree on its elements: a rank that both sends and
 *                              receives does so equally much
 *   Broadcast                  the slowest of the root and its neighbours in rank
 *
 * Where memory can be shared, messages are left out: inside a host they are copies through the same
 * memory by way of the MPI library, and an error of their price would be all that they win by.
 *
 * Of equal prices the first in the table wins. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/panic.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *key;
} collectives[PL_N_COLLECTIVES] = {
    [PL_ALL_GATHER] = {"AllGather", "all_gather"},
    [PL_REDUCE_SCATTER] = {"ReduceScatter", "reduce_scatter"},
    [PL_ALL_REDUCE] = {"AllReduce", "all_reduce"},
    [PL_ALL_TO_ALL] = {"AllToAll", "all_to_all"},
    [PL_PERMUTE] = {"Permute", "permute"},
    [PL_BROADCAST] = {"Broadcast", "broadcast"},
};

const char *pl_collective_name(pl_collective c)
{
    return collectives[c].name;
}

const char *pl_collective_key(pl_collective c)
{
    return collectives[c].key;
}

pl_collective pl_collective_find(const char *text)
{
    int c = 0;

    while (c < PL_N_COLLECTIVES && strcmp(text, collectives[c].key) != 0 &&
           strcmp(text, collectives[c].name) != 0)
        c++;
    return (pl_collective)c;
}

static int64_t elements_of(pl_blocks x)
{
    int64_t n = 0;

    for (int b = 0; b < x.n_ranks; b++)
        n += pl_region_elements(pl_blocks_at(x, b));
    return n;
}

int64_t pl_collective_elements(const pl_collective_call *call)
{
    int64_t sent, received;

    switch (call->collective) {
    case PL_ALL_TO_ALL:
        if (call->largest > 0)
            return call->largest * call->from.n_ranks;
        return elements_of(call->from);
    case PL_PERMUTE:
        sent = call->to_rank >= 0 ? pl_region_elements(call->send) : 0;
        received = call->from_rank >= 0 ? pl_region_elements(call->recv) : 0;
        return sent > received ? sent : received;
    default:
        return elements_of(call->blocks);
    }
}

/* One entry of an override list, "collective=algorithm". */
typedef struct {
    char collective[48], algorithm[48];
} override;

/* The entry at *text, which moves on to the next; false at the end. Texts too long are cut: no name
 * is so long. */
static bool next_override(const char **text, override *entry)
{
    const char *begin = *text;

    if (begin == NULL || *begin == '\0')
        return false;
    const size_t length = strcspn(begin, ",");
    const size_t key = strcspn(begin, "=,");
    const size_t value = key < length ? length - key - 1 : 0;

    snprintf(entry->collective, sizeof entry->collective, "%.*s", (int)key, begin);
    snprintf(entry->algorithm, sizeof entry->algorithm, "%.*s", (int)value,
             begin + (key < length ? key + 1 : key));
    *text = begin + length + (begin[length] == ',');
    return true;
}

static pl_status refuse_collective(const char *name)
{
    char known[256] = "";

    for (int c = 0, n = 0; c < PL_N_COLLECTIVES; c++)
        n += snprintf(known + n, sizeof known - (size_t)n, " %s", collectives[c].key);
    return pl_refuse(PL_BAD_INPUT,
                     "--algo, PURLIN_ALGO: there is no collective \"%s\"; give "
                     "collective=algorithm,... of:%s",
                     name, known);
}

static pl_status refuse_algorithm(pl_collective c, const char *name)
{
    char known[512] = "";
    size_t n = 0;

    for (int i = 0; i < pl_n_algorithms && n < sizeof known; i++)
        if (pl_algorithms[i].collective == c)
            n += (size_t)snprintf(known + n, sizeof known - n, " %s", pl_algorithms[i].name);
    return pl_refuse(PL_BAD_INPUT, "--algo, PURLIN_ALGO: %s has no algorithm \"%s\"; it has:%s",
                     collectives[c].key, name, known);
}

pl_status pl_chooser_check(const char *algo)
{
    override entry;

    while (next_override(&algo, &entry)) {
        const pl_collective c = pl_collective_find(entry.collective);

        if (c == PL_N_COLLECTIVES)
            return refuse_collective(entry.collective);
        if (pl_algorithm_find(c, entry.algorithm) == NULL)
            return refuse_algorithm(c, entry.algorithm);
    }
    return PL_OK;
}

/* What the list says of this collective, the last entry if there are several; NULL: nothing. */
static const pl_algorithm *find_override(const char *list, pl_collective c)
{
    const pl_algorithm *found = NULL;
    override entry;

    while (next_override(&list, &entry))
        if (pl_collective_find(entry.collective) == c)
            found = pl_algorithm_find(c, entry.algorithm);
    return found;
}

/* n elements somewhere. */
static pl_region region_of(pl_arena *arena, int array, int64_t n)
{
    pl_piece *piece = pl_arena_alloc(arena, sizeof *piece);

    *piece = pl_piece_of(array, 0, n);
    return (pl_region){.n_pieces = n > 0, .pieces = piece};
}

static pl_blocks equal_blocks(pl_arena *arena, int array, int n_ranks, int64_t n)
{
    pl_region *of = pl_arena_alloc(arena, (size_t)n_ranks * sizeof *of);

    for (int b = 0; b < n_ranks; b++) {
        of[b] = region_of(arena, array, n);
        if (n > 0)
            ((pl_piece *)of[b].pieces)->offset = b * n;
    }
    return (pl_blocks){.n_ranks = n_ranks, .of = of};
}

/* The call as all ranks see it: what rank `rank` would be asked for. */
static pl_collective_call model_of(pl_arena *arena, const pl_collective_call *call, int n_ranks,
                                   int rank)
{
    enum { FROM, TO };
    const int64_t n = pl_collective_elements(call);
    pl_collective_call model = *call;

    model.own = (pl_region){.n_pieces = 0};
    switch (call->collective) {
    case PL_ALL_GATHER:
        if (call->there.n_ranks > 0)
            model.own = pl_blocks_at(call->there, rank);
        break;
    case PL_BROADCAST:
        if (call->there.n_ranks > 0 && rank == call->root)
            model.own = pl_blocks_at(call->there, rank);
        break;
    case PL_ALL_TO_ALL:
        model.largest = (n + n_ranks - 1) / n_ranks;
        model.from = equal_blocks(arena, FROM, n_ranks, model.largest);
        model.to = equal_blocks(arena, TO, n_ranks, model.largest);
        model.there = model.from;
        break;
    case PL_PERMUTE:
        model.send = model.peer_send = region_of(arena, FROM, n);
        model.recv = region_of(arena, TO, n);
        model.to_rank = (rank + 1) % n_ranks;
        model.from_rank = (rank + n_ranks - 1) % n_ranks;
        break;
    default:
        break;
    }
    return model;
}

static double price_s(const pl_algorithm *a, const pl_collective_call *call,
                      const pl_machine *machine, const pl_site *site, int rank)
{
    pl_schedule *s = pl_schedule_create();
    const pl_collective_call model = model_of(pl_schedule_arena(s), call, site->n_ranks, rank);

    a->write(s, &model, site, rank);
    const double time_s = pl_schedule_price_s(s, call->dtype, machine, site, rank);
    pl_schedule_destroy(s);
    return time_s;
}

/* Of the ranks that stand for all. */
static double slowest_price_s(const pl_algorithm *a, const pl_collective_call *call,
                              const pl_machine *machine, const pl_site *site)
{
    const int P = site->n_ranks;
    double slowest_s = 0;

    if (call->collective != PL_BROADCAST)
        return price_s(a, call, machine, site, 0);
    for (int i = -1; i <= 1; i++) {
        const double time_s = price_s(a, call, machine, site, (call->root + P + i) % P);

        slowest_s = time_s > slowest_s ? time_s : slowest_s;
    }
    return slowest_s;
}

static bool has_common_size(const pl_collective_call *call)
{
    return call->collective != PL_ALL_TO_ALL || call->largest > 0;
}

static bool shares_memory(const pl_collective_call *call, const pl_site *site)
{
    for (int i = 0; i < pl_n_algorithms; i++)
        if (pl_algorithms[i].needs == PL_NEEDS_ONE_HOST &&
            pl_algorithm_applies(&pl_algorithms[i], call, site))
            return true;
    return false;
}

static const pl_algorithm *choose(const pl_collective_call *call, const pl_chooser *chooser,
                                  const pl_site *site)
{
    const pl_algorithm *best = find_override(chooser->algo, call->collective);
    double best_s = 0;

    if (best != NULL && pl_algorithm_applies(best, call, site))
        return best;
    best = NULL;
    const bool shares = shares_memory(call, site) && chooser->machine != NULL;
    for (int i = 0; i < pl_n_algorithms; i++) {
        const pl_algorithm *a = &pl_algorithms[i];

        if (!pl_algorithm_applies(a, call, site) || (shares && a->needs != PL_NEEDS_ONE_HOST))
            continue;
        if (chooser->machine == NULL || !has_common_size(call))
            return a;
        const double time_s = slowest_price_s(a, call, chooser->machine, site);
        if (best == NULL || time_s < best_s) {
            best = a;
            best_s = time_s;
        }
    }
    PL_ASSERT(best != NULL);
    return best;
}

pl_schedule *pl_collective_schedule(const pl_collective_call *call, const pl_chooser *chooser,
                                    const pl_site *site, int rank, const char **algorithm)
{
    const pl_collective c = call->collective;
    pl_schedule *s = pl_schedule_create();

    PL_ASSERT(c == PL_PERMUTE || (c == PL_ALL_TO_ALL ? call->from.n_ranks == site->n_ranks &&
                                                           call->to.n_ranks == site->n_ranks
                                                     : call->blocks.n_ranks == site->n_ranks));
    const pl_algorithm *chosen = choose(call, chooser, site);
    chosen->write(s, call, site, rank);
    if (site->n_hosts > 1)
        pl_schedule_set_hosts(s, site->host, site->n_ranks, rank);
    pl_schedule_describe(s, c + 1,
                         c == PL_ALL_TO_ALL || c == PL_PERMUTE ? 0 : pl_collective_elements(call));
    if (algorithm)
        *algorithm = chosen->name;
    return s;
}
