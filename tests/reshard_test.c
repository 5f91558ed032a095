/* reshard_test -- plans are right for every pair of shardings of small arrays, by simulation, and
 * cheapest for the pairs that training makes.
 *
 * The simulation knows nothing of shardings: every rank holds, for each element, the set of terms
 * of its pending sum (or maximum) that it has added up, as a bit set, 0 when it does not hold the
 * element. Each step moves and joins these sets as the collective's definition says, and every
 * precondition that an implementation relies on is checked on the way: what is gathered is
 * contiguous and disjoint, what is reduced has the same elements and no term twice. */
#include "config.h"

#include "src/mesh/reshard.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 12, MAX_ELEMENTS = 64, MAX_SHARDINGS = 512 };

typedef struct {
    uint16_t terms[MAX_RANKS][MAX_ELEMENTS]; /* term t is the one of position t in the pending
                                              * group of `from` */
} holding;

typedef struct {
    const pl_mesh *mesh;
    const pl_shape *shape;
    pl_axes pending; /* of `from` */
    int n_ranks, n_elements;
} scene;

typedef struct {
    int64_t begin, end;
} range;

/* Block i of P of a range, the larger ones first: written out, not taken from base/block. */
static range block_of(range whole, int P, int i)
{
    range r = {whole.begin, whole.begin};

    for (int64_t k = 0; k < whole.end - whole.begin; k++) {
        const int64_t n = whole.end - whole.begin, q = n / P, big = (q + 1) * (n % P);
        const int64_t owner = k < big ? k / (q + 1) : n % P + (k - big) / q;

        r.begin += owner < i;
        r.end += owner <= i;
    }
    return r;
}

/* The part of `whole` of the rank at `at` when it is cut over axes, one after the other. */
static range part_of(const pl_mesh *mesh, range whole, const uint8_t *axes, int n, pl_coords at)
{
    for (int i = 0; i < n; i++)
        whole = block_of(whole, mesh->axes[axes[i]].size, at.at[axes[i]]);
    return whole;
}

static int axes_in_order(const pl_mesh *mesh, pl_axes set, uint8_t *axes)
{
    int n = 0;

    for (int a = 0; a < mesh->n_axes; a++)
        if (set >> a & 1)
            axes[n++] = (uint8_t)a;
    return n;
}

static int64_t index_of(const scene *sc, int element, int dim)
{
    if (dim >= sc->shape->n_dims) /* of a scalar */
        return 0;
    for (int d = sc->shape->n_dims - 1; d > dim; d--)
        element /= (int)sc->shape->extent[d];
    return element % sc->shape->extent[dim];
}

/* The range along dim of what a rank holds (empty at 0 when it holds nothing). */
static range held_range(const scene *sc, const holding *h, int rank, int dim)
{
    range r = {0, 0};

    for (int e = 0; e < sc->n_elements; e++)
        if (h->terms[rank][e] != 0) {
            const int64_t i = index_of(sc, e, dim);

            if (r.end == 0)
                r = (range){i, i + 1};
            r.begin = i < r.begin ? i : r.begin;
            r.end = i >= r.end ? i + 1 : r.end;
        }
    return r;
}

static int member(const scene *sc, int rank, pl_axes axes, int position)
{
    const pl_coords at = pl_mesh_coords(sc->mesh, rank);

    return (int)pl_mesh_rank(sc->mesh, pl_mesh_member(sc->mesh, axes, at, position));
}

/* What the group of `rank` holds together; `adding` joins terms of the same element, else each
 * element may come from one member only. */
static void join_group(const scene *sc, const holding *h, int rank, pl_axes axes, bool adding,
                       uint16_t *terms)
{
    int n_twice = 0, n_unmatched = 0; /* counted, since each ck_assert costs a system call */

    memset(terms, 0, sizeof h->terms[0]);
    for (int p = 0; p < pl_mesh_extent(sc->mesh, axes); p++) {
        const uint16_t *theirs = h->terms[member(sc, rank, axes, p)];

        for (int e = 0; e < sc->n_elements; e++) {
            n_twice += (terms[e] & theirs[e]) != 0;
            if (p > 0 && adding)
                n_unmatched += (terms[e] != 0) != (theirs[e] != 0);
            else if (p > 0)
                n_unmatched += terms[e] != 0 && theirs[e] != 0;
            terms[e] |= theirs[e];
        }
    }
    ck_assert_msg(n_twice == 0, "a term is added twice");
    ck_assert_msg(n_unmatched == 0, "members do not match");
}

/* Members hold consecutive ranges of dim, in the order of their positions. */
static void check_contiguous(const scene *sc, const holding *h, int rank, pl_axes axes, int dim)
{
    int64_t end = -1;
    int n_gaps = 0;

    for (int p = 0; p < pl_mesh_extent(sc->mesh, axes); p++) {
        const range r = held_range(sc, h, member(sc, rank, axes, p), dim);

        if (r.begin == r.end)
            continue;
        n_gaps += end >= 0 && r.begin != end;
        end = r.end;
    }
    ck_assert_msg(n_gaps == 0, "what is gathered is not contiguous");
}

/* Drop what lies outside of `keep` along dim. */
static void keep_range(const scene *sc, uint16_t *terms, int dim, range keep)
{
    for (int e = 0; e < sc->n_elements; e++)
        if (index_of(sc, e, dim) < keep.begin || index_of(sc, e, dim) >= keep.end)
            terms[e] = 0;
}

static void run_step(const scene *sc, const pl_reshard_step *step, holding *h)
{
    const holding before = *h;
    uint8_t axes[PL_MAX_AXES];
    const int n = axes_in_order(sc->mesh, step->axes, axes);

    for (int rank = 0; rank < sc->n_ranks; rank++) {
        const pl_coords at = pl_mesh_coords(sc->mesh, rank);
        const pl_split *after = &step->after.split[step->dim];
        range r = held_range(sc, &before, rank, step->dim);

        switch (step->kind) {
        case PL_RESHARD_ALL_GATHER:
            check_contiguous(sc, &before, rank, step->axes, step->dim);
            join_group(sc, &before, rank, step->axes, false, h->terms[rank]);
            break;
        case PL_RESHARD_ALL_REDUCE:
            join_group(sc, &before, rank, step->axes, true, h->terms[rank]);
            break;
        case PL_RESHARD_REDUCE_SCATTER:
            join_group(sc, &before, rank, step->axes, true, h->terms[rank]);
            keep_range(sc, h->terms[rank], step->dim, part_of(sc->mesh, r, axes, n, at));
            break;
        case PL_RESHARD_SLICE: /* local, so in the order of the split */
            keep_range(sc, h->terms[rank], step->dim,
                       part_of(sc->mesh, r, after->axis + after->n - n, n, at));
            break;
        case PL_RESHARD_ALL_TO_ALL:
            check_contiguous(sc, &before, rank, step->axes, step->dim);
            join_group(sc, &before, rank, step->axes, false, h->terms[rank]);
            /* an empty member must know the range as well: take it from the joined group */
            r = held_range(sc, h, rank, step->to_dim);
            keep_range(sc, h->terms[rank], step->to_dim, part_of(sc->mesh, r, axes, n, at));
            break;
        }
    }
}

/* What each rank must hold under a sharding, from its definition. */
static void hold(const scene *sc, const pl_sharding *s, holding *h)
{
    const pl_axes still = s->sum | s->max;

    memset(h, 0, sizeof *h);
    for (int rank = 0; rank < sc->n_ranks; rank++) {
        const pl_coords at = pl_mesh_coords(sc->mesh, rank);
        uint16_t terms = 0;

        for (int t = 0; t < pl_mesh_extent(sc->mesh, sc->pending); t++) {
            const pl_coords other = pl_mesh_member(sc->mesh, sc->pending, at, t);

            if (pl_mesh_position(sc->mesh, still, other) == pl_mesh_position(sc->mesh, still, at))
                terms |= (uint16_t)(1u << t);
        }
        for (int e = 0; e < sc->n_elements; e++)
            h->terms[rank][e] = terms;
        for (int d = 0; d < sc->shape->n_dims; d++)
            keep_range(sc, h->terms[rank], d,
                       part_of(sc->mesh, (range){0, sc->shape->extent[d]}, s->split[d].axis,
                               s->split[d].n, at));
    }
}

/* Every sharding of an array of n_dims over the mesh, each axis replicating, pending or at any
 * place of any dim. */
static int all_shardings(const pl_mesh *mesh, int n_dims, bool pending_max, pl_sharding *list)
{
    int n = 1;

    memset(list, 0, sizeof *list);
    for (int a = 0; a < mesh->n_axes; a++) {
        const int n_before = n;

        ck_assert_int_lt(n_before * (2 + n_dims + a), MAX_SHARDINGS);
        for (int i = 0; i < n_before; i++) {
            const pl_sharding base = list[i]; /* stays: axis a replicates */

            list[n] = base;
            *(pending_max ? &list[n].max : &list[n].sum) |= (pl_axes)1 << a;
            n++;
            for (int d = 0; d < n_dims; d++)
                for (int at = 0; at <= base.split[d].n; at++, n++) {
                    pl_split *split = &list[n].split[d];

                    list[n] = base;
                    memmove(split->axis + at + 1, split->axis + at, (size_t)(split->n - at));
                    split->axis[at] = (uint8_t)a;
                    split->n++;
                }
        }
    }
    return n;
}

static void check_pair(const scene *sc, const pl_sharding *from, const pl_sharding *to)
{
    static holding h, wanted;
    pl_reshard_step steps[PL_MAX_RESHARD_STEPS];
    int n_steps = -1;

    hold(sc, from, &h);
    ck_assert_int_eq(pl_reshard_plan(sc->mesh, "A", sc->shape, from, to, steps, &n_steps), PL_OK);
    ck_assert_int_le(n_steps, 3 * sc->mesh->n_axes);
    for (int i = 0; i < n_steps; i++) {
        run_step(sc, &steps[i], &h);
        hold(sc, &steps[i].after, &wanted);
        if (memcmp(&h, &wanted, sizeof h) != 0) {
            char a[64], b[64], c[64];

            pl_sharding_print(sc->mesh, "A", sc->shape, from, a, sizeof a);
            pl_sharding_print(sc->mesh, "A", sc->shape, to, b, sizeof b);
            pl_sharding_print(sc->mesh, "A", sc->shape, &steps[i].after, c, sizeof c);
            ck_abort_msg("%s -> %s: step %d does not give %s", a, b, i, c);
        }
    }
    ck_assert(
        pl_sharding_equal(n_steps > 0 ? &steps[n_steps - 1].after : from, to, sc->shape->n_dims));
}

static pl_mesh mesh_of(int n_axes, const int *sizes)
{
    static const char *const names[] = {"x", "y", "z"};
    pl_mesh mesh = {0};

    for (int a = 0; a < n_axes; a++)
        ck_assert_int_eq(pl_mesh_add(&mesh, names[a], sizes[a]), PL_OK);
    return mesh;
}

static void check_all_pairs(const pl_mesh *mesh, const pl_shape *shape, bool pending_max)
{
    static pl_sharding list[MAX_SHARDINGS];
    const int n = all_shardings(mesh, shape->n_dims, pending_max, list);
    int n_pairs = 0;

    for (int i = 0; i < n; i++) {
        scene sc = {.mesh = mesh,
                    .shape = shape,
                    .pending = list[i].sum | list[i].max,
                    .n_ranks = (int)pl_mesh_size(mesh),
                    .n_elements = 1};

        for (int d = 0; d < shape->n_dims; d++)
            sc.n_elements *= (int)shape->extent[d];
        ck_assert(sc.n_ranks <= MAX_RANKS && sc.n_elements <= MAX_ELEMENTS);
        for (int j = 0; j < n; j++)
            if (!((list[j].sum | list[j].max) & ~sc.pending)) {
                check_pair(&sc, &list[i], &list[j]);
                n_pairs++;
            }
    }
    ck_assert_int_gt(n_pairs, n);
}

static const struct {
    int n_axes, sizes[3];
    pl_shape shape;
} cases[] = {
    {1, {4}, {1, "I", {3}}},
    {2, {2, 3}, {2, "IJ", {7, 5}}},
    {2, {3, 2}, {3, "IJK", {5, 2, 3}}},
    {2, {1, 4}, {2, "IJ", {9, 1}}},
    {3, {2, 2, 2}, {2, "IJ", {8, 7}}},
    {3, {2, 3, 2}, {2, "IJ", {13, 3}}},
    {3, {2, 1, 3}, {1, "I", {11}}},
    {3, {2, 2, 2}, {0, "", {0}}},
};

START_TEST(every_plan_between_two_shardings_moves_every_term_to_its_place)
{
    const pl_mesh mesh = mesh_of(cases[_i].n_axes, cases[_i].sizes);

    check_all_pairs(&mesh, &cases[_i].shape, false);
}
END_TEST

START_TEST(every_plan_that_resolves_a_maximum_is_right)
{
    const pl_mesh mesh = mesh_of(cases[_i].n_axes, cases[_i].sizes);

    check_all_pairs(&mesh, &cases[_i].shape, true);
}
END_TEST

static pl_mesh training_mesh(void)
{
    pl_mesh mesh = {0};

    ck_assert_int_eq(pl_mesh_add(&mesh, "dp", 2), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "fsdp", 3), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "tp", 8), PL_OK);
    ck_assert_int_eq(pl_mesh_factor(&mesh, "tp", 4), PL_OK);
    return mesh;
}

static pl_status plan_of(const char *from_text, const char *to_text, char *text, size_t size)
{
    static const char *const kinds[] = {"AllGather", "ReduceScatter", "AllReduce", "AllToAll",
                                        "Slice"};
    const pl_mesh mesh = training_mesh();
    pl_shape shape = {.extent = {64, 64, 64, 64}};
    pl_sharding from, to;
    pl_reshard_step steps[PL_MAX_RESHARD_STEPS];
    char name[8];
    int n = 0;

    ck_assert_int_eq(pl_sharding_parse(&mesh, from_text, name, sizeof name, &shape, &from), PL_OK);
    ck_assert_int_eq(pl_sharding_parse(&mesh, to_text, name, sizeof name, &shape, &to), PL_OK);
    const pl_status status = pl_reshard_plan(&mesh, name, &shape, &from, &to, steps, &n);

    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        char axes[32];
        const size_t used = strlen(text);

        pl_axes_print(&mesh, steps[i].axes, axes, sizeof axes);
        snprintf(text + used, size - used, "%s%s%s %s", i > 0 ? "; " : "", kinds[steps[i].kind],
                 steps[i].is_max ? " max" : "", axes);
    }
    return status;
}

static const struct {
    const char *from, *to, *plan;
} expected[] = {
    {"W[D, F]", "W[D, F]", ""},
    {"W[D, F]{U_tp}", "W[D, F_tp]", "ReduceScatter tp"},
    {"W[D_fsdp, F]", "W[D, F]", "AllGather fsdp"},
    {"W[D_fsdp, F]", "W[D, F_fsdp]", "AllToAll fsdp"},
    {"W[D, F]", "W[D_fsdp, F]", "Slice fsdp"},
    {"W[D]{U_{fsdp,dp}}", "W[D_{fsdp,dp}]", "ReduceScatter fsdp; ReduceScatter dp"},
    {"W[D]{U_{fsdp,dp}}", "W[D_{dp,fsdp}]", "ReduceScatter dp,fsdp"},
    {"W[D_fsdp]{U_dp}", "W[D_{fsdp,dp}]", "ReduceScatter dp"},
    {"X[B, T]{U_tp}", "X[B, T_tp]", "ReduceScatter tp"},
    {"X[B, T_tp]", "X[B, T]", "AllGather tp"},
    {"W[D_{fsdp,dp}]", "W[D_fsdp]", "AllGather dp"},
    {"W[D_{fsdp,dp}]", "W[D]", "AllGather dp; AllGather fsdp"},
    {"W[D_{dp,tp}]", "W[D]", "AllGather dp,tp"},
    {"W[D, F]{U_{dp,tp}}", "W[D, F]", "AllReduce dp,tp"},
    {"W[D_fsdp]{U_{tp,dp}}", "W[D_{fsdp,dp}]", "ReduceScatter dp; AllReduce tp"},
    {"W[D]{U_{tp,dp}}", "W[D]{U_dp}", "AllReduce tp"},
    {"W[D]{U_dp}", "W[D_fsdp]{U_dp}", "Slice fsdp"},
    {"W[D]{U_tp}", "W[D_{fsdp,tp}]", "Slice fsdp; ReduceScatter tp"},
    {"M[B, T]{max_tp}", "M[B, T]", "AllReduce max tp"},
    {"M[B, T]{max_tp}", "M[B, T_tp]", "AllReduce max tp; Slice tp"},
    {"W[D_tp]{U_dp}", "W[D]", "AllReduce dp; AllGather tp"},
    {"W[D_fsdp, F_tp]", "W[D_tp, F]", "AllGather fsdp; AllToAll tp"},
    {"W[D_tp, F_fsdp]", "W[D, F_tp]", "AllGather fsdp; AllToAll tp"},
    {"W[D_{dp,tp}, F]", "W[D, F_dp]", "AllGather tp; AllToAll dp"},
    {"W[D_dp, F_tp]", "W[D_tp, F_dp]", "AllGather dp; AllToAll tp; Slice dp"},
    {"W[D_{dp,fsdp}]", "W[D_{fsdp,dp}]", "AllGather dp,fsdp; Slice dp,fsdp"},
    {"W[V_tp.0, D]{U_tp.1}", "W[V_tp, D]", "ReduceScatter tp.1"},
    {"W[N_{tp.0,tp.1}]", "W[N]", "AllGather tp"},
};

START_TEST(a_plan_is_the_cheapest_of_its_form)
{
    char plan[256];

    ck_assert_int_eq(plan_of(expected[_i].from, expected[_i].to, plan, sizeof plan), PL_OK);
    ck_assert_str_eq(plan, expected[_i].plan);
}
END_TEST

static const struct {
    const char *from, *to, *why;
} refused[] = {
    {"W[D]", "W[D]{U_dp}", "whole"},
    {"W[D_dp]", "W[D]{U_dp}", "whole"},
    {"W[D]{U_dp}", "W[D]{max_dp}", "not a pending maximum"},
    {"W[D]{max_dp}", "W[D]{U_dp}", "not a pending maximum"},
};

START_TEST(a_sum_that_is_not_pending_cannot_be_wanted)
{
    char plan[256];

    ck_assert_int_eq(plan_of(refused[_i].from, refused[_i].to, plan, sizeof plan), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), refused[_i].why));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), refused[_i].to));
}
END_TEST

#define COUNT(list) (int)(sizeof(list) / sizeof((list)[0]))

static Suite *make_suite(void)
{
    Suite *suite = suite_create("reshard");
    TCase *tc = tcase_create("reshard");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, every_plan_between_two_shardings_moves_every_term_to_its_place, 0,
                        COUNT(cases));
    tcase_add_loop_test(tc, every_plan_that_resolves_a_maximum_is_right, 0, COUNT(cases));
    tcase_add_loop_test(tc, a_plan_is_the_cheapest_of_its_form, 0, COUNT(expected));
    tcase_add_loop_test(tc, a_sum_that_is_not_pending_cannot_be_wanted, 0, COUNT(refused));
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
