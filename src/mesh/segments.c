/* segments -- create, tell, map, check, close; smaller and smaller until it fits; then agree. */
#include "config.h"

#include "src/mesh/segments.h"

#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/mesh/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static const int64_t LEAST_BYTES = (int64_t)1 << 30; /* of a segment worth having */
static const int64_t GRAIN_BYTES = (int64_t)2 << 20; /* a huge page */

/* What an owner tells its peers by MPI; the same bytes stand at the start of its segment. */
typedef struct {
    uint64_t nonce; /* random; part of the segment's name in /proc, too */
    int64_t rank;   /* in comm */
    int64_t pid, fd;
} card;

/* How one rank's attempt ended; the largest of a host's counts. */
enum { FINE, TOO_LARGE, FAILED };

typedef struct {
    MPI_Comm comm, host_comm; /* ours */
    int rank, n_ranks;        /* in comm */
    int n_local;              /* ranks of this host */
    card mine;
    card *cards;   /* [n_local] */
    char why[256]; /* what failed first on this rank; "" while nothing has */
} setup;

/** The outcome, after noting what failed. */
__attribute__((format(printf, 3, 4))) static int note(setup *s, int outcome, const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    if (s->why[0] == '\0')
        vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    return outcome;
}

/** The lowest rank that has noted anything, whose note becomes everybody's; -1 when none has.
 * Collective over comm. */
static int first_to_fail(setup *s)
{
    int lowest = s->why[0] != '\0' ? s->rank : s->n_ranks;
    MPI_Request request;

    pl_mpi_all_reduce(s->comm, &lowest, 1, MPI_INT, MPI_MIN);
    if (lowest == s->n_ranks)
        return -1;
    PL_MPI(MPI_Ibcast(s->why, sizeof s->why, MPI_CHAR, lowest, s->comm, &request));
    pl_mpi_finish(&request, 1);
    return lowest;
}

/** Whether any rank has `mine` set. Collective over comm. */
static bool any(MPI_Comm comm, bool mine)
{
    int all = mine;

    pl_mpi_all_reduce(comm, &all, 1, MPI_INT, MPI_MAX);
    return all;
}

/** Whether the environments of all ranks leave shared memory on. Collective over comm. */
static bool wanted(setup *s)
{
    const char *said = getenv("PURLIN_SHARED_MEMORY");
    const bool off = said != NULL && strcmp(said, "off") == 0;

    if (said != NULL && said[0] != '\0' && !off && strcmp(said, "on") != 0)
        note(s, FAILED, "PURLIN_SHARED_MEMORY=%.100s", said);
    if (first_to_fail(s) >= 0 && s->rank == 0)
        pl_warn("%s is neither on nor off: taken as on", s->why);
    s->why[0] = '\0';
    return !any(s->comm, off);
}

static int64_t least(int64_t a, uint64_t b)
{
    return (uint64_t)a < b ? a : (int64_t)b;
}

/** How much this rank would reserve for each segment: as much as there is memory, as far as limits
 * allow; notes when that is too little. */
static int64_t largest(setup *s)
{
    const uint64_t n = (uint64_t)s->n_local;
    struct rlimit space = {.rlim_cur = RLIM_INFINITY}, file = {.rlim_cur = RLIM_INFINITY};
    int64_t bytes = (int64_t)pl_topology_memory_bytes();

    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
    bytes = least(bytes, PTRDIFF_MAX / n);
    getrlimit(RLIMIT_AS, &space);
    if (space.rlim_cur != RLIM_INFINITY) /* the other half is everything else's */
        bytes = least(bytes, space.rlim_cur / 2 / n);
    getrlimit(RLIMIT_FSIZE, &file); /* beyond it ftruncate() would bring a signal */
    if (file.rlim_cur != RLIM_INFINITY)
        bytes = least(bytes, file.rlim_cur);
    if (bytes < LEAST_BYTES)
        note(s, FAILED,
             "limits on address space (ulimit -v) or files (ulimit -f) leave %" PRId64
             " MiB to each rank, and %" PRId64 " are needed",
             bytes >> 20, LEAST_BYTES >> 20);
    return bytes / GRAIN_BYTES * GRAIN_BYTES;
}

static uint64_t random_number(void)
{
    struct timespec now;
    uint64_t x;

    if (getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x)
        return x;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 40);
}

enum { NAME_BYTES = 64 };

static void print_name(const card *c, char *name)
{
    snprintf(name, NAME_BYTES, "purlin-%016" PRIx64, c->nonce);
}

/** Make this rank's segment, still empty, and its card. */
static void create(setup *s)
{
    char name[NAME_BYTES];

    s->mine = (card){.nonce = random_number(), .rank = s->rank, .pid = getpid()};
    print_name(&s->mine, name);
    s->mine.fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (s->mine.fd < 0 && errno == EINVAL) /* a kernel that does not know the second flag */
        s->mine.fd = memfd_create(name, MFD_CLOEXEC);
    if (s->mine.fd < 0)
        note(s, FAILED, "memfd_create: %s", strerror(errno));
}

/** NULL, with errno, when it cannot be had. */
static char *map(int fd, int64_t bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (p == MAP_FAILED)
        return NULL;
    /* A core dump would bring every page into being. */
    madvise(p, (size_t)bytes, MADV_DONTDUMP);
    madvise(p, (size_t)bytes, MADV_HUGEPAGE); /* where the host allows it */
    return p;
}

static int size_and_map_own(setup *s, pl_segments *segments)
{
    const int fd = (int)s->mine.fd;

    if (ftruncate(fd, (off_t)segments->bytes) != 0)
        return note(s, TOO_LARGE, "a segment of %" PRId64 " MiB: %s", segments->bytes >> 20,
                    strerror(errno));
    segments->base[s->rank] = map(fd, segments->bytes);
    if (segments->base[s->rank] == NULL)
        return note(s, errno == ENOMEM ? TOO_LARGE : FAILED, "mmap of %" PRId64 " MiB: %s",
                    segments->bytes >> 20, strerror(errno));
    memcpy(segments->base[s->rank], &s->mine, sizeof s->mine);
    return FINE;
}

/** The segment of a peer, opened; -1 when it cannot be or is not what the peer made. */
static int open_of_peer(setup *s, const card *peer)
{
    char path[NAME_BYTES], name[NAME_BYTES], expected[2 * NAME_BYTES], found[2 * NAME_BYTES] = "";

    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, peer->pid, peer->fd);
    print_name(peer, name);
    snprintf(expected, sizeof expected, "/memfd:%s (deleted)", name);
    /* Looked at before it is opened: in another PID namespace it may be anything. */
    if (readlink(path, found, sizeof found - 1) < 0) {
        note(s, FAILED, "%s of rank %" PRId64 ": %s", path, peer->rank, strerror(errno));
        return -1;
    }
    if (strcmp(found, expected) != 0) {
        note(s, FAILED, "%s is not the memory of rank %" PRId64 " (are ranks in containers?)", path,
             peer->rank);
        return -1;
    }

    const int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        note(s, FAILED, "%s of rank %" PRId64 ": %s", path, peer->rank, strerror(errno));
    return fd;
}

static int map_of_peer(setup *s, const card *peer, pl_segments *segments)
{
    const int fd = open_of_peer(s, peer);

    if (fd < 0)
        return FAILED;

    char *base = map(fd, segments->bytes);
    const int cause = errno;

    close(fd);
    if (base == NULL)
        return note(s, cause == ENOMEM ? TOO_LARGE : FAILED,
                    "mmap of %" PRId64 " MiB of rank %" PRId64 ": %s", segments->bytes >> 20,
                    peer->rank, strerror(cause));
    segments->base[peer->rank] = base;
    if (memcmp(base, peer, sizeof *peer) != 0)
        return note(s, FAILED, "the memory of rank %" PRId64 " does not show what it wrote",
                    peer->rank);
    return FINE;
}

static void unmap(pl_segments *segments)
{
    for (int r = 0; r < segments->n_ranks; r++) {
        if (segments->base[r] != NULL)
            munmap(segments->base[r], (size_t)segments->bytes);
        segments->base[r] = NULL;
    }
}

/** Own and peers' segments of segments->bytes; the worst outcome on the host, which unless FINE
 * leaves nothing mapped. Collective over host_comm. */
static int attempt(setup *s, pl_segments *segments)
{
    const bool hopeless = s->why[0] != '\0' || segments->bytes < LEAST_BYTES;
    int outcome = hopeless ? FAILED : size_and_map_own(s, segments);

    pl_mpi_all_reduce(s->host_comm, &outcome, 1, MPI_INT, MPI_MAX);
    if (outcome == FINE) {
        for (int i = 0; i < s->n_local && outcome == FINE; i++)
            if (s->cards[i].rank != s->rank)
                outcome = map_of_peer(s, &s->cards[i], segments);
        pl_mpi_all_reduce(s->host_comm, &outcome, 1, MPI_INT, MPI_MAX);
    }
    if (outcome != FINE)
        unmap(segments);
    return outcome;
}

/** Map what this host's limits allow; notes why not. Collective over host_comm. */
static void map_host(setup *s, pl_segments *segments)
{
    int64_t bytes = largest(s);
    MPI_Request requests[2];

    if (s->why[0] == '\0')
        create(s);
    PL_MPI(MPI_Iallreduce(&bytes, &segments->bytes, 1, MPI_INT64_T, MPI_MIN, s->host_comm,
                          &requests[0]));
    PL_MPI(MPI_Iallgather(&s->mine, sizeof s->mine, MPI_BYTE, s->cards, sizeof s->mine, MPI_BYTE,
                          s->host_comm, &requests[1]));
    pl_mpi_finish(requests, 2);
    while (attempt(s, segments) == TOO_LARGE && segments->bytes / 2 >= LEAST_BYTES) {
        segments->bytes = segments->bytes / 2 / GRAIN_BYTES * GRAIN_BYTES;
        s->why[0] = '\0';
    }
}

/** Collective over comm. */
static void begin(setup *s, MPI_Comm comm)
{
    MPI_Request request;

    PL_MPI(MPI_Comm_idup(comm, &s->comm, &request));
    pl_mpi_finish(&request, 1);
    PL_MPI(MPI_Comm_rank(s->comm, &s->rank));
    PL_MPI(MPI_Comm_size(s->comm, &s->n_ranks));
    PL_MPI(
        MPI_Comm_split_type(s->comm, MPI_COMM_TYPE_SHARED, s->rank, MPI_INFO_NULL, &s->host_comm));
    PL_MPI(MPI_Comm_size(s->host_comm, &s->n_local));
    s->cards = pl_alloc((size_t)s->n_local * sizeof *s->cards);
    s->mine.fd = -1;
}

/** Collective over comm. */
static void end(setup *s)
{
    if (s->mine.fd >= 0)
        close((int)s->mine.fd);
    pl_free(s->cards);
    PL_MPI(MPI_Comm_free(&s->host_comm));
    PL_MPI(MPI_Comm_free(&s->comm));
}

bool pl_segments_map(MPI_Comm comm, pl_segments *segments)
{
    setup s = {.n_local = 0};
    bool mapped = false;

    begin(&s, comm);
    if (wanted(&s) && any(s.comm, s.n_local > 1)) {
        pl_segments made = {.n_ranks = s.n_ranks, .rank = s.rank};

        made.base = pl_alloc((size_t)s.n_ranks * sizeof *made.base);
        map_host(&s, &made);

        const int failed = first_to_fail(&s);

        mapped = failed < 0;
        if (mapped)
            *segments = made;
        else
            pl_segments_unmap(&made);
        if (!mapped && s.rank == 0)
            pl_warn("no memory is shared between ranks, so collectives go by messages: rank %d: %s",
                    failed, s.why);
    }
    end(&s);
    return mapped;
}

void pl_segments_unmap(pl_segments *segments)
{
    unmap(segments);
    pl_free(segments->base);
    memset(segments, 0, sizeof *segments);
}
