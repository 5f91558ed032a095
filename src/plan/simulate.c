/* plan simulate -- a step of any mesh on any machine, slot by slot, and what if: a straggler, slow
 * links, lost chips. The slots can be looked at as a Chrome trace. */
#include "config.h"

#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "src/plan/show.h"
#include "src/roofline/slots.h"
#include "src/trace/chrome.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TITLE_BYTES = 96,     /* with the largest int twice */
    MOST_SLOTS = 3000000, /* in a trace: of 48 bytes each while it is made */
};

/* What is simulated, and what came out. */
typedef struct {
    const pl_search_command *c;
    const pl_candidate *plan;
    pl_stage_times times;
    double step_s, what_if_s; /* as planned; with straggler and slow links */
    double *end_s;            /* [stages] of the second */
    int64_t lost_chips_used;  /* chips of the plan without those lost; 0: not asked */
    double lost_step_s;
} simulation;

static void open_stages(simulation *s)
{
    pl_plan plan = s->plan->plan;

    plan.fabric.wires = s->plan->wires;
    pl_estimator *e = pl_estimator_create(&plan, &s->c->search.machine);
    pl_estimator_stages(e, &s->plan->more, &s->times);
    pl_estimator_destroy(e);
    s->step_s = pl_stage_times_step_s(&s->times, plan.pipeline);
    s->end_s = pl_alloc((size_t)s->times.n_stages * sizeof *s->end_s);
}

static pl_status slow_down(simulation *s)
{
    const pl_search_command *c = s->c;
    pl_stage_times *t = &s->times;

    if (c->straggler >= t->n_stages)
        return pl_refuse(PL_BAD_INPUT, "--straggler: there is no stage %d; there are %d",
                         c->straggler, t->n_stages);
    for (int i = 0; i < t->n_stages; i++)
        t->hop_s[i] *= c->link_factor;
    if (c->straggler >= 0) {
        t->forward_s[c->straggler] *= c->straggle_factor;
        t->backward_s[c->straggler] *= c->straggle_factor;
        t->last_backward_s[c->straggler] *= c->straggle_factor;
    }
    return PL_OK;
}

/* ---- the trace: a process a stage ---- */

typedef struct {
    pl_trace_rank *ranks;
    int n_microbatches;
} recorder;

static void record_slot(int stage, pl_slot slot, double begin_s, double end_s, void *context)
{
    recorder *r = context;
    pl_trace_rank *t = &r->ranks[stage];

    t->events[t->n_events++] = (pl_trace_event){
        .begin_ns = (int64_t)(begin_s * 1e9),
        .end_ns = (int64_t)(end_s * 1e9),
        .rank = stage,
        .lane = PL_TRACE_COMPUTE,
        .title = (slot.phase == PL_BACKWARD) * r->n_microbatches + slot.microbatch};
}

/* Titles of the slots, "forward 3": the same for all stages. */
static void fill_titles(pl_trace_rank *t, int m)
{
    size_t at = 0;

    t->titles = pl_alloc(2 * (size_t)m * TITLE_BYTES);
    t->n_titles = 2 * m;
    for (int i = 0; i < 2 * m; i++) {
        const char *phase = pl_phase_name(i < m ? PL_FORWARD : PL_BACKWARD);
        const int length =
            snprintf(t->titles + at, TITLE_BYTES,
                     "{\"name\":\"%s %d\",\"cat\":\"%s\",\"args\":{\"microbatch\":%d}}", phase,
                     i % m, phase, i % m);

        PL_ASSERT(length < TITLE_BYTES);
        at += (size_t)length + 1;
    }
    t->titles_bytes = (int64_t)at;
}

static recorder open_recorder(const simulation *s)
{
    const int n = s->times.n_stages, m = s->times.n_microbatches;
    recorder r = {.n_microbatches = m};

    r.ranks = pl_alloc((size_t)n * sizeof *r.ranks);
    fill_titles(&r.ranks[0], m);
    for (int i = 0; i < n; i++) {
        r.ranks[i] = r.ranks[0];
        r.ranks[i].n_lanes = 1;
        r.ranks[i].events = pl_alloc(2 * (size_t)m * sizeof *r.ranks[i].events);
        snprintf(r.ranks[i].label, sizeof r.ranks[i].label, "stage %d: %lld chips", i,
                 (long long)s->c->search.chips / n);
    }
    return r;
}

static void close_recorder(recorder *r, int n)
{
    pl_free(r->ranks[0].titles);
    for (int i = 0; i < n; i++)
        pl_free(r->ranks[i].events);
    pl_free(r->ranks);
}

/* Replay with what was slowed down, and write the trace where one is asked for. */
static pl_status replay(simulation *s)
{
    const pl_stage_times *t = &s->times;
    const pl_slot_times slots = {.kind = s->plan->plan.pipeline,
                                 .n_stages = t->n_stages,
                                 .n_microbatches = t->n_microbatches,
                                 .forward_s = t->forward_s,
                                 .backward_s = t->backward_s,
                                 .last_backward_s = t->last_backward_s,
                                 .hop_s = t->hop_s};
    pl_trace trace = {.file = NULL};
    pl_status status = PL_OK;

    if (s->c->trace == NULL) {
        s->what_if_s = pl_slots_replay(&slots, s->end_s, NULL, NULL) + t->rest_s;
        return PL_OK;
    }
    if ((int64_t)t->n_stages * t->n_microbatches * 2 > MOST_SLOTS)
        return pl_refuse(PL_BAD_INPUT,
                         "--trace: %d stages of %d microbatches are more than %d slots",
                         t->n_stages, t->n_microbatches, MOST_SLOTS);
    status = pl_trace_open(&trace, s->c->trace);
    if (status != PL_OK)
        return status;
    recorder r = open_recorder(s);
    s->what_if_s = pl_slots_replay(&slots, s->end_s, record_slot, &r) + t->rest_s;
    pl_trace_print(trace.file, r.ranks, t->n_stages);
    status = pl_trace_close(&trace);
    close_recorder(&r, t->n_stages);
    return status;
}

/* A lost chip takes its replica with it: as many data-parallel ranks fewer as must be. */
static pl_status lose_chips(simulation *s)
{
    pl_search_command c = *s->c;
    const pl_spec *spec = &s->plan->plan.spec;
    const bool has_dp = pl_spec_degree(spec, "dp") > 1;
    const int64_t replica = c.search.chips / pl_spec_degree(spec, has_dp ? "dp" : "fsdp"),
                  left = (c.search.chips - c.lost_chips) / replica;
    pl_search_result *r;
    pl_status status;

    if (left < 1)
        return pl_refuse(PL_BAD_INPUT,
                         "--lost-chips: of %lld chips %d are lost, and what is left holds no "
                         "replica of %lld",
                         (long long)c.search.chips, c.lost_chips, (long long)replica);
    r = pl_alloc(sizeof *r);
    s->lost_chips_used = c.search.chips = left * replica;
    c.search.fixed = *spec;
    c.search.typed = "the plan";
    c.search.cp = s->plan->cp;
    c.search.ep = s->plan->ep;
    for (int i = 0; i < spec->n; i++)
        if (strcmp(spec->strategy[i]->name, has_dp ? "dp" : "fsdp") == 0)
            c.search.fixed.degree[i] = (int)left;
    if (left % (s->plan->cp * s->plan->ep) != 0)
        c.search.cp = c.search.ep = 0;
    status = pl_search(&c.search, r);
    s->lost_step_s = status == PL_OK ? r->best[0].estimate.step_s : 0;
    pl_free(r);
    return status;
}

static void print(const simulation *s)
{
    const pl_stage_times *t = &s->times;
    char spec[PL_SPEC_TEXT];
    double busy_s = 0;

    pl_candidate_print(s->plan, spec, sizeof spec);
    printf("%s on %lld x %s: %s, %d microbatches\n", s->c->search.model.name,
           (long long)s->c->search.chips, s->c->search.hw.name, spec, t->n_microbatches);
    printf("\n  stage  forward (s)  backward (s)  idle (%%)\n");
    for (int i = 0; i < t->n_stages; i++) {
        busy_s = t->n_microbatches * t->forward_s[i] + (t->n_microbatches - 1) * t->backward_s[i] +
                 t->last_backward_s[i];
        if (i < 4 || i >= t->n_stages - 2)
            printf("  %5d  %11.4f  %12.4f  %8.1f\n", i, t->forward_s[i], t->backward_s[i],
                   100 * (1 - busy_s / (s->what_if_s - t->rest_s)));
        else if (i == 4)
            printf("  ...\n");
    }
    printf("\n  step as planned %.4f s", s->step_s);
    if (s->what_if_s != s->step_s)
        printf("; what if %.4f s (%+.1f%%)", s->what_if_s, 100 * (s->what_if_s / s->step_s - 1));
    printf("\n");
    if (s->lost_chips_used > 0)
        printf("  without %d chips: %lld chips in whole replicas, step %.4f s (%+.1f%%)\n",
               s->c->lost_chips, (long long)s->lost_chips_used, s->lost_step_s,
               100 * (s->lost_step_s / s->step_s - 1));
    if (s->c->trace != NULL)
        printf("  trace: %s (open it in Perfetto)\n", s->c->trace);
}

static json_t *json_of(const simulation *s)
{
    json_t *root = pl_candidate_json(s->c, s->plan), *stages = json_array();

    for (int i = 0; i < s->times.n_stages; i++)
        json_array_append_new(stages, json_pack("{s:o, s:o, s:o}", "forward_s",
                                                pl_json_real(s->times.forward_s[i]), "backward_s",
                                                pl_json_real(s->times.backward_s[i]), "end_s",
                                                pl_json_real(s->end_s[i])));
    json_object_set_new(root, "stages", stages);
    json_object_set_new(root, "what_if_step_s", pl_json_real(s->what_if_s));
    if (s->lost_chips_used > 0) {
        json_object_set_new(root, "lost_chips", json_integer(s->c->lost_chips));
        json_object_set_new(root, "chips_left_in_use", json_integer(s->lost_chips_used));
        json_object_set_new(root, "lost_chips_step_s", pl_json_real(s->lost_step_s));
    }
    return root;
}

static pl_status simulate(const pl_search_command *c, const pl_candidate *plan)
{
    simulation s = {.c = c, .plan = plan};

    open_stages(&s);
    pl_status status = slow_down(&s);
    if (status == PL_OK)
        status = replay(&s);
    if (status == PL_OK && c->lost_chips > 0)
        status = lose_chips(&s);
    if (status == PL_OK && c->json)
        pl_ask_print_json(json_of(&s));
    else if (status == PL_OK)
        print(&s);
    pl_free(s.end_s);
    pl_stage_times_free(&s.times);
    return status;
}

pl_status pl_plan_simulate(int argc, char **argv)
{
    pl_search_command *c = pl_alloc(sizeof *c);
    pl_search_result *r = pl_alloc(sizeof *r);
    pl_status status = pl_search_options_parse(argc, argv, true, c);

    if (status == PL_OK && !c->done) {
        status = pl_search(&c->search, r);
        if (status == PL_OK)
            status = simulate(c, &r->best[0]);
    }
    pl_free(c);
    pl_free(r);
    return status;
}
