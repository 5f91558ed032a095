#include "config.h"

#include "src/roofline/after.h"

#include "collectives/engine.h"
#include "src/base/clock.h"

enum { N_REPEATS = 2 };

typedef struct {
    pl_engine *engine;
    pl_transfer *meeting, *moving;
    pl_measured before;
    void *data; /* of before */
    double moving_s;
} repeated;

pl_schedule *pl_measure_signals(const pl_group *group, int n_stages)
{
    const int P = group->size;
    pl_schedule *s = pl_schedule_create();

    for (int i = 0; i < n_stages; i++) {
        const int stage = pl_schedule_signal(s);

        pl_schedule_next_round(s);
        for (int p = 1; p < P; p++)
            pl_schedule_await(s, (group->rank + p) % P, stage, 0);
        pl_schedule_next_round(s);
    }
    return s;
}

static void run_transfer(pl_engine *engine, pl_transfer *transfer)
{
    pl_engine_start(engine, transfer);
    pl_engine_wait(engine, transfer);
}

static void run_repeated(void *data)
{
    repeated *r = data;

    for (int i = 0; i < N_REPEATS; i++) {
        r->before(r->data);
        run_transfer(r->engine, r->meeting);
        const double begin_s = pl_now_s();
        run_transfer(r->engine, r->moving);
        r->moving_s += pl_now_s() - begin_s;
        run_transfer(r->engine, r->meeting);
    }
}

double pl_measure_after_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                          const pl_schedule *schedule, void *const *arrays, int n_arrays,
                          pl_measured before, void *data)
{
    pl_engine *engine = pl_engine_create(heap);
    pl_schedule *meeting = pl_measure_signals(group, 1);
    repeated r = {.engine = engine,
                  .meeting = pl_engine_prepare(engine, meeting, group, 0, PL_F32, NULL, 0, NULL,
                                               "calibration"),
                  .moving = pl_engine_prepare(engine, schedule, group, 1, PL_F32, arrays, n_arrays,
                                              NULL, "calibration"),
                  .before = before,
                  .data = data};
    const double time_s = pl_measure_part_s(m, run_repeated, &r, &r.moving_s) / N_REPEATS;

    pl_measure_meet(m); /* nobody may still look at what is freed */
    pl_engine_destroy(engine);
    pl_schedule_destroy(meeting);
    return time_s;
}
