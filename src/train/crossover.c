#include "config.h"

#include "src/train/crossover.h"

#include <math.h>

double pl_crossing(int n, const double *x, const double *a, const double *b)
{
    for (int i = 0; i < n; i++)
        if (!(x[i] > 0 && a[i] > 0 && b[i] > 0))
            return NAN;
    for (int i = 0; i + 1 < n; i++) {
        const double here = log(a[i] / b[i]), there = log(a[i + 1] / b[i + 1]);

        if (here == 0)
            return x[i];
        if (here * there <= 0)
            return x[i] * pow(x[i + 1] / x[i], here / (here - there));
    }
    return NAN;
}

/* The line a + b x through n points, by least squares. */
typedef struct {
    double a, b;
} line;

static line fit_line(int n, const double *x, const double *y)
{
    double x_mean = 0, y_mean = 0, xx = 0, xy = 0;

    for (int i = 0; i < n; i++) {
        x_mean += x[i] / n;
        y_mean += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        xx += (x[i] - x_mean) * (x[i] - x_mean);
        xy += (x[i] - x_mean) * (y[i] - y_mean);
    }
    const double b = xy / xx;
    return (line){y_mean - b * x_mean, b};
}

static double squares(int n, const double *x, const double *y, line l)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (y[i] - l.a - l.b * x[i]) * (y[i] - l.a - l.b * x[i]);
    return sum;
}

double pl_elbow(int n, const double *x, const double *y)
{
    double best = INFINITY, elbow = NAN;

    for (int k = 2; k + 2 <= n; k++) {
        const line falling = fit_line(k, x, y);
        line flat = {0, 0};

        for (int i = k; i < n; i++)
            flat.a += y[i] / (n - k);
        const double sum = squares(k, x, y, falling) + squares(n - k, x + k, y + k, flat);
        if (sum >= best)
            continue;
        best = sum;
        elbow = flat.a < 0.75 * y[0] ? (flat.a - falling.a) / falling.b : NAN;
    }
    return elbow >= x[0] && elbow <= x[n - 1] ? elbow : NAN;
}
