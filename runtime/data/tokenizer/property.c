/* SPDX-License-Identifier: Apache-2.0 */
#include "property.h"

#include <stdlib.h>

struct lower_case {
    uint32_t point, lower[2];
};

struct decomposition {
    uint32_t point;
    uint16_t at; /* in unicode_parts: first the canonical one, then the other */
    uint8_t canonical, compatible;
};

struct composition {
    uint32_t first, second, composed;
};

#include "unicode_table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

uint8_t unicode_script(uint32_t point)
{
    return property_of(point).script;
}

uint32_t property_page(uint32_t page)
{
    return (uint32_t)unicode_index[page * 2] << 16 | unicode_index[page * 2 + 1];
}

/* The rows of the tables begin with the code point. */
static int compare_points(const void *key, const void *row)
{
    uint32_t point = *(const uint32_t *)key, other = *(const uint32_t *)row;

    return point < other ? -1 : point > other;
}

size_t property_lower(uint32_t point, uint32_t out[2])
{
    const struct lower_case *row;

    out[0] = point;
    if (point < 0x80) {
        out[0] += (point - 'A' < 26) * 32;
        return 1;
    }
    row = bsearch(&point, unicode_lowers, COUNT(unicode_lowers), sizeof(*row), compare_points);
    if (!row)
        return 1;
    out[0] = row->lower[0];
    out[1] = row->lower[1];
    return row->lower[1] ? 2 : 1;
}

size_t property_decompose(uint32_t point, bool compatible, const uint32_t **parts)
{
    const struct decomposition *row = unicode_decompositions;

    /* bsearch would call a function for each comparison: too slow for every character of a text. */
    for (size_t count = COUNT(unicode_decompositions), half; count > 1; count -= half) {
        half = count / 2;
        row += row[half].point <= point ? half : 0;
    }
    if (row->point != point)
        return 0;
    if (compatible && row->compatible > 0) {
        *parts = unicode_parts + row->at + row->canonical;
        return row->compatible;
    }
    *parts = unicode_parts + row->at;
    return row->canonical;
}

static int compare_pairs(const void *key, const void *row)
{
    const struct composition *a = key, *b = row;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->second < b->second ? -1 : a->second > b->second;
}

uint32_t property_compose(uint32_t first, uint32_t second)
{
    const struct composition pair = {first, second, 0}, *found;

    found = bsearch(&pair, unicode_compositions, COUNT(unicode_compositions), sizeof(pair),
                    compare_pairs);
    return found ? found->composed : 0;
}

static int extends(enum grapheme class)
{
    return class == GRAPHEME_EXTEND || class == GRAPHEME_INDIC_EXTEND || class == GRAPHEME_LINKER;
}

/* The cluster so far. */
struct cluster {
    enum grapheme last;
    int indicators;   /* regional indicators so far */
    int pictographic; /* a pictographic character and only extending ones after it */
    int consonant;    /* 1: an Indic consonant, 2: and a linker after it */
};

/* Is there a boundary between a cluster and a character (UAX 29, GB3 to GB13)? */
static int breaks(const struct cluster *cluster, enum grapheme next)
{
    enum grapheme last = cluster->last;

    if (last == GRAPHEME_CR && next == GRAPHEME_LF)
        return 0;
    if (last <= GRAPHEME_CONTROL && last != GRAPHEME_OTHER)
        return 1;
    if (next <= GRAPHEME_CONTROL && next != GRAPHEME_OTHER)
        return 1;
    if (last == GRAPHEME_L &&
        (next == GRAPHEME_L || next == GRAPHEME_V || next == GRAPHEME_LV || next == GRAPHEME_LVT))
        return 0;
    if ((last == GRAPHEME_LV || last == GRAPHEME_V) && (next == GRAPHEME_V || next == GRAPHEME_T))
        return 0;
    if ((last == GRAPHEME_LVT || last == GRAPHEME_T) && next == GRAPHEME_T)
        return 0;
    if (extends(next) || next == GRAPHEME_ZWJ || next == GRAPHEME_SPACING_MARK)
        return 0;
    if (last == GRAPHEME_PREPEND)
        return 0;
    if (next == GRAPHEME_CONSONANT && cluster->consonant == 2)
        return 0;
    if (last == GRAPHEME_ZWJ && next == GRAPHEME_PICTOGRAPHIC && cluster->pictographic)
        return 0;
    return !(last == GRAPHEME_REGIONAL_INDICATOR && next == GRAPHEME_REGIONAL_INDICATOR &&
             cluster->indicators % 2 == 1);
}

static void add_to_cluster(struct cluster *cluster, enum grapheme next)
{
    cluster->indicators += next == GRAPHEME_REGIONAL_INDICATOR;
    if (next == GRAPHEME_PICTOGRAPHIC)
        cluster->pictographic = 1;
    else if (!extends(next) && next != GRAPHEME_ZWJ)
        cluster->pictographic = 0;
    if (next == GRAPHEME_CONSONANT)
        cluster->consonant = 1;
    else if (next == GRAPHEME_LINKER)
        cluster->consonant *= 2;
    else if (next != GRAPHEME_INDIC_EXTEND && next != GRAPHEME_ZWJ)
        cluster->consonant = 0;
    if (cluster->consonant > 2)
        cluster->consonant = 2;
    cluster->last = next;
}

size_t grapheme_length(const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    struct cluster cluster = {0};
    uint32_t point;
    size_t at = utf8_decode(text, end, &point);

    if (point == UNICODE_INVALID)
        return at;
    add_to_cluster(&cluster, (enum grapheme)property_of(point).grapheme);
    while (at < length) {
        size_t size = utf8_decode(text + at, end, &point);
        enum grapheme next;

        if (point == UNICODE_INVALID)
            break;
        next = (enum grapheme)property_of(point).grapheme;
        if (breaks(&cluster, next))
            break;
        add_to_cluster(&cluster, next);
        at += size;
    }
    return at;
}
