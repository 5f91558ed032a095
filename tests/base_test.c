/* base -- refusals, memory, blocks, random numbers, parsing, spans, waiting, JSON. */
#include "config.h"

#include "src/base/block.h"
#include "src/base/clock.h"
#include "src/base/json.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/parse.h"
#include "src/base/rng.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/base/wait.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- status */

START_TEST(the_first_message_is_kept_until_it_is_cleared)
{
    ck_assert_str_eq(pl_status_message(), "");
    ck_assert_int_eq(pl_refuse(PL_BAD_INPUT, "--lr: %d", 7), PL_BAD_INPUT);
    ck_assert_int_eq(pl_refuse(PL_ENVIRONMENT, "later"), PL_ENVIRONMENT);
    ck_assert_str_eq(pl_status_message(), "--lr: 7");
    pl_status_clear();
    ck_assert_str_eq(pl_status_message(), "");
    pl_refuse(PL_WRONG, "next");
    ck_assert_str_eq(pl_status_message(), "next");
}
END_TEST

START_TEST(a_message_that_is_too_long_is_cut_not_overrun)
{
    char long_text[10000];

    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    pl_refuse(PL_BAD_INPUT, "%s", long_text);
    ck_assert_uint_gt(strlen(pl_status_message()), 1000);
    ck_assert_uint_lt(strlen(pl_status_message()), sizeof long_text);
}
END_TEST

/* ---- panic */

START_TEST(a_panic_exits_with_4)
{
    PL_PANIC("as asked");
}
END_TEST

START_TEST(a_broken_invariant_exits_with_4)
{
    PL_ASSERT(1 + 1 == 2);
    PL_ASSERT(1 + 1 == 3);
}
END_TEST

/* ---- memory */

static bool is_zero(const void *p, size_t bytes)
{
    const unsigned char *c = p;

    for (size_t i = 0; i < bytes; i++)
        if (c[i] != 0)
            return false;
    return true;
}

START_TEST(memory_is_zeroed_and_64_byte_aligned)
{
    static const size_t bytes[] = {0, 1, 63, 64, 65, 4096, 1000003};

    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT(bytes); i++) {
            void *p = pl_alloc(bytes[i]);

            ck_assert_ptr_nonnull(p);
            ck_assert_uint_eq((uintptr_t)p % 64, 0);
            ck_assert(is_zero(p, bytes[i]));
            memset(p, 0xff, bytes[i]); /* for the second round to find, if it is not zeroed */
            pl_free(p);
        }
    pl_free(NULL);
}
END_TEST

START_TEST(growing_keeps_the_old_and_zeroes_the_new)
{
    unsigned char *p = pl_realloc(NULL, 0, 100);

    ck_assert(is_zero(p, 100));
    memset(p, 7, 100);
    p = pl_realloc(p, 100, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(p[i], i < 100 ? 7 : 0);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    p = pl_realloc(p, 1000, 50);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(p[i], 7);
    pl_free(p);
}
END_TEST

START_TEST(every_allocation_is_counted_and_nothing_else)
{
    const int64_t before = pl_allocation_count();
    void *p = pl_alloc(10);

    ck_assert_int_eq(pl_allocation_count(), before + 1);
    p = pl_realloc(p, 10, 20);
    ck_assert_int_eq(pl_allocation_count(), before + 2);
    pl_free(p);
    ck_assert_int_eq(pl_allocation_count(), before + 2);

    pl_arena *arena = pl_arena_create();

    pl_arena_alloc(arena, 10);

    const int64_t opened = pl_allocation_count();

    for (int i = 0; i < 100; i++)
        pl_arena_alloc(arena, 10);
    ck_assert_int_eq(pl_allocation_count(), opened);
    pl_arena_alloc(arena, 10000000);
    ck_assert_int_eq(pl_allocation_count(), opened + 1);
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(memory_that_cannot_be_had_is_a_panic)
{
    pl_alloc(SIZE_MAX / 2);
}
END_TEST

START_TEST(a_size_that_would_wrap_is_a_panic)
{
    pl_alloc(SIZE_MAX - 10);
}
END_TEST

START_TEST(pieces_of_an_arena_are_zeroed_aligned_and_apart)
{
    enum { N = 3000 };
    pl_arena *arena = pl_arena_create();
    unsigned char *pieces[N];
    size_t bytes[N];

    for (int i = 0; i < N; i++) {
        bytes[i] = (size_t)pl_rng_below(1, 2, (uint64_t)i, i % 500 == 0 ? 200000 : 300);
        pieces[i] = pl_arena_alloc(arena, bytes[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % 64, 0);
        ck_assert(is_zero(pieces[i], bytes[i]));
        memset(pieces[i], i % 255 + 1, bytes[i]);
    }

    int64_t n_wrong = 0;

    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < bytes[i]; k++)
            n_wrong += pieces[i][k] != i % 255 + 1;
    ck_assert_int_eq(n_wrong, 0);
    pl_arena_destroy(arena);
    pl_arena_destroy(NULL);
}
END_TEST

START_TEST(an_arena_prints_texts_of_any_length)
{
    pl_arena *arena = pl_arena_create();
    const char *name = pl_arena_printf(arena, "layers.%d.%s", 3, "ffn.up");
    const char *blank = pl_arena_printf(arena, "%s", "");
    const char *wide = pl_arena_printf(arena, "%100000d", 5);

    ck_assert_str_eq(name, "layers.3.ffn.up");
    ck_assert_str_eq(blank, "");
    ck_assert_uint_eq(strlen(wide), 100000);
    pl_arena_destroy(arena);
}
END_TEST

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

/* ---- span, clock, wait */

START_TEST(spans_past_the_end_are_dropped_and_counted)
{
    pl_span_buffer buffer;

    pl_span_buffer_init(&buffer, 2);
    for (int i = 0; i < 5; i++)
        pl_span_add(&buffer, PL_TRACK_COMM, i, 1, i, i + 0.5);
    ck_assert_int_eq(buffer.n_spans, 2);
    ck_assert_int_eq(buffer.n_dropped, 3);
    ck_assert_int_eq(buffer.spans[1].what, 1);
    ck_assert_int_eq(buffer.spans[1].track, PL_TRACK_COMM);
    ck_assert_int_eq(buffer.spans[1].detail, 1);
    ck_assert(buffer.spans[1].begin_s == 1 && buffer.spans[1].end_s == 1.5);
    pl_span_buffer_free(&buffer);
}
END_TEST

START_TEST(a_buffer_of_no_spans_records_nothing)
{
    pl_span_buffer buffer;

    pl_span_buffer_init(&buffer, 0);
    pl_span_add(&buffer, PL_TRACK_COMPUTE, 1, 0, 0, 1);
    ck_assert_int_eq(buffer.n_spans, 0);
    ck_assert_int_eq(buffer.n_dropped, 0);
    pl_span_buffer_free(&buffer);
}
END_TEST

START_TEST(recording_a_span_allocates_nothing)
{
    pl_span_buffer buffer;

    pl_span_buffer_init(&buffer, 10);

    const int64_t before = pl_allocation_count();

    for (int i = 0; i < 20; i++)
        pl_span_add(&buffer, PL_TRACK_STEP, i, 0, 0, 1);
    ck_assert_int_eq(pl_allocation_count(), before);
    pl_span_buffer_free(&buffer);
}
END_TEST

START_TEST(the_clock_moves_with_time)
{
    const double begin_s = pl_now_s();

    usleep(20000);
    ck_assert_double_ge(pl_now_s() - begin_s, 0.02);
}
END_TEST

START_TEST(a_wait_begins_without_sleeping_and_ends_up_asleep)
{
    pl_wait w = {0};
    const clock_t cpu_begin = clock();
    const double begin_s = pl_now_s();

    pl_wait_set_oversubscribed(1);
    while (pl_now_s() - begin_s < 1)
        pl_wait_once(&w);

    /* Alone on a core, yields return at once and are soon over; then it sleeps, nearly idle. */
    ck_assert_double_lt((double)(clock() - cpu_begin) / CLOCKS_PER_SEC, 0.5);
    ck_assert_int_gt(w.polls, 1000);
}
END_TEST

/* ---- json */

static char folder[] = "/tmp/purlin-base-test-XXXXXX";

static const char *path_in_folder(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *file_with(const char *text)
{
    const char *path = path_in_folder("in.json");
    FILE *file = fopen(path, "wb");

    fwrite(text, 1, strlen(text), file);
    fclose(file);
    return path;
}

static const struct {
    const char *text, *why;
} no_json[] = {
    {"", "line 1"},
    {"{\n  \"a\": 1,\n}", "line 3, column 1"},
    {"{\"a\": 1, \"a\": 2}", "duplicate"},
    {"[1, 2]", "no object"},
    {"{\"a\": 1} x", "line 1"},
};

START_TEST(what_is_no_json_object_is_refused_with_path_and_place)
{
    json_t *root = NULL;

    ck_assert_int_eq(pl_json_load(file_with(no_json[_i].text), &root), PL_BAD_INPUT);
    ck_assert_ptr_null(root);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), path_in_folder("in.json")));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), no_json[_i].why));
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_refused_with_the_cause)
{
    json_t *root;

    ck_assert_int_eq(pl_json_load(path_in_folder("absent.json"), &root), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "absent.json: cannot read: No such file"));
    pl_status_clear();
    ck_assert_int_eq(pl_json_load(folder, &root), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), folder));
}
END_TEST

START_TEST(members_are_read_by_type)
{
    json_t *root, *sub, *list;
    int64_t n;
    double x;
    bool yes;
    const char *s;

    ck_assert_int_eq(
        pl_json_load(file_with("{\"n\": 12, \"x\": 1.5, \"yes\": true, \"s\": \"text\","
                               " \"sub\": {\"k\": 1}, \"list\": [1], \"nothing\": null}"),
                     &root),
        PL_OK);
    ck_assert_int_eq(pl_json_integer(root, "f", "n", 12, 12, &n), PL_OK);
    ck_assert_int_eq(n, 12);
    ck_assert_int_eq(pl_json_number(root, "f", "n", 0, 100, &x), PL_OK);
    ck_assert(x == 12);
    ck_assert_int_eq(pl_json_number(root, "f", "x", 0, 100, &x), PL_OK);
    ck_assert(x == 1.5);
    ck_assert_int_eq(pl_json_boolean(root, "f", "yes", &yes), PL_OK);
    ck_assert(yes);
    ck_assert_int_eq(pl_json_string(root, "f", "s", &s), PL_OK);
    ck_assert_str_eq(s, "text");
    ck_assert_int_eq(pl_json_object(root, "f", "sub", &sub), PL_OK);
    ck_assert_int_eq(pl_json_array(root, "f", "list", &list), PL_OK);
    ck_assert(pl_json_has(root, "n") && !pl_json_has(root, "nothing") && !pl_json_has(root, "m"));
    json_decref(root);
}
END_TEST

START_TEST(a_member_that_is_absent_mistyped_or_out_of_range_is_refused_by_its_key)
{
    json_t *root, *json;
    int64_t n = -77;
    double x;
    bool yes;
    const char *s;

    ck_assert_int_eq(pl_json_parse("f", "{\"key\": 1.5, \"n\": 12}", 21, &root), PL_OK);
#define REFUSED(call, why)                                                                         \
    do {                                                                                           \
        ck_assert_int_eq(call, PL_BAD_INPUT);                                                      \
        ck_assert_str_eq(pl_status_message(), why);                                                \
        pl_status_clear();                                                                         \
    } while (0)
    REFUSED(pl_json_integer(root, "f", "none", 0, 9, &n), "f: \"none\" is missing");
    REFUSED(pl_json_integer(root, "f", "key", 0, 9, &n), "f: \"key\" must be an integer");
    REFUSED(pl_json_integer(root, "f", "n", 13, 99, &n), "f: \"n\" is 12, not in 13 to 99");
    REFUSED(pl_json_integer(root, "f", "n", 0, 11, &n), "f: \"n\" is 12, not in 0 to 11");
    REFUSED(pl_json_number(root, "f", "key", 2, 9, &x), "f: \"key\" is 1.5, not in 2 to 9");
    REFUSED(pl_json_boolean(root, "f", "key", &yes), "f: \"key\" must be true or false");
    REFUSED(pl_json_string(root, "f", "key", &s), "f: \"key\" must be a string");
    REFUSED(pl_json_object(root, "f", "key", &json), "f: \"key\" must be an object");
    REFUSED(pl_json_array(root, "f", "key", &json), "f: \"key\" must be an array");
#undef REFUSED
    ck_assert_int_eq(n, -77);
    json_decref(root);
}
END_TEST

START_TEST(records_replace_the_file_and_give_back_the_same_numbers)
{
    static const double values[] = {1.4383557285, 0.1, 1e-300, 123456789012345.0, -0.0};
    const char *path = file_with("old\ncontent\nof\nmany\nlines\n");
    pl_json_lines lines = {0};
    char line[1024];
    json_t *record;
    double x;

    ck_assert_int_eq(pl_json_lines_open(&lines, path), PL_OK);
    for (int i = 0; i < COUNT(values); i++)
        ck_assert_int_eq(pl_json_lines_write(&lines, json_pack("{s:s, s:o}", "record", "step",
                                                               "loss", pl_json_real(values[i]))),
                         PL_OK);
    ck_assert_int_eq(pl_json_lines_close(&lines), PL_OK);

    FILE *file = fopen(path, "rb");

    for (int i = 0; i < COUNT(values); i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
        ck_assert_int_eq(pl_json_parse("line", line, strlen(line), &record), PL_OK);
        ck_assert_int_eq(pl_json_number(record, "line", "loss", -1, 1e20, &x), PL_OK);
        ck_assert_mem_eq(&x, &values[i], sizeof x);
        json_decref(record);
    }
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
}
END_TEST

START_TEST(what_is_not_finite_is_written_as_null)
{
    const double values[] = {NAN, INFINITY, -INFINITY};

    for (int i = 0; i < COUNT(values); i++) {
        json_t *json = pl_json_real(values[i]);

        ck_assert(json_is_null(json));
        json_decref(json);
    }
}
END_TEST

START_TEST(records_without_a_file_go_nowhere)
{
    pl_json_lines lines = {0};

    ck_assert_int_eq(pl_json_lines_write(&lines, json_object()), PL_OK);
    ck_assert_int_eq(pl_json_lines_close(&lines), PL_OK);
}
END_TEST

START_TEST(a_place_that_cannot_be_written_is_refused_with_the_cause)
{
    pl_json_lines lines = {0};
    json_t *root = json_object();

    ck_assert_int_eq(pl_json_lines_open(&lines, path_in_folder("no/such")), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "no/such: cannot write: No such file"));
    pl_status_clear();
    ck_assert_int_eq(pl_json_save(path_in_folder("no/such"), root), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "no/such: cannot write: No such file"));
    pl_status_clear();
    if (access("/dev/full", W_OK) == 0) {
        ck_assert_int_eq(pl_json_lines_open(&lines, "/dev/full"), PL_OK);
        ck_assert_int_eq(pl_json_lines_write(&lines, json_pack("{s:i}", "a", 1)), PL_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(pl_status_message(), "/dev/full: cannot write: No space"));
    }
    json_decref(root);
}
END_TEST

START_TEST(an_object_that_is_saved_is_read_back_equal)
{
    json_t *root = json_pack("{s:f, s:[i,i], s:{s:s}}", "x", 0.1, "list", 1, 2, "sub", "k", "v");
    json_t *again = NULL;
    const char *path = path_in_folder("saved.json");

    ck_assert_int_eq(pl_json_save(path, root), PL_OK);
    ck_assert_int_eq(pl_json_load(path, &again), PL_OK);
    ck_assert(json_equal(root, again));
    json_decref(root);
    json_decref(again);
}
END_TEST

/* ---- */

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);

    suite_add_tcase(suite, tests);
    return tests;
}

static void add_status_and_memory(Suite *suite)
{
    TCase *tests = add_case(suite, "status and memory");

    tcase_add_test(tests, the_first_message_is_kept_until_it_is_cleared);
    tcase_add_test(tests, a_message_that_is_too_long_is_cut_not_overrun);
    tcase_add_exit_test(tests, a_panic_exits_with_4, PL_INTERNAL);
    tcase_add_exit_test(tests, a_broken_invariant_exits_with_4, PL_INTERNAL);
    tcase_add_test(tests, memory_is_zeroed_and_64_byte_aligned);
    tcase_add_test(tests, growing_keeps_the_old_and_zeroes_the_new);
    tcase_add_test(tests, every_allocation_is_counted_and_nothing_else);
    tcase_add_exit_test(tests, memory_that_cannot_be_had_is_a_panic, PL_INTERNAL);
    tcase_add_exit_test(tests, a_size_that_would_wrap_is_a_panic, PL_INTERNAL);
    tcase_add_test(tests, pieces_of_an_arena_are_zeroed_aligned_and_apart);
    tcase_add_test(tests, an_arena_prints_texts_of_any_length);
}

static void add_numbers(Suite *suite)
{
    TCase *tests = add_case(suite, "numbers");

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
    tcase_add_test(tests, the_ends_of_an_integers_range_belong_to_it);
    tcase_add_test(tests, a_number_beyond_a_double_is_refused_in_any_range);
    tcase_add_test(tests, an_integer_beyond_64_bits_is_refused_in_any_range);
    tcase_add_loop_test(tests, numbers_are_read_as_written, 0, COUNT(numbers));
    tcase_add_loop_test(tests, what_is_no_finite_number_in_range_is_refused_with_flag_and_text, 0,
                        COUNT(bad_numbers));
}

static void add_time(Suite *suite)
{
    TCase *tests = add_case(suite, "time");

    tcase_add_test(tests, spans_past_the_end_are_dropped_and_counted);
    tcase_add_test(tests, a_buffer_of_no_spans_records_nothing);
    tcase_add_test(tests, recording_a_span_allocates_nothing);
    tcase_add_test(tests, the_clock_moves_with_time);
    tcase_add_test(tests, a_wait_begins_without_sleeping_and_ends_up_asleep);
}

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    unlink(path_in_folder("in.json"));
    unlink(path_in_folder("saved.json"));
    rmdir(folder);
}

static void add_json(Suite *suite)
{
    TCase *tests = add_case(suite, "json");

    tcase_add_unchecked_fixture(tests, make_folder, remove_folder);
    tcase_add_loop_test(tests, what_is_no_json_object_is_refused_with_path_and_place, 0,
                        COUNT(no_json));
    tcase_add_test(tests, a_file_that_cannot_be_read_is_refused_with_the_cause);
    tcase_add_test(tests, members_are_read_by_type);
    tcase_add_test(tests, a_member_that_is_absent_mistyped_or_out_of_range_is_refused_by_its_key);
    tcase_add_test(tests, records_replace_the_file_and_give_back_the_same_numbers);
    tcase_add_test(tests, what_is_not_finite_is_written_as_null);
    tcase_add_test(tests, records_without_a_file_go_nowhere);
    tcase_add_test(tests, a_place_that_cannot_be_written_is_refused_with_the_cause);
    tcase_add_test(tests, an_object_that_is_saved_is_read_back_equal);
}

int main(void)
{
    Suite *suite = suite_create("base");

    add_status_and_memory(suite);
    add_numbers(suite);
    add_time(suite);
    add_json(suite);
    return ck_main(suite);
}
