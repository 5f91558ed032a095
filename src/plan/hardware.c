/* plan hardware -- the machines that are known, or one of them. */
#include "config.h"

#include "src/machine/hardware.h"

#include "src/base/command.h"
#include "src/base/json.h"
#include "src/base/units.h"
#include "src/plan/commands.h"
#include "src/roofline/quantities.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_JSON = 256 };

typedef struct {
    const char *name;
    bool json;
    pl_status status;
} options;

static const struct argp_option option_table[] = {
    {"json", KEY_JSON, 0, 0, "one JSON object, units in its keys", 0},
    {0, 0, 0, 0, 0, 0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;

    switch (key) {
    case KEY_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->name != NULL) {
            o->status =
                pl_refuse(PL_BAD_INPUT, "plan hardware: one NAME at most, not also \"%s\"", arg);
            return EINVAL;
        }
        o->name = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    option_table,  parse_option,
    "[NAME|FILE]", "Print what is known of a machine, or the names of those that are known.",
    NULL,          NULL,
    NULL};

static json_t *level_json(const pl_level *level)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "name", level->name, "kind",
                     level->kind == PL_LEVEL_TORUS ? "torus" : "switch", "size", level->size,
                     "ring_multiple", level->ring_multiple, "one_way_bytes_per_s_per_chip",
                     pl_json_real(level->one_way_bytes_per_s), "latency_s",
                     pl_json_real(level->latency_s));
}

/* Under the names that formulas ask for, and what the chip and its switches are built of. */
static pl_status add_quantities(const pl_hardware *hw, json_t *root)
{
    pl_quantity quantities[PL_QUANTITIES_MOST];
    json_t *object = json_object();
    int n;
    const pl_status status = pl_hardware_quantities(hw, PL_PEAK_BF16, quantities, &n);

    for (int i = 0; status == PL_OK && i < n; i++)
        json_object_set_new(object, quantities[i].name, pl_json_real(quantities[i].value));
    json_object_set_new(root, "quantities", object);
    return status;
}

static pl_status print_json(const pl_hardware *hw)
{
    json_t *peaks = json_object(), *levels = json_array();

    for (int i = 0; i < PL_N_PEAKS; i++)
        if (hw->chip.peak_flops_per_s[i] > 0)
            json_object_set_new(peaks, pl_peak_name((pl_peak)i),
                                pl_json_real(hw->chip.peak_flops_per_s[i]));
    for (int i = 0; i < hw->n_levels; i++)
        json_array_append_new(levels, level_json(&hw->level[i]));
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:o}", "name", hw->name, "peak_flops_per_s",
                  peaks, "hbm_bytes", pl_json_real(hw->chip.hbm_bytes), "hbm_bytes_per_s",
                  pl_json_real(hw->chip.hbm_bytes_per_s), "matmul_tile", hw->chip.matmul_tile,
                  "chips_per_host", hw->chip.chips_per_host, "price_usd_per_hour",
                  pl_json_real(hw->chip.price_usd_per_hour), "network", levels);
    const pl_status status = add_quantities(hw, root);

    if (status == PL_OK) {
        json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        printf("\n");
    }
    json_decref(root);
    return status;
}

static void print_table(const pl_hardware *hw)
{
    printf("%s (%s)\n", hw->name, hw->path);
    for (int i = 0; i < PL_N_PEAKS; i++)
        if (hw->chip.peak_flops_per_s[i] > 0)
            printf("  peak %-5s        %s\n", pl_peak_name((pl_peak)i),
                   pl_si(hw->chip.peak_flops_per_s[i], "FLOP/s").text);
    printf("  memory            %s, %s\n", pl_si(hw->chip.hbm_bytes, "B").text,
           pl_si(hw->chip.hbm_bytes_per_s, "B/s").text);
    printf("\n  network, innermost first   kind      size   ring   one way, a chip     latency\n");
    for (int i = 0; i < hw->n_levels; i++) {
        const pl_level *l = &hw->level[i];
        char size[16] = "any", ring[24] = "-";

        if (l->size > 0)
            snprintf(size, sizeof size, "%d", l->size);
        if (l->ring_multiple > 0)
            snprintf(ring, sizeof ring, "of %dn", l->ring_multiple);
        printf("  %-26s %-6s  %6s %6s %17s %11s\n", l->name,
               l->kind == PL_LEVEL_TORUS ? "torus" : "switch", size, ring,
               pl_si(l->one_way_bytes_per_s, "B/s").text, pl_si(l->latency_s, "s").text);
    }
}

pl_status pl_plan_hardware(int argc, char **argv)
{
    options o = {.status = PL_OK};
    char names[1024];
    pl_hardware hw;
    pl_command_asked asked;
    pl_status status = pl_command_parse(&parser, argc, argv, &o, &o.status, &asked);

    if (status != PL_OK || pl_command_answered(&asked))
        return status;
    if (o.name == NULL) {
        pl_hardware_names(names, sizeof names);
        printf("%s\n", names);
        return PL_OK;
    }
    status = pl_hardware_find(o.name, &hw);
    if (status == PL_OK && o.json)
        status = print_json(&hw);
    else if (status == PL_OK)
        print_table(&hw);
    return status;
}
