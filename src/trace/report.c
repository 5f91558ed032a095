#include "config.h"

#include "src/trace/report.h"

#include "src/base/memory.h"
#include "src/base/units.h"
#include "src/program/kinds.h"
#include "src/program/statement.h"

#include <math.h>
#include <string.h>

enum { N_BOUNDS = PL_BOUND_LATENCY + 1, AXES = 64 };

/* ---- Rows */

static const pl_stage_prediction *own_stage(const pl_report *r)
{
    return &r->prediction->stages[r->program->stage];
}

static pl_report_row *row_of(pl_report_row *rows, int *n, const pl_program *p, const pl_op *op)
{
    char name[sizeof rows->name];

    pl_op_verb(p, op, name, sizeof name);
    for (int i = 0; i < *n; i++)
        if (rows[i].phase == op->phase && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    pl_report_row *row = &rows[(*n)++];
    *row = (pl_report_row){.kind = pl_kind_of(op->kind)->name,
                           .phase = op->phase,
                           .is_communication = pl_kind_is_communication(op->kind)};
    memcpy(row->name, name, sizeof name);
    return row;
}

static void add_prediction(pl_report_row *row, const pl_op_prediction *o)
{
    row->predicted_s += o->busy_s;
    row->predicted_turns_s += o->turns_s;
    row->predicted_exposed_s += o->exposed_s;
    row->flops += o->flops;
    row->bytes += o->bytes;
    row->wire_bytes += o->wire_bytes;
    row->bound_s[o->bound] += o->busy_s;
}

static void add_measure(pl_report_row *row, const pl_op_measure *m, int64_t n_steps)
{
    const double hidden_s = m->busy_s - m->exposed_s;

    row->calls += m->calls / n_steps;
    row->measured_s += m->busy_s / (double)n_steps;
    row->turns_s += m->turns_s / (double)n_steps;
    if (!row->is_communication)
        return;
    row->exposed_s += m->exposed_s / (double)n_steps;
    row->hidden_s += hidden_s > 0 ? hidden_s / (double)n_steps : 0;
}

/* Stable: rows of a phase stay in the order in which the program has them. */
static void sort_rows(pl_report_row *rows, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0; j--) {
            const pl_report_row a = rows[j - 1], b = rows[j];

            if (2 * (int)a.phase + a.is_communication <= 2 * (int)b.phase + b.is_communication)
                break;
            rows[j - 1] = b;
            rows[j] = a;
        }
}

int pl_report_rows(const pl_report *report, pl_report_row *rows)
{
    const pl_program *p = report->program;
    int n = 0;

    for (int i = 0; i < p->n_ops; i++) {
        pl_report_row *row = row_of(rows, &n, p, &p->ops[i]);

        add_prediction(row, &own_stage(report)->ops[i]);
        if (report->n_steps > 0)
            add_measure(row, &report->measured[i], report->n_steps);
        else
            row->calls += own_stage(report)->ops[i].calls;
    }
    for (int i = 0; i < n; i++)
        for (int b = 0; b < N_BOUNDS; b++)
            if (rows[i].bound_s[b] > rows[i].bound_s[rows[i].bound])
                rows[i].bound = (pl_bound)b;
    sort_rows(rows, n);
    return n;
}

/* ---- The table of operations */

/* Milliseconds, right-aligned in 10 columns; "-" for what was not measured. What rounding leaves of a
 * difference is no "-0.000". */
static pl_text milliseconds(bool known, double s)
{
    const double half_digit_s = 0.5e-6;
    pl_text out;

    if (known)
        snprintf(out.text, sizeof out.text, "%10.3f", fabs(s) < half_digit_s ? 0 : s * 1e3);
    else
        snprintf(out.text, sizeof out.text, "%10s", "-");
    return out;
}

/* How far the prediction is off, in percent of what was measured, in 8 columns. */
static pl_text error_percent(bool known, double predicted_s, double measured_s)
{
    pl_text out;

    if (known && measured_s > 0)
        snprintf(out.text, sizeof out.text, "%+8.1f", (predicted_s / measured_s - 1) * 100);
    else
        snprintf(out.text, sizeof out.text, "%8s", "-");
    return out;
}

static void print_row(FILE *out, const pl_report_row *row, bool ran)
{
    fprintf(out, "%-28s %-8s %6lld %s %s %s  ", row->name, pl_phase_name(row->phase),
            (long long)row->calls, milliseconds(true, row->predicted_s).text,
            milliseconds(ran, row->measured_s).text,
            error_percent(ran, row->predicted_s, row->measured_s).text);
    if (row->is_communication)
        fprintf(out, "%-8s%s %s\n", pl_bound_name(row->bound),
                milliseconds(true, row->predicted_exposed_s).text,
                milliseconds(ran, row->exposed_s).text);
    else
        fprintf(out, "%s\n", pl_bound_name(row->bound));
}

/* What adds up to the step: kernels, exposed communication, and what lies between operations. */
static void print_sums(FILE *out, const pl_report *r, const pl_report_row *rows, int n)
{
    const pl_stage_prediction *stage = own_stage(r);
    const bool ran = r->n_steps > 0;
    double kernels_s = 0, exposed_s = 0, turns_s = 0, predicted_turns_s = 0;
    double busy_s = 0, predicted_busy_s = 0; /* communication */

    for (int i = 0; i < n; i++) {
        if (rows[i].is_communication) {
            busy_s += rows[i].measured_s;
            predicted_busy_s += rows[i].predicted_s;
            exposed_s += rows[i].exposed_s;
        } else {
            kernels_s += rows[i].measured_s;
            turns_s += rows[i].turns_s;
            predicted_turns_s += rows[i].predicted_turns_s;
        }
    }
    fprintf(out, "%-44s %s %s %s\n", "all kernels", milliseconds(true, stage->math_s).text,
            milliseconds(ran, kernels_s).text, error_percent(ran, stage->math_s, kernels_s).text);
    fprintf(out, "%-44s %s %s %s\n", "all communication", milliseconds(true, predicted_busy_s).text,
            milliseconds(ran, busy_s).text, error_percent(ran, predicted_busy_s, busy_s).text);
    fprintf(out, "%-44s %s %s %s\n", "communication exposed",
            milliseconds(true, stage->exposed_s).text, milliseconds(ran, exposed_s).text,
            error_percent(ran, stage->exposed_s, exposed_s).text);
    if (predicted_turns_s > 0 || turns_s > 0)
        fprintf(out, "%-44s %s %s %s\n", "others on the core, beside kernels",
                milliseconds(true, predicted_turns_s).text, milliseconds(ran, turns_s).text,
                error_percent(ran, predicted_turns_s, turns_s).text);
    fprintf(out, "%-44s %s %s\n", "neither (communication beside kernels, gaps)",
            milliseconds(true, stage->step_s - stage->math_s - stage->exposed_s - predicted_turns_s)
                .text,
            milliseconds(ran, r->step_s - kernels_s - exposed_s - turns_s).text);
}

static void print_operations(FILE *out, const pl_report *r)
{
    pl_report_row *rows = pl_alloc((size_t)(r->program->n_ops + 1) * sizeof *rows);
    const int n = pl_report_rows(r, rows);

    fprintf(out, "%-28s %-8s %6s %10s %10s %8s  %-8s%21s\n", "", "", "calls", "predicted",
            "measured", "error", "", "exposed, ms a step");
    fprintf(out, "%-28s %-8s %6s %10s %10s %8s  %-8s%10s %10s\n", "operation", "phase", "a step",
            "ms a step", "ms a step", "%", "bound by", "predicted", "measured");
    for (int i = 0; i < n; i++)
        print_row(out, &rows[i], r->n_steps > 0);
    fprintf(out, "\n");
    print_sums(out, r, rows, n);
    pl_free(rows);
}

/* ---- Step, memory, wire */

static void print_step(FILE *out, const pl_report *r)
{
    const pl_prediction *p = r->prediction;
    const bool ran = r->n_steps > 0;

    fprintf(out, "%-44s %s %s %s\n", "step", milliseconds(true, p->step_s).text,
            milliseconds(ran, r->step_s).text, error_percent(ran, p->step_s, r->step_s).text);
    fprintf(out,
            "\nBounds of the step: at least %s (all communication hidden), at most %s (none "
            "hidden).\n",
            pl_si(p->lower_s, "s").text, pl_si(p->upper_s, "s").text);
    if (ran)
        fprintf(
            out,
            "Means over %lld step%s of one rank, the one of its stage that waits least. Error: "
            "predicted / measured - 1.\nCommunication is measured from its start to its "
            "completion.\n",
            (long long)r->n_steps, r->n_steps == 1 ? "" : "s");
    else
        fprintf(out, "Nothing was run.\n");
}

static void print_memory(FILE *out, const pl_report *r)
{
    size_t predicted = 0, used = 0;

    fprintf(out, "\n%-20s %18s %18s\n", "memory of a rank", "predicted (B)", "used (B)");
    for (int c = 0; c < PL_N_CLASSES; c++) {
        if (r->prediction->memory_bytes[c] == 0 && r->used_bytes[c] == 0)
            continue;
        predicted += r->prediction->memory_bytes[c];
        used += r->used_bytes[c];
        fprintf(out, "%-20s %18s %18s\n", pl_class_name((pl_class)c),
                pl_thousands((int64_t)r->prediction->memory_bytes[c]).text,
                r->n_steps > 0 ? pl_thousands((int64_t)r->used_bytes[c]).text : "-");
    }
    fprintf(out, "%-20s %18s %18s\n", "all", pl_thousands((int64_t)predicted).text,
            r->n_steps > 0 ? pl_thousands((int64_t)used).text : "-");
}

static void print_wire(FILE *out, const pl_report *r)
{
    if (r->wire->n == 0)
        return;
    fprintf(out, "\n%-20s %18s %18s %18s\n", "bytes on the wire", "a step", "predicted", "counted");
    for (int i = 0; i < r->wire->n; i++) {
        char axes[AXES];

        pl_axes_print(r->program->mesh, r->wire->axes[i], axes, sizeof axes);
        fprintf(out, "%-20s %18s %18s %18s\n", axes, pl_thousands(r->wire->bytes[i]).text,
                r->n_wire_steps > 0 ? pl_thousands(r->wire->bytes[i] * r->n_wire_steps).text : "-",
                r->n_wire_steps > 0 ? pl_thousands(r->counted_bytes[i]).text : "-");
    }
    fprintf(out, "(all ranks; predicted and counted: %s step%s)\n",
            pl_thousands(r->n_wire_steps).text, r->n_wire_steps == 1 ? "" : "s");
}

void pl_report_print(FILE *out, const pl_report *report)
{
    print_operations(out, report);
    print_step(out, report);
    print_memory(out, report);
    print_wire(out, report);
}
