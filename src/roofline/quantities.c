#include "config.h"

#include "src/roofline/quantities.h"

#include "src/base/json.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    pl_quantity *at;
    int n;
} list;

static void add(list *l, double value, const char *name, ...) __attribute__((format(printf, 3, 4)));

/* Zero stands for unknown. */
static void add(list *l, double value, const char *name, ...)
{
    va_list arguments;

    if (!(value > 0))
        return;
    PL_ASSERT(l->n < PL_QUANTITIES_MOST);
    va_start(arguments, name);
    vsnprintf(l->at[l->n].name, sizeof l->at[l->n].name, name, arguments);
    va_end(arguments);
    l->at[l->n++].value = value;
}

static void add_chip(list *l, const pl_chip *chip, pl_peak peak)
{
    add(l, chip->peak_flops_per_s[peak], "flops_per_s");
    for (int i = 0; i < PL_N_PEAKS; i++)
        add(l, chip->peak_flops_per_s[i], "peak_%s_flops_per_s", pl_peak_name((pl_peak)i));
    add(l, chip->hbm_bytes, "hbm_bytes");
    add(l, chip->hbm_bytes_per_s, "hbm_bytes_per_s");
    add(l, chip->fast_bytes, "fast_bytes");
    add(l, chip->fast_bytes_per_s, "fast_bytes_per_s");
    add(l, chip->host_bytes_per_s, "host_bytes_per_s");
    add(l, chip->vector_flops_per_s, "vector_flops_per_s");
    add(l, chip->price_usd_per_hour, "price_usd_per_hour");
    add(l, chip->chips_per_host, "chips_per_host");
}

static void add_torus(list *l, const pl_hardware *hw)
{
    int n = 0, chips = 1;

    for (; n < hw->n_levels && hw->level[n].kind == PL_LEVEL_TORUS; n++)
        chips *= hw->level[n].size;
    add(l, hw->level[0].one_way_bytes_per_s, "link_bytes_per_s");
    add(l, 2 * hw->level[0].one_way_bytes_per_s, "net_bytes_per_s");
    add(l, n, "torus_dims");
    add(l, chips, "pod_chips");
    add(l, hw->level[0].ring_multiple, "ring_multiple");
    for (int i = 0; i < n; i++)
        add(l, hw->level[i].size, "pod_dim%d", i);
    if (n < hw->n_levels)
        add(l, hw->level[n].one_way_bytes_per_s, "dcn_bytes_per_s");
}

static void add_switches(list *l, const pl_hardware *hw)
{
    add(l, hw->level[0].one_way_bytes_per_s, "chip_bytes_per_s");
    add(l, hw->level[0].one_way_bytes_per_s, "net_bytes_per_s");
    add(l, hw->level[0].size, "chips_per_domain");
    if (hw->n_levels > 1)
        add(l, hw->level[1].one_way_bytes_per_s * (double)pl_hardware_chips_below(hw, 1),
            "node_bytes_per_s");
}

static pl_status add_parts(list *l, const pl_hardware *hw)
{
    json_t *root, *parts, *value;
    const char *key, *source;
    pl_status status = pl_json_load(hw->path, &root);

    if (status != PL_OK)
        return status;
    if (pl_json_has(root, "parts")) {
        status = pl_json_object(root, hw->path, "parts", &parts);
        if (status == PL_OK)
            status = pl_json_string(parts, hw->path, "source", &source);
        if (status == PL_OK)
            json_object_foreach(parts, key, value) add(l, json_number_value(value), "%s", key);
    }
    json_decref(root);
    return status;
}

pl_status pl_hardware_quantities(const pl_hardware *hw, pl_peak peak,
                                 pl_quantity quantities[PL_QUANTITIES_MOST], int *n)
{
    list l = {.at = quantities};

    add_chip(&l, &hw->chip, peak);
    add(&l, hw->level[0].latency_s, "hop_latency_s");
    if (hw->level[0].kind == PL_LEVEL_TORUS)
        add_torus(&l, hw);
    else
        add_switches(&l, hw);
    for (int i = 0; i < hw->n_levels; i++) {
        add(&l, hw->level[i].size, "level%d_size", i);
        add(&l, hw->level[i].one_way_bytes_per_s, "level%d_bytes_per_s", i);
    }
    const pl_status status = add_parts(&l, hw);
    *n = l.n;
    return status;
}

int pl_architecture_quantities(const pl_architecture *a, double bytes_per_element,
                               pl_quantity quantities[PL_QUANTITIES_MOST])
{
    list l = {.at = quantities};
    const pl_param_counts counts = pl_architecture_params(a);
    const bool sparse = a->n_experts > 0;

    add(&l, (double)a->n_layers, "L");
    add(&l, (double)a->d_model, "D");
    add(&l, (double)a->n_heads, "N");
    add(&l, (double)a->n_kv_heads, "K");
    add(&l, (double)a->head_dim, "H");
    add(&l, (double)(sparse ? a->d_ff_expert : a->d_ff), "F");
    add(&l, (double)a->vocab, "V");
    add(&l, (double)a->max_seq, "T");
    add(&l, sparse ? (double)a->n_experts : 1, "E");
    add(&l, sparse ? (double)a->n_active_experts : 1, "k");
    add(&l, (double)counts.active, "params");
    add(&l, (double)counts.active, "active_params");
    add(&l, (double)counts.total, "total_params");
    add(&l, pl_architecture_kv_bytes(a, bytes_per_element), "kv_bytes_per_token");
    return l.n;
}
