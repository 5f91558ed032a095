#include "config.h"

#include "src/roofline/trial.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/program/kinds.h"
#include "src/roofline/cache.h"
#include "src/roofline/trial_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = PL_MATMUL_MOST_TRIED, LEAST_SAMPLES = 3, MOST_SAMPLES = PL_MATMUL_MOST_SAMPLES };

static const double shape_s = 0.04, all_s = 1.6; /* one shape's trial; all of a program's */
static const double sample_s = 2e-4;             /* the least that a sample lasts */

/* The shapes of a program, and what is known of them. */
typedef struct {
    int n;
    bool can_keep;
    bool known[MOST];
    pl_matmul_tried tried[MOST];
} choices;

/* --- shapes of all ranks --- */

static int compare(const void *a, const void *b)
{
    const pl_matmul_shape *x = a, *y = b;
    const int64_t difference[] = {x->M - y->M,
                                  x->N - y->N,
                                  x->K - y->K,
                                  (int64_t)x->trans_a - (int64_t)y->trans_a,
                                  (int64_t)x->trans_b - (int64_t)y->trans_b,
                                  (int64_t)x->accumulate - (int64_t)y->accumulate,
                                  x->lda - y->lda,
                                  x->ldb - y->ldb,
                                  x->ldc - y->ldc};

    for (size_t i = 0; i < sizeof difference / sizeof difference[0]; i++)
        if (difference[i] != 0)
            return difference[i] < 0 ? -1 : 1;
    return 0;
}

/* Sorted, each once; the number of those left. */
static int make_distinct(pl_matmul_shape *shapes, int n)
{
    int kept = 0;

    qsort(shapes, (size_t)n, sizeof *shapes, compare);
    for (int i = 0; i < n; i++)
        if (kept == 0 || compare(&shapes[kept - 1], &shapes[i]) != 0)
            shapes[kept++] = shapes[i];
    return kept;
}

/* This rank's; *n of them, for pl_free(). */
static pl_matmul_shape *collect(const pl_program *const *programs, int n_programs, pl_coords coords,
                                int *n)
{
    pl_matmul_shape *shapes, of_op[PL_MAX_OPERANDS / 2];
    int room = 1, found = 0;

    for (int i = 0; i < n_programs; i++)
        for (int o = 0; programs[i] != NULL && o < programs[i]->n_ops; o++)
            room += programs[i]->ops[o].kind == PL_EINSUM ? programs[i]->ops[o].n_in / 2 : 0;
    shapes = pl_alloc((size_t)room * sizeof *shapes);
    for (int i = 0; i < n_programs; i++)
        for (int o = 0; programs[i] != NULL && o < programs[i]->n_ops; o++) {
            const int n_op = pl_op_products(programs[i], &programs[i]->ops[o], coords, of_op);

            PL_ASSERT(found + n_op <= room);
            memcpy(shapes + found, of_op, (size_t)n_op * sizeof *shapes);
            found += n_op;
        }
    *n = make_distinct(shapes, found);
    return shapes;
}

/* All ranks', the same list on each. */
static pl_matmul_shape *gather(MPI_Comm comm, const pl_matmul_shape *mine, int n_mine, int *n)
{
    int n_ranks, bytes = n_mine * (int)sizeof *mine, total = 0;
    MPI_Request request;

    PL_MPI(MPI_Comm_size(comm, &n_ranks));
    int *count = pl_alloc(2 * (size_t)n_ranks * sizeof *count), *begin = count + n_ranks;
    PL_MPI(MPI_Iallgather(&bytes, 1, MPI_INT, count, 1, MPI_INT, comm, &request));
    pl_mpi_finish(&request, 1);
    for (int r = 0; r < n_ranks; r++) {
        begin[r] = total;
        total += count[r];
    }
    pl_matmul_shape *all = pl_alloc((size_t)total);
    PL_MPI(MPI_Iallgatherv(mine, bytes, MPI_BYTE, all, count, begin, MPI_BYTE, comm, &request));
    pl_mpi_finish(&request, 1);
    pl_free(count);
    *n = make_distinct(all, total / (int)sizeof *all);
    return all;
}

static void list_shapes(MPI_Comm comm, const pl_program *const *programs, int n_programs,
                        pl_coords coords, choices *chosen)
{
    int n_mine, n;
    pl_matmul_shape *mine = collect(programs, n_programs, coords, &n_mine);
    pl_matmul_shape *all = gather(comm, mine, n_mine, &n);

    chosen->n = n < MOST ? n : MOST;
    for (int i = 0; i < chosen->n; i++)
        chosen->tried[i].shape = all[i];
    pl_free(mine);
    pl_free(all);
}

/* --- what is kept --- */

/* Whether a file may appear there. */
static bool is_writable(const char *path)
{
    char folder[PL_CACHE_PATH];
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return false;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    return access(folder, W_OK | X_OK) == 0;
}

/* Rank 0: into `kept` what the file holds, and from there what is known. */
static void recall(const char *path, pl_trials *kept, bool again, choices *chosen)
{
    chosen->can_keep = is_writable(path);
    if (path[0] != '\0' && access(path, F_OK) == 0 && pl_trials_read(path, kept) != PL_OK) {
        pl_warn("the cached trial of products cannot be used: %s", pl_status_message());
        pl_status_clear();
    }
    for (int i = 0; i < chosen->n; i++) {
        const pl_matmul_tried *found = pl_trials_find(kept, &chosen->tried[i].shape);

        chosen->known[i] = found != NULL && !(again && chosen->can_keep);
        if (found != NULL)
            chosen->tried[i] = *found;
    }
}

/* Rank 0: what is new goes into the file. Where that fails nothing is: the next run would have to
 * try again, and might choose otherwise. */
static void keep(const char *path, pl_trials *kept, const bool *was_known, choices *chosen)
{
    for (int i = 0; i < chosen->n; i++)
        if (chosen->known[i] && !was_known[i])
            pl_trials_put(kept, &chosen->tried[i]);
    if (pl_trials_write(path, kept) == PL_OK)
        return;
    pl_say("trial of products not kept, and so not used: %s", pl_status_message());
    pl_status_clear();
    memcpy(chosen->known, was_known, sizeof chosen->known);
}

static void share(MPI_Comm comm, choices *chosen)
{
    MPI_Request request;

    PL_MPI(MPI_Ibcast(chosen, (int)sizeof *chosen, MPI_BYTE, 0, comm, &request));
    pl_mpi_finish(&request, 1);
}

/* --- the trial --- */

typedef struct {
    MPI_Comm comm;
    bool shares_core, calls_hook;
    double peak_flops_per_s;
} ranks;

static void take_slowest(const ranks *r, double *x, int n)
{
    pl_mpi_all_reduce(r->comm, x, n, MPI_DOUBLE, MPI_MAX);
}

/* Seconds of n runs of all ranks at once, on this one. */
static double run_s(const ranks *r, pl_matmul_trial *trial, bool openblas, int n)
{
    double none = 0;

    take_slowest(r, &none, 1); /* all are here */
    const double begin_s = r->shares_core ? pl_used_s() : pl_now_s();
    pl_matmul_trial_run(trial, openblas, r->calls_hook, n);
    return (r->shares_core ? pl_used_s() : pl_now_s()) - begin_s;
}

static int between(double x, int least, int most)
{
    return x < least ? least : x > most ? most : (int)x;
}

static void try_shape(const ranks *r, double allowed_s, pl_matmul_tried *tried)
{
    const double most_run_s = allowed_s / (2 * (LEAST_SAMPLES + 1));
    pl_matmul_trial *trial =
        pl_matmul_trial_create(&tried->shape, most_run_s * r->peak_flops_per_s);
    double once_s[2], all[2 * MOST_SAMPLES] = {0};

    for (int i = 0; i < 4; i++) /* the first of each touches memory and wakes libraries */
        once_s[i % 2] = run_s(r, trial, i % 2 == 1, 1);
    take_slowest(r, once_s, 2);
    const int n_runs = between(ceil(sample_s / fmin(once_s[0], once_s[1])), 1, 1 << 20);
    const int n_samples = between(allowed_s / (n_runs * (once_s[0] + once_s[1])), LEAST_SAMPLES,
                                  MOST_SAMPLES);

    for (int i = 0; i < n_samples; i++)
        for (int turn = 0; turn < 2; turn++) {
            const int who = (i + turn) % 2;

            all[who * MOST_SAMPLES + i] = run_s(r, trial, who == 1, n_runs) / n_runs;
        }
    take_slowest(r, all, 2 * MOST_SAMPLES);
    pl_matmul_judge(all, all + MOST_SAMPLES, n_samples, tried);
    pl_matmul_trial_destroy(trial);
}

static void try_all(const ranks *r, choices *chosen)
{
    const double begin_s = pl_now_s();
    double said_s = 0;
    int n = 0, done = 0;

    for (int i = 0; i < chosen->n; i++)
        n += !chosen->known[i];
    const double allowed_s = fmin(shape_s, all_s / n);
    for (int i = 0; i < chosen->n; i++) {
        if (chosen->known[i])
            continue;
        try_shape(r, allowed_s, &chosen->tried[i]);
        chosen->known[i] = true;
        done++;
        const double now_s = pl_now_s() - begin_s;
        if (now_s > said_s + 1) {
            pl_say("tried own tiles and OpenBLAS on %d of %d shapes of products", done, n);
            said_s = now_s;
        }
    }
    pl_say("tried own tiles and OpenBLAS on %d shapes of products in %.1f s", n,
           pl_now_s() - begin_s);
}

static bool has_unknown(const choices *chosen)
{
    for (int i = 0; i < chosen->n; i++)
        if (!chosen->known[i])
            return true;
    return false;
}

static void use(const choices *chosen)
{
    pl_matmul_tried used[MOST];
    int n = 0;

    for (int i = 0; i < chosen->n; i++)
        if (chosen->known[i])
            used[n++] = chosen->tried[i];
    pl_matmul_use_tried(used, n);
}

void pl_trial_products(MPI_Comm comm, const pl_topology *topology, const pl_machine *machine,
                       const pl_program *const *programs, int n, pl_coords coords,
                       bool again)
{
    const ranks r = {.comm = comm,
                     .shares_core = machine->ranks_per_core > 1,
                     .calls_hook = topology->n_ranks > 1, /* as runs that communicate */
                     .peak_flops_per_s = machine->peak_flops_per_s};
    choices *chosen = pl_alloc(sizeof *chosen);
    char path[PL_CACHE_PATH] = "";
    pl_trials kept = {0};
    bool was_known[MOST];
    int rank;

    PL_MPI(MPI_Comm_rank(comm, &rank));
    list_shapes(comm, programs, n, coords, chosen);
    if (rank == 0) {
        pl_trials_path(topology, path);
        recall(path, &kept, again, chosen);
    }
    share(comm, chosen);
    if (chosen->can_keep && has_unknown(chosen)) {
        memcpy(was_known, chosen->known, sizeof was_known);
        try_all(&r, chosen);
        if (rank == 0)
            keep(path, &kept, was_known, chosen);
        share(comm, chosen);
    }
    use(chosen);
    pl_trials_free(&kept);
    pl_free(chosen);
}

double pl_trial_factor(const pl_program *p, const pl_op *op, pl_coords coords)
{
    pl_matmul_shape shapes[PL_MAX_OPERANDS / 2];
    double flops = 0, as_long = 0;
    int n_tried;

    pl_matmul_tried_in_use(&n_tried);
    const int n = n_tried > 0 ? pl_op_products(p, op, coords, shapes) : 0;
    for (int i = 0; i < n; i++) {
        const pl_matmul_tried *tried = pl_matmul_find_tried(&shapes[i]);
        const double work = (double)shapes[i].M * (double)shapes[i].N * (double)shapes[i].K;

        flops += work;
        as_long += tried != NULL && tried->openblas ? work * tried->openblas_s / tried->own_s : work;
    }
    return n > 0 ? as_long / flops : 1;
}
