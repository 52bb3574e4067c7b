/* SPDX-License-Identifier: Apache-2.0 */
#include "nfc.h"
#include "property.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

struct nfc_kind {
    uint8_t order, quick; /* combining class; is it in form C? */
};

struct nfc_decomposition {
    uint32_t point;
    uint16_t at;
    uint8_t count;
};

struct nfc_pair {
    uint32_t first, second, composed;
};

#include "nfc_table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ORDER(point) ((point) >> 24) /* points are kept with their class above them */
#define POINT(point) ((point)&0xFFFFFF)
#define RAW          UINT32_C(0x800000) /* in the place of a character: a byte of none */
#define SORT_BY_HAND 32

/* Syllables of Hangul are computed. */
enum {
    HANGUL_LEAD = 0x1100,
    HANGUL_LEADS = 19,
    HANGUL_VOWEL = 0x1161,
    HANGUL_VOWELS = 21,
    HANGUL_TAIL = 0x11A7, /* one before the first */
    HANGUL_TAILS = 28,
    HANGUL = 0xAC00,
    HANGULS = HANGUL_LEADS * HANGUL_VOWELS * HANGUL_TAILS,
};

static inline struct nfc_kind kind_of(uint32_t point)
{
    if (point >= NFC_LIMIT)
        return nfc_kinds[0];
    return nfc_kinds[nfc_blocks[nfc_index[point >> 7]][point & 127]];
}

/* Does the character never combine with what precedes it (a starter)? */
static int is_apart(struct nfc_kind kind)
{
    return kind.order == 0 && kind.quick == 0;
}

/* The end of the characters below U+0300, and of invalid bytes, from 'at' on: they never combine
 * with what precedes them. */
static size_t skip_plain(const uint8_t *text, size_t length, size_t at)
{
    const uint64_t high = 0x8080808080808080u;
    uint64_t eight;

    while (length - at >= sizeof(eight)) {
        memcpy(&eight, text + at, sizeof(eight));
        if (eight & eight << 1 & high) /* a byte of 0xC0 or more */
            break;
        at += sizeof(eight);
    }
    while (at < length && text[at] < 0xCC)
        at++;
    return at;
}

/* The start of the last of these characters, which ends at 'at'. */
static size_t step_back(const uint8_t *text, size_t at)
{
    int two =
        at > 1 && (text[at - 1] & 0xC0) == 0x80 && text[at - 2] >= 0xC2 && text[at - 2] < 0xCC;

    return at - (two ? 2 : 1);
}

size_t nfc_stays(const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    size_t at = 0, apart = 0; /* apart: where the last starter begins */
    uint8_t order = 0;

    while (at < length) {
        size_t plain = skip_plain(text, length, at);
        struct nfc_kind kind;
        uint32_t point;
        size_t size;

        if (plain > at) {
            at = plain;
            order = 0;
            apart = step_back(text, at);
            continue;
        }
        size = utf8_decode(text + at, end, &point);
        kind = kind_of(point);
        if (kind.quick != 0 || (kind.order != 0 && order > kind.order))
            return apart;
        if (kind.order == 0)
            apart = at;
        order = kind.order;
        at += size;
    }
    return length;
}

static int reserve_points(struct nfc *nfc, size_t more)
{
    size_t wanted = nfc->count + more;
    uint32_t *points;

    if (wanted <= nfc->points_room)
        return 0;
    wanted += wanted / 2 + 64;
    points = realloc(nfc->points, wanted * sizeof(*points));
    if (!points)
        return -1;
    nfc->points = points;
    nfc->points_room = wanted;
    return 0;
}

static void put_point(struct nfc *nfc, uint32_t point)
{
    nfc->points[nfc->count++] = (uint32_t)kind_of(point).order << 24 | point;
}

static int compare_points(const void *key, const void *row)
{
    uint32_t point = *(const uint32_t *)key;
    const struct nfc_decomposition *d = row;

    return point < d->point ? -1 : point > d->point;
}

/* Add a character as its full decomposition. Hangul syllables may stay: what follows combines with
 * them as they are. */
static int put_decomposed(struct nfc *nfc, uint32_t point)
{
    const struct nfc_decomposition *d =
        bsearch(&point, nfc_decompositions, COUNT(nfc_decompositions), sizeof(*d), compare_points);

    if (reserve_points(nfc, NFC_MOST_PARTS) < 0)
        return -1;
    for (size_t i = 0; d && i < d->count; i++)
        put_point(nfc, nfc_parts[d->at + i]);
    if (!d)
        put_point(nfc, point);
    return 0;
}

/* The next character and those after it up to a starter, decomposed. Returns their size in bytes, 0
 * if out of memory. */
static size_t take_cluster(struct nfc *nfc, const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    size_t at = 0;

    nfc->count = 0;
    while (at < length) {
        uint32_t point;
        size_t size = utf8_decode(text + at, end, &point);

        if (at > 0 && is_apart(kind_of(point)))
            break;
        if (put_decomposed(nfc, point == UNICODE_INVALID ? RAW | text[at] : point) < 0)
            return 0;
        at += size;
    }
    return at;
}

static void sort_few(uint32_t *marks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t now = marks[i];
        size_t j = i;

        for (; j > 0 && ORDER(marks[j - 1]) > ORDER(now); j--)
            marks[j] = marks[j - 1];
        marks[j] = now;
    }
}

/* Marks in the order of their classes; marks of one class keep their order. */
static int sort_marks(uint32_t *marks, size_t count)
{
    size_t starts[257] = {0};
    uint32_t *sorted;

    if (count <= SORT_BY_HAND) {
        sort_few(marks, count);
        return 0;
    }
    sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        return -1;
    for (size_t i = 0; i < count; i++)
        starts[ORDER(marks[i]) + 1]++;
    for (size_t i = 1; i < COUNT(starts); i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[ORDER(marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof(*sorted));
    free(sorted);
    return 0;
}

static int sort_cluster(struct nfc *nfc)
{
    size_t begin = 0;

    for (size_t i = 0; i <= nfc->count; i++) {
        if (i < nfc->count && ORDER(nfc->points[i]) != 0)
            continue;
        if (i > begin + 1 && sort_marks(nfc->points + begin, i - begin) < 0)
            return -1;
        begin = i + 1;
    }
    return 0;
}

static int compare_pairs(const void *key, const void *row)
{
    const struct nfc_pair *a = key, *b = row;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->second < b->second ? -1 : a->second > b->second;
}

/* What two characters become; 0: they stay two. */
static uint32_t compose_two(uint32_t first, uint32_t second)
{
    const struct nfc_pair pair = {first, second, 0}, *found;

    if (first - HANGUL_LEAD < HANGUL_LEADS && second - HANGUL_VOWEL < HANGUL_VOWELS)
        return HANGUL +
               ((first - HANGUL_LEAD) * HANGUL_VOWELS + second - HANGUL_VOWEL) * HANGUL_TAILS;
    if (first - HANGUL < HANGULS && (first - HANGUL) % HANGUL_TAILS == 0 &&
        second - HANGUL_TAIL - 1 < HANGUL_TAILS - 1)
        return first + second - HANGUL_TAIL;
    found = bsearch(&pair, nfc_pairs, COUNT(nfc_pairs), sizeof(pair), compare_pairs);
    return found ? found->composed : 0;
}

/* A mark combines with the last character of class 0, unless a mark between them has the same or a
 * higher class. */
static void compose_cluster(struct nfc *nfc)
{
    uint32_t *points = nfc->points, *base = ORDER(points[0]) == 0 ? points : NULL;
    size_t kept = 1;

    for (size_t i = 1; i < nfc->count; i++) {
        uint32_t now = points[i], *before = &points[kept - 1];
        int meets = base && (before == base || ORDER(*before) < ORDER(now));
        uint32_t composed = meets ? compose_two(POINT(*base), POINT(now)) : 0;

        if (composed) {
            *base = composed;
            continue;
        }
        points[kept] = now;
        if (ORDER(now) == 0)
            base = &points[kept];
        kept++;
    }
    nfc->count = kept;
}

static int write_cluster(struct nfc *nfc)
{
    struct text_buffer *text = &nfc->text;

    if (text_buffer_reserve(text, 4 * nfc->count) < 0)
        return -1;
    for (size_t i = 0; i < nfc->count; i++) {
        uint32_t point = POINT(nfc->points[i]);

        if (point & RAW)
            text->data[text->length++] = (char)(point & 0xFF);
        else
            text->length += utf8_encode(point, (uint8_t *)text->data + text->length);
    }
    return 0;
}

int nfc_compose(struct nfc *nfc, const uint8_t *text, size_t length)
{
    nfc->text.length = 0;
    while (length > 0) {
        size_t size = nfc_stays(text, length);

        if (text_buffer_put(&nfc->text, text, size) < 0)
            return -1;
        text += size;
        length -= size;
        if (length == 0)
            break;
        size = take_cluster(nfc, text, length);
        if (size == 0 || sort_cluster(nfc) < 0)
            return -1;
        compose_cluster(nfc);
        if (write_cluster(nfc) < 0)
            return -1;
        text += size;
        length -= size;
    }
    return 0;
}

uint8_t nfc_order(uint32_t point)
{
    return kind_of(point).order;
}

size_t nfc_decompose(uint32_t point, uint32_t parts[NFC_MOST_PARTS])
{
    const struct nfc_decomposition *d;
    uint32_t syllable = point - HANGUL;

    parts[0] = point;
    if (syllable < HANGULS) {
        parts[0] = HANGUL_LEAD + syllable / (HANGUL_VOWELS * HANGUL_TAILS);
        parts[1] = HANGUL_VOWEL + syllable / HANGUL_TAILS % HANGUL_VOWELS;
        parts[2] = HANGUL_TAIL + syllable % HANGUL_TAILS;
        return syllable % HANGUL_TAILS ? 3 : 2;
    }
    d = bsearch(&point, nfc_decompositions, COUNT(nfc_decompositions), sizeof(*d), compare_points);
    for (size_t i = 0; d && i < d->count; i++)
        parts[i] = nfc_parts[d->at + i];
    return d ? d->count : 1;
}

/* The next character and those that combine with it, decomposed in either way. Returns their size
 * in bytes, 0 if out of memory. */
static size_t take_decomposed(struct nfc *nfc, int compatible, const uint8_t *text, size_t length)
{
    size_t at = 0;

    nfc->count = 0;
    while (at < length) {
        uint32_t point, parts[NFC_MOST_PARTS];
        const uint32_t *from = parts;
        size_t size = utf8_decode(text + at, text + length, &point), count = 0;

        if (point == UNICODE_INVALID)
            point = RAW | text[at];
        else if (compatible)
            count = property_compatible(point, &from);
        if (count == 0)
            count = nfc_decompose(point, parts);
        if (at > 0 && is_apart(kind_of(from[0])))
            break;
        if (reserve_points(nfc, count) < 0)
            return 0;
        for (size_t i = 0; i < count; i++)
            put_point(nfc, from[i]);
        at += size;
    }
    return at;
}

int nfc_rewrite(struct nfc *nfc, enum nfc_form form, const uint8_t *text, size_t length)
{
    int compatible = form == NFC_FORM_KC || form == NFC_FORM_KD;

    if (form == NFC_FORM_C)
        return nfc_compose(nfc, text, length);
    nfc->text.length = 0;
    while (length > 0) {
        size_t size = 0;

        /* ASCII that no mark follows. */
        while (size + 1 < length && text[size] < 0x80 && text[size + 1] < 0x80)
            size++;
        if (text_buffer_put(&nfc->text, text, size) < 0)
            return -1;
        text += size;
        length -= size;
        size = take_decomposed(nfc, compatible, text, length);
        if (size == 0 || sort_cluster(nfc) < 0)
            return -1;
        if (form == NFC_FORM_KC)
            compose_cluster(nfc);
        if (write_cluster(nfc) < 0)
            return -1;
        text += size;
        length -= size;
    }
    return 0;
}

void nfc_clear(struct nfc *nfc)
{
    text_buffer_clear(&nfc->text);
    free(nfc->points);
    memset(nfc, 0, sizeof(*nfc));
}
