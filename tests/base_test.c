/* base -- refusals, panics, memory, spans, waiting. */
#include "config.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/rng.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/base/wait.h"
#include "tests/check_main.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
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

/** Whether Linux was told that the mapping p lies in wants huge pages; -1 where it does not say. */
static int wants_huge_pages(const void *p)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool inside = false;
    int wants = -1;

    while (maps != NULL && wants < 0 && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            inside = begin <= (uintptr_t)p && (uintptr_t)p < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            wants = strstr(line, " hg") != NULL;
    }
    if (maps != NULL)
        fclose(maps);
    return wants;
}

START_TEST(large_memory_begins_at_a_huge_page_and_asks_for_more)
{
    enum { HUGE = 2 << 20 };
    char *large = pl_alloc(PL_LARGE_BYTES + 12345), *small = pl_alloc(PL_LARGE_BYTES / 4);

    ck_assert_uint_eq((uintptr_t)large % HUGE, 0);
    ck_assert(is_zero(large, PL_LARGE_BYTES + 12345));
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0 ||
        wants_huge_pages(large) < 0)
        ck_skip("this system has no huge pages, or does not say");
    ck_assert_int_eq(wants_huge_pages(large), 1);
    ck_assert_int_eq(wants_huge_pages(large + PL_LARGE_BYTES - 1), 1);
    ck_assert_int_eq(wants_huge_pages(large + PL_LARGE_BYTES), 0); /* would take 2 MiB for 12 KB */
    ck_assert_int_eq(wants_huge_pages(small), 0);
    pl_free(large);
    pl_free(small);
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

/* Room doubles, so that a list of n is moved about log n times; what was there stays. */
START_TEST(a_list_keeps_its_elements_while_it_grows)
{
    enum { N = 10000 };
    int64_t *list = NULL, room = 0;
    const int64_t before = pl_allocation_count();

    for (int64_t n = 0; n < N; n++) {
        list = pl_room_for_one(list, n, &room, sizeof *list);
        ck_assert_int_gt(room, n);
        ck_assert_int_eq(list[n], 0);
        list[n] = n;
    }
    for (int64_t i = 0; i < N; i++)
        ck_assert_int_eq(list[i], i);
    ck_assert_int_le(pl_allocation_count() - before, 8); /* 64, 192, ... */
    pl_free(list);
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

START_TEST(an_arena_joins_two_texts)
{
    pl_arena *arena = pl_arena_create();
    const char *name = pl_arena_join(arena, "layers.3.", "ffn.up"),
               *first = pl_arena_join(arena, "first", ""),
               *second = pl_arena_join(arena, "", "second"), *blank = pl_arena_join(arena, "", "");

    ck_assert_str_eq(name, "layers.3.ffn.up"); /* whole, though others came after it */
    ck_assert_str_eq(first, "first");
    ck_assert_str_eq(second, "second");
    ck_assert_str_eq(blank, "");
    pl_arena_destroy(arena);
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

/* The time that the last of so many steps of a wait takes. */
static double last_step_s(int n)
{
    pl_wait w = {0};

    for (int i = 1; i < n; i++)
        pl_wait_once(&w);
    const double begin_s = pl_now_s();
    pl_wait_once(&w);
    return pl_now_s() - begin_s;
}

/* A sleep lasts at least as long as it is meant to. */
START_TEST(sleeps_of_a_wait_become_longer_where_ranks_share_cores)
{
    enum { FIRST_SLEEP = 20009, MANY = 100 };

    pl_wait_set_oversubscribed(1);
    ck_assert_double_ge(last_step_s(FIRST_SLEEP), 5e-5);
    ck_assert_double_ge(last_step_s(FIRST_SLEEP + 8), 1.5e-4);
    ck_assert_double_ge(last_step_s(FIRST_SLEEP + MANY), 1e-3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");

    tcase_add_test(tests, the_first_message_is_kept_until_it_is_cleared);
    tcase_add_test(tests, a_message_that_is_too_long_is_cut_not_overrun);
    tcase_add_exit_test(tests, a_panic_exits_with_4, PL_INTERNAL);
    tcase_add_exit_test(tests, a_broken_invariant_exits_with_4, PL_INTERNAL);
    tcase_add_test(tests, memory_is_zeroed_and_64_byte_aligned);
    tcase_add_test(tests, large_memory_begins_at_a_huge_page_and_asks_for_more);
    tcase_add_test(tests, growing_keeps_the_old_and_zeroes_the_new);
    tcase_add_test(tests, a_list_keeps_its_elements_while_it_grows);
    tcase_add_test(tests, every_allocation_is_counted_and_nothing_else);
    tcase_add_exit_test(tests, memory_that_cannot_be_had_is_a_panic, PL_INTERNAL);
    tcase_add_exit_test(tests, a_size_that_would_wrap_is_a_panic, PL_INTERNAL);
    tcase_add_test(tests, pieces_of_an_arena_are_zeroed_aligned_and_apart);
    tcase_add_test(tests, an_arena_joins_two_texts);
    tcase_add_test(tests, an_arena_prints_texts_of_any_length);
    tcase_add_test(tests, spans_past_the_end_are_dropped_and_counted);
    tcase_add_test(tests, a_buffer_of_no_spans_records_nothing);
    tcase_add_test(tests, recording_a_span_allocates_nothing);
    tcase_add_test(tests, the_clock_moves_with_time);
    tcase_add_test(tests, sleeps_of_a_wait_become_longer_where_ranks_share_cores);
    tcase_add_test(tests, a_wait_begins_without_sleeping_and_ends_up_asleep);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
