/* combine -- sums, maxima and copies of several arrays, element by element; element types. */
#include "config.h"

#include "collectives/combine.h"
#include "src/base/bf16.h"
#include "src/base/dtype.h"
#include "src/base/memory.h"
#include "tests/check_main.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

enum {
    MOST = 64,   /* sources */
    SKEW = 40,   /* elements before and after an array that must stay as they are */
    GUARD = 0xa5 /* their bytes */
};

/* ---- independent references */

/* The bf16 nearest to x, ties to even: 8 significant bits, at least 2^-133 apart. */
static float nearest_bf16(double x)
{
    double apart, rounded;

    if (isnan(x) || isinf(x) || x == 0)
        return (float)x;
    apart = ldexp(1, (ilogb(x) < -126 ? -126 : ilogb(x)) - 7);
    rounded = rint(x / apart) * apart;
    return fabs(rounded) >= 0x1p128 ? (float)copysign(INFINITY, x) : (float)rounded;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float f32_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Elements as doubles, in which all three types are exact. */
static double element(pl_dtype dtype, const void *x, int64_t i)
{
    if (dtype == PL_I32)
        return ((const int32_t *)x)[i];
    if (dtype == PL_F32)
        return (double)((const float *)x)[i];
    return (double)f32_of((uint32_t)((const pl_bf16 *)x)[i] << 16);
}

static void put(pl_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == PL_I32)
        ((int32_t *)x)[i] = (int32_t)value;
    else if (dtype == PL_F32)
        ((float *)x)[i] = (float)value;
    else
        ((pl_bf16 *)x)[i] = (pl_bf16)(bits_of(nearest_bf16(value)) >> 16);
}

/* A sum of two f32 is rounded alike in one step or by way of f64, which has more than 2 * 24 + 1
 * bits. Terms that are int32 add up exactly, and wrap at the end. */
static double reference_sum(pl_dtype dtype, const double *terms, int n_terms)
{
    double sum = terms[0];

    for (int k = 1; k < n_terms; k++)
        sum = dtype == PL_I32 ? sum + terms[k] : (double)(float)(sum + terms[k]);
    if (dtype == PL_I32)
        return sum - 0x1p32 * floor((sum + 0x1p31) / 0x1p32);
    return dtype == PL_BF16 ? (double)nearest_bf16(sum) : sum;
}

static double reference_max(const double *terms, int n_terms)
{
    double max = terms[0];

    for (int k = 1; k < n_terms; k++) {
        if (isnan(max) || isnan(terms[k]))
            max = NAN;
        else if (terms[k] > max || (terms[k] == max && signbit(max)))
            max = terms[k];
    }
    return max;
}

/* Same number, or both no number. Signs of zeros count. */
static bool is_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* ---- cases */

/* A number that depends on array and position only. */
static uint32_t number(int array, int64_t i)
{
    uint32_t x = (uint32_t)(array * 1000003 + i) * 0x9e3779b1u + 12345;

    x ^= x >> 15;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    return x;
}

typedef double (*filling)(pl_dtype dtype, int array, int64_t i);

/* Sums of 64 are exact in every type's arithmetic, f32 included. */
static double small_integer(pl_dtype dtype, int array, int64_t i)
{
    (void)dtype;
    return (double)(number(array, i) % 255) - 127;
}

/* All magnitudes whose sums need rounding, both zeros, the whole range of int32. */
static double awkward(pl_dtype dtype, int array, int64_t i)
{
    const uint32_t x = number(array, i);

    if (dtype == PL_I32)
        return (int32_t)x;
    if (x % 8 == 0)
        return x % 16 == 0 ? 0.0 : -0.0;
    return ldexp((double)(int32_t)x, (int)(x >> 8) % 20 - 30);
}

/* Nothing but limits. */
static double special(pl_dtype dtype, int array, int64_t i)
{
    const double floats[] = {0.0, -0.0,       INFINITY,    -INFINITY,
                             NAN, 0x1.fep127, -0x1.fep127, 0x1p-133};
    const int32_t integers[] = {INT32_MIN, INT32_MAX, 0, -1, 1, INT32_MIN + 1, INT32_MAX - 1, 2};
    const uint32_t k = number(array, i) >> 7 & 7;

    return dtype == PL_I32 ? integers[k] : floats[k];
}

typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    int n_from, n_to;
    int64_t n;
    int shift;   /* array a begins shift * (a + 1) mod SKEW elements past a line */
    int n_alias; /* the first n_alias of `to` are the last n_alias of `from` */
    bool streams;
    int variant;
} combination;

/* Arrays of up to n_max elements and what should come of them. */
typedef struct {
    pl_dtype dtype;
    int64_t n_max;
    unsigned char *values[MOST];       /* [n_max] elements */
    unsigned char *from[MOST], *to[3]; /* [SKEW + n_max + SKEW] elements */
    double *expected;                  /* [n_max] */
} arrays;

static void arrays_init(arrays *a, filling fill, pl_dtype dtype, int64_t n_max, int n_from)
{
    const size_t bytes = pl_dtype_bytes(dtype);

    *a = (arrays){.dtype = dtype, .n_max = n_max};
    a->expected = pl_alloc((size_t)n_max * sizeof *a->expected);
    for (int k = 0; k < n_from; k++) {
        a->from[k] = pl_alloc((size_t)(n_max + 2 * SKEW) * bytes);
        a->values[k] = pl_alloc((size_t)n_max * bytes);
        for (int64_t i = 0; i < n_max; i++)
            put(dtype, a->values[k], i, fill(dtype, k, i));
    }
    for (int k = 0; k < 3; k++)
        a->to[k] = pl_alloc((size_t)(n_max + 2 * SKEW) * bytes);
}

static void arrays_free(arrays *a)
{
    for (int k = 0; k < MOST; k++) {
        pl_free(a->from[k]);
        pl_free(a->values[k]);
    }
    for (int k = 0; k < 3; k++)
        pl_free(a->to[k]);
    pl_free(a->expected);
}

static void expect(arrays *a, pl_reduction reduction, int n_from)
{
    double terms[MOST];

    for (int64_t i = 0; i < a->n_max; i++) {
        for (int k = 0; k < n_from; k++)
            terms[k] = element(a->dtype, a->values[k], i);
        if (n_from == 1)
            a->expected[i] = terms[0];
        else
            a->expected[i] = reduction == PL_SUM ? reference_sum(a->dtype, terms, n_from)
                                                 : reference_max(terms, n_from);
    }
}

static int64_t skew(const combination *c, int array)
{
    return c->shift * (array + 1) % SKEW;
}

static int64_t count_touched(const unsigned char *x, int64_t begin, int64_t end)
{
    int64_t n_touched = 0;

    for (int64_t i = begin; i < end; i++)
        n_touched += x[i] != GUARD;
    return n_touched;
}

/* Elements of a destination, `at` in x, that are not as expected, and bytes written around it. */
static int64_t count_wrong(const arrays *a, const combination *c, const unsigned char *x,
                           int64_t at)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(c->dtype);
    int64_t n_wrong = count_touched(x, 0, at * bytes) +
                      count_touched(x, (at + c->n) * bytes, (c->n + 2 * SKEW) * bytes);

    for (int64_t i = 0; i < c->n; i++)
        n_wrong += !is_same(element(c->dtype, x + at * bytes, i), a->expected[i]);
    return n_wrong;
}

static int64_t run(arrays *a, const combination *c)
{
    const size_t bytes = pl_dtype_bytes(c->dtype), room = (size_t)(c->n + 2 * SKEW) * bytes;
    const void *from[MOST];
    void *to[3];
    unsigned char *whole[3];
    int64_t at[3], n_wrong = 0;

    for (int k = 0; k < c->n_from; k++) {
        memset(a->from[k], GUARD, room);
        from[k] =
            memcpy(a->from[k] + (size_t)skew(c, k) * bytes, a->values[k], (size_t)c->n * bytes);
    }
    for (int k = 0; k < c->n_to; k++) {
        const int source = k < c->n_alias ? c->n_from - 1 - k : -1;

        whole[k] = source >= 0 ? a->from[source] : memset(a->to[k], GUARD, room);
        at[k] = skew(c, source >= 0 ? source : c->n_from + k);
        to[k] = whole[k] + (size_t)at[k] * bytes;
    }
    pl_combine_variant(c->variant, c->dtype, c->reduction, to, c->n_to, from, c->n_from, c->n,
                       c->streams);
    for (int k = 0; k < c->n_to; k++)
        n_wrong += count_wrong(a, c, whole[k], at[k]);
    for (int k = 0; k < c->n_from - c->n_alias; k++)
        n_wrong += memcmp(from[k], a->values[k], (size_t)c->n * bytes) != 0;
    return n_wrong;
}

static void check(arrays *a, const combination *c)
{
    const int64_t n_wrong = run(a, c);

    ck_assert_msg(n_wrong == 0,
                  "%lld wrong: variant %d, %s, reduction %d, %d -> %d, n %lld, shift %d, %d alias, "
                  "streams %d",
                  (long long)n_wrong, c->variant, pl_dtype_name(c->dtype), (int)c->reduction,
                  c->n_from, c->n_to, (long long)c->n, c->shift, c->n_alias, c->streams);
}

/* All variants, with and without streams, at shifts that leave arrays on lines, off them alike, and
 * off them each in its own way. */
static void check_ways(arrays *a, combination c)
{
    const int shifts[] = {0, SKEW / 2 + 1, 3};

    for (c.variant = 0; c.variant < pl_combine_n_variants(); c.variant++) {
        for (int s = 0; s < COUNT(shifts); s++) {
            c.shift = shifts[s];
            c.streams = false;
            check(a, &c);
            c.streams = true;
            check(a, &c);
        }
    }
}

/* dtype and reduction by the number of a looped test. */
static combination kind(int number_of_test)
{
    return (combination){.dtype = (pl_dtype)(number_of_test % PL_N_DTYPES),
                         .reduction = number_of_test < PL_N_DTYPES ? PL_SUM : PL_MAX};
}

static void check_all(filling fill, combination c)
{
    const int64_t counts[] = {0, 1, 7, 16, 17, 1000, 4097};
    arrays a;

    arrays_init(&a, fill, c.dtype, 4097, 9);
    for (c.n_from = 1; c.n_from <= 9; c.n_from++) {
        expect(&a, c.reduction, c.n_from);
        for (c.n_to = 1; c.n_to <= 3; c.n_to++) {
            for (int i = 0; i < COUNT(counts); i++) {
                c.n = counts[i];
                for (c.n_alias = 0; c.n_alias <= c.n_to && c.n_alias <= c.n_from; c.n_alias++)
                    check_ways(&a, c);
            }
        }
    }
    arrays_free(&a);
}

START_TEST(small_integers_combine_exactly)
{
    check_all(small_integer, kind(_i));
}
END_TEST

START_TEST(what_needs_rounding_is_rounded_in_the_order_of_the_sources)
{
    check_all(awkward, kind(_i));
}
END_TEST

START_TEST(limits_nans_and_zeros_combine_as_documented)
{
    check_all(special, kind(_i));
}
END_TEST

START_TEST(up_to_64_sources_combine_in_order)
{
    const int many[] = {10, 16, 33, 64};
    combination c = kind(_i);
    arrays a;

    c.n = 777;
    arrays_init(&a, awkward, c.dtype, c.n, MOST);
    for (int m = 0; m < COUNT(many); m++) {
        c.n_from = many[m];
        expect(&a, c.reduction, c.n_from);
        for (c.n_to = 1; c.n_to <= 3; c.n_to++)
            for (c.n_alias = 0; c.n_alias <= c.n_to; c.n_alias++)
                check_ways(&a, c);
    }
    arrays_free(&a);
}
END_TEST

START_TEST(every_small_count_is_copied_and_combined_whole)
{
    combination c = kind(_i);
    arrays a;

    arrays_init(&a, awkward, c.dtype, 300, 2);
    for (c.n_from = 1; c.n_from <= 2; c.n_from++) {
        expect(&a, c.reduction, c.n_from);
        for (c.n_to = 1; c.n_to <= 2; c.n_to++)
            for (c.n = 0; c.n <= 300; c.n++)
                check_ways(&a, c);
    }
    arrays_free(&a);
}
END_TEST

START_TEST(arrays_beyond_every_threshold_are_copied_and_combined_whole)
{
    combination c = kind(_i);
    arrays a;

    c.n = 1500001;
    arrays_init(&a, awkward, c.dtype, c.n, 2);
    for (c.n_from = 1; c.n_from <= 2; c.n_from++) {
        expect(&a, c.reduction, c.n_from);
        c.n_to = c.n_alias = c.n_from;
        check_ways(&a, c);
        c.n_alias = 0;
        check_ways(&a, c);
    }
    arrays_free(&a);
}
END_TEST

/* Source `source` is also destination `destination`. */
static int64_t count_wrong_in_place(arrays *a, combination c, int source, int destination)
{
    const void *from[MOST];
    void *to[3] = {a->to[0], a->to[1], a->to[2]};
    int64_t n_wrong = 0;

    for (int k = 0; k < c.n_from; k++)
        from[k] = memcpy(a->from[k], a->values[k], (size_t)c.n * pl_dtype_bytes(c.dtype));
    to[destination] = a->from[source];
    pl_combine(c.dtype, c.reduction, to, c.n_to, from, c.n_from, c.n, c.streams);
    for (int k = 0; k < c.n_to; k++)
        for (int64_t i = 0; i < c.n; i++)
            n_wrong += !is_same(element(c.dtype, to[k], i), a->expected[i]);
    return n_wrong;
}

START_TEST(any_source_may_be_any_destination)
{
    combination c = {.dtype = (pl_dtype)_i, .n = 1000};
    int64_t n_wrong = 0;
    arrays a;

    arrays_init(&a, awkward, c.dtype, c.n, 9);
    for (c.n_from = 1; c.n_from <= 9; c.n_from++) {
        expect(&a, PL_SUM, c.n_from);
        for (c.n_to = 1; c.n_to <= 3; c.n_to++)
            for (int k = 0; k < c.n_from * c.n_to; k++) {
                c.streams = k % 2 == 1;
                n_wrong += count_wrong_in_place(&a, c, k % c.n_from, k / c.n_from);
                c.streams = !c.streams;
                n_wrong += count_wrong_in_place(&a, c, k % c.n_from, k / c.n_from);
            }
    }
    arrays_free(&a);
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(combine_into_has_its_own_array_first)
{
    const float y[] = {2, -0.0f, 0x1p-30f}, sum[] = {3, 0, 1}, max[] = {2, 0, 1};
    float x[] = {1, 0, 1}, z[] = {1, 0, 1};

    pl_combine_into(PL_F32, PL_SUM, x, y, 3);
    pl_combine_into(PL_F32, PL_MAX, z, y, 3);
    ck_assert_mem_eq(x, sum, sizeof sum);
    ck_assert_mem_eq(z, max, sizeof max);
}
END_TEST

START_TEST(the_maximum_does_not_depend_on_which_operand_is_which)
{
    const float a[] = {-0.0f, 0.0f, 1, -3, NAN, 2, INFINITY, -INFINITY};
    const float b[] = {0.0f, -0.0f, 2, -4, 5, NAN, 1, 1};
    const float expected[] = {0.0f, 0.0f, 2, -3, NAN, NAN, INFINITY, 1};

    for (int swapped = 0; swapped < 2; swapped++) {
        float x[8];

        memcpy(x, swapped ? b : a, sizeof x);
        pl_combine_into(PL_F32, PL_MAX, x, swapped ? a : b, 8);
        for (int i = 0; i < 8; i++)
            ck_assert(is_same((double)x[i], (double)expected[i]));
    }
}
END_TEST

START_TEST(sums_of_int32_wrap)
{
    const int32_t y[] = {1, -1, INT32_MIN, INT32_MAX},
                  sum[] = {INT32_MIN, INT32_MAX, 0, -2}; /* modulo 2^32 */
    int32_t x[] = {INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX};

    pl_combine_into(PL_I32, PL_SUM, x, y, 4);
    ck_assert_mem_eq(x, sum, sizeof sum);
}
END_TEST

/* 0x4380 is 256, whose neighbours are 2 apart; 0x7f7f is the largest number, 0x1.fep127. */
START_TEST(sums_of_bf16_round_once_to_nearest_ties_to_even)
{
    const struct {
        pl_bf16 from[3], sum;
    } cases[] = {
        {{0x4380, 0x3f80, 0x3f80}, 0x4381}, /* 256 + 1 + 1 = 258: each alone would be lost */
        {{0x4380, 0x3f80, 0}, 0x4380},      /* 257, a tie: down to even */
        {{0x4381, 0x3f80, 0}, 0x4382},      /* 259, a tie: up to even */
        {{0x4380, 0x3f80, 0x3c00}, 0x4381}, /* 257 + 2^-7: above the tie */
        {{0x4381, 0x3f80, 0xbc00}, 0x4381}, /* 259 - 2^-7: below it */
        {{0x7f7f, 0x7b00, 0}, 0x7f80},      /* + 2^119, a tie: to infinity */
        {{0x7f7f, 0x7a80, 0}, 0x7f7f},      /* + 2^118: back */
        {{0xff7f, 0xff7f, 0}, 0xff80},      /* overflow in f32 */
        {{0x7f80, 0xff80, 0}, 0x7fc0},      /* infinity - infinity */
        {{0x8000, 0x8000, 0x8000}, 0x8000}, /* -0 */
        {{0x0001, 0x0001, 0x0001}, 0x0003}, /* below the least normal number */
    };

    for (int i = 0; i < COUNT(cases); i++) {
        pl_bf16 x[3][100], sum[100];
        const void *const from[] = {x[0], x[1], x[2]};
        void *const to[] = {sum};

        for (int k = 0; k < 300; k++)
            x[k / 100][k % 100] = cases[i].from[k / 100];
        for (int v = 0; v < pl_combine_n_variants(); v++) {
            memset(sum, 0, sizeof sum);
            pl_combine_variant(v, PL_BF16, PL_SUM, to, 1, from, 3, 100, false);
            for (int k = 0; k < 100; k++)
                ck_assert_uint_eq(isnan(pl_bf16_to_f32(cases[i].sum)) ? sum[k] & 0x7fffu : sum[k],
                                  cases[i].sum);
        }
    }
}
END_TEST

/* ---- bf16, dtype */

START_TEST(every_bf16_widens_to_its_value_and_comes_back)
{
    for (uint32_t x = 0; x < 0x10000; x++) {
        const int exponent = (int)(x >> 7 & 0xff), fraction = (int)(x & 0x7f);
        const double magnitude =
            exponent == 0 ? ldexp(fraction, -133) : ldexp(128 + fraction, exponent - 134);
        const float f = pl_bf16_to_f32((pl_bf16)x);

        if (exponent == 0xff && fraction != 0) {
            ck_assert(isnan(f));
            ck_assert_uint_eq(pl_bf16_of_f32(f), x | 0x40);
            continue;
        }
        ck_assert(is_same((double)f,
                          copysign(exponent == 0xff ? INFINITY : magnitude, x & 0x8000 ? -1 : 1)));
        ck_assert_uint_eq(pl_bf16_of_f32(f), x);
    }
}
END_TEST

START_TEST(f32_rounds_to_the_nearest_bf16_ties_to_even)
{
    const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

    for (uint32_t upper = 0; upper < 0x10000; upper++) {
        for (int i = 0; i < COUNT(lower); i++) {
            const float x = f32_of(upper << 16 | lower[i]);

            ck_assert(is_same((double)pl_bf16_to_f32(pl_bf16_of_f32(x)),
                              (double)nearest_bf16((double)x)));
        }
    }
}
END_TEST

START_TEST(types_have_names_and_sizes)
{
    const char *const names[] = {"float32", "int32", "bfloat16"};
    const size_t bytes[] = {sizeof(float), sizeof(int32_t), sizeof(pl_bf16)};

    for (int i = 0; i < PL_N_DTYPES; i++) {
        ck_assert_str_eq(pl_dtype_name((pl_dtype)i), names[i]);
        ck_assert_uint_eq(pl_dtype_bytes((pl_dtype)i), bytes[i]);
    }
}
END_TEST

static Suite *make_suite(void)
{
    const int n_kinds = 2 * PL_N_DTYPES;
    Suite *suite = suite_create("combine");
    TCase *combine = tcase_create("combine"), *types = tcase_create("types");

    tcase_add_loop_test(combine, small_integers_combine_exactly, 0, n_kinds);
    tcase_add_loop_test(combine, what_needs_rounding_is_rounded_in_the_order_of_the_sources, 0,
                        n_kinds);
    tcase_add_loop_test(combine, limits_nans_and_zeros_combine_as_documented, 0, n_kinds);
    tcase_add_loop_test(combine, up_to_64_sources_combine_in_order, 0, n_kinds);
    tcase_add_loop_test(combine, every_small_count_is_copied_and_combined_whole, 0, n_kinds);
    tcase_add_loop_test(combine, arrays_beyond_every_threshold_are_copied_and_combined_whole, 0,
                        n_kinds);
    tcase_add_loop_test(combine, any_source_may_be_any_destination, 0, PL_N_DTYPES);
    tcase_add_test(combine, combine_into_has_its_own_array_first);
    tcase_add_test(combine, the_maximum_does_not_depend_on_which_operand_is_which);
    tcase_add_test(combine, sums_of_int32_wrap);
    tcase_add_test(combine, sums_of_bf16_round_once_to_nearest_ties_to_even);
    suite_add_tcase(suite, combine);
    tcase_add_test(types, every_bf16_widens_to_its_value_and_comes_back);
    tcase_add_test(types, f32_rounds_to_the_nearest_bf16_ties_to_even);
    tcase_add_test(types, types_have_names_and_sizes);
    suite_add_tcase(suite, types);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
