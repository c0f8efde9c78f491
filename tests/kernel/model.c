/* The softmax state of a row in double precision. See model.h. */
#include "model.h"

#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

void *take(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

void fill_normal(choices *c, float *values, int64_t count, float size)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = choose_normal(c) * size;
}

void choose_state(choices *c, int columns, float *state)
{
    bool empty = chance(c, 4);
    state[0] = empty ? -INFINITY : 3 * choose_normal(c);
    state[1] = empty ? 0 : 1 + fabsf(choose_normal(c)) * 20;
    for (int d = 0; d < columns; d++)
        state[2 + d] = empty ? 0 : state[1] * choose_normal(c);
}

static void rescale(double *state, int columns, double max)
{
    double factor = state[1] == 0 ? 0 : exp2(state[0] - max);
    state[0] = max;
    for (int i = 1; i < 2 + columns; i++)
        state[i] *= factor;
}

void model_see(double *state, int columns, double score, const float *value)
{
    if (score > state[0])
        rescale(state, columns, score);
    double weight = exp2(score - state[0]);
    state[1] += weight;
    for (int d = 0; d < columns; d++)
        state[2 + d] += weight * value[d];
}

void model_merge(double *into, const double *from, int columns)
{
    if (from[1] == 0)
        return;
    rescale(into, columns, fmax(into[0], from[0]));
    double factor = exp2(from[0] - into[0]);
    for (int i = 1; i < 2 + columns; i++)
        into[i] += factor * from[i];
}

void widen_state(const float *state, int columns, double *wide)
{
    for (int i = 0; i < 2 + columns; i++)
        wide[i] = state[i];
}

double state_distance(const double *a, const double *b, int columns)
{
    if (a[1] == 0 && b[1] == 0)
        return a[0] == b[0] ? 0 : (double)INFINITY;
    double distance = fabs(a[0] + log2(a[1]) - b[0] - log2(b[1]));
    for (int d = 0; d < columns; d++)
        distance = fmax(distance, fabs(a[2 + d] / a[1] - b[2 + d] / b[1]));
    return isnan(distance) ? (double)INFINITY : distance;
}
