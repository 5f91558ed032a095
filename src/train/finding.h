/* finding -- where what a survey looks at changes sides: by prediction, by what was measured, and
 * by each round of that alone, which says how much of it is noise. All functions are local. */
#ifndef PURLIN_TRAIN_FINDING_H
#define PURLIN_TRAIN_FINDING_H

#include "src/train/survey.h"

/* Whose times: a round's (0, 1, ...: the n-th step of each point), or */
enum { PL_MEASURED = -1, PL_PREDICTED = -2 };

/** The two things that should become equal, at point i. */
void pl_finding_sides(const pl_survey *survey, int whose, int i, double sides[2]);

/** Where they do: the x of the survey; NaN: nowhere. */
double pl_finding_crossing(const pl_survey *survey, int whose);

/** The x below which exposed communication appears (pl_elbow()). */
double pl_finding_elbow(const pl_survey *survey, int whose);

typedef struct {
    double predicted, measured; /* NaN: nowhere, or nothing measured */
    int n_rounds, n_nowhere;    /* rounds, each by itself; those of them that find nothing */
    double low, high;           /* the middle half of what the others find; NaN where none does */
} pl_finding;

/* A finding, or a point's repetitions, that lie further apart than this, over their median, say
 * little about a prediction that is wanted within 15%. */
#define PL_MOST_APART 0.1

pl_finding pl_find(const pl_survey *survey, double (*where)(const pl_survey *survey, int whose));

/** Whether its rounds lie too far apart, or half of them find nothing. */
bool pl_finding_is_noise(const pl_finding *found);

#endif
