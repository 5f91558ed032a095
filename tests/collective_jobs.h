/* collective_jobs -- collectives over real ranks, ready to run, with inputs and verdicts. */
#ifndef PURLIN_TESTS_COLLECTIVE_JOBS_H
#define PURLIN_TESTS_COLLECTIVE_JOBS_H

#include "collectives/algorithms.h"
#include "collectives/engine.h"
#include "tests/collective_cases.h"

enum { JOB_PERIOD = 251 };

/* An input: element `id` of the whole, the term of rank `term`, in run number `run`. */
typedef float job_value(int term, int64_t id, int64_t run);

typedef struct {
    const pl_algorithm *a;
    case_spec spec;
    pl_group group;
    pl_heap *heap;
    pl_arena *arena;
    case_call its;
    size_t memory_bytes;
    char *memory[CASE_ARRAYS];
    void *arrays[CASE_ARRAYS], *scratch; /* arrays lie some elements into memory */
    pl_schedule *schedule;
    pl_transfer *transfer;
    job_value *value;
    float reduced[JOB_PERIOD]; /* of small integers, run 0 */
} job;

/** Integers from -8 to 8: sums over 16 ranks are exact in any order and type; period JOB_PERIOD. */
float job_small_integer(int term, int64_t id, int64_t run);

/** False if the algorithm cannot do it there; then there is nothing to free. Arrays begin `shift`
 * elements after an address that is well aligned, in `heap`, and hold small integers. Local. */
bool job_init(job *j, const pl_algorithm *a, const case_spec *spec, const pl_site *site,
              pl_group group, pl_heap *heap, int shift);
/** Local. */
void job_prepare(job *j, pl_engine *engine, int tag);
/** After the engine is gone. Local. */
void job_free(job *j);

/** Write the inputs of a run. Local. */
void job_fill(job *j, int64_t run);
/** Elements that are not as run number `run` with small integers should leave them, and bytes
 * around that are no longer as they were; wipes the arrays. Local. */
int64_t job_count_wrong(job *j, int64_t run);
/** Elements that go wrong in `n_runs` runs, and bytes that were not counted right. Inputs change
 * from run to run, and ranks take their time at different points, so that what a peer reads too
 * late, or finds too early, is wrong. Collective over the group. */
int64_t job_run(job *j, pl_engine *engine, int n_runs);

/* What is done with every element of a part; `at` indexes the array. */
typedef void job_visitor(const job *j, void *array, int64_t at, int term, int64_t id,
                         void *context);
void job_visit(const job *j, const case_part *part, job_visitor *visit, void *context);
/** Element `at` of an array as a number. */
float job_element(const job *j, const void *array, int64_t at);

#endif
