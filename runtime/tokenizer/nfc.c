#include "nfc.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

struct nfc_kind {
    uint8_t class, quick; /* combining class; is it in form C? */
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
#define RAW          UINT32_C(0x80000000) /* in the place of a character: a byte of none */
#define FIRST_MARK   0x300 /* no character below does anything to the one before it */
#define SORT_BY_HAND 32
#define MOST_PARTS   4 /* that a character decomposes into */

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

/* Does the character stand apart from what is before it? */
static int is_apart(struct nfc_kind kind)
{
    return kind.class == 0 && kind.quick == 0;
}

/* Bytes from 'at' on that belong to characters below FIRST_MARK, or to none; about. */
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

/* Where the last character before 'at' begins; 'at' is above 0. */
static size_t step_back(const uint8_t *text, size_t at)
{
    size_t begin = at - 1;
    uint32_t point;

    while (begin > 0 && at - begin < 4 && (text[begin] & 0xC0) == 0x80)
        begin--;
    return begin + utf8_decode(text + begin, text + at, &point) == at ? begin : at - 1;
}

size_t nfc_stays(const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    size_t at = 0, apart = 0; /* apart: where the last one begins that stands so */
    uint8_t class = 0;

    while (at < length) {
        size_t plain = skip_plain(text, length, at), size;
        struct nfc_kind kind = {0, 0};
        uint32_t point;

        if (plain > at) {
            at = plain;
            class = 0;
            apart = step_back(text, at);
            continue;
        }
        size = utf8_decode(text + at, end, &point);
        kind = kind_of(point);
        if (kind.quick != 0 || (kind.class != 0 && class > kind.class))
            return apart;
        if (kind.class == 0)
            apart = at;
        class = kind.class;
        at += size;
    }
    return length;
}

static int reserve(struct nfc *nfc, size_t more)
{
    size_t wanted = nfc->length + more;
    uint8_t *text;

    if (wanted <= nfc->room)
        return 0;
    wanted += wanted / 2;
    text = realloc(nfc->text, wanted);
    if (!text)
        return -1;
    nfc->text = text;
    nfc->room = wanted;
    return 0;
}

static int reserve_points(struct nfc *nfc, size_t more)
{
    size_t wanted = nfc->count + more;
    struct nfc_point *points;

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
    nfc->points[nfc->count++] = (struct nfc_point){point, kind_of(point).class};
}

static void put_hangul(struct nfc *nfc, uint32_t syllable)
{
    uint32_t tail = syllable % HANGUL_TAILS, rest = syllable / HANGUL_TAILS;

    put_point(nfc, HANGUL_LEAD + rest / HANGUL_VOWELS);
    put_point(nfc, HANGUL_VOWEL + rest % HANGUL_VOWELS);
    if (tail > 0)
        put_point(nfc, HANGUL_TAIL + tail);
}

static int compare_points(const void *key, const void *row)
{
    uint32_t point = *(const uint32_t *)key;
    const struct nfc_decomposition *d = row;

    return point < d->point ? -1 : point > d->point;
}

/* Add a character as all that it decomposes into. */
static int put_decomposed(struct nfc *nfc, uint32_t point)
{
    const struct nfc_decomposition *d;

    if (reserve_points(nfc, MOST_PARTS) < 0)
        return -1;
    if (point - HANGUL < HANGULS) {
        put_hangul(nfc, point - HANGUL);
        return 0;
    }
    d = bsearch(&point, nfc_decompositions, COUNT(nfc_decompositions), sizeof(*d), compare_points);
    for (size_t i = 0; d && i < d->count; i++)
        put_point(nfc, nfc_parts[d->at + i]);
    if (!d)
        put_point(nfc, point);
    return 0;
}

/* The next character and those behind it up to one that stands apart, decomposed. Returns their
 * bytes, 0 when memory is out. */
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

/* Marks in the order of their classes; those of one class stay as they are. */
static int sort_marks(struct nfc_point *marks, size_t count)
{
    size_t starts[257] = {0};
    struct nfc_point *sorted;

    if (count <= SORT_BY_HAND) {
        for (size_t i = 1; i < count; i++) {
            struct nfc_point now = marks[i];
            size_t j = i;

            for (; j > 0 && marks[j - 1].class > now.class; j--)
                marks[j] = marks[j - 1];
            marks[j] = now;
        }
        return 0;
    }
    sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        return -1;
    for (size_t i = 0; i < count; i++)
        starts[marks[i].class + 1]++;
    for (size_t class = 1; class < 257; class ++)
        starts[class] += starts[class - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[marks[i].class]++] = marks[i];
    memcpy(marks, sorted, count * sizeof(*sorted));
    free(sorted);
    return 0;
}

static int sort_cluster(struct nfc *nfc)
{
    size_t begin = 0;

    for (size_t i = 0; i <= nfc->count; i++) {
        if (i < nfc->count && nfc->points[i].class != 0)
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

/* A mark goes into the last character of class 0, unless one between them is of its class or of a
 * higher one. */
static void compose_cluster(struct nfc *nfc)
{
    struct nfc_point *points = nfc->points, *base = points[0].class == 0 ? points : NULL;
    size_t kept = 1;

    for (size_t i = 1; i < nfc->count; i++) {
        struct nfc_point now = points[i], *before = &points[kept - 1];
        int meets = base && (before == base || (before->class != 0 && before->class < now.class));
        uint32_t composed = meets ? compose_two(base->point, now.point) : 0;

        if (composed) {
            base->point = composed;
            continue;
        }
        points[kept] = now;
        if (now.class == 0)
            base = &points[kept];
        kept++;
    }
    nfc->count = kept;
}

static int write_cluster(struct nfc *nfc)
{
    if (reserve(nfc, 4 * nfc->count) < 0)
        return -1;
    for (size_t i = 0; i < nfc->count; i++) {
        uint32_t point = nfc->points[i].point;

        if (point & RAW)
            nfc->text[nfc->length++] = (uint8_t)point;
        else
            nfc->length += utf8_encode(point, nfc->text + nfc->length);
    }
    return 0;
}

int nfc_compose(struct nfc *nfc, const uint8_t *text, size_t length)
{
    nfc->length = 0;
    while (length > 0) {
        size_t size = nfc_stays(text, length);

        if (reserve(nfc, size) < 0)
            return -1;
        if (size > 0)
            memcpy(nfc->text + nfc->length, text, size);
        nfc->length += size;
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

void nfc_clear(struct nfc *nfc)
{
    free(nfc->text);
    free(nfc->points);
    memset(nfc, 0, sizeof(*nfc));
}
