/* Blocks of a range, random numbers, numbers as they are typed. */
#include "config.h"

#include "src/base/block.h"
#include "src/base/parse.h"
#include "src/base/rng.h"
#include "src/base/status.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- block */

START_TEST(blocks_tile_the_range_and_differ_by_at_most_one)
{
    for (int P = 1; P <= 20; P++)
        for (int64_t n = 0; n <= 100; n++) {
            int64_t next = 0, n_strangers = 0;

            for (int i = 0; i < P; i++) {
                const int64_t count = pl_block_count(n, P, i);

                ck_assert_int_eq(pl_block_begin(n, P, i), next);
                ck_assert_int_le(count, pl_block_count(n, P, 0)); /* larger ones first */
                ck_assert_int_ge(count, pl_block_count(n, P, 0) - 1);
                for (int64_t k = 0; k < count; k++)
                    n_strangers += pl_block_owner(n, P, next + k) != i;
                next += count;
            }
            ck_assert_int_eq(next, n);
            ck_assert_int_eq(n_strangers, 0);
            ck_assert_int_eq(pl_block_largest(n, P), pl_block_count(n, P, 0));
        }
}
END_TEST

START_TEST(seventy_three_over_4_is_19_18_18_18)
{
    ck_assert_int_eq(pl_block_count(73, 4, 0), 19);
    ck_assert_int_eq(pl_block_count(73, 4, 1), 18);
    ck_assert_int_eq(pl_block_begin(73, 4, 3), 55);
}
END_TEST

START_TEST(blocks_of_the_largest_range_do_not_overflow)
{
    const int64_t n = INT64_MAX;
    const int P = 1000003;

    ck_assert_int_eq(pl_block_begin(n, P, P - 1) + pl_block_count(n, P, P - 1), n);
    ck_assert_int_eq(pl_block_owner(n, P, n - 1), P - 1);
}
END_TEST

/* ---- rng */

enum { SAMPLES = 1 << 20 };

START_TEST(random_numbers_are_a_function_of_seed_stream_and_index)
{
    const uint64_t bits = pl_rng_bits(1, 2, 3);

    ck_assert_uint_eq(bits, pl_rng_bits(1, 2, 3));
    ck_assert_uint_ne(bits, pl_rng_bits(2, 2, 3));
    ck_assert_uint_ne(bits, pl_rng_bits(1, 3, 3));
    ck_assert_uint_ne(bits, pl_rng_bits(1, 2, 4));
    ck_assert_uint_ne(pl_rng_bits(1, 2, 3), pl_rng_bits(2, 1, 3));
    ck_assert_uint_ne(pl_rng_bits(1, 2, 3), pl_rng_bits(1, 3, 2));
}
END_TEST

/* Any of the three arguments counting up must flip each output bit half of the time: of N fair
 * tosses, the share of heads is off 1/2 by 6 standard deviations (3 / sqrt N) less than once in
 * 10^8. */
START_TEST(one_step_of_any_argument_flips_every_bit_half_of_the_time)
{
    enum { N = 1 << 16 };

    for (int argument = 0; argument < 3; argument++) {
        int flips[64] = {0};

        for (uint64_t i = 0; i < N; i++) {
            const uint64_t a =
                pl_rng_bits(argument == 0 ? i : 5, argument == 1 ? i : 6, argument == 2 ? i : 7);
            const uint64_t b = pl_rng_bits(argument == 0 ? i + 1 : 5, argument == 1 ? i + 1 : 6,
                                           argument == 2 ? i + 1 : 7);

            for (int bit = 0; bit < 64; bit++)
                flips[bit] += (int)((a ^ b) >> bit & 1);
        }
        for (int bit = 0; bit < 64; bit++)
            ck_assert_double_lt(fabs(flips[bit] / (double)N - 0.5), 3 / sqrt(N));
    }
}
END_TEST

START_TEST(two_streams_are_unrelated_index_by_index)
{
    enum { N = 1 << 16 };
    int differences[64] = {0};

    /* If one stream were the other plus a constant, each bit of a - b would be the same for all i.
     */
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t difference = pl_rng_bits(1, 10, i) - pl_rng_bits(1, 11, i);

        for (int bit = 0; bit < 64; bit++)
            differences[bit] += (int)(difference >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++)
        ck_assert_double_lt(fabs(differences[bit] / (double)N - 0.5), 3 / sqrt(N));
}
END_TEST

/* Moments of N independent samples: each mean lies within 6 of its standard deviations. */
START_TEST(uniform_numbers_have_the_moments_of_the_uniform_distribution)
{
    double sum = 0, squares = 0, products = 0, before = 0;

    bool inside = true;

    for (uint64_t i = 0; i < SAMPLES; i++) {
        const double x = pl_rng_uniform(3, 4, i);

        inside = inside && x >= 0 && x < 1;
        sum += x;
        squares += x * x;
        products += (x - 0.5) * (before - 0.5);
        before = x;
    }
    ck_assert(inside);
    /* var x = 1/12, var x^2 = 1/5 - 1/9 = 4/45, var of a product of two neighbours = 1/144 */
    ck_assert_double_lt(fabs(sum / SAMPLES - 0.5), 6 * sqrt(1.0 / 12 / SAMPLES));
    ck_assert_double_lt(fabs(squares / SAMPLES - 1.0 / 3), 6 * sqrt(4.0 / 45 / SAMPLES));
    ck_assert_double_lt(fabs(products / SAMPLES), 6 * sqrt(1.0 / 144 / SAMPLES));
}
END_TEST

START_TEST(normal_numbers_have_the_moments_of_the_normal_distribution)
{
    double sum = 0, squares = 0, fourths = 0, with_uniform = 0;

    for (uint64_t i = 0; i < SAMPLES; i++) {
        const double x = pl_rng_normal(3, 4, i);

        sum += x; /* a NaN or an infinity stays in the sum */
        squares += x * x;
        fourths += x * x * x * x;
        with_uniform += x * (pl_rng_uniform(3, 4, i) - 0.5);
    }
    /* E x^2, x^4, x^8 = 1, 3, 105 */
    ck_assert_double_lt(fabs(sum / SAMPLES), 6 * sqrt(1.0 / SAMPLES));
    ck_assert_double_lt(fabs(squares / SAMPLES - 1), 6 * sqrt(2.0 / SAMPLES));
    ck_assert_double_lt(fabs(fourths / SAMPLES - 3), 6 * sqrt(96.0 / SAMPLES));
    ck_assert_double_lt(fabs(with_uniform / SAMPLES), 6 * sqrt(1.0 / 12 / SAMPLES));
}
END_TEST

START_TEST(normal_numbers_are_unrelated_to_the_uniform_ones_of_their_stream)
{
    double products[2] = {0};

    for (uint64_t i = 0; i < SAMPLES; i++) {
        const double x = pl_rng_normal(3, 4, i);

        for (uint64_t k = 0; k < 2; k++)
            products[k] += (x * x - 1) * (pl_rng_uniform(3, 4, 2 * i + k) - 0.5);
    }
    for (int k = 0; k < 2; k++) /* var of a product: 2 x 1/12 */
        ck_assert_double_lt(fabs(products[k] / SAMPLES), 6 * sqrt(2.0 / 12 / SAMPLES));
}
END_TEST

START_TEST(integers_below_n_come_equally_often)
{
    enum { N = 7 };
    int counts[N] = {0}, n_outside = 0;

    for (uint64_t i = 0; i < SAMPLES; i++) {
        const int64_t x = pl_rng_below(1, 2, i, N);

        if (x >= 0 && x < N)
            counts[x]++;
        else
            n_outside++;
    }
    ck_assert_int_eq(n_outside, 0);
    /* binomial: variance N_samples p (1 - p) */
    for (int x = 0; x < N; x++)
        ck_assert_double_lt(fabs(counts[x] - (double)SAMPLES / N),
                            6 * sqrt(SAMPLES * (1.0 / N) * (1 - 1.0 / N)));
    ck_assert_int_eq(pl_rng_below(1, 2, 3, 1), 0);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_int_ge(pl_rng_below(1, 2, i, INT64_MAX), 0);
}
END_TEST

START_TEST(names_give_streams_of_their_own)
{
    char a[32], b[32];

    ck_assert_uint_eq(pl_rng_stream("embed"), pl_rng_stream("embed"));
    ck_assert_uint_ne(pl_rng_stream("wk"), pl_rng_stream("wq"));
    ck_assert_uint_ne(pl_rng_stream(""), pl_rng_stream("w"));
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < i; k++) {
            snprintf(a, sizeof a, "layers.%d.wq", i);
            snprintf(b, sizeof b, "layers.%d.wq", k);
            ck_assert_uint_ne(pl_rng_stream(a), pl_rng_stream(b));
        }
}
END_TEST

/* ---- parse */

static const struct {
    const char *text;
    int64_t value;
} integers[] = {
    {"0", 0},         {"1", 1},           {"-5", -5},          {"+5", 5},
    {"007", 7},       {"2K", 2000},       {"2Ki", 2048},       {"3M", 3000000},
    {"1Mi", 1 << 20}, {"1G", 1000000000}, {"4Gi", 4294967296}, {"9223372036854775807", INT64_MAX},
};

START_TEST(integers_may_have_a_unit)
{
    int64_t value = -77;

    ck_assert_int_eq(pl_parse_integer("--n", integers[_i].text, INT64_MIN, INT64_MAX, &value),
                     PL_OK);
    ck_assert_int_eq(value, integers[_i].value);
}
END_TEST

static const char *const bad_integers[] = {
    "",
    " 1",
    "1 ",
    "x",
    "-",
    "1.5",
    "1e3",
    "0x10",
    "1k",
    "1KK",
    "1Kib",
    "K",
    "--1",
    "nan",
    "9223372036854775808",
    "9223372036854775807K",
    "11",
    "0",
};

START_TEST(what_is_no_integer_in_range_is_refused_with_flag_and_text)
{
    int64_t value = -77;

    ck_assert_int_eq(pl_parse_integer("--batch", bad_integers[_i], 1, 10, &value), PL_BAD_INPUT);
    ck_assert_int_eq(value, -77);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "--batch: "));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), bad_integers[_i]));
}
END_TEST

START_TEST(an_integer_beyond_64_bits_is_refused_in_any_range)
{
    static const char *const texts[] = {"9223372036854775808", "-9223372036854775809",
                                        "9223372036854775807K", "9007199254740993Ki"};
    int64_t value = -77;

    for (int i = 0; i < COUNT(texts); i++) {
        ck_assert_int_eq(pl_parse_integer("--n", texts[i], INT64_MIN, INT64_MAX, &value),
                         PL_BAD_INPUT);
        pl_status_clear();
    }
    ck_assert_int_eq(value, -77);
}
END_TEST

START_TEST(a_number_beyond_a_double_is_refused_in_any_range)
{
    double value = -77;

    ck_assert_int_eq(pl_parse_number("--lr", "1e999", -INFINITY, INFINITY, &value), PL_BAD_INPUT);
    ck_assert_int_eq(pl_parse_number("--lr", "-1e999", -INFINITY, INFINITY, &value), PL_BAD_INPUT);
    ck_assert(value == -77);
}
END_TEST

START_TEST(the_ends_of_an_integers_range_belong_to_it)
{
    int64_t value = -77;

    ck_assert_int_eq(pl_parse_integer("--n", "1", 1, 10, &value), PL_OK);
    ck_assert_int_eq(pl_parse_integer("--n", "10", 1, 10, &value), PL_OK);
    ck_assert_int_eq(value, 10);
}
END_TEST

static const struct {
    const char *text;
    double value;
} numbers[] = {{"0", 0}, {"-1.5", -1.5}, {"1e-8", 1e-8}, {".5", .5}, {"3.", 3}, {"1E3", 1000}};

START_TEST(numbers_are_read_as_written)
{
    double value = -77;

    ck_assert_int_eq(pl_parse_number("--lr", numbers[_i].text, -10, 1e4, &value), PL_OK);
    ck_assert(value == numbers[_i].value);
}
END_TEST

static const char *const bad_numbers[] = {"",      " 1",  "1 ",   "x",   "nan", "inf",  "-inf",
                                          "1e999", "1..", "1e3K", "2.1", "-1",  "-nan", "infinity"};

START_TEST(what_is_no_finite_number_in_range_is_refused_with_flag_and_text)
{
    double value = -77;

    ck_assert_int_eq(pl_parse_number("--lr", bad_numbers[_i], 0, 2, &value), PL_BAD_INPUT);
    ck_assert(value == -77);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "--lr: "));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), bad_numbers[_i]));
}
END_TEST

static const char *const words[] = {"none", "block", "matmuls"};

START_TEST(a_word_is_its_place_in_the_list)
{
    int at = -77;

    ck_assert_int_eq(pl_parse_word("--remat", words[_i], words, COUNT(words), &at), PL_OK);
    ck_assert_int_eq(at, _i);
}
END_TEST

START_TEST(what_is_no_word_of_the_list_is_refused_with_those_that_are)
{
    static const char *const other[] = {"", "non", "nonee", "None", "none,block"};
    int at = -77;

    for (int i = 0; i < COUNT(other); i++) {
        ck_assert_int_eq(pl_parse_word("--remat", other[i], words, COUNT(words), &at),
                         PL_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(pl_status_message(), "--remat: "));
        ck_assert_ptr_nonnull(strstr(pl_status_message(), other[i]));
        ck_assert_ptr_nonnull(strstr(pl_status_message(), "none, block, matmuls"));
        pl_status_clear();
    }
    ck_assert_int_eq(at, -77);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbers");
    TCase *tests = tcase_create("numbers");

    tcase_add_test(tests, blocks_tile_the_range_and_differ_by_at_most_one);
    tcase_add_test(tests, seventy_three_over_4_is_19_18_18_18);
    tcase_add_test(tests, blocks_of_the_largest_range_do_not_overflow);
    tcase_add_test(tests, random_numbers_are_a_function_of_seed_stream_and_index);
    tcase_add_test(tests, one_step_of_any_argument_flips_every_bit_half_of_the_time);
    tcase_add_test(tests, two_streams_are_unrelated_index_by_index);
    tcase_add_test(tests, uniform_numbers_have_the_moments_of_the_uniform_distribution);
    tcase_add_test(tests, normal_numbers_have_the_moments_of_the_normal_distribution);
    tcase_add_test(tests, normal_numbers_are_unrelated_to_the_uniform_ones_of_their_stream);
    tcase_add_test(tests, integers_below_n_come_equally_often);
    tcase_add_test(tests, names_give_streams_of_their_own);
    tcase_add_loop_test(tests, integers_may_have_a_unit, 0, COUNT(integers));
    tcase_add_loop_test(tests, what_is_no_integer_in_range_is_refused_with_flag_and_text, 0,
                        COUNT(bad_integers));
    tcase_add_test(tests, an_integer_beyond_64_bits_is_refused_in_any_range);
    tcase_add_test(tests, a_number_beyond_a_double_is_refused_in_any_range);
    tcase_add_test(tests, the_ends_of_an_integers_range_belong_to_it);
    tcase_add_loop_test(tests, numbers_are_read_as_written, 0, COUNT(numbers));
    tcase_add_loop_test(tests, what_is_no_finite_number_in_range_is_refused_with_flag_and_text, 0,
                        COUNT(bad_numbers));
    tcase_add_loop_test(tests, a_word_is_its_place_in_the_list, 0, COUNT(words));
    tcase_add_test(tests, what_is_no_word_of_the_list_is_refused_with_those_that_are);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
