/* calibrate -- measures the machine as train does on first use, keeps it and shows it. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/base/wait.h"
#include "src/roofline/calibrate.h"
#include "src/roofline/summary.h"

#include <stdio.h>

enum { KEY_OUTPUT = 'o', KEY_JSON = 256, KEY_QUICK, KEY_RECALIBRATE, KEY_MACHINE, KEY_DTYPE };

typedef struct {
    const char *output, *machine;
    pl_dtype dtype;
    bool json, quick, recalibrate;
    pl_status status; /* of what the parser has refused itself */
} options;

static const struct argp_option option_table[] = {
    {"output", KEY_OUTPUT, "FILE", 0, "write the machine there too, for --machine of train", 1},
    {"json", KEY_JSON, 0, 0, "a JSON object a figure instead of the table", 1},
    {"dtype", KEY_DTYPE, "f32|bf16", 0, "bf16: also what steps in bf16 need (default f32)", 1},
    {"quick", KEY_QUICK, 0, 0, "few and short measurements, kept apart: to try things out", 1},
    {"recalibrate", KEY_RECALIBRATE, 0, 0, "measure even if there is a cached machine", 1},
    {"machine", KEY_MACHINE, "FILE", 0, "show this file, measure nothing", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const dtypes[] = {"f32", "bf16"};
    options *o = state->input;
    int at = 0;

    switch (key) {
    case KEY_OUTPUT:
    case KEY_MACHINE:
        if (arg[0] == '\0')
            return (o->status = pl_command_refuse_empty(option_table, key)) == PL_OK ? 0 : EINVAL;
        *(key == KEY_OUTPUT ? &o->output : &o->machine) = arg;
        return 0;
    case KEY_DTYPE:
        o->status = pl_parse_word("--dtype", arg, dtypes, 2, &at);
        o->dtype = at == 1 ? PL_BF16 : PL_F32;
        return o->status == PL_OK ? 0 : EINVAL;
    case KEY_JSON:
        o->json = true;
        return 0;
    case KEY_QUICK:
        o->quick = true;
        return 0;
    case KEY_RECALIBRATE:
        o->recalibrate = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse,
    .doc = "Measure this machine's peaks, all ranks busy at once, as ./train does on first use.\v"
           "Start it as the training will be started, for example mpirun -np 8 ./calibrate.\n\n"
           "Exit status: 0 good; 2 bad options or files; 3 environment; 4 internal error.",
};

static pl_status get_machine(const options *o, pl_machine *machine)
{
    pl_topology topology;

    if (o->machine != NULL)
        return pl_machine_read(o->machine, machine);
    pl_topology_discover(MPI_COMM_WORLD, &topology);
    pl_wait_set_oversubscribed(topology.oversubscribed);
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    const pl_status status = pl_machine_cached(MPI_COMM_WORLD, &topology, heap, o->recalibrate,
                                               o->quick, o->dtype, machine);
    pl_heap_destroy(heap);
    return status;
}

static pl_status calibrate(int argc, char **argv)
{
    options o = {.status = PL_OK, .dtype = PL_F32};
    static pl_machine machine;
    pl_command_asked asked;
    pl_status status = pl_command_parse(&parser, argc, argv, &o, &o.status, &asked);

    if (status == PL_OK)
        status = pl_isa_choose();
    if (!pl_command_begins(&status, &asked))
        return status;
    status = get_machine(&o, &machine);
    if (status == PL_OK && o.output != NULL && pl_log_rank() == 0)
        status = pl_machine_write(o.output, &machine);
    status = pl_agree(MPI_COMM_WORLD, status);
    if (status == PL_OK && pl_log_rank() == 0)
        (o.json ? pl_summary_json : pl_summary_print)(stdout, &machine);
    return status;
}

int main(int argc, char **argv)
{
    return pl_command_main(argc, argv, calibrate);
}
