/* step_bench -- how close a whole training step comes to the machine: run by `make bench-step`.
 *
 * On two ranks, each pinned to a core of its own: model small in the given type, 8 sequences of 256
 * tokens a rank. In turns, rank 0 trains alone and both train with dp:2, so that both see the same weather.
 *   MFU      model FLOP/s of rank 0 alone (pl_model_flops: 6 FLOPs a weight of products and token,
 *            and causal attention) over the multiply-adds of the type that the core can do at best,
 *            as measured just before; beside it, over the best matmul rate (as ./train has it)
 *   speedup  tokens/s of dp:2 over tokens/s of one rank; 2 is perfect
 * Figures are medians over steps, with the quartiles. Exit code 1 when a target is missed. */
#include "config.h"

#include "kernels/peak.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/mesh/heap.h"
#include "src/roofline/calibrate.h"
#include "src/train/session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 400, STEPS_A_TURN = 2 };

static const double least_speedup = 1.9;

static double least_mfu(pl_dtype dtype)
{
    return dtype == PL_BF16 ? 0.70 : 0.80;
}

/* Times of steps, and what they did. */
typedef struct {
    pl_session session;
    pl_options options;
    int n;
    double step_s[MAX_STEPS];
} contender;

/* Pin this process to the rank-th CPU that it may use. */
static void pin(int rank)
{
    cpu_set_t allowed, one;
    int seen = 0;

    CPU_ZERO(&one);
    PL_ASSERT(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == rank)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) != 1 || sched_setaffinity(0, sizeof one, &one) != 0)
        fprintf(stderr, "rank %d has no core of its own: figures mean little\n", rank);
}

/* Everyone waits here without using its core. */
static void meet(void)
{
    pl_mpi_meet(MPI_COMM_WORLD);
}

static pl_status prepare(MPI_Comm comm, const char *machine, const char *strategy,
                         const char *batch, const char *dtype, contender *c)
{
    static char *words[2][16]; /* options keep pointers into their words */
    char **argv = words[comm != MPI_COMM_SELF];
    const char *const text[] = {"step_bench", "--machine", machine,   "--strategy", strategy,
                                "--model",    "small",     "--batch", batch,        "--dtype",    dtype, NULL};

    memset(c, 0, sizeof *c);
    memcpy(argv, text, sizeof text);
    pl_status status = pl_options_parse(11, argv, &c->options);
    if (status == PL_OK)
        status = pl_session_open(comm, &c->options, &c->session);
    if (status == PL_OK)
        status = pl_session_plan(&c->session);
    if (status == PL_OK)
        status = pl_session_start(&c->session);
    return status;
}

static void turn(contender *c)
{
    for (int i = 0; i < STEPS_A_TURN && c->n < MAX_STEPS; i++) {
        pl_step_result r;

        PL_ASSERT(pl_session_step(&c->session, c->n, &r) == PL_OK);
        pl_session_max(&c->session, &r.step_s, 1);
        c->step_s[c->n++] = r.step_s;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The q-quantile of a contender's steps after the first turn, which touches memory. */
static double quantile(const contender *c, double q)
{
    double sorted[MAX_STEPS];
    const int n = c->n - STEPS_A_TURN;

    memcpy(sorted, c->step_s + STEPS_A_TURN, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* Multiply-adds on registers, the best of a few tries; 0 without instructions for the type. */
static double multiply_peak(pl_dtype dtype)
{
    const pl_multiply_kind kind = dtype == PL_BF16 ? PL_MULTIPLY_BF16 : PL_MULTIPLY_F32;
    const int64_t rounds = 2000000;
    double best = 0;

    for (int i = 0; i < 5 && pl_multiply_operations(kind) > 0; i++) {
        const double begin_s = pl_now_s();
        const volatile double result = pl_multiply_run(kind, rounds);
        const double rate = (double)rounds * pl_multiply_operations(kind) / (pl_now_s() - begin_s);

        (void)result;
        best = rate > best ? rate : best;
    }
    return best;
}

static int report(const contender *one, const contender *two, const pl_machine *machine, double peak)
{
    const pl_session *s = &one->session;
    const double flops = pl_model_flops(&s->model, s->plan.batch, s->plan.seq, true);
    const double tokens = (double)(s->plan.batch * s->plan.seq);
    const double matmul = pl_machine_peak(machine, s->plan.dtype);
    const double least = least_mfu(s->plan.dtype), rate = flops / quantile(one, 0.5);
    const double mfu = rate / (peak > 0 ? peak : matmul);
    const double speedup = 2 * quantile(one, 0.5) / quantile(two, 0.5);

    printf("machine %s; one rank in %s: multiply-adds %.1f GFLOP/s, best matmul %.1f GFLOP/s\n",
           machine->name, pl_dtype_short(s->plan.dtype), peak / 1e9, matmul / 1e9);
    printf(
        "one rank  %d steps: median %.3f s (quartiles %.3f, %.3f), %.0f tokens/s, %.1f GFLOP/s\n",
        one->n, quantile(one, 0.5), quantile(one, 0.25), quantile(one, 0.75),
        tokens / quantile(one, 0.5), flops / quantile(one, 0.5) / 1e9);
    printf("dp:2      %d steps: median %.3f s (quartiles %.3f, %.3f), %.0f tokens/s\n", two->n,
           quantile(two, 0.5), quantile(two, 0.25), quantile(two, 0.75),
           2 * tokens / quantile(two, 0.5));
    printf("MFU of one rank %.1f%% (target %.0f%%): %s; %.1f%% of the best matmul\n", 100 * mfu,
           100 * least, mfu >= least ? "reached" : "missed", 100 * rate / matmul);
    printf("speedup of dp:2 %.3f (target %.2f): %s\n", speedup, least_speedup,
           speedup >= least_speedup ? "reached" : "missed");
    return mfu < least || speedup < least_speedup;
}

static int bench(int rank, const char *machine_file, int n_turns, const char *dtype)
{
    static contender one, two;
    pl_topology topology;
    pl_machine machine;
    double peak = 0;
    int missed = 0;

    if (rank == 0) {
        pl_topology_discover(MPI_COMM_SELF, &topology);
        pl_heap *heap = pl_heap_create(MPI_COMM_SELF);
        PL_ASSERT(pl_calibrate(MPI_COMM_SELF, &topology, heap, false, &machine) == PL_OK);
        if (strcmp(dtype, "bf16") == 0)
            pl_calibrate_bf16(MPI_COMM_SELF, &topology, heap, false, &machine);
        pl_heap_destroy(heap);
        peak = multiply_peak(strcmp(dtype, "bf16") == 0 ? PL_BF16 : PL_F32);
        PL_ASSERT(prepare(MPI_COMM_SELF, machine_file, "dp:1", "8", dtype, &one) == PL_OK);
    }
    meet();
    PL_ASSERT(prepare(MPI_COMM_WORLD, machine_file, "dp:2", "16", dtype, &two) == PL_OK);
    for (int i = 0; i < n_turns; i++) {
        if (rank == 0)
            turn(&one);
        meet();
        turn(&two);
    }
    if (rank == 0) {
        missed = report(&one, &two, &machine, peak);
        pl_session_close(&one.session);
    }
    pl_session_close(&two.session);
    return missed;
}

int main(int argc, char **argv)
{
    int rank, size;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    pl_log_set_rank(rank);
    if (argc != 4 || size != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpirun -np 2 step_bench MACHINE_FILE TURNS f32|bf16\n");
        PL_MPI(MPI_Finalize());
        return 2;
    }
    pin(rank);
    const int missed = bench(rank, argv[1], atoi(argv[2]), argv[3]);
    PL_MPI(MPI_Finalize());
    return missed;
}
