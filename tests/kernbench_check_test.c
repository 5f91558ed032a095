/* kernbench_check_test -- what ./kernbench's figures rest on: references that see a wrong element
 * of every output of every kernel, and costs that are those of the operations of a training
 * program. */
#include "config.h"

#include "src/kernbench/check.h"
#include "src/kernbench/reference.h"
#include "src/kernbench/shapes.h"
#include "kernels/isa.h"
#include "kernels/stream.h"
#include "src/roofline/peaks.h"
#include "src/roofline/price.h"
#include "tests/check_main.h"
#include "tests/toy.h"

#include "src/base/bf16.h"
#include "src/base/memory.h"

#include <math.h>
#include <string.h>

/* Small sizes for each kernel, in the order of its own. */
static const struct {
    const char *sizes;
    int64_t size[PL_CASE_SIZES];
} small[] = {{"M,N,K", {17, 19, 23}}, {"T,B,N,K,H", {70, 2, 4, 2, 16}},
             {"R,D", {9, 40}},        {"R,N,H", {9, 2, 8}},
             {"R,F", {5, 33}},        {"R,V,D", {11, 7, 24}},
             {"R,V", {6, 37}},        {"n", {100}}};

static const int64_t *small_sizes(const pl_kernel *kernel)
{
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strcmp(small[i].sizes, kernel->sizes) == 0)
            return small[i].size;
    ck_abort_msg("no sizes for %s", kernel->name);
    return NULL;
}

static pl_dtype type_of(int i)
{
    return i == 0 ? PL_F32 : PL_BF16;
}

/* ---- the check */

START_TEST(every_kernel_is_found_right)
{
    for (int t = 0; t < 2; t++) {
        const pl_kernel *kernel = &pl_kernels[_i];
        pl_case c;

        if (!kernel->in_dtype[type_of(t)])
            continue;
        pl_case_open(&c, kernel, PL_GROUP_OTHER, type_of(t), small_sizes(kernel));
        ck_assert_msg(pl_check_case(&c) == 0, "%s in %s", kernel->name, pl_dtype_short(type_of(t)));
        pl_case_close(&c);
    }
}
END_TEST

static void put(pl_array *out, int64_t i, double x)
{
    if (out->dtype == PL_BF16)
        ((pl_bf16 *)out->data)[i] = pl_bf16_of_f32((float)x);
    else
        ((float *)out->data)[i] = (float)x;
}

/* A little wrong: by a thousandth, or a bit more than bf16 can tell. */
static void spoil(pl_array *out, int64_t i)
{
    const double x = pl_array_element(out, i);

    put(out, i, x * (out->dtype == PL_BF16 ? 1.02 : 1.001) + (x == 0));
}

static int64_t count_wrong(const pl_case *c, const pl_array *in)
{
    pl_verdict v = {.c = c, .in = in};

    if (c->is_product)
        return pl_check_product(c, &c->out[0]);
    pl_reference_compare(&v);
    return v.wrong;
}

/* Attention compares some rows: of queries the last is always among them, of keys the first. */
static int64_t compared_element(const pl_case *c, int output)
{
    const bool of_keys = c->op->kind == PL_ATTENTION_BACKWARD && output > 0;

    return of_keys ? 3 : c->out[output].n - 1;
}

START_TEST(every_output_of_every_kernel_is_compared)
{
    const pl_kernel *kernel = &pl_kernels[_i];
    pl_array in[PL_CASE_OPERANDS];
    pl_case c;

    pl_case_open(&c, kernel, PL_GROUP_OTHER, PL_F32, small_sizes(kernel));
    pl_case_fill(&c, true);
    for (int i = 0; i < c.op->n_in; i++) {
        const size_t bytes = (size_t)c.in[i].n * pl_dtype_bytes(c.in[i].dtype);

        in[i] = c.in[i];
        in[i].data = memcpy(pl_alloc(bytes), c.in[i].data, bytes);
    }
    pl_case_run(&c);
    ck_assert_int_eq(count_wrong(&c, in), 0);
    for (int k = 0; k < c.op->n_out; k++) {
        const int64_t i = compared_element(&c, k);
        const double right = pl_array_element(&c.out[k], i);

        spoil(&c.out[k], i);
        ck_assert_msg(count_wrong(&c, in) == 1, "%s: output %d, %.9g", kernel->name, k, right);
        put(&c.out[k], i, NAN);
        ck_assert_msg(count_wrong(&c, in) == 1, "%s: output %d is NaN", kernel->name, k);
        put(&c.out[k], i, right);
    }
    ck_assert_int_eq(count_wrong(&c, in), 0);
    for (int i = 0; i < c.op->n_in; i++)
        pl_free(in[i].data);
    pl_case_close(&c);
}
END_TEST

/* ---- cost and traffic */

/* An operand's extent of dim `name` in a program, 1 where it lacks it. */
static int64_t extent(const pl_program *p, int v, char name)
{
    const pl_shape *shape = &p->values[v].shape;
    const int d = pl_shape_dim(shape, name);

    return d < 0 ? 1 : shape->extent[d];
}

/* The kernel and sizes by which ./kernbench would measure an op; false for those that it has not.
 */
static bool like(const pl_program *p, const pl_op *op, const char **kernel, int64_t *size)
{
    const pl_coords origin = {{0}};
    const int x = op->in[0];
    const int64_t B = p->batch.micro_batch, T = extent(p, x, 'T');

    switch (op->kind) {
    case PL_ATTENTION:
        *kernel = "attention";
        memcpy(size, (int64_t[]){T, B, TOY_N, TOY_K, TOY_H}, 5 * sizeof *size);
        return true;
    case PL_ATTENTION_BACKWARD:
        *kernel = "attention_backward";
        memcpy(size, (int64_t[]){T, B, TOY_N, TOY_K, TOY_H}, 5 * sizeof *size);
        return true;
    case PL_RMSNORM:
        *kernel = "rmsnorm";
        memcpy(size, (int64_t[]){T * B, TOY_D}, 2 * sizeof *size);
        return true;
    case PL_SWIGLU:
        *kernel = "swiglu";
        memcpy(size, (int64_t[]){T * B, TOY_F}, 2 * sizeof *size);
        return true;
    case PL_SWIGLU_BACKWARD:
        *kernel = "swiglu_backward";
        memcpy(size, (int64_t[]){T * B, TOY_F}, 2 * sizeof *size);
        return true;
    case PL_XENT_SUM:
        *kernel = "xent_sum";
        memcpy(size, (int64_t[]){T * B, TOY_V}, 2 * sizeof *size);
        return true;
    case PL_XENT_GRAD:
        *kernel = "xent_grad";
        memcpy(size, (int64_t[]){T * B, TOY_V}, 2 * sizeof *size);
        return true;
    case PL_EMBED:
        *kernel = "embed";
        memcpy(size, (int64_t[]){T * B, TOY_V, TOY_D}, 3 * sizeof *size);
        return true;
    case PL_ADAMW:
        *kernel = "adamw";
        *size = pl_local_elements(p, x, origin);
        return true;
    case PL_EINSUM: /* forward: rows of x times a weight that begins with D */
        *kernel = "matmul_nn";
        memcpy(size, (int64_t[]){T * B, pl_local_elements(p, op->out[0], origin) / (T * B), TOY_D},
               3 * sizeof *size);
        return op->phase == PL_FORWARD && op->n_in == 2 && p->values[x].shape.n_dims == 3 &&
               p->values[x].shape.name[2] == 'D' && p->values[op->in[1]].shape.name[0] == 'D';
    default:
        return false;
    }
}

START_TEST(costs_are_those_of_the_same_operations_in_training)
{
    const pl_plan plan = toy_plan("dp:1", 2, 3, 3);
    const pl_coords origin = {{0}};
    unsigned seen = 0;
    pl_mesh mesh;
    pl_program *p = toy_program(&plan, &mesh, 0);
    pl_pricer *pricer = pl_pricer_create(NULL);

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op_price price = pl_price_op(pricer, p, &p->ops[i], origin);
        int64_t size[PL_CASE_SIZES];
        const char *name;
        pl_case c;

        if (!like(p, &p->ops[i], &name, size))
            continue;
        pl_case_open(&c, pl_kernel_find(name), PL_GROUP_OTHER, PL_F32, size);
        ck_assert_msg(c.cost.flops == price.flops && c.cost.bytes == price.bytes,
                      "%s: %.0f FLOPs and %.0f B here, %.0f and %.0f there", name, c.cost.flops,
                      c.cost.bytes, price.flops, price.bytes);
        pl_case_close(&c);
        seen |= 1u << p->ops[i].kind;
    }
    ck_assert_int_eq(__builtin_popcount(seen), 10);
    pl_pricer_destroy(pricer);
    pl_program_destroy(p);
}
END_TEST

static void traffic(const char *kernel, int64_t n, double *read, double *written, double *updated)
{
    pl_case c;

    pl_case_open(&c, pl_kernel_find(kernel), PL_GROUP_OTHER, PL_F32, &n);
    *written = c.written_bytes;
    *updated = c.updated_bytes;
    *read = c.cost.bytes - c.written_bytes - c.updated_bytes;
    pl_case_close(&c);
}

START_TEST(traffic_tells_reading_writing_and_updating_apart)
{
    double read, written, updated;

    traffic("add", 100, &read, &written, &updated);
    ck_assert(read == 800 && written == 400 && updated == 0);
    traffic("accumulate", 100, &read, &written, &updated);
    ck_assert(read == 400 && written == 0 && updated == 800);
    traffic("adamw", 100, &read, &written, &updated);
    ck_assert(read == 400 && written == 0 && updated == 2400);
    traffic("sum_squares", 100, &read, &written, &updated);
    ck_assert(read == 400 && written == 4 && updated == 0);
}
END_TEST

START_TEST(traffic_takes_as_long_as_the_loops_that_carry_it)
{
    const double bytes_per_s[PL_N_TRAFFIC] = {
        [PL_TRAFFIC_READ] = 10, [PL_TRAFFIC_COPY] = 8, [PL_TRAFFIC_UPDATE] = 5};

    ck_assert_double_eq(pl_traffic_time_s(bytes_per_s, 100, 0, 0), 10);
    ck_assert_double_eq(pl_traffic_time_s(bytes_per_s, 100, 40, 0), 60 / 10.0 + 80 / 8.0);
    ck_assert_double_eq(pl_traffic_time_s(bytes_per_s, 40, 100, 0), 60 / 8.0 + 80 / 8.0);
    ck_assert_double_eq(pl_traffic_time_s(bytes_per_s, 0, 0, 50), 10);
}
END_TEST

START_TEST(every_shape_of_the_list_is_of_a_kernel)
{
    for (int i = 0; i < pl_n_shapes; i++) {
        const pl_kernel *kernel = pl_kernel_find(pl_shapes[i].kernel);

        ck_assert_msg(kernel != NULL, "%s", pl_shapes[i].kernel);
        for (int k = 0; k < PL_CASE_SIZES; k++)
            ck_assert_int_eq(pl_shapes[i].size[k] > 0, k < kernel->n_sizes);
        if (kernel->check != NULL)
            ck_assert_ptr_null(kernel->check(pl_shapes[i].size));
    }
}
END_TEST

/* ---- the loops of the roof */

/* Words that are read are numbered from 1, so that their sum tells how many there were. */
START_TEST(loops_touch_each_line_once_in_every_way)
{
    enum { N_ROUNDS = 67, LINES = 7, WORDS = 8, BYTES = (N_ROUNDS * LINES + 6) * 64 };
    static const pl_mix mix = {3, {{PL_STREAM_READ, 4}, {PL_STREAM_UPDATE, 2}, {PL_STREAM_WRITE, 1}}};
    const size_t n_read = N_ROUNDS * 4 * WORDS, room = pl_mix_room(&mix, BYTES);
    uint64_t *x = pl_alloc(room);

    ck_assert(pl_mix_bytes(&mix, BYTES) == N_ROUNDS * (4 + 2 * 2 + 1) * 64.0);
    for (int isa = PL_ISA_GENERIC; isa <= (int)pl_isa_best(); isa++)
        for (int way = 0; way < PL_MIX_WAYS; way++) {
            int64_t n_updated = 0, n_written = 0;

            pl_isa_set((pl_isa)isa);
            for (size_t i = 0; i < room / sizeof *x; i++)
                x[i] = i < n_read ? i + 1 : 7;
            ck_assert(pl_mix_run(&mix, way, x, BYTES) == n_read * (n_read + 1) / 2);
            for (size_t i = 0; i < room / sizeof *x; i++) {
                ck_assert(i >= n_read || x[i] == i + 1);
                n_updated += i >= n_read && x[i] == 8;
                n_written += i >= n_read && x[i] == 1;
            }
            ck_assert_int_eq(n_updated, N_ROUNDS * 2 * WORDS);
            ck_assert_int_eq(n_written, N_ROUNDS * WORDS);
        }
    pl_free(x);
}
END_TEST

/* The streams of a case, as "r" (read), "w" or "u" and lines a round each. */
static const char *streams_of(const char *kernel, pl_dtype dtype, const int64_t *size)
{
    static char text[64];
    size_t n = 0;
    pl_case c;

    pl_case_open(&c, pl_kernel_find(kernel), PL_GROUP_OTHER, dtype, size);
    const pl_mix mix = pl_case_mix(&c);
    pl_case_close(&c);
    for (int i = 0; i < mix.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%d", "rwu"[mix.stream[i].use],
                              mix.stream[i].lines);
    return text;
}

START_TEST(the_roof_moves_what_the_kernel_moves)
{
    const int64_t rows[] = {64, 512}, n[] = {1000}, table[] = {64, 64, 512};

    ck_assert_str_eq(streams_of("swiglu_backward", PL_F32, rows), "r1r1r1w1w1");
    ck_assert_str_eq(streams_of("xent_max", PL_BF16, rows), "r1");
    ck_assert_str_eq(streams_of("xent_grad", PL_BF16, rows), "r1w1");
    ck_assert_str_eq(streams_of("rmsnorm", PL_F32, rows), "r1w1");
    ck_assert_str_eq(streams_of("embed", PL_F32, table), "r1w1");
    ck_assert_str_eq(streams_of("accumulate", PL_F32, n), "r1u1");
    ck_assert_str_eq(streams_of("adamw", PL_F32, n), "r1u1u1u1");
    ck_assert_str_eq(streams_of("adamw", PL_BF16, n), "r2w1u2u2u2");
    ck_assert_str_eq(streams_of("embed_backward", PL_F32, table), "r1w1u1");
    ck_assert_str_eq(streams_of("convert", PL_F32, n), "r2w1");
    ck_assert_str_eq(streams_of("convert", PL_BF16, n), "r1w2");
}
END_TEST

/* Each chain begins at its number i and gains 1/2 x 1/2 in every round, in each of the lanes that
 * the result adds up; generic chains tend to a limit instead. */
START_TEST(peaks_multiply_and_add_in_every_round)
{
    for (int isa = PL_ISA_AVX2; isa <= (int)pl_isa_best(); isa++) {
        pl_isa_set((pl_isa)isa);
        for (int k = 0; k < PL_N_MULTIPLIES; k++) {
            const pl_multiply_kind kind = (pl_multiply_kind)k;

            if (pl_multiply_operations(kind) > 0)
                ck_assert_msg(pl_multiply_run(kind, 1000) > pl_multiply_run(kind, 999), "%s",
                              pl_multiply_name(kind));
        }
        ck_assert(pl_multiply_operations(PL_MULTIPLY_F32) > 0);
    }
    pl_isa_set(PL_ISA_GENERIC);
    ck_assert(pl_multiply_operations(PL_MULTIPLY_F32) > 0);
    ck_assert(pl_multiply_operations(PL_MULTIPLY_BF16) == 0);
    ck_assert(isfinite(pl_multiply_run(PL_MULTIPLY_F32, 1000)));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("kernbench");
    TCase *check = tcase_create("check"), *cost = tcase_create("cost");

    tcase_add_loop_test(check, every_kernel_is_found_right, 0, pl_n_kernels);
    tcase_add_loop_test(check, every_output_of_every_kernel_is_compared, 0, pl_n_kernels);
    tcase_add_test(cost, costs_are_those_of_the_same_operations_in_training);
    tcase_add_test(cost, traffic_tells_reading_writing_and_updating_apart);
    tcase_add_test(cost, traffic_takes_as_long_as_the_loops_that_carry_it);
    tcase_add_test(cost, every_shape_of_the_list_is_of_a_kernel);
    tcase_add_test(cost, the_roof_moves_what_the_kernel_moves);
    tcase_add_test(cost, loops_touch_each_line_once_in_every_way);
    tcase_add_test(cost, peaks_multiply_and_add_in_every_round);
    suite_add_tcase(suite, check);
    suite_add_tcase(suite, cost);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
