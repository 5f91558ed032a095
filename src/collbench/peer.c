#include "config.h"

#include "src/collbench/peer.h"

#include "collectives/combine.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <limits.h>
#include <string.h>

bool pl_bench_peer_can(const pl_bench_case *c)
{
    const bool whole = c->collective == PL_ALL_REDUCE || c->collective == PL_PERMUTE ||
                       c->collective == PL_BROADCAST;

    return (whole ? c->count : c->count / c->n_ranks) <= INT_MAX;
}

static void reduce_bf16(pl_reduction reduction, const void *in, void *inout, int n)
{
    pl_combine_into(PL_BF16, reduction, inout, in, n);
}

static void add_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    reduce_bf16(PL_SUM, in, inout, *n);
}

static void max_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    reduce_bf16(PL_MAX, in, inout, *n);
}

void pl_bench_peer_open(pl_bench_peer *peer, const pl_bench_case *c, const pl_group *group,
                        int n_sets)
{
    *peer = (pl_bench_peer){.c = c, .group = group, .n_sets = n_sets};
    peer->type = c->dtype == PL_F32 ? MPI_FLOAT : c->dtype == PL_I32 ? MPI_INT32_T : MPI_UINT16_T;
    peer->op = c->reduction == PL_SUM ? MPI_SUM : MPI_MAX;
    peer->made_op = c->dtype == PL_BF16 && pl_bench_reduces(c->collective);
    if (peer->made_op)
        PL_MPI(MPI_Op_create(c->reduction == PL_SUM ? add_bf16 : max_bf16, 1, &peer->op));
    peer->arrays = pl_alloc((size_t)n_sets * sizeof *peer->arrays);
    for (int s = 0; s < n_sets; s++)
        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            peer->arrays[s][a] =
                pl_alloc((size_t)pl_bench_elements(c, a) * pl_dtype_bytes(c->dtype));
}

void pl_bench_peer_close(pl_bench_peer *peer)
{
    for (int s = 0; s < peer->n_sets; s++)
        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            pl_free(peer->arrays[s][a]);
    pl_free(peer->arrays);
    if (peer->made_op)
        PL_MPI(MPI_Op_free(&peer->op));
}

static void broadcast(const pl_bench_peer *p, void *in, void *out)
{
    const pl_bench_case *c = p->c;

    if (!c->in_place && c->rank == 0)
        memcpy(out, in, (size_t)c->count * pl_dtype_bytes(c->dtype));
    PL_MPI(MPI_Bcast(out, (int)c->count, p->type, 0, p->group->comm));
}

static void permute(const pl_bench_peer *p, void *in, void *out)
{
    const int n = p->c->n_ranks, count = (int)p->c->count;
    const int to = (p->c->rank + 1) % n, from = (p->c->rank + n - 1) % n;

    PL_MPI(MPI_Sendrecv(in, count, p->type, to, 0, out, count, p->type, from, 0, p->group->comm,
                        MPI_STATUS_IGNORE));
}

void pl_bench_peer_call(void *data, int64_t number)
{
    const pl_bench_peer *p = data;
    const pl_bench_case *c = p->c;
    void *const *arrays = p->arrays[number % p->n_sets];
    void *in = c->in_place ? MPI_IN_PLACE : arrays[PL_BENCH_IN];
    void *out = arrays[c->in_place ? pl_bench_place(c->collective) : PL_BENCH_OUT];
    const MPI_Comm comm = p->group->comm;

    switch (c->collective) {
    case PL_ALL_GATHER:
        PL_MPI(MPI_Allgather(in, (int)(c->count / c->n_ranks), p->type, out,
                             (int)(c->count / c->n_ranks), p->type, comm));
        break;
    case PL_REDUCE_SCATTER:
        PL_MPI(
            MPI_Reduce_scatter_block(in, out, (int)(c->count / c->n_ranks), p->type, p->op, comm));
        break;
    case PL_ALL_REDUCE:
        PL_MPI(MPI_Allreduce(in, out, (int)c->count, p->type, p->op, comm));
        break;
    case PL_ALL_TO_ALL:
        PL_MPI(MPI_Alltoall(in, (int)(c->count / c->n_ranks), p->type, out,
                            (int)(c->count / c->n_ranks), p->type, comm));
        break;
    case PL_BROADCAST:
        broadcast(p, in, out);
        break;
    default: /* PL_PERMUTE */
        permute(p, in, out);
        break;
    }
}

void pl_bench_peer_settle(const pl_bench_peer *p, int set)
{
    const pl_bench_case *c = p->c;
    const size_t block = (size_t)(c->count / c->n_ranks) * pl_dtype_bytes(c->dtype);
    char *array = p->arrays[set][PL_BENCH_IN];

    if (c->collective == PL_REDUCE_SCATTER && c->in_place)
        memmove(array + (size_t)c->rank * block, array, block);
}
