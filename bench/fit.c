#include "fit.h"

#include <math.h>

fit fit_line(const double *x, const double *y, int count)
{
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, rest = 0;
    for (int i = 0; i < count; i++) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    fit f = {0, xy / xx, 0};
    f.intercept = mean_y - f.slope * mean_x;
    for (int i = 0; i < count; i++)
        rest += pow(y[i] - f.intercept - f.slope * x[i], 2);
    f.error = sqrt(rest / (count - 2) / xx);
    return f;
}
