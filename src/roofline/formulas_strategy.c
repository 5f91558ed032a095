/* Sections 5 and 12: when a strategy is compute-bound. A layer here is the book's: W_in[D, F] and
 * W_out[F, D], bf16; B tokens of the whole batch; alpha = C / W. */
#include "config.h"

#include "src/roofline/formula.h"

#include <math.h>

/* DP and FSDP: weights move. in: B D F X axes C W alpha E k ways. */
static void data_parallel(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], X = in[3], axes = in[4], C = in[5];
    const double W = in[6] * axes, alpha = pl_given(in[7], C / in[6]), E = in[8], k = in[9];
    const double model_ways = in[10];

    out[0] = 4 * B * k * D * F / (X * C);
    out[1] = 4 * E * D * F / W;
    out[2] = 2 * out[0];
    out[3] = 2 * out[1];
    out[4] = pl_known_max(out[2], out[3]);
    out[5] = pl_known_greater(out[2], out[3]);
    out[6] = alpha;
    out[7] = alpha / axes * E / k / model_ways;
    out[8] = out[7] * X;
    out[9] = B / X;
    out[10] = pl_known_greater(out[9], out[7]);
    out[11] = B / out[7];
    out[12] = W / axes * model_ways;
}

/* TP: activations move. in: B D F Y axes C W alpha domain node_W */
static void tensor_parallel(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], Y = in[3], axes = in[4], C = in[5];
    const double W = in[6] * axes, alpha = pl_given(in[7], C / in[6]), domain = in[8];

    out[0] = 4 * B * D * F / (Y * C);
    out[1] = 4 * B * D / W;
    out[2] = pl_known_max(out[0], out[1]);
    out[3] = pl_known_greater(out[0], out[1]);
    out[4] = alpha;
    out[5] = axes * F / alpha;
    out[6] = Y * alpha / axes;
    out[7] = domain + pl_given(F * in[9] / C, F / alpha);
    out[8] = 2 * out[0];
    out[9] = 2 * out[1];
}

/* FSDP over X and TP over Y, N = X Y. in: B D F N X M_X M_Y C W alpha */
static void fsdp_tp(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], N = in[3], mx = in[5], my = in[6], C = in[7];
    const double W = in[8], alpha = pl_given(in[9], C / W);
    const double best = sqrt(B / F * mx / my * N);
    const double X = pl_given(in[4], pl_known_max(best > N ? N : best, 1)), Y = N / X;

    out[0] = X == 1 ? 0 : 4 * D * F / (Y * W * mx); /* nothing moves along an axis of one */
    out[1] = Y == 1 ? 0 : 4 * B * D / (X * W * my);
    out[2] = 4 * B * D * F / (N * C);
    out[3] = pl_known_max(out[0], out[1]);
    out[4] = pl_known_greater(out[2], out[3]);
    out[5] = best;
    out[6] = N / best;
    out[7] = alpha * alpha / (mx * my * F);
    out[8] = B / N;
    out[9] = pl_known_greater(out[8], out[7]);
    out[10] = out[7] * N;
    out[11] = sqrt(B * F * mx * my) / (alpha * sqrt(N));
    out[12] = alpha;
    out[13] = B / out[7];
    out[14] = out[0] + out[1];
    out[15] = 4 * out[7];
}

/* Bytes that a chip's links carry for a layer, forward and backward. in: B D F X Y s */
static void layer_bytes(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], X = in[3], Y = in[4], s = in[5];
    const double weights = s * 2 * D * F, activations = s * B * D;

    out[0] = 2 * weights; /* DP: AllReduce of both gradients */
    out[1] = weights;     /* FSDP forward: AllGather of both weights */
    out[2] = 2 * weights; /* backward: again, and ReduceScatter of gradients */
    out[3] = 3 * weights;
    out[4] = 2 * activations; /* TP forward: AllGather In, ReduceScatter Out */
    out[5] = 2 * activations;
    out[6] = 4 * activations;
    out[7] = 3 * weights / Y;
    out[8] = 4 * activations / X;  /* In gathered once, kept for the backward pass */
    out[9] = 5 * activations / X;  /* In gathered again */
    out[10] = 6 * activations / X; /* as the book's table prints it */
}

static void layer_compute(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], X = in[3], Y = in[4], C = in[5];

    out[0] = 4 * B * D * F / (X * Y);
    out[1] = 2 * out[0];
    out[2] = 3 * out[0];
    out[3] = out[0] / C;
    out[4] = out[1] / C;
}

/* DP between pods of M chips. in: B pods M C dcn host_rate hosts D F X_total.. */
static void cross_pod(const double *in, double *out)
{
    const double B = in[0], pods = in[1], M = in[2], C = in[3], hosts = in[5], host = in[6];
    const double D = in[7], F = in[8], W = pl_given(in[4], hosts * host / M);

    out[0] = C / W;
    out[1] = B / pods;
    out[2] = pl_known_greater(out[1], out[0]);
    out[3] = 8 * D * F / (M * W);
    out[4] = 8 * (B / pods) * D * F / (M * C);
    out[5] = B / (pods * M);
    out[6] = out[0] * pods;
}

/* Experts over Z, tokens over Z too; AllToAll there and back. in: B D F k Z C W alpha domain */
static void expert_parallel(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], k = in[3], Z = in[4], C = in[5], W = in[6];
    const double alpha = pl_given(in[7], C / W), domain = in[8];
    const double away = pl_known_max(Z - domain, 0); /* in one domain nothing leaves it */

    out[0] = 4 * B * k * D * F / (Z * C);
    out[1] = 4 * B * D * away / (W * Z) * fmin(domain * k / Z, 1);
    out[2] = pl_known_max(out[0], out[1]);
    out[3] = pl_known_greater(out[0], out[1]);
    out[4] = alpha * away / k;
    out[5] = domain * alpha;
}

/* in: stages microbatches forward_time backward_time B D W L bytes largest_bubble */
static void pipeline(const double *in, double *out)
{
    const double p = in[0], m = in[1], f = in[2], b = in[3], B = in[4], D = in[5], W = in[6];
    const double L = in[7], s = in[8];

    out[0] = (m + p - 1) * (f + b);
    out[1] = m * (f + b);
    out[2] = 1 - out[1] / out[0];
    out[3] = isnan(out[2]) ? (p - 1) / (m + p - 1) : out[2];
    out[4] = s * B * D / (W * m);
    out[5] = m + p - 2;
    out[6] = out[4] * out[5];
    out[7] = out[6] / L;
    out[8] = 1.5 * s * B * D / (W * L);
    out[9] = m / (m + p - 1);
    out[10] = (p - 1) * (1 - in[9]) / in[9];
}

/* A fast domain inside, a slower network outside. in: C inside outside other_alpha ways */
static void two_levels(const double *in, double *out)
{
    const double C = in[0], inside = in[1], outside = in[2] * in[4], other = in[3];

    out[0] = C / inside;
    out[1] = C / outside;
    out[2] = pl_known_max(out[0], out[1]);
    out[3] = other / out[1];
    out[4] = outside;
    out[5] = out[1] * (in[5] - 1) / in[5]; /* a node keeps its own share */
}

/* Strategy 1: gather Y, then multiply; 2: multiply, then add up. X[B, D] . Y[D_X, F]. */
static void gather_or_reduce(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], X = in[3], C = in[4], W = in[5], s = in[6];

    out[0] = 2 * B * D * F / C;
    out[1] = s * D * F / W;
    out[2] = 2 * B * D * F / (X * C);
    out[3] = 2 * s * B * F / W;
    out[4] = pl_known_max(out[0], out[1]);
    out[5] = pl_known_max(out[2], out[3]);
    out[6] = D / 2;
    out[7] = 2 * C / W;
    out[8] = pl_known_greater(out[4], out[5]);
}

/* A[I, J] . B[J, K] over N chips. in: I J K N axes C W X Y link */
static void sharded_matmul(const double *in, double *out)
{
    const double I = in[0], J = in[1], K = in[2], N = in[3], axes = in[4], C = in[5], W = in[6];
    const double s = in[7];

    out[0] = 2 * I * J * K / C;
    out[1] = out[0] / N;
    out[2] = s * I * J / (axes * W);
    out[3] = s * J * K / (axes * W);
    out[4] = fmin(out[2], out[3]);
    out[5] = s * I * K / (axes * W);
    out[6] = 2 * out[5];
    out[7] = out[1] + out[5];
    out[8] = out[1] + out[6];
    out[9] = s * I * J;
    out[10] = s * J * K;
    out[11] = s * I * K;
    out[12] = J / K;
    out[13] = J / I;
    out[14] = 2 * I * J * K;
    out[15] = out[14] / N;
}

/* X[B_x, D_y] . W[D, F_y]: gather X while multiplying. in: B D F X Y s C W
 * directions */
static void collective_matmul(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], X = in[3], Y = in[4], s = in[5], C = in[6];
    const double W = in[7];

    out[0] = B / X;
    out[1] = D / Y;
    out[2] = F / Y;
    out[3] = Y;
    out[4] = in[8] >= 2 ? ceil((Y - 1) / 2) : Y - 1;
    out[5] = s * out[0] * out[1];
    out[6] = 2 * out[0] * D * out[2];
    out[7] = out[6] / C;
    out[8] = out[4] * out[5] / W;
    out[9] = pl_known_max(out[7], out[8]);
    out[10] = out[7] + out[8];
}

/* Which moves less, weights or activations. in: params L D blocks passes s B */
static void dp_or_tp(const double *in, double *out)
{
    const double params = in[0], L = in[1], D = in[2], blocks = in[3], passes = in[4], s = in[5];
    const double activations = 4 * s * L * blocks * D; /* of a token */

    out[0] = passes * s * params;
    out[1] = activations * in[6];
    out[2] = out[0] / activations;
    out[3] = pl_known_greater(out[1], out[0]);
}

const pl_formula pl_formulas_strategy[] = {
    {"data_parallel", 5,
     "DP (backward) and FSDP over X chips on `axes` axes: weights move; model_ways: chips that "
     "also "
     "split the model, each with its own network",
     "T_math = 8 B k D F / (X C); T_comms = 8 E D F / (W axes); compute-bound where B/X > "
     "alpha / axes, x E/k with experts; forward (FSDP): 4 and 4",
     "B D F X axes=1 flops_per_s net_bytes_per_s alpha E=1 k=1 model_ways=1",
     "forward_math_s forward_comms_s backward_math_s backward_comms_s backward_s compute_bound "
     "alpha min_tokens_per_chip min_batch_tokens tokens_per_chip batch_compute_bound max_chips "
     "net_bytes_per_s",
     data_parallel},
    {"tensor_parallel", 5,
     "TP over Y chips on `axes` axes: activations move (forward pass); domain: "
     "chips of the fast network of which there are two",
     "T_math = 4 B D F / (Y C); T_comms = 4 B D / (W axes); compute-bound where Y < axes F / "
     "alpha; two nodes: Y < domain + F / alpha, alpha = C / W_node",
     "B D F Y axes=1 flops_per_s net_bytes_per_s alpha domain=8 node_bytes_per_s",
     "math_s comms_s time_s compute_bound alpha max_ways min_F two_node_max_ways backward_math_s "
     "backward_comms_s",
     tensor_parallel},
    {"fsdp_tp", 5, "FSDP over X and TP over Y = N/X, M_X and M_Y axes; X: the best where not given",
     "T_fsdp = 4 D F / (Y W M_X); T_tp = 4 B D / (X W M_Y); T_math = 4 B D F / (N C); X_opt = "
     "sqrt(B/F M_X/M_Y N), at most N and at least 1 for the times; compute-bound where B/N > "
     "alpha^2 / (M_X M_Y F), or 4 times that where "
     "weights and activations move one after the other",
     "B D F N X M_X=2 M_Y=1 flops_per_s net_bytes_per_s alpha",
     "fsdp_s tp_s math_s comms_s compute_bound optimal_X optimal_Y min_tokens_per_chip "
     "tokens_per_chip batch_compute_bound min_batch_tokens math_over_comms alpha max_chips "
     "serial_comms_s "
     "serial_min_tokens_per_chip",
     fsdp_tp},
    {"layer_bytes", 5, "bytes a layer moves under each strategy, forward and backward",
     "DP 8 D F; FSDP 4 D F + 8 D F; TP 4 B D + 4 B D; mixed: weights / Y, activations / X",
     "B D F X Y bytes_per_element=2",
     "dp_bytes fsdp_forward_bytes fsdp_backward_bytes fsdp_bytes tp_forward_bytes "
     "tp_backward_bytes "
     "tp_bytes mixed_fsdp_bytes mixed_tp_bytes mixed_tp_regather_bytes mixed_tp_printed_bytes",
     layer_bytes},
    {"layer_compute", 5, "FLOPs of a layer per chip",
     "forward 4 B D F / (X Y); backward twice that", "B D F X=1 Y=1 flops_per_s",
     "forward_flops backward_flops train_flops forward_s backward_s", layer_compute},
    {"cross_pod", 5, "DP between pods of M chips over the data-centre network",
     "T_comms = 8 D F / (M W_dcn); compute-bound where B / pods > C / W_dcn",
     "B pods=1 chips_per_pod flops_per_s dcn_bytes_per_s hosts_per_pod host_egress_bytes_per_s D F",
     "min_tokens_per_pod tokens_per_pod compute_bound comms_s math_s tokens_per_chip "
     "min_batch_tokens",
     cross_pod},
    {"expert_parallel", 12, "experts over Z chips, k of them a token; domain: chips of a node",
     "T_math = 4 B k D F / (Z C); T_comms = 4 B D (Z - 8)/(W Z) min(8 k/Z, 1); F > alpha (Z - "
     "8)/k; "
     "wide: F > 8 alpha",
     "B D F k Z flops_per_s net_bytes_per_s alpha domain=8",
     "math_s comms_s time_s compute_bound min_F wide_min_F", expert_parallel},
    {"dp_or_tp", 5,
     "the batch at which DP's gradients and TP's activations are as many bytes; passes: 2, an "
     "AllReduce of all weights, or 3 for FSDP; blocks of a layer that TP gathers before and "
     "scatters "
     "after, forward and backward",
     "DP 2 s P; TP 4 s L blocks B D; equal at B = P / (2 L blocks D), for a layer of W_in and "
     "W_out "
     "at B = F",
     "params L=1 D blocks=1 passes=2 bytes_per_element=2 B",
     "dp_bytes tp_bytes equal_batch_tokens dp_moves_less", dp_or_tp},
    {"pipeline", 5, "p stages, m microbatches",
     "makespan = (m + p - 1)(f + b); bubble = (p - 1)/(m + p - 1); hop = s B D / (W m); hops = m + "
     "p - 2; a bubble of at most b: m = (p - 1)(1 - b)/b",
     "stages microbatches forward_time backward_time B D net_bytes_per_s L bytes_per_element=2 "
     "largest_bubble",
     "makespan busy bubble_share bubble hop_s hops transfers_s per_layer_s large_per_layer_s "
     "efficiency least_microbatches",
     pipeline},
    {"two_levels", 12,
     "a fast domain and a network outside it: the balance of each; model_ways: as "
     "in data_parallel; other_alpha: of a machine to compare with; nodes: of a group that is not "
     "large",
     "alpha = C / W_inside and C / W_outside, x (M - 1)/M over M nodes; the larger binds",
     "flops_per_s chip_bytes_per_s node_bytes_per_s other_alpha model_ways=1 nodes",
     "inside_alpha outside_alpha binding_alpha gain outside_bytes_per_s nodes_alpha", two_levels},
    {"gather_or_reduce", 3, "X[B, D] . Y[D_X, F]: AllGather Y, or multiply and AllReduce",
     "gather: 2 B D F / C and s D F / W; reduce: 2 B D F / (X C) and 2 s B F / W; reduce is less "
     "communication where D > 2 B",
     "B D F X flops_per_s net_bytes_per_s bytes_per_element=2",
     "gather_math_s gather_comms_s reduce_math_s reduce_comms_s gather_s reduce_s "
     "equal_comms_batch_tokens min_D reduce_wins",
     gather_or_reduce},
    {"sharded_matmul", 3,
     "A[I, J] . B[J, K] over N chips: what gathering an operand or combining the "
     "result costs on `axes` axes",
     "gather A: s I J / (W axes); gather B: s J K / (W axes); AllGather C: s I K; AllReduce C: 2 s "
     "I K",
     "I J K N=1 axes=1 flops_per_s net_bytes_per_s bytes_per_element=2",
     "replicated_math_s math_s gather_a_s gather_b_s best_gather_s gather_c_s reduce_c_s "
     "gathered_total_s reduced_total_s a_bytes b_bytes c_bytes gather_a_over_scatter_c "
     "gather_b_over_scatter_c flops chip_flops",
     sharded_matmul},
    {"collective_matmul", 3,
     "X[B_X, D_Y] . W[D, F_Y] that multiplies a chunk while the next travels",
     "Y products, Y - 1 permutes of s B/X D/Y bytes; both ways at once half as many",
     "B D F X=1 Y bytes_per_element=2 flops_per_s link_bytes_per_s directions=1",
     "local_rows local_cols local_out_cols products permutes permute_bytes chip_flops math_s "
     "permutes_s overlapped_s serial_s",
     collective_matmul},
};
const int pl_n_formulas_strategy = sizeof pl_formulas_strategy / sizeof *pl_formulas_strategy;
