#include "config.h"

#include "src/collbench/limit.h"

#include "collectives/combine.h"
#include "src/base/block.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

enum { MOST_MESSAGE = 1 << 30 };

int64_t pl_bench_link_bytes(const pl_bench_case *c, const pl_site *site)
{
    const int64_t S = c->count * (int64_t)pl_dtype_bytes(c->dtype), H = site->n_hosts;
    int64_t lanes = c->n_ranks;

    if (H == 1)
        return 0;
    for (int h = 0; h < H; h++)
        if (pl_site_count(site, h) < lanes)
            lanes = pl_site_count(site, h);
    switch (c->collective) {
    case PL_ALL_GATHER:
    case PL_REDUCE_SCATTER:
        return S * (H - 1) / H / lanes;
    case PL_ALL_REDUCE:
        return 2 * (S * (H - 1) / H / lanes);
    case PL_ALL_TO_ALL:
        return S / c->n_ranks * (c->n_ranks - lanes);
    case PL_BROADCAST:
        return S / lanes;
    default: /* PL_PERMUTE */
        return S;
    }
}

static char *at(void *base, const pl_bench_case *c, int64_t element)
{
    return (char *)base + element * (int64_t)pl_dtype_bytes(c->dtype);
}

static void copy(const pl_bench_limit *l, void *to, const void *from, int64_t n)
{
    pl_combine(l->c->dtype, PL_SUM, &to, 1, &from, 1, n, l->streams);
}

/* Blocks of every rank to this one. */
static void gather(const pl_bench_limit *l, void *const *from, void *const *to)
{
    const pl_bench_case *c = l->c;
    const int n = c->n_ranks;
    const int64_t block = c->count / n;

    for (int k = 0; k < n; k++) {
        const int p = (c->rank + k) % n;
        int64_t read = 0; /* AllGather out of place */

        if (p == c->rank && c->in_place)
            continue;
        if (c->collective == PL_ALL_TO_ALL)
            read = c->rank * block;
        else if (c->in_place)
            read = p * block;
        copy(l, at(to[c->rank], c, p * block), at(from[p], c, read), block);
    }
}

/* This rank's block of every rank, to it or to all. */
static void reduce(const pl_bench_limit *l, void *const *from, void *const *to)
{
    const pl_bench_case *c = l->c;
    const int n = c->n_ranks, n_to = c->collective == PL_ALL_REDUCE ? n : 1;
    const int64_t block = pl_block_count(c->count, n, c->rank);
    const int64_t begin = pl_block_begin(c->count, n, c->rank);
    const bool whole = c->collective == PL_ALL_REDUCE || c->in_place; /* what `to` is */

    for (int k = 0; k < n; k++) {
        const int p = (c->rank + k) % n;

        l->sources[k] = at(from[p], c, begin);
        l->targets[k] = at(to[p], c, whole ? begin : 0);
    }
    pl_combine(c->dtype, c->reduction, l->targets, n_to, (const void *const *)l->sources, n, block,
               l->streams);
}

static void move(void *data, int64_t number)
{
    const pl_bench_limit *l = data;
    const pl_bench_case *c = l->c;
    const int set = (int)(number % l->n_sets), n = c->n_ranks;
    void *const *from = l->from + (int64_t)set * n, *const *to = l->to + (int64_t)set * n;

    if (pl_bench_reduces(c->collective))
        reduce(l, from, to);
    else if (c->collective == PL_ALL_GATHER || c->collective == PL_ALL_TO_ALL)
        gather(l, from, to);
    else if (c->collective == PL_PERMUTE)
        copy(l, to[c->rank], from[(c->rank + n - 1) % n], c->count);
    else if (!c->in_place || c->rank != 0)
        copy(l, to[c->rank], from[0], c->count);
}

static void send_and_receive(void *data, int64_t number)
{
    const pl_bench_limit *l = data;
    int64_t done = 0;

    (void)number;
    while (done < l->link_bytes) {
        const int64_t left = l->link_bytes - done;
        const int n = (int)(left < MOST_MESSAGE ? left : MOST_MESSAGE);

        PL_MPI(MPI_Sendrecv((char *)l->sent + done, n, MPI_BYTE, l->next, 0,
                            (char *)l->received + done, n, MPI_BYTE, l->previous, 0, l->group->comm,
                            MPI_STATUS_IGNORE));
        done += n;
    }
}

/* Where every rank's array begins, as seen here; its own where memory is not shared. */
static void find_array(const pl_group *group, pl_heap *heap, void *mine, void **seen)
{
    int64_t *offsets = pl_alloc((size_t)group->size * sizeof *offsets);
    const int64_t offset = heap != NULL ? pl_heap_offset(heap, mine) : -1;
    MPI_Request request;

    PL_MPI(MPI_Iallgather(&offset, 1, MPI_INT64_T, offsets, 1, MPI_INT64_T, group->comm, &request));
    pl_mpi_finish(&request, 1);
    for (int r = 0; r < group->size; r++) {
        seen[r] = NULL;
        if (heap != NULL && r != group->rank)
            seen[r] = pl_heap_at(heap, pl_heap_rank(heap, group->comm, r), offsets[r]);
        if (seen[r] == NULL)
            seen[r] = mine;
    }
    pl_free(offsets);
}

static void open_link(pl_bench_limit *l)
{
    const pl_site *site = l->site;
    const int me = l->c->rank, H = site->n_hosts, host = site->host[me];
    const bool crosses = l->c->collective != PL_PERMUTE || site->local[me] == 0;
    const bool one_way = l->c->collective == PL_BROADCAST;

    l->next = l->previous = MPI_PROC_NULL;
    if (crosses && !(one_way && host == H - 1))
        l->next = pl_site_rank(site, (host + 1) % H, site->local[me]);
    if (crosses && !(one_way && host == 0))
        l->previous = pl_site_rank(site, (host + H - 1) % H, site->local[me]);
    if (l->next < 0) /* hosts with unequally many ranks */
        l->next = MPI_PROC_NULL;
    if (l->previous < 0)
        l->previous = MPI_PROC_NULL;
    l->sent = pl_alloc((size_t)l->link_bytes);
    l->received = pl_alloc((size_t)l->link_bytes);
    l->contender = (pl_contender){.call = send_and_receive, .data = l};
}

static void open_copies(pl_bench_limit *l, pl_heap *heap, void *(*sets)[PL_BENCH_ARRAYS])
{
    const pl_bench_case *c = l->c;
    const size_t n = (size_t)c->n_ranks;
    const int place = pl_bench_place(c->collective);

    l->from = pl_alloc(n * (size_t)l->n_sets * sizeof *l->from);
    l->to = pl_alloc(n * (size_t)l->n_sets * sizeof *l->to);
    l->sources = pl_alloc(n * sizeof *l->sources);
    l->targets = pl_alloc(n * sizeof *l->targets);
    for (int s = 0; s < l->n_sets; s++) {
        find_array(l->group, heap, sets[s][c->in_place ? place : PL_BENCH_IN],
                   l->from + (size_t)s * n);
        find_array(l->group, heap, sets[s][c->in_place ? place : PL_BENCH_OUT],
                   l->to + (size_t)s * n);
    }
    l->contender = (pl_contender){.call = move, .data = l};
}

int pl_bench_limit_open(pl_bench_limit *limits, const pl_bench_case *c, const pl_group *group,
                        const pl_site *site, pl_heap *heap, bool across,
                        void *(*sets)[PL_BENCH_ARRAYS], int n_sets)
{
    const int n = across ? 1 : PL_LIMIT_CONTENDERS;

    for (int i = 0; i < n; i++) {
        pl_bench_limit *l = &limits[i];

        *l = (pl_bench_limit){.c = c,
                              .group = group,
                              .site = site,
                              .n_sets = n_sets,
                              .streams = i == 1,
                              .link_bytes = pl_bench_link_bytes(c, site)};
        if (site->n_hosts > 1)
            open_link(l);
        else
            open_copies(l, heap, sets);
    }
    return n;
}

void pl_bench_limit_close(pl_bench_limit *limits, int n)
{
    for (int i = 0; i < n; i++) {
        pl_free(limits[i].from);
        pl_free(limits[i].to);
        pl_free(limits[i].sources);
        pl_free(limits[i].targets);
        pl_free(limits[i].sent);
        pl_free(limits[i].received);
    }
}

double pl_bench_limit_s(const pl_bench_limit *limits, int n)
{
    double least_s = limits[0].contender.median_s;

    for (int i = 1; i < n; i++)
        if (limits[i].contender.median_s < least_s)
            least_s = limits[i].contender.median_s;
    return least_s;
}
