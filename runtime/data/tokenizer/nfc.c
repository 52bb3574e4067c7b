/* SPDX-License-Identifier: Apache-2.0 */
#include "nfc.h"
#include "property.h"

#include <string.h>
#include "base/core/list.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ORDER(point) ((point) >> 24) /* points are kept with their class above them */
#define POINT(point) ((point)&0xFFFFFF)
#define RAW          UINT32_C(0x800000) /* added to a byte that is not UTF-8 */
#define FEW_MARKS    32

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

/* A byte that is not UTF-8 has the properties of U+0000. */
static inline struct property kind_of(uint32_t point)
{
    return property_of(point < RAW ? point : 0);
}

/* Is the character a starter that never combines with preceding characters? */
static bool is_apart(struct property kind)
{
    return kind.order == 0 && kind.form_c == FORM_C_YES;
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
        struct property kind;
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
        if (kind.form_c != FORM_C_YES || (kind.order != 0 && order > kind.order))
            return apart;
        if (kind.order == 0)
            apart = at;
        order = kind.order;
        at += size;
    }
    return length;
}

static void put_point(struct nfc *nfc, uint32_t point)
{
    *list_add(nfc) = (uint32_t)kind_of(point).order << 24 | point;
}

size_t nfc_decompose(uint32_t point, bool compatible, uint32_t scratch[3], const uint32_t **parts)
{
    uint32_t syllable = point - HANGUL;
    size_t count = property_decompose(point, compatible, parts);

    if (count > 0)
        return count;
    *parts = scratch;
    if (syllable < HANGULS) {
        scratch[0] = HANGUL_LEAD + syllable / (HANGUL_VOWELS * HANGUL_TAILS);
        scratch[1] = HANGUL_VOWEL + syllable / HANGUL_TAILS % HANGUL_VOWELS;
        scratch[2] = HANGUL_TAIL + syllable % HANGUL_TAILS;
        return syllable % HANGUL_TAILS ? 3 : 2;
    }
    scratch[0] = point;
    return 1;
}

/* Decompose the next character and those that may combine with it. Returns their size in bytes. */
static size_t take_cluster(struct nfc *nfc, enum nfc_form form, const uint8_t *text, size_t length)
{
    bool compatible = form == NFC_FORM_KC || form == NFC_FORM_KD;
    size_t at = 0;

    nfc->count = 0;
    while (at < length) {
        uint32_t point, scratch[3];
        const uint32_t *parts;
        size_t size = utf8_decode(text + at, text + length, &point), count;

        if (point == UNICODE_INVALID)
            point = RAW | text[at];
        /* Here form C needs no look-up: it has this character. */
        if (at > 0 && form == NFC_FORM_C && is_apart(kind_of(point)))
            break;
        count = nfc_decompose(point, compatible, scratch, &parts);
        if (at > 0 && is_apart(kind_of(parts[0])))
            break;
        for (size_t i = 0; i < count; i++)
            put_point(nfc, parts[i]);
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
static void sort_marks(uint32_t *marks, size_t count)
{
    size_t starts[257] = {0};
    uint32_t *sorted;

    if (count <= FEW_MARKS) {
        sort_few(marks, count);
        return;
    }
    sorted = xcalloc(count, sizeof(*sorted));
    for (size_t i = 0; i < count; i++)
        starts[ORDER(marks[i]) + 1]++;
    for (size_t i = 1; i < COUNT(starts); i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[ORDER(marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof(*sorted));
    free(sorted);
}

static void sort_cluster(struct nfc *nfc)
{
    size_t begin = 0;

    for (size_t i = 0; i <= nfc->count; i++) {
        if (i < nfc->count && ORDER(nfc->items[i]) != 0)
            continue;
        if (i > begin + 1)
            sort_marks(nfc->items + begin, i - begin);
        begin = i + 1;
    }
}

/* The composition of two characters, or 0. */
static uint32_t compose_two(uint32_t first, uint32_t second)
{
    if (first - HANGUL_LEAD < HANGUL_LEADS && second - HANGUL_VOWEL < HANGUL_VOWELS)
        return HANGUL +
               ((first - HANGUL_LEAD) * HANGUL_VOWELS + second - HANGUL_VOWEL) * HANGUL_TAILS;
    if (first - HANGUL < HANGULS && (first - HANGUL) % HANGUL_TAILS == 0 &&
        second - HANGUL_TAIL - 1 < HANGUL_TAILS - 1)
        return first + second - HANGUL_TAIL;
    return property_compose(first, second);
}

/* A mark combines with the last character of class 0, unless a mark between them has the same or a
 * higher class. */
static void compose_cluster(struct nfc *nfc)
{
    uint32_t *points = nfc->items, *base = ORDER(points[0]) == 0 ? points : NULL;
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

static void write_cluster(const struct nfc *nfc, struct text_buffer *text)
{
    text_buffer_reserve(text, 4 * nfc->count);
    for (size_t i = 0; i < nfc->count; i++) {
        uint32_t point = POINT(nfc->items[i]);

        if (point & RAW)
            text->data[text->length++] = (char)(point & 0xFF);
        else
            text->length += utf8_encode(point, (uint8_t *)text->data + text->length);
    }
}

/* The bytes at the start of a text that a form leaves as they are. */
static size_t unchanged(enum nfc_form form, const uint8_t *text, size_t length)
{
    size_t size = 0;

    if (form == NFC_FORM_C)
        return nfc_stays(text, length);
    /* ASCII, but for the last character, which a mark may follow. */
    while (size + 1 < length && text[size] < 0x80 && text[size + 1] < 0x80)
        size++;
    return size;
}

void nfc_rewrite(struct nfc *nfc, enum nfc_form form, const uint8_t *text, size_t length,
                 struct text_buffer *out)
{
    bool composes = form == NFC_FORM_C || form == NFC_FORM_KC;

    for (;;) {
        size_t size = unchanged(form, text, length);

        text_buffer_put(out, text, size);
        text += size;
        length -= size;
        if (length == 0)
            return;
        size = take_cluster(nfc, form, text, length);
        sort_cluster(nfc);
        if (composes)
            compose_cluster(nfc);
        write_cluster(nfc, out);
        text += size;
        length -= size;
    }
}

void nfc_clear(struct nfc *nfc)
{
    list_free(nfc);
}
