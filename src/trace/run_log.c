#include "config.h"

#include "src/trace/run_log.h"

#include "kernels/matmul_trial.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdio.h>

enum { TEXT = 256 };

static void set(json_t *object, const char *key, json_t *value)
{
    PL_ASSERT(value != NULL && json_object_set_new(object, key, value) == 0);
}

static void set_real(json_t *object, const char *key, double x)
{
    set(object, key, pl_json_real(x));
}

static void set_integer(json_t *object, const char *key, int64_t n)
{
    set(object, key, json_integer(n));
}

/* Paths may hold bytes that are no UTF-8, which JSON cannot: those become null. */
static void set_text(json_t *object, const char *key, const char *text)
{
    json_t *value = text != NULL ? json_string(text) : NULL;

    set(object, key, value != NULL ? value : json_null());
}

static json_t *record(const char *what)
{
    json_t *object = json_object();

    PL_ASSERT(object != NULL);
    set_text(object, "record", what);
    return object;
}

pl_status pl_run_log_open(pl_json_lines *log, const char *path)
{
    return pl_json_lines_open(log, path);
}

/* ---- run */

static json_t *model_of(const pl_model_config *m)
{
    json_t *model = json_object();

    set_text(model, "name", m->name);
    set_integer(model, "layers", m->n_layers);
    set_integer(model, "d_model", m->d_model);
    set_integer(model, "heads", m->n_heads);
    set_integer(model, "kv_heads", m->n_kv_heads);
    set_integer(model, "head_dim", m->head_dim);
    set_integer(model, "d_ff", m->d_ff);
    set_integer(model, "vocab", m->vocab);
    set_real(model, "rms_eps", m->rms_eps);
    set_real(model, "rope_theta", m->rope_theta);
    set(model, "tied", json_boolean(m->tied));
    set_integer(model, "parameters", pl_model_n_params(m));
    return model;
}

static json_t *mesh_of(const pl_mesh *mesh)
{
    json_t *axes = json_object();

    for (int a = 0; a < mesh->n_axes; a++)
        set_integer(axes, mesh->axes[a].name, mesh->axes[a].size);
    return axes;
}

static json_t *command_of(const pl_log_run *run)
{
    json_t *command = json_array();

    for (int i = 0; i < run->argc; i++) {
        json_t *word = json_string(run->argv[i]);

        PL_ASSERT(json_array_append_new(command, word != NULL ? word : json_null()) == 0);
    }
    return command;
}

/* The shapes that a trial gave to OpenBLAS, and how many were tried. */
static void set_tried(json_t *r)
{
    json_t *shapes = json_array();
    char text[PL_MATMUL_SHAPE_TEXT];
    int n;
    const pl_matmul_tried *tried = pl_matmul_tried_in_use(&n);

    for (int i = 0; i < n; i++)
        if (tried[i].openblas) {
            pl_matmul_shape_print(&tried[i].shape, text);
            PL_ASSERT(json_array_append_new(shapes, json_string(text)) == 0);
        }
    set_integer(r, "matmul_tried", n);
    set(r, "matmul_openblas", shapes);
}

static void set_plan(json_t *r, const pl_plan *plan, const pl_batch *batch)
{
    char spec[TEXT];

    pl_spec_print(&plan->spec, spec, sizeof spec);
    set_text(r, "strategy", spec);
    set_integer(r, "zero", plan->spec.zero);
    set_text(r, "schedule", pl_pipeline_name(plan->pipeline));
    set_text(r, "dtype", pl_dtype_short(plan->dtype));
    set_text(r, "matmul", pl_matmul_backend());
    set_tried(r);
    set(r, "model", model_of(&plan->model));
    set_integer(r, "batch", plan->batch);
    set_integer(r, "micro_batch", batch->micro_batch);
    set_integer(r, "microbatches", batch->n_microbatches);
    set_integer(r, "seq", plan->seq);
    set_real(r, "beta1", plan->adamw.beta1);
    set_real(r, "beta2", plan->adamw.beta2);
    set_real(r, "eps", plan->adamw.eps);
    set_real(r, "weight_decay", plan->adamw.weight_decay);
}

static void set_machine(json_t *r, const pl_log_run *run)
{
    json_t *machine = json_object();

    set_text(machine, "name", run->machine->name);
    set_text(machine, "file", run->machine_file);
    set_real(machine, "peak_flops_per_s", pl_machine_peak(run->machine, run->plan->dtype));
    set_integer(machine, "hosts", run->n_hosts);
    set_integer(machine, "threads_per_rank", run->threads_per_rank);
    set(r, "machine", machine);
}

pl_status pl_run_log_run(pl_json_lines *log, const pl_log_run *run)
{
    json_t *r = record("run");

    set_text(r, "version", run->version);
    set(r, "command", command_of(run));
    set_integer(r, "ranks", run->n_ranks);
    set(r, "mesh", mesh_of(run->mesh));
    set_plan(r, run->plan, run->batch);
    set_text(r, "choice", run->choice);
    set_machine(r, run);
    set_text(r, "init", run->init);
    set_text(r, "data", run->data);
    set_text(r, "order", run->order);
    set_integer(r, "data_tokens", run->n_tokens);
    set_integer(r, "steps", run->steps);
    set_integer(r, "eval_every", run->eval_every);
    set_integer(r, "seed", (int64_t)run->seed); /* JSON's integers are signed here */
    set_real(r, "lr", run->lr);
    set_text(r, "lr_schedule", run->lr_schedule);
    set_integer(r, "warmup", run->warmup);
    set_real(r, "clip", run->clip);
    return pl_json_lines_write(log, r);
}

/* ---- step, eval */

pl_status pl_run_log_step(pl_json_lines *log, const pl_log_step *step)
{
    json_t *r = record("step");

    set_integer(r, "step", step->step);
    set_real(r, "loss", step->loss);
    set_real(r, "grad_norm", step->grad_norm);
    set_real(r, "lr", step->lr);
    set_integer(r, "tokens", step->tokens);
    set_real(r, "tokens_per_s", step->tokens_per_s);
    set_real(r, "step_s", step->step_s);
    set_real(r, "mfu", step->mfu);
    set_real(r, "exposed_comm_s", step->exposed_comm_s);
    return pl_json_lines_write(log, r);
}

pl_status pl_run_log_eval(pl_json_lines *log, const pl_log_eval *eval)
{
    json_t *r = record("eval");

    set_real(r, "loss", eval->loss);
    set_integer(r, "tokens", eval->tokens);
    return pl_json_lines_write(log, r);
}

/* ---- op, summary */

static json_t *op_record(const pl_report_row *row, bool ran)
{
    json_t *r = record("op");

    set_text(r, "name", row->name);
    set_text(r, "kind", row->kind);
    set_text(r, "phase", pl_phase_name(row->phase));
    set_integer(r, "calls", row->calls);
    set_real(r, "predicted_s", row->predicted_s);
    set_real(r, "measured_s", ran ? row->measured_s : NAN);
    set_text(r, "bound", pl_bound_name(row->bound));
    set_real(r, "flops", row->flops);
    set_real(r, "bytes", row->bytes);
    set_integer(r, "wire_bytes", row->wire_bytes);
    set_real(r, "predicted_exposed_s", row->predicted_exposed_s);
    set_real(r, "exposed_s", ran ? row->exposed_s : NAN);
    set_real(r, "hidden_s", ran ? row->hidden_s : NAN);
    set_real(r, "predicted_turns_s", row->predicted_turns_s);
    set_real(r, "turns_s", ran ? row->turns_s : NAN);
    return r;
}

pl_status pl_run_log_ops(pl_json_lines *log, const pl_report *report)
{
    pl_report_row *rows = pl_alloc((size_t)(report->program->n_ops + 1) * sizeof *rows);
    const int n = pl_report_rows(report, rows);
    pl_status status = PL_OK;

    for (int i = 0; i < n && status == PL_OK; i++)
        status = pl_json_lines_write(log, op_record(&rows[i], report->n_steps > 0));
    pl_free(rows);
    return status;
}

static json_t *pair(const char *first, json_t *a, const char *second, json_t *b)
{
    json_t *object = json_object();

    set(object, first, a);
    set(object, second, b);
    return object;
}

static json_t *wire_of(const pl_report *report)
{
    json_t *wire = json_object();

    for (int i = 0; i < report->wire->n; i++) {
        char axes[TEXT];

        pl_axes_print(report->program->mesh, report->wire->axes[i], axes, sizeof axes);
        set(wire, axes,
            pair("predicted", json_integer(report->wire->bytes[i] * report->n_wire_steps),
                 "counted", json_integer(report->counted_bytes[i])));
    }
    return wire;
}

static json_t *memory_of(const pl_report *report)
{
    json_t *memory = json_object();

    for (int c = 0; c < PL_N_CLASSES; c++)
        set(memory, pl_class_name((pl_class)c),
            pair("predicted", json_integer((json_int_t)report->prediction->memory_bytes[c]), "used",
                 json_integer((json_int_t)report->used_bytes[c])));
    return memory;
}

pl_status pl_run_log_summary(pl_json_lines *log, const pl_report *report,
                             const pl_log_summary *summary)
{
    const bool ran = report->n_steps > 0;
    json_t *r = record("summary");

    set_real(r, "step_s", ran ? report->step_s : NAN);
    set_real(r, "predicted_s", report->prediction->step_s);
    set_real(r, "lower_s", report->prediction->lower_s);
    set_real(r, "upper_s", report->prediction->upper_s);
    set_real(r, "mfu", ran ? summary->mfu : NAN);
    set_real(r, "tokens_per_s", ran ? summary->tokens_per_s : NAN);
    set(r, "wire_bytes", wire_of(report));
    set(r, "memory_bytes", memory_of(report));
    return pl_json_lines_write(log, r);
}

/* ---- --explain measure */

pl_status pl_run_log_point(pl_json_lines *log, const pl_log_point *point)
{
    static const char *const what[4] = {"kernels", "comm", "exposed", "step"};
    json_t *r = record("crossover_point");

    set_text(r, "strategy", point->strategy);
    set_integer(r, "batch", point->batch);
    set_integer(r, "seq", point->seq);
    set_integer(r, "micro_batch", point->micro_batch);
    set_integer(r, "steps", point->steps);
    for (int i = 0; i < 4; i++) {
        char key[TEXT];

        snprintf(key, sizeof key, "predicted_%s_s", what[i]);
        set_real(r, key, point->predicted_s[i]);
        snprintf(key, sizeof key, "measured_%s_s", what[i]);
        set_real(r, key, point->measured_s[i]);
    }
    set_real(r, "spread", point->spread);
    return pl_json_lines_write(log, r);
}

pl_status pl_run_log_crossover(pl_json_lines *log, const pl_log_crossover *c)
{
    json_t *r = record("crossover");

    set_text(r, "what", c->what);
    set_text(r, "unit", c->unit);
    set_real(r, "book", c->book);
    set_real(r, "predicted", c->predicted);
    set_real(r, "measured", c->measured);
    set_real(r, "measured_low", c->low);
    set_real(r, "measured_high", c->high);
    return pl_json_lines_write(log, r);
}
