/* limit -- the least time that copies or links allow, measured beside the collective.
 *
 * Inside a host data have to be read from some rank's memory and written to another's, whatever the
 * algorithm. A rank's least share, with every output element written once and every input element
 * that it depends on read once, n ranks, S bytes in the whole array, in place in parentheses:
 *
 *   AllGather       reads S (S - S/n)        writes S (S - S/n)
 *   ReduceScatter   reads S                  writes S/n
 *   AllReduce       reads S                  writes S: a block of every rank's array is summed, the
 *                                            sum written to every rank's array
 *   AllToAll        reads S                  writes S
 *   Broadcast       reads S                  writes S (not root)
 *   Permute         reads S                  writes S
 *
 * The limit is that traffic over the rate at which this host carries it: a plain loop that moves or
 * sums exactly those bytes between exactly those arrays, all ranks at once, with no signal and no
 * wait. A collective has to do this and to agree on when; what it takes beyond the limit is the
 * cost of agreeing. The loop is timed with and without stores that go past the caches, and the
 * faster counts. Without shared memory the loop runs within each rank's own arrays.
 *
 * Across H hosts with l ranks of the group on each, what must enter (and, but for Broadcast, leave)
 * every host is dealt evenly to its ranks:
 *
 *   AllGather, ReduceScatter   S (H-1)/H / l each
 *   AllReduce                  2 S (H-1)/H / l
 *   AllToAll                   S (n-l)/n
 *   Broadcast                  S / l
 *   Permute                    S, of the last rank of a host only
 *
 * and the limit is the time of a plain MPI_Sendrecv of that many bytes to the next host and from
 * the one before, all ranks at once. */
#ifndef PURLIN_COLLBENCH_LIMIT_H
#define PURLIN_COLLBENCH_LIMIT_H

#include "src/collbench/case.h"
#include "src/base/sample.h"
#include "src/mesh/comms.h"
#include "src/mesh/heap.h"

enum { PL_LIMIT_CONTENDERS = 2 };

typedef struct {
    const pl_bench_case *c;
    const pl_group *group;
    const pl_site *site;
    int n_sets;
    void **from,
        **to; /* [n_sets][n_ranks]: where each rank's input and result begin, as seen here */
    void **sources, **targets; /* [n_ranks] of a combination */
    bool streams;
    /* across hosts */
    int64_t link_bytes; /* of this rank */
    int next, previous; /* ranks at this rank's place of the neighbouring hosts */
    void *sent, *received;
    pl_contender contender;
} pl_bench_limit;

/** Bytes that a rank of each host must send to other hosts; 0 on one host. Local. */
int64_t pl_bench_link_bytes(const pl_bench_case *c, const pl_site *site);

/** Set up limits[PL_LIMIT_CONTENDERS] (n of them are used, and returned) for arrays
 * sets[n_sets][PL_BENCH_ARRAYS] of every rank, which lie in the heap. `across`: whether any group
 * of the run leaves its host. Everything is kept, not copied. Collective over the group. */
int pl_bench_limit_open(pl_bench_limit *limits, const pl_bench_case *c, const pl_group *group,
                        const pl_site *site, pl_heap *heap, bool across,
                        void *(*sets)[PL_BENCH_ARRAYS], int n_sets);
void pl_bench_limit_close(pl_bench_limit *limits, int n);

/** After they were timed: the limit, seconds. Local. */
double pl_bench_limit_s(const pl_bench_limit *limits, int n);

#endif
