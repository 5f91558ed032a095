#include "config.h"

#include "src/train/session.h"

#include "kernels/isa.h"
#include "kernels/matmul_trial.h"
#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/base/wait.h"
#include "src/model/transformer.h"
#include "src/model/weight_writer.h"
#include "src/program/cores.h"
#include "src/roofline/calibrate.h"
#include "src/roofline/trial.h"

#include <stdio.h>
#include <string.h>

/* Programs are unrolled over microbatches: more than so many a step are a slip of the hand. */
enum { MAX_MICROBATCHES = 512 };

static pl_status open_model(pl_session *s)
{
    const pl_options *o = s->options;
    pl_status status = PL_OK;

    if (o->init != NULL)
        status = pl_weight_file_open(o->init, &s->model, &s->file);
    else
        status = pl_model_config_find(o->model != NULL ? o->model : "small", &s->model);
    if (status == PL_OK && o->init != NULL && o->model != NULL)
        status = pl_refuse(PL_BAD_INPUT, "--model: --init brings its own model; give one of them");
    if (status == PL_OK && o->tied >= 0 && o->init == NULL)
        s->model.tied = o->tied;
    if (status == PL_OK && o->tied >= 0 && o->init != NULL && s->model.tied != o->tied)
        status = pl_refuse(PL_BAD_INPUT, "--tied, --untied: %s is %s", o->init,
                           s->model.tied ? "tied" : "untied");
    return status;
}

static pl_status open_data(pl_session *s)
{
    const pl_options *o = s->options;
    const int64_t T = o->seq > 0 ? o->seq : s->model.max_seq;
    pl_status status = PL_OK;

    if (T > s->model.max_seq && o->init != NULL)
        return pl_refuse(PL_BAD_INPUT,
                         "--seq: %lld tokens are more than the %lld that %s was made for",
                         (long long)T, (long long)s->model.max_seq, o->init);
    if (o->data == NULL)
        pl_corpus_open_synthetic(s->model.vocab, o->seed, &s->corpus);
    else
        status = pl_corpus_open(o->data, s->model.vocab, &s->corpus);
    if (status == PL_OK && o->eval_every > 0 && !o->eval_only)
        status = pl_corpus_split(&s->corpus, T);
    if (status == PL_OK)
        status = pl_corpus_check_window(&s->corpus, T);
    return status;
}

/* Output paths are tried before anything long begins, by the rank that will write them. */
static pl_status check_outputs(const pl_session *s)
{
    const pl_options *o = s->options;

    if (pl_log_rank() == 0 && o->save != NULL)
        return pl_weight_writer_check(o->save);
    return PL_OK;
}

static pl_status check_options(const pl_options *o)
{
    if (o->warmup > o->steps && o->steps > 0)
        return pl_refuse(PL_BAD_INPUT, "--warmup: %lld steps of warm-up do not fit --steps %lld",
                         (long long)o->warmup, (long long)o->steps);
    if (o->eval_only && o->save != NULL)
        return pl_refuse(PL_BAD_INPUT, "--save: --eval-only trains nothing that could be saved; "
                                       "--steps 0 saves what --init gives");
    if (o->eval_only && o->trace != NULL)
        return pl_refuse(PL_BAD_INPUT, "--trace: --eval-only runs no step that could be traced");
    return PL_OK;
}

/* The degree of a strategy, as long as it is known; else the least that it could be. */
static int64_t least_degree(const pl_spec *spec, const char *name)
{
    const int degree = pl_spec_degree(spec, name);

    return degree > 0 ? degree : 1;
}

/* --against, its degrees left out as in --strategy. */
static pl_status check_against(const pl_session *s, int n_ranks)
{
    pl_plan tried = s->plan;
    char why[sizeof s->choice];
    pl_status status = PL_OK;

    if (s->options->against != NULL)
        status = pl_spec_parse(s->options->against, &tried.spec);
    if (s->options->against == NULL || status != PL_OK)
        return status;
    return pl_choose(&tried, n_ranks, NULL, 0, MPI_COMM_NULL, why, sizeof why);
}

static pl_status check_microbatches(const pl_session *s)
{
    const int64_t ranks = least_degree(&s->only, "dp") * least_degree(&s->only, "fsdp");
    const int64_t share = (s->plan.batch + ranks - 1) / ranks, size = s->plan.micro_batch;
    const int64_t fits = (share + MAX_MICROBATCHES - 1) / MAX_MICROBATCHES;

    if (size == 0 || (share + size - 1) / size <= MAX_MICROBATCHES)
        return PL_OK;
    return pl_refuse(
        PL_BAD_INPUT,
        "--micro-batch: %lld of a rank's %lld sequences make %lld microbatches a step; "
        "at most %d are run, so give at least --micro-batch %lld",
        (long long)size, (long long)share, (long long)((share + size - 1) / size), MAX_MICROBATCHES,
        (long long)fits);
}

/* The strategy against model, batch and ranks: what can be refused without a machine. */
static pl_status check_plan(pl_session *s)
{
    const pl_options *o = s->options;
    pl_plan tried;
    pl_status status;
    int n_ranks;

    PL_MPI(MPI_Comm_size(s->world, &n_ranks));
    s->plan = (pl_plan){.spec = o->spec,
                        .model = s->model,
                        .adamw = o->adamw,
                        .batch = o->batch,
                        .seq = o->seq > 0 ? o->seq : s->model.max_seq,
                        .micro_batch = o->micro_batch,
                        .pipeline = o->pipeline,
                        .dtype = o->dtype};
    tried = s->plan;
    status = pl_choose(&tried, n_ranks, NULL, 0, MPI_COMM_NULL, s->choice, sizeof s->choice);
    s->only = tried.spec;
    if (status == PL_OK)
        status = check_against(s, n_ranks);
    return status == PL_OK ? check_microbatches(s) : status;
}

static pl_status read_machine(const pl_options *o, pl_machine *machine)
{
    const pl_status status = pl_machine_read(o->machine, machine);

    if (status != PL_OK || pl_machine_has(machine, o->dtype))
        return status;
    return pl_refuse(PL_BAD_INPUT,
                     "--dtype: %s does not say how fast %s products are; give another --machine, "
                     "or none to measure this one",
                     o->machine, pl_dtype_short(o->dtype));
}

pl_status pl_session_open(MPI_Comm world, const pl_options *options, pl_session *s)
{
    pl_status status;

    *s = (pl_session){.options = options, .world = world};
    status = check_options(options);
    pl_command_word(world, options->algo, PL_ALGO_VARIABLE, s->algo, sizeof s->algo);
    if (status == PL_OK)
        status = pl_chooser_check(s->algo);
    if (status == PL_OK)
        status = open_model(s);
    if (status == PL_OK)
        status = open_data(s);
    if (status == PL_OK)
        status = check_plan(s);
    if (status == PL_OK && options->machine != NULL)
        status = read_machine(options, &s->machine);
    if (status == PL_OK)
        status = check_outputs(s);
    return pl_agree(world, status);
}

void pl_session_use_machine(pl_session *s, const pl_machine *machine)
{
    s->machine = *machine;
    s->has_machine = true;
}

/* Printing the program needs no machine, unless its degrees are chosen by prediction. */
static bool needs_machine(const pl_session *s)
{
    for (int i = 0; i < s->only.n; i++)
        if (s->only.degree[i] == 0)
            return true;
    return !s->options->print;
}

static pl_status get_machine(pl_session *s)
{
    if (s->options->machine != NULL || s->has_machine)
        return PL_OK;
    return pl_machine_cached(s->world, &s->topology, s->heap, s->options->recalibrate, false,
                             s->options->dtype, &s->machine);
}

/* Memory that a rank may use: its share of the smallest host. */
static int64_t memory_of_rank(const pl_session *s)
{
    double least = -pl_topology_memory_bytes() / s->topology.ranks_on_host; /* the largest of the negatives */

    pl_session_max(s, &least, 1);
    return (int64_t)-least;
}

/* Bytes that the threads of a rank pack into, by what is planned or by what they hold. */
static int64_t packing_space(const pl_session *s, bool held)
{
    double bytes = (double)(held ? pl_matmul_space_held() : pl_matmul_space_wanted());

    pl_session_max(s, &bytes, 1);
    return (int64_t)bytes;
}

int64_t pl_session_memory(const pl_session *s)
{
    return memory_of_rank(s) - packing_space(s, false);
}

static int ranks_per_host(const pl_session *s)
{
    return (s->topology.n_ranks + s->topology.n_hosts - 1) / s->topology.n_hosts;
}

/* Where the ranks are, and what they may share. */
static void find_fabric(pl_session *s)
{
    pl_fabric *fabric = &s->plan.fabric;
    const int n = s->topology.n_ranks, per_host = ranks_per_host(s);
    bool in_order = true;

    s->heap = pl_heap_create(s->world);
    fabric->shared = s->heap != NULL;
    fabric->chooser =
        (pl_chooser){.machine = needs_machine(s) ? &s->machine : NULL, .algo = s->algo};
    if (s->topology.n_hosts == 1)
        return;
    s->host_of = pl_alloc((size_t)n * sizeof *s->host_of);
    pl_topology_hosts(s->world, &s->topology, s->host_of);
    for (int r = 0; r < n; r++)
        in_order = in_order && s->host_of[r] == r / per_host;
    fabric->ranks_per_host = per_host;
    fabric->host_of = in_order ? NULL : s->host_of;
}

static pl_status choose_spec(pl_session *s, int n_ranks)
{
    pl_status status = PL_OK;

    if (needs_machine(s))
        status = pl_choose(&s->plan, n_ranks, &s->machine, pl_session_memory(s), s->world,
                           s->choice, sizeof s->choice);
    else
        s->plan.spec = s->only;
    if (status == PL_OK)
        status = pl_spec_mesh(&s->plan.spec, &s->model, &s->mesh);
    return pl_agree(s->world, status);
}

pl_status pl_session_choices(const pl_session *s, pl_choices *choices)
{
    pl_plan plan = s->plan;

    plan.spec = s->options->spec;
    return pl_agree(s->world, pl_choices_find(&plan, s->topology.n_ranks, &s->machine,
                                              pl_session_memory(s), s->world, choices));
}

static bool needs_evaluation(const pl_options *o)
{
    return o->eval_only || o->eval_every > 0;
}

/* Programs for full batches of evaluation windows and for the rest. */
static void build_evaluation(pl_session *s, int stage)
{
    pl_plan plan = s->plan;

    plan.forward_only = true;
    s->n_eval_windows = pl_eval_window_count(&s->corpus, plan.seq);
    if (s->n_eval_windows >= s->plan.batch)
        s->eval_program[0] = pl_build(&plan, &s->mesh, stage);
    plan.batch = s->n_eval_windows % s->plan.batch;
    if (plan.batch > 0)
        s->eval_program[1] = pl_build(&plan, &s->mesh, stage);
}

/* What the step would take in f32, to say beside it what bf16 costs or saves. */
static void predict_in_f32(pl_session *s)
{
    pl_plan plan = s->plan;

    if (plan.dtype == PL_F32)
        return;
    plan.dtype = PL_F32;
    pl_prediction *prediction = pl_plan_predict(&plan, &s->machine);
    s->f32_step_s = prediction->step_s;
    pl_prediction_destroy(prediction);
}

static void build_stages(pl_session *s, int stage)
{
    s->n_stages = pl_spec_degree(&s->plan.spec, "pp");
    s->stages = pl_alloc((size_t)s->n_stages * sizeof *s->stages);
    pl_build_stages(&s->plan, &s->mesh, s->stages);
    s->program = s->stages[stage];
}

/* Who computes which product: by a trial where this machine serves, with the instructions that it
 * is calibrated for at their best. Another machine's file, or a forced instruction set, asks for
 * what does not depend on what is measured now. */
static void choose_matmul(pl_session *s, pl_coords coords)
{
    const pl_options *o = s->options;
    const pl_program *const programs[] = {s->program, s->eval_program[0], s->eval_program[1]};

    if (o->matmul == PL_MATMUL_AUTO && o->machine == NULL && needs_machine(s) &&
        pl_isa_get() == pl_isa_best())
        pl_trial_products(s->world, &s->topology, &s->machine, programs, 3, coords,
                          o->recalibrate && !s->has_machine);
}

static void predict(pl_session *s)
{
    const pl_program *const *stages = (const pl_program *const *)s->stages;

    s->prediction = pl_predict(stages, s->n_stages, &s->machine);
    s->prediction->memory_bytes[PL_WORKSPACE] += (size_t)packing_space(s, false);
    predict_in_f32(s);
    s->wire = pl_predict_wire(stages, s->n_stages);
}

/* Asking for more than there is would end in swapping or in the kernel's killing a rank. */
static pl_status check_memory(const pl_session *s)
{
    const double has = (double)memory_of_rank(s);
    double needs = 0;

    for (int c = 0; c < PL_N_CLASSES; c++)
        needs += (double)s->prediction->memory_bytes[c];
    if (needs <= has)
        return PL_OK;
    return pl_refuse(
        PL_BAD_INPUT,
        "--batch: a step needs %.3g GB a rank, and there are %.3g GB for each; use more "
        "ranks, or a smaller --batch, --micro-batch, --seq or --model",
        needs / 1e9, has / 1e9);
}

pl_status pl_session_plan(pl_session *s)
{
    const pl_options *o = s->options;
    int n_ranks, rank;
    pl_status status;

    PL_MPI(MPI_Comm_size(s->world, &n_ranks));
    PL_MPI(MPI_Comm_rank(s->world, &rank));
    pl_topology_discover(s->world, &s->topology);
    pl_wait_set_oversubscribed(s->topology.oversubscribed);
    pl_matmul_set_backend(o->matmul);
    pl_matmul_use_tried(NULL, 0); /* a plan is chosen by the rule alone, whatever was tried before */
    pl_cores_use(&s->topology);
    find_fabric(s);
    status = needs_machine(s) ? get_machine(s) : PL_OK;
    if (status == PL_OK)
        status = choose_spec(s, n_ranks);
    if (status != PL_OK)
        return status;
    const pl_coords coords = pl_mesh_coords(&s->mesh, rank);
    const int pp = pl_mesh_axis(&s->mesh, "pp");
    const int stage = pp < 0 ? 0 : coords.at[pp];
    build_stages(s, stage);
    if (needs_evaluation(o))
        build_evaluation(s, stage);
    choose_matmul(s, coords);
    if (needs_machine(s))
        predict(s);
    return o->print || o->dry_run ? PL_OK : pl_agree(s->world, check_memory(s));
}

static void create_comms(pl_session *s)
{
    const pl_program *programs[3] = {s->program, s->eval_program[0], s->eval_program[1]};
    pl_axes *sets;
    int n = 0, room = 1;

    for (int i = 0; i < 3; i++)
        room += programs[i] != NULL ? programs[i]->n_ops : 0;
    sets = pl_alloc((size_t)room * sizeof *sets);
    for (int i = 0; i < 3; i++)
        if (programs[i] != NULL)
            n += pl_run_groups(programs[i], sets + n);
    pl_comms_create(s->world, &s->mesh, sets, n, &s->comms);
    pl_free(sets);
}

pl_status pl_session_start(pl_session *s)
{
    pl_status status = PL_OK;

    create_comms(s);
    s->engine = pl_engine_create(s->heap);
    pl_engine_set_checking(s->engine, s->options->check);
    s->run = pl_run_create(s->program, &s->comms, s->engine, s->heap, NULL);
    pl_run_set_turns(s->run, s->topology.oversubscribed || s->machine.ranks_per_core > 1);
    pl_params_fill_constants(s->program, s->run, s->comms.coords, &s->model);
    for (int i = 0; i < 2; i++)
        if (s->eval_program[i] != NULL) {
            s->eval_run[i] =
                pl_run_create(s->eval_program[i], &s->comms, s->engine, s->heap, s->run);
            pl_params_fill_constants(s->eval_program[i], s->eval_run[i], s->comms.coords,
                                     &s->model);
        }
    s->row = pl_alloc((size_t)(s->plan.seq + 1) * sizeof *s->row);
    if (s->file != NULL)
        status = pl_params_load(s->program, s->run, s->comms.coords, &s->model, s->file);
    else
        pl_params_init(s->program, s->run, s->comms.coords, s->options->seed, &s->model);
    return pl_agree(s->world, status);
}

void pl_session_close(pl_session *s)
{
    for (int i = 0; i < 2; i++) {
        pl_run_destroy(s->eval_run[i]);
        pl_program_destroy(s->eval_program[i]);
    }
    pl_run_destroy(s->run);
    if (s->engine != NULL) {
        pl_engine_destroy(s->engine);
        pl_comms_destroy(&s->comms);
    }
    pl_heap_destroy(s->heap);
    pl_free(s->host_of);
    for (int i = 0; i < s->n_stages; i++)
        pl_program_destroy(s->stages[i]);
    pl_free(s->stages);
    pl_prediction_destroy(s->prediction);
    pl_free(s->row);
    pl_span_buffer_free(&s->spans);
    pl_corpus_close(&s->corpus);
    if (s->file != NULL)
        pl_weight_file_close(s->file);
    *s = (pl_session){0};
}

double pl_session_mfu(const pl_session *s, double step_s)
{
    return pl_model_flops(&s->model, s->plan.batch, s->plan.seq, true) / step_s /
           pl_machine_peak(&s->machine, s->plan.dtype) / (double)pl_mesh_size(&s->mesh);
}

static void reduce(const pl_session *s, double *x, int n, MPI_Op op)
{
    pl_mpi_all_reduce(s->world, x, n, MPI_DOUBLE, op);
}

void pl_session_max(const pl_session *s, double *x, int n)
{
    reduce(s, x, n, MPI_MAX);
}

void pl_session_sum(const pl_session *s, double *x, int n)
{
    reduce(s, x, n, MPI_SUM);
}

void pl_session_usage(const pl_session *s, size_t used[PL_N_CLASSES], int64_t counted[PL_MAX_WIRES])
{
    double bytes[PL_N_CLASSES], sent[PL_MAX_WIRES];

    for (int c = 0; c < PL_N_CLASSES; c++)
        bytes[c] = (double)pl_run_used_bytes(s->run, (pl_class)c);
    for (int i = 0; i < s->wire.n; i++)
        sent[i] = (double)pl_run_sent_bytes(s->run, s->wire.axes[i]);
    pl_session_max(s, bytes, PL_N_CLASSES);
    pl_session_sum(s, sent, s->wire.n);
    for (int c = 0; c < PL_N_CLASSES; c++)
        used[c] = (size_t)bytes[c];
    used[PL_WORKSPACE] += (size_t)packing_space(s, true);
    for (int i = 0; i < s->wire.n; i++)
        counted[i] = (int64_t)sent[i];
}
