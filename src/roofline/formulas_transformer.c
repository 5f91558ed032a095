/* Section 4: parameters, FLOPs and memory of a Transformer, counted by the list of its weights. */
#include "config.h"

#include "src/roofline/formula.h"

#include "src/base/block.h"

#include "src/model/architecture.h"

#include <math.h>

static int64_t count(double x)
{
    return isnan(x) ? 0 : (int64_t)x;
}

/* Dims that are not given are 0; what needs them is set to NaN afterwards. in: L D F N K H V E k
 * gated tied. */
static pl_architecture described(const double *in)
{
    pl_architecture a;

    pl_architecture_init(&a, count(in[0]), count(in[1]), count(in[3]), count(in[4]), count(in[5]),
                         count(in[2]), count(in[6]));
    if (in[7] > 1) {
        a.n_experts = count(in[7]);
        a.n_active_experts = count(in[8]);
        a.d_ff_expert = a.d_ff;
    }
    a.gated = in[9] != 0;
    a.tied = in[10] != 0;
    return a;
}

static double unless(double unknown, double x)
{
    return isnan(unknown) ? NAN : x;
}

static void params(const double *in, double *out)
{
    const pl_architecture a = described(in);
    const pl_param_counts c = pl_architecture_params(&a);
    const double ffn_needs = in[0] + in[1] + in[2];
    const double attention_needs = in[0] + in[1] + in[3] + in[4] + in[5];
    const double vocab_needs = in[1] + in[6], all = ffn_needs + attention_needs + vocab_needs;
    const double vocab = (double)(c.group[PL_PART_EMBEDDING] + c.group[PL_PART_HEAD]);
    const double idle = (double)(c.total - c.active); /* experts that a token does not visit */
    const double small = (double)(c.group[PL_PART_NORM] + c.group[PL_PART_ROUTER]);
    const double ffn = (double)c.group[PL_PART_FFN];

    out[0] = unless(ffn_needs, ffn);
    out[1] = unless(attention_needs, (double)c.group[PL_PART_ATTENTION]);
    out[2] = unless(vocab_needs, vocab);
    out[3] = unless(in[0] + in[1], (double)c.group[PL_PART_NORM]);
    out[4] = unless(ffn_needs, (double)c.group[PL_PART_ROUTER]);
    out[5] = unless(all, (double)c.total);
    out[6] = unless(all, (double)c.active);
    out[7] = unless(all, (double)c.total - small);
    out[8] = unless(all, (double)c.active - small);
    out[9] = unless(ffn_needs, ffn - idle);
    out[10] = out[0] / out[7];
    out[11] = 2 * out[8];
    out[12] = 6 * out[8];
    out[13] = 2 * out[9];
    out[14] = in[7] / in[8];
    out[15] = 2 * in[1];
    out[16] = out[1] / out[7];
    out[17] = out[2] / out[7];
}

/* One layer: L = 1. in: B T D F N K H V causal gated. */
static void layer_flops(const double *in, double *out)
{
    const double B = in[0], T = in[1], tokens = B * T;
    const double D = in[2], F = in[3], N = in[4], K = in[5], H = in[6], V = in[7];
    const double dims[] = {1, D, F, N, K, H, V, 1, 1, in[9], 0};
    const pl_architecture a = described(dims);
    const pl_param_counts c = pl_architecture_params(&a);
    const double ffn = unless(D + F, (double)c.group[PL_PART_FFN]);
    const double projections = unless(D + N + K + H, (double)c.group[PL_PART_ATTENTION]);
    const double head = unless(D + V, (double)c.group[PL_PART_HEAD]);
    const double n_keys = in[8] != 0 ? T / 2 : T;
    const double dot = unless(N + H, pl_architecture_attention_flops(&a, n_keys));
    const double a_key = unless(N + H, pl_architecture_attention_flops(&a, in[8] != 0 ? 0.5 : 1.0));

    out[0] = 2 * tokens * ffn;
    out[1] = 3 * out[0];
    out[2] = 2 * tokens * projections;
    out[3] = 3 * out[2];
    out[4] = tokens * dot;
    out[5] = 3 * out[4];
    out[6] = 3 * 2 * tokens * head;
    out[7] = out[4];
    out[8] = out[4] / (out[0] + out[2]);
    out[9] = 2 * (ffn + projections) / a_key;
    out[10] = 2 * projections / a_key;
    out[11] = ffn;
    out[12] = projections;
    out[13] = head;
}

static void attention_crossover(const double *in, double *out)
{
    const double D = in[0], F = pl_given(in[1], 4 * D), N = in[2], H = pl_given(in[3], D / N);
    const double K = pl_given(in[4], N), causal = in[5];
    const double of_layer[] = {1, 1, D, F, N, K, H, NAN, causal, 1};
    double all[PL_FORMULA_MOST];

    layer_flops(of_layer, all);
    out[0] = all[9];
    out[1] = all[10];
}

static void moe_batch(const double *in, double *out)
{
    const double balance = in[0], E = in[1], k = in[2], w = in[3];

    out[0] = w / 2 * balance * E / k;
    out[1] = E / k;
}

static void shard(const double *in, double *out)
{
    const double rows = in[0], cols = in[1], X = in[2], Y = in[3], size = in[4], W = in[5];

    out[0] = rows / X;
    out[1] = cols / Y;
    out[2] = X * Y;
    out[3] = 1 / (X * Y);
    out[4] = size * rows * cols;
    out[5] = out[4] / (X * Y);
    out[6] = out[5] / W;
    out[7] = in[6] / (X * Y);
    out[8] = out[5] * in[6];
}

/* A shard of 0, 1, .. n - 1, and what an AllReduce's mean makes of its element. */
static void block(const double *in, double *out)
{
    const double n = in[0], P = in[1], i = in[2], element = in[3];
    const bool known = n >= 0 && n < 1e15 && P >= 1 && P <= 1e6;
    double begin_sum = 0;

    if (!known)
        return;
    for (int r = 0; r < (int)P; r++)
        begin_sum += (double)pl_block_begin((int64_t)n, (int)P, r);
    out[3] = begin_sum / P + element;
    out[4] = (double)pl_block_largest((int64_t)n, (int)P);
    if (!(i >= 0 && i < P))
        return;
    out[0] = (double)pl_block_begin((int64_t)n, (int)P, (int)i);
    out[1] = (double)pl_block_count((int64_t)n, (int)P, (int)i);
    out[2] = out[0] + (out[1] - 1) / 2;
}

static void activations(const double *in, double *out)
{
    const double tokens = in[0], L = in[1], D = in[2], F = in[3], n_d = in[4], n_f = in[5];
    const double size = in[6], chips = in[7];

    out[0] = size * L * tokens * (n_d * D + (n_f > 0 ? n_f * F : 0));
    out[1] = out[0] / chips;
}

/* Bytes per device under ZeRO stage 0 to 3: what is split over the ways is divided by them. */
static void training_memory(const double *in, double *out)
{
    const double n = in[0], w = in[1], g = in[2], m = in[3], stage = in[4], X = in[5];
    const double activation_bytes = in[6], chips = in[7], hbm = in[8];
    const double each =
        w / (stage >= 3 ? X : 1) + g / (stage >= 2 ? X : 1) + m / (stage >= 1 ? X : 1);

    out[0] = w + g + m;
    out[1] = n * each;
    out[2] = n * (w + g + m) + activation_bytes;
    out[3] = out[2] / chips;
    out[4] = ceil(out[2] / hbm);
    out[5] = hbm / (w + g + m);
    out[6] = chips * hbm;
    out[7] = pl_known_greater(hbm, out[3]);
}

static void fits(const double *in, double *out)
{
    const double bytes = in[0], ways = in[1], hbm = in[2];

    out[0] = bytes / ways;
    out[1] = pl_known_greater(hbm, out[0]);
    out[2] = bytes / hbm;
    out[3] = ceil(out[2]);
    out[4] = pl_least_power_of_two(out[2]);
    out[5] = hbm * ways;
    out[6] = hbm * ways - bytes;
    out[7] = hbm - out[0];
    out[8] = out[0] + in[3];
}

const pl_formula pl_formulas_transformer[] = {
    {"params", 4, "parameters by part, and FLOPs per token; E experts of which k serve a token",
     "ffn = 3 L E D F; attention = L 2 D (N + K) H; vocab = 2 D V; norms = (2 L + 1) D; matrices: "
     "without norms and router; forward = 2 x active, training = 6 x active matrices",
     "L D F N K H V E=1 k=1 gated=1 tied=0",
     "ffn attention vocab norms router total active matrices active_matrices active_ffn ffn_share "
     "forward_flops_per_token train_flops_per_token ffn_forward_flops_per_token sparsity "
     "norms_per_layer attention_share vocab_share",
     params},
    {"layer_flops", 4, "FLOPs of one layer on B sequences of T tokens",
     "ffn = 18 B T D F; projections = 12 B T D (N + K) H; attention = 12 B T^2 N H (half: causal); "
     "head = 6 B T D V; recomputing attention: 4 B T^2 N H",
     "B T D F N K H V causal=0 gated=1",
     "ffn_forward_flops ffn_train_flops projection_forward_flops projection_train_flops "
     "attention_forward_flops attention_train_flops head_train_flops recomputed_flops "
     "attention_over_matmul crossover_tokens projection_crossover_tokens ffn_params "
     "projection_params head_params",
     layer_flops},
    {"attention_crossover", 4,
     "the sequence at which attention costs as much as the matrix products",
     "T = 8 D where F = 4 D, N H = D, K = N; as much as the projections alone: T = 2 D",
     "D F N=1 H K causal=0", "crossover_tokens projection_crossover_tokens", attention_crossover},
    {"moe_batch", 4, "tokens that keep a mixture of experts compute-bound, w bytes a weight",
     "B > (w/2) (C / W) E / k", "balance_flops_per_byte E k w_bytes=2",
     "critical_batch_tokens sparsity", moe_batch},
    {"shard", 3, "what a device holds of A[rows, cols] split X and Y ways",
     "local = rows/X . cols/Y; over all devices of a mesh with more axes: as many copies as "
     "devices / (X "
     "Y)",
     "rows cols X=1 Y=1 bytes_per_element=2 hbm_bytes_per_s devices",
     "local_rows local_cols shards fraction total_bytes local_bytes load_s copies "
     "all_devices_bytes",
     shard},
    {"block", 3,
     "shard i of the array 0, 1, .. n - 1 over `shards` devices; element j of each, as the mean "
     "over "
     "all shards",
     "blocks differ by at most one element, the larger ones first; mean over shards: sum of what "
     "they "
     "begin with / shards + j",
     "n shards i=0 j=0", "begin count mean element_mean largest", block},
    {"activations", 4, "activations kept for the backward pass, as tensors of D and of F a layer",
     "bytes = s L tokens (n_D D + n_F F): about 20 D to keep all, 7 D the big products, 1 D a "
     "layer",
     "B L D F tensors_D=1 tensors_F=0 bytes_per_element=2 chips=1", "total_bytes chip_bytes",
     activations},
    {"training_memory", 5, "weights, gradients and moments under ZeRO stage 0 to 3 over X devices",
     "bytes a device = params (w / X_3 + g / X_2 + m / X_1): split from that stage on",
     "params w_bytes=2 gradient_bytes=0 moment_bytes=8 zero=0 X=1 activation_bytes=0 chips=1 "
     "hbm_bytes",
     "bytes_per_param device_bytes total_bytes chip_bytes min_chips max_params slice_hbm_bytes "
     "fits",
     training_memory},
    {"fits", 5,
     "bytes split over devices, against their memory; capacity: where a profile reports what is "
     "left",
     "a device: bytes / ways; devices: ceil(bytes / HBM); slice: the next power of two",
     "total_bytes ways=1 hbm_bytes reported_free_bytes",
     "device_bytes fits exact_chips min_chips slice_chips slice_hbm_bytes free_bytes "
     "free_device_bytes capacity_bytes",
     fits},
};
const int pl_n_formulas_transformer =
    sizeof pl_formulas_transformer / sizeof *pl_formulas_transformer;
