/* trace -- the spans of all ranks in one file, and whose measures are shown. */
#include "config.h"

#include "src/trace/busiest.h"
#include "src/trace/chrome.h"
#include "src/trace/clocks.h"
#include "tests/parallel.h"
#include "tests/scratch.h"
#include "tests/toy.h"
#include "tests/trace_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_SPANS = 7 };

static int n_ranks, rank;

static void begin(void)
{
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    scratch_create();
}

static pl_program *make_program(pl_mesh *mesh)
{
    char spec[32];

    snprintf(spec, sizeof spec, "dp:%d", n_ranks);
    const pl_plan plan = toy_plan(spec, 1, 4 * n_ranks, 0);
    return toy_program(&plan, mesh, 0);
}

/* n steps, a second each; rank r's begin r / 8 s later. A program of one rank communicates nothing,
 * so there kernels alone are recorded. */
static void record(pl_span_buffer *spans, const pl_program *p, int n)
{
    pl_span_buffer_init(spans, n * N_SPANS);
    for (int i = 0; i < n; i++) {
        const double zero_s = 1000 + i + rank / 8.0;

        if (n_ranks > 1)
            toy_spans(spans, p, zero_s);
        for (int k = 0; k < N_SPANS && n_ranks == 1; k++)
            pl_span_add(spans, PL_TRACK_COMPUTE, k, 0, zero_s + k / 8.0, zero_s + (k + 1) / 8.0);
    }
}

/* Write a trace of n steps of all ranks and parse it on rank 0 (NULL elsewhere). */
static json_t *written(int n)
{
    char path[SCRATCH_PATH], *text;
    const pl_program *programs[1];
    pl_mesh mesh;
    pl_program *p = make_program(&mesh);
    pl_trace trace = {0};
    pl_span_buffer spans;
    size_t size;
    pl_status status = PL_OK;
    json_t *parsed = NULL;

    programs[0] = p;
    record(&spans, p, n);
    if (rank == 0)
        status = pl_trace_open(&trace, scratch_path("trace.json", path));
    ck_all(MPI_COMM_WORLD, status == PL_OK);
    status = pl_trace_write(&trace, MPI_COMM_WORLD, &spans, programs, pl_mesh_coords(&mesh, rank));
    ck_all(MPI_COMM_WORLD, status == PL_OK);
    if (rank == 0) {
        text = scratch_read(path, &size);
        parsed = trace_parse(text, size);
        free(text);
    }
    pl_span_buffer_free(&spans);
    pl_program_destroy(p);
    ck_all(MPI_COMM_WORLD, rank != 0 || parsed != NULL);
    return parsed;
}

START_TEST(the_file_holds_the_spans_of_all_ranks)
{
    json_t *trace = written(3);
    trace_summary summary = {0};
    const char *wrong = rank == 0 ? trace_fault(trace, &summary) : NULL;

    ck_all_msg(MPI_COMM_WORLD, wrong == NULL, "%s", wrong);
    ck_all(MPI_COMM_WORLD, rank != 0 || (summary.n_processes == n_ranks &&
                                         summary.n_spans == 3 * N_SPANS * n_ranks));
    json_decref(trace);
}
END_TEST

/* Ranks of one host read one clock; the file must show what they recorded to the nanosecond. */
START_TEST(ranks_of_a_host_are_not_shifted)
{
    bool good = pl_clock_offset_s(MPI_COMM_WORLD) == 0;
    json_t *trace = written(1);

    for (int r = 0; r < n_ranks && rank == 0 && n_ranks > 1; r++) {
        const json_t *step = trace_find(trace, "step 12", r);

        good = good && step != NULL && json_integer_value(json_object_get(step, "pid")) == r &&
               json_number_value(json_object_get(step, "ts")) == r / 8.0 * 1e6;
    }
    ck_all(MPI_COMM_WORLD, good);
    json_decref(trace);
}
END_TEST

/* Here the true offset is 0. */
START_TEST(a_ping_tells_the_offset_within_half_a_round_trip)
{
    bool good = true;

    for (int r = 1; r < n_ranks; r++) {
        if (rank == 0) {
            const pl_ping ping = pl_pings_send(MPI_COMM_WORLD, r);

            good = good && ping.round_trip_s > 0 && fabs(ping.offset_s) <= ping.round_trip_s / 2;
        } else if (rank == r) {
            pl_pings_answer(MPI_COMM_WORLD, 0);
        }
    }
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

/* Of ranks r = 0, 1, .. rank r waits (r - 2)^2 + 1 s, in two parts: of three and more rank 2 waits
 * least, of fewer the last. */
START_TEST(the_busiest_rank_is_the_one_that_waits_least)
{
    enum { N_OPS = 3 };
    const int least = n_ranks > 2 ? 2 : n_ranks - 1;
    const double waits_s = (rank - 2) * (rank - 2) + 1;
    const pl_op_measure own[N_OPS] = {{.calls = 5, .busy_s = rank},
                                      {.calls = rank, .busy_s = 1, .exposed_s = waits_s - 0.75},
                                      {.calls = 1, .busy_s = 7, .exposed_s = 0.75}};
    pl_op_measure out[N_OPS];

    pl_busiest_measures(MPI_COMM_WORLD, own, N_OPS, out);
    ck_all(MPI_COMM_WORLD, out[0].calls == 5 && out[0].busy_s == least && out[0].exposed_s == 0);
    ck_all(MPI_COMM_WORLD, out[1].calls == least && out[1].busy_s == 1 &&
                               out[1].exposed_s == (least - 2) * (least - 2) + 0.25);
    ck_all(MPI_COMM_WORLD, out[2].calls == 1 && out[2].busy_s == 7 && out[2].exposed_s == 0.75);
}
END_TEST

START_TEST(of_ranks_that_wait_alike_the_first_is_the_busiest)
{
    const pl_op_measure own = {.calls = 1, .busy_s = 1 + rank, .exposed_s = 0.5};
    pl_op_measure out;

    pl_busiest_measures(MPI_COMM_WORLD, &own, 1, &out);
    ck_all(MPI_COMM_WORLD, out.busy_s == 1 && out.exposed_s == 0.5);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("trace");
    TCase *tcase = tcase_create("trace");

    tcase_add_checked_fixture(tcase, begin, scratch_remove);
    tcase_add_test(tcase, the_file_holds_the_spans_of_all_ranks);
    tcase_add_test(tcase, ranks_of_a_host_are_not_shifted);
    tcase_add_test(tcase, a_ping_tells_the_offset_within_half_a_round_trip);
    tcase_add_test(tcase, the_busiest_rank_is_the_one_that_waits_least);
    tcase_add_test(tcase, of_ranks_that_wait_alike_the_first_is_the_busiest);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
