/* heap -- what is handed out, what peers see of it, and what happens where it cannot be had. */
#include "config.h"

#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/mesh/heap.h"
#include "tests/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

/* The calls of the operating system that tests refuse (the linker sends those of the library here:
 * --wrap). */
void *__real_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
ssize_t __real_readlink(const char *path, char *target, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *target, size_t bytes);

static struct {
    size_t most_bytes; /* that one mmap() gets */
    int mmap_cause;    /* errno when it gets none */
    int memfd_cause;   /* errno of memfd_create(); 0 when it works */
    bool no_flag, elsewhere;
    bool not_shared;     /* what it maps of peers */
    size_t mapped_bytes; /* counted */
} kernel;

static void kernel_heals(void)
{
    memset(&kernel, 0, sizeof kernel);
    kernel.most_bytes = SIZE_MAX;
}

void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
    if (bytes > kernel.most_bytes) {
        errno = kernel.mmap_cause;
        return MAP_FAILED;
    }
    if (kernel.not_shared && kernel.mapped_bytes > 0)
        return __real_mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    kernel.mapped_bytes += bytes;
    return __real_mmap(at, bytes, access, flags, fd, offset);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (kernel.memfd_cause != 0) {
        errno = kernel.memfd_cause;
        return -1;
    }
    if (kernel.no_flag && (flags & ~(unsigned)MFD_CLOEXEC) != 0) {
        errno = EINVAL;
        return -1;
    }
    return __real_memfd_create(name, flags);
}

/* As in another PID namespace: there is such a process, and such a file, but not the one meant. */
ssize_t __wrap_readlink(const char *path, char *target, size_t bytes)
{
    return __real_readlink(kernel.elsewhere ? "/proc/self/exe" : path, target, bytes);
}

static int rank, n_ranks;
static pl_heap *heap;

static void who_am_i(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    kernel_heals();
}

static void make_heap(void)
{
    who_am_i();
    heap = pl_heap_create(MPI_COMM_WORLD);
}

static void unmake_heap(void)
{
    pl_mpi_meet(MPI_COMM_WORLD); /* nobody is reading any more */
    pl_heap_destroy(heap);
    heap = NULL;
}

/** pl_heap_create() over the world, with what this process wrote to stderr in `said`. */
static pl_heap *create_and_listen(char *said, size_t said_bytes)
{
    const int stderr_kept = dup(STDERR_FILENO);
    FILE *file = tmpfile();

    dup2(fileno(file), STDERR_FILENO);

    pl_heap *made = pl_heap_create(MPI_COMM_WORLD);

    fflush(stderr);
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    rewind(file);
    said[fread(said, 1, said_bytes - 1, file)] = '\0';
    fclose(file);
    return made;
}

static bool is_one_warning(const char *said)
{
    const char *newline = strchr(said, '\n');

    return strncmp(said, "warning: ", 9) == 0 && newline != NULL && newline[1] == '\0';
}

static int64_t count_other_than(const unsigned char *x, size_t bytes, int value)
{
    int64_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += x[i] != value;
    return n;
}

static bool peers_see(pl_heap *seen)
{
    enum { N = 1000 };
    int64_t *x = pl_heap_alloc(seen, N * sizeof *x), n_wrong = 0;

    for (int i = 0; i < N; i++)
        x[i] = 1000 * rank + i;
    pl_mpi_meet(MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++) {
        const int64_t *theirs = pl_heap_at(seen, r, pl_heap_offset(seen, x));

        for (int i = 0; i < N; i++)
            n_wrong += theirs[i] != 1000 * r + i;
    }
    pl_mpi_meet(MPI_COMM_WORLD);
    pl_heap_free(seen, x);
    return n_wrong == 0;
}

static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 65536, 1000003, 8u << 20};

enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

START_TEST(there_is_a_heap_where_ranks_share_a_host_and_nothing_is_said)
{
    char said[512];
    pl_heap *made = create_and_listen(said, sizeof said);

    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1));
    ck_all(MPI_COMM_WORLD, strcmp(said, "") == 0);
    pl_heap_destroy(made);
}
END_TEST

START_TEST(memory_is_zeroed_and_aligned)
{
    unsigned char *x[N_SIZES];
    bool good = true;

    for (int i = 0; i < N_SIZES; i++) {
        x[i] = pl_heap_alloc(heap, sizes[i]);

        const uintptr_t alignment =
            heap != NULL && sizes[i] >= 4096 ? (uintptr_t)sysconf(_SC_PAGESIZE) : 64;

        good = good && x[i] != NULL && (uintptr_t)x[i] % alignment == 0;
        good = good && count_other_than(x[i], sizes[i], 0) == 0;
        memset(x[i], 0xff, sizes[i]);
    }
    for (int i = 0; i < N_SIZES; i++)
        pl_heap_free(heap, x[i]);
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(allocations_are_apart)
{
    unsigned char *x[3 * N_SIZES];
    int64_t n_wrong = 0;

    for (int i = 0; i < 3 * N_SIZES; i++) {
        x[i] = pl_heap_alloc(heap, sizes[i % N_SIZES]);
        memset(x[i], i, sizes[i % N_SIZES]);
        if (i % 3 == 2) { /* leave a gap for the next ones */
            pl_heap_free(heap, x[i - 1]);
            x[i - 1] = pl_heap_alloc(heap, sizes[(i - 1) % N_SIZES]);
            memset(x[i - 1], i - 1, sizes[(i - 1) % N_SIZES]);
        }
    }
    for (int i = 0; i < 3 * N_SIZES; i++) {
        n_wrong += count_other_than(x[i], sizes[i % N_SIZES], i);
        for (int j = 0; j < i; j++)
            n_wrong += x[i] == x[j];
        pl_heap_free(heap, x[i]);
    }
    ck_all(MPI_COMM_WORLD, n_wrong == 0);
}
END_TEST

START_TEST(peers_see_what_is_written)
{
    ck_all(MPI_COMM_WORLD, heap == NULL || peers_see(heap));
}
END_TEST

START_TEST(what_a_peer_writes_is_seen)
{
    if (heap == NULL)
        return;

    int64_t *slots = pl_heap_alloc(heap, (size_t)n_ranks * sizeof *slots), n_wrong = 0;
    const int64_t offset = pl_heap_offset(heap, slots);

    pl_mpi_meet(MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++)
        ((int64_t *)pl_heap_at(heap, r, offset))[rank] = 100 * r + rank;
    pl_mpi_meet(MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++)
        n_wrong += slots[r] != 100 * rank + r;
    ck_all(MPI_COMM_WORLD, n_wrong == 0);
}
END_TEST

START_TEST(an_offset_names_an_address_of_this_rank_and_nothing_else)
{
    char elsewhere;
    char *outside = pl_alloc(1), *x = pl_heap_alloc(heap, 100);
    bool good = pl_heap_offset(heap, &elsewhere) == -1 && pl_heap_offset(heap, outside) == -1;

    if (heap == NULL) {
        good = good && pl_heap_offset(heap, x) == -1 && pl_heap_at(heap, 0, 0) == NULL;
    } else {
        const int64_t offset = pl_heap_offset(heap, x);

        good = good && offset > 0 && pl_heap_at(heap, rank, offset) == x;
        good = good && pl_heap_offset(heap, x + 37) == offset + 37;
        for (int r = 0; r < n_ranks; r++)
            good = good && (pl_heap_offset(heap, pl_heap_at(heap, r, offset)) == -1) == (r != rank);
    }
    pl_free(outside);
    pl_heap_free(heap, x);
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(memory_that_is_handed_out_again_is_zeroed)
{
    bool good = true;

    for (int i = 0; i < N_SIZES; i++) {
        unsigned char *x = pl_heap_alloc(heap, sizes[i]);
        const int64_t offset = pl_heap_offset(heap, x);

        memset(x, 0xff, sizes[i]);
        pl_heap_free(heap, x);
        x = pl_heap_alloc(heap, sizes[i]);
        good = good && pl_heap_offset(heap, x) == offset;
        good = good && count_other_than(x, sizes[i], 0) == 0;
        memset(x, 0xff, sizes[i]);
        pl_heap_free(heap, x);
    }
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(what_is_freed_goes_back_to_the_host)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n_pages = 64;
    unsigned char resident[64], *x;
    size_t n_before = 0, n_after = 0;

    if (heap == NULL)
        return;
    x = pl_heap_alloc(heap, n_pages * page);
    memset(x, 1, n_pages * page);
    mincore(x, n_pages * page, resident);
    for (size_t i = 0; i < n_pages; i++)
        n_before += resident[i] & 1;
    pl_heap_free(heap, x);
    mincore(x, n_pages * page, resident);
    for (size_t i = 0; i < n_pages; i++)
        n_after += resident[i] & 1;
    ck_all(MPI_COMM_WORLD, n_before == n_pages && n_after == 0);
}
END_TEST

START_TEST(freed_neighbours_become_one)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    enum { BYTES = 640 };
    bool good = true;

    if (heap == NULL)
        return;
    for (int o = 0; o < 6; o++) {
        char *x[3], *wall;

        for (int i = 0; i < 3; i++)
            x[i] = pl_heap_alloc(heap, BYTES);
        wall = pl_heap_alloc(heap, 64); /* what lies behind does not help */
        good = good && x[1] == x[0] + BYTES && x[2] == x[1] + BYTES && wall == x[2] + BYTES;
        for (int i = 0; i < 3; i++)
            pl_heap_free(heap, x[orders[o][i]]);

        char *all = pl_heap_alloc(heap, (size_t)3 * BYTES);

        good = good && all == x[0];
        pl_heap_free(heap, all);
        pl_heap_free(heap, wall);
    }
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(what_an_allocation_leaves_is_handed_out)
{
    enum { HALF = 2048 };

    if (heap == NULL)
        return;

    /* The first ends inside a page; the second begins at the next page. */
    char *first = pl_heap_alloc(heap, 64), *second = pl_heap_alloc(heap, (size_t)2 * HALF);
    char *between = pl_heap_alloc(heap, 64);

    /* Until nothing is left before the second, and something stands behind it. */
    while (pl_heap_alloc(heap, 64) < (void *)second)
        ;
    pl_heap_free(heap, second);

    char *smaller = pl_heap_alloc(heap, HALF), *rest = pl_heap_alloc(heap, HALF);

    ck_all(MPI_COMM_WORLD, between == first + 64 && smaller == second && rest == second + HALF);
}
END_TEST

START_TEST(allocating_and_freeing_does_not_grow_the_heap)
{
    int64_t highest[2] = {0, 0};

    if (heap == NULL)
        return;
    for (int round = 0; round < 200; round++) {
        void *x[N_SIZES];

        for (int i = 0; i < N_SIZES; i++) {
            x[i] = pl_heap_alloc(heap, sizes[i]);

            const int64_t end = pl_heap_offset(heap, x[i]) + (int64_t)sizes[i];

            highest[round > 0] = end > highest[round > 0] ? end : highest[round > 0];
        }
        for (int i = 0; i < N_SIZES; i++) /* in another order each round */
            pl_heap_free(heap, x[(i * 7 + round) % N_SIZES]);
    }
    ck_all(MPI_COMM_WORLD, highest[1] == highest[0]);
}
END_TEST

START_TEST(ranks_of_another_communicator_are_found)
{
    MPI_Comm reversed;
    bool good = true;

    if (heap == NULL)
        return;
    /* Two halves, each from its last rank to its first. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &reversed);

    const int n = (n_ranks + 1 - rank % 2) / 2;

    for (int r = 0; r < n; r++)
        good = good && pl_heap_rank(heap, reversed, r) == 2 * (n - 1 - r) + rank % 2;
    MPI_Comm_free(&reversed);
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(two_heaps_do_not_meet)
{
    pl_heap *other = pl_heap_create(MPI_COMM_WORLD);

    if (heap == NULL)
        return;

    int64_t *x = pl_heap_alloc(heap, 8), *y = pl_heap_alloc(other, 8);
    const int next = (rank + 1) % n_ranks;

    *x = 1;
    *y = 2;
    pl_mpi_meet(MPI_COMM_WORLD);

    const int64_t their_x = *(int64_t *)pl_heap_at(heap, next, pl_heap_offset(heap, x));
    const int64_t their_y = *(int64_t *)pl_heap_at(other, next, pl_heap_offset(other, y));

    ck_all(MPI_COMM_WORLD, their_x == 1 && their_y == 2 && pl_heap_offset(heap, y) == -1);
    pl_heap_destroy(other);
}
END_TEST

START_TEST(one_rank_that_says_off_turns_it_off_for_all_in_silence)
{
    char said[512];

    if (rank == n_ranks - 1)
        setenv("PURLIN_SHARED_MEMORY", "off", 1);

    pl_heap *made = create_and_listen(said, sizeof said);

    unsetenv("PURLIN_SHARED_MEMORY");
    ck_all(MPI_COMM_WORLD, made == NULL && strcmp(said, "") == 0);
}
END_TEST

START_TEST(a_setting_that_is_none_is_named_once_and_means_on)
{
    char said[512];

    if (rank == n_ranks - 1)
        setenv("PURLIN_SHARED_MEMORY", "perhaps", 1);

    pl_heap *made = create_and_listen(said, sizeof said);

    unsetenv("PURLIN_SHARED_MEMORY");
    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1));
    ck_all(MPI_COMM_WORLD, rank == 0 ? is_one_warning(said) && strstr(said, "perhaps") != NULL
                                     : strcmp(said, "") == 0);
    pl_heap_destroy(made);
}
END_TEST

START_TEST(on_is_a_setting)
{
    char said[512];

    setenv("PURLIN_SHARED_MEMORY", rank == 0 ? "on" : "", 1);

    pl_heap *made = create_and_listen(said, sizeof said);

    unsetenv("PURLIN_SHARED_MEMORY");
    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1) && strcmp(said, "") == 0);
    pl_heap_destroy(made);
}
END_TEST

/* The ways in which the last rank fails, and what the warning has to say of them. */
enum {
    NO_CALL,
    NO_DESCRIPTOR,
    NO_SPACE,
    NO_PERMISSION,
    ELSEWHERE,
    NOT_SHARED,
    SMALL_FILES,
    N_FAULTS
};
static const char *const causes[N_FAULTS] = {
    [NO_CALL] = "memfd_create: Function not implemented",
    [NO_DESCRIPTOR] = "memfd_create: Too many open files",
    [NO_SPACE] = "Cannot allocate memory",
    [NO_PERMISSION] = "Operation not permitted",
    [ELSEWHERE] = "is not the memory of rank 0",
    [NOT_SHARED] = "rank 0 does not show what it wrote",
    [SMALL_FILES] = "(ulimit -f) leave 1 MiB",
};

static pl_heap *create_with_fault(int fault, char *said, size_t said_bytes)
{
    struct rlimit before, during;

    kernel.memfd_cause = fault == NO_CALL ? ENOSYS : fault == NO_DESCRIPTOR ? EMFILE : 0;
    kernel.elsewhere = fault == ELSEWHERE;
    kernel.not_shared = fault == NOT_SHARED;
    if (fault == NO_SPACE || fault == NO_PERMISSION) {
        kernel.most_bytes = ((size_t)1 << 30) - 1;
        kernel.mmap_cause = fault == NO_SPACE ? ENOMEM : EPERM;
    }
    getrlimit(RLIMIT_FSIZE, &before);
    during = before;
    if (fault == SMALL_FILES)
        during.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &during);

    pl_heap *made = create_and_listen(said, said_bytes);

    setrlimit(RLIMIT_FSIZE, &before);
    kernel_heals();
    return made;
}

START_TEST(one_rank_that_cannot_means_none_for_all_and_one_warning)
{
    char said[512], who[32];
    const bool mine = rank == n_ranks - 1;
    pl_heap *made =
        mine ? create_with_fault(_i, said, sizeof said) : create_and_listen(said, sizeof said);

    ck_all(MPI_COMM_WORLD, made == NULL);
    if (n_ranks == 1) {
        ck_all(MPI_COMM_WORLD, strcmp(said, "") == 0);
        return;
    }
    snprintf(who, sizeof who, "rank %d: ", n_ranks - 1);
    ck_all_msg(MPI_COMM_WORLD,
               rank == 0 ? is_one_warning(said) && strstr(said, causes[_i]) != NULL &&
                               strstr(said, who) != NULL
                         : strcmp(said, "") == 0,
               "%s", said);

    made = create_and_listen(said, sizeof said);
    ck_all(MPI_COMM_WORLD, made != NULL && strcmp(said, "") == 0);
    pl_heap_destroy(made);
}
END_TEST

START_TEST(an_older_kernel_is_asked_again_in_its_own_words)
{
    kernel.no_flag = true;

    pl_heap *made = pl_heap_create(MPI_COMM_WORLD);

    kernel_heals();
    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1));
    pl_heap_destroy(made);
}
END_TEST

START_TEST(where_one_rank_has_less_address_space_all_take_less)
{
    char said[512];

    if (rank == n_ranks - 1) {
        kernel.most_bytes = (size_t)3 << 30;
        kernel.mmap_cause = ENOMEM;
    }

    pl_heap *made = create_and_listen(said, sizeof said);
    const bool fits =
        made == NULL || (pl_heap_offset(made, pl_heap_alloc(made, 1)) > 0 && peers_see(made));

    kernel_heals();
    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1));
    ck_all(MPI_COMM_WORLD, fits && strcmp(said, "") == 0);
    pl_heap_destroy(made);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* whose shadow is larger than any limit */
START_TEST(at_most_half_of_an_address_space_limit_is_taken)
{
    const size_t limit = ((size_t)n_ranks * 3) << 30;
    struct rlimit before, during;

    getrlimit(RLIMIT_AS, &before);
    during = before;
    during.rlim_cur = limit;
    if (rank == 0)
        setrlimit(RLIMIT_AS, &during);
    kernel_heals();

    pl_heap *made = pl_heap_create(MPI_COMM_WORLD);
    const size_t taken = kernel.mapped_bytes;

    setrlimit(RLIMIT_AS, &before);
    ck_all(MPI_COMM_WORLD, (made != NULL) == (n_ranks > 1));
    ck_all(MPI_COMM_WORLD, taken <= limit / 2 && (n_ranks == 1 || taken > 0));
    pl_heap_destroy(made);
}
END_TEST
#endif

static Suite *make_suite(void)
{
    Suite *suite = suite_create("heap");
    TCase *memory = tcase_create("memory"), *creation = tcase_create("creation");

    tcase_add_checked_fixture(memory, make_heap, unmake_heap);
    tcase_add_test(memory, memory_is_zeroed_and_aligned);
    tcase_add_test(memory, allocations_are_apart);
    tcase_add_test(memory, peers_see_what_is_written);
    tcase_add_test(memory, what_a_peer_writes_is_seen);
    tcase_add_test(memory, an_offset_names_an_address_of_this_rank_and_nothing_else);
    tcase_add_test(memory, memory_that_is_handed_out_again_is_zeroed);
    tcase_add_test(memory, what_is_freed_goes_back_to_the_host);
    tcase_add_test(memory, freed_neighbours_become_one);
    tcase_add_test(memory, what_an_allocation_leaves_is_handed_out);
    tcase_add_test(memory, allocating_and_freeing_does_not_grow_the_heap);
    tcase_add_test(memory, ranks_of_another_communicator_are_found);
    tcase_add_test(memory, two_heaps_do_not_meet);
    suite_add_tcase(suite, memory);

    tcase_add_checked_fixture(creation, who_am_i, NULL);
    tcase_add_test(creation, there_is_a_heap_where_ranks_share_a_host_and_nothing_is_said);
    tcase_add_test(creation, one_rank_that_says_off_turns_it_off_for_all_in_silence);
    tcase_add_test(creation, a_setting_that_is_none_is_named_once_and_means_on);
    tcase_add_test(creation, on_is_a_setting);
    tcase_add_loop_test(creation, one_rank_that_cannot_means_none_for_all_and_one_warning, 0,
                        N_FAULTS);
    tcase_add_test(creation, an_older_kernel_is_asked_again_in_its_own_words);
    tcase_add_test(creation, where_one_rank_has_less_address_space_all_take_less);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(creation, at_most_half_of_an_address_space_limit_is_taken);
#endif
    suite_add_tcase(suite, creation);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
