/* published_steps_test -- step times that others measured on TPU and GPU pods, predicted from the
 * files of doc/hardware by the code that plans are made of, with one set of efficiencies for all
 * (tests/published_steps.json says it, and the rows).
 *
 * Beside it the trivial predictor: one MFU per machine, the one that fits its rows best. */
#include "config.h"

#include "tests/check_main.h"
#include "tests/published_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_GAIN_PERCENT = 30 };

START_TEST(steps_are_predicted_better_than_by_a_constant_mfu)
{
    static published_run runs[PUBLISHED_MOST];
    json_t *root = published_load();
    const int n = published_predict(root, &pl_efficiency_typical, runs);
    bool fits[PUBLISHED_MOST];
    int worst = 0;
    double sum = 0, trivial = 0, at_worst = 0;

    for (int i = 0; i < n; i++)
        fits[i] = true;
    published_trivial(runs, n, fits);
    printf("%-42s %-8s %10s %10s %7s %8s   (math, exposed, bubble: s)\n", "run", "machine",
           "measured", "predicted", "error", "trivial");
    for (int k = 0; k < n; k++) {
        const published_run *r = &runs[k];
        const double error = r->predicted_s / r->measured_s - 1;

        sum += fabs(error);
        trivial += fabs(r->trivial_s / r->measured_s - 1);
        worst = fabs(error) > at_worst ? k : worst;
        at_worst = fmax(at_worst, fabs(error));
        printf("%-42s %-8s %8.3f s %8.3f s %6.1f%% %7.1f%%   (%.3g, %.3g, %.3g)\n", r->id,
               r->machine, r->measured_s, r->predicted_s, 100 * error,
               100 * (r->trivial_s / r->measured_s - 1), r->math_s, r->exposed_s, r->bubble_s);
    }
    printf("%d runs: mean error %.1f%%, worst %.1f%% (%s); one MFU per machine: mean %.1f%%\n", n,
           100 * sum / n, 100 * at_worst, runs[worst].id, 100 * trivial / n);
    fflush(stdout); /* a failure ends the process at once */
    ck_assert_int_gt(n, 20);
    ck_assert(sum <= (100 - LEAST_GAIN_PERCENT) / 100.0 * trivial);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("published steps");
    TCase *steps = tcase_create("steps");

    tcase_add_test(steps, steps_are_predicted_better_than_by_a_constant_mfu);
    tcase_set_timeout(steps, 240);
    suite_add_tcase(suite, steps);
    return ck_main(suite);
}
