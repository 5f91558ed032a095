/* What a kernel costs -- FLOPs and bytes as predictions and ./kernbench have them, by the cost
 * functions of the operations -- is what its docstring in kernels/ says. */
#include "config.h"

#include "src/kernbench/case.h"
#include "tests/check_main.h"

#include <string.h>

/** A docstring: formulas of the kernel's sizes, w being the bytes of an element of its type. */
typedef struct {
    const char *kernel;
    int64_t size[PL_CASE_SIZES];
    double (*flops)(const int64_t *z);
    double (*bytes)(const int64_t *z, double w);
} docstring;

/* --- kernels/matmul.h: M, N, K; of bf16 too, "matmul" is summed into f32 --- */

static double matmul_flops(const int64_t *z)
{
    return 2.0 * (double)(z[0] * z[1] * z[2]);
}

static double matmul_bytes(const int64_t *z, double w)
{
    return w * (double)(z[0] * z[2] + z[2] * z[1]) + 4.0 * (double)(z[0] * z[1]);
}

/* --- kernels/attention.h: T, B, N, K, H; lse is f32 --- */

static double attention_flops(const int64_t *z)
{
    return 2.0 * (double)(z[1] * z[2] * z[4] * z[0] * (z[0] + 1));
}

static double attention_bytes(const int64_t *z, double w)
{
    const double T = (double)z[0], B = (double)z[1], N = (double)z[2], K = (double)z[3],
                 H = (double)z[4];

    return (N + 2 * K) * T * B * H * w + N * H * T * B * w + N * T * B * 4;
}

static double attention_backward_flops(const int64_t *z)
{
    return 5.0 * (double)(z[1] * z[2] * z[4] * z[0] * (z[0] + 1));
}

static double attention_backward_bytes(const int64_t *z, double w)
{
    const double T = (double)z[0], B = (double)z[1], N = (double)z[2], K = (double)z[3],
                 H = (double)z[4];

    return (3 * N + 2 * K) * T * B * H * w + N * T * B * 4 + (N + 2 * K) * T * B * H * w;
}

/* --- kernels/norm.h: R, D; rstd and dg are f32, base is there --- */

static double rmsnorm_flops(const int64_t *z)
{
    return 4.0 * (double)(z[0] * z[1]);
}

static double rmsnorm_bytes(const int64_t *z, double w)
{
    return (double)((z[0] + 1) * z[1]) * w + (double)(z[0] * z[1]) * w + (double)z[0] * 4;
}

static double rmsnorm_backward_flops(const int64_t *z)
{
    return 11.0 * (double)(z[0] * z[1]);
}

static double rmsnorm_backward_bytes(const int64_t *z, double w)
{
    const double R = (double)z[0], D = (double)z[1];

    return (3 * R * D + D) * w + R * 4 + R * D * w + D * 4;
}

/* --- kernels/rope.h: R, N, H --- */

static double rope_flops(const int64_t *z)
{
    return 3.0 * (double)(z[0] * z[1] * z[2]);
}

static double rope_bytes(const int64_t *z, double w)
{
    return 2.0 * (double)(z[0] * z[1] * z[2]) * w;
}

/* --- kernels/swiglu.h: R, F, n = R F --- */

static double swiglu_flops(const int64_t *z)
{
    return 5.0 * (double)(z[0] * z[1]);
}

static double swiglu_bytes(const int64_t *z, double w)
{
    return (2 + 1) * (double)(z[0] * z[1]) * w;
}

static double swiglu_backward_flops(const int64_t *z)
{
    return 10.0 * (double)(z[0] * z[1]);
}

static double swiglu_backward_bytes(const int64_t *z, double w)
{
    return (3 + 2) * (double)(z[0] * z[1]) * w;
}

/* --- kernels/embed.h: R, V, D; de is f32, and starts here --- */

static double no_flops(const int64_t *z)
{
    (void)z;
    return 0.0;
}

static double embed_bytes(const int64_t *z, double w)
{
    return 2.0 * (double)(z[0] * z[2]) * w;
}

static double embed_backward_flops(const int64_t *z)
{
    return (double)(z[0] * z[2]);
}

static double embed_backward_bytes(const int64_t *z, double w)
{
    const double RD = (double)(z[0] * z[2]), VD = (double)(z[1] * z[2]);

    return 2 * RD * 4 - RD * (4 - w) + RD * 4 + VD * 4;
}

/* --- kernels/xent.h: R, V; all but logits and their gradient is f32 or int32 --- */

static double xent_max_flops(const int64_t *z)
{
    return (double)(z[0] * z[1]);
}

static double xent_max_bytes(const int64_t *z, double w)
{
    return (double)(z[0] * z[1]) * w + (double)z[0] * 4;
}

static double xent_flops(const int64_t *z)
{
    return 2.0 * (double)(z[0] * z[1]);
}

static double xent_sum_bytes(const int64_t *z, double w)
{
    return (double)(z[0] * z[1]) * w + (2 + 2) * (double)z[0] * 4;
}

static double xent_grad_bytes(const int64_t *z, double w)
{
    return 2 * (double)(z[0] * z[1]) * w + 3 * (double)z[0] * 4 + 4;
}

/* --- kernels/elementwise.h, kernels/adamw.h: n --- */

static double one_flop(const int64_t *z)
{
    return (double)z[0];
}

static double add_bytes(const int64_t *z, double w)
{
    return 3 * (double)z[0] * w;
}

static double sum_squares_flops(const int64_t *z)
{
    return 2.0 * (double)z[0];
}

/** And the sum, which the operation stores. */
static double sum_squares_bytes(const int64_t *z, double w)
{
    return (double)z[0] * w + 4;
}

static double adamw_flops(const int64_t *z)
{
    return 15.0 * (double)z[0];
}

/** Of f32 whatever the weight's type; a bf16 weight is written too. */
static double adamw_bytes(const int64_t *z, double w)
{
    return (4 + 3) * (double)z[0] * 4 + (w < 4 ? (double)z[0] * 2 : 0);
}

/** From f32 to bf16, or, where the case is of f32, the other way. */
static double convert_bytes(const int64_t *z, double w)
{
    (void)w;
    return (double)z[0] * 4 + (double)z[0] * 2;
}

static const docstring docstrings[] = {
    {"matmul", {17, 19, 23}, matmul_flops, matmul_bytes},
    {"attention", {70, 2, 6, 3, 16}, attention_flops, attention_bytes},
    {"attention_backward", {70, 2, 6, 3, 16}, attention_backward_flops, attention_backward_bytes},
    {"rmsnorm", {9, 40}, rmsnorm_flops, rmsnorm_bytes},
    {"rmsnorm_backward", {9, 40}, rmsnorm_backward_flops, rmsnorm_backward_bytes},
    {"rope", {9, 2, 8}, rope_flops, rope_bytes},
    {"rope_backward", {9, 2, 8}, rope_flops, rope_bytes},
    {"swiglu", {5, 33}, swiglu_flops, swiglu_bytes},
    {"swiglu_backward", {5, 33}, swiglu_backward_flops, swiglu_backward_bytes},
    {"embed", {11, 7, 24}, no_flops, embed_bytes},
    {"embed_backward", {11, 7, 24}, embed_backward_flops, embed_backward_bytes},
    {"xent_max", {6, 37}, xent_max_flops, xent_max_bytes},
    {"xent_sum", {6, 37}, xent_flops, xent_sum_bytes},
    {"xent_grad", {6, 37}, xent_flops, xent_grad_bytes},
    {"add", {101}, one_flop, add_bytes},
    {"sum_squares", {101}, sum_squares_flops, sum_squares_bytes},
    {"adamw", {101}, adamw_flops, adamw_bytes},
    {"convert", {101}, no_flops, convert_bytes},
};
enum { N_DOCSTRINGS = sizeof docstrings / sizeof *docstrings };

START_TEST(costs_are_what_docstrings_say)
{
    const docstring *d = &docstrings[_i];
    const pl_kernel *kernel = pl_kernel_find(d->kernel);

    ck_assert_ptr_nonnull(kernel);
    for (int dtype = 0; dtype < 2; dtype++) {
        const pl_dtype type = dtype == 0 ? PL_F32 : PL_BF16;
        pl_case c;

        if (!kernel->in_dtype[type])
            continue;
        pl_case_open(&c, kernel, PL_GROUP_OTHER, type, d->size);
        ck_assert_msg(c.cost.flops == d->flops(d->size), "%s in %s: %.0f FLOPs, %.0f documented",
                      d->kernel, pl_dtype_short(type), c.cost.flops, d->flops(d->size));
        ck_assert_msg(c.cost.bytes == d->bytes(d->size, (double)pl_dtype_bytes(type)),
                      "%s in %s: %.0f B, %.0f documented", d->kernel, pl_dtype_short(type),
                      c.cost.bytes, d->bytes(d->size, (double)pl_dtype_bytes(type)));
        pl_case_close(&c);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("costs");
    TCase *tests = tcase_create("costs");

    tcase_add_loop_test(tests, costs_are_what_docstrings_say, 0, N_DOCSTRINGS);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
