/* Resharding for real: arrays under every sharding of a small mesh are turned into every other one
 * by the collectives that partition inserts, all in flight in one program, and each rank's shard is
 * compared with what it should hold, element by element. Elements are small integers: sums are
 * exact. */
#include "config.h"

#include "tests/parallel.h"

#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/mesh/comms.h"
#include "src/program/allocate.h"
#include "src/program/bucket.h"
#include "src/program/overlap.h"
#include "src/program/partition.h"
#include "src/program/run.h"

#include <stdio.h>

enum { MAX_SHARDINGS = 512, MAX_PAIRS = 400 };

/* The meshes by rank count: sizes that do not divide the extents. */
static void make_mesh(int n_ranks, pl_mesh *mesh)
{
    *mesh = (pl_mesh){0};
    if (n_ranks == 8) {
        pl_mesh_add(mesh, "x", 2);
        pl_mesh_add(mesh, "y", 2);
        pl_mesh_add(mesh, "z", 2);
    } else {
        pl_mesh_add(mesh, "x", n_ranks % 2 == 0 ? 2 : 1);
        pl_mesh_add(mesh, "y", n_ranks % 2 == 0 ? n_ranks / 2 : n_ranks);
    }
}

/* All shardings of A[I, J, K] that put each axis nowhere, on a dim, or in the pending sum, axes of
 * one dim in mesh order and in reverse. */
static int all_shardings(const pl_mesh *mesh, pl_sharding *list)
{
    int n = 0, n_codes = 1;

    for (int a = 0; a < mesh->n_axes; a++)
        n_codes *= 5;
    for (int reversed = 0; reversed < 2; reversed++)
        for (int code = 0; code < n_codes; code++) {
            pl_sharding s = {0};
            int rest = code;

            for (int i = 0; i < mesh->n_axes; i++, rest /= 5) {
                const int a = reversed ? mesh->n_axes - 1 - i : i, where = rest % 5;

                if (where < 3)
                    s.split[where].axis[s.split[where].n++] = (uint8_t)a;
                else if (where == 3)
                    s.sum |= 1u << a;
            }
            bool known = false;
            for (int i = 0; i < n; i++)
                known = known || pl_sharding_equal(&list[i], &s, 3);
            if (!known)
                list[n++] = s;
        }
    return n;
}

/* What the whole array holds at its k-th element. */
static float element(int64_t k)
{
    return (float)(k % 1000 + 1);
}

/* The term of element k that the rank at `position` of the group over pending sums holds: the terms
 * of n ranks add up to element(k). */
static float term(int64_t k, int position, int n)
{
    const int64_t others = (int64_t)n * (n - 1) / 2;

    return position == 0 ? element(k) - (float)others : (float)position;
}

/* Calls visit for each local element of v with its index in the whole array; returns how many
 * differ when comparing. */
static int64_t walk(const pl_program *p, int v, pl_coords coords, float *data, bool fill)
{
    const pl_value *value = &p->values[v];
    const pl_extents e = pl_local_extents(p, v, coords);
    const int n_terms = pl_mesh_extent(p->mesh, value->sharding.sum);
    const int position = pl_mesh_position(p->mesh, value->sharding.sum, coords);
    int64_t n_wrong = 0, at = 0;

    for (int64_t i = 0; i < e.n[0]; i++)
        for (int64_t j = 0; j < e.n[1]; j++)
            for (int64_t k = 0; k < e.n[2]; k++, at++) {
                const int64_t index = ((e.begin[0] + i) * value->shape.extent[1] + e.begin[1] + j) *
                                          value->shape.extent[2] +
                                      e.begin[2] + k;
                const float right = term(index, position, n_terms);

                if (fill)
                    data[at] = right;
                else
                    n_wrong += data[at] != right;
            }
    return n_wrong;
}

/* A sum over axes that stay pending is not unique: compare only arrays without. */
static bool can_compare(const pl_sharding *from, const pl_sharding *to)
{
    return (to->sum & ~from->sum) == 0 && to->sum == 0;
}

static int add_pairs(pl_program *p, const pl_sharding *list, int n, int (*pairs)[2])
{
    const int64_t extents[3] = {5, 7, 3};
    int n_pairs = 0;

    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            /* Of many, a sample that is the same on all ranks. */
            if (!can_compare(&list[a], &list[b]) || n_pairs == MAX_PAIRS ||
                (n > 40 && pl_rng_below(1, 2, (uint64_t)(a * n + b), n * n / 1200 + 1) != 0))
                continue;
            int *pair = pairs[n_pairs++];

            pair[0] = pl_value_add(p, PL_ACTIVATION, PL_LAYER_ALL, "IJK", extents,
                                   pl_arena_printf(p->arena, "from%d.%d", a, b));
            pair[1] = pl_value_add(p, PL_ACTIVATION, PL_LAYER_ALL, "IJK", extents,
                                   pl_arena_printf(p->arena, "to%d.%d", a, b));
            p->values[pair[0]].sharding = list[a];
            p->values[pair[1]].sharding = list[b];
            p->values[pair[0]].is_input = p->values[pair[0]].persists = true;
            p->values[pair[1]].is_output = true;
            pl_op_add(p, PL_RESHARD, PL_UPDATE, PL_LAYER_ALL, 1, &pair[0], 1, &pair[1]);
        }
    return n_pairs;
}

START_TEST(every_sharding_becomes_every_other)
{
    static pl_sharding list[MAX_SHARDINGS];
    static int pairs[MAX_PAIRS][2];
    static pl_axes sets[4096];
    pl_mesh mesh;
    pl_comms comms;
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_mesh(size, &mesh);
    const pl_batch batch = {.n_microbatches = 1, .micro_batch = 1, .n_sequences = 1, .seq = 1};
    pl_program *logical = pl_program_create(&mesh, &batch);
    const int n_pairs = add_pairs(logical, list, all_shardings(&mesh, list), pairs);
    pl_program *p = pl_partition(logical);

    pl_overlap(p);
    pl_allocate(p);
    ck_assert_int_le(p->n_ops, 4096);
    pl_comms_create(MPI_COMM_WORLD, &mesh, sets, pl_run_groups(p, sets), &comms);
    pl_engine *engine = pl_engine_create(NULL);
    pl_engine_set_checking(engine, true);
    pl_run *run = pl_run_create(p, &comms, engine, NULL, NULL);
    for (int i = 0; i < n_pairs; i++)
        if (pl_run_data(run, pairs[i][0]) != NULL)
            walk(p, pairs[i][0], comms.coords, pl_run_data(run, pairs[i][0]), true);
    pl_run_actions(run, 0, p->n_actions, false);
    ck_all_msg(MPI_COMM_WORLD, n_pairs > 10, "only %d pairs", n_pairs);
    for (int i = 0; i < n_pairs; i++) {
        float *to = pl_run_data(run, pairs[i][1]);
        char from_text[64], to_text[64];

        if (pl_sharding_equal(&p->values[pairs[i][0]].sharding, &p->values[pairs[i][1]].sharding,
                              3))
            continue; /* nothing to do, so nothing was allocated */
        const pl_value *a = &p->values[pairs[i][0]], *b = &p->values[pairs[i][1]];
        pl_sharding_print(&mesh, "A", &a->shape, &a->sharding, from_text, sizeof from_text);
        pl_sharding_print(&mesh, "A", &b->shape, &b->sharding, to_text, sizeof to_text);
        ck_all_msg(MPI_COMM_WORLD, to != NULL && walk(p, pairs[i][1], comms.coords, to, false) == 0,
                   "%s to %s", from_text, to_text);
    }
    pl_engine_destroy(engine);
    pl_run_destroy(run);
    pl_comms_destroy(&comms);
    pl_program_destroy(p);
    pl_program_destroy(logical);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("reshard_run");
    TCase *tcase = tcase_create("reshard");

    tcase_add_test(tcase, every_sharding_becomes_every_other);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
