/* Sections 7 and 8: serving. B is sequences that generate one token a step. */
#include "config.h"

#include "src/roofline/formula.h"

#include "src/model/architecture.h"

#include <math.h>

static double kv_of_token(double L, double K, double H, double size, double given)
{
    if (!isnan(given) || isnan(L + K + H))
        return given;
    pl_architecture a;

    pl_architecture_init(&a, (int64_t)L, 1, (int64_t)K, (int64_t)K, (int64_t)H, 1, 1);
    return pl_architecture_kv_bytes(&a, size);
}

/* The part of L layers' whole contexts that is cached: local layers keep a window of it, and some
 * layers one cache for several. in: L context local_layers window sharing */
static double cached_part(double L, double context, double local, double window, double sharing)
{
    if (!(local > 0))
        return 1 / sharing;
    return (L - local + local * fmin(window / context, 1)) / (L * sharing);
}

/* How many whole ones fit; none where there is not even room for what is not theirs. */
static double largest(double n)
{
    return isnan(n) ? NAN : fmax(floor(n), 0);
}

/* in: L K H s token context B weight_bytes params bytes_per_param chips hbm sequence_bytes
 * local_layers window sharing */
static void kv_cache(const double *in, double *out)
{
    const double token = kv_of_token(in[0], in[1], in[2], in[3], in[4]), context = in[5], B = in[6];
    const double weights = pl_given(in[7], in[8] * in[9]), hbm = in[11];
    const double exact = weights / hbm, slice = pl_least_power_of_two(exact);
    const double part = cached_part(in[0], context, in[13], in[14], in[15]);
    const double chips = pl_given(in[10], slice);
    const double sequence = pl_given(in[12], token * context * part);

    out[0] = token;
    out[1] = sequence;
    out[2] = sequence * B;
    out[3] = weights;
    out[4] = sequence * B + weights;
    out[5] = ceil(out[4] / hbm);
    out[6] = chips * hbm - weights;
    out[7] = out[6] / chips;
    out[8] = largest(out[6] / sequence);
    out[9] = exact;
    out[10] = slice;
    out[11] = pl_known_greater(chips * hbm, out[4]);
    out[12] = out[4] / hbm;
    out[13] = pl_least_power_of_two(out[12]);
    out[14] = in[13] > 0 ? NAN : largest(out[6] / (B * token * part));
    out[15] = part;
}

/* in: B params bytes_per_param weight_bytes token context sequence_bytes chips C hbm price steps
 * target */
static void decode(const double *in, double *out)
{
    const double B = in[0], params = in[1], weights = pl_given(in[3], params * in[2]);
    const double token = in[4], sequence = pl_given(in[6], token * in[5]), chips = in[7];
    const double C = in[8] * chips, W = in[9] * chips, price = in[10], steps = in[11];
    const double target = in[12];

    out[0] = B * sequence / W;
    out[1] = weights / W;
    out[2] = 2 * B * params / C;
    out[3] = fmax(out[1], out[2]); /* the one that is known, where one is not */
    out[4] = isnan(out[0]) ? NAN : out[0] + out[3];
    out[5] = B / out[4];
    out[6] = out[5] / chips;
    out[7] = out[6] / 1000;
    out[8] = pl_known_greater(out[2], out[1]);
    out[9] = out[5] / steps;
    out[10] = out[9] / chips;
    out[11] = price / 3600 / out[6] * 1e6;
    out[12] = 2 * params * in[9] / (in[8] * token);
    out[13] = weights / params / 2 * in[8] / in[9];
    out[14] = B * sequence;
    out[15] = out[14] + weights;
    out[16] = ceil(out[4] * chips / target);
    out[17] =
        largest(fmin((target - out[1]) / (sequence / W), target / (sequence / W + 2 * params / C)));
}

static void prefill(const double *in, double *out)
{
    const double params = in[0], T = in[1], chips = in[2], C = in[3], utilisation = in[4];

    out[0] = 2 * params * T;
    out[1] = out[0] / (chips * C * utilisation);
    out[2] = 2 * params;
    out[3] = 2 * params / C;
}

static void serve(const double *in, double *out)
{
    const double B = in[0], step_s = in[1], steps = in[2], chips = in[3], prefill_s = in[4];
    const double P = in[5];

    out[0] = B / step_s;
    out[1] = out[0] / chips;
    out[2] = out[0] / steps;
    out[3] = out[2] / chips;
    out[4] = prefill_s * B / (step_s * steps);
    out[5] = B / steps;
    out[6] = B * (P + steps) / steps;
    out[7] = step_s * steps;
}

/* in: B D F Y s C ici hbm beta axes alpha K chips */
static void decode_sharding(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], Y = in[3], s = in[4], C = in[5], ici = in[6];
    const double hbm = in[7], beta = pl_given(in[8], hbm / ici), axes = in[9];
    const double alpha = pl_given(in[10], C / ici), K = in[11], chips = in[12];

    out[0] = s * B * D / ici;
    out[1] = s * D * F / (Y * hbm);
    out[2] = 2 * B * D * F / (Y * C);
    out[3] = F / (B * beta);
    out[4] = axes * F / alpha;
    out[5] = beta;
    out[6] = alpha;
    out[7] = fmin(K, chips);
    out[8] = isnan(K + chips) ? NAN : chips / out[7];
    out[9] = pl_known_greater(out[1], out[0]);
}

/* in: B D F N W axes */
static void weight_stationary(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = pl_given(in[2], in[6] * in[1]), N = in[3], W = in[4];
    const double axes = in[5], ratio = pl_given(in[6], F / D);

    out[0] = sqrt(32 * F / D / N) * B * D / W;
    out[1] = 4 * B * D / (axes * W);
    out[2] = sqrt(N * D / (2 * F));
    out[3] = N / out[2];
    out[4] = 2 * ratio * axes * axes;
    out[5] = pl_known_greater(out[1], out[0]);
}

static void prefix_cache(const double *in, double *out)
{
    out[0] = (in[0] - in[1]) / in[0];
    out[1] = in[0] - in[1];
}

/* A draft of K tokens, each accepted with the same probability, checked in one step: the longest
 * accepted beginning and one token more. in: accept K step_s draft_s */
static void speculative(const double *in, double *out)
{
    const double accept = in[0], K = in[1], step_s = in[2], draft_s = in[3];

    out[0] = accept == 1 ? K + 1 : (1 - pow(accept, K + 1)) / (1 - accept);
    out[1] = step_s + K * draft_s;
    out[2] = out[0] / out[1];
    out[3] = out[2] * step_s;
}

static void softmax_merge(const double *in, double *out)
{
    const double m = pl_known_max(in[0], in[2]);

    out[0] = m;
    out[1] = exp(in[0] - m) * in[1] + exp(in[2] - m) * in[3];
    out[2] = exp(in[0] - m) * in[4] + exp(in[2] - m) * in[5];
    out[3] = out[2] / out[1];
}

const pl_formula pl_formulas_inference[] = {
    {"kv_cache", 7,
     "keys and values of B sequences beside the weights: bytes, chips, largest batch; local_layers "
     "attend to a window, sharing: layers of one cache",
     "token = 2 L K H s; all = token context B, x (L - local + local window/context)/(L sharing); "
     "chips = ceil((weights + all)/HBM); batch = "
     "floor((chips HBM - weights)/sequence); chips where not given: the least power of two",
     "L K H bytes_per_element=2 kv_bytes_per_token context B weight_bytes params bytes_per_param=2 "
     "chips hbm_bytes kv_bytes_per_sequence local_layers=0 window sharing=1",
     "kv_bytes_per_token kv_bytes_per_sequence kv_bytes weight_bytes total_bytes min_chips "
     "free_bytes "
     "free_chip_bytes max_batch exact_weight_chips weight_slice_chips fits exact_chips slice_chips "
     "max_context cached_part",
     kv_cache},
    {"decode", 7,
     "a step that generates one token for each of B sequences; target_s: what a step may take",
     "T = B kv / (chips W) + max(weights / (chips W), 2 B params / (chips C)); without params: "
     "from memory alone; the least chips, or the most sequences, with T <= target",
     "B params bytes_per_param=2 weight_bytes kv_bytes_per_token context kv_bytes_per_sequence "
     "chips=1 flops_per_s hbm_bytes_per_s price_usd_per_hour steps=1 target_s",
     "attention_s weights_s math_s mlp_s step_s tokens_per_s tokens_per_s_per_chip "
     "tokens_per_ms_per_chip mlp_compute_bound queries_per_s queries_per_s_per_chip "
     "usd_per_million_tokens kv_exceeds_math_tokens critical_batch kv_bytes total_bytes "
     "target_chips target_batch",
     decode},
    {"prefill", 8, "reading a prompt of T tokens", "T = 2 params T / (chips C mfu)",
     "params T chips=1 flops_per_s mfu=1", "flops time_s flops_per_token chip_s_per_token",
     prefill},
    {"serve", 8, "a server whose step is known: rates, and prefill servers per generating one",
     "tokens/s = B / step; queries/s = B / (step steps); prefill : decode = t_prefill B / (step "
     "steps); evicted a step: B (P + G)/G",
     "B step_s steps=1 chips=1 prefill_s prompt_tokens",
     "tokens_per_s tokens_per_s_per_chip queries_per_s queries_per_s_per_chip prefill_per_decode "
     "sequences_per_step evicted_tokens_per_step query_s",
     serve},
    {"decode_sharding", 7, "how far a layer may be split when it is served: X[B, D] . W[D, F_Y]",
     "T_ici = s B D / W_ici; T_hbm = s D F / (Y W_hbm); Y < F / (B beta), beta = W_hbm / W_ici; "
     "compute-bound: Y < axes F / alpha; key/value heads: at most K ways, the batch beyond",
     "B D F Y bytes_per_element=2 flops_per_s net_bytes_per_s hbm_bytes_per_s beta axes=1 alpha K "
     "chips",
     "ici_s hbm_s math_s max_ways compute_bound_max_ways beta alpha head_shards batch_shards "
     "hides_ici",
     decode_sharding},
    {"weight_stationary", 7,
     "weights split both ways over N chips, against one way over `axes` axes",
     "T = sqrt(32 F/D / N) B D / W (11.3 where F = 4 D); one way: 4 B D / (axes W); better where N "
     "> "
     "2 F/D axes^2 (72)",
     "B D F N net_bytes_per_s axes=3 F_over_D", "comms_s one_way_comms_s X YZ min_chips better",
     weight_stationary},
    {"prefix_cache", 7, "prefill that is left of n tokens when some are cached", "(n - shared)/n",
     "n shared", "share tokens", prefix_cache},
    {"speculative", 7,
     "K drafted tokens checked in one step, each accepted with the same probability",
     "tokens = 1 + a + .. + a^K = (1 - a^(K+1))/(1 - a); T = step + K draft",
     "accept K step_s draft_s=0", "tokens_per_step time_s tokens_per_s speedup", speculative},
    {"softmax_merge", 4,
     "two parts of a softmax as one: maxima M, sums L, weighted sums of values O",
     "M = max(M1, M2); L = e^(M1 - M) L1 + e^(M2 - M) L2; O likewise; attention gives O / L",
     "M1 L1 M2 L2 O1 O2", "M sum weighted_sum attended", softmax_merge},
};
const int pl_n_formulas_inference = sizeof pl_formulas_inference / sizeof *pl_formulas_inference;
