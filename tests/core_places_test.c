/* core_places_test -- parts of a calibration while cores move. */
#include "config.h"

#include "src/roofline/core_places.h"

#include "tests/check_main.h"

#include <string.h>

static const double near_s = 50e-9, far_s = 250e-9;

/* Measure the next part where cores are, which are there still or have moved when it is over. */
static pl_core_place *measure(pl_core_places *places, double before_s, double after_s)
{
    const pl_machine begun = {.ranks_per_host = 2};
    pl_core_place *place = pl_core_places_at(places, &begun, before_s);
    pl_machine measured = place->machine;

    measured.signal_s += 1; /* counts parts */
    if (pl_core_place_is(place, after_s))
        pl_core_place_add(place, &measured, after_s);
    return place;
}

START_TEST(parts_of_a_place_are_kept_while_cores_are_elsewhere)
{
    pl_core_places places = {0};
    pl_core_place *const here = measure(&places, near_s, near_s);

    ck_assert(measure(&places, near_s, far_s) == here); /* does not count */
    ck_assert_int_eq(here->n_parts, 1);
    pl_core_place *const there = measure(&places, far_s, far_s);
    ck_assert(there != here && there->n_parts == 1);
    ck_assert_int_eq(there->machine.ranks_per_host, 2); /* begun anew */
    for (int i = 1; i < PL_N_PARTS; i++)
        ck_assert(measure(&places, 1.1 * near_s, near_s) == here);
    ck_assert_int_eq(here->n_parts, PL_N_PARTS);
    ck_assert(pl_core_places_most(&places) == here);
    ck_assert(here->machine.signal_s == PL_N_PARTS && there->machine.signal_s == 1);
}
END_TEST

START_TEST(a_place_says_what_a_line_took_there)
{
    pl_core_places places = {0};
    pl_core_place *place = measure(&places, near_s, near_s);

    measure(&places, near_s, 1.2 * near_s);
    measure(&places, near_s, 1.1 * near_s);
    const pl_machine *machine = pl_core_place_machine(place);
    ck_assert(machine->line_s ==
              1.1 * near_s); /* of 1, 1, 1.1 and 1.2 the upper of the middle two */
    ck_assert_double_eq_tol(machine->spread.line_s, 0.2 / 1.1, 1e-9);
}
END_TEST

START_TEST(beyond_two_places_the_one_with_most_parts_goes_on)
{
    pl_core_places places = {0};

    measure(&places, near_s, near_s);
    pl_core_place *const there = measure(&places, far_s, far_s);
    measure(&places, far_s, far_s);
    ck_assert(measure(&places, 1000e-9, 1000e-9) == there);
    ck_assert_int_eq(there->n_parts, 2); /* which does not count */
}
END_TEST

START_TEST(where_nobody_can_look_there_is_one_place)
{
    pl_core_places places = {0};
    pl_core_place *const place = measure(&places, 0, 0);

    for (int i = 1; i < PL_N_PARTS; i++)
        ck_assert(measure(&places, 0, 0) == place);
    ck_assert_int_eq(place->n_parts, PL_N_PARTS);
    ck_assert(pl_core_place_machine(place)->line_s == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_places");
    TCase *tcase = tcase_create("core_places");

    tcase_add_test(tcase, parts_of_a_place_are_kept_while_cores_are_elsewhere);
    tcase_add_test(tcase, a_place_says_what_a_line_took_there);
    tcase_add_test(tcase, beyond_two_places_the_one_with_most_parts_goes_on);
    tcase_add_test(tcase, where_nobody_can_look_there_is_one_place);
    suite_add_tcase(suite, tcase);
    return ck_main(suite);
}
