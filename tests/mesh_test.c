/* mesh_test -- the logical grid of ranks: names, coordinates, factors. */
#include "config.h"

#include "src/mesh/mesh.h"
#include "tests/check_main.h"

#include <string.h>

static pl_mesh mesh_of(int n, const char *const *names, const int *sizes)
{
    pl_mesh mesh = {0};

    for (int a = 0; a < n; a++)
        ck_assert_int_eq(pl_mesh_add(&mesh, names[a], sizes[a]), PL_OK);
    return mesh;
}

static pl_mesh training_mesh(void)
{
    return mesh_of(4, (const char *const[]){"pp", "dp", "fsdp", "tp"}, (const int[]){3, 1, 2, 8});
}

START_TEST(ranks_are_numbered_row_major_with_the_last_axis_innermost)
{
    const pl_mesh mesh = training_mesh();
    int64_t rank = 0;
    int n_wrong = 0;

    for (int pp = 0; pp < 3; pp++)
        for (int fsdp = 0; fsdp < 2; fsdp++)
            for (int tp = 0; tp < 8; tp++, rank++) {
                const pl_coords at = pl_mesh_coords(&mesh, rank);

                n_wrong += at.at[0] != pp || at.at[1] != 0 || at.at[2] != fsdp || at.at[3] != tp;
                n_wrong += pl_mesh_rank(&mesh, at) != rank;
            }
    ck_assert_int_eq(n_wrong, 0);
    ck_assert_int_eq(pl_mesh_size(&mesh), rank);
}
END_TEST

START_TEST(members_of_a_group_are_numbered_row_major_over_its_axes_alone)
{
    const pl_mesh mesh = training_mesh();
    int n_wrong = 0;

    for (pl_axes set = 0; set < 1u << mesh.n_axes; set++)
        for (int64_t rank = 0; rank < pl_mesh_size(&mesh); rank++) {
            const pl_coords at = pl_mesh_coords(&mesh, rank);
            int64_t last = -1;

            for (int p = 0; p < pl_mesh_extent(&mesh, set); p++) {
                const pl_coords m = pl_mesh_member(&mesh, set, at, p);

                n_wrong += pl_mesh_position(&mesh, set, m) != p;
                for (int a = 0; a < mesh.n_axes; a++)
                    n_wrong += !(set >> a & 1) && m.at[a] != at.at[a];
                n_wrong += pl_mesh_rank(&mesh, m) <= last; /* row-major: ranks rise */
                last = pl_mesh_rank(&mesh, m);
            }
            n_wrong += memcmp(pl_mesh_member(&mesh, set, at, pl_mesh_position(&mesh, set, at)).at,
                              at.at, sizeof at.at) != 0;
        }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(a_factored_axis_leaves_every_rank_where_it_was)
{
    const pl_mesh whole = training_mesh();
    pl_mesh mesh = training_mesh();
    int n_wrong = 0;

    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    ck_assert_int_eq(mesh.n_axes, 5);
    ck_assert_int_eq(mesh.axes[3].size, 4);
    ck_assert_int_eq(mesh.axes[4].size, 2);
    for (int64_t rank = 0; rank < pl_mesh_size(&whole); rank++) {
        const pl_coords at = pl_mesh_coords(&mesh, rank);

        n_wrong += pl_mesh_position(&mesh, pl_mesh_family(&mesh, "tp"), at) !=
                   pl_mesh_coords(&whole, rank).at[3];
        n_wrong += at.at[0] != pl_mesh_coords(&whole, rank).at[0];
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(a_factored_axis_is_found_by_its_family_and_its_factors_by_name)
{
    pl_mesh mesh = training_mesh();

    ck_assert_int_eq(pl_mesh_family(&mesh, "tp"), 1 << 3);
    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    ck_assert_int_eq(pl_mesh_axis(&mesh, "tp"), -1);
    ck_assert_int_eq(pl_mesh_axis(&mesh, "tp.0"), 3);
    ck_assert_int_eq(pl_mesh_axis(&mesh, "tp.1"), 4);
    ck_assert_int_eq(pl_mesh_family(&mesh, "tp"), 3 << 3);
    ck_assert_int_eq(pl_mesh_family(&mesh, "tp.0"), 0);
    ck_assert_int_eq(pl_mesh_extent(&mesh, pl_mesh_family(&mesh, "tp")), 8);
}
END_TEST

START_TEST(a_mesh_is_printed_as_it_was_asked_for)
{
    pl_mesh mesh = training_mesh();
    char text[64];

    pl_mesh_print(&mesh, text, sizeof text);
    ck_assert_str_eq(text, "pp:3 dp:1 fsdp:2 tp:8");
    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    pl_mesh_print(&mesh, text, sizeof text);
    ck_assert_str_eq(text, "pp:3 dp:1 fsdp:2 tp:8");
    pl_mesh_print(&mesh, text, 8);
    ck_assert_str_eq(text, "pp:3 dp");
    pl_mesh_print(&(pl_mesh){0}, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(axes_are_printed_by_family_where_it_is_complete)
{
    pl_mesh mesh = training_mesh();
    char text[64];

    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    pl_axes_print(&mesh, pl_mesh_family(&mesh, "tp") | 1 << 1, text, sizeof text);
    ck_assert_str_eq(text, "dp,tp");
    pl_axes_print(&mesh, 1 << 2 | 1 << 4, text, sizeof text);
    ck_assert_str_eq(text, "fsdp,tp.1");
    pl_axes_print(&mesh, 0, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

/* Refused, the mesh as it was, the message naming what was wrong. */
static void check_refused(pl_status status, const pl_mesh *mesh, const pl_mesh *before,
                          const char *named)
{
    ck_assert_int_eq(status, PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), named));
    ck_assert_mem_eq(mesh, before, sizeof *mesh);
    pl_status_clear();
}

START_TEST(a_bad_axis_is_refused_by_name_and_leaves_the_mesh_alone)
{
    pl_mesh mesh = training_mesh();
    const pl_mesh before = mesh;

    check_refused(pl_mesh_add(&mesh, "tp", 2), &mesh, &before, "axis tp is given twice");
    check_refused(pl_mesh_add(&mesh, "ep", 0), &mesh, &before, "axis ep has size 0");
    check_refused(pl_mesh_add(&mesh, "ep", -4), &mesh, &before, "axis ep has size -4");
    check_refused(pl_mesh_add(&mesh, "", 2), &mesh, &before, "\"\"");
    check_refused(pl_mesh_add(&mesh, "a.b", 2), &mesh, &before, "\"a.b\"");
    check_refused(pl_mesh_add(&mesh, "12345678", 2), &mesh, &before, "\"12345678\"");
    check_refused(pl_mesh_add(&mesh, "ep", 1 << 30), &mesh, &before, "ep:1073741824");
    check_refused(pl_mesh_factor(&mesh, "tp", 3), &mesh, &before, "tp:8 has no factor 3");
    check_refused(pl_mesh_factor(&mesh, "tp", 0), &mesh, &before, "no factor 0");
    check_refused(pl_mesh_factor(&mesh, "cp", 2), &mesh, &before, "no axis cp");
}
END_TEST

START_TEST(a_factored_name_is_taken)
{
    pl_mesh mesh = training_mesh();

    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    const pl_mesh before = mesh;
    check_refused(pl_mesh_add(&mesh, "tp", 2), &mesh, &before, "axis tp is given twice");
    check_refused(pl_mesh_factor(&mesh, "tp.0", 2), &mesh, &before, "tp.0 cannot be factored");
}
END_TEST

START_TEST(one_axis_too_many_is_refused)
{
    pl_mesh mesh = {0};

    for (int a = 0; a < PL_MAX_AXES; a++)
        ck_assert_int_eq(pl_mesh_add(&mesh, (char[]){(char)('a' + a), '\0'}, 2), PL_OK);
    const pl_mesh before = mesh;
    check_refused(pl_mesh_add(&mesh, "z", 2), &mesh, &before, "axis z is one too many");
    check_refused(pl_mesh_factor(&mesh, "a", 2), &mesh, &before, "factoring a");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("mesh");
    TCase *tc = tcase_create("mesh");

    tcase_add_test(tc, ranks_are_numbered_row_major_with_the_last_axis_innermost);
    tcase_add_test(tc, members_of_a_group_are_numbered_row_major_over_its_axes_alone);
    tcase_add_test(tc, a_factored_axis_leaves_every_rank_where_it_was);
    tcase_add_test(tc, a_factored_axis_is_found_by_its_family_and_its_factors_by_name);
    tcase_add_test(tc, a_mesh_is_printed_as_it_was_asked_for);
    tcase_add_test(tc, axes_are_printed_by_family_where_it_is_complete);
    tcase_add_test(tc, a_bad_axis_is_refused_by_name_and_leaves_the_mesh_alone);
    tcase_add_test(tc, a_factored_name_is_taken);
    tcase_add_test(tc, one_axis_too_many_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
