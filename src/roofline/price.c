#include "config.h"

#include "src/roofline/price.h"

#include "collectives/wires.h"
#include "src/program/communicate.h"
#include "src/program/kinds.h"
#include "src/roofline/kernel_model.h"
#include "src/roofline/known_prices.h"
#include "src/roofline/trial.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A machine as it is priced with. */
typedef struct {
    pl_machine all;
    pl_machine cores; /* where only what cores do takes time */
    pl_machine wires; /* without latencies */
} views;

struct pl_pricer {
    const pl_machine *machine;
    /* The same machine as communication within a step finds it, by where its arrays lie. */
    views near, far;
    /* That machine where only messages to other hosts take time, a second a byte, and where only the
     * delay of rounds beside kernels does. */
    pl_machine bytes, late;
    pl_known_prices *known;
    pl_arena *arena; /* of messages */
    /* Where operands come from, for the program and rank that were asked about last. */
    const pl_program *program;
    pl_coords coords;
    pl_reuse *reuse; /* [n_ops] */
};

const char *pl_bound_name(pl_bound bound)
{
    static const char *const names[] = {[PL_BOUND_FLOPS] = "FLOPs",
                                        [PL_BOUND_MEMORY] = "memory",
                                        [PL_BOUND_LINK] = "link",
                                        [PL_BOUND_LATENCY] = "latency"};
    return names[bound];
}

/* In a step arrays come fresh from kernels, not from the run before as where ranks only
 * communicate: no class of copies is faster than such ones. */
static void slow_to_fresh(pl_machine *machine)
{
    for (int c = 0; c < PL_N_SHARED && machine->shared_made_bytes_per_s.n_points > 0; c++) {
        pl_curve *curve = &machine->shared_bytes_per_s[c];

        for (int i = 0; i < curve->n_points; i++)
            curve->rate[i] = fmin(curve->rate[i],
                                  pl_curve_at(&machine->shared_made_bytes_per_s, curve->size[i]));
    }
}

/* What was touched long ago comes from memory, however little it is; where that has not been
 * measured, as the largest arrays do, which leave a part of themselves in a cache. */
static void slow_to_memory(pl_machine *machine)
{
    for (int c = 0; c < PL_N_SHARED; c++) {
        pl_curve *curve = &machine->shared_bytes_per_s[c];
        const double far = machine->shared_far_bytes_per_s[c];

        if (curve->n_points > 0)
            *curve = (pl_curve){
                .n_points = 1, .size = {1}, .rate = {far > 0 ? far : pl_curve_at(curve, INFINITY)}};
    }
}

static const pl_link at_once = {.one_way_bytes_per_s = INFINITY, .both_ways_bytes_per_s = INFINITY};

static void views_fill(views *v)
{
    v->cores = v->all;
    v->wires = v->all;
    for (int i = 0; i < PL_N_LINKS; i++) {
        v->cores.link[i].latency_s = v->wires.link[i].latency_s = 0;
        v->cores.link[i].message_s = v->wires.link[i].message_s = 0;
    }
    v->cores.signal_s = v->wires.signal_s = 0;
    if (v->all.link[PL_LINK_OTHER_HOST].both_ways_bytes_per_s > 0)
        v->cores.link[PL_LINK_OTHER_HOST] = at_once;
}

/* Nothing takes time but messages to other hosts, as `other` says. */
static void fill_other_only(pl_machine *machine, pl_link other)
{
    machine->copy_bytes_per_s = machine->reduce_bytes_per_s = INFINITY;
    machine->link[PL_LINK_SAME_HOST] = at_once;
    machine->link[PL_LINK_OTHER_HOST] = other;
}

static void fill_beside(pl_pricer *pricer)
{
    pl_link late = at_once;

    late.latency_s = pricer->machine->link[PL_LINK_OTHER_HOST].late_s;
    late.message_s = DBL_MIN; /* further messages of a round are no later */
    fill_other_only(&pricer->bytes,
                    (pl_link){.one_way_bytes_per_s = 1, .both_ways_bytes_per_s = 1});
    fill_other_only(&pricer->late, late);
}

pl_pricer *pl_pricer_create(const pl_machine *machine)
{
    pl_pricer *pricer = pl_alloc(sizeof *pricer);

    pricer->machine = machine;
    pricer->known = pl_known_prices_create();
    pricer->arena = pl_arena_create();
    if (machine == NULL)
        return pricer;
    pricer->near.all = pricer->far.all = *machine;
    slow_to_fresh(&pricer->near.all);
    slow_to_memory(&pricer->far.all);
    views_fill(&pricer->near);
    views_fill(&pricer->far);
    fill_beside(pricer);
    return pricer;
}

void pl_pricer_destroy(pl_pricer *pricer)
{
    if (pricer == NULL)
        return;
    pl_known_prices_destroy(pricer->known);
    pl_arena_destroy(pricer->arena);
    pl_free(pricer->reuse);
    pl_free(pricer);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double pl_tile_share(int64_t tile, int64_t m, int64_t n, int64_t k)
{
    const int64_t extents[3] = {m, n, k};
    double share = 1;

    for (int i = 0; i < 3 && tile > 1; i++)
        if (extents[i] > 0)
            share *= (double)extents[i] / (double)((extents[i] + tile - 1) / tile * tile);
    return share;
}

/* By FLOPs, bytes and the machine's rates. */
static void price_by_roofline(const pl_machine *machine, const pl_op_cost *cost, pl_op_price *price)
{
    double rate;

    if (cost->is_matmul)
        rate = pl_curve_at(pl_machine_matmul(machine, cost->dtype), cost->matmul_flops) *
               pl_tile_share(machine->matmul_tile, cost->m, cost->n, cost->k);
    else
        rate = cost->is_attention ? pl_machine_attention(machine, cost->dtype)
                                  : machine->peak_flops_per_s;
    const double flops_s = cost->flops / rate;
    const double bytes_s = cost->bytes / pl_curve_at(&machine->memory_bytes_per_s, cost->bytes);
    price->bound = flops_s >= bytes_s ? PL_BOUND_FLOPS : PL_BOUND_MEMORY;
    if (machine->op_overhead_s > larger(flops_s, bytes_s))
        price->bound = PL_BOUND_LATENCY;
    price->time_s = larger(flops_s, bytes_s) + machine->op_overhead_s;
}

/* By the kernel's own terms. */
static void price_by_terms(const pl_kernel_fit *fit, const pl_op_cost *cost, const pl_reuse *reuse,
                           pl_op_price *price)
{
    double terms[PL_N_KERNEL_TERMS];

    pl_kernel_terms(cost, reuse, terms);
    const double call_s = fit->term_s[PL_TERM_CALL];
    const double flops_s = fit->term_s[PL_TERM_FLOP] * terms[PL_TERM_FLOP];
    price->time_s = pl_kernel_time_s(fit, terms);
    price->far_s = fit->term_s[PL_TERM_FAR] * terms[PL_TERM_FAR];
    const double bytes_s = price->time_s - call_s - flops_s;
    price->bound = flops_s >= bytes_s ? PL_BOUND_FLOPS : PL_BOUND_MEMORY;
    if (call_s > larger(flops_s, bytes_s))
        price->bound = PL_BOUND_LATENCY;
}

static bool coords_equal(pl_coords a, pl_coords b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Whether the ranks at a and b hold as much of every value: what they touch then comes from the
 * same caches, wherever in an array their parts lie. */
static bool hold_alike(const pl_program *p, pl_coords a, pl_coords b)
{
    for (int v = 0; v < p->n_values; v++)
        if (pl_local_elements(p, v, a) != pl_local_elements(p, v, b))
            return false;
    return true;
}

static const pl_reuse *reuse_of(pl_pricer *pricer, const pl_program *p, const pl_op *op,
                                pl_coords coords)
{
    const pl_machine *machine = pricer->machine;

    if (pricer->program == p && coords_equal(pricer->coords, coords))
        return &pricer->reuse[op - p->ops];
    if (pricer->program != p || !hold_alike(p, pricer->coords, coords)) {
        pl_free(pricer->reuse);
        pricer->reuse = pl_alloc((size_t)(p->n_ops + 1) * sizeof *pricer->reuse);
        pl_reuse_find(p, coords, machine->near_bytes, machine->mid_bytes, pricer->reuse);
    }
    pricer->program = p;
    pricer->coords = coords;
    return &pricer->reuse[op - p->ops];
}

/* Whether a product before `op` in its phase reads `value`: one of its layer and microbatch, and
 * those stand together; of a weight, which a step leaves as it is, of an earlier microbatch. */
static bool is_read_before(const pl_program *p, const pl_op *op, int value)
{
    if (p->values[value].class == PL_WEIGHT && op->microbatch > 0)
        return true;
    for (const pl_op *o = op; o-- > p->ops;) {
        if (o->kind != op->kind)
            continue;
        if (o->layer != op->layer || o->phase != op->phase)
            return false;
        for (int i = 0; i < o->n_in; i++)
            if (o->in[i] == value)
                return true;
    }
    return false;
}

/* What narrowing the operands of a product takes, of each once in a phase: the backward pass reads
 * them along other dims, and what is narrowed is scaled along the dims that are read. */
static double cast_s(const pl_machine *machine, const pl_program *p, const pl_op *op,
                     pl_coords coords)
{
    double bytes = 0;

    for (int i = 0; i < op->n_in / 2 * 2; i++)
        if (!is_read_before(p, op, op->in[i]))
            bytes += machine->cast_bytes * (double)pl_local_elements(p, op->in[i], coords);
    return bytes / pl_curve_at(&machine->memory_bytes_per_s, bytes);
}

/* The machine's fit of the op's kernel, or NULL. */
static const pl_kernel_fit *fit_of(const pl_machine *machine, const pl_program *p, const pl_op *op,
                                   const pl_op_cost *cost)
{
    char name[PL_KERNEL_NAME];

    if (machine->n_kernels == 0)
        return NULL;
    pl_kernel_name(p, op, cost, name);
    return pl_kernel_fit_find(machine, name);
}

static pl_op_price price_kernel(pl_pricer *pricer, const pl_program *p, const pl_op *op,
                                pl_coords coords)
{
    const pl_machine *machine = pricer->machine;
    const pl_op_cost cost = pl_op_cost_at(p, op, coords);
    pl_op_price price = {.flops = cost.flops, .bytes = cost.bytes};

    if (machine == NULL)
        return price;
    const pl_kernel_fit *fit = fit_of(machine, p, op, &cost);
    if (fit != NULL)
        price_by_terms(fit, &cost, reuse_of(pricer, p, op, coords), &price);
    else
        price_by_roofline(machine, &cost, &price);
    if (cost.is_matmul && machine->cast_bytes > 0)
        price.time_s += cast_s(machine, p, op, coords);
    price.time_s *= pl_trial_factor(p, op, coords);
    return price;
}

/* Bytes that a collective is about, as pl_wires_collective() counts them. */
static double moved_bytes(const pl_program *p, const pl_op *op, pl_coords coords)
{
    const bool is_out = op->kind == PL_KIND_ALL_GATHER || op->kind == PL_KIND_RECV;
    const int *values = is_out ? op->out : op->in, n = is_out ? op->n_out : op->n_in;
    double bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += (double)pl_local_elements(p, values[i], coords) *
                 (double)pl_value_element_bytes(p, values[i]);
    return bytes;
}

static pl_wires_price wires_price_of(const pl_program *p, const pl_op *op, const pl_wires *wires,
                                     pl_coords coords)
{
    static const pl_collective collective[PL_N_KINDS] = {
        [PL_KIND_ALL_GATHER] = PL_ALL_GATHER,
        [PL_KIND_REDUCE_SCATTER] = PL_REDUCE_SCATTER,
        [PL_KIND_ALL_REDUCE] = PL_ALL_REDUCE,
        [PL_KIND_ALL_TO_ALL] = PL_ALL_TO_ALL,
    };
    const double bytes = moved_bytes(p, op, coords);

    if (pl_kind_is_move(op->kind))
        return pl_wires_move(wires, pl_mesh_position(p->mesh, pl_op_group(p, op), coords),
                             op->peer_stage, bytes);
    return pl_wires_collective(wires, collective[op->kind], bytes);
}

/* Over the levels of a network: messages are moved by the network, and cost the cores nothing. */
static pl_op_price price_on_wires(const pl_program *p, const pl_op *op, pl_coords coords)
{
    const pl_wires wires = pl_op_wires(p, op);
    const pl_wires_price w = wires_price_of(p, op, &wires, coords);
    pl_op_price price = {.time_s = w.time_s, .wire_bytes = (int64_t)(w.wire_bytes + 0.5)};

    if (op->kind == PL_KIND_RECV)
        price.wire_bytes = 0;
    for (int i = 0; i < wires.n; i++)
        price.link_s[wires.dim[i].level] += w.dim_s[i];
    price.bound = w.transfer_s >= w.time_s - w.transfer_s ? PL_BOUND_LINK : PL_BOUND_LATENCY;
    return price;
}

static bool leaves_host(const pl_step *step, const pl_site *site, int rank)
{
    return step->kind == PL_STEP_SEND && site->host[step->peer] != site->host[rank];
}

/* Elements that a round sends to other hosts. */
static double sent_off_host(const pl_schedule *s, int round, const pl_site *site, int rank)
{
    double n = 0;
    int n_steps;
    const pl_step *steps = pl_schedule_round(s, round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (leaves_host(&steps[i], site, rank))
            n += (double)pl_region_elements(steps[i].region);
    return n;
}

static bool has_step(const pl_schedule *s, int round, pl_step_kind kind)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(s, round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == kind)
            return true;
    return false;
}

/* Of what a rank sends to other hosts the part that waits for nobody: what goes in the first round
 * in which something does, unless the rank has waited for others before. */
static double first_part(const pl_schedule *s, const pl_site *site, int rank)
{
    double first = 0, all = 0;
    bool has_waited = false;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const double n = sent_off_host(s, r, site, rank);

        has_waited |= has_step(s, r, PL_STEP_AWAIT);
        if (all == 0 && !has_waited)
            first = n;
        all += n;
        has_waited |= has_step(s, r, PL_STEP_RECV) || has_step(s, r, PL_STEP_RECV_REDUCE);
    }
    return all > 0 ? first / all : 0;
}

/* Of a collective, if there are not too many. */
static void find_messages(pl_arena *arena, const pl_schedule *s, const pl_site *site, int rank,
                          pl_op_price *price)
{
    pl_message_price *messages = pl_arena_alloc(arena, PL_MOST_MESSAGES * sizeof *messages);
    double all = 0;
    int n = 0, n_steps;

    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            if (!leaves_host(&steps[i], site, rank))
                continue;
            if (n == PL_MOST_MESSAGES)
                return;
            const double elements = (double)pl_region_elements(steps[i].region);
            messages[n++] = (pl_message_price){r, steps[i].peer, elements};
            all += elements;
        }
    }
    for (int m = 0; m < n; m++)
        messages[m].part /= all;
    price->messages = messages;
    price->n_messages = n;
}

static pl_op_price price_schedule(const pl_schedule *s, pl_dtype dtype, const views *v,
                                  const pl_site *site, int rank)
{
    const double moving_s = pl_schedule_price_s(s, dtype, &v->wires, site, rank);
    pl_op_price price = {.time_s = pl_schedule_price_s(s, dtype, &v->all, site, rank),
                         .core_s = pl_schedule_price_s(s, dtype, &v->cores, site, rank),
                         .by_cores = site->n_hosts == 1,
                         .wire_bytes = pl_schedule_count(s, dtype).wire_bytes};

    price.link_s[0] = price.time_s;
    price.bound = moving_s >= price.time_s - moving_s ? PL_BOUND_LINK : PL_BOUND_LATENCY;
    return price;
}

static pl_price_pair price_communication(const pl_pricer *pricer, const pl_program *p,
                                         const pl_op *op, pl_coords coords)
{
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_op_site(p, op, coords, arena);
    const int rank = pl_mesh_position(p->mesh, pl_op_group(p, op), coords);
    pl_schedule *s = pl_op_schedule(p, op, coords, NULL);
    const pl_dtype dtype = pl_op_dtype(p, op);
    pl_price_pair pair;

    if (pricer->machine != NULL) {
        pair.near = price_schedule(s, dtype, &pricer->near, &site, rank);
        pair.far = price_schedule(s, dtype, &pricer->far, &site, rank);
        if (site.n_hosts > 1) {
            pair.near.core_bytes = pair.far.core_bytes =
                pl_schedule_price_s(s, dtype, &pricer->bytes, &site, rank);
            pair.near.first_bytes = pair.far.first_bytes =
                pair.near.core_bytes * first_part(s, &site, rank);
            pair.near.late_s = pair.far.late_s =
                pl_schedule_price_s(s, dtype, &pricer->late, &site, rank);
            if (!pl_kind_is_move(op->kind))
                find_messages(pricer->arena, s, &site, rank, &pair.near);
            pair.far.messages = pair.near.messages;
            pair.far.n_messages = pair.near.n_messages;
        }
    } else {
        pair.near = (pl_op_price){.wire_bytes = pl_schedule_count(s, dtype).wire_bytes};
        pair.far = pair.near;
    }
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    return pair;
}

static double between(double near, double far, double part)
{
    return near + part * (far - near);
}

/* `part` of the op's bytes come from memory. */
static pl_op_price blend(const pl_price_pair *pair, double part)
{
    pl_op_price price = part < 0.5 ? pair->near : pair->far;

    price.time_s = between(pair->near.time_s, pair->far.time_s, part);
    price.core_s = between(pair->near.core_s, pair->far.core_s, part);
    for (int l = 0; l < PL_MAX_LEVELS; l++)
        price.link_s[l] = between(pair->near.link_s[l], pair->far.link_s[l], part);
    return price;
}

/* Of the bytes that a communication touches, those of an operand in place once. */
static double part_from_memory(pl_pricer *pricer, const pl_program *p, const pl_op *op,
                               pl_coords coords)
{
    double sum;

    if (pricer->machine == NULL || !(pricer->machine->mid_bytes > 0))
        return 0;
    const pl_reuse *reuse = reuse_of(pricer, p, op, coords);
    sum = -reuse->again_bytes;
    for (int l = 0; l < PL_N_REUSE; l++)
        sum += reuse->bytes[l];
    return sum > 0 ? reuse->bytes[PL_N_REUSE - 1] / sum : 0;
}

/* Of communications that depend on the same numbers one is priced. */
static pl_price_pair price_of(pl_pricer *pricer, const pl_program *p, const pl_op *op,
                              pl_coords coords)
{
    const pl_price_pair *known = pl_known_prices_find(pricer->known, p, op, coords);

    if (known != NULL)
        return *known;
    const pl_price_pair price = price_communication(pricer, p, op, coords);
    pl_known_prices_add(pricer->known, price);
    return price;
}

pl_op_price pl_price_op(pl_pricer *pricer, const pl_program *p, const pl_op *op, pl_coords coords)
{
    if (!pl_kind_is_communication(op->kind))
        return price_kernel(pricer, p, op, coords);
    if (p->fabric.wires != NULL)
        return price_on_wires(p, op, coords);
    const pl_price_pair pair = price_of(pricer, p, op, coords);
    return blend(&pair, part_from_memory(pricer, p, op, coords));
}
