/* check_main -- a forking runner, and the line that says skipped. */
#include "config.h"

#include "tests/check_main.h"
#include "src/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int ck_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);

    const int n_failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

const char *ck_testdata(void)
{
    const char *folder = getenv("PURLIN_TESTDATA");

    return folder != NULL && access(folder, R_OK | X_OK) == 0 ? folder : NULL;
}

int ck_testdata_path(const char *name, char *path, size_t path_bytes)
{
    const char *folder = ck_testdata();

    if (folder == NULL)
        return 0;

    const int length = snprintf(path, path_bytes, "%s/%s", folder, name);

    return length > 0 && (size_t)length < path_bytes && access(path, R_OK) == 0;
}

void ck_report_skip(const char *test, const char *format, ...)
{
    va_list args;

    if (pl_log_rank() != 0)
        return;
    va_start(args, format);
    printf("skipped: %s: ", test);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}
