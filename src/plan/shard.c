/* plan shard -- a product of sharded arrays, A[I_X, J] . B[J, K_Y] -> C[I_X, K_Y]: which
 * collectives it takes, by the pass that puts them into training steps (program/partition.h), and
 * what they cost on a machine. */
#include "config.h"

#include "collectives/wires.h"
#include "src/base/panic.h"
#include "src/base/parse.h"
#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "src/program/kinds.h"
#include "src/program/partition.h"
#include "src/program/statement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 160 };

typedef struct {
    const pl_ask *ask;
    pl_mesh mesh; /* the first axis given is the innermost on the machine */
    char text[3][TEXT];
    double element_bytes;
    json_t *root; /* NULL: print */
} question;

/* "X:4,Y:2" */
static pl_status parse_mesh(const char *text, pl_mesh *mesh)
{
    char copy[TEXT], *rest = copy, *word;
    pl_status status = PL_OK;

    snprintf(copy, sizeof copy, "%s", text);
    while (status == PL_OK && (word = strtok_r(rest, ",", &rest)) != NULL) {
        char *colon = strchr(word, ':');
        int64_t size;

        if (colon == NULL)
            return pl_refuse(PL_BAD_INPUT, "\"%s\" is no mesh: give axes with sizes, X:4,Y:2",
                             text);
        *colon = '\0';
        status = pl_parse_integer("mesh", colon + 1, 1, 1 << 20, &size);
        if (status == PL_OK)
            status = pl_mesh_add(mesh, word, (int)size);
    }
    return status;
}

/* "A[I_X, J] . B[J, K] -> C[I_X, K]" in its three arrays. */
static pl_status split_product(const char *text, char arrays[3][TEXT])
{
    const char *dot = strstr(text, "."), *arrow = strstr(text, "->");

    if (dot == NULL || arrow == NULL || arrow < dot || strlen(text) >= TEXT)
        return pl_refuse(PL_BAD_INPUT, "\"%s\" is no product: A[I_X, J] . B[J, K] -> C[I_X, K]",
                         text);
    snprintf(arrays[0], TEXT, "%.*s", (int)(dot - text), text);
    snprintf(arrays[1], TEXT, "%.*s", (int)(arrow - dot - 1), dot + 1);
    snprintf(arrays[2], TEXT, "%s", arrow + 2);
    return PL_OK;
}

static pl_status add_array(const question *q, pl_program *p, int i, int *value)
{
    pl_shape shape = {0};
    pl_sharding sharding;
    char name[32], dims[PL_MAX_DIMS + 1] = "";
    int64_t extents[PL_MAX_DIMS];
    const char *text = q->text[i] + strspn(q->text[i], " ");
    char trimmed[TEXT];

    snprintf(trimmed, sizeof trimmed, "%s", text);
    for (size_t n = strlen(trimmed); n > 0 && trimmed[n - 1] == ' '; n--)
        trimmed[n - 1] = '\0';
    const pl_status status =
        pl_sharding_parse(&q->mesh, trimmed, name, sizeof name, &shape, &sharding);
    if (status != PL_OK)
        return status;
    for (int d = 0; d < shape.n_dims; d++) {
        const char dim[2] = {shape.name[d], '\0'};
        const double extent = pl_ask_get(q->ask, dim);

        if (!(extent >= 1 && extent <= 1e12))
            return pl_refuse(PL_BAD_INPUT,
                             "%s: dims are I, J and K, and %s=NUMBER says how long it is", trimmed,
                             dim);
        dims[d] = shape.name[d];
        extents[d] = (int64_t)extent;
    }
    *value = pl_value_add(p, PL_ACTIVATION, 0, dims, extents, pl_arena_join(p->arena, name, ""));
    p->values[*value].sharding = sharding;
    return PL_OK;
}

/* What carries the axes of a collective on the machine. */
static pl_wires wires_of(const question *q, pl_axes axes)
{
    pl_wires wires = {.n = 0};

    for (int a = 0; a < q->mesh.n_axes && q->ask->has_hw; a++)
        if (axes & (1u << a)) {
            const int level = a < q->ask->hw.n_levels ? a : q->ask->hw.n_levels - 1;
            const int size = q->mesh.axes[a].size;

            pl_wires_add(&wires, pl_wire_dim_of(&q->ask->hw, level, size, 1, size));
        }
    return wires;
}

static void show_array(const question *q, const pl_program *p, int v)
{
    char text[TEXT];
    const pl_value *value = &p->values[v];
    const double local = (double)pl_local_elements(p, v, (pl_coords){{0}}) * q->element_bytes;

    pl_sharding_print(&q->mesh, value->name, &value->shape, &value->sharding, text, sizeof text);
    if (q->root != NULL)
        json_array_append_new(
            json_object_get(q->root, "arrays"),
            json_pack("{s:s, s:o}", "array", text, "device_bytes", pl_json_real(local)));
    else
        printf("  %-40s %12s a device\n", text, pl_si(local, "B").text);
}

/* A collective's bytes: of the array that is gathered, summed or exchanged, as the book counts;
 * what other axes split is not part of it. */
static double collective_bytes(const question *q, const pl_program *p, const pl_op *op)
{
    const int whole = op->kind == PL_KIND_ALL_GATHER ? op->out[0] : op->in[0];

    return (double)pl_local_elements(p, whole, (pl_coords){{0}}) * q->element_bytes;
}

static double op_seconds(const question *q, const pl_program *p, const pl_op *op, double *flops,
                         double *bytes)
{
    static const pl_collective collectives[PL_N_KINDS] = {[PL_KIND_ALL_GATHER] = PL_ALL_GATHER,
                                                          [PL_KIND_REDUCE_SCATTER] =
                                                              PL_REDUCE_SCATTER,
                                                          [PL_KIND_ALL_REDUCE] = PL_ALL_REDUCE,
                                                          [PL_KIND_ALL_TO_ALL] = PL_ALL_TO_ALL};

    *flops = *bytes = 0;
    if (pl_kind_is_communication(op->kind)) {
        const pl_wires wires = wires_of(q, op->axes);

        *bytes = collective_bytes(q, p, op);
        return wires.n > 0 ? pl_wires_collective(&wires, collectives[op->kind], *bytes).time_s
                           : NAN;
    }
    if (op->kind != PL_EINSUM)
        return 0;
    *flops = pl_op_cost_at(p, op, (pl_coords){{0}}).flops;
    return *flops / pl_ask_get(q->ask, "flops_per_s");
}

static void show_op(const question *q, const pl_program *p, const pl_op *op, double *math_s,
                    double *comms_s)
{
    char verb[64];
    double flops, bytes;
    const double seconds = op_seconds(q, p, op, &flops, &bytes);
    const bool moves = pl_kind_is_communication(op->kind);

    pl_op_verb(p, op, verb, sizeof verb);
    *(moves ? comms_s : math_s) += seconds;
    if (q->root != NULL)
        json_array_append_new(json_object_get(q->root, "operations"),
                              json_pack("{s:s, s:s, s:o, s:o, s:o}", "operation", verb, "array",
                                        p->values[moves ? op->in[0] : op->out[0]].name, "flops",
                                        pl_json_real(flops), "bytes", pl_json_real(bytes), "time_s",
                                        pl_json_real(seconds)));
    else
        printf("  %-20s %-19s %12s %12s\n", verb, p->values[moves ? op->in[0] : op->out[0]].name,
               moves ? pl_si(bytes, "B").text : pl_si(flops, "FLOP").text,
               pl_si(seconds, "s").text);
}

static void show(question *q, const pl_program *logical, const pl_program *p)
{
    double math_s = 0, comms_s = 0;

    if (q->root != NULL) {
        json_object_set_new(q->root, "arrays", json_array());
        json_object_set_new(q->root, "operations", json_array());
    }
    for (int v = 0; v < logical->n_values; v++)
        show_array(q, logical, v);
    if (q->root == NULL)
        printf("\n  %-20s %-19s %12s %12s\n", "operation", "array", "FLOP, bytes", "alone");
    for (int i = 0; i < p->n_ops; i++)
        show_op(q, p, &p->ops[i], &math_s, &comms_s);
    if (q->root != NULL) {
        json_object_set_new(q->root, "math_s", pl_json_real(math_s));
        json_object_set_new(q->root, "comms_s", pl_json_real(comms_s));
        return;
    }
    printf("\n  T_math %s, T_comms %s: %s\n", pl_si(math_s, "s").text, pl_si(comms_s, "s").text,
           isnan(math_s + comms_s) ? "give a machine, --hw"
           : comms_s > math_s      ? "communication-bound"
                                   : "compute-bound");
}

static pl_status answer(question *q)
{
    const pl_batch batch = {.n_sequences = 1, .micro_batch = 1, .seq = 1, .n_microbatches = 1};
    pl_program *p = pl_program_create(&q->mesh, &batch);
    pl_status status = PL_OK;
    int v[3];

    for (int i = 0; i < 3 && status == PL_OK; i++)
        status = add_array(q, p, i, &v[i]);
    if (status == PL_OK) {
        pl_op_add(p, PL_EINSUM, PL_FORWARD, 0, 2, v, 1, &v[2]);
        pl_program *partitioned = pl_partition(p);
        show(q, p, partitioned);
        pl_program_destroy(partitioned);
    }
    pl_program_destroy(p);
    return status;
}

pl_status pl_plan_shard(int argc, char **argv)
{
    static const pl_ask_option options[] = {{0}};
    static const char *const formulas[] = {"sharded_matmul", NULL};
    static const pl_ask_command command = {
        .usage = "'A[I_X, J] . B[J, K] -> C[I_X, K]' X:4,Y:2 I=N J=N K=N [--hw H]",
        .about =
            "A product of sharded arrays: the collectives that it takes, by the pass that puts "
            "them into training steps, and what they cost. Mesh axes lie on the machine's "
            "levels or torus axes, the first innermost.",
        .options = options,
        .formulas = formulas,
        .most_words = 2,
    };
    pl_ask ask;
    pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (ask.n_words < 2)
        return pl_refuse(PL_BAD_INPUT,
                         "shard: give a product and a mesh: plan shard "
                         "'A[I, J_X] . B[J_X, K] -> C[I, K]' X:4 I=8192 J=8192 K=8192");
    question q = {.ask = &ask,
                  .element_bytes = pl_given(pl_ask_get(&ask, "bytes_per_element"), 2),
                  .root = ask.json ? json_object() : NULL};
    status = parse_mesh(ask.words[1], &q.mesh);
    if (status == PL_OK)
        status = split_product(ask.words[0], q.text);
    if (status == PL_OK)
        status = answer(&q);
    if (status == PL_OK)
        pl_ask_print_json(q.root);
    else
        json_decref(q.root);
    return status;
}
