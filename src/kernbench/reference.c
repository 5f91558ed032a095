#include "config.h"

#include "src/kernbench/reference.h"

#include "kernels/lanes.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>

static const double unit = 0x1p-24;

/* An exponential of kernels/lanes.h is within 2 ulp: 4 u. */
enum { EXP_ROUNDINGS = 4, LANES = 16, SUMS = 64, LEVELS = 6 /* of sums, added pairwise */ };

/* The error of an exponential of at least e^-86.5. */
static double exp_error(const pl_verdict *v)
{
    return v->c->dtype == PL_BF16 ? PL_EXP_NARROW_ERROR : pl_gamma(EXP_ROUNDINGS);
}

double pl_gamma(double n)
{
    return n * unit / (1 - n * unit);
}

void pl_expect(pl_verdict *v, int k, int64_t i, double expected, double tolerance)
{
    const pl_array *out = &v->c->out[k];
    const double own = out->dtype == PL_BF16 ? 0x1p-8 * fabs(expected) * (1 + 0x1p-7) : 0;
    const double found = pl_array_element(out, i);

    if (fabs(found - expected) <= tolerance + own)
        return;
    if (v->wrong++ > 0)
        return;
    v->output = k;
    v->element = i;
    v->expected = expected;
    v->tolerance = tolerance + own;
}

static double at(const pl_verdict *v, int input, int64_t i)
{
    return pl_array_element(&v->in[input], i);
}

/* ---- elementwise */

static void compare_add(pl_verdict *v)
{
    for (int64_t i = 0; i < v->c->out[0].n; i++) {
        const double y = at(v, 0, i) + at(v, 1, i);

        pl_expect(v, 0, i, y, pl_gamma(1) * fabs(y));
    }
}

/* Within the rounding to the output's type. */
static void compare_convert(pl_verdict *v)
{
    for (int64_t i = 0; i < v->c->out[0].n; i++)
        pl_expect(v, 0, i, at(v, 0, i), 0);
}

/* The accumulator was 0. */
static void compare_accumulate(pl_verdict *v)
{
    for (int64_t i = 0; i < v->c->out[0].n; i++)
        pl_expect(v, 0, i, at(v, 0, i), 0);
}

static void compare_swiglu(pl_verdict *v)
{
    for (int64_t i = 0; i < v->c->out[0].n; i++) {
        const double g = at(v, 0, i), a = g / (1 + exp(-g)) * at(v, 1, i);

        pl_expect(v, 0, i, a, (exp_error(v) + pl_gamma(5)) * fabs(a));
    }
}

/* dg = da u s (1 + g (1 - s)): the bracket may cancel, so its terms are what errors are part of. */
static void compare_swiglu_backward(pl_verdict *v)
{
    for (int64_t i = 0; i < v->c->out[0].n; i++) {
        const double da = at(v, 0, i), g = at(v, 1, i), u = at(v, 2, i), s = 1 / (1 + exp(-g));
        const double bracket = 1 + fabs(g) * (1 - s);

        pl_expect(v, 0, i, da * u * s * (1 + g * (1 - s)),
                  (2 * exp_error(v) + pl_gamma(12)) * fabs(da * u * s) * bracket);
        pl_expect(v, 1, i, da * g * s, (exp_error(v) + pl_gamma(5)) * fabs(da * g * s));
    }
}

/* In f64, rounded once. */
static void compare_sum_squares(pl_verdict *v)
{
    const double n = (double)v->in[0].n;
    double sum = 0;

    for (int64_t i = 0; i < v->in[0].n; i++)
        sum += at(v, 0, i) * at(v, 0, i);
    pl_expect(v, 0, 0, sum, (pl_gamma(1) + 2 * n * 0x1p-53) * sum);
}

static void compare_adamw(pl_verdict *v)
{
    const double *number = v->c->op->number;
    const double scale = at(v, 4, 0), lr = at(v, 5, 0), bias1 = at(v, 6, 0), bias2 = at(v, 7, 0);
    const bool has_master = v->c->op->n_out == 4;

    for (int64_t i = 0; i < v->c->out[0].n; i++) {
        const double p = at(v, has_master ? 8 : 0, i), g = scale * at(v, 1, i), m = at(v, 2, i),
                     w = at(v, 3, i);
        const double m_1 = m + (1 - number[0]) * (g - m);
        const double w_1 = number[1] * w + (1 - number[1]) * g * g;
        const double root = sqrt(w_1) / sqrt(bias2) + number[2];
        const double step = lr / bias1 * m_1 / root, kept = (1 - lr * number[3]) * p;
        /* g: 1 rounding; g - m: 2; times its rate: 4; added: 5 */
        const double m_error = pl_gamma(5) * (fabs(m) + fabs(g));
        const double w_error = pl_gamma(6) * w_1;

        pl_expect(v, 1, i, m_1, m_error);
        pl_expect(v, 2, i, w_1, w_error);
        /* the root halves w's error; root, quotients, product and their scalars: 7 more */
        const double p_error = lr / bias1 * m_error / root + pl_gamma(3 + 7) * fabs(step) +
                               pl_gamma(3) * (fabs(kept) + fabs(step));

        pl_expect(v, 0, i, kept - step, p_error);
        if (has_master)
            pl_expect(v, 3, i, kept - step, p_error);
    }
}

/* ---- rows */

static void compare_rmsnorm(pl_verdict *v)
{
    const int64_t D = v->in[1].n;

    for (int64_t r = 0; r < v->c->out[1].n; r++) {
        double sum = 0;

        for (int64_t d = 0; d < D; d++)
            sum += at(v, 0, r * D + d) * at(v, 0, r * D + d);
        const double rstd = 1 / sqrt(sum / (double)D + v->c->op->number[0]);
        /* a root halves what D squares and the division add up to */
        const double n = ((double)D / LANES + LANES + 3) / 2 + 3;

        pl_expect(v, 1, r, rstd, pl_gamma(n) * rstd);
        for (int64_t d = 0; d < D; d++) {
            const double y = at(v, 0, r * D + d) * rstd * at(v, 1, d);

            pl_expect(v, 0, r * D + d, y, pl_gamma(n + 2) * fabs(y));
        }
    }
}

/* dx = base + g dy rstd - x (sum of g dy x) rstd^3 / D; dg adds dy x rstd over the rows. */
static void compare_rmsnorm_backward(pl_verdict *v)
{
    const int64_t D = v->in[2].n, R = v->in[3].n;
    double *dg = pl_alloc((size_t)D * sizeof *dg), *size = pl_alloc((size_t)D * sizeof *size);

    for (int64_t r = 0; r < R; r++) {
        const double rstd = at(v, 3, r), cube = rstd * rstd * rstd / (double)D;
        double sum = 0, sum_size = 0;

        for (int64_t d = 0; d < D; d++) {
            const double dyx = at(v, 0, r * D + d) * at(v, 1, r * D + d);

            sum += at(v, 2, d) * dyx;
            sum_size += fabs(at(v, 2, d) * dyx);
            dg[d] += dyx * rstd;
            size[d] += fabs(dyx * rstd);
        }
        for (int64_t d = 0; d < D; d++) {
            const double x = at(v, 1, r * D + d), base = at(v, 4, r * D + d);
            const double direct = at(v, 0, r * D + d) * at(v, 2, d) * rstd, pull = x * sum * cube;
            const double n = (double)D / LANES + LANES + 9;

            pl_expect(v, 0, r * D + d, base + (direct - pull),
                      pl_gamma(4) * (fabs(base) + fabs(direct) + fabs(pull)) +
                          pl_gamma(n) * fabs(x * cube) * sum_size);
        }
    }
    for (int64_t d = 0; d < D; d++)
        pl_expect(v, 1, d, dg[d], pl_gamma((double)R + 3) * size[d]);
    pl_free(dg);
    pl_free(size);
}

/* sign 1: forward; -1: backward. */
static void compare_rope(pl_verdict *v, double sign)
{
    const pl_extents *e = &v->c->out[0].extents;
    const int64_t N = e->n[2], H = e->n[3], half = H / 2;

    for (int64_t r = 0; r < e->n[0] * e->n[1] * N; r++)
        for (int64_t i = 0; i < half; i++) {
            const int64_t angle = (int64_t)at(v, 1, r / N) * half + i;
            const double c = at(v, 2, angle), s = sign * at(v, 3, angle);
            const double a = at(v, 0, r * H + i), b = at(v, 0, r * H + i + half);

            pl_expect(v, 0, r * H + i, a * c - b * s, pl_gamma(2) * (fabs(a * c) + fabs(b * s)));
            pl_expect(v, 0, r * H + i + half, b * c + a * s,
                      pl_gamma(2) * (fabs(b * c) + fabs(a * s)));
        }
}

static void compare_embed(pl_verdict *v)
{
    const int64_t D = v->in[1].extents.n[1];

    for (int64_t r = 0; r < v->in[0].n; r++)
        for (int64_t d = 0; d < D; d++)
            pl_expect(v, 0, r * D + d, at(v, 1, (int64_t)at(v, 0, r) * D + d), 0);
}

static void compare_embed_backward(pl_verdict *v)
{
    const int64_t D = v->c->out[0].extents.n[1], n = v->c->out[0].n;
    double *sum = pl_alloc((size_t)n * sizeof *sum), *size = pl_alloc((size_t)n * sizeof *size);
    int64_t *rows = pl_alloc((size_t)n * sizeof *rows);

    for (int64_t r = 0; r < v->in[0].n; r++)
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = (int64_t)at(v, 0, r) * D + d;

            sum[i] += at(v, 1, r * D + d);
            size[i] += fabs(at(v, 1, r * D + d));
            rows[i]++;
        }
    for (int64_t i = 0; i < n; i++)
        pl_expect(v, 0, i, sum[i], pl_gamma((double)rows[i]) * size[i]);
    pl_free(sum);
    pl_free(size);
    pl_free(rows);
}

/* ---- cross-entropy */

static void compare_xent_max(pl_verdict *v)
{
    const int64_t V = v->in[0].extents.n[2];

    for (int64_t r = 0; r < v->c->out[0].n; r++) {
        double most = -INFINITY;

        for (int64_t i = 0; i < V; i++)
            most = fmax(most, at(v, 0, r * V + i));
        pl_expect(v, 0, r, most, 0);
    }
}

/* exp(logit - m): one rounding of the difference, which is at most 1 here, then its own. */
static void compare_xent_sum(pl_verdict *v)
{
    const int64_t V = v->in[0].extents.n[2];

    for (int64_t r = 0; r < v->c->out[0].n; r++) {
        double sum = 0;

        for (int64_t i = 0; i < V; i++)
            sum += exp(at(v, 0, r * V + i) - at(v, 2, r));
        pl_expect(v, 0, r, sum, (exp_error(v) + pl_gamma((double)V / SUMS + LEVELS + 2)) * sum);
        pl_expect(v, 1, r, at(v, 0, r * V + (int64_t)at(v, 1, r)), 0);
    }
}

static void compare_xent_grad(pl_verdict *v)
{
    const int64_t V = v->in[0].extents.n[2];
    const double scale = at(v, 4, 0);

    for (int64_t r = 0; r < v->in[1].n; r++)
        for (int64_t i = 0; i < V; i++) {
            const double p = exp(at(v, 0, r * V + i) - at(v, 2, r)) / at(v, 3, r);
            const double target = (int64_t)at(v, 1, r) == i;

            pl_expect(v, 0, r * V + i, scale * (p - target),
                      (exp_error(v) + pl_gamma(6)) * scale * (p + target));
        }
}

void pl_reference_compare(pl_verdict *v)
{
    switch (v->c->op->kind) {
    case PL_ADD:
        compare_add(v);
        break;
    case PL_ACCUMULATE:
        compare_accumulate(v);
        break;
    case PL_RESHARD:
        compare_convert(v);
        break;
    case PL_SWIGLU:
        compare_swiglu(v);
        break;
    case PL_SWIGLU_BACKWARD:
        compare_swiglu_backward(v);
        break;
    case PL_SUM_SQUARES:
        compare_sum_squares(v);
        break;
    case PL_ADAMW:
        compare_adamw(v);
        break;
    case PL_RMSNORM:
        compare_rmsnorm(v);
        break;
    case PL_RMSNORM_BACKWARD:
        compare_rmsnorm_backward(v);
        break;
    case PL_ROPE:
        compare_rope(v, 1);
        break;
    case PL_ROPE_BACKWARD:
        compare_rope(v, -1);
        break;
    case PL_EMBED:
        compare_embed(v);
        break;
    case PL_EMBED_BACKWARD:
        compare_embed_backward(v);
        break;
    case PL_XENT_MAX:
        compare_xent_max(v);
        break;
    case PL_XENT_SUM:
        compare_xent_sum(v);
        break;
    case PL_XENT_GRAD:
        compare_xent_grad(v);
        break;
    case PL_ATTENTION:
        pl_reference_attention(v);
        break;
    case PL_ATTENTION_BACKWARD:
        pl_reference_attention_backward(v);
        break;
    default:
        PL_PANIC("%s has no reference", v->c->kernel->name);
    }
}
