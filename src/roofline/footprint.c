#include "config.h"

#include "src/roofline/footprint.h"

#include "src/base/block.h"

#include <math.h>
#include <string.h>

/* What a stage holds. */
typedef struct {
    double layers, in_flight; /* microbatches */
    bool is_first, is_last;
} stage;

static bool is_one_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Ways that tp splits a part: key/value heads at most K ways; norms, routers and the short vectors
 * of compressed attention stay whole. */
static double tp_ways(const pl_architecture *a, const pl_layout *l, const pl_part *p)
{
    static const char *const of_kv_heads[] = {"attention.k", "attention.v"};
    static const char *const whole[] = {"attention.q_a", "attention.kv_a"};

    if (p->group == PL_PART_NORM || p->group == PL_PART_ROUTER || is_one_of(p->name, whole, 2))
        return 1;
    return is_one_of(p->name, of_kv_heads, 2) ? fmin(l->tp, (double)a->n_kv_heads) : l->tp;
}

/* How many of a part's layers the stage holds: the embedding lies in the first, the final norm and
 * the head in the last (a tied head has a copy there when that is another). */
static double layers_held(const pl_architecture *a, const pl_part *p, const stage *s)
{
    static const char *const ends[] = {"final norm"};

    if (p->group == PL_PART_EMBEDDING)
        return s->is_first;
    if (p->group == PL_PART_HEAD)
        return s->is_last && !(p->is_shared && s->is_first);
    if (is_one_of(p->name, ends, 1))
        return s->is_last;
    return (double)p->n_layers * s->layers / (double)a->n_layers;
}

static void add_part(const pl_architecture *a, const pl_layout *l, const stage *s, const pl_part *p,
                     pl_footprint *f)
{
    const bool is_expert = p->n_each > 1, in_fsdp = l->fsdp > 1;
    const double ep = is_expert && l->ep > 1 ? l->ep : 1, fsdp = in_fsdp ? l->fsdp / ep : l->fsdp,
                 dp = in_fsdp ? l->dp : l->dp / ep;
    const double one = (double)(p->rows * p->cols * p->n_each) / tp_ways(a, l, p) / ep,
                 n = one * layers_held(a, p, s);
    const bool in_layers = p->group != PL_PART_EMBEDDING && p->group != PL_PART_HEAD;
    const double split = fsdp * (l->zero >= 3 ? dp : 1);

    f->weights_bytes += l->weight_bytes * n / split;
    f->gradients_bytes += l->gradient_bytes * n / fsdp / (l->zero >= 2 ? dp : 1);
    f->moments_bytes += l->moment_bytes * n / fsdp / (l->zero >= 1 ? dp : 1);
    if (split > 1 && in_layers && p->n_layers > 1)
        f->gathered_bytes += 2 * l->weight_bytes * one * (double)p->n_layers / (double)a->n_layers;
}

static pl_footprint footprint_of_stage(const pl_architecture *a, const pl_layout *l, const stage *s)
{
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);
    const double tokens = l->sequences * l->seq / (l->dp * l->fsdp),
                 kept = pl_architecture_kept_elements(a, l->keep) / l->tp,
                 all = pl_architecture_kept_elements(a, PL_KEEP_ALL) / l->tp,
                 loss = s->is_last ? pl_architecture_kept_by_loss(a) / l->tp : 0;
    pl_footprint f = {0};

    for (int i = 0; i < n; i++)
        add_part(a, l, s, &parts[i], &f);
    f.activations_bytes = l->activation_bytes * tokens * kept * s->layers * s->in_flight;
    f.working_bytes =
        l->activation_bytes * tokens * (loss + (l->keep == PL_KEEP_ALL ? 0 : all - kept));
    f.total_bytes = f.weights_bytes + f.gradients_bytes + f.moments_bytes + f.gathered_bytes +
                    f.activations_bytes + f.working_bytes;
    return f;
}

pl_footprint pl_footprint_of(const pl_architecture *a, const pl_layout *l)
{
    const int pp = (int)l->pp;
    const stage first = {.layers = (double)pl_block_count(a->n_layers, pp, 0),
                         .in_flight = fmin(l->microbatches, l->pp),
                         .is_first = true,
                         .is_last = pp == 1},
                last = {.layers = (double)pl_block_count(a->n_layers, pp, pp - 1),
                        .in_flight = 1,
                        .is_first = pp == 1,
                        .is_last = true};
    const pl_footprint at_first = footprint_of_stage(a, l, &first),
                       at_last = footprint_of_stage(a, l, &last);

    return at_last.total_bytes > at_first.total_bytes ? at_last : at_first;
}

double pl_footprint_persistent(const pl_footprint *f)
{
    return f->weights_bytes + f->gradients_bytes + f->moments_bytes;
}
