#include "config.h"

#include "src/machine/hardware.h"

#include "src/base/json.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE = 640, MAX_NAMES = 64, NAME = 64 };

const pl_efficiency pl_efficiency_typical = {
    .matmul = 0.9, .attention = 0.2, .memory = 0.55, .network = 0.8};

static const struct {
    const char *name, *key;
    double bytes;
} peaks[PL_N_PEAKS] = {
    [PL_PEAK_F32] = {"f32", "peak_f32_flops_per_s", 4},
    [PL_PEAK_TF32] = {"tf32", "peak_tf32_flops_per_s", 4},
    [PL_PEAK_BF16] = {"bf16", "peak_bf16_flops_per_s", 2},
    [PL_PEAK_FP16] = {"fp16", "peak_fp16_flops_per_s", 2},
    [PL_PEAK_FP8] = {"fp8", "peak_fp8_flops_per_s", 1},
    [PL_PEAK_INT8] = {"int8", "peak_int8_flops_per_s", 1},
    [PL_PEAK_FP4] = {"fp4", "peak_fp4_flops_per_s", 0.5},
};

const char *pl_peak_name(pl_peak peak)
{
    return peaks[peak].name;
}

pl_peak pl_peak_find(const char *name)
{
    int i = 0;

    while (i < PL_N_PEAKS && strcmp(peaks[i].name, name) != 0)
        i++;
    return (pl_peak)i;
}

double pl_peak_bytes(pl_peak peak)
{
    return peaks[peak].bytes;
}

/* Members of "chip", as numbers. */
typedef struct {
    const char *key;
    bool required;
    size_t offset;
} member;

static const member chip_numbers[] = {
    {"hbm_bytes", true, offsetof(pl_chip, hbm_bytes)},
    {"hbm_bytes_per_s", true, offsetof(pl_chip, hbm_bytes_per_s)},
    {"fast_memory_bytes", false, offsetof(pl_chip, fast_bytes)},
    {"fast_memory_bytes_per_s", false, offsetof(pl_chip, fast_bytes_per_s)},
    {"price_usd_per_hour", false, offsetof(pl_chip, price_usd_per_hour)},
    {"host_bytes_per_s", false, offsetof(pl_chip, host_bytes_per_s)},
    {"vector_flops_per_s", false, offsetof(pl_chip, vector_flops_per_s)},
    {"op_overhead_s", false, offsetof(pl_chip, op_overhead_s)},
    {"comm_overhead_s", false, offsetof(pl_chip, comm_overhead_s)},
};

static const member efficiency_numbers[] = {
    {"matmul", false, offsetof(pl_efficiency, matmul)},
    {"attention", false, offsetof(pl_efficiency, attention)},
    {"memory", false, offsetof(pl_efficiency, memory)},
    {"network", false, offsetof(pl_efficiency, network)},
};

enum {
    N_CHIP_NUMBERS = sizeof chip_numbers / sizeof chip_numbers[0],
    N_EFFICIENCIES = sizeof efficiency_numbers / sizeof efficiency_numbers[0],
};

static pl_status read_members(const json_t *object, const char *where, const member *members, int n,
                              double most, void *record)
{
    pl_status status = PL_OK;

    for (int i = 0; i < n && status == PL_OK; i++)
        if (members[i].required || pl_json_has(object, members[i].key))
            status = pl_json_number(object, where, members[i].key, 1e-30, most,
                                    (double *)((char *)record + members[i].offset));
    return status;
}

/* A count that may be left out. */
static pl_status read_count(const json_t *object, const char *where, const char *key, int least,
                            int otherwise, int *count)
{
    int64_t n = otherwise;
    pl_status status = PL_OK;

    if (pl_json_has(object, key))
        status = pl_json_integer(object, where, key, least, INT_MAX, &n);
    *count = (int)n;
    return status;
}

/* Where the figures beside it come from: not kept, but it has to be there. */
static pl_status want_source(const json_t *object, const char *where)
{
    const char *source = NULL;
    const pl_status status = pl_json_string(object, where, "source", &source);

    if (status == PL_OK && source[0] == '\0')
        return pl_refuse(PL_BAD_INPUT, "%s: \"source\" is empty", where);
    return status;
}

static pl_status read_chip(const json_t *root, const char *path, pl_chip *chip)
{
    char where[WHERE];
    json_t *object = NULL;
    int n_peaks = 0;
    pl_status status = pl_json_object(root, path, "chip", &object);

    snprintf(where, sizeof where, "%s: chip", path);
    for (int i = 0; i < PL_N_PEAKS && status == PL_OK; i++)
        if (pl_json_has(object, peaks[i].key)) {
            status = pl_json_number(object, where, peaks[i].key, 1e-30, 1e30,
                                    &chip->peak_flops_per_s[i]);
            n_peaks++;
        }
    if (status == PL_OK && n_peaks == 0)
        return pl_refuse(PL_BAD_INPUT, "%s: no peak: \"%s\" or another", where,
                         peaks[PL_PEAK_BF16].key);
    if (status == PL_OK)
        status = read_members(object, where, chip_numbers, N_CHIP_NUMBERS, 1e30, chip);
    if (status == PL_OK)
        status = read_count(object, where, "matmul_tile", 1, 1, &chip->matmul_tile);
    if (status == PL_OK)
        status = read_count(object, where, "chips_per_host", 1, 1, &chip->chips_per_host);
    return status == PL_OK ? want_source(object, where) : status;
}

/* A chip's own rate, or its share of the rate of its unit of the level below. */
static pl_status read_rate(const json_t *object, const char *where, int64_t chips_below,
                           double *rate)
{
    static const char own[] = "one_way_bytes_per_s", shared[] = "unit_one_way_bytes_per_s";

    if (!pl_json_has(object, shared))
        return pl_json_number(object, where, own, 1e-30, 1e30, rate);
    const pl_status status = pl_json_number(object, where, shared, 1e-30, 1e30, rate);
    if (status == PL_OK && pl_json_has(object, own))
        return pl_refuse(PL_BAD_INPUT, "%s: give \"%s\" (of a chip) or \"%s\", not both", where,
                         own, shared);
    *rate /= (double)chips_below;
    return status;
}

static pl_status read_level(const json_t *object, const char *where, bool is_last,
                            int64_t chips_below, pl_level *level)
{
    const char *name = NULL, *kind = NULL;
    pl_status status = pl_json_string(object, where, "name", &name);

    if (status == PL_OK)
        status = pl_json_string(object, where, "kind", &kind);
    if (status != PL_OK)
        return status;
    snprintf(level->name, sizeof level->name, "%s", name);
    if (strcmp(kind, "torus") != 0 && strcmp(kind, "switch") != 0)
        return pl_refuse(PL_BAD_INPUT, "%s: \"kind\" is \"%s\", neither torus nor switch", where,
                         kind);
    level->kind = kind[0] == 't' ? PL_LEVEL_TORUS : PL_LEVEL_SWITCH;
    int64_t size = 0;
    status = pl_json_integer(object, where, "size", is_last ? 0 : 1, INT_MAX, &size);
    level->size = (int)size;
    if (status == PL_OK)
        status = read_count(object, where, "ring_multiple", 1, 0, &level->ring_multiple);
    if (status == PL_OK)
        status = read_rate(object, where, chips_below, &level->one_way_bytes_per_s);
    if (status == PL_OK)
        status = pl_json_number(object, where, "latency_s", 0, 1e30, &level->latency_s);
    return status == PL_OK ? want_source(object, where) : status;
}

static pl_status read_network(const json_t *root, const char *path, pl_hardware *hw)
{
    json_t *levels = NULL;
    pl_status status = pl_json_array(root, path, "network", &levels);

    if (status != PL_OK)
        return status;
    const size_t n = json_array_size(levels);
    if (n < 1 || n > PL_MAX_LEVELS)
        return pl_refuse(PL_BAD_INPUT, "%s: \"network\" must hold 1 to %d levels", path,
                         PL_MAX_LEVELS);
    for (size_t i = 0; i < n && status == PL_OK; i++) {
        char where[WHERE];

        snprintf(where, sizeof where, "%s: network[%zu]", path, i);
        hw->n_levels = (int)i;
        status = read_level(json_array_get(levels, i), where, i == n - 1,
                            pl_hardware_chips_below(hw, (int)i), &hw->level[i]);
    }
    hw->n_levels = (int)n;
    return status;
}

static pl_status read_efficiency(const json_t *root, const char *path, pl_efficiency *efficiency)
{
    char where[WHERE];
    json_t *object = NULL;
    pl_status status;

    if (!pl_json_has(root, "efficiency"))
        return PL_OK;
    snprintf(where, sizeof where, "%s: efficiency", path);
    status = pl_json_object(root, path, "efficiency", &object);
    if (status == PL_OK)
        status = read_members(object, where, efficiency_numbers, N_EFFICIENCIES, 1, efficiency);
    return status == PL_OK ? want_source(object, where) : status;
}

pl_status pl_hardware_read(const char *path, pl_hardware *hw)
{
    pl_hardware read = {.efficiency = {1, 1, 1, 1}};
    const char *name = NULL;
    json_t *root = NULL;
    pl_status status = pl_json_load(path, &root);

    if (status != PL_OK)
        return status;
    status = pl_json_string(root, path, "name", &name);
    if (status == PL_OK)
        status = read_chip(root, path, &read.chip);
    if (status == PL_OK)
        status = read_network(root, path, &read);
    if (status == PL_OK)
        status = read_efficiency(root, path, &read.efficiency);
    if (status == PL_OK) {
        snprintf(read.name, sizeof read.name, "%s", name);
        snprintf(read.path, sizeof read.path, "%s", path);
        *hw = read;
    }
    json_decref(root);
    return status;
}

/* The folders of hardware files, one after the other; NULL at the end. `next` starts as 0. */
static const char *next_folder(int *next)
{
    static const char *const built_in[] = {PL_HARDWARE_SOURCE_DIR, PL_HARDWARE_DIR};
    const char *own = getenv("PURLIN_HARDWARE");
    const int i = (*next)++;

    if (i == 0)
        return own != NULL && own[0] != '\0' ? own : next_folder(next);
    return i <= 2 ? built_in[i - 1] : NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int list_names(char names[MAX_NAMES][NAME])
{
    int n = 0, next = 0;

    for (const char *folder = next_folder(&next); folder != NULL; folder = next_folder(&next)) {
        DIR *dir = opendir(folder);

        for (struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
            const size_t length = strlen(e->d_name);
            bool known = length < 6 || length >= NAME || strcmp(e->d_name + length - 5, ".json");

            for (int i = 0; i < n && !known; i++)
                known =
                    strlen(names[i]) == length - 5 && strncmp(names[i], e->d_name, length - 5) == 0;
            if (!known && n < MAX_NAMES)
                snprintf(names[n++], NAME, "%.*s", (int)length - 5, e->d_name);
        }
        if (dir)
            closedir(dir);
    }
    qsort(names, (size_t)n, NAME, by_name);
    return n;
}

void pl_hardware_names(char *text, size_t size)
{
    char names[MAX_NAMES][NAME];
    const int n = list_names(names);
    size_t length = 0;

    text[0] = '\0';
    for (int i = 0; i < n && length < size; i++)
        length +=
            (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", names[i]);
}

pl_status pl_hardware_find(const char *name_or_path, pl_hardware *hw)
{
    const size_t length = strlen(name_or_path);
    char path[512], known[1024];
    int next = 0;

    if (strchr(name_or_path, '/') != NULL ||
        (length > 5 && strcmp(name_or_path + length - 5, ".json") == 0))
        return pl_hardware_read(name_or_path, hw);
    for (const char *folder = next_folder(&next); folder != NULL; folder = next_folder(&next)) {
        const int n = snprintf(path, sizeof path, "%s/%s.json", folder, name_or_path);
        FILE *file = n < (int)sizeof path ? fopen(path, "rb") : NULL;

        if (file == NULL)
            continue;
        fclose(file);
        return pl_hardware_read(path, hw);
    }
    pl_hardware_names(known, sizeof known);
    return pl_refuse(PL_BAD_INPUT,
                     "--hw: there is no hardware \"%s\"; there are: %s; or give a FILE.json",
                     name_or_path, known);
}

static pl_status refuse_peak(const pl_hardware *hw, pl_peak peak)
{
    char has[128] = "";
    size_t length = 0;

    for (int i = 0; i < PL_N_PEAKS && length < sizeof has; i++)
        if (hw->chip.peak_flops_per_s[i] > 0)
            length += (size_t)snprintf(has + length, sizeof has - length, " %s", peaks[i].name);
    return pl_refuse(PL_BAD_INPUT, "%s has no %s peak (\"%s\"); it has:%s", hw->name,
                     peaks[peak].name, peaks[peak].key, has);
}

static pl_curve flat(double rate)
{
    return (pl_curve){.n_points = 1, .size = {1}, .rate = {rate}};
}

/* Arrays and attention are of 16 bits at least, where the chip knows such a format. */
static pl_peak wide_peak(const pl_chip *chip, pl_peak peak)
{
    const pl_peak wide = chip->peak_flops_per_s[PL_PEAK_BF16] > 0 ? PL_PEAK_BF16 : PL_PEAK_FP16;

    return pl_peak_bytes(peak) < 2 && chip->peak_flops_per_s[wide] > 0 ? wide : peak;
}

pl_status pl_hardware_machine(const pl_hardware *hw, pl_peak peak, pl_machine *machine)
{
    const pl_chip *chip = &hw->chip;
    const pl_peak wide = wide_peak(chip, peak);
    const double flops = chip->peak_flops_per_s[peak],
                 memory = chip->hbm_bytes_per_s * hw->efficiency.memory,
                 link = hw->level[0].one_way_bytes_per_s * hw->efficiency.network;

    if (!(flops > 0))
        return refuse_peak(hw, peak);
    memset(machine, 0, sizeof *machine);
    snprintf(machine->name, sizeof machine->name, "%s", hw->name);
    machine->ranks_per_host = chip->chips_per_host;
    machine->threads_per_rank = 1;
    machine->matmul_tile = chip->matmul_tile;
    if (wide != peak) /* read for the largest, read again, written */
        machine->cast_bytes = 2 * pl_peak_bytes(wide) + pl_peak_bytes(peak);
    machine->matmul_flops_per_s = flat(flops * hw->efficiency.matmul);
    machine->peak_flops_per_s = flops;
    machine->memory_bytes_per_s = flat(memory);
    machine->attention_flops_per_s = chip->peak_flops_per_s[wide] * hw->efficiency.attention;
    machine->matmul_bf16_flops_per_s = machine->matmul_flops_per_s;
    machine->peak_bf16_flops_per_s = flops;
    machine->attention_bf16_flops_per_s = machine->attention_flops_per_s;
    machine->op_overhead_s = chip->op_overhead_s;
    machine->comm_overhead_s = chip->comm_overhead_s;
    machine->reduce_bytes_per_s = machine->copy_bytes_per_s = memory / 2;
    machine->link[PL_LINK_SAME_HOST] = (pl_link){.latency_s = hw->level[0].latency_s,
                                                 .one_way_bytes_per_s = link,
                                                 .both_ways_bytes_per_s = link};
    return PL_OK;
}

int64_t pl_hardware_chips_below(const pl_hardware *hw, int level)
{
    int64_t n = 1;

    for (int i = 0; i < level; i++)
        n *= hw->level[i].size;
    return n;
}

int64_t pl_hardware_chips(const pl_hardware *hw)
{
    return pl_hardware_chips_below(hw, hw->n_levels);
}
