/* sample -- what is timed, and what is left out. */
#include "config.h"

#include "src/base/clock.h"
#include "src/base/sample.h"
#include "tests/parallel.h"

/* A contender that takes so long, and may have something to do before each call. */
typedef struct {
    double call_s, before_s;
    int64_t n_calls, n_before;
    bool in_turn; /* one before each call, with the call's number */
} worker;

/* Work for so long: at least. */
static void spin(double time_s)
{
    const double begin_s = pl_now_s();

    while (pl_now_s() - begin_s < time_s)
        continue;
}

static void work(void *data, int64_t number)
{
    worker *w = data;

    w->in_turn &= number == w->n_calls++;
    spin(w->call_s);
}

static void prepare(void *data, int64_t number)
{
    worker *w = data;

    w->in_turn &= number == w->n_calls && number == w->n_before++;
    spin(w->before_s);
}

static int rank_of_world(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static const double call_s = 0.1e-3, before_s = 2e-3;

static void time_one(pl_contender *c)
{
    const pl_bench_clock clock = {
        .comm = MPI_COMM_WORLD, .n_samples = 5, .n_warmup = 2, .sample_s = 1e-3};

    pl_contenders_time(&clock, &c, 1);
}

START_TEST(a_call_takes_what_it_takes)
{
    worker w = {.call_s = call_s, .in_turn = true};
    pl_contender c = {.call = work, .data = &w};

    time_one(&c);
    ck_all(MPI_COMM_WORLD, c.min_s >= call_s && c.median_s >= c.min_s && c.p99_s >= c.median_s);
    ck_all(MPI_COMM_WORLD, w.in_turn && w.n_before == 0);
}
END_TEST

START_TEST(what_goes_before_a_call_is_not_timed)
{
    worker w = {.call_s = call_s, .before_s = before_s, .in_turn = true};
    pl_contender c = {.call = work, .data = &w, .before = prepare, .before_data = &w};

    time_one(&c);
    /* at least one of the samples, of some ten calls each, was disturbed by less than 20 ms */
    ck_all_msg(MPI_COMM_WORLD, c.min_s >= call_s && c.min_s < before_s, "%g s a call", c.min_s);
}
END_TEST

START_TEST(every_call_has_its_turn_of_what_goes_before)
{
    worker w = {.call_s = call_s, .before_s = call_s, .in_turn = true};
    pl_contender c = {.call = work, .data = &w, .before = prepare, .before_data = &w};

    time_one(&c);
    ck_all(MPI_COMM_WORLD, w.in_turn && w.n_before == w.n_calls && w.n_calls == c.number);
}
END_TEST

START_TEST(the_slowest_rank_counts_and_all_know_it)
{
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    worker w = {.call_s = call_s * (1 + rank_of_world())};
    pl_contender c = {.call = work, .data = &w};

    time_one(&c);
    ck_all(MPI_COMM_WORLD, c.min_s >= call_s * size);
    ck_all(MPI_COMM_WORLD, pl_bench_max(MPI_COMM_WORLD, c.median_s) == c.median_s);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("sample");
    TCase *tests = tcase_create("sample");

    tcase_add_test(tests, a_call_takes_what_it_takes);
    tcase_add_test(tests, what_goes_before_a_call_is_not_timed);
    tcase_add_test(tests, every_call_has_its_turn_of_what_goes_before);
    tcase_add_test(tests, the_slowest_rank_counts_and_all_know_it);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
