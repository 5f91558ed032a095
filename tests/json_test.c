/* Files that programs read and write for others: JSON, JSON lines, CSV. */
#include "config.h"

#include "src/base/csv.h"
#include "src/base/json.h"
#include "src/base/status.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- json */

static const char *path_in_folder(const char *name)
{
    static char path[SCRATCH_PATH];

    return scratch_path(name, path);
}

static const char *file_with(const char *text)
{
    scratch_write("in.json", text, strlen(text));
    return path_in_folder("in.json");
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
    ck_assert_int_eq(pl_json_load(path_in_folder("."), &root), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), path_in_folder(".")));
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

/* A pipe stands for a device, which a test had better not put at risk. */
START_TEST(what_is_no_plain_file_is_written_and_not_replaced)
{
    char path[SCRATCH_PATH], link[SCRATCH_PATH], line[64];
    json_t *root = json_pack("{s:i}", "x", 7);
    struct stat about;

    scratch_path("pipe", path);
    scratch_path("link", link);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(symlink(path, link), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);

    ck_accepted(pl_json_save(link, root));
    ck_assert_int_gt(read(reader, line, sizeof line), 0);
    ck_assert(lstat(path, &about) == 0 && S_ISFIFO(about.st_mode));
    ck_assert(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    close(reader);
    json_decref(root);
}
END_TEST

/* ---- csv */

START_TEST(rows_have_their_fields_and_nothing_where_there_is_no_number)
{
    static const char want[] = "a,b,c,d\nx,1,y,0.1\nz,2,,\n";
    const char *path = path_in_folder("t.csv");
    pl_csv csv;
    size_t n;

    ck_accepted(pl_csv_open(&csv, path, "a,b,c,d"));
    pl_csv_begin(&csv, "%s,%d", "x", 1);
    pl_csv_text(&csv, "y");
    pl_csv_number(&csv, 0.1);
    pl_csv_end(&csv);
    pl_csv_begin(&csv, "%s,%d", "z", 2);
    pl_csv_number(&csv, NAN);
    pl_csv_number(&csv, INFINITY);
    pl_csv_end(&csv);

    char *text = scratch_read(path, &n); /* rows are there before the end */
    ck_assert_uint_eq(n, sizeof want - 1);
    ck_assert_mem_eq(text, want, n);
    free(text);
    ck_accepted(pl_csv_close(&csv));
    ck_accepted(pl_csv_close(&csv));
}
END_TEST

START_TEST(a_table_without_a_file_goes_nowhere)
{
    pl_csv csv;

    ck_accepted(pl_csv_open(&csv, NULL, "a"));
    pl_csv_begin(&csv, "%d", 1);
    pl_csv_text(&csv, "x");
    pl_csv_number(&csv, 1);
    pl_csv_end(&csv);
    ck_accepted(pl_csv_close(&csv));
}
END_TEST

START_TEST(a_table_that_cannot_be_written_is_refused_with_the_cause)
{
    pl_csv csv;

    ck_refused(pl_csv_open(&csv, path_in_folder("no/such"), "a"), "--csv", "no/such",
               "No such file", NULL);
    if (access("/dev/full", W_OK) != 0)
        ck_skip("no full device");
    ck_accepted(pl_csv_open(&csv, "/dev/full", "a"));
    pl_csv_end(&csv);
    ck_refused(pl_csv_close(&csv), "--csv", "/dev/full", "not whole", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");

    tcase_add_checked_fixture(tests, scratch_create, scratch_remove);
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
    tcase_add_test(tests, what_is_no_plain_file_is_written_and_not_replaced);
    tcase_add_test(tests, rows_have_their_fields_and_nothing_where_there_is_no_number);
    tcase_add_test(tests, a_table_without_a_file_goes_nowhere);
    tcase_add_test(tests, a_table_that_cannot_be_written_is_refused_with_the_cause);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
