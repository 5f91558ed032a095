/* case -- one collective at one size: its arrays, its input, and what must come out.
 *
 * Two arrays a rank: what is sent (PL_BENCH_IN) and what is received (PL_BENCH_OUT); in place the
 * larger of them does both. S is the whole array, n its ranks, as nccl-tests count it:
 *
 *   AllGather      in S/n, out S        ReduceScatter  in S, out S/n
 *   AllReduce      in S, out S          AllToAll       in S, out S     (not in place)
 *   Broadcast      in S, out S          Permute        in S, out S     (to the next; not in place)
 *
 * Inputs are small integers: sums of them are exact in every type and order (bf16 holds integers up
 * to 256, so sums stay below that), and results are compared with ==. */
#ifndef PURLIN_COLLBENCH_CASE_H
#define PURLIN_COLLBENCH_CASE_H

#include "collectives/collective.h"

enum { PL_BENCH_IN, PL_BENCH_OUT, PL_BENCH_ARRAYS };

typedef struct {
    pl_collective collective;
    pl_dtype dtype;
    pl_reduction reduction;
    int64_t count;     /* elements of the whole array, as pl_bench_count() has them */
    int n_ranks, rank; /* of the group */
    bool in_place;
} pl_bench_case;

/** Whether every rank has a block of its own, all alike: AllGather, ReduceScatter, AllToAll. Local,
 * as is everything here. */
bool pl_bench_deals(pl_collective c);

/** Elements of a whole array of at most `bytes`, at least one: where blocks are dealt, one each and
 * a multiple of n_ranks. */
int64_t pl_bench_count(pl_collective c, int64_t bytes, pl_dtype dtype, int n_ranks);

/** Whether the collective reduces; whether it can be done in place. */
bool pl_bench_reduces(pl_collective c);
bool pl_bench_in_place(pl_collective c);

/** Elements of array `a` (PL_BENCH_IN, PL_BENCH_OUT); of both when out of place. */
int64_t pl_bench_elements(const pl_bench_case *c, int a);
/** The array that does both in place. */
int pl_bench_place(pl_collective c);

/** What the collective layer is asked, in the arena. */
pl_collective_call pl_bench_call(pl_arena *arena, const pl_bench_case *c);

/** busbw = algbw x this factor, algbw = S / time (nccl-tests' PERFORMANCE.md). */
double pl_bench_bus_factor(pl_collective c, int n_ranks);

/** Fill the input, and everything else with what no result can be. arrays[PL_BENCH_ARRAYS]. */
void pl_bench_fill(const pl_bench_case *c, void *const *arrays);

/** What --fresh does before a call: write the input again (arrays as above), by ordinary stores, so
 * that its lines are in this rank's caches and in no other's, as after a layer computed them. The
 * values are not those of pl_bench_fill(), and no result is right after it. */
void pl_bench_renew(const pl_bench_case *c, void *const *arrays);

/** Elements of this rank's result that are not what they must be. */
int64_t pl_bench_count_wrong(const pl_bench_case *c, const void *const *arrays);

#endif
