#include "config.h"

#include "collectives/site.h"

pl_site pl_site_on_hosts(pl_arena *arena, int n_ranks, const int *host_of, bool shared)
{
    const size_t bytes = (size_t)n_ranks * sizeof(int);
    int *const host = pl_arena_alloc(arena, bytes), *const local = pl_arena_alloc(arena, bytes);
    int n_hosts = 0;

    for (int r = 0; r < n_ranks; r++) {
        int before = r - 1; /* the last rank before r on its host, or -1 */

        while (before >= 0 && host_of[before] != host_of[r])
            before--;
        host[r] = before < 0 ? n_hosts++ : host[before];
        local[r] = before < 0 ? 0 : local[before] + 1;
    }
    return (pl_site){.n_ranks = n_ranks,
                     .shared = shared,
                     .n_hosts = n_hosts,
                     .host = host,
                     .local = local,
                     .n_axes = n_ranks > 1,
                     .extent = {n_ranks > 1 ? n_ranks : 0}};
}

pl_site pl_site_one_host(pl_arena *arena, int n_ranks, bool shared)
{
    const int *const all_zero = pl_arena_alloc(arena, (size_t)n_ranks * sizeof(int));

    return pl_site_on_hosts(arena, n_ranks, all_zero, shared);
}

int pl_site_count(const pl_site *site, int h)
{
    int n = 0;

    for (int r = 0; r < site->n_ranks; r++)
        n += site->host[r] == h;
    return n;
}

int pl_site_rank(const pl_site *site, int h, int local)
{
    for (int r = 0; r < site->n_ranks; r++)
        if (site->host[r] == h && site->local[r] == local)
            return r;
    return -1;
}

bool pl_site_is_even(const pl_site *site)
{
    for (int h = 1; h < site->n_hosts; h++)
        if (pl_site_count(site, h) != pl_site_count(site, 0))
            return false;
    return true;
}
