/* report -- the table at the end of a run, the run log and the trace, from measures and spans that
 * were made up: what must come out can be counted by hand. */
#include "config.h"

#include "src/base/units.h"
#include "src/trace/chrome.h"
#include "src/trace/report.h"
#include "src/trace/run_log.h"
#include "tests/check_main.h"
#include "tests/scratch.h"
#include "tests/toy.h"
#include "tests/trace_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 2, N_STEPS = 4, MAX_ROWS = 512 };

/* In a step of the toy: wq, wk, wv, wo, w_gate, w_up, w_down a layer, and the head. */
enum { FORWARD_PRODUCTS = 7 * N_LAYERS + 1 };

/* A report in which every op was predicted to take 2 ms and took 4 ms in each step; communication
 * was predicted to be exposed for 0.5 ms and was for 1 ms. */
typedef struct {
    pl_mesh mesh;
    pl_plan plan;
    pl_program *program;
    pl_stage_prediction stage;
    pl_prediction prediction;
    pl_op_measure *measures;
    pl_wire wire;
    pl_report report;
} fixture;

static void fill_op(fixture *f, int i)
{
    const bool comm = pl_kind_is_communication(f->program->ops[i].kind);

    f->stage.ops[i] = (pl_op_prediction){.calls = 1,
                                         .busy_s = 2e-3,
                                         .exposed_s = comm ? 0.5e-3 : 0,
                                         .flops = comm ? 0 : 1000,
                                         .bytes = comm ? 0 : 100,
                                         .wire_bytes = comm ? 10 : 0,
                                         .bound = comm ? PL_BOUND_LINK : PL_BOUND_FLOPS};
    f->measures[i] = (pl_op_measure){
        .calls = N_STEPS, .busy_s = N_STEPS * 4e-3, .exposed_s = comm ? N_STEPS * 1e-3 : 0};
}

static void make(fixture *f, const char *spec)
{
    *f = (fixture){.plan = toy_plan(spec, N_LAYERS, 8, 0)};
    f->program = toy_program(&f->plan, &f->mesh, 0);
    f->stage.n_ops = f->program->n_ops;
    f->stage.ops = pl_alloc((size_t)f->program->n_ops * sizeof *f->stage.ops);
    f->measures = pl_alloc((size_t)f->program->n_ops * sizeof *f->measures);
    for (int i = 0; i < f->program->n_ops; i++)
        fill_op(f, i);
    f->prediction = (pl_prediction){.n_stages = 1,
                                    .stages = &f->stage,
                                    .step_s = 0.2,
                                    .lower_s = 0.15,
                                    .upper_s = 0.25,
                                    .memory_bytes = {[PL_WEIGHT] = 4096, [PL_MOMENT] = 8192}};
    f->wire = (pl_wire){.n = 1, .axes = {pl_mesh_family(&f->mesh, "fsdp")}, .bytes = {1234567}};
    f->report = (pl_report){.program = f->program,
                            .prediction = &f->prediction,
                            .measured = f->measures,
                            .n_steps = N_STEPS,
                            .step_s = 0.4,
                            .used_bytes = {[PL_WEIGHT] = 4096, [PL_MOMENT] = 8192},
                            .wire = &f->wire,
                            .n_wire_steps = N_STEPS + 1,
                            .counted_bytes = {6172835}};
}

static void unmake(fixture *f)
{
    pl_program_destroy(f->program);
    pl_free(f->stage.ops);
    pl_free(f->measures);
}

static int count_ops(const pl_program *p, pl_kind kind, pl_phase phase)
{
    int n = 0;

    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == kind && p->ops[i].phase == phase;
    return n;
}

static const pl_report_row *find_row(const pl_report_row *rows, int n, const char *name,
                                     pl_phase phase)
{
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0 && rows[i].phase == phase)
            return &rows[i];
    ck_abort_msg("no row %s", name);
    return NULL;
}

static char *printed(const pl_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    pl_report_print(file, report);
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

/* Nearly equal: both are sums of at most n_ops terms in some order. */
static void ck_seconds(double a, double b)
{
    const double n = 1000, u = 0x1p-53;

    ck_assert_msg(fabs(a - b) <= 2 * n * u * fabs(b), "%.17g, not %.17g", a, b);
}

/* ---- Units */

START_TEST(a_quantity_has_three_digits_and_a_prefix)
{
    ck_assert_str_eq(pl_si(0.0123, "s").text, "12.3 ms");
    ck_assert_str_eq(pl_si(4.2e6, "B").text, "4.20 MB");
    ck_assert_str_eq(pl_si(0, "s").text, "0 s");
    ck_assert_str_eq(pl_si(999.4, "B").text, "999 B");
    ck_assert_str_eq(pl_si(999.6, "B").text, "1.00 kB");
    ck_assert_str_eq(pl_si(9.996, "s").text, "10.0 s");
    ck_assert_str_eq(pl_si(-2.5e-6, "s").text, "-2.50 us");
    ck_assert_str_eq(pl_si(NAN, "s").text, "-");
}
END_TEST

START_TEST(an_integer_has_its_thousands_apart)
{
    ck_assert_str_eq(pl_thousands(0).text, "0");
    ck_assert_str_eq(pl_thousands(999).text, "999");
    ck_assert_str_eq(pl_thousands(1000).text, "1,000");
    ck_assert_str_eq(pl_thousands(-123456).text, "-123,456");
    ck_assert_str_eq(pl_thousands(INT64_MIN).text, "-9,223,372,036,854,775,808");
}
END_TEST

/* ---- Report */

START_TEST(a_row_sums_the_ops_of_one_name_and_phase)
{
    pl_report_row rows[MAX_ROWS];
    fixture f;

    make(&f, "fsdp:2+tp:2");
    const int n = pl_report_rows(&f.report, rows);
    const pl_report_row *products = find_row(rows, n, "einsum", PL_FORWARD);

    ck_assert_int_eq(products->calls, FORWARD_PRODUCTS);
    ck_seconds(products->predicted_s, FORWARD_PRODUCTS * 2e-3);
    ck_seconds(products->measured_s, FORWARD_PRODUCTS * 4e-3);
    ck_seconds(products->flops, FORWARD_PRODUCTS * 1000.0);
    ck_assert(!products->is_communication && products->bound == PL_BOUND_FLOPS);

    /* the embedding, each layer, and the head */
    const pl_report_row *gathers = find_row(rows, n, "AllGather_fsdp", PL_FORWARD);
    ck_assert_int_eq(gathers->calls, N_LAYERS + 2);
    ck_seconds(gathers->measured_s, (N_LAYERS + 2) * 4e-3);
    ck_seconds(gathers->exposed_s, (N_LAYERS + 2) * 1e-3);
    ck_seconds(gathers->hidden_s, (N_LAYERS + 2) * 3e-3);
    ck_assert_int_eq(gathers->wire_bytes, (N_LAYERS + 2) * 10);
    ck_assert_str_eq(gathers->kind, "AllGather");
    unmake(&f);
}
END_TEST

START_TEST(rows_account_for_every_op_once)
{
    pl_report_row rows[MAX_ROWS];
    int64_t calls = 0;
    fixture f;

    make(&f, "fsdp:2+tp:2");
    const int n = pl_report_rows(&f.report, rows);
    for (int i = 0; i < n; i++) {
        calls += rows[i].calls;
        for (int k = 0; k < i; k++)
            ck_assert(rows[i].phase != rows[k].phase || strcmp(rows[i].name, rows[k].name) != 0);
    }
    ck_assert_int_eq(calls, f.program->n_ops);
    unmake(&f);
}
END_TEST

START_TEST(collectives_over_other_axes_are_rows_of_their_own)
{
    pl_report_row rows[MAX_ROWS];
    fixture f;

    make(&f, "fsdp:2+tp:2");
    const int n = pl_report_rows(&f.report, rows);
    ck_assert_int_eq(find_row(rows, n, "AllGather_fsdp", PL_FORWARD)->calls +
                         find_row(rows, n, "AllGather_tp", PL_FORWARD)->calls,
                     count_ops(f.program, PL_KIND_ALL_GATHER, PL_FORWARD));
    unmake(&f);
}
END_TEST

START_TEST(the_bound_is_that_of_most_of_the_time)
{
    pl_report_row rows[MAX_ROWS];
    int n_seen = 0;
    fixture f;

    make(&f, "dp:1");
    for (int i = 0; i < f.program->n_ops; i++)
        if (f.program->ops[i].kind == PL_RMSNORM && n_seen++ == 0) {
            f.stage.ops[i].bound = PL_BOUND_MEMORY; /* one of 2 L + 1, but the longest */
            f.stage.ops[i].busy_s = 1;
        }
    ck_assert_int_eq(n_seen, 2 * N_LAYERS + 1);
    const int n = pl_report_rows(&f.report, rows);
    ck_assert_int_eq(find_row(rows, n, "rmsnorm", PL_FORWARD)->bound, PL_BOUND_MEMORY);
    unmake(&f);
}
END_TEST

START_TEST(the_table_shows_prediction_measurement_and_error)
{
    fixture f;

    make(&f, "fsdp:2+tp:2");
    char *text = printed(&f.report);
    /* 15 x 2 ms beside 15 x 4 ms: half of what was measured */
    ck_assert_ptr_nonnull(strstr(
        text,
        "einsum                       forward      15     30.000     60.000    -50.0  FLOPs\n"));
    /* 4 gatherings, each exposed for .5 ms by prediction and for 1 ms */
    ck_assert_ptr_nonnull(strstr(text,
                                 "AllGather_fsdp               forward       4      8.000     "
                                 "16.000    -50.0  link         2.000      4.000\n"));
    ck_assert_ptr_nonnull(strstr(
        text, "step                                            200.000    400.000    -50.0\n"));
    ck_assert_ptr_nonnull(strstr(text, "at least 150 ms"));
    ck_assert_ptr_nonnull(strstr(text, "at most 250 ms"));
    free(text);
    unmake(&f);
}
END_TEST

START_TEST(the_table_shows_memory_and_bytes_on_the_wire)
{
    fixture f;

    make(&f, "fsdp:2+tp:2");
    char *text = printed(&f.report);
    ck_assert_ptr_nonnull(
        strstr(text, "weights                           4,096              4,096\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "all                              12,288             12,288\n"));
    /* predicted: 5 steps of 1,234,567 */
    ck_assert_ptr_nonnull(strstr(
        text, "fsdp                          1,234,567          6,172,835          6,172,835\n"));
    free(text);
    unmake(&f);
}
END_TEST

START_TEST(the_table_is_at_most_110_columns_wide)
{
    fixture f;

    make(&f, "fsdp:2+tp:2");
    char *text = printed(&f.report);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        ck_assert_msg(strcspn(line, "\n") <= 110, "%.*s", (int)strcspn(line, "\n"), line);
        ck_assert_msg(line[0] == '\n' || line[strcspn(line, "\n") - 1] != ' ', "ends blank: %.*s",
                      (int)strcspn(line, "\n"), line);
    }
    free(text);
    unmake(&f);
}
END_TEST

/* Which add up to the step with all else. */
START_TEST(turns_of_others_have_a_line_where_there_are_some)
{
    fixture f;
    int a = 0;

    make(&f, "fsdp:2+tp:2");
    char *none = printed(&f.report);
    ck_assert_ptr_null(strstr(none, "others on the core"));
    while (pl_kind_is_communication(f.program->ops[a].kind))
        a++;
    f.stage.ops[a].turns_s = 6e-3;
    f.measures[a].turns_s = N_STEPS * 8e-3;
    f.stage.math_s = 0.1;
    f.stage.exposed_s = 0.05;
    f.stage.step_s = 0.2;
    char *some = printed(&f.report);
    ck_assert_ptr_nonnull(strstr(
        some, "\nothers on the core, beside kernels                6.000      8.000    -25.0\n"));
    /* 200 ms less 100, 50 and 6 */
    ck_assert_ptr_nonnull(
        strstr(some, "\nneither (communication beside kernels, gaps)     44.000"));
    free(some);
    free(none);
    unmake(&f);
}
END_TEST

START_TEST(what_rounding_leaves_of_a_difference_is_zero)
{
    fixture f;

    make(&f, "fsdp:2+tp:2");
    f.stage.math_s = 0.1;
    f.stage.exposed_s = 0.2;
    f.stage.step_s = 0.3; /* less than their sum, as binary fractions */
    char *text = printed(&f.report);
    ck_assert_ptr_nonnull(strstr(text, "\nneither (communication beside kernels, gaps)      0.000"));
    f.stage.step_s = 0.3 - 1e-6;
    char *less = printed(&f.report);
    ck_assert_ptr_nonnull(strstr(less, "\nneither (communication beside kernels, gaps)     -0.001"));
    free(less);
    free(text);
    unmake(&f);
}
END_TEST

START_TEST(without_steps_only_predictions_are_shown)
{
    fixture f;

    make(&f, "fsdp:2+tp:2");
    f.report.measured = NULL;
    f.report.n_steps = f.report.n_wire_steps = 0;
    char *text = printed(&f.report);
    ck_assert_ptr_nonnull(strstr(
        text,
        "einsum                       forward      15     30.000          -        -  FLOPs\n"));
    ck_assert_ptr_nonnull(strstr(text,
                                 "AllGather_fsdp               forward       4      8.000     "
                                 "     -        -  link         2.000          -\n"));
    free(text);
    unmake(&f);
}
END_TEST

/* ---- Run log */

/* That the object has exactly these keys. End the list with NULL. */
static void ck_keys(const json_t *object, ...) __attribute__((sentinel));

static void ck_keys(const json_t *object, ...)
{
    va_list args;
    size_t n = 0;

    va_start(args, object);
    for (const char *key; (key = va_arg(args, const char *)) != NULL; n++)
        ck_assert_msg(json_object_get(object, key) != NULL, "no \"%s\"", key);
    va_end(args);
    ck_assert_uint_eq(json_object_size(object), n);
}

/* The records of a log file, an array. */
static json_t *read_log(const char *path)
{
    json_t *records = json_array();
    size_t n = 0;
    char *text = scratch_read(path, &n);

    for (const char *line = text; line < text + n; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");
        json_t *record = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);

        ck_assert_msg(line + length < text + n, "the last line has no end");
        ck_assert_msg(record != NULL, "no JSON: %.*s", (int)length, line);
        json_array_append_new(records, record);
    }
    free(text);
    return records;
}

static double real_of(const json_t *record, const char *key)
{
    const json_t *value = json_object_get(record, key);

    ck_assert_msg(json_is_number(value), "\"%s\" is no number", key);
    return json_number_value(value);
}

static const pl_log_step a_step = {.step = 3,
                                   .loss = 5.0 / 3,
                                   .grad_norm = INFINITY,
                                   .lr = 1e-3,
                                   .tokens = 64,
                                   .tokens_per_s = 1.0 / 7,
                                   .step_s = NAN,
                                   .mfu = 0.5,
                                   .exposed_comm_s = 0};

START_TEST(a_step_is_read_back_as_it_was_written)
{
    char path[SCRATCH_PATH];
    pl_json_lines log;

    ck_accepted(pl_run_log_open(&log, scratch_path("log", path)));
    ck_accepted(pl_run_log_step(&log, &a_step));
    json_t *records = read_log(path), *r = json_array_get(records, 0); /* before it is closed */

    ck_keys(r, "record", "step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s", "step_s",
            "mfu", "exposed_comm_s", NULL);
    ck_assert_str_eq(json_string_value(json_object_get(r, "record")), "step");
    ck_assert_int_eq(json_integer_value(json_object_get(r, "step")), 3);
    ck_assert(real_of(r, "loss") == 5.0 / 3 && real_of(r, "tokens_per_s") == 1.0 / 7);
    ck_assert(json_is_null(json_object_get(r, "grad_norm")));
    ck_assert(json_is_null(json_object_get(r, "step_s")));
    json_decref(records);
    ck_accepted(pl_json_lines_close(&log));
}
END_TEST

START_TEST(a_log_replaces_the_file_that_is_there)
{
    char path[SCRATCH_PATH];
    pl_json_lines log;
    const pl_log_eval eval = {.loss = 2.5, .tokens = 1000};

    scratch_write("log", "old\nold\n", 8);
    ck_accepted(pl_run_log_open(&log, scratch_path("log", path)));
    ck_accepted(pl_run_log_eval(&log, &eval));
    ck_accepted(pl_json_lines_close(&log));
    json_t *records = read_log(path);
    ck_assert_uint_eq(json_array_size(records), 1);
    ck_keys(json_array_get(records, 0), "record", "loss", "tokens", NULL);
    json_decref(records);
}
END_TEST

START_TEST(a_log_that_cannot_be_written_is_refused)
{
    char path[SCRATCH_PATH];
    pl_json_lines log;

    ck_refused(pl_run_log_open(&log, scratch_path("no/such/folder", path)), path, NULL);
}
END_TEST

START_TEST(ops_and_summary_have_the_keys_that_are_promised)
{
    char path[SCRATCH_PATH];
    pl_json_lines log;
    fixture f;
    const pl_log_summary summary = {.mfu = 0.25, .tokens_per_s = 100};
    size_t i;
    json_t *r;

    make(&f, "fsdp:2+tp:2");
    ck_accepted(pl_run_log_open(&log, scratch_path("log", path)));
    ck_accepted(pl_run_log_ops(&log, &f.report));
    ck_accepted(pl_run_log_summary(&log, &f.report, &summary));
    ck_accepted(pl_json_lines_close(&log));
    json_t *records = read_log(path);
    const size_t n = json_array_size(records);
    json_array_foreach(records, i, r) if (i + 1 < n)
        ck_keys(r, "record", "name", "kind", "phase", "calls", "predicted_s", "measured_s", "bound",
                "flops", "bytes", "wire_bytes", "predicted_exposed_s", "exposed_s", "hidden_s",
                "predicted_turns_s", "turns_s", NULL);
    r = json_array_get(records, n - 1);
    ck_keys(r, "record", "step_s", "predicted_s", "lower_s", "upper_s", "mfu", "tokens_per_s",
            "wire_bytes", "memory_bytes", NULL);
    ck_assert(real_of(r, "step_s") == 0.4 && real_of(r, "predicted_s") == 0.2);
    const json_t *wire = json_object_get(json_object_get(r, "wire_bytes"), "fsdp");
    ck_keys(wire, "predicted", "counted", NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(wire, "predicted")), 6172835);
    ck_assert_int_eq(json_integer_value(json_object_get(wire, "counted")), 6172835);
    const json_t *memory = json_object_get(json_object_get(r, "memory_bytes"), "weights");
    ck_keys(memory, "predicted", "used", NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "used")), 4096);
    json_decref(records);
    unmake(&f);
}
END_TEST

START_TEST(a_run_names_what_was_chosen)
{
    char path[SCRATCH_PATH];
    char *words[] = {(char *)"./train", (char *)"--data", (char *)"\xff"};
    pl_json_lines log;
    pl_machine machine = {.name = "made up", .peak_flops_per_s = 1e9};
    fixture f;

    make(&f, "fsdp:2+tp:2");
    const pl_log_run run = {.version = "0.1",
                            .argc = 3,
                            .argv = words,
                            .n_ranks = 4,
                            .n_hosts = 1,
                            .threads_per_rank = 1,
                            .plan = &f.plan,
                            .mesh = &f.mesh,
                            .batch = &f.program->batch,
                            .machine = &machine,
                            .choice = "fsdp:2+tp:2 is predicted fastest",
                            .data = words[2],
                            .order = "random",
                            .steps = 10,
                            .seed = 7,
                            .lr = 1e-3,
                            .lr_schedule = "cosine"};
    ck_accepted(pl_run_log_open(&log, scratch_path("log", path)));
    ck_accepted(pl_run_log_run(&log, &run));
    ck_accepted(pl_json_lines_close(&log));
    json_t *records = read_log(path), *r = json_array_get(records, 0);
    ck_assert_str_eq(json_string_value(json_object_get(r, "strategy")), "fsdp:2+tp:2");
    ck_assert_int_eq(json_integer_value(json_object_get(r, "seed")), 7);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "micro_batch")), 4);
    ck_assert(json_is_null(json_object_get(r, "data"))); /* no UTF-8: JSON cannot hold it */
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(r, "command"), 0)),
                     "./train");
    json_decref(records);
    unmake(&f);
}
END_TEST

/* ---- Trace */

/* The trace of two ranks whose clocks are 5 s apart. */
static json_t *two_ranks(fixture *f)
{
    const pl_program *programs[2];
    pl_trace_rank ranks[2];
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    make(f, "fsdp:2+tp:2");
    programs[0] = f->program;
    programs[1] = NULL;
    for (int r = 0; r < 2; r++) {
        pl_span_buffer spans;

        pl_span_buffer_init(&spans, 100);
        toy_spans(&spans, f->program, 1000 + 5 * r);
        ranks[r] = pl_trace_collect(&spans, programs, r, pl_mesh_coords(&f->mesh, r), 5 * r);
        pl_span_buffer_free(&spans);
    }
    pl_trace_print(file, ranks, 2);
    ck_assert_int_eq(fclose(file), 0);
    pl_trace_rank_free(&ranks[0]);
    pl_trace_rank_free(&ranks[1]);
    json_t *trace = trace_parse(text, size);
    ck_assert_msg(trace != NULL, "no JSON:\n%.2000s", text);
    free(text);
    return trace;
}

START_TEST(spans_are_sorted_nested_and_named)
{
    trace_summary summary;
    fixture f;
    json_t *trace = two_ranks(&f);
    const char *wrong = trace_fault(trace, &summary);

    ck_assert_msg(wrong == NULL, "%s", wrong);
    ck_assert_int_eq(summary.n_spans, 2 * 7);
    ck_assert_int_eq(summary.n_processes, 2);
    ck_assert_int_eq(summary.n_tracks, 2 * 3); /* compute, and two transfers at once */
    json_decref(trace);
    unmake(&f);
}
END_TEST

START_TEST(clocks_that_were_apart_are_aligned)
{
    fixture f;
    json_t *trace = two_ranks(&f);
    const json_t *first = trace_find(trace, "step 12", 0),
                 *second = trace_find(trace, "step 12", 1);

    ck_assert(first != NULL && second != NULL);
    ck_assert(real_of(first, "pid") == 0 && real_of(second, "pid") == 1);
    ck_assert(real_of(first, "ts") == 0 && real_of(second, "ts") == 0);
    ck_assert(real_of(first, "dur") == 1e6 && real_of(second, "dur") == 1e6);
    json_decref(trace);
    unmake(&f);
}
END_TEST

START_TEST(transfers_and_waits_for_them_say_what_they_are)
{
    fixture f;
    json_t *trace = two_ranks(&f);
    const json_t *gather = trace_find(trace, "AllGather_fsdp embed", 0);
    const json_t *wait = trace_find(trace, "wait: AllGather_fsdp embed", 0);

    ck_assert(gather != NULL && wait != NULL);
    ck_assert_str_eq(json_string_value(json_object_get(gather, "cat")), "forward");
    ck_assert_int_ge(json_integer_value(json_object_get(gather, "tid")), PL_TRACE_FIRST_COMM);
    ck_assert_int_eq(json_integer_value(json_object_get(wait, "tid")), PL_TRACE_COMPUTE);
    const json_t *args = json_object_get(gather, "args");
    ck_assert_str_eq(json_string_value(json_object_get(args, "axes")), "fsdp");
    /* this rank's half of its half of embed[V, D] */
    ck_assert_int_eq(json_integer_value(json_object_get(args, "bytes")), TOY_V * TOY_D / 4 * 4);
    json_decref(trace);
    unmake(&f);
}
END_TEST

START_TEST(a_trace_without_spans_is_a_trace)
{
    const pl_program *programs[1];
    trace_summary summary;
    pl_span_buffer spans;
    char *text = NULL;
    size_t size = 0;
    fixture f;
    FILE *file = open_memstream(&text, &size);

    make(&f, "dp:1");
    programs[0] = f.program;
    pl_span_buffer_init(&spans, 0);
    pl_trace_rank rank = pl_trace_collect(&spans, programs, 0, (pl_coords){{0}}, 0);
    pl_trace_print(file, &rank, 1);
    fclose(file);
    json_t *trace = trace_parse(text, size);
    ck_assert_ptr_nonnull(trace);
    ck_assert_ptr_null(trace_fault(trace, &summary));
    ck_assert_int_eq(summary.n_spans, 0);
    json_decref(trace);
    pl_trace_rank_free(&rank);
    pl_span_buffer_free(&spans);
    free(text);
    unmake(&f);
}
END_TEST

START_TEST(a_trace_that_cannot_be_written_is_refused)
{
    char path[SCRATCH_PATH];
    pl_trace trace;

    ck_refused(pl_trace_open(&trace, scratch_path("no/such/folder", path)), path, NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("report");
    TCase *units = tcase_create("units"), *report = tcase_create("report"),
          *log = tcase_create("run_log"), *trace = tcase_create("trace");

    tcase_add_test(units, a_quantity_has_three_digits_and_a_prefix);
    tcase_add_test(units, an_integer_has_its_thousands_apart);
    tcase_add_test(report, a_row_sums_the_ops_of_one_name_and_phase);
    tcase_add_test(report, rows_account_for_every_op_once);
    tcase_add_test(report, collectives_over_other_axes_are_rows_of_their_own);
    tcase_add_test(report, the_bound_is_that_of_most_of_the_time);
    tcase_add_test(report, the_table_shows_prediction_measurement_and_error);
    tcase_add_test(report, the_table_shows_memory_and_bytes_on_the_wire);
    tcase_add_test(report, the_table_is_at_most_110_columns_wide);
    tcase_add_test(report, turns_of_others_have_a_line_where_there_are_some);
    tcase_add_test(report, what_rounding_leaves_of_a_difference_is_zero);
    tcase_add_test(report, without_steps_only_predictions_are_shown);
    tcase_add_checked_fixture(log, scratch_create, scratch_remove);
    tcase_add_test(log, a_step_is_read_back_as_it_was_written);
    tcase_add_test(log, a_log_replaces_the_file_that_is_there);
    tcase_add_test(log, a_log_that_cannot_be_written_is_refused);
    tcase_add_test(log, ops_and_summary_have_the_keys_that_are_promised);
    tcase_add_test(log, a_run_names_what_was_chosen);
    tcase_add_checked_fixture(trace, scratch_create, scratch_remove);
    tcase_add_test(trace, spans_are_sorted_nested_and_named);
    tcase_add_test(trace, clocks_that_were_apart_are_aligned);
    tcase_add_test(trace, transfers_and_waits_for_them_say_what_they_are);
    tcase_add_test(trace, a_trace_without_spans_is_a_trace);
    tcase_add_test(trace, a_trace_that_cannot_be_written_is_refused);
    suite_add_tcase(suite, units);
    suite_add_tcase(suite, report);
    suite_add_tcase(suite, log);
    suite_add_tcase(suite, trace);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
