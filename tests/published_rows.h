/* published_rows -- step times that others published (tests/published_steps.json), predicted by the
 * code that plans are made of; and the trivial predictor, one MFU a machine. What is wrong with the
 * file panics. All functions are local. */
#ifndef PURLIN_TESTS_PUBLISHED_ROWS_H
#define PURLIN_TESTS_PUBLISHED_ROWS_H

#include "src/base/json.h"
#include "src/machine/hardware.h"

#include <stdbool.h>

enum { PUBLISHED_MOST = 256 };

typedef struct {
    const char *id, *machine; /* owned by the file */
    double measured_s, predicted_s, trivial_s;
    double mfu;                         /* as purlin counts it */
    double math_s, exposed_s, bubble_s; /* of the prediction */
} published_run;

/** The file; release with json_decref(). */
json_t *published_load(void);

/** Predict all rows with these efficiencies; returns how many. Cost: some ms a row. */
int published_predict(const json_t *root, const pl_efficiency *efficiency,
                      published_run runs[PUBLISHED_MOST]);

/** trivial_s of all rows: for each machine the constant MFU with the least mean error over those of
 * its rows that fits[] says, one of the rows' own; of all machines where it says none. */
void published_trivial(published_run *runs, int n, const bool *fits);

#endif
