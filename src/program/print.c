#include "config.h"

#include "src/program/print.h"

#include "src/base/units.h"
#include "src/program/bucket.h"
#include "src/program/communicate.h"
#include "src/program/kinds.h"
#include "src/program/statement.h"

#include <string.h>

enum { NOTATION = 256 };

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
        (x->layer != y->layer &&
         !(pl_layer_is_numbered(x->layer) && pl_layer_is_numbered(y->layer))))
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

static void print_range(FILE *out, const char *one, const char *many, int first, int last)
{
    if (first == last)
        fprintf(out, "%s %d", one, first);
    else
        fprintf(out, "%s %d..%d", many, first, last);
}

static void print_layer(FILE *out, int layer)
{
    if (layer == PL_LAYER_EMBED)
        fprintf(out, "embedding");
    else if (layer == PL_LAYER_HEAD)
        fprintf(out, "head");
    else if (layer == PL_LAYER_ALL)
        fprintf(out, "whole model");
    else
        fprintf(out, "layer %d", layer);
}

/* " (alike: layers 0..7 of microbatches 0..3)": what stretch s stands for, itself included. */
static void print_others(const printer *pr, int s)
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
    fprintf(pr->out, "  (alike: ");
    if (n != (layer[1] - layer[0] + 1) * (batch[1] - batch[0] + 1)) {
        fprintf(pr->out, "%d more)", n - 1);
        return;
    }
    if (layer[0] != layer[1])
        print_range(pr->out, "layer", "layers", layer[0], layer[1]);
    fprintf(pr->out, "%s", layer[0] != layer[1] && batch[0] != batch[1] ? " of " : "");
    if (batch[0] != batch[1])
        print_range(pr->out, "microbatch", "microbatches", batch[0], batch[1]);
    fprintf(pr->out, ")");
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

    fprintf(pr->out, "\n%s, ", pl_phase_name(first->phase));
    print_layer(pr->out, first->layer);
    if (first->microbatch != PL_NO_MICROBATCH && pr->p->batch.n_microbatches > 1)
        fprintf(pr->out, ", microbatch %d", first->microbatch);
    fprintf(pr->out, "%s", continues(pr, s) ? ", continued" : "");
    print_others(pr, s);
    fprintf(pr->out, "\n");
    for (int i = pr->stretches[s].begin; i < pr->stretches[s].end; i++)
        pl_statement_print(pr->out, pr->p, &pr->p->ops[i], pr->coords);
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
    if (pl_program_is_mixed(p))
        fprintf(pr->out,
                "  :f32            f32; numbers, ids and positions are marked nowhere, all "
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
