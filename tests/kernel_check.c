#include "config.h"

#include "tests/kernel_check.h"

#include <string.h>

enum { BF16_SENTINEL = 0x4641 };

int use_isa(int isa)
{
    if (!pl_isa_covers(pl_isa_best(), (pl_isa)isa))
        return 0;
    pl_isa_set((pl_isa)isa);
    return 1;
}

/* --- inputs --- */

double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

void *keep(void *array)
{
    static void *kept[256];
    static int n_kept;

    if (n_kept < (int)(sizeof kept / sizeof kept[0]))
        kept[n_kept++] = array;
    return array;
}

float *floats(int64_t n, uint64_t seed, double low, double high)
{
    float *x = keep(pl_alloc((size_t)(n + 1) * sizeof *x));
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(low + (high - low) * uniform(&state));
    return x;
}

float *sentinels(int64_t n)
{
    float *x = keep(pl_alloc((size_t)(n + 1) * sizeof *x));

    for (int64_t i = 0; i <= n; i++)
        x[i] = SENTINEL;
    return x;
}

static float input_element(input kind, int64_t row, int64_t column, int64_t width, double huge,
                           uint64_t *state)
{
    const double x = 2.0 * uniform(state) - 1.0, sign = x < 0.0 ? -1.0 : 1.0;

    switch (kind) {
    case DENORMAL:
        return (float)(x * 0x1p-130) * (column % 5 == 0 ? 0.0f : 1.0f);
    case ALL_ZERO:
        return 0.0f;
    case ALL_EQUAL:
        return 0.3f;
    case ONE_HOT:
        return column == row * 7 % width ? -3.0f : 0.0f;
    case HUGE_SIZES:
        return (float)(sign * huge * (0.5 + 0.5 * fabs(x)));
    case ALL_SIZES:
        return (float)ldexp(sign * (0.5 + 0.5 * fabs(x)), (int)((row + column) * 37 % 121) - 60);
    default:
        return (float)x;
    }
}

float *inputs(input kind, int64_t n, int64_t width, uint64_t seed, double huge)
{
    float *x = floats(n, seed, 0.0, 0.0);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = input_element(kind, i / width, i % width, width, huge, &state);
    return x;
}

float *mixed_inputs(int64_t n, int64_t width, uint64_t seed, double huge)
{
    float *x = floats(n, seed, 0.0, 0.0);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = input_element(input_of_row(i / width), i / width, i % width, width, huge, &state);
    return x;
}

float non_finite(int i)
{
    static const float all[N_NON_FINITE] = {INFINITY, -INFINITY, NAN};

    return all[i % N_NON_FINITE];
}

double *widened(int64_t n, const float *x)
{
    double *wide = keep(pl_alloc((size_t)n * sizeof *wide));

    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)x[i];
    return wide;
}

/* --- against f64 --- */

void judge(verdict *v, double got, double want, double bound)
{
    const double error = fabs(got - want);

    v->n_seen++;
    if (error <= bound + LEAST) { /* false for NaN */
        if (error > 0.0 && error / (bound + LEAST) > v->worst)
            v->worst = error / (bound + LEAST);
        return;
    }
    if (v->n_wrong++ == 0)
        fprintf(stderr, "element %lld: got %.9g, want %.9g, error %.3g, bound %.3g\n",
                (long long)v->n_seen - 1, got, want, error, bound);
}

double difference(double (*loss)(const void *context), const void *context, double *x, double h)
{
    const double at = *x;

    *x = at + h;
    const double above = loss(context);

    *x = at - h;
    const double below = loss(context);

    *x = at;
    return (above - below) / (2.0 * h);
}

void judge_bf16(verdict *v, pl_bf16 got, double want, double bound)
{
    const double most = fabs(want) + bound, least_normal = 0x1p-126;
    const double half_ulp = most > least_normal ? ldexp(1.0, ilogb(most) - 8) : least_normal;

    judge(v, (double)pl_bf16_to_f32(got), want, bound + half_ulp);
}

/* --- bf16 --- */

both both_of(int64_t n, float *wide)
{
    both x = {keep(pl_alloc((size_t)(n + 1) * sizeof(pl_bf16))), wide};

    for (int64_t i = 0; i < n; i++) {
        x.narrow[i] = pl_bf16_of_f32(wide[i]);
        wide[i] = pl_bf16_to_f32(x.narrow[i]);
    }
    x.narrow[n] = BF16_SENTINEL;
    return x;
}

both values(int64_t n, uint64_t seed, double low, double high, int n_ends)
{
    static const float ends[] = {0.0f,        -0.0f,        0x1p-133f, -0x1.fcp-127f, 0x1p-126f,
                                 0x1.fep127f, -0x1.fep127f, INFINITY,  -INFINITY,     NAN};
    float *x = floats(n, seed, low, high);

    for (int i = 0; i < n_ends && i < n; i++)
        x[i] = ends[(i + (int)seed) % (int)(sizeof ends / sizeof *ends)];
    return both_of(n, x);
}

void check_rounded(const char *what, int64_t n, both x)
{
    for (int64_t i = 0; i < n; i++) {
        const pl_bf16 want = pl_bf16_of_f32(x.wide[i]);

        ck_assert_msg(x.narrow[i] == want ||
                          (isnan(x.wide[i]) && isnan(pl_bf16_to_f32(x.narrow[i]))),
                      "%s[%lld]: bits %04x, want %04x", what, (long long)i, x.narrow[i], want);
    }
    ck_assert_msg(x.narrow[n] == BF16_SENTINEL, "%s: written beyond its end", what);
}

void check_equal(const char *what, int64_t n, const float *of_bf16, const float *of_f32)
{
    for (int64_t i = 0; i <= n; i++)
        ck_assert_msg(memcmp(of_bf16 + i, of_f32 + i, sizeof *of_f32) == 0 ||
                          (isnan(of_bf16[i]) && isnan(of_f32[i])),
                      "%s[%lld]: %.9g, want %.9g", what, (long long)i, (double)of_bf16[i],
                      (double)of_f32[i]);
}
