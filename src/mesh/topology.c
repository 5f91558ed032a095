#include "config.h"

#include "src/mesh/topology.h"

#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <hwloc.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Physical cores that have a PU in the set; PUs where hwloc sees no cores (some containers). */
static int count_cores(hwloc_topology_t hw, hwloc_const_bitmap_t set)
{
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    hwloc_obj_t object = NULL;
    int n = 0;

    if (hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) <= 0)
        type = HWLOC_OBJ_PU;
    while ((object = hwloc_get_next_obj_by_type(hw, type, object)) != NULL)
        n += hwloc_bitmap_intersects(object->cpuset, set);
    return n > 0 ? n : 1;
}

enum { LONGEST_FOLDER = PATH_MAX + 32, KERNEL_NAME = 64 };

/* Up to two numbers from a file of a control group; how many there were. */
static int read_numbers(const char *folder, const char *file, double *first, double *second)
{
    char path[LONGEST_FOLDER + 32];
    int n = 0;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (f != NULL) {
        n = fscanf(f, "%lf %lf", first, second);
        fclose(f);
    }
    return n;
}

/* Quota / period of one control group, in cores; 0 when there is none. Version 2 keeps both numbers
 * in one file ("max" for no quota), version 1 in two (-1 for no quota). */
static double quota_of(const char *folder)
{
    double quota = 0, period = 0, none = 0;

    if (read_numbers(folder, "cpu.max", &quota, &period) != 2 &&
        (read_numbers(folder, "cpu.cfs_quota_us", &quota, &none) < 1 ||
         read_numbers(folder, "cpu.cfs_period_us", &period, &none) < 1))
        return 0;
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* Whether a comma-separated list of controllers has "cpu" itself (not cpuset, not cpuacct). */
static bool lists_cpu(const char *controllers)
{
    for (const char *c = controllers; c != NULL; c = strchr(c, ',')) {
        c += *c == ',';
        if (strcspn(c, ",") == 3 && strncmp(c, "cpu", 3) == 0)
            return true;
    }
    return false;
}

/* The smallest quota on the way from this process's control group to the root, in cores; 0 when
 * nothing limits it. */
static double cgroup_quota(void)
{
    double least = 0;
    char line[PATH_MAX];
    FILE *f = fopen("/proc/self/cgroup", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        /* "0::/path" (version 2) or "7:cpu,cpuacct:/path" */
        char *controllers = strchr(line, ':'), *group, folder[LONGEST_FOLDER];
        if (controllers == NULL || (group = strchr(++controllers, ':')) == NULL)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (controllers[0] != '\0' && !lists_cpu(controllers))
            continue;
        for (;;) {
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", controllers[0] ? "/cpu" : "",
                     group);
            const double quota = quota_of(folder);
            if (quota > 0 && (least == 0 || quota < least))
                least = quota;
            char *slash = strrchr(group, '/');
            if (slash == NULL || group[0] == '\0')
                break;
            *slash = '\0';
        }
    }
    if (f != NULL)
        fclose(f);
    return least;
}

static int64_t cache_bytes(hwloc_topology_t hw, hwloc_obj_t pu, hwloc_obj_type_t type)
{
    hwloc_obj_t cache = pu != NULL ? hwloc_get_ancestor_obj_by_type(hw, type, pu) : NULL;

    return cache != NULL && cache->attr != NULL ? (int64_t)cache->attr->cache.size : 0;
}

static int cores_of_cache(hwloc_topology_t hw, hwloc_obj_t pu, hwloc_obj_type_t type)
{
    hwloc_obj_t cache = pu != NULL ? hwloc_get_ancestor_obj_by_type(hw, type, pu) : NULL;
    return cache != NULL ? count_cores(hw, cache->cpuset) : 1;
}

/* CPU model and caches of the first PU that this rank may use. */
static void describe_cpu(hwloc_topology_t hw, hwloc_const_bitmap_t mine, pl_topology *t)
{
    hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(hw, (unsigned)hwloc_bitmap_first(mine));
    hwloc_obj_t package =
        pu != NULL ? hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, pu) : NULL;
    const char *model = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

    if (model == NULL)
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(hw), "CPUModel");
    snprintf(t->cpu, sizeof t->cpu, "%s", model != NULL && model[0] != '\0' ? model : "unknown");
    t->l1_bytes = cache_bytes(hw, pu, HWLOC_OBJ_L1CACHE);
    t->l2_bytes = cache_bytes(hw, pu, HWLOC_OBJ_L2CACHE);
    t->l3_bytes = cache_bytes(hw, pu, HWLOC_OBJ_L3CACHE);
    t->l3_cores = cores_of_cache(hw, pu, HWLOC_OBJ_L3CACHE);
}

/* How many ranks may run on a PU of ours (this one included); `all` becomes the union of what they
 * may run on. Collective over comm, whose ranks number PUs alike. */
static int count_sharing(MPI_Comm comm, hwloc_const_bitmap_t mine, hwloc_bitmap_t all)
{
    int n_words = hwloc_bitmap_nr_ulongs(mine), n_sharing = 0, n_ranks;
    MPI_Request request;

    PL_ASSERT(n_words > 0);
    PL_MPI(MPI_Comm_size(comm, &n_ranks));
    pl_mpi_all_reduce(comm, &n_words, 1, MPI_INT, MPI_MAX);

    const size_t bytes = (size_t)n_words * sizeof(unsigned long);
    unsigned long *words = pl_alloc(bytes), *theirs = pl_alloc(bytes * (size_t)n_ranks);
    hwloc_bitmap_t other = hwloc_bitmap_alloc();

    PL_ASSERT(other != NULL);
    hwloc_bitmap_to_ulongs(mine, (unsigned)n_words, words);
    PL_MPI(MPI_Iallgather(words, n_words, MPI_UNSIGNED_LONG, theirs, n_words, MPI_UNSIGNED_LONG,
                          comm, &request));
    pl_mpi_finish(&request, 1);
    hwloc_bitmap_zero(all);
    for (int r = 0; r < n_ranks; r++) {
        hwloc_bitmap_from_ulongs(other, (unsigned)n_words, theirs + (size_t)r * (size_t)n_words);
        n_sharing += hwloc_bitmap_intersects(other, mine);
        hwloc_bitmap_or(all, all, other);
    }
    hwloc_bitmap_free(other);
    pl_free(theirs);
    pl_free(words);
    return n_sharing;
}

/* The PUs that this rank was given. pl_topology_spread() narrows them, so the first answer holds
 * for the life of the process. */
static void find_mine(hwloc_topology_t hw, hwloc_bitmap_t mine)
{
    static hwloc_bitmap_t given;

    if (given == NULL) {
        given = hwloc_bitmap_alloc();
        PL_ASSERT(given != NULL);
        if (hwloc_get_cpubind(hw, given, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(given))
            hwloc_bitmap_copy(given, hwloc_topology_get_allowed_cpuset(hw));
        hwloc_bitmap_and(given, given, hwloc_topology_get_topology_cpuset(hw));
        if (hwloc_bitmap_iszero(given)) /* bound to what hwloc cannot see */
            hwloc_bitmap_copy(given, hwloc_topology_get_topology_cpuset(hw));
    }
    hwloc_bitmap_copy(mine, given);
}

/* The i-th core (PU, where hwloc sees no cores) that has a PU in the set, or NULL. */
static hwloc_obj_t core_at(hwloc_topology_t hw, hwloc_const_bitmap_t set, int i)
{
    const hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_obj_by_type(hw, type, object)) != NULL)
        if (hwloc_bitmap_intersects(object->cpuset, set) && i-- == 0)
            return object;
    return NULL;
}

bool pl_topology_spread(const pl_topology *t)
{
    hwloc_topology_t hw;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    bool bound = false;

    PL_ASSERT(mine != NULL);
    if (hwloc_topology_init(&hw) != 0 || hwloc_topology_load(hw) != 0)
        PL_PANIC("hwloc cannot see this host");
    find_mine(hw, mine);
    const int n_cores = count_cores(hw, mine); /* of which a quota may forbid some */
    const bool even = t->ranks_on_kernel % t->cores_on_kernel == 0 && n_cores == t->cores_on_kernel;
    hwloc_obj_t core = core_at(hw, mine, t->rank_on_kernel % n_cores);
    if (t->ranks_on_kernel > t->cores_on_kernel && even && core != NULL) {
        hwloc_bitmap_and(mine, mine, core->cpuset);
        bound = hwloc_set_cpubind(hw, mine, HWLOC_CPUBIND_PROCESS) == 0;
    }
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(hw);
    return bound;
}

/* More threads than a quota would only be throttled. */
static int within_quota(int n_cores, double quota)
{
    const int whole = quota < 1 ? 1 : (int)quota;

    return quota > 0 && whole < n_cores ? whole : n_cores;
}

/* What the kernel calls its time since it booted; where it does not say, the host. Virtual machines
 * that go on from one snapshot are taken for one. */
static void name_kernel(const pl_topology *t, char name[KERNEL_NAME])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    memset(name, 0, KERNEL_NAME);
    if (f == NULL || fgets(name, KERNEL_NAME, f) == NULL)
        snprintf(name, KERNEL_NAME, "%s", t->host_name);
    if (f != NULL)
        fclose(f);
}

/* The ranks whose processes one kernel runs, on whichever hosts they believe they are: containers
 * and emulated hosts lie on one. Collective over comm. */
static MPI_Comm split_by_kernel(MPI_Comm comm, const pl_topology *t)
{
    char(*const names)[KERNEL_NAME] = pl_alloc((size_t)t->n_ranks * sizeof *names);
    char name[KERNEL_NAME];
    int rank, lowest = 0;
    MPI_Request request;
    MPI_Comm kernel_comm;

    name_kernel(t, name);
    PL_MPI(
        MPI_Iallgather(name, KERNEL_NAME, MPI_CHAR, names, KERNEL_NAME, MPI_CHAR, comm, &request));
    pl_mpi_finish(&request, 1);
    while (memcmp(names[lowest], name, KERNEL_NAME) != 0)
        lowest++;
    pl_free(names);
    PL_MPI(MPI_Comm_rank(comm, &rank));
    PL_MPI(MPI_Comm_split(comm, lowest, rank, &kernel_comm));
    return kernel_comm;
}

/* Cores, threads, caches of this rank and its host. Collective over both. */
static void look_at_host(MPI_Comm host_comm, MPI_Comm kernel_comm, pl_topology *t)
{
    hwloc_topology_t hw;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), all = hwloc_bitmap_alloc();

    PL_ASSERT(mine != NULL && all != NULL);
    if (hwloc_topology_init(&hw) != 0 || hwloc_topology_load(hw) != 0)
        PL_PANIC("hwloc cannot see this host");
    find_mine(hw, mine);

    const int n_cores = count_cores(hw, mine), n_sharing = count_sharing(host_comm, mine, all);
    const double quota = cgroup_quota();
    t->cores_of_rank = within_quota(n_cores, quota);
    t->cores_on_host = within_quota(count_cores(hw, all), quota);
    const int share = t->cores_of_rank / n_sharing, most = t->cores_on_host / t->ranks_on_host;
    t->threads = share < most || quota <= 0 ? share : most;
    t->oversubscribed = t->threads < 1;
    const int fair = n_cores / count_sharing(kernel_comm, mine, all);
    t->cores_on_kernel = within_quota(count_cores(hw, all), quota);
    PL_MPI(MPI_Comm_size(kernel_comm, &t->ranks_on_kernel));
    PL_MPI(MPI_Comm_rank(kernel_comm, &t->rank_on_kernel));
    t->threads = fair < t->threads ? fair : t->threads;
    t->threads = t->threads < 1 ? 1 : t->threads;

    describe_cpu(hw, mine, t);
    hwloc_bitmap_free(all);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(hw);
}

/* Number the hosts in order of their lowest ranks. Collective over comm. */
static void number_hosts(MPI_Comm comm, int lowest_on_host, pl_topology *t)
{
    int *lowest = pl_alloc((size_t)t->n_ranks * sizeof *lowest);
    MPI_Request request;

    PL_MPI(MPI_Iallgather(&lowest_on_host, 1, MPI_INT, lowest, 1, MPI_INT, comm, &request));
    pl_mpi_finish(&request, 1);
    for (int r = 0; r < t->n_ranks; r++) {
        t->n_hosts += lowest[r] == r;
        t->host += lowest[r] == r && r < lowest_on_host;
    }
    pl_free(lowest);
}

void pl_topology_discover(MPI_Comm comm, pl_topology *topology)
{
    pl_topology t = {.n_hosts = 0};
    MPI_Comm host_comm, kernel_comm;
    int rank, name_length;
    char name[MPI_MAX_PROCESSOR_NAME];

    PL_MPI(MPI_Comm_size(comm, &t.n_ranks));
    PL_MPI(MPI_Comm_rank(comm, &rank));
    PL_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host_comm));
    PL_MPI(MPI_Comm_size(host_comm, &t.ranks_on_host));
    PL_MPI(MPI_Comm_rank(host_comm, &t.rank_on_host));
    PL_MPI(MPI_Get_processor_name(name, &name_length));
    snprintf(t.host_name, sizeof t.host_name, "%.*s", (int)sizeof t.host_name - 1, name);
    kernel_comm = split_by_kernel(comm, &t);
    look_at_host(host_comm, kernel_comm, &t);
    PL_MPI(MPI_Comm_free(&kernel_comm));

    int oversubscribed = t.oversubscribed, lowest = rank;
    pl_mpi_all_reduce(comm, &oversubscribed, 1, MPI_INT, MPI_MAX);
    t.oversubscribed = oversubscribed != 0;
    pl_mpi_all_reduce(host_comm, &lowest, 1, MPI_INT, MPI_MIN);
    number_hosts(comm, lowest, &t);
    PL_MPI(MPI_Comm_free(&host_comm));
    *topology = t;
}

/* Axes whose groups all lie inside one host each. Collective over comm. */
static pl_axes axes_inside_host(MPI_Comm comm, const pl_topology *t, const pl_mesh *mesh)
{
    int *host = pl_alloc((size_t)t->n_ranks * sizeof *host);
    MPI_Request request;
    pl_axes inside = 0;

    PL_ASSERT(t->n_ranks == pl_mesh_size(mesh));
    PL_MPI(MPI_Iallgather(&t->host, 1, MPI_INT, host, 1, MPI_INT, comm, &request));
    pl_mpi_finish(&request, 1);
    for (int a = 0; a < mesh->n_axes; a++) {
        bool all = true;

        for (int r = 0; r < t->n_ranks; r++) {
            pl_coords at = pl_mesh_coords(mesh, r);

            at.at[a] = 0;
            all = all && host[r] == host[pl_mesh_rank(mesh, at)];
        }
        inside |= (pl_axes)all << a;
    }
    pl_free(host);
    return inside;
}

void pl_topology_hosts(MPI_Comm comm, const pl_topology *topology, int *host_of)
{
    MPI_Request request;

    PL_MPI(MPI_Iallgather(&topology->host, 1, MPI_INT, host_of, 1, MPI_INT, comm, &request));
    pl_mpi_finish(&request, 1);
}

bool pl_topology_axis_inside_host(MPI_Comm comm, const pl_topology *topology, const pl_mesh *mesh,
                                  int axis)
{
    return axes_inside_host(comm, topology, mesh) >> axis & 1;
}

/* Cores that this rank may run on now: fewer than it was given after pl_topology_spread(). */
static int cores_now(const pl_topology *t)
{
    hwloc_topology_t hw;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    int n = 0;

    PL_ASSERT(mine != NULL);
    if (hwloc_topology_init(&hw) != 0 || hwloc_topology_load(hw) != 0)
        PL_PANIC("hwloc cannot see this host");
    if (hwloc_get_cpubind(hw, mine, HWLOC_CPUBIND_PROCESS) == 0)
        n = count_cores(hw, mine);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(hw);
    return n > 0 && n < t->cores_of_rank ? n : t->cores_of_rank;
}

/* "1 core", "2 cores", "1 to 4 cores". */
static const char *least_to_most(int least, int most, const char *noun, char *text, size_t size)
{
    if (least == most)
        snprintf(text, size, "%d %s%s", least, noun, most == 1 ? "" : "s");
    else
        snprintf(text, size, "%d to %d %ss", least, most, noun);
    return text;
}

/* "32 KiB", "30 MiB"; "unknown" for 0. */
static const char *in_units(int64_t bytes, char *text, size_t size)
{
    if (bytes <= 0)
        snprintf(text, size, "unknown");
    else if (bytes % (1 << 20) == 0)
        snprintf(text, size, "%" PRId64 " MiB", bytes >> 20);
    else
        snprintf(text, size, "%" PRId64 " KiB", bytes >> 10);
    return text;
}

void pl_topology_print(MPI_Comm comm, const pl_topology *topology, const pl_mesh *mesh, char *text,
                       size_t size)
{
    enum { RANKS, CORES, CORES_OF_RANK, THREADS, N_FIGURES };
    static const char *const nouns[N_FIGURES] = {"rank", "core", "core", "thread"};
    const pl_topology *t = topology;
    const pl_axes inside = axes_inside_host(comm, t, mesh);
    const int n_cores = cores_now(t);
    int range[2 * N_FIGURES] = {
        -t->ranks_on_host, -t->cores_on_host, -n_cores, -t->threads,
        t->ranks_on_host,  t->cores_on_host,  n_cores,  t->threads}; /* a minimum is -max(-x) */
    char figure[N_FIGURES][32], cache[3][32], axes[2][64];

    pl_mpi_all_reduce(comm, range, 2 * N_FIGURES, MPI_INT, MPI_MAX);
    for (int i = 0; i < N_FIGURES; i++)
        least_to_most(-range[i], range[N_FIGURES + i], nouns[i], figure[i], sizeof figure[i]);
    pl_mesh_print(mesh, axes[0], sizeof axes[0]);
    pl_axes_print(mesh, inside, axes[1], sizeof axes[1]);
    in_units(t->l1_bytes, cache[0], sizeof cache[0]);
    in_units(t->l2_bytes, cache[1], sizeof cache[1]);
    in_units(t->l3_bytes, cache[2], sizeof cache[2]);

    snprintf(text, size,
             "mesh   %s, %d rank%s; inside a host: %s\n"
             "hosts  %d (%s%s), %s on %s%s; %s; L1 %s, L2 %s, L3 %s\n"
             "ranks  each may run on %s, with %s%s\n",
             axes[0][0] != '\0' ? axes[0] : "no axes", t->n_ranks, t->n_ranks == 1 ? "" : "s",
             axes[1][0] != '\0' ? axes[1] : "none", t->n_hosts, t->host_name,
             t->n_hosts > 1 ? " first" : "", figure[RANKS], figure[CORES],
             t->n_hosts > 1 ? " each" : "", t->cpu, cache[0], cache[1], cache[2],
             figure[CORES_OF_RANK], figure[THREADS],
             t->oversubscribed ? "; ranks outnumber cores and take turns on them" : "");
}

double pl_topology_memory_bytes(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
}
