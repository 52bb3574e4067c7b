/* SPDX-License-Identifier: Apache-2.0 */
#include "similar.h"

#include <math.h>

void similar_add(struct similar *similar, const int64_t sizes[3], const int64_t others[3],
                 const char *value)
{
    double octaves = 0;
    int at;

    for (int i = 0; i < 3; i++)
        octaves += fabs(log2((double)sizes[i] / (double)others[i]));
    if (!(octaves <= SIMILAR_OCTAVES))
        return;
    if (similar->count == SIMILAR_MOST && octaves >= similar->octaves[SIMILAR_MOST - 1])
        return;
    at = similar->count < SIMILAR_MOST ? similar->count++ : SIMILAR_MOST - 1;
    for (; at > 0 && octaves < similar->octaves[at - 1]; at--) {
        similar->values[at] = similar->values[at - 1];
        similar->octaves[at] = similar->octaves[at - 1];
    }
    similar->values[at] = value;
    similar->octaves[at] = octaves;
}
