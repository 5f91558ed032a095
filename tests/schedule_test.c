/* Schedules of all collective algorithms, run symbolically on up to 64 ranks; no MPI. */
#include "collectives/algorithms.h"
#include "collectives/collective.h"
#include "collectives/cost.h"
#include "collectives/reduce.h"
#include "collectives/region.h"
#include "src/base/block.h"
#include "tests/check_main.h"
#include "tests/collective_cases.h"
#include "tests/schedule_checker.h"

#include <check.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_ARRAY = LAYOUT_ARRAYS, N_ARRAYS };

/* What every case needs. */
typedef struct {
    int P;
    int64_t n;
    pl_arena *arena;
    pl_blocks blocks;
    sc_world world;
    pl_schedule *schedules[SC_MAX_RANKS];
    int64_t begins[SC_MAX_RANKS]; /* first id of each block */
} fixture;

static void fixture_init(fixture *f, int P, int64_t n, layout kind)
{
    int64_t begin = 0;

    *f = (fixture){.P = P, .n = n, .arena = pl_arena_create()};
    f->blocks = layout_blocks(f->arena, kind, n, P);
    sc_world_init(&f->world, P, N_ARRAYS, layout_room(n));
    for (int b = 0; b < P; b++) {
        f->begins[b] = begin;
        begin += pl_region_elements(f->blocks.of[b]);
        f->schedules[b] = pl_schedule_create();
    }
    ck_assert_int_eq(begin, n);
}

static void fixture_free(fixture *f)
{
    for (int r = 0; r < f->P; r++)
        pl_schedule_destroy(f->schedules[r]);
    sc_world_free(&f->world);
    pl_arena_destroy(f->arena);
}

/* Every rank's own block, apart from its place when `apart`. */
static void write_gather(fixture *f, const algorithm *a, bool apart)
{
    for (int r = 0; r < f->P; r++) {
        const pl_region block = pl_blocks_at(f->blocks, r);
        const pl_piece piece = pl_piece_of(OWN_ARRAY, 1, pl_region_elements(block));
        const pl_region own = {.n_pieces = apart, .pieces = &piece};

        sc_region_fill(&f->world, r, apart ? own : block, f->begins[r]);
        a->gather(f->schedules[r], f->blocks, own, r);
    }
}

static void write_reduce(fixture *f, const algorithm *a)
{
    for (int r = 0; r < f->P; r++) {
        for (int b = 0; b < f->P; b++)
            sc_region_fill(&f->world, r, pl_blocks_at(f->blocks, b), f->begins[b]);
        a->reduce(f->schedules[r], f->blocks, PL_SUM, r);
    }
}

/* Elements of rank r's block b that are not what they should be. */
static int64_t count_wrong(const fixture *f, int r, int b, uint64_t terms)
{
    const pl_region block = pl_blocks_at(f->blocks, b);
    int64_t n_wrong = 0;

    for (int64_t k = 0; k < pl_region_elements(block); k++) {
        const sc_symbol s = *sc_region_cell(&f->world, r, block, k);
        const sc_symbol first = *sc_region_cell(&f->world, 0, block, k);

        n_wrong += s.id != f->begins[b] + k || s.terms != terms;
        n_wrong += terms != (uint64_t)1 << b && f->P > 1 && r > 0 && first.terms == terms &&
                   s.tree != first.tree;
    }
    return n_wrong;
}

static uint64_t all_terms(int P)
{
    return P == 64 ? ~(uint64_t)0 : ((uint64_t)1 << P) - 1;
}

static int64_t count_wrong_after(const fixture *f, effect_kind effect)
{
    int64_t n_wrong = 0;

    for (int r = 0; r < f->P; r++)
        for (int b = 0; b < f->P; b++)
            if (effect != SCATTERS || b == r)
                n_wrong +=
                    count_wrong(f, r, b, effect == GATHERS ? (uint64_t)1 << b : all_terms(f->P));
    return n_wrong;
}

static void check_case(const algorithm *a, int P, int64_t n, layout kind, bool apart)
{
    fixture f;
    const char *fault;

    fixture_init(&f, P, n, kind);
    if (a->effect == GATHERS)
        write_gather(&f, a, apart);
    else
        write_reduce(&f, a);
    fault = sc_run(&f.world, f.schedules);
    ck_assert_msg(!fault, "%s, %d ranks, %lld elements, layout %d: %s", a->name, P, (long long)n,
                  (int)kind, fault ? fault : "");
    ck_assert_msg(count_wrong_after(&f, a->effect) == 0,
                  "%s, %d ranks, %lld elements, layout %d: wrong result", a->name, P, (long long)n,
                  (int)kind);
    fixture_free(&f);
}

static void check_all_cases(const algorithm *a, int P)
{
    const int64_t counts[] = {0, 1, P - 1, P, P + 1, 73};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int kind = 0; kind < N_LAYOUTS; kind++)
            for (int apart = 0; apart <= (a->effect == GATHERS); apart++)
                check_case(a, P, counts[i], (layout)kind, apart);
}

START_TEST(every_algorithm_ends_right_without_deadlock_on_1_to_16_and_64_ranks)
{
    for (int P = 1; P <= 16; P++)
        check_all_cases(&algorithms[_i], P);
    check_all_cases(&algorithms[_i], 64);
}
END_TEST

/* Rank r sends rank p (r + 2p + n) mod 4 elements; identity (r P + p) 4 + k. */
static int64_t exchange_size(int r, int p, int64_t n)
{
    return (r + 2 * p + n) % 4;
}

static void exchange_blocks(pl_arena *arena, int P, int r, int64_t n, pl_blocks *from,
                            pl_blocks *to)
{
    int64_t out[SC_MAX_RANKS], in[SC_MAX_RANKS];
    pl_piece strided = {.array = 0, .offset = 1, .count = 2 * P, .stride = 4, .length = 2};
    pl_piece plain = pl_piece_of(1, 0, 4 * P);

    for (int p = 0; p < P; p++) {
        out[p] = exchange_size(r, p, n);
        in[p] = exchange_size(p, r, n);
    }
    *from = layout_cut(arena, (pl_region){1, &strided}, out, P);
    *to = layout_cut(arena, (pl_region){1, &plain}, in, P);
}

static void check_all_to_all(int P, int64_t n)
{
    pl_arena *arena = pl_arena_create();
    pl_schedule *schedules[SC_MAX_RANKS];
    pl_blocks from, to;
    sc_world world;
    const char *fault;

    sc_world_init(&world, P, 2, 8 * P + 8);
    for (int r = 0; r < P; r++) {
        exchange_blocks(arena, P, r, n, &from, &to);
        for (int p = 0; p < P; p++)
            sc_region_fill(&world, r, from.of[p], 4 * (r * P + p));
        schedules[r] = pl_schedule_create();
        pl_pairwise_all_to_all(schedules[r], from, to, r);
    }
    fault = sc_run(&world, schedules);
    ck_assert_msg(!fault, "%d ranks: %s", P, fault ? fault : "");
    for (int r = 0; r < P; r++) {
        exchange_blocks(arena, P, r, n, &from, &to);
        for (int p = 0; p < P; p++)
            for (int64_t k = 0; k < exchange_size(p, r, n); k++)
                ck_assert_int_eq(sc_region_cell(&world, r, to.of[p], k)->id, 4 * (p * P + r) + k);
        pl_schedule_destroy(schedules[r]);
    }
    sc_world_free(&world);
    pl_arena_destroy(arena);
}

START_TEST(all_to_all_brings_every_block_to_its_rank)
{
    for (int P = 1; P <= 16; P++)
        for (int64_t n = 0; n < 4; n++)
            check_all_to_all(P, n);
}
END_TEST

START_TEST(broadcast_reaches_every_rank_from_every_root)
{
    for (int P = 1; P <= 16; P++) {
        for (int root = 0; root < P; root++) {
            fixture f;
            const char *fault;

            fixture_init(&f, P, 2 * P + 1, LAYOUT_STRIDED);
            for (int b = 0; b < P; b++)
                sc_region_fill(&f.world, root, pl_blocks_at(f.blocks, b), f.begins[b]);
            for (int r = 0; r < P; r++)
                pl_binomial_broadcast(f.schedules[r], f.blocks, root, r);
            fault = sc_run(&f.world, f.schedules);
            ck_assert_msg(!fault, "%d ranks: %s", P, fault ? fault : "");
            for (int r = 0; r < P; r++)
                for (int b = 0; b < P; b++)
                    ck_assert_int_eq(count_wrong(&f, r, b, (uint64_t)1 << root), 0);
            fixture_free(&f);
        }
    }
}
END_TEST

START_TEST(permute_shifts_round_a_ring_and_along_a_line)
{
    for (int P = 1; P <= 9; P++) {
        for (int is_ring = 0; is_ring <= 1; is_ring++) {
            const pl_piece out = pl_piece_of(0, 0, 5), in = pl_piece_of(1, 2, 5);
            pl_schedule *schedules[SC_MAX_RANKS];
            sc_world world;

            sc_world_init(&world, P, 2, 8);
            for (int r = 0; r < P; r++) {
                const int to = r + 1 < P ? r + 1 : is_ring ? 0 : -1;
                const int from = r > 0 ? r - 1 : is_ring ? P - 1 : -1;

                sc_region_fill(&world, r, (pl_region){1, &out}, 10 * r);
                schedules[r] = pl_schedule_create();
                pl_permute(schedules[r], (pl_region){1, &out}, to, (pl_region){1, &in}, from, r);
            }
            ck_assert_ptr_null(sc_run(&world, schedules));
            for (int r = is_ring ? 0 : 1; r < P; r++)
                for (int k = 0; k < 5; k++)
                    ck_assert_int_eq(sc_cell(&world, r, 1, 2 + k)->id, 10 * ((r + P - 1) % P) + k);
            for (int r = 0; r < P; r++)
                pl_schedule_destroy(schedules[r]);
            sc_world_free(&world);
        }
    }
}
END_TEST

/* The checker itself: two ranks with one element each, schedules written by hand. */
typedef struct {
    sc_world world;
    pl_schedule *schedules[2];
} pair;

static const pl_piece cell_0 = {.array = 0, .offset = 0, .count = 1, .stride = 1, .length = 1};
static const pl_piece cell_1 = {.array = 0, .offset = 1, .count = 1, .stride = 1, .length = 1};
static const pl_region x0 = {1, &cell_0}, x1 = {1, &cell_1};

static void pair_init(pair *p)
{
    sc_world_init(&p->world, 2, 1, 2);
    for (int r = 0; r < 2; r++) {
        p->schedules[r] = pl_schedule_create();
        sc_region_fill(&p->world, r, x0, 7);
    }
}

static void pair_expect_fault(pair *p, const char *word)
{
    const char *fault = sc_run(&p->world, p->schedules);

    ck_assert_ptr_nonnull(fault);
    ck_assert_msg(strstr(fault, word), "'%s' should name a %s", fault, word);
    for (int r = 0; r < 2; r++)
        pl_schedule_destroy(p->schedules[r]);
    sc_world_free(&p->world);
}

START_TEST(the_checker_sees_sends_that_need_buffering)
{
    pair p;

    pair_init(&p);
    for (int r = 0; r < 2; r++) { /* both send first, then receive */
        pl_schedule_send(p.schedules[r], 1 - r, x0);
        pl_schedule_next_round(p.schedules[r]);
        pl_schedule_recv(p.schedules[r], 1 - r, x1);
    }
    pair_expect_fault(&p, "deadlock");
}
END_TEST

START_TEST(the_checker_sees_a_term_summed_twice)
{
    pair p;

    pair_init(&p);
    for (int i = 0; i < 2; i++) {
        pl_schedule_send(p.schedules[0], 1, x0);
        pl_schedule_recv_add(p.schedules[1], 0, x0);
        pl_schedule_next_round(p.schedules[0]);
        pl_schedule_next_round(p.schedules[1]);
    }
    pair_expect_fault(&p, "twice");
}
END_TEST

START_TEST(the_checker_sees_a_receive_into_what_the_round_sends)
{
    pair p;

    pair_init(&p);
    for (int r = 0; r < 2; r++) {
        pl_schedule_send(p.schedules[r], 1 - r, x0);
        pl_schedule_recv(p.schedules[r], 1 - r, x0);
    }
    pair_expect_fault(&p, "disturb");
}
END_TEST

static pl_schedule_counts count_of(const algorithm *a, int P, int64_t n, int rank)
{
    pl_arena *arena = pl_arena_create();
    const pl_blocks x = pl_blocks_of_arrays(arena, &n, 1, P);
    pl_schedule *s = pl_schedule_create();
    pl_schedule_counts counts;

    if (a->effect == GATHERS)
        a->gather(s, x, (pl_region){0}, rank);
    else
        a->reduce(s, x, PL_SUM, rank);
    counts = pl_schedule_count(s);
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    return counts;
}

START_TEST(bytes_sent_follow_the_closed_formula)
{
    for (int P = 1; P <= 64; P++) {
        const int64_t n = 30 * P, even = 4 * n / P * (P - 1);

        for (int rank = 0; rank < P; rank++) {
            for (int i = 0; i < RECURSIVE_DOUBLING; i++)
                ck_assert_int_eq(count_of(&algorithms[i], P, n, rank).sent_bytes,
                                 algorithms[i].effect == REDUCES ? 2 * even : even);
            if ((P & (P - 1)) == 0)
                ck_assert_int_eq(count_of(&algorithms[RECURSIVE_DOUBLING], P, n, rank).sent_bytes,
                                 4 * n * (int64_t)log2(P));
        }
    }
}
END_TEST

START_TEST(rounds_follow_the_closed_formula)
{
    for (int P = 1; P <= 64; P++) {
        const int log = (int)ceil(log2(P)),
                  rounds[N_ALGORITHMS] = {P - 1, log,         P > 1,       P - 1,
                                          P > 1, 2 * (P - 1), 2 * (P > 1), log};

        for (int i = 0; i < RECURSIVE_DOUBLING; i++)
            ck_assert_int_eq(count_of(&algorithms[i], P, 3 * P, 0).rounds, rounds[i]);
        if ((P & (P - 1)) == 0)
            ck_assert_int_eq(count_of(&algorithms[RECURSIVE_DOUBLING], P, 3 * P, 0).rounds, log);
    }
}
END_TEST

START_TEST(the_ring_price_is_rounds_of_latency_bytes_and_additions)
{
    /* 4 ranks, 4,000 elements: 3 rounds of 4,000 B: 1 us + 4 us on the link + 2 us to add. */
    const pl_machine machine = {.reduce_bytes_per_s = 2e9,
                                .copy_bytes_per_s = 4e9,
                                .link[PL_LINK_SAME_HOST] = {.latency_s = 1e-6,
                                                            .one_way_bytes_per_s = 3e9,
                                                            .both_ways_bytes_per_s = 1e9}};
    const int64_t n = 4000;
    pl_arena *arena = pl_arena_create();
    pl_schedule *s = pl_schedule_create();
    double price_s;

    pl_ring_reduce_scatter(s, pl_blocks_of_arrays(arena, &n, 1, 4), PL_SUM, 2);
    price_s = pl_schedule_price_s(s, &machine, PL_LINK_SAME_HOST);
    ck_assert(fabs(price_s - 21e-6) <= 16 * 0x1p-53 * 21e-6); /* about 12 roundings */
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
}
END_TEST

START_TEST(a_round_that_only_receives_is_priced_one_way)
{
    const pl_machine machine = {.link[PL_LINK_OTHER_HOST] = {.latency_s = 1e-6,
                                                             .one_way_bytes_per_s = 2e9,
                                                             .both_ways_bytes_per_s = 1e9}};
    const pl_piece piece = pl_piece_of(0, 0, 1000);
    const pl_region none = {0}, all = {1, &piece};
    pl_schedule *s = pl_schedule_create();
    double price_s;

    pl_permute(s, none, -1, all, 0, 1);
    price_s = pl_schedule_price_s(s, &machine, PL_LINK_OTHER_HOST);
    ck_assert(fabs(price_s - 3e-6) <= 4 * 0x1p-53 * 3e-6); /* 1 us + 4,000 B at 2 GB/s */
    pl_schedule_destroy(s);
}
END_TEST

START_TEST(all_ranks_choose_the_same_algorithm)
{
    const int64_t counts[] = {0, 1, 1 << 8, 1 << 14, 1 << 18, 1 << 20}; /* where choices change */
    const int P = _i;

    for (int i = 0; i < 6; i++) {
        for (int c = PL_ALL_GATHER; c <= PL_ALL_REDUCE; c++) {
            pl_arena *arena = pl_arena_create();
            pl_collective_call call = {.collective = (pl_collective)c};
            const char *first, *name;

            call.blocks = pl_blocks_of_arrays(arena, &counts[i], 1, P);
            pl_schedule_destroy(pl_collective_schedule(&call, P, 0, &first));
            for (int r = 1; r < P; r++) {
                pl_schedule_destroy(pl_collective_schedule(&call, P, r, &name));
                ck_assert_str_eq(name, first);
            }
            pl_arena_destroy(arena);
        }
    }
}
END_TEST

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

START_TEST(the_maximum_does_not_depend_on_which_operand_is_which)
{
    const float a[] = {-0.0f, 0.0f, 1, -3, NAN, 2, INFINITY, -INFINITY};
    const float b[] = {0.0f, -0.0f, 2, -4, 5, NAN, 1, 1};
    const float expected[] = {0.0f, 0.0f, 2, -3, NAN, NAN, INFINITY, 1};
    float ab[8], ba[8];

    memcpy(ab, a, sizeof ab);
    memcpy(ba, b, sizeof ba);
    pl_reduce(PL_MAX, ab, b, 8);
    pl_reduce(PL_MAX, ba, a, 8);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(isnan(ab[i]), isnan(expected[i]));
        ck_assert_int_eq(isnan(ba[i]), isnan(expected[i]));
        if (isnan(expected[i]))
            continue;
        ck_assert_mem_eq(&ab[i], &expected[i], sizeof(float));
        ck_assert_mem_eq(&ba[i], &expected[i], sizeof(float));
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tc = tcase_create("schedules");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_algorithm_ends_right_without_deadlock_on_1_to_16_and_64_ranks, 0,
                        N_ALGORITHMS);
    tcase_add_test(tc, all_to_all_brings_every_block_to_its_rank);
    tcase_add_test(tc, broadcast_reaches_every_rank_from_every_root);
    tcase_add_test(tc, permute_shifts_round_a_ring_and_along_a_line);
    tcase_add_test(tc, the_checker_sees_sends_that_need_buffering);
    tcase_add_test(tc, the_checker_sees_a_term_summed_twice);
    tcase_add_test(tc, the_checker_sees_a_receive_into_what_the_round_sends);
    tcase_add_test(tc, bytes_sent_follow_the_closed_formula);
    tcase_add_test(tc, rounds_follow_the_closed_formula);
    tcase_add_test(tc, the_ring_price_is_rounds_of_latency_bytes_and_additions);
    tcase_add_test(tc, a_round_that_only_receives_is_priced_one_way);
    tcase_add_loop_test(tc, all_ranks_choose_the_same_algorithm, 31, 35);
    tcase_add_test(tc, chunks_cover_ranges_beyond_int_once_and_stay_below_it);
    tcase_add_test(tc, seventy_three_elements_over_4_ranks_are_19_18_18_18);
    tcase_add_test(tc, a_cut_holds_exactly_the_elements_asked_for);
    tcase_add_test(tc, touching_pieces_become_one);
    tcase_add_test(tc, the_maximum_does_not_depend_on_which_operand_is_which);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
