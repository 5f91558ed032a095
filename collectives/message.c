#include "config.h"

#include "collectives/message.h"

#include "collectives/region.h"
#include "src/base/panic.h"

#include <limits.h>

void *pl_memory_at(const pl_memory *memory, pl_piece piece)
{
    const int64_t offset = piece.offset * (int64_t)pl_dtype_bytes(memory->dtype);

    if (piece.array == PL_SCRATCH)
        return (char *)memory->scratch + offset;
    PL_ASSERT(piece.array >= 0 && piece.array < memory->n_arrays);
    return (char *)memory->arrays[piece.array] + offset;
}

static MPI_Datatype mpi_type(pl_dtype dtype)
{
    switch (dtype) {
    case PL_F32:
        return MPI_FLOAT;
    case PL_I32:
        return MPI_INT32_T;
    case PL_BF16:
        return MPI_UINT16_T;
    case PL_N_DTYPES:
        break;
    }
    PL_PANIC("no dtype %d", (int)dtype);
}

static int to_int(int64_t n)
{
    PL_ASSERT(n >= 0 && n <= INT_MAX);
    return (int)n;
}

/* All pieces as one datatype, displaced from MPI_BOTTOM. */
static MPI_Datatype type_of(const pl_memory *memory, const pl_piece *pieces, int n)
{
    int *ones = pl_alloc((size_t)n * sizeof *ones);
    MPI_Aint *at = pl_alloc((size_t)n * sizeof *at);
    MPI_Datatype *types = pl_alloc((size_t)n * sizeof *types), all;

    for (int i = 0; i < n; i++) {
        const MPI_Aint stride =
            (MPI_Aint)(pieces[i].stride * (int64_t)pl_dtype_bytes(memory->dtype));

        ones[i] = 1;
        PL_MPI(MPI_Get_address(pl_memory_at(memory, pieces[i]), &at[i]));
        PL_MPI(MPI_Type_create_hvector(to_int(pieces[i].count), to_int(pieces[i].length), stride,
                                       mpi_type(memory->dtype), &types[i]));
    }
    PL_MPI(MPI_Type_create_struct(n, ones, at, types, &all));
    PL_MPI(MPI_Type_commit(&all));
    for (int i = 0; i < n; i++)
        PL_MPI(MPI_Type_free(&types[i]));
    pl_free(types);
    pl_free(at);
    pl_free(ones);
    return all;
}

static void init_one(void *at, int count, MPI_Datatype type, bool is_send, int peer, int tag,
                     MPI_Comm comm, MPI_Request *request)
{
    if (is_send)
        PL_MPI(MPI_Send_init(at, count, type, peer, tag, comm, request));
    else
        PL_MPI(MPI_Recv_init(at, count, type, peer, tag, comm, request));
}

int pl_message_init(const pl_memory *memory, pl_region region, bool is_send, int peer, int tag,
                    MPI_Comm comm, int chunk_elements, MPI_Request *requests, MPI_Datatype *types)
{
    const int64_t n = pl_region_elements(region);
    const int n_chunks = to_int(pl_chunk_count(n, chunk_elements));
    pl_piece *pieces = pl_alloc((size_t)pl_region_cut_room(region) * sizeof *pieces);

    for (int i = 0; i < n_chunks; i++) {
        const pl_chunk chunk = pl_chunk_at(n, chunk_elements, i);
        const int n_pieces = pl_region_cut(region, chunk.begin, chunk.n, pieces);

        types[i] = MPI_DATATYPE_NULL;
        if (n_pieces == 1 && pieces[0].count == 1) {
            init_one(pl_memory_at(memory, pieces[0]), chunk.n, mpi_type(memory->dtype), is_send,
                     peer, tag, comm, &requests[i]);
        } else {
            types[i] = type_of(memory, pieces, n_pieces);
            init_one(MPI_BOTTOM, 1, types[i], is_send, peer, tag, comm, &requests[i]);
        }
    }
    pl_free(pieces);
    return n_chunks;
}

int pl_message_part_elements(int64_t n, pl_dtype dtype)
{
    enum { PART_BYTES = 32 << 10, MOST_PARTS = 1024 };
    const int64_t part = PART_BYTES / (int64_t)pl_dtype_bytes(dtype);
    const int64_t least = (n + MOST_PARTS - 1) / MOST_PARTS;

    return least < part ? (int)part : least < PL_CHUNK_ELEMENTS ? (int)least : PL_CHUNK_ELEMENTS;
}

int pl_world_rank(MPI_Comm comm, int rank)
{
    MPI_Group ours, world;
    int in_world;

    PL_MPI(MPI_Comm_group(comm, &ours));
    PL_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    PL_MPI(MPI_Group_translate_ranks(ours, 1, &rank, world, &in_world));
    PL_MPI(MPI_Group_free(&world));
    PL_MPI(MPI_Group_free(&ours));
    return in_world;
}
