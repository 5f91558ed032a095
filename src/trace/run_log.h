/* run_log -- `--log FILE`: a run as JSON lines, each with "record": run, step, eval, op, summary.
 *
 * Numbers have 17 significant digits; what is not finite is null. Every line is flushed, so that a
 * run that is killed keeps what it wrote. For rank 0; all functions are local. A log that was never
 * opened takes records and drops them. */
#ifndef PURLIN_TRACE_RUN_LOG_H
#define PURLIN_TRACE_RUN_LOG_H

#include "src/base/json.h"
#include "src/roofline/build.h"
#include "src/trace/report.h"

/* Everything needed to repeat a run, choices included. NULL strings become null. */
typedef struct {
    const char *version;
    int argc;
    char **argv;
    int n_ranks, n_hosts, threads_per_rank;
    const pl_plan *plan; /* model, strategy with all degrees, batch, AdamW */
    const pl_mesh *mesh;
    const pl_batch *batch;
    const pl_machine *machine;
    const char *machine_file; /* --machine */
    const char *choice;       /* how degrees left out were chosen */
    const char *init, *data, *order;
    int64_t n_tokens; /* of the data that is trained on */
    int64_t steps, warmup, eval_every;
    uint64_t seed;
    double lr, clip;
    const char *lr_schedule;
} pl_log_run;

typedef struct {
    int64_t step;               /* from 0 */
    double loss, grad_norm, lr; /* before the update */
    int64_t tokens;             /* of this step, all ranks */
    double tokens_per_s, step_s, mfu, exposed_comm_s;
} pl_log_step;

typedef struct {
    double loss; /* mean */
    int64_t tokens;
} pl_log_eval;

typedef struct {
    double mfu, tokens_per_s;
} pl_log_summary;

/* Some steps of `--explain measure`. Times: kernels, communication alone, exposed, step. */
typedef struct {
    const char *strategy; /* with all degrees */
    int64_t batch, seq, micro_batch; /* 0: as the plan has it */
    int64_t steps;                   /* measured */
    double predicted_s[4], measured_s[4];
    double spread; /* how far repetitions lie apart, over their median */
} pl_log_point;

/* Where two things are equal, in `unit`; NaN: nowhere, or not known. */
typedef struct {
    const char *what, *unit;
    double book, predicted, measured;
    double low, high; /* the middle half of what the repetitions say, each by itself */
} pl_log_crossover;

/** Open the file, replacing one that is there; refuses a path that cannot be written. */
pl_status pl_run_log_open(pl_json_lines *log, const char *path);

pl_status pl_run_log_run(pl_json_lines *log, const pl_log_run *run);
pl_status pl_run_log_step(pl_json_lines *log, const pl_log_step *step);
pl_status pl_run_log_eval(pl_json_lines *log, const pl_log_eval *eval);
/** A record for each row of the report: calls, times, FLOPs and bytes of a step. */
pl_status pl_run_log_ops(pl_json_lines *log, const pl_report *report);
/** What was not measured (no steps) is null. */
pl_status pl_run_log_summary(pl_json_lines *log, const pl_report *report,
                             const pl_log_summary *summary);

pl_status pl_run_log_point(pl_json_lines *log, const pl_log_point *point);
pl_status pl_run_log_crossover(pl_json_lines *log, const pl_log_crossover *crossover);

#endif
