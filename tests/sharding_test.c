/* sharding_test -- who holds what, and the notation that says so. */
#include "config.h"

#include "src/base/rng.h"
#include "src/mesh/sharding.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <string.h>

enum { N_RANDOM = 400 };

/* A draw of its own for each (test, case, place). */
static int draw(uint64_t stream, int number, int place, int n)
{
    return (int)pl_rng_below(7, stream, (uint64_t)number * 64 + (uint64_t)place, n);
}

/* 1 to 4 axes of sizes 1 to 5. */
static pl_mesh random_mesh(int number)
{
    pl_mesh mesh = {0};
    const int n = 1 + draw(1, number, 0, 4);

    for (int a = 0; a < n; a++)
        ck_assert_int_eq(
            pl_mesh_add(&mesh, (char[]){(char)('w' + a), '\0'}, 1 + draw(1, number, 1 + a, 5)),
            PL_OK);
    return mesh;
}

/* A random choice of axes in a random order. */
static pl_split random_split(const pl_mesh *mesh, int number)
{
    pl_split split = {.n = 0};

    for (int a = 0; a < mesh->n_axes; a++) {
        if (draw(2, number, a, 4) == 0)
            continue;
        const int at = draw(3, number, a, split.n + 1);

        memmove(split.axis + at + 1, split.axis + at, (size_t)(split.n - at));
        split.axis[at] = (uint8_t)a;
        split.n++;
    }
    return split;
}

/* Small extents often: 0, fewer than ranks, not divisible. */
static int64_t random_extent(int number)
{
    const int most[] = {1, 4, 30, 1000, 1000000};

    return draw(4, number, 1, most[draw(4, number, 0, 5)] + 1);
}

static int n_parts(const pl_mesh *mesh, const pl_split *split)
{
    return pl_mesh_extent(mesh, pl_split_axes(split));
}

/* Coordinates of part p of a split, major axis first; the other axes at 0. */
static pl_coords part_coords(const pl_mesh *mesh, const pl_split *split, int p)
{
    pl_coords at = {{0}};

    for (int i = split->n - 1; i >= 0; i--) {
        at.at[split->axis[i]] = p % mesh->axes[split->axis[i]].size;
        p /= mesh->axes[split->axis[i]].size;
    }
    return at;
}

START_TEST(parts_in_order_tile_the_extent)
{
    for (int k = 0; k < N_RANDOM; k++) {
        const pl_mesh mesh = random_mesh(k);
        const pl_split split = random_split(&mesh, k);
        const int64_t extent = random_extent(k);
        int64_t end = 0;
        int n_wrong = 0;

        for (int p = 0; p < n_parts(&mesh, &split); p++) {
            const pl_range r = pl_split_range(&mesh, &split, part_coords(&mesh, &split, p), extent);

            n_wrong += r.begin != end || r.count < 0;
            end = r.begin + r.count;
        }
        ck_assert_int_eq(n_wrong, 0);
        ck_assert_int_eq(end, extent);
    }
}
END_TEST

START_TEST(parts_differ_by_at_most_one_and_the_largest_is_known)
{
    for (int k = 0; k < N_RANDOM; k++) {
        const pl_mesh mesh = random_mesh(k);
        const pl_split split = random_split(&mesh, k);
        const int64_t extent = random_extent(k), n = n_parts(&mesh, &split);
        int64_t least = INT64_MAX, most = 0;

        for (int p = 0; p < n; p++) {
            const int64_t count =
                pl_split_range(&mesh, &split, part_coords(&mesh, &split, p), extent).count;

            least = count < least ? count : least;
            most = count > most ? count : most;
        }
        /* parts that differ by at most one are floor(extent / n) and ceil(extent / n) */
        ck_assert_int_eq(least, extent / n);
        ck_assert_int_eq(most, extent / n + (extent % n != 0));
        ck_assert_int_eq(pl_split_largest(&mesh, &split, extent), most);
    }
}
END_TEST

START_TEST(gathering_the_minor_axis_gives_the_part_of_the_shorter_split)
{
    for (int k = 0; k < N_RANDOM; k++) {
        const pl_mesh mesh = random_mesh(k);
        const pl_split split = random_split(&mesh, k);
        const int64_t extent = random_extent(k);

        if (split.n == 0)
            continue;
        pl_split shorter = split;
        shorter.n--;
        const int minor = split.axis[shorter.n], size = mesh.axes[minor].size;

        for (int p = 0; p < n_parts(&mesh, &shorter); p++) {
            pl_coords at = part_coords(&mesh, &shorter, p);
            const pl_range whole = pl_split_range(&mesh, &shorter, at, extent);

            const pl_range first = pl_split_range(&mesh, &split, at, extent);
            at.at[minor] = size - 1;
            const pl_range last = pl_split_range(&mesh, &split, at, extent);
            ck_assert_int_eq(first.begin, whole.begin);
            ck_assert_int_eq(last.begin + last.count, whole.begin + whole.count);
        }
    }
}
END_TEST

START_TEST(ranks_along_other_axes_hold_the_same_part)
{
    for (int k = 0; k < N_RANDOM; k++) {
        const pl_mesh mesh = random_mesh(k);
        const pl_split split = random_split(&mesh, k);
        const int64_t extent = random_extent(k);
        const pl_axes others = (pl_axes)((1 << mesh.n_axes) - 1) & ~pl_split_axes(&split);
        int n_wrong = 0;

        for (int64_t rank = 0; rank < pl_mesh_size(&mesh); rank++) {
            const pl_coords at = pl_mesh_coords(&mesh, rank);
            const pl_range a = pl_split_range(&mesh, &split, at, extent);
            const pl_range b =
                pl_split_range(&mesh, &split, pl_mesh_member(&mesh, others, at, 0), extent);

            n_wrong += a.begin != b.begin || a.count != b.count;
        }
        ck_assert_int_eq(n_wrong, 0);
    }
}
END_TEST

/* dp:2 fsdp:3 tp.0:4 tp.1:2 x:2 y:2 xy:2 */
static pl_mesh notation_mesh(bool with_xy)
{
    pl_mesh mesh = {0};

    ck_assert_int_eq(pl_mesh_add(&mesh, "dp", 2), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "fsdp", 3), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "tp", 8), PL_OK);
    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "x", 2), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "y", 2), PL_OK);
    if (with_xy)
        ck_assert_int_eq(pl_mesh_add(&mesh, "xy", 2), PL_OK);
    return mesh;
}

typedef struct {
    char name[16], printed[128];
    pl_shape shape;
    pl_sharding s;
} parsed;

static pl_status parse(const pl_mesh *mesh, const char *text, parsed *p)
{
    memset(p, 0, sizeof *p);
    const pl_status status =
        pl_sharding_parse(mesh, text, p->name, sizeof p->name, &p->shape, &p->s);
    if (status == PL_OK)
        pl_sharding_print(mesh, p->name, &p->shape, &p->s, p->printed, sizeof p->printed);
    return status;
}

/* NULL: printed as it was written. */
static const struct {
    const char *text, *printed;
} good[] = {
    {"W[D_fsdp, F_tp]{U_dp}", NULL},
    {"W[D_{fsdp,dp}, F]", NULL},
    {"W[D_{dp,fsdp}, F]", NULL},
    {"W[D_{tp,fsdp}, F]", NULL},
    {"W[D_tp.0]{U_tp.1}", NULL},
    {"W[D_{tp.1,tp.0}]", NULL},
    {"W[D_{tp.0,dp,tp.1}]", NULL},
    {"A[I_{x,y}, J]{max_{dp,tp}}", NULL},
    {"layers.3.ffn.up[D, F]", NULL},
    {"loss[]{U_{dp,fsdp}}", NULL},
    {"loss", "loss[]"},
    {"loss{U_dp}", "loss[]{U_dp}"},
    {"A[I_xy]", "A[I_{x,y}]"},
    {"A[I_yx, J_tpdp]", "A[I_{y,x}, J_{tp,dp}]"},
    {"  A[ I_x ,J_{ y , tp } ] { U_dp , U_fsdp } ", "A[I_x, J_{y,tp}]{U_{dp,fsdp}}"},
    {"A[I]{U_fsdp,U_dp}", "A[I]{U_{dp,fsdp}}"},
    {"W[D_{tp.0,tp.1}]", "W[D_tp]"},
    {"A[B, T, N, H_x]", NULL},
};

START_TEST(what_is_printed_is_what_was_parsed)
{
    const pl_mesh mesh = notation_mesh(false);
    const char *expected = good[_i].printed != NULL ? good[_i].printed : good[_i].text;
    parsed p, again;

    ck_assert_int_eq(parse(&mesh, good[_i].text, &p), PL_OK);
    ck_assert_str_eq(p.printed, expected);
    ck_assert_int_eq(parse(&mesh, p.printed, &again), PL_OK);
    ck_assert_str_eq(again.name, p.name);
    ck_assert_int_eq(again.shape.n_dims, p.shape.n_dims);
    ck_assert(pl_sharding_equal(&again.s, &p.s, p.shape.n_dims));
}
END_TEST

START_TEST(parsing_reads_names_dims_axes_in_order_and_pending_sums)
{
    const pl_mesh mesh = notation_mesh(false);
    parsed p = {.shape = {.extent = {5, 6}}};

    ck_assert_int_eq(pl_sharding_parse(&mesh, "W[D_{fsdp,dp}, F_tp]{U_x}", p.name, sizeof p.name,
                                       &p.shape, &p.s),
                     PL_OK);
    ck_assert_str_eq(p.name, "W");
    ck_assert_int_eq(p.shape.n_dims, 2);
    ck_assert_int_eq(p.shape.name[0], 'D');
    ck_assert_int_eq(p.shape.name[1], 'F');
    ck_assert_int_eq(p.shape.extent[1], 6);
    ck_assert_int_eq(p.s.split[0].n, 2);
    ck_assert_int_eq(p.s.split[0].axis[0], pl_mesh_axis(&mesh, "fsdp"));
    ck_assert_int_eq(p.s.split[0].axis[1], pl_mesh_axis(&mesh, "dp"));
    ck_assert_int_eq(pl_split_axes(&p.s.split[1]), pl_mesh_family(&mesh, "tp"));
    ck_assert_int_eq(p.s.sum, pl_mesh_family(&mesh, "x"));
    ck_assert_int_eq(p.s.max, 0);
}
END_TEST

START_TEST(random_shardings_survive_printing_and_parsing)
{
    for (int k = 0; k < N_RANDOM; k++) {
        const pl_mesh mesh = random_mesh(k);
        const pl_shape shape = {.n_dims = draw(5, k, 0, PL_MAX_DIMS + 1), .name = "ABCD"};
        pl_sharding s = {.sum = 0};
        parsed p;
        char text[128];

        for (int a = 0; a < mesh.n_axes; a++) {
            const int place = draw(5, k, 1 + a, shape.n_dims + 2);

            if (place < shape.n_dims)
                s.split[place].axis[s.split[place].n++] = (uint8_t)(mesh.n_axes - 1 - a);
            else if (place == shape.n_dims)
                *(k % 2 ? &s.max : &s.sum) |= (pl_axes)1 << (mesh.n_axes - 1 - a);
        }
        ck_assert_int_eq(pl_sharding_check(&mesh, "A", &shape, &s), PL_OK);
        pl_sharding_print(&mesh, "A", &shape, &s, text, sizeof text);
        ck_assert_int_eq(parse(&mesh, text, &p), PL_OK);
        ck_assert_int_eq(p.shape.n_dims, shape.n_dims);
        ck_assert(pl_sharding_equal(&p.s, &s, shape.n_dims));
    }
}
END_TEST

START_TEST(axes_run_together_are_read_only_where_one_reading_exists)
{
    const pl_mesh mesh = notation_mesh(true);
    parsed p;

    ck_assert_int_eq(parse(&mesh, "A[I_xy]", &p), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "several ways"));
    pl_status_clear();
    ck_assert_int_eq(parse(&mesh, "A[I_{xy}, J_{x,y}]", &p), PL_OK);
    ck_assert_str_eq(p.printed, "A[I_{xy}, J_{x,y}]");
    ck_assert_int_eq(pl_split_axes(&p.s.split[0]), pl_mesh_family(&mesh, "xy"));
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"A[I_x, J_x]", "A[I_x, J_x]: axis x is used twice"},
    {"A[I_{x,x}]", "axis x is used twice"},
    {"A[I_{x,x,x,x,x,x,x,x,x}]", "too many axes"},
    {"A[I_x]{U_x}", "A[I_x]{U_x}: axis x is used twice"},
    {"A[I_tp]{U_tp.1}", "axis tp.1 is used twice"},
    {"A[I_tp]{max_tp.1}", "axis tp.1 is used twice"},
    {"A[I]{U_x, U_x}", "axis x is used twice"},
    {"A[I]{U_x, max_y}", "cannot both be pending"},
    {"A[I_z]", "no axis z (position 5); the mesh has dp,fsdp,tp,x,y"},
    {"A[I_{x,foo}]", "no axis foo (position 8)"},
    {"A[I_tp.2]", "no axis tp.2"},
    {"A[I_averyveryverylongnameofanaxis]", "no axis avery"},
    {"A[I]{V_x}", "expected U_ or max_ at position 6, found 'V'"},
    {"A[i_x]", "expected a dim (one capital) at position 3, found 'i'"},
    {"A[I_]", "expected the name of an axis at position 5, found ']'"},
    {"A[I_{x]", "expected ',' or '}' at position 7, found ']'"},
    {"A[I_x", "expected '_', ',' or ']' at its end"},
    {"A[I,]", "expected a dim (one capital) at position 5"},
    {"A[IJ]", "at position 4, found 'J'"},
    {"A[I]]", "or the end at position 5, found ']'"},
    {"A[I]{U_x}{U_y}", "or the end at position 10"},
    {"A[I]{}", "expected U_ or max_ at position 6"},
    {"[I]", "expected the name of an array at position 1"},
    {"", "expected the name of an array at its end"},
    {"A[B, C, D, E, F]", "more than 4 dims"},
    {"an.array.with.a.long.name[I]", "longer than 15 characters"},
};

START_TEST(a_bad_sharding_is_refused_with_the_reason_and_the_place)
{
    const pl_mesh mesh = notation_mesh(false);
    parsed p, untouched;

    ck_assert_int_eq(parse(&mesh, bad[_i].text, &p), PL_BAD_INPUT);
    ck_assert_msg(strstr(pl_status_message(), bad[_i].why) != NULL, "%s", pl_status_message());
    memset(&untouched, 0, sizeof untouched);
    ck_assert_mem_eq(&p.shape, &untouched.shape, sizeof p.shape);
    ck_assert_mem_eq(&p.s, &untouched.s, sizeof p.s);
}
END_TEST

START_TEST(printing_stops_at_the_end_of_the_text)
{
    const pl_mesh mesh = notation_mesh(false);
    parsed p;
    char text[8] = "xxxxxxx";

    ck_assert_int_eq(parse(&mesh, "W[D_fsdp, F]", &p), PL_OK);
    pl_sharding_print(&mesh, p.name, &p.shape, &p.s, text, 6);
    ck_assert_mem_eq(text, "W[D_f\0x", 8);
}
END_TEST

#define COUNT(list) (int)(sizeof(list) / sizeof((list)[0]))

static Suite *make_suite(void)
{
    Suite *suite = suite_create("sharding");
    TCase *tc = tcase_create("sharding");

    tcase_add_test(tc, parts_in_order_tile_the_extent);
    tcase_add_test(tc, parts_differ_by_at_most_one_and_the_largest_is_known);
    tcase_add_test(tc, gathering_the_minor_axis_gives_the_part_of_the_shorter_split);
    tcase_add_test(tc, ranks_along_other_axes_hold_the_same_part);
    tcase_add_loop_test(tc, what_is_printed_is_what_was_parsed, 0, COUNT(good));
    tcase_add_test(tc, parsing_reads_names_dims_axes_in_order_and_pending_sums);
    tcase_add_test(tc, random_shardings_survive_printing_and_parsing);
    tcase_add_test(tc, axes_run_together_are_read_only_where_one_reading_exists);
    tcase_add_loop_test(tc, a_bad_sharding_is_refused_with_the_reason_and_the_place, 0, COUNT(bad));
    tcase_add_test(tc, printing_stops_at_the_end_of_the_text);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
