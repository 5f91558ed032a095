/* cache -- machines that were measured before. */
#include "config.h"

#include "src/roofline/calibrate.h"

#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/base/wait.h"
#include "src/roofline/cache.h"
#include "src/roofline/line.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = PL_CACHE_PATH };

/* Raised when what is measured, or how, changes: older files are then measured anew. */
enum { FORMAT_VERSION = 23 };

/* As many places (roofline/line.h) of one machine are kept, each in a file. */
enum { N_PLACES = 4 };

/* printf into a path, which becomes "" when it does not fit. */
__attribute__((format(printf, 2, 3))) static bool put_path(char *path, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int length = vsnprintf(path, PATH_BYTES, format, args);
    va_end(args);
    if (length >= 0 && length < PATH_BYTES)
        return true;
    path[0] = '\0';
    return false;
}

/* The cache's folder, made where it can be; "" when the environment names none. Relative names do
 * not count, as the XDG Base Directory Specification has it. */
static bool find_folder(char *folder)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char parent[PATH_BYTES];

    folder[0] = '\0';
    if (cache != NULL && cache[0] == '/')
        put_path(parent, "%s", cache);
    else if (home == NULL || home[0] != '/' || !put_path(parent, "%s/.cache", home))
        return false;
    mkdir(parent, 0700); /* what fails here shows when the file is written */
    if (!put_path(folder, "%s/purlin", parent))
        return false;
    mkdir(folder, 0700);
    return true;
}

/* Text as part of a file's name, at most `most` bytes: "AMD EPYC (x)" gives AMD-EPYC-x. */
static void name_part(const char *text, char *part, size_t most)
{
    size_t n = 0;

    for (const char *c = text; *c != '\0' && n + 1 < most; c++)
        if (isalnum((unsigned char)*c))
            part[n++] = *c;
        else if (n > 0 && part[n - 1] != '-')
            part[n++] = '-';
    while (n > 0 && part[n - 1] == '-')
        n--;
    part[n] = '\0';
}

void pl_cache_file(const char *what, int version, const char *matmul, const pl_topology *t,
                   const char *kind, char path[PL_CACHE_PATH])
{
    char folder[PATH_BYTES], cpu[sizeof t->cpu], multiplies[64];

    path[0] = '\0';
    if (!find_folder(folder))
        return;
    name_part(t->cpu, cpu, sizeof cpu);
    name_part(matmul, multiplies, sizeof multiplies);
    put_path(path, "%s/%s-%d-%s-%s-%s-%dhosts-%dcores-%dranks-%dperhost-%dof-%dthreads%s.json",
             folder, what, version, cpu, pl_isa_name(pl_isa_get()), multiplies, t->n_hosts,
             t->cores_on_host, t->n_ranks, t->ranks_on_host, t->cores_of_rank, t->threads, kind);
}

/* The file of such a machine in its n-th place; "" when there can be none. */
static void find_file(const pl_topology *t, bool quick, int n, char *path)
{
    static const char *const places[N_PLACES] = {"", "-2", "-3", "-4"};
    char kind[16];

    snprintf(kind, sizeof kind, "%s%s", quick ? "-quick" : "", places[n]);
    pl_cache_file("machine", FORMAT_VERSION, pl_matmul_backend(), t, kind, path);
}

/* Whether the file holds a machine; one that is there and does not is spoken of, if asked for. */
static bool read_file(const char *path, bool speaks, pl_machine *machine)
{
    if (path[0] == '\0' || access(path, F_OK) != 0)
        return false;
    if (pl_machine_read(path, machine) == PL_OK)
        return true;
    if (speaks)
        pl_warn("the cached calibration cannot be used: %s", pl_status_message());
    pl_status_clear();
    return false;
}

static void write_file(const char *path, const pl_machine *machine)
{
    if (path[0] == '\0' || pl_machine_write(path, machine) == PL_OK)
        return;
    pl_say("calibration not cached: %s", pl_status_message());
    pl_status_clear();
}

bool pl_calibration_is_disturbed(const pl_machine *machine, char *why, size_t size)
{
    if (machine->jitter_s > PL_MOST_JITTER_S) {
        snprintf(why, size, "ranks drifted apart by %.2g s (jitter_s; at most %.2g s on a calm machine)",
                 machine->jitter_s, PL_MOST_JITTER_S);
        return true;
    }
    /* where ranks take turns, a window holds only some of them, now more and now fewer */
    if (!(machine->ranks_per_core > 1) && machine->difference > PL_MOST_DIFFERENCE) {
        snprintf(why, size, "repeated measurements differ by %.0f%% (more than %.0f%%)",
                 100 * machine->difference, 100 * PL_MOST_DIFFERENCE);
        return true;
    }
    if (machine->spread.line_s > PL_MOST_SPREAD) {
        snprintf(why, size,
                 "the ranks' cores moved (line_s differs by %.0f%%, more than %.0f%%)",
                 100 * machine->spread.line_s, 100 * PL_MOST_SPREAD);
        return true;
    }
    return false;
}

/* How many times as far apart; unknown is like unknown only. */
static double far_from(double line_s, double other_s)
{
    if (!(line_s > 0) || !(other_s > 0))
        return line_s > 0 || other_s > 0 ? INFINITY : 1;
    return fmax(line_s, other_s) / fmin(line_s, other_s);
}

/* Where such a machine is to be kept: in its place, or where none is yet, or instead of the one that
 * is least unlike. */
static void find_place(const pl_topology *t, bool quick, double line_s, char *path)
{
    double least = INFINITY;
    pl_machine machine;
    int best = 0;

    for (int n = 0; n < N_PLACES; n++) {
        find_file(t, quick, n, path);
        const bool found = read_file(path, false, &machine);
        const double far = found ? far_from(line_s, machine.line_s) : PL_MOST_ALIKE;

        if (far < least) {
            least = far;
            best = n;
        }
    }
    find_file(t, quick, best, path);
}

bool pl_machine_recall(const pl_topology *topology, bool quick, double line_s, pl_machine *machine)
{
    char path[PATH_BYTES];

    for (int n = 0; n < N_PLACES; n++) {
        find_file(topology, quick, n, path);
        if (read_file(path, true, machine) &&
            (!(line_s > 0) || far_from(line_s, machine->line_s) < PL_MOST_ALIKE))
            return true;
    }
    return false;
}

void pl_machine_keep(const pl_topology *topology, bool quick, pl_machine *machine)
{
    char why[128], path[PATH_BYTES];

    machine->disturbed = !quick && pl_calibration_is_disturbed(machine, why, sizeof why);
    if (machine->disturbed) {
        pl_warn("this calibration was disturbed and is not kept: %s; predictions may be far off, "
                "the next run measures again",
                why);
        return;
    }
    if (pl_log_rank() != 0)
        return;
    find_place(topology, quick, machine->line_s, path);
    write_file(path, machine);
}

pl_status pl_machine_cached(MPI_Comm comm, const pl_topology *topology, pl_heap *heap,
                            bool recalibrate, bool quick, pl_dtype dtype, pl_machine *machine)
{
    struct {
        int found;
        pl_machine machine;
    } cached;
    char path[PATH_BYTES];
    MPI_Request request;
    pl_status status = PL_OK;
    int rank;

    memset(&cached, 0, sizeof cached);
    PL_MPI(MPI_Comm_rank(comm, &rank));
    const double line_s = recalibrate ? 0 : pl_measure_line(comm, topology, heap);
    if (rank == 0) {
        find_file(topology, quick, 0, path);
        cached.found =
            !recalibrate && pl_machine_recall(topology, quick, line_s, &cached.machine);
    }
    PL_MPI(MPI_Ibcast(&cached, (int)sizeof cached, MPI_BYTE, 0, comm, &request));
    pl_mpi_finish(&request, 1);
    if (cached.found) {
        memcpy(machine, &cached.machine, sizeof *machine);
        pl_wait_set_oversubscribed(machine->ranks_per_core > 1);
    }
    if (cached.found && pl_machine_has(machine, dtype))
        return PL_OK;

    pl_say("calibrating this machine%s (some seconds%s)", cached.found ? " for bf16" : "",
           rank == 0 && path[0] != '\0' ? "; cached for the next run" : "");
    const double begin_s = pl_now_s();
    if (!cached.found)
        status = pl_calibrate(comm, topology, heap, quick, machine);
    if (status == PL_OK && dtype == PL_BF16)
        pl_calibrate_bf16(comm, topology, heap, quick, machine);
    if (status != PL_OK)
        return status;
    pl_say("calibrated in %.1f s", pl_now_s() - begin_s);
    pl_machine_keep(topology, quick, machine);
    return PL_OK;
}
