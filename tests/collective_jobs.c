#include "tests/collective_jobs.h"

#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/bf16.h"
#include "src/base/clock.h"
#include "src/base/memory.h"

#include <string.h>

/* Bytes of what nobody may touch: as an element of any type, no value that occurs. */
enum { UNTOUCHED = 0x7b };

float job_small_integer(int term, int64_t id, int64_t run)
{
    const int k = (int)((id + 31 * run) % JOB_PERIOD);

    return (float)((k * (term + 3) + k / 7 + 5 * term) % 17 - 8);
}

static float reduce(pl_reduction reduction, float a, float b)
{
    if (reduction == PL_SUM)
        return a + b;
    return b > a ? b : a;
}

static void set_element(const job *j, void *array, int64_t at, float value)
{
    if (j->spec.dtype == PL_F32)
        ((float *)array)[at] = value;
    else if (j->spec.dtype == PL_I32)
        ((int32_t *)array)[at] = (int32_t)value;
    else
        ((pl_bf16 *)array)[at] = pl_bf16_of_f32(value);
}

float job_element(const job *j, const void *array, int64_t at)
{
    if (j->spec.dtype == PL_F32)
        return ((const float *)array)[at];
    if (j->spec.dtype == PL_I32)
        return (float)((const int32_t *)array)[at];
    return pl_bf16_to_f32(((const pl_bf16 *)array)[at]);
}

void job_visit(const job *j, const case_part *part, job_visitor *visit, void *context)
{
    int64_t id = part->first_id;

    for (int i = 0; i < part->region.n_pieces; i++) {
        const pl_piece p = part->region.pieces[i];

        for (int64_t run = 0; run < p.count; run++)
            for (int64_t k = 0; k < p.length; k++)
                visit(j, j->arrays[p.array], p.offset + run * p.stride + k, part->term, id++,
                      context);
    }
}

static void put(const job *j, void *array, int64_t at, int term, int64_t id, void *context)
{
    set_element(j, array, at, j->value(term, id, *(int64_t *)context));
}

void job_fill(job *j, int64_t run)
{
    for (int i = 0; i < CASE_ARRAYS; i++)
        memset(j->memory[i], UNTOUCHED, j->memory_bytes);
    for (int i = 0; i < j->its.n_inputs; i++)
        job_visit(j, &j->its.inputs[i], put, &run);
}

typedef struct {
    int64_t run, n_wrong;
} verdict;

static void judge(const job *j, void *array, int64_t at, int term, int64_t id, void *context)
{
    verdict *v = context;
    const float expected = term == CASE_ALL ? j->reduced[(id + 31 * v->run) % JOB_PERIOD]
                                            : job_small_integer(term, id, v->run);

    v->n_wrong += job_element(j, array, at) != expected;
}

static void wipe(const job *j, void *array, int64_t at, int term, int64_t id, void *context)
{
    const size_t bytes = pl_dtype_bytes(j->spec.dtype);

    (void)term, (void)id, (void)context;
    memset((char *)array + (size_t)at * bytes, UNTOUCHED, bytes);
}

int64_t job_count_wrong(job *j, int64_t run)
{
    verdict v = {.run = run};

    for (int i = 0; i < j->its.n_outputs; i++)
        job_visit(j, &j->its.outputs[i], judge, &v);
    for (int i = 0; i < j->its.n_outputs; i++)
        job_visit(j, &j->its.outputs[i], wipe, NULL);
    for (int i = 0; i < j->its.n_inputs; i++)
        job_visit(j, &j->its.inputs[i], wipe, NULL);
    for (int i = 0; i < CASE_ARRAYS; i++)
        for (size_t b = 0; b < j->memory_bytes; b++)
            v.n_wrong += j->memory[i][b] != UNTOUCHED;
    return v.n_wrong;
}

static void make_arrays(job *j, int shift)
{
    const size_t bytes = pl_dtype_bytes(j->spec.dtype);

    j->memory_bytes = (size_t)(case_room(&j->spec) + shift) * bytes;
    for (int i = 0; i < CASE_ARRAYS; i++) {
        j->memory[i] = pl_heap_alloc(j->heap, j->memory_bytes);
        j->arrays[i] = j->memory[i] + (size_t)shift * bytes;
    }
}

bool job_init(job *j, const pl_algorithm *a, const case_spec *spec, const pl_site *site,
              pl_group group, pl_heap *of, int shift)
{
    *j = (job){.a = a, .spec = *spec, .group = group, .heap = of, .value = job_small_integer};
    j->spec.n_ranks = group.size;
    j->arena = pl_arena_create();
    j->its = case_call_of(j->arena, &j->spec, group.rank);
    if (!pl_algorithm_applies(a, &j->its.call, site)) {
        pl_arena_destroy(j->arena);
        return false;
    }
    for (int k = 0; k < JOB_PERIOD; k++) {
        j->reduced[k] = job_small_integer(0, k, 0);
        for (int r = 1; r < group.size; r++)
            j->reduced[k] = reduce(spec->reduction, j->reduced[k], job_small_integer(r, k, 0));
    }
    j->schedule = pl_schedule_create();
    a->write(j->schedule, &j->its.call, site, group.rank);
    pl_schedule_set_hosts(j->schedule, site->host, site->n_ranks, group.rank);
    pl_schedule_describe(j->schedule, a->collective + 1, 0);
    make_arrays(j, shift);
    return true;
}

void job_prepare(job *j, pl_engine *engine, int tag)
{
    j->scratch =
        pl_alloc((size_t)pl_schedule_scratch_elements(j->schedule) * pl_dtype_bytes(j->spec.dtype));
    j->transfer = pl_engine_prepare(engine, j->schedule, &j->group, tag, j->spec.dtype, j->arrays,
                                    CASE_ARRAYS, j->scratch, j->a->name);
}

void job_free(job *j)
{
    for (int i = 0; i < CASE_ARRAYS; i++)
        pl_heap_free(j->heap, j->memory[i]);
    pl_free(j->scratch);
    pl_schedule_destroy(j->schedule);
    pl_arena_destroy(j->arena);
}

/* Do nothing for a while: other ranks and other runs, other whiles. */
static void dally(int64_t rank, int64_t run)
{
    const int64_t dice = (rank * 7 + run * 5 + rank * run) % 6;
    const double until_s = pl_now_s() + (dice < 2 ? 20e-6 * (double)(dice + 1) : 0);

    while (pl_now_s() < until_s)
        ;
}

int64_t job_run(job *j, pl_engine *engine, int n_runs)
{
    int64_t n_wrong = 0;

    for (int run = 0; run < n_runs; run++) {
        job_fill(j, run);
        pl_engine_start(engine, j->transfer);
        dally(j->group.rank, run);
        pl_engine_wait(engine, j->transfer);
        n_wrong += job_count_wrong(j, run);
    }
    return n_wrong + (pl_transfer_sent_bytes(j->transfer) !=
                      n_runs * pl_schedule_count(j->schedule, j->spec.dtype).wire_bytes);
}
