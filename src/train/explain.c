#include "config.h"

#include "src/train/explain.h"

#include "src/base/log.h"
#include "src/base/units.h"
#include "src/roofline/formula.h"

#include <math.h>

double pl_explain_bytes_per_s(const pl_machine *machine, int n_hosts, int n_ranks, double bytes)
{
    const double P = n_ranks, moved = P > 1 ? P / (P - 1) : 1;
    const pl_link *other = &machine->link[PL_LINK_OTHER_HOST];

    if (n_hosts > 1 && other->both_ways_bytes_per_s > 0)
        return other->both_ways_bytes_per_s * moved;
    if (machine->shared_made_bytes_per_s.n_points > 0)
        return pl_curve_at(&machine->shared_made_bytes_per_s, bytes) / 2 * moved;
    return machine->link[PL_LINK_SAME_HOST].both_ways_bytes_per_s * moved;
}

pl_explain pl_explain_of(const pl_session *s)
{
    const pl_model_config *m = &s->model;
    const double element_bytes = (double)pl_dtype_bytes(s->plan.dtype);
    const int n_ranks = (int)pl_mesh_size(&s->mesh);
    const double layer_bytes = 3.0 * (double)m->d_model * (double)m->d_ff * element_bytes;

    return (pl_explain){.ranks = n_ranks,
                        .stages = s->n_stages,
                        .microbatches = s->program->batch.n_microbatches,
                        .tokens = (double)(s->plan.batch * s->plan.seq),
                        .d_ff = (double)m->d_ff,
                        .flops_per_s = pl_machine_peak(&s->machine, s->plan.dtype),
                        .bytes_per_s = pl_explain_bytes_per_s(&s->machine, s->topology.n_hosts,
                                                              n_ranks, layer_bytes),
                        .element_bytes = element_bytes,
                        .network = s->topology.n_hosts > 1 ? "between hosts" : "inside the host"};
}

double pl_explain_alpha(const pl_explain *e)
{
    return e->flops_per_s / e->bytes_per_s * e->element_bytes / 2;
}

double pl_explain_equal_bytes(const pl_session *s, const pl_spec *a, const pl_spec *b)
{
    const int n = (int)pl_mesh_size(&s->mesh);
    const pl_spec *data = pl_spec_degree(a, "tp") == n ? b : a;
    const bool is_fsdp = pl_spec_degree(data, "fsdp") == n;

    if (pl_spec_degree(data == a ? b : a, "tp") != n ||
        (pl_spec_degree(data, "dp") != n && !is_fsdp))
        return NAN;
    return pl_formula_value("dp_or_tp", "equal_batch_tokens", "params",
                            (double)pl_model_n_params(&s->model), "L", (double)s->model.n_layers,
                            "D", (double)s->model.d_model, "blocks", 2.0, "passes",
                            is_fsdp ? 3.0 : 2.0, NULL);
}

static const char *side(double more, double less)
{
    return more > less ? "compute-bound" : "communication-bound";
}

static void print_data_parallel(const pl_explain *e, double alpha)
{
    const double least =
        pl_formula_value("data_parallel", "min_tokens_per_chip", "alpha", alpha, NULL);
    const double tokens = e->tokens / e->ranks;

    pl_print(
        "  DP, FSDP   B/X = %.4g / %g = %.4g tokens a rank %s C/W = %.4g: %s; the other side of "
        "B = %.4g tokens a step\n",
        e->tokens, e->ranks, tokens, tokens > least ? ">" : "<", least, side(tokens, least),
        least * e->ranks);
}

static void print_tensor_parallel(const pl_explain *e, double alpha)
{
    const double most =
        pl_formula_value("tensor_parallel", "max_ways", "F", e->d_ff, "alpha", alpha, NULL);

    pl_print("  TP         Y = %g %s M_Y F / alpha = %.4g / %.4g = %.4g: %s, whatever B is\n",
             e->ranks, e->ranks < most ? "<" : ">", e->d_ff, alpha, most, side(most, e->ranks));
}

/* One mesh axis each. */
static void print_mixed(const pl_explain *e, double alpha)
{
    const double least = pl_formula_value("fsdp_tp", "min_tokens_per_chip", "F", e->d_ff, "alpha",
                                          alpha, "M_X", 1.0, "M_Y", 1.0, NULL);
    const double best = pl_formula_value("fsdp_tp", "optimal_X", "B", e->tokens, "F", e->d_ff, "N",
                                         e->ranks, "M_X", 1.0, "M_Y", 1.0, NULL);
    const double tokens = e->tokens / e->ranks;

    pl_print(
        "  FSDP + TP  B/N = %.4g %s alpha^2 / (M_X M_Y F) = %.4g: %s at X_opt = sqrt(B N / F) = "
        "%.3g%s\n",
        tokens, tokens > least ? ">" : "<", least, side(tokens, least), best,
        best > e->ranks ? ", more than there are ranks: FSDP alone" : "");
}

static void print_pipeline(const pl_explain *e)
{
    const double p = e->stages > 1 ? e->stages : e->ranks;
    const double m = e->stages > 1 ? e->microbatches : 2 * e->ranks;
    const double bubble =
        pl_formula_value("pipeline", "bubble", "stages", p, "microbatches", m, NULL);

    pl_print(
        "  pipeline   bubble (p - 1) / (m + p - 1) = %.1f%% of a step with p = %g stages, m = %g "
        "microbatches%s\n",
        100 * bubble, p, m, e->stages > 1 ? "" : " (were it pp)");
}

void pl_explain_print(const pl_explain *e)
{
    const double alpha = pl_explain_alpha(e);

    if (e->ranks < 2) {
        pl_print("explain    one rank: nothing is communicated\n");
        return;
    }
    pl_print(
        "explain    C = %s a rank, W = %s a rank %s; elements of %g B: alpha = C/W x %g/2 = %.4g "
        "FLOP/B\n",
        pl_si(e->flops_per_s, "FLOP/s").text, pl_si(e->bytes_per_s, "B/s").text, e->network,
        e->element_bytes, e->element_bytes, alpha);
    print_data_parallel(e, alpha);
    print_tensor_parallel(e, alpha);
    print_mixed(e, alpha);
    print_pipeline(e);
}
