#include "config.h"

#include "src/program/statement.h"

#include "src/base/units.h"
#include "src/program/communicate.h"
#include "src/program/kinds.h"

#include <stdarg.h>
#include <string.h>

enum {
    LINE = 1024,
    NOTE_COLUMN = 80,   /* where bytes and FLOPs stand, unless the statement is longer */
    SHOWN_OPERANDS = 6, /* of an op with more */
    WIDTH = 96,         /* of a statement; longer ones are broken */
    NOTATION = 256,
};

/* A line in the making; what does not fit is cut off. */
typedef struct {
    char text[LINE];
    size_t used;
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(l->text + l->used, LINE - l->used, format, args);
    va_end(args);
    l->used += (size_t)n < LINE - l->used ? (size_t)n : LINE - l->used - 1;
}

/* `name` without the "layers.3." of the op's own layer: "d.layers.3.ffn.up" gives "d.ffn.up". */
static void put_name(line *l, const char *name, int layer)
{
    char prefix[32];
    const char *at = NULL;

    if (pl_layer_is_numbered(layer)) {
        snprintf(prefix, sizeof prefix, "layers.%d.", layer);
        at = strstr(name, prefix);
    }
    if (at == NULL)
        put(l, "%s", name);
    else
        put(l, "%.*s%s", (int)(at - name), name, at + strlen(prefix));
}

bool pl_program_is_mixed(const pl_program *p)
{
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].dtype == PL_BF16)
            return true;
    return false;
}

static void put_value(line *l, const pl_program *p, int v, int layer)
{
    const pl_value *value = &p->values[v];
    char text[NOTATION];

    put_name(l, value->name, layer);
    pl_sharding_print(p->mesh, "", &value->shape, &value->sharding, text, sizeof text);
    put(l, "%s", value->shape.n_dims == 0 ? text + strlen("[]") : text);
    if (value->shape.n_dims > 0 && value->dtype == PL_F32 && pl_program_is_mixed(p))
        put(l, ":f32");
}

/* Tables, positions and numbers that the host fills are left out: they say nothing of sharding. */
static bool is_shown(const pl_value *v)
{
    return !v->is_input || v->class == PL_ACTIVATION;
}

static void put_inputs(line *l, const pl_program *p, const pl_op *op)
{
    int n_shown = 0, n_left = 0;

    for (int i = 0; i < op->n_in; i++) {
        if (!is_shown(&p->values[op->in[i]]))
            continue;
        if (n_shown == SHOWN_OPERANDS) {
            n_left++;
            continue;
        }
        put(l, "%s", n_shown++ > 0 ? ", " : "");
        put_value(l, p, op->in[i], op->layer);
    }
    if (n_left > 0)
        put(l, ", ... %d more", n_left);
}

/* AdamW's moments, updated beside the weight, are left out. */
static void put_outputs(line *l, const pl_program *p, const pl_op *op)
{
    const int n = op->kind == PL_ADAMW ? 1 : op->n_out;

    for (int i = 0; i < n; i++) {
        put(l, "%s", i > 0 ? ", " : "");
        put_value(l, p, op->out[i], op->layer);
    }
}

/* " *_D ", " *_{N,H} ": the dims that both operands have and the output lacks. */
static void put_product_sign(line *l, const pl_program *p, const pl_op *op, int pair)
{
    const pl_shape *a = &p->values[op->in[2 * pair]].shape;
    const pl_shape *b = &p->values[op->in[2 * pair + 1]].shape;
    const pl_shape *c = &p->values[op->out[0]].shape;
    char dims[PL_MAX_DIMS];
    int n = 0;

    for (int d = 0; d < a->n_dims; d++)
        if (pl_shape_dim(b, a->name[d]) >= 0 && pl_shape_dim(c, a->name[d]) < 0)
            dims[n++] = a->name[d];
    put(l, n > 1 ? " *_{" : " *_");
    for (int i = 0; i < n; i++)
        put(l, "%s%c", i > 0 ? "," : "", dims[i]);
    put(l, n > 1 ? "} " : " ");
}

static void put_einsum(line *l, const pl_program *p, const pl_op *op)
{
    const bool adds = op->n_in % 2 != 0;

    if (adds)
        put_value(l, p, op->in[op->n_in - 1], op->layer);
    for (int pair = 0; pair < op->n_in / 2; pair++) {
        put(l, "%s", adds || pair > 0 ? " + " : "");
        put_value(l, p, op->in[2 * pair], op->layer);
        put_product_sign(l, p, op, pair);
        put_value(l, p, op->in[2 * pair + 1], op->layer);
    }
}

void pl_op_verb(const pl_program *p, const pl_op *op, char *text, size_t size)
{
    const pl_axes group = pl_kind_is_communication(op->kind) ? pl_op_group(p, op) : op->axes;
    const char *name = pl_kind_of(op->kind)->name, *max = op->is_max ? "Max" : "";
    char axes[NOTATION];

    pl_axes_print(p->mesh, group, axes, sizeof axes);
    if (group == 0)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, strchr(axes, ',') == NULL ? "%s%s_%s" : "%s%s_{%s}", name, max, axes);
}

static void put_verb(line *l, const pl_program *p, const pl_op *op)
{
    char verb[NOTATION];

    pl_op_verb(p, op, verb, sizeof verb);
    put(l, "%s", verb);
}

/* What stands right of the equals sign of an op that runs here. */
static void put_expression(line *l, const pl_program *p, const pl_op *op)
{
    switch (op->kind) {
    case PL_EINSUM:
        put_einsum(l, p, op);
        return;
    case PL_ADD:
        put_value(l, p, op->in[0], op->layer);
        put(l, " + ");
        put_value(l, p, op->in[1], op->layer);
        return;
    case PL_ACCUMULATE:
        put_value(l, p, op->in[0], op->layer);
        return;
    case PL_FILL:
        put(l, "%g", op->number[0]);
        return;
    default:
        put_verb(l, p, op);
    }
    put(l, "(");
    put_inputs(l, p, op);
    put(l, ")");
}

/* Array i of a communication. */
static void put_transfer(line *l, const pl_program *p, const pl_op *op, int i)
{
    if (op->kind != PL_KIND_SEND) {
        put_value(l, p, op->out[i], op->layer);
        put(l, " = ");
    }
    put_verb(l, p, op);
    put(l, "(");
    if (op->kind != PL_KIND_RECV)
        put_value(l, p, op->in[i], op->layer);
    if (op->kind == PL_KIND_SEND)
        put(l, " to stage %d", op->peer_stage);
    if (op->kind == PL_KIND_RECV)
        put(l, "from stage %d", op->peer_stage);
    put(l, ")");
}

/* Where the time of a communication goes: see the legend. */
static const char *place_of(const pl_program *p, const pl_op *op)
{
    if (op->critical)
        return "critical";
    if (op->kind == PL_KIND_ALL_GATHER && p->values[op->in[0]].persists)
        return "prefetched";
    return "background";
}

/* Length of the first piece of `text` that fits in WIDTH: all of it, or up to a space between
 * operands (not within brackets). */
static int fitting(const char *text)
{
    int depth = 0, best = 0, i;

    for (i = 0; text[i] != '\0' && (i < WIDTH || best == 0); i++) {
        depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
        if (text[i] == ' ' && depth == 0)
            best = i;
    }
    return text[i] == '\0' ? i : best;
}

/* A statement, broken where it is longer than a line, and what is to be said of it. */
static void write_statement(FILE *out, const line *l, const char *note)
{
    const char *rest = l->text;
    int indent = 2;

    for (int n = fitting(rest); rest[n] != '\0'; n = fitting(rest)) {
        fprintf(out, "%*s%.*s\n", indent, "", n, rest);
        rest += n + 1;
        indent = 6;
    }
    if (note[0] == '\0')
        fprintf(out, "%*s%s\n", indent, "", rest);
    else
        fprintf(out, "%*s%-*s  %s\n", indent, "", NOTE_COLUMN + 2 - indent, rest, note);
}

/* Arrays that travel as one: a line each, the whole's bytes on the first. */
static void print_communication(FILE *out, const pl_program *p, const pl_op *op, pl_coords coords)
{
    const int n = op->n_in > op->n_out ? op->n_in : op->n_out;

    for (int i = 0; i < n; i++) {
        line l = {.used = 0};
        char note[128];

        put_transfer(&l, p, op, i);
        if (i == 0)
            snprintf(note, sizeof note, "%12s B/rank  %s",
                     pl_thousands(pl_op_sent_bytes(p, op, coords)).text, place_of(p, op));
        else
            snprintf(note, sizeof note, "%12s", "together");
        write_statement(out, &l, note);
    }
}

static void print_computation(FILE *out, const pl_program *p, const pl_op *op, pl_coords coords)
{
    const pl_op_cost cost = pl_op_cost_at(p, op, coords);
    line l = {.used = 0};
    char note[64] = "";

    put_outputs(&l, p, op);
    put(&l, op->accumulate ? " += " : " = ");
    put_expression(&l, p, op);
    if (cost.is_matmul || cost.is_attention)
        snprintf(note, sizeof note, "%16s", pl_si(cost.flops, "FLOP").text);
    write_statement(out, &l, note);
}

void pl_statement_print(FILE *out, const pl_program *p, const pl_op *op, pl_coords coords)
{
    if (pl_kind_is_communication(op->kind))
        print_communication(out, p, op, coords);
    else
        print_computation(out, p, op, coords);
}
