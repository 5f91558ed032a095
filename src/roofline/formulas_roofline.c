/* Section 1: what bounds an operation, and matrix products above all. */
#include "config.h"

#include "src/roofline/formula.h"

#include <math.h>

/* out[0..4]: math_s comms_s lower_s upper_s gap */
static void bounds(double math_s, double comms_s, double *out)
{
    out[0] = math_s;
    out[1] = comms_s;
    out[2] = pl_known_max(math_s, comms_s);
    out[3] = math_s + comms_s;
    out[4] = out[3] / out[2];
}

static void roofline(const double *in, double *out)
{
    const double flops = in[0], bytes = in[1], C = in[2], W = in[3];

    bounds(flops / C, bytes / W, out);
    out[5] = flops / bytes;
    out[6] = C / W;
    out[7] = pl_known_greater(flops / C, bytes / W);
}

static void matmul(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], x = in[3], w = in[4], y = in[5];
    const double n_weights = in[6], C = in[7], W = in[8];
    const double flops = 2 * B * D * F, loaded = x * B * D + w * D * F * n_weights;

    bounds(flops / C, (loaded + y * B * F) / W, out);
    out[5] = flops;
    out[6] = B * F * (2 * D - 1);
    out[7] = 2 * flops;
    out[8] = 3 * flops;
    out[9] = loaded;
    out[10] = y * B * F;
    out[11] = loaded + y * B * F;
    out[12] = flops / out[11];
    out[13] = out[6] / out[11];
    out[14] = pl_known_greater(out[0], out[1]);
    /* where B (2 D F / C - (x D + y F) / W) = w D F / W */
    const double per_token = 2 * D * F / C - (x * D + y * F) / W;
    out[15] = per_token > 0 ? w * D * F / W / per_token : per_token <= 0 ? INFINITY : NAN;
    out[16] = w * C / (2 * W);
}

static void tiled_matmul(const double *in, double *out)
{
    const double m = in[0], k = in[1], n = in[2], bm = in[3], bk = in[4], bn = in[5];
    const double size = in[6];
    const double tm = ceil(m / bm), tk = ceil(k / bk), tn = ceil(n / bn);

    out[0] = 2 * tm * tn * tk * bm * bn * bk;
    out[1] = size * tm * tn * (tk * (bm * bk + bk * bn) + bm * bn);
    out[2] = out[0] / out[1];
    out[3] = 2 / size * bm * bn / (bm + bn);
}

static void split_contraction(const double *in, double *out)
{
    const double B = in[0], D = in[1], F = in[2], n = in[3], size = in[4], C = in[5], W = in[6];

    bounds(2 * B * D * F / (n * C), size * B * F / W, out);
    out[5] = size * C / (2 * W);
    out[6] = n * out[5];
}

static void attention_intensity(const double *in, double *out)
{
    const double S = in[0], T = in[1], G = in[2], balance = in[3], size = in[4];

    out[0] = 2 / size * S * T * G / (S + T * G);
    out[1] = size / 2 * balance * (G + 1) / G;
}

static void vector_lanes(const double *in, double *out)
{
    const double n = in[0], lanes = in[1], units = in[2];

    out[0] = fmin(ceil(n / lanes), units);
    out[1] = units / out[0];
}

const pl_formula pl_formulas_roofline[] = {
    {"roofline", 1, "an operation of known FLOPs and bytes",
     "T_math = flops / C; T_comms = bytes / W; max <= T <= sum; intensity = flops / bytes; "
     "balance = C / W",
     "flops bytes flops_per_s bytes_per_s",
     "math_s comms_s lower_s upper_s gap intensity_flops_per_byte balance_flops_per_byte "
     "compute_bound",
     roofline},
    {"matmul", 1,
     "X[B, D] . W[D, F] -> Y[B, F] on one chip (weights: how many W's, one a batch row)",
     "flops = 2 B D F; bytes = x B D + w D F + y B F; B_crit: 2 B D F / C = bytes / W, about "
     "w C / (2 W) where B << D, F",
     "B D F x_bytes=2 w_bytes=2 y_bytes=2 weights=1 flops_per_s hbm_bytes_per_s",
     "math_s comms_s lower_s upper_s gap forward_flops exact_flops backward_flops train_flops "
     "loaded_bytes written_bytes total_bytes intensity_flops_per_byte "
     "exact_intensity_flops_per_byte compute_bound critical_batch_tokens "
     "large_critical_batch_tokens",
     matmul},
    {"tiled_matmul", 1, "a product [m, k] . [k, n] by tiles bm, bk, bn: what is loaded and stored",
     "bytes = s tm tn (tk (bm bk + bk bn) + bm bn); intensity about (2/s) bm bn / (bm + bn)",
     "m k n bm bk bn bytes_per_element=2",
     "flops total_bytes intensity_flops_per_byte large_intensity_flops_per_byte", tiled_matmul},
    {"split_contraction", 1, "D split over chips that exchange partial sums",
     "T_math = 2 B D F / (n C); T_comms = s B F / W; compute-bound where D > n s C / (2 W)",
     "B D F chips=2 bytes_per_element=2 flops_per_s link_bytes_per_s",
     "math_s comms_s lower_s upper_s gap min_D_per_chip min_D", split_contraction},
    {"attention_intensity", 7, "attention of T queries on S keys, G query heads a key/value head",
     "intensity = (2/s) S T G / (S + T G); compute-bound where T = S > (s/2) balance (G + 1) / G",
     "S T G=1 balance_flops_per_byte bytes_per_element=2",
     "intensity_flops_per_byte compute_bound_tokens", attention_intensity},
    {"vector_lanes", 12, "a vector operation too small for the chip",
     "units = ceil(n / lanes); slowdown = all units / units used", "n lanes_per_unit units",
     "units_used slowdown", vector_lanes},
};
const int pl_n_formulas_roofline = sizeof pl_formulas_roofline / sizeof *pl_formulas_roofline;
