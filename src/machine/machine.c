#include "config.h"

#include "src/machine/machine.h"

#include "src/base/json.h"
#include "src/base/panic.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double pl_curve_at(const pl_curve *curve, double size)
{
    const int n = curve->n_points;
    int i = 1;

    if (n == 0)
        return 0;
    if (n == 1 || !(size > curve->size[0])) /* NaN too */
        return curve->rate[0];
    if (size >= curve->size[n - 1])
        return curve->rate[n - 1];
    while (size > curve->size[i])
        i++;
    const double part = log(size / curve->size[i - 1]) / log(curve->size[i] / curve->size[i - 1]);
    return curve->rate[i - 1] + part * (curve->rate[i] - curve->rate[i - 1]);
}

const pl_curve *pl_machine_matmul(const pl_machine *machine, pl_dtype dtype)
{
    return dtype == PL_BF16 ? &machine->matmul_bf16_flops_per_s : &machine->matmul_flops_per_s;
}

double pl_machine_attention(const pl_machine *machine, pl_dtype dtype)
{
    return dtype == PL_BF16 ? machine->attention_bf16_flops_per_s : machine->attention_flops_per_s;
}

double pl_machine_peak(const pl_machine *machine, pl_dtype dtype)
{
    return dtype == PL_BF16 ? machine->peak_bf16_flops_per_s : machine->peak_flops_per_s;
}

pl_core_cost pl_core_cost_larger(pl_core_cost a, pl_core_cost b)
{
    return a.byte_s > b.byte_s ? a : b;
}

pl_core_cost pl_machine_core_cost(const pl_machine *machine, int64_t rank)
{
    const pl_link *link = &machine->link[PL_LINK_OTHER_HOST];
    pl_core_cost cost = {0};

    if (rank < link->n_cores)
        return link->core[rank];
    for (int r = 0; r < link->n_cores; r++)
        cost = pl_core_cost_larger(cost, link->core[r]);
    return cost;
}

bool pl_machine_has(const pl_machine *machine, pl_dtype dtype)
{
    return pl_machine_matmul(machine, dtype)->n_points > 0 && pl_machine_peak(machine, dtype) > 0 &&
           pl_machine_attention(machine, dtype) > 0;
}

/* The JSON form is this table: reading, writing and checking follow it. */
typedef struct {
    const char *key;
    enum { NUMBER, NUMBER_IF_ANY, NUMBER_OR_0, COUNT, CURVE, CURVE_IF_ANY } kind;
    size_t offset;
} field;

/* One for each class of `record`'s. */
#define FAR(record, name, class)                                                                   \
    {                                                                                              \
        "shared_far_" name "_bytes_per_s", NUMBER_IF_ANY,                                          \
            offsetof(record, shared_far_bytes_per_s[class])                                        \
    }
#define SHARED_FAR(record)                                                                         \
    FAR(record, "copy", PL_SHARED_COPY), FAR(record, "reduce", PL_SHARED_REDUCE),                  \
        FAR(record, "spread", PL_SHARED_SPREAD), FAR(record, "fresh", PL_SHARED_FRESH),            \
        FAR(record, "staged", PL_SHARED_STAGED)

static const field machine_fields[] = {
    {"ranks_per_host", COUNT, offsetof(pl_machine, ranks_per_host)},
    {"threads_per_rank", COUNT, offsetof(pl_machine, threads_per_rank)},
    {"matmul_flops_per_s", CURVE, offsetof(pl_machine, matmul_flops_per_s)},
    {"peak_flops_per_s", NUMBER, offsetof(pl_machine, peak_flops_per_s)},
    {"memory_bytes_per_s", CURVE, offsetof(pl_machine, memory_bytes_per_s)},
    {"attention_flops_per_s", NUMBER, offsetof(pl_machine, attention_flops_per_s)},
    {"matmul_bf16_flops_per_s", CURVE_IF_ANY, offsetof(pl_machine, matmul_bf16_flops_per_s)},
    {"peak_bf16_flops_per_s", NUMBER_IF_ANY, offsetof(pl_machine, peak_bf16_flops_per_s)},
    {"attention_bf16_flops_per_s", NUMBER_IF_ANY, offsetof(pl_machine, attention_bf16_flops_per_s)},
    {"ranks_per_core", NUMBER_IF_ANY, offsetof(pl_machine, ranks_per_core)},
    {"shared_made_bytes_per_s", CURVE_IF_ANY, offsetof(pl_machine, shared_made_bytes_per_s)},
    SHARED_FAR(pl_machine),
    {"jitter_s", NUMBER_IF_ANY, offsetof(pl_machine, jitter_s)},
    {"drift", NUMBER_IF_ANY, offsetof(pl_machine, drift)},
    {"difference", NUMBER_IF_ANY, offsetof(pl_machine, difference)},
    {"memory_contention", NUMBER_IF_ANY, offsetof(pl_machine, memory_contention)},
    {"handover_s", NUMBER_IF_ANY, offsetof(pl_machine, handover_s)},
    {"slice_s", NUMBER_IF_ANY, offsetof(pl_machine, slice_s)},
    {"line_s", NUMBER_IF_ANY, offsetof(pl_machine, line_s)},
    {"near_bytes", NUMBER_IF_ANY, offsetof(pl_machine, near_bytes)},
    {"mid_bytes", NUMBER_IF_ANY, offsetof(pl_machine, mid_bytes)},
    {"op_overhead_s", NUMBER, offsetof(pl_machine, op_overhead_s)},
    {"comm_overhead_s", NUMBER, offsetof(pl_machine, comm_overhead_s)},
    {"reduce_bytes_per_s", NUMBER, offsetof(pl_machine, reduce_bytes_per_s)},
    {"copy_bytes_per_s", NUMBER, offsetof(pl_machine, copy_bytes_per_s)},
    {"signal_s", NUMBER, offsetof(pl_machine, signal_s)},
    {"shared_copy_bytes_per_s", CURVE, offsetof(pl_machine, shared_bytes_per_s[PL_SHARED_COPY])},
    {"shared_reduce_bytes_per_s", CURVE,
     offsetof(pl_machine, shared_bytes_per_s[PL_SHARED_REDUCE])},
    {"shared_spread_bytes_per_s", CURVE,
     offsetof(pl_machine, shared_bytes_per_s[PL_SHARED_SPREAD])},
    {"shared_fresh_bytes_per_s", CURVE, offsetof(pl_machine, shared_bytes_per_s[PL_SHARED_FRESH])},
    {"shared_staged_bytes_per_s", CURVE,
     offsetof(pl_machine, shared_bytes_per_s[PL_SHARED_STAGED])},
};

static const field link_fields[] = {
    {"latency_s", NUMBER, offsetof(pl_link, latency_s)},
    {"latency_spread", NUMBER_IF_ANY, offsetof(pl_link, latency_spread)},
    {"message_s", NUMBER_IF_ANY, offsetof(pl_link, message_s)},
    {"one_way_bytes_per_s", NUMBER, offsetof(pl_link, one_way_bytes_per_s)},
    {"both_ways_bytes_per_s", NUMBER, offsetof(pl_link, both_ways_bytes_per_s)},
    {"late_s", NUMBER_IF_ANY, offsetof(pl_link, late_s)},
    {"one_way_by_size", CURVE_IF_ANY, offsetof(pl_link, one_way_by_size)},
    {"both_ways_by_size", CURVE_IF_ANY, offsetof(pl_link, both_ways_by_size)},
};

/* Under "spread", by the figures' names. */
static const field spread_fields[] = {
    {"attention_flops_per_s", NUMBER_IF_ANY, offsetof(pl_spreads, attention_flops_per_s)},
    {"attention_bf16_flops_per_s", NUMBER_IF_ANY, offsetof(pl_spreads, attention_bf16_flops_per_s)},
    {"op_overhead_s", NUMBER_IF_ANY, offsetof(pl_spreads, op_overhead_s)},
    {"comm_overhead_s", NUMBER_IF_ANY, offsetof(pl_spreads, comm_overhead_s)},
    {"reduce_bytes_per_s", NUMBER_IF_ANY, offsetof(pl_spreads, reduce_bytes_per_s)},
    {"copy_bytes_per_s", NUMBER_IF_ANY, offsetof(pl_spreads, copy_bytes_per_s)},
    {"signal_s", NUMBER_IF_ANY, offsetof(pl_spreads, signal_s)},
    {"memory_contention", NUMBER_IF_ANY, offsetof(pl_spreads, memory_contention)},
    {"handover_s", NUMBER_IF_ANY, offsetof(pl_spreads, handover_s)},
    {"slice_s", NUMBER_IF_ANY, offsetof(pl_spreads, slice_s)},
    {"line_s", NUMBER_IF_ANY, offsetof(pl_spreads, line_s)},
    SHARED_FAR(pl_spreads),
};

enum {
    N_SPREAD_FIELDS = sizeof spread_fields / sizeof spread_fields[0],
    N_MACHINE_FIELDS = sizeof machine_fields / sizeof machine_fields[0],
    N_LINK_FIELDS = sizeof link_fields / sizeof link_fields[0],
};

static const char *const link_names[PL_N_LINKS] = {"same_host", "other_host"};

/* Every figure of a machine is positive and finite. */
static pl_status read_positive(const json_t *object, const char *where, const char *key,
                               double *value)
{
    return pl_json_number(object, where, key, 1e-30, 1e30, value);
}

/* [[size, rate], ...], sizes increasing. */
static pl_status read_curve(const json_t *object, const char *where, const char *key,
                            pl_curve *curve)
{
    json_t *points = NULL;
    pl_status status = pl_json_array(object, where, key, &points);

    if (status != PL_OK)
        return status;
    const size_t n = json_array_size(points);
    if (n < 1 || n > PL_MACHINE_POINTS)
        return pl_refuse(PL_BAD_INPUT, "%s: \"%s\" must hold 1 to %d points", where, key,
                         PL_MACHINE_POINTS);
    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(points, i);
        char place[512];

        snprintf(place, sizeof place, "%s: %s[%zu]", where, key, i);
        status = read_positive(point, place, "size", &curve->size[i]);
        if (status == PL_OK)
            status = read_positive(point, place, "rate", &curve->rate[i]);
        if (status == PL_OK && pl_json_has(point, "spread"))
            status = pl_json_number(point, place, "spread", 0, 1e30, &curve->spread[i]);
        if (status != PL_OK)
            return status;
        if (i > 0 && !(curve->size[i] > curve->size[i - 1]))
            return pl_refuse(PL_BAD_INPUT, "%s: sizes must increase", place);
    }
    curve->n_points = (int)n;
    return PL_OK;
}

static pl_status read_fields(const json_t *object, const char *where, const field *fields,
                             int n_fields, void *record)
{
    pl_status status = PL_OK;

    for (int i = 0; i < n_fields && status == PL_OK; i++) {
        void *place = (char *)record + fields[i].offset;
        int64_t count = 0;

        switch (fields[i].kind) {
        case NUMBER_IF_ANY:
            if (!pl_json_has(object, fields[i].key))
                break;
            /* fall through */
        case NUMBER:
            status = read_positive(object, where, fields[i].key, place);
            break;
        case NUMBER_OR_0:
            status = pl_json_number(object, where, fields[i].key, 0, 1e30, place);
            break;
        case COUNT:
            status = pl_json_integer(object, where, fields[i].key, 1, INT_MAX, &count);
            *(int *)place = (int)count;
            break;
        case CURVE_IF_ANY:
            if (!pl_json_has(object, fields[i].key))
                break;
            /* fall through */
        case CURVE:
            status = read_curve(object, where, fields[i].key, place);
            break;
        }
    }
    return status;
}

static const char *const term_keys[PL_N_KERNEL_TERMS] = {
    [PL_TERM_CALL] = "call_s",      [PL_TERM_FLOP] = "flop_s",
    [PL_TERM_A] = "a_element_s",    [PL_TERM_B] = "b_element_s",
    [PL_TERM_C] = "c_element_s",    [PL_TERM_ALIASED] = "aliased_element_s",
    [PL_TERM_NEAR] = "near_byte_s", [PL_TERM_MID] = "mid_byte_s",
    [PL_TERM_FAR] = "far_byte_s",
};

static pl_status read_kernel(const json_t *entry, const char *where, pl_kernel_fit *fit)
{
    const char *name = NULL;
    pl_status status = pl_json_string(entry, where, "name", &name);
    int64_t n_samples = 0;

    for (int t = 0; t < PL_N_KERNEL_TERMS && status == PL_OK; t++)
        if (pl_json_has(entry, term_keys[t]))
            status = pl_json_number(entry, where, term_keys[t], 0, 1e30, &fit->term_s[t]);
    if (status == PL_OK && pl_json_has(entry, "residual"))
        status = pl_json_number(entry, where, "residual", 0, 1e30, &fit->residual);
    if (status == PL_OK && pl_json_has(entry, "samples"))
        status = pl_json_integer(entry, where, "samples", 0, INT_MAX, &n_samples);
    fit->n_samples = (int)n_samples;
    if (status == PL_OK && strlen(name) >= sizeof fit->name)
        return pl_refuse(PL_BAD_INPUT, "%s: the name \"%s\" is longer than %zu bytes", where, name,
                         sizeof fit->name - 1);
    if (status == PL_OK)
        strcpy(fit->name, name);
    return status;
}

static pl_status read_kernels(const json_t *root, const char *path, pl_machine *machine)
{
    json_t *list = NULL;
    pl_status status = PL_OK;

    if (!pl_json_has(root, "kernels"))
        return PL_OK;
    status = pl_json_array(root, path, "kernels", &list);
    if (status == PL_OK && json_array_size(list) > PL_MACHINE_KERNELS)
        return pl_refuse(PL_BAD_INPUT, "%s: \"kernels\" holds more than %d", path,
                         PL_MACHINE_KERNELS);
    for (size_t i = 0; status == PL_OK && i < json_array_size(list); i++) {
        char where[512];

        snprintf(where, sizeof where, "%s: kernels[%zu]", path, i);
        status = read_kernel(json_array_get(list, i), where, &machine->kernel[i]);
        machine->n_kernels++;
    }
    return status;
}

static const field core_fields[] = {
    {"byte_s", NUMBER_OR_0, offsetof(pl_core_cost, byte_s)},
    {"polled_byte_s", NUMBER_OR_0, offsetof(pl_core_cost, polled_byte_s)},
    {"sent_byte_s", NUMBER_OR_0, offsetof(pl_core_cost, sent_byte_s)},
    {"received_byte_s", NUMBER_OR_0, offsetof(pl_core_cost, received_byte_s)},
    {"start_byte_s", NUMBER_OR_0, offsetof(pl_core_cost, start_byte_s)},
    {"buffered_bytes", NUMBER_OR_0, offsetof(pl_core_cost, buffered_bytes)},
};

enum { N_CORE_FIELDS = sizeof core_fields / sizeof core_fields[0] };

static pl_status read_core(const json_t *entry, const char *where, pl_core_cost *cost)
{
    const pl_status status = read_fields(entry, where, core_fields, N_CORE_FIELDS, cost);

    if (status == PL_OK && cost->polled_byte_s > cost->byte_s)
        return pl_refuse(PL_BAD_INPUT, "%s: \"polled_byte_s\" is a part of \"byte_s\", not more",
                         where);
    return status;
}

static pl_status read_cores(const json_t *object, const char *where, pl_link *link)
{
    json_t *list = NULL;
    pl_status status = PL_OK;

    if (!pl_json_has(object, "core"))
        return PL_OK;
    status = pl_json_array(object, where, "core", &list);
    if (status == PL_OK && json_array_size(list) > PL_MACHINE_RANKS)
        return pl_refuse(PL_BAD_INPUT, "%s: \"core\" holds more than %d", where, PL_MACHINE_RANKS);
    for (size_t r = 0; status == PL_OK && r < json_array_size(list); r++) {
        char place[512 + 32];

        snprintf(place, sizeof place, "%s: core[%zu]", where, r);
        status = read_core(json_array_get(list, r), place, &link->core[r]);
        link->n_cores++;
    }
    return status;
}

static pl_status read_link(const json_t *links, const char *path, const char *name, pl_link *link)
{
    char where[512];
    json_t *object = NULL;
    int64_t eager = 0;
    pl_status status;

    snprintf(where, sizeof where, "%s: link", path);
    status = pl_json_object(links, where, name, &object);
    snprintf(where, sizeof where, "%s: link.%s", path, name);
    if (status == PL_OK)
        status = read_fields(object, where, link_fields, N_LINK_FIELDS, link);
    if (status == PL_OK)
        status = read_cores(object, where, link);
    if (status == PL_OK && pl_json_has(object, "eager_bytes"))
        status = pl_json_integer(object, where, "eager_bytes", 0, INT64_MAX, &eager);
    link->eager_bytes = eager;
    return status;
}

static pl_status read_spreads(const json_t *root, const char *path, pl_spreads *spreads)
{
    json_t *object = NULL;
    char where[512];

    if (!pl_json_has(root, "spread"))
        return PL_OK;
    snprintf(where, sizeof where, "%s: spread", path);
    const pl_status status = pl_json_object(root, path, "spread", &object);
    return status != PL_OK ? status
                           : read_fields(object, where, spread_fields, N_SPREAD_FIELDS, spreads);
}

static pl_status read_machine(const json_t *root, const char *path, pl_machine *machine)
{
    const char *name = NULL;
    json_t *links = NULL;
    pl_status status = pl_json_string(root, path, "name", &name);

    if (status == PL_OK)
        status = read_fields(root, path, machine_fields, N_MACHINE_FIELDS, machine);
    if (status == PL_OK)
        status = read_spreads(root, path, &machine->spread);
    if (status == PL_OK)
        status = read_kernels(root, path, machine);
    if (status == PL_OK && pl_json_has(root, "disturbed"))
        status = pl_json_boolean(root, path, "disturbed", &machine->disturbed);
    if (status == PL_OK)
        status = pl_json_object(root, path, "link", &links);
    for (int i = 0; i < PL_N_LINKS && status == PL_OK; i++)
        if (i == PL_LINK_SAME_HOST || pl_json_has(links, link_names[i]))
            status = read_link(links, path, link_names[i], &machine->link[i]);
    if (status == PL_OK)
        snprintf(machine->name, sizeof machine->name, "%s", name);
    return status;
}

pl_status pl_machine_read(const char *path, pl_machine *machine)
{
    pl_machine read;
    json_t *root = NULL;
    pl_status status = pl_json_load(path, &root);

    if (status != PL_OK)
        return status;
    memset(&read, 0, sizeof read); /* with its padding: ranks compare machines as bytes */
    status = read_machine(root, path, &read);
    json_decref(root);
    if (status == PL_OK)
        memcpy(machine, &read, sizeof read);
    return status;
}

static json_t *curve_json(const pl_curve *curve)
{
    json_t *points = json_array();

    for (int i = 0; i < curve->n_points; i++) {
        json_t *point = json_pack("{s: o, s: o}", "size", pl_json_real(curve->size[i]), "rate",
                                  pl_json_real(curve->rate[i]));

        if (curve->spread[i] > 0)
            json_object_set_new(point, "spread", pl_json_real(curve->spread[i]));
        PL_ASSERT(json_array_append_new(points, point) == 0);
    }
    return points;
}

static void put_fields(json_t *object, const field *fields, int n_fields, const void *record)
{
    for (int i = 0; i < n_fields; i++) {
        const void *place = (const char *)record + fields[i].offset;
        json_t *value = NULL;

        switch (fields[i].kind) {
        case NUMBER_IF_ANY:
            if (!(*(const double *)place > 0))
                continue;
            /* fall through */
        case NUMBER:
        case NUMBER_OR_0:
            value = pl_json_real(*(const double *)place);
            break;
        case COUNT:
            value = json_integer(*(const int *)place);
            break;
        case CURVE_IF_ANY:
            if (((const pl_curve *)place)->n_points == 0)
                continue;
            /* fall through */
        case CURVE:
            value = curve_json(place);
            break;
        }
        PL_ASSERT(json_object_set_new(object, fields[i].key, value) == 0);
    }
}

/* Terms of zero are left out. */
static json_t *kernels_json(const pl_machine *machine)
{
    json_t *list = json_array();

    for (int i = 0; i < machine->n_kernels; i++) {
        const pl_kernel_fit *fit = &machine->kernel[i];
        json_t *entry = json_object();

        json_object_set_new(entry, "name", json_string(fit->name));
        for (int t = 0; t < PL_N_KERNEL_TERMS; t++)
            if (fit->term_s[t] > 0)
                json_object_set_new(entry, term_keys[t], pl_json_real(fit->term_s[t]));
        json_object_set_new(entry, "residual", pl_json_real(fit->residual));
        json_object_set_new(entry, "samples", json_integer(fit->n_samples));
        PL_ASSERT(json_array_append_new(list, entry) == 0);
    }
    return list;
}

static json_t *cores_json(const pl_link *link)
{
    json_t *list = json_array();

    for (int r = 0; r < link->n_cores; r++) {
        json_t *entry = json_object();

        put_fields(entry, core_fields, N_CORE_FIELDS, &link->core[r]);
        PL_ASSERT(json_array_append_new(list, entry) == 0);
    }
    return list;
}

pl_status pl_machine_write(const char *path, const pl_machine *machine)
{
    json_t *root = json_object(), *links = json_object();

    json_object_set_new(root, "name", json_string(machine->name));
    if (machine->disturbed)
        json_object_set_new(root, "disturbed", json_true());
    put_fields(root, machine_fields, N_MACHINE_FIELDS, machine);
    json_t *spreads = json_object();
    put_fields(spreads, spread_fields, N_SPREAD_FIELDS, &machine->spread);
    json_object_set_new(root, "spread", spreads);
    if (machine->n_kernels > 0)
        json_object_set_new(root, "kernels", kernels_json(machine));
    json_object_set_new(root, "link", links);
    for (int i = 0; i < PL_N_LINKS; i++) {
        const pl_link *link = &machine->link[i];

        if (!(link->latency_s > 0))
            continue; /* there is one host */
        json_t *object = json_object();
        json_object_set_new(links, link_names[i], object);
        put_fields(object, link_fields, N_LINK_FIELDS, link);
        if (link->n_cores > 0)
            json_object_set_new(object, "core", cores_json(link));
        json_object_set_new(object, "eager_bytes", json_integer(link->eager_bytes));
    }
    const pl_status status = pl_json_save(path, root);
    json_decref(root);
    return status;
}
