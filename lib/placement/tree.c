/* SPDX-License-Identifier: Apache-2.0 */
#include "binding.h"

int tree_home(const struct topology *topology, int place)
{
    while (topology->places[place].kind == PLACE_BRIDGE && topology->places[place].parent >= 0)
        place = topology->places[place].parent;
    return place;
}

/* Parents have smaller numbers than their children. */
bool tree_is_below(const struct topology *topology, int place, int above)
{
    while (place > above)
        place = topology->places[place].parent;
    return place == above;
}

int tree_distance(const struct topology *topology, int a, int b)
{
    if (a == b)
        return 0;
    while (a != b) {
        if (a > b)
            a = topology->places[a].parent;
        else
            b = topology->places[b].parent;
    }
    switch (topology->places[a].kind) {
    case PLACE_BRIDGE:
        return 1;
    case PLACE_GROUP:
        return 4;
    case PLACE_PACKAGE:
        return 8;
    default:
        return 64;
    }
}
