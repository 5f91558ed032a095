#include "config.h"

#include "src/program/print.h"

#include "src/base/units.h"
#include "src/program/bucket.h"
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

/* A maximal run of ops of one phase, layer and microbatch. */
typedef struct {
    int begin, end;
    int like; /* the first stretch that differs from this one in names only; itself when none */
} stretch;

typedef struct {
    const pl_program *p;
    pl_coords coords;
    FILE *out;
    int n;
    stretch *stretches;
} printer;

/* ---- Statements */

static bool is_numbered(int layer)
{
    return layer >= 0 && layer < PL_LAYER_HEAD;
}

/* `name` without the "layers.3." of the op's own layer: "d.layers.3.ffn.up" gives "d.ffn.up". */
static void put_name(line *l, const char *name, int layer)
{
    char prefix[32];
    const char *at = NULL;

    if (is_numbered(layer)) {
        snprintf(prefix, sizeof prefix, "layers.%d.", layer);
        at = strstr(name, prefix);
    }
    if (at == NULL)
        put(l, "%s", name);
    else
        put(l, "%.*s%s", (int)(at - name), name, at + strlen(prefix));
}

/* Whether weights and activations are bf16: then what is not is marked. */
static bool is_mixed(const pl_program *p)
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
    if (value->shape.n_dims > 0 && value->dtype == PL_F32 && is_mixed(p))
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

int64_t pl_op_sent_bytes(const pl_program *p, const pl_op *op, pl_coords coords)
{
    if (!pl_kind_is_communication(op->kind))
        return 0;
    pl_schedule *s = pl_op_schedule(p, op, coords, NULL);
    const int64_t bytes = pl_schedule_count(s, pl_op_dtype(p, op)).wire_bytes;

    pl_schedule_destroy(s);
    return bytes;
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
static void write_statement(const printer *pr, const line *l, const char *note)
{
    const char *rest = l->text;
    int indent = 2;

    for (int n = fitting(rest); rest[n] != '\0'; n = fitting(rest)) {
        fprintf(pr->out, "%*s%.*s\n", indent, "", n, rest);
        rest += n + 1;
        indent = 6;
    }
    if (note[0] == '\0')
        fprintf(pr->out, "%*s%s\n", indent, "", rest);
    else
        fprintf(pr->out, "%*s%-*s  %s\n", indent, "", NOTE_COLUMN + 2 - indent, rest, note);
}

/* Arrays that travel as one: a line each, the whole's bytes on the first. */
static void print_communication(const printer *pr, const pl_op *op)
{
    const int n = op->n_in > op->n_out ? op->n_in : op->n_out;

    for (int i = 0; i < n; i++) {
        line l = {.used = 0};
        char note[128];

        put_transfer(&l, pr->p, op, i);
        if (i == 0)
            snprintf(note, sizeof note, "%12s B/rank  %s",
                     pl_thousands(pl_op_sent_bytes(pr->p, op, pr->coords)).text,
                     place_of(pr->p, op));
        else
            snprintf(note, sizeof note, "%12s", "together");
        write_statement(pr, &l, note);
    }
}

static void print_computation(const printer *pr, const pl_op *op)
{
    const pl_op_cost cost = pl_op_cost_at(pr->p, op, pr->coords);
    line l = {.used = 0};
    char note[64] = "";

    put_outputs(&l, pr->p, op);
    put(&l, op->accumulate ? " += " : " = ");
    put_expression(&l, pr->p, op);
    if (cost.is_matmul || cost.is_attention)
        snprintf(note, sizeof note, "%16s", pl_si(cost.flops, "FLOP").text);
    write_statement(pr, &l, note);
}

/* ---- Stretches */

static bool values_alike(const printer *pr, int a, int b)
{
    const pl_value *x = &pr->p->values[a], *y = &pr->p->values[b];

    return x->class == y->class && x->dtype == y->dtype && x->shape.n_dims == y->shape.n_dims &&
           memcmp(x->shape.name, y->shape.name, (size_t)x->shape.n_dims) == 0 &&
           pl_sharding_equal(&x->sharding, &y->sharding, x->shape.n_dims) &&
           pl_local_elements(pr->p, a, pr->coords) == pl_local_elements(pr->p, b, pr->coords);
}

static bool lists_alike(const printer *pr, const int *a, const int *b, int n)
{
    bool alike = true;

    for (int i = 0; i < n; i++)
        alike = alike && values_alike(pr, a[i], b[i]);
    return alike;
}

static bool ops_alike(const printer *pr, const pl_op *a, const pl_op *b)
{
    return a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out && a->axes == b->axes &&
           a->is_max == b->is_max && a->accumulate == b->accumulate && a->critical == b->critical &&
           a->peer_stage == b->peer_stage && lists_alike(pr, a->in, b->in, a->n_in) &&
           lists_alike(pr, a->out, b->out, a->n_out);
}

static bool stretches_alike(const printer *pr, const stretch *a, const stretch *b)
{
    const pl_op *x = &pr->p->ops[a->begin], *y = &pr->p->ops[b->begin];

    if (a->end - a->begin != b->end - b->begin || x->phase != y->phase ||
        (x->layer != y->layer && !(is_numbered(x->layer) && is_numbered(y->layer))))
        return false;
    for (int i = 0; i < a->end - a->begin; i++)
        if (!ops_alike(pr, x + i, y + i))
            return false;
    return true;
}

static void find_stretches(printer *pr, bool all)
{
    const pl_program *p = pr->p;

    for (int begin = 0, end; begin < p->n_ops; begin = end) {
        stretch *s = &pr->stretches[pr->n];

        for (end = begin; end < p->n_ops && pl_same_segment(&p->ops[begin], &p->ops[end]); end++)
            ;
        *s = (stretch){begin, end, pr->n};
        for (int i = 0; i < pr->n && s->like == pr->n && !all; i++)
            if (pr->stretches[i].like == i && stretches_alike(pr, &pr->stretches[i], s))
                s->like = i;
        pr->n++;
    }
}

static void put_range(line *l, const char *one, const char *many, int first, int last)
{
    if (first == last)
        put(l, "%s %d", one, first);
    else
        put(l, "%s %d..%d", many, first, last);
}

static void put_layer(line *l, int layer)
{
    if (layer == PL_LAYER_EMBED)
        put(l, "embedding");
    else if (layer == PL_LAYER_HEAD)
        put(l, "head");
    else if (layer == PL_LAYER_ALL)
        put(l, "whole model");
    else
        put(l, "layer %d", layer);
}

/* " (alike: layers 0..7 of microbatches 0..3)": what stretch s stands for, itself included. */
static void put_others(line *l, const printer *pr, int s)
{
    const pl_op *op = &pr->p->ops[pr->stretches[s].begin];
    int n = 0, layer[2] = {op->layer, op->layer}, batch[2] = {op->microbatch, op->microbatch};

    for (int i = s; i < pr->n; i++) {
        const pl_op *other = &pr->p->ops[pr->stretches[i].begin];

        if (pr->stretches[i].like != s)
            continue;
        n++;
        layer[0] = other->layer < layer[0] ? other->layer : layer[0];
        layer[1] = other->layer > layer[1] ? other->layer : layer[1];
        batch[0] = other->microbatch < batch[0] ? other->microbatch : batch[0];
        batch[1] = other->microbatch > batch[1] ? other->microbatch : batch[1];
    }
    if (n == 1)
        return;
    put(l, "  (alike: ");
    if (n != (layer[1] - layer[0] + 1) * (batch[1] - batch[0] + 1)) {
        put(l, "%d more)", n - 1);
        return;
    }
    if (layer[0] != layer[1])
        put_range(l, "layer", "layers", layer[0], layer[1]);
    put(l, "%s", layer[0] != layer[1] && batch[0] != batch[1] ? " of " : "");
    if (batch[0] != batch[1])
        put_range(l, "microbatch", "microbatches", batch[0], batch[1]);
    put(l, ")");
}

/* Whether an earlier stretch is of the same phase, layer and microbatch: this one goes on with it.
 */
static bool continues(const printer *pr, int s)
{
    const pl_op *op = &pr->p->ops[pr->stretches[s].begin];

    for (int i = 0; i < s; i++)
        if (pl_same_segment(&pr->p->ops[pr->stretches[i].begin], op))
            return true;
    return false;
}

static void print_stretch(const printer *pr, int s)
{
    const pl_op *first = &pr->p->ops[pr->stretches[s].begin];
    line l = {.used = 0};

    put(&l, "%s, ", pl_phase_name(first->phase));
    put_layer(&l, first->layer);
    if (first->microbatch != PL_NO_MICROBATCH && pr->p->batch.n_microbatches > 1)
        put(&l, ", microbatch %d", first->microbatch);
    put(&l, "%s", continues(pr, s) ? ", continued" : "");
    put_others(&l, pr, s);
    fprintf(pr->out, "\n%s\n", l.text);
    for (int i = pr->stretches[s].begin; i < pr->stretches[s].end; i++) {
        if (pl_kind_is_communication(pr->p->ops[i].kind))
            print_communication(pr, &pr->p->ops[i]);
        else
            print_computation(pr, &pr->p->ops[i]);
    }
}

/* ---- What stands above and below */

static void print_order(const printer *pr)
{
    const pl_program *p = pr->p;
    const pl_op *last = NULL;

    if (p->batch.n_microbatches == 1 && p->n_stages == 1)
        return;
    fprintf(pr->out, "  order      ");
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        if (op->microbatch == PL_NO_MICROBATCH ||
            (last != NULL && op->phase == last->phase && op->microbatch == last->microbatch))
            continue;
        fprintf(pr->out, " %c%d", op->phase == PL_FORWARD ? 'F' : 'B', op->microbatch);
        last = op;
    }
    fprintf(pr->out, " update    (F: forward, B: backward of a microbatch)\n");
}

static void print_header(const printer *pr)
{
    const pl_program *p = pr->p;
    char mesh[NOTATION];
    int n_communications = 0;

    for (int i = 0; i < p->n_ops; i++)
        n_communications += pl_kind_is_communication(p->ops[i].kind);
    pl_mesh_print(p->mesh, mesh, sizeof mesh);
    fprintf(pr->out, "Program of a step, stage %d of %d\n", p->stage, p->n_stages);
    fprintf(pr->out, "  mesh        %s (%s ranks)\n", mesh[0] != '\0' ? mesh : "none",
            pl_thousands(pl_mesh_size(p->mesh)).text);
    fprintf(pr->out, "  batch       %s sequences of %s tokens, %d microbatch%s of %s per rank\n",
            pl_thousands(p->batch.n_sequences).text, pl_thousands(p->batch.seq).text,
            p->batch.n_microbatches, p->batch.n_microbatches == 1 ? "" : "es",
            pl_thousands(p->batch.micro_batch).text);
    fprintf(pr->out, "  operations  %d, and %d communications\n", p->n_ops - n_communications,
            n_communications);
    print_order(pr);
    fprintf(pr->out,
            "  A[I_x, J]{U_y}  dim I of A is split over axis x; A is the sum over axis y of what "
            "its ranks hold\n"
            "  a *_D b         product, contracted over dim D\n"
            "  B/rank          bytes that this rank sends; arrays that travel together follow the "
            "line with their bytes\n"
            "  critical        on the critical path: nothing runs between its start and its end\n"
            "  prefetched      started a layer ahead of its use\n"
            "  background      runs behind other operations\n");
    if (is_mixed(p))
        fprintf(pr->out, "  :f32            f32; numbers, ids and positions are marked nowhere, all "
                         "else is bf16\n");
}

/* Bytes per group of axes, by whether anything can hide them. */
static void print_footer(const printer *pr)
{
    const pl_program *p = pr->p;
    pl_axes *seen = pl_alloc((size_t)(p->n_ops + 1) * sizeof *seen);
    int n = 0;

    for (int i = 0; i < p->n_ops; i++) {
        int64_t critical = 0, other = 0;
        bool known = !pl_kind_is_communication(p->ops[i].kind);
        const pl_axes axes = known ? 0 : pl_op_group(p, &p->ops[i]);
        char text[NOTATION];

        for (int s = 0; s < n && !known; s++)
            known = seen[s] == axes;
        if (known)
            continue;
        seen[n++] = axes;
        for (int j = i; j < p->n_ops; j++)
            if (pl_kind_is_communication(p->ops[j].kind) && pl_op_group(p, &p->ops[j]) == axes)
                *(p->ops[j].critical ? &critical : &other) +=
                    pl_op_sent_bytes(p, &p->ops[j], pr->coords);
        pl_axes_print(p->mesh, axes, text, sizeof text);
        if (n == 1)
            fprintf(pr->out, "\n%-12s  %20s  %20s\n", "axes", "critical (B/rank)",
                    "others (B/rank)");
        fprintf(pr->out, "%-12s  %20s  %20s\n", text, pl_thousands(critical).text,
                pl_thousands(other).text);
    }
    pl_free(seen);
}

void pl_program_print(FILE *out, const pl_program *p, pl_coords coords, bool all)
{
    printer pr = {.p = p, .coords = coords, .out = out};
    const int pp = pl_mesh_axis(p->mesh, "pp");

    if (pp >= 0)
        pr.coords.at[pp] = p->stage;
    pr.stretches = pl_alloc((size_t)(p->n_ops + 1) * sizeof *pr.stretches);
    find_stretches(&pr, all);
    print_header(&pr);
    for (int s = 0; s < pr.n; s++)
        if (pr.stretches[s].like == s)
            print_stretch(&pr, s);
    print_footer(&pr);
    pl_free(pr.stretches);
}
