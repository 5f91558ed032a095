/* crossover -- where one thing becomes larger than another, from a few points: the same arithmetic
 * for what was predicted and for what was measured. All functions are local. */
#ifndef PURLIN_TRAIN_CROSSOVER_H
#define PURLIN_TRAIN_CROSSOVER_H

/** The x at which a becomes b, linear in log(a / b) over log(x) between the two points where it
 * changes sign first; all positive, x rising. NaN where it never does, or a value is not positive. */
double pl_crossing(int n, const double *x, const double *a, const double *b);

/** The x at which y, falling along a line, becomes flat: of all ways to lay a line through the first
 * k >= 2 of the points and a constant through the rest (at least 2) the one with the least sum of
 * squares; where the two meet. NaN where y does not fall by a quarter of its first value, or they do
 * not meet between the first and the last x: then nothing is hidden, or no end of it is seen. */
double pl_elbow(int n, const double *x, const double *y);

#endif
