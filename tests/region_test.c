/* Regions, blocks and chunks. */
#include "collectives/region.h"
#include "src/base/block.h"
#include "tests/check_main.h"

#include <check.h>
#include <limits.h>

START_TEST(chunks_cover_ranges_beyond_int_once_and_stay_below_it)
{
    const int64_t counts[] = {(1LL << 31) - 1, 1LL << 31, (1LL << 31) + 1, 5000000000LL, 0, 1};
    const int ranks[] = {1, 3, 8};

    for (int i = 0; i < 6; i++) {
        for (int p = 0; p < 3; p++) {
            int64_t covered = 0;

            for (int b = 0; b < ranks[p]; b++) {
                const int64_t n = pl_block_count(counts[i], ranks[p], b);
                int64_t next = 0;

                for (int64_t k = 0; k < pl_chunk_count(n, PL_CHUNK_ELEMENTS); k++) {
                    const pl_chunk chunk = pl_chunk_at(n, PL_CHUNK_ELEMENTS, k);

                    ck_assert_int_eq(chunk.begin, next);
                    ck_assert_int_gt(chunk.n, 0);
                    ck_assert_int_le((int64_t)chunk.n * (int64_t)sizeof(float), INT_MAX);
                    next += chunk.n;
                }
                ck_assert_int_eq(next, n);
                covered += next;
            }
            ck_assert_int_eq(covered, counts[i]);
        }
    }
}
END_TEST

START_TEST(seventy_three_elements_over_4_ranks_are_19_18_18_18)
{
    const int64_t n = 73, sizes[] = {19, 18, 18, 18};
    pl_arena *arena = pl_arena_create();
    const pl_blocks x = pl_blocks_of_arrays(arena, &n, 1, 4);

    for (int b = 0; b < 4; b++)
        ck_assert_int_eq(pl_region_elements(pl_blocks_at(x, b)), sizes[b]);
    pl_arena_destroy(arena);
}
END_TEST

/* The region's elements as offsets, for a plain comparison. */
static int64_t list_offsets(pl_region region, int64_t *offsets)
{
    int64_t n = 0;

    for (int i = 0; i < region.n_pieces; i++)
        for (int64_t c = 0; c < region.pieces[i].count; c++)
            for (int64_t k = 0; k < region.pieces[i].length; k++)
                offsets[n++] = 1000 * region.pieces[i].array + region.pieces[i].offset +
                               c * region.pieces[i].stride + k;
    return n;
}

START_TEST(a_cut_holds_exactly_the_elements_asked_for)
{
    const pl_piece pieces[] = {{0, 3, 4, 7, 3}, {1, 0, 1, 5, 5}, {0, 50, 3, 2, 2}, {2, 9, 5, 4, 1}};
    const pl_region region = {4, pieces};
    int64_t all[64], part[64];
    const int64_t n = list_offsets(region, all);
    pl_piece cut[8];

    ck_assert_int_eq(n, 28);
    for (int64_t begin = 0; begin <= n; begin++) {
        for (int64_t count = 0; begin + count <= n; count++) {
            const int n_cut = pl_region_cut(region, begin, count, cut);

            ck_assert_int_le(n_cut, pl_region_cut_room(region));
            ck_assert_int_eq(list_offsets((pl_region){n_cut, cut}, part), count);
            for (int64_t k = 0; k < count; k++)
                ck_assert_int_eq(part[k], all[begin + k]);
        }
    }
}
END_TEST

START_TEST(touching_pieces_become_one)
{
    const pl_piece pieces[] = {
        {0, 0, 1, 4, 4}, {0, 4, 3, 2, 2}, {0, 10, 0, 1, 1}, {0, 10, 1, 5, 5}};
    pl_arena *arena = pl_arena_create();
    const pl_region joined = pl_region_copy(arena, (pl_region){4, pieces});

    ck_assert_int_eq(joined.n_pieces, 1);
    ck_assert_int_eq(joined.pieces[0].length, 15);
    pl_arena_destroy(arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("region");
    TCase *tc = tcase_create("regions");

    tcase_add_test(tc, chunks_cover_ranges_beyond_int_once_and_stay_below_it);
    tcase_add_test(tc, seventy_three_elements_over_4_ranks_are_19_18_18_18);
    tcase_add_test(tc, a_cut_holds_exactly_the_elements_asked_for);
    tcase_add_test(tc, touching_pieces_become_one);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
