/* data_test -- corpora, windows, and the text of known entropy. */
#include "config.h"

#include "src/model/data.h"
#include "src/model/synthetic_text.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_WORDS = 256 };

/** A token file of llm.c's: header words 0 to 2 as given, then n ids 0, 1, 2, ... x `step`. */
static void write_ids(const char *name, int32_t magic, int32_t version, int32_t count, int n,
                      int step)
{
    char bytes[4 * HEADER_WORDS + 2 * 4096] = "";
    const int32_t header[3] = {magic, version, count};

    memcpy(bytes, header, sizeof header);
    for (int i = 0; i < n; i++) {
        const uint16_t id = (uint16_t)(i * step);

        memcpy(bytes + 4 * HEADER_WORDS + 2 * i, &id, sizeof id);
    }
    scratch_write(name, bytes, 4 * HEADER_WORDS + 2 * (size_t)n);
}

static pl_status open_scratch(const char *name, int64_t vocab, pl_corpus *corpus)
{
    char path[SCRATCH_PATH];

    return pl_corpus_open(scratch_path(name, path), vocab, corpus);
}

/** A corpus of n bytes. */
static pl_corpus bytes_corpus(int64_t n)
{
    char *bytes = calloc((size_t)n, 1);
    pl_corpus corpus;

    scratch_write("text", bytes, (size_t)n);
    free(bytes);
    ck_accepted(open_scratch("text", 256, &corpus));
    return corpus;
}

/* --- opening --- */

START_TEST(bytes_are_tokens)
{
    static const unsigned char bytes[] = {'p', 0, 255, '\n', 128};
    int32_t out[3];
    pl_corpus c;

    scratch_write("text", bytes, sizeof bytes);
    ck_accepted(open_scratch("text", 256, &c));
    ck_assert_int_eq(c.n_tokens, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(pl_corpus_token(&c, i), bytes[i]);
    pl_corpus_copy(&c, 2, 3, out);
    ck_assert(out[0] == 255 && out[1] == '\n' && out[2] == 128);
    ck_assert(c.entropy_nats == 0);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(a_token_file_gives_its_ids)
{
    pl_corpus c;

    write_ids("ids.bin", 20240520, 1, 100, 100, 600);
    ck_accepted(open_scratch("ids.bin", 59401, &c));
    ck_assert_int_eq(c.n_tokens, 100);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(pl_corpus_token(&c, i), 600 * i);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(a_token_file_needs_no_bin_in_its_name)
{
    pl_corpus c;

    write_ids("ids", 20240520, 1, 7, 7, 1);
    ck_accepted(open_scratch("ids", 7, &c));
    ck_assert_int_eq(c.n_tokens, 7);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(an_id_beyond_the_vocabulary_is_refused_with_both)
{
    pl_corpus c;

    write_ids("ids.bin", 20240520, 1, 100, 100, 1);
    ck_refused(open_scratch("ids.bin", 99, &c), "largest token id is 99", "99 ids", "ids.bin",
               NULL);
    ck_accepted(open_scratch("ids.bin", 100, &c));
    pl_corpus_close(&c);
    scratch_write("text", "abc~abc", 7);
    ck_refused(open_scratch("text", 126, &c), "largest token id is 126", "126 ids", NULL);
    ck_accepted(open_scratch("text", 127, &c));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(a_broken_token_file_is_refused)
{
    pl_corpus c;

    write_ids("short.bin", 20240520, 1, 101, 100, 1);
    ck_refused(open_scratch("short.bin", 512, &c), "101", "1226", "1224", "truncated", NULL);
    write_ids("grown.bin", 20240520, 1, 99, 100, 1);
    ck_refused(open_scratch("grown.bin", 512, &c), "99", "1222", "1224", "grown", NULL);
    write_ids("negative.bin", 20240520, 1, -1, 100, 1);
    ck_refused(open_scratch("negative.bin", 512, &c), "-1", NULL);
    write_ids("none.bin", 20240520, 1, 0, 0, 1);
    ck_refused(open_scratch("none.bin", 512, &c), "no token ids", NULL);
    write_ids("newer.bin", 20240520, 2, 100, 100, 1);
    ck_refused(open_scratch("newer.bin", 512, &c), "version 2", NULL);
    write_ids("foreign.bin", 1234567, 1, 100, 100, 1);
    ck_refused(open_scratch("foreign.bin", 512, &c), "1234567", "20240520", NULL);
    scratch_write("cut.bin", "\x88\xd8\x34\x01 and", 8); /* the magic number, no more */
    ck_refused(open_scratch("cut.bin", 512, &c), "1024 bytes", "8 bytes", "truncated", NULL);
}
END_TEST

START_TEST(what_cannot_be_read_is_refused_with_path_and_cause)
{
    char path[SCRATCH_PATH];
    pl_corpus c;

    ck_refused(open_scratch("absent", 256, &c), "/absent", "No such file", NULL);
    scratch_write("empty", "", 0);
    ck_refused(open_scratch("empty", 256, &c), "/empty", "empty", NULL);
    ck_refused(open_scratch("", 256, &c), "Is a directory", NULL);
    ck_assert_int_eq(mkfifo(scratch_path("pipe", path), 0600), 0);
    ck_refused(open_scratch("pipe", 256, &c), "/pipe", "no regular file", NULL);
}
END_TEST

/* --- lengths --- */

START_TEST(one_window_and_the_token_after_it_train)
{
    const int64_t T = 512;
    pl_corpus c = bytes_corpus(T + 1);

    ck_accepted(pl_corpus_check_window(&c, T));
    ck_assert_int_eq(pl_window_begin(&c, PL_ORDER_RANDOM, 7, 3, 1, 4, T), 0);
    ck_assert_int_eq(pl_window_begin(&c, PL_ORDER_SEQUENTIAL, 7, 3, 1, 4, T), 0);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(one_window_without_the_token_after_it_is_refused)
{
    pl_corpus c = bytes_corpus(512);

    ck_refused(pl_corpus_check_window(&c, 512), "512 tokens", "needs 513", "--seq", NULL);
    pl_corpus_close(&c);
    c = bytes_corpus(1);
    ck_refused(pl_corpus_check_window(&c, 1), "1 tokens", "needs 2", NULL);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(the_last_twentieth_is_kept_for_validation)
{
    pl_corpus c = bytes_corpus(1019); /* 5% is 50.95 */

    ck_accepted(pl_corpus_split(&c, 24));
    ck_assert_int_eq(c.n_train, 969);
    ck_assert_int_eq(pl_eval_window_begin(&c, 24, 0), 969);
    ck_assert_int_eq(pl_eval_window_count(&c, 24), 2); /* 2 x 24 + 1 = 49 of 50 tokens */
    ck_assert_int_eq(pl_eval_window_count(&c, 25), 1); /* 2 x 25 + 1 = 51 */
    pl_corpus_close(&c);
}
END_TEST

START_TEST(a_validation_split_without_a_window_is_refused)
{
    pl_corpus c = bytes_corpus(100);

    ck_refused(pl_corpus_split(&c, 20), "100 tokens", "is 5", "needs 21", "420 in all", NULL);
    pl_corpus_close(&c);
    c = bytes_corpus(419);
    ck_refused(pl_corpus_split(&c, 20), "419 tokens", NULL);
    pl_corpus_close(&c);
    c = bytes_corpus(420);
    ck_accepted(pl_corpus_split(&c, 20));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(without_a_split_evaluation_covers_the_file)
{
    pl_corpus c = bytes_corpus(1001);

    ck_assert_int_eq(pl_eval_window_count(&c, 100), 10);
    ck_assert_int_eq(pl_eval_window_count(&c, 1000), 1);
    ck_assert_int_eq(pl_eval_window_count(&c, 1001), 0);
    ck_assert_int_eq(pl_eval_window_begin(&c, 100, 9), 900);
    pl_corpus_close(&c);
}
END_TEST

/* --- windows --- */

START_TEST(sequential_windows_follow_the_formula)
{
    enum { T = 64, BATCH = 4, N = 1809 };
    pl_corpus c = bytes_corpus(N);

    for (int i = 0; i < 400; i++)
        ck_assert_int_eq(
            pl_window_begin(&c, PL_ORDER_SEQUENTIAL, 0, i / BATCH, i % BATCH, BATCH, T),
            (int64_t)i * T % (N - T - 1));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(sequential_windows_survive_counts_beyond_32_bits)
{
    enum { T = 64, N = 1809 };
    const int64_t i = ((int64_t)1 << 57) + 5; /* i T overflows 63 bits */
    pl_corpus c = bytes_corpus(N);

    ck_assert_int_eq(pl_window_begin(&c, PL_ORDER_SEQUENTIAL, 0, i, 0, 1, T),
                     (int64_t)((unsigned __int128)i * T % (N - T - 1)));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(random_windows_cover_every_start_evenly)
{
    enum { T = 90, N = 100, STARTS = N - T, DRAWS = 10000 };
    int64_t hits[STARTS] = {0};
    double chi2 = 0;
    pl_corpus c = bytes_corpus(N);

    for (int i = 0; i < DRAWS; i++) {
        const int64_t begin = pl_window_begin(&c, PL_ORDER_RANDOM, 1, i / 8, i % 8, 8, T);

        ck_assert(begin >= 0 && begin + T + 1 <= N);
        hits[begin]++;
    }
    for (int s = 0; s < STARTS; s++) {
        const double expected = (double)DRAWS / STARTS, off = (double)hits[s] - expected;

        chi2 += off * off / expected;
    }
    /* 9 degrees of freedom: mean 9, deviation sqrt(18); six deviations above the mean. */
    ck_assert_double_lt(chi2, 9 + 6 * sqrt(18.0));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(random_windows_are_a_function_of_seed_and_sequence)
{
    enum { T = 16, N = 100000 };
    int n_equal = 0;
    pl_corpus c = bytes_corpus(N);

    for (int i = 0; i < 64; i++) {
        const int64_t a = pl_window_begin(&c, PL_ORDER_RANDOM, 1, i / 8, i % 8, 8, T);

        /* the same sequence of the run, in batches of another size */
        ck_assert_int_eq(pl_window_begin(&c, PL_ORDER_RANDOM, 1, i / 4, i % 4, 4, T), a);
        n_equal += pl_window_begin(&c, PL_ORDER_RANDOM, 2, i / 8, i % 8, 8, T) == a;
    }
    ck_assert_int_le(n_equal, 1); /* expected 64 / 99984 */
    pl_corpus_close(&c);
}
END_TEST

START_TEST(windows_of_training_stay_out_of_the_validation_part)
{
    enum { T = 20, N = 1000 };
    pl_corpus c = bytes_corpus(N);

    ck_accepted(pl_corpus_split(&c, T));
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_le(pl_window_begin(&c, PL_ORDER_RANDOM, 3, i, 0, 1, T) + T + 1, 950);
        ck_assert_int_le(pl_window_begin(&c, PL_ORDER_SEQUENTIAL, 3, i, 0, 1, T) + T + 1, 950);
    }
    pl_corpus_close(&c);
}
END_TEST

/* --- the synthetic text --- */

static const int vocabs[] = {1, 2, 3, 4, 5, 16, 31, 100, 256, 257, 50257};

/** -sum p ln p of the rows that the text was measured to have; the distribution is over pairs. */
static double measured_entropy(const uint8_t *text, int64_t n)
{
    static int64_t pairs[256][256], singles[256];
    double nats = 0;

    memset(pairs, 0, sizeof pairs);
    memset(singles, 0, sizeof singles);
    for (int64_t i = 1; i < n; i++) {
        pairs[text[i - 1]][text[i]]++;
        singles[text[i - 1]]++;
    }
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            if (pairs[a][b] > 0)
                nats -= (double)pairs[a][b] * log((double)pairs[a][b] / (double)singles[a]);
    return nats / (double)(n - 1);
}

START_TEST(the_stated_entropy_is_the_texts)
{
    const int vocab = vocabs[_i], n = PL_SYNTHETIC_TOKENS;
    pl_corpus c;

    pl_corpus_open_synthetic(vocab, 5, &c);
    ck_assert_int_eq(c.n_tokens, n);
    /* -ln p of a token deviates by under ln 2 from its mean (k = 4: by 0.83 bit, times ln 2): the
     * mean of n by ln 2 / sqrt(n); five of these. The plug-in estimate is low by about
     * (32 x 3) / (2 n) nats, which is less than one of them. */
    ck_assert(fabs(measured_entropy(c.u8, n) - c.entropy_nats) <= 6 * log(2) / sqrt(n));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(the_stated_entropy_is_that_of_its_probabilities)
{
    ck_assert(pl_synthetic_entropy_nats(1) == 0);
    ck_assert(fabs(pl_synthetic_entropy_nats(2) - log(2)) <= 2 * DBL_EPSILON);
    ck_assert(fabs(pl_synthetic_entropy_nats(3) - 1.5 * log(2)) <= 4 * DBL_EPSILON);
    ck_assert(fabs(pl_synthetic_entropy_nats(256) - 1.75 * log(2)) <= 4 * DBL_EPSILON);
}
END_TEST

START_TEST(synthetic_ids_are_in_the_vocabulary_and_all_its_symbols_occur)
{
    const int vocab = vocabs[_i], n_symbols = vocab < 32 ? vocab : 32;
    int seen[256] = {0}, n_seen = 0, n_beyond = 0;
    pl_corpus c;

    pl_corpus_open_synthetic(vocab, 9, &c);
    for (int64_t i = 0; i < c.n_tokens; i++) {
        n_beyond += pl_corpus_token(&c, i) >= vocab;
        n_seen += seen[pl_corpus_token(&c, i)]++ == 0;
    }
    ck_assert_int_eq(n_beyond, 0);
    ck_assert_int_eq(n_seen, n_symbols);
    pl_corpus_close(&c);
}
END_TEST

START_TEST(the_synthetic_text_is_a_function_of_its_seed)
{
    pl_corpus a, b, other;

    pl_corpus_open_synthetic(256, 1, &a);
    pl_corpus_open_synthetic(256, 1, &b);
    pl_corpus_open_synthetic(256, 2, &other);
    ck_assert_mem_eq(a.u8, b.u8, (size_t)a.n_tokens);
    ck_assert_int_ne(memcmp(a.u8, other.u8, (size_t)a.n_tokens), 0);
    pl_corpus_close(&a);
    pl_corpus_close(&b);
    pl_corpus_close(&other);
}
END_TEST

/* --- real files --- */

START_TEST(a_real_token_file_is_read)
{
    /* The first ids are those that llama2.c prints for the sample: BOS, then "Once upon a time". */
    static const int32_t first[] = {1, 403, 407, 261, 378};
    char path[SCRATCH_PATH];
    pl_corpus c;

    if (!ck_testdata_path("corpora/tinystories_sample.tok512.bin", path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_corpus_open(path, 512, &c));
    ck_assert_int_eq(c.n_tokens, 1809);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(pl_corpus_token(&c, i), first[i]);
    ck_assert_int_eq(pl_eval_window_count(&c, 256), 7); /* the oracle's windows */
    pl_corpus_close(&c);
}
END_TEST

START_TEST(ids_of_a_larger_tokenizer_are_refused_for_a_smaller_model)
{
    char path[SCRATCH_PATH];
    pl_corpus c;

    if (!ck_testdata_path("corpora/tinystories_sample.story656K.bin", path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_refused(pl_corpus_open(path, 512, &c), "2042", "512", NULL);
    ck_accepted(pl_corpus_open(path, 2048, &c));
    pl_corpus_close(&c);
}
END_TEST

START_TEST(a_real_text_is_read_as_bytes)
{
    char path[SCRATCH_PATH];
    pl_corpus c;

    if (!ck_testdata_path("corpora/tinyshakespeare.txt", path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_accepted(pl_corpus_open(path, 256, &c));
    ck_assert_int_eq(c.n_tokens, 1115394);
    ck_assert_int_eq(pl_corpus_token(&c, 0), 'F'); /* First Citizen: */
    pl_corpus_close(&c);
}
END_TEST

START_TEST(weights_given_as_data_are_refused)
{
    char path[SCRATCH_PATH];
    pl_corpus c;

    if (!ck_testdata_path("weights/stories260K/stories260K.bin", path, sizeof path))
        ck_skip("needs PURLIN_TESTDATA");
    ck_refused(pl_corpus_open(path, 512, &c), "20240520", NULL);
}
END_TEST

static Suite *make_suite(void)
{
    enum { N_VOCABS = sizeof vocabs / sizeof *vocabs };
    Suite *suite = suite_create("data");
    TCase *tests = tcase_create("data");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
    tcase_add_test(tests, bytes_are_tokens);
    tcase_add_test(tests, a_token_file_gives_its_ids);
    tcase_add_test(tests, a_token_file_needs_no_bin_in_its_name);
    tcase_add_test(tests, an_id_beyond_the_vocabulary_is_refused_with_both);
    tcase_add_test(tests, a_broken_token_file_is_refused);
    tcase_add_test(tests, what_cannot_be_read_is_refused_with_path_and_cause);
    tcase_add_test(tests, one_window_and_the_token_after_it_train);
    tcase_add_test(tests, one_window_without_the_token_after_it_is_refused);
    tcase_add_test(tests, the_last_twentieth_is_kept_for_validation);
    tcase_add_test(tests, a_validation_split_without_a_window_is_refused);
    tcase_add_test(tests, without_a_split_evaluation_covers_the_file);
    tcase_add_test(tests, sequential_windows_follow_the_formula);
    tcase_add_test(tests, sequential_windows_survive_counts_beyond_32_bits);
    tcase_add_test(tests, random_windows_cover_every_start_evenly);
    tcase_add_test(tests, random_windows_are_a_function_of_seed_and_sequence);
    tcase_add_test(tests, windows_of_training_stay_out_of_the_validation_part);
    tcase_add_loop_test(tests, the_stated_entropy_is_the_texts, 0, N_VOCABS);
    tcase_add_test(tests, the_stated_entropy_is_that_of_its_probabilities);
    tcase_add_loop_test(tests, synthetic_ids_are_in_the_vocabulary_and_all_its_symbols_occur, 0,
                        N_VOCABS);
    tcase_add_test(tests, the_synthetic_text_is_a_function_of_its_seed);
    tcase_add_test(tests, a_real_token_file_is_read);
    tcase_add_test(tests, ids_of_a_larger_tokenizer_are_refused_for_a_smaller_model);
    tcase_add_test(tests, a_real_text_is_read_as_bytes);
    tcase_add_test(tests, weights_given_as_data_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
