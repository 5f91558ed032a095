/* check_main -- what every serial suite shares: its main, and skipping.
 *
 * A serial suite ends with   int main(void) { return ck_main(make_suite()); }   Every test runs in
 * a process of its own. */
#ifndef PURLIN_TESTS_CHECK_MAIN_H
#define PURLIN_TESTS_CHECK_MAIN_H

#include <check.h>

/** Run a suite, which is freed; the exit code of its program. */
int ck_main(Suite *suite);

/** Where the real data are (PURLIN_TESTDATA), or NULL when there are none. */
const char *ck_testdata(void);

/** PURLIN_TESTDATA/name in `path`, and whether that file can be read. */
int ck_testdata_path(const char *name, char *path, size_t path_bytes);

/** Leave a test that cannot run here: it counts as skipped. For the body of a START_TEST. */
#define ck_skip(...)                                                                               \
    do {                                                                                           \
        ck_report_skip(__func__, __VA_ARGS__);                                                     \
        return;                                                                                    \
    } while (0)

/** The line that tests/summary counts. Silent off rank 0 (pl_log_rank). */
void ck_report_skip(const char *test, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
