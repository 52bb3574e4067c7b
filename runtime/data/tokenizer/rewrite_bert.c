/* SPDX-License-Identifier: Apache-2.0 */
/* BertNormalizer: removes control characters, turns white space into spaces, puts spaces around
 * Chinese characters, removes accents and lowercases letters. */
#include "property.h"
#include "rewrite.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define MARKS 64
#define KNOWN 256 /* bytes that are rewritten by the table at a time */

/* Characters that were decomposed and are not in their final order yet. */
struct marks {
    struct {
        uint32_t point;
        uint8_t order;
    } list[MARKS];
    size_t count;
};

static int is_chinese(uint32_t point)
{
    return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
           (point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B81F) ||
           (point >= 0x2B920 && point <= 0x2CEAF) || (point >= 0xF900 && point <= 0xFAFF) ||
           (point >= 0x2F800 && point <= 0x2FA1F);
}

static void put_point(const struct rewrite *rewrite, uint32_t point, struct text_buffer *out)
{
    uint32_t lower[2] = {point, 0};
    size_t count = rewrite->lower ? property_lower(point, lower) : 1;

    for (size_t i = 0; i < count; i++)
        out->length += utf8_encode(lower[i], (uint8_t *)out->data + out->length);
}

static void flush_marks(const struct rewrite *rewrite, struct marks *marks, struct text_buffer *out)
{
    for (size_t i = 0; i < marks->count; i++)
        put_point(rewrite, marks->list[i].point, out);
    marks->count = 0;
}

/* A part of a decomposed character: marks are sorted by class up to the next character of class 0.
 */
static void put_part(const struct rewrite *rewrite, uint32_t point, struct marks *marks,
                     struct text_buffer *out)
{
    uint8_t order = property_of(point).order;
    size_t at = marks->count;

    if (order == 0 || at == MARKS)
        flush_marks(rewrite, marks, out);
    if (property_of(point).flags & PROPERTY_NONSPACING)
        return;
    if (order == 0) {
        put_point(rewrite, point, out);
        return;
    }
    for (at = marks->count++; at > 0 && marks->list[at - 1].order > order; at--)
        marks->list[at] = marks->list[at - 1];
    marks->list[at].point = point;
    marks->list[at].order = order;
}

/* A character that clean_text leaves. */
static void put_character(const struct rewrite *rewrite, uint32_t point, struct marks *marks,
                          struct text_buffer *out)
{
    uint32_t scratch[3];
    const uint32_t *parts = &point;
    int chinese = rewrite->chinese && is_chinese(point);
    size_t count = 1;

    if (rewrite->accents)
        count = nfc_decompose(point, false, scratch, &parts);
    if (chinese || !rewrite->accents)
        flush_marks(rewrite, marks, out);
    if (chinese)
        out->data[out->length++] = ' ';
    for (size_t i = 0; i < count; i++) {
        if (rewrite->accents)
            put_part(rewrite, parts[i], marks, out);
        else
            put_point(rewrite, parts[i], out);
    }
    if (chinese) {
        flush_marks(rewrite, marks, out);
        out->data[out->length++] = ' ';
    }
}

/* ASCII, up to the first other byte. Returns how many bytes it was. */
static size_t put_ascii(const struct rewrite *rewrite, const uint8_t *text, size_t length,
                        struct text_buffer *out)
{
    uint8_t *to = (uint8_t *)out->data + out->length;
    size_t at = 0;
    unsigned lower = rewrite->lower ? 32 : 0;

    for (; at < length && text[at] < 0x80; at++) {
        unsigned byte = text[at];

        if (rewrite->clean && (byte < 0x20 || byte == 0x7F)) {
            if (byte < 9 || byte > 13 || byte == 11 || byte == 12) {
                if (!(property_of(byte).flags & PROPERTY_CLEANED))
                    continue;
            }
            byte = ' ';
        }
        *to++ = (uint8_t)(byte + (byte - 'A' < 26 ? lower : 0));
    }
    out->length = (size_t)(to - (uint8_t *)out->data);
    return at;
}

static void put_any(const struct rewrite *rewrite, uint32_t point, struct marks *marks,
                    struct text_buffer *out)
{
    unsigned flags = property_of(point).flags;

    if (rewrite->clean && (flags & PROPERTY_REMOVED))
        return;
    put_character(rewrite, rewrite->clean && (flags & PROPERTY_CLEANED) ? ' ' : point, marks, out);
}

void rewrite_points_clear(struct rewrite_points *points)
{
    for (size_t i = 0; i < REWRITE_PAGES; i++)
        free(points->pages[i]);
    memset(points, 0, sizeof(*points));
}

static const struct rewrite_point *make_page(const struct rewrite *rewrite,
                                             struct rewrite_points *points, uint32_t number)
{
    struct rewrite_point *page = xcalloc(256, sizeof(*page));
    char room[MARKS * 8];

    for (uint32_t low = 0; low < 256; low++) {
        struct text_buffer out = {.data = room};
        struct marks marks = {.count = 0};

        put_any(rewrite, number << 8 | low, &marks, &out);
        page[low].length = REWRITE_SLOW;
        if (marks.count > 0 || out.length > sizeof(page[low].text))
            continue;
        page[low].length = (uint8_t)out.length;
        memcpy(page[low].text, room, out.length);
    }
    points->pages[number] = page;
    return page;
}

/* Characters beyond ASCII that the table knows, up to the first other one. There is room for 16
 * bytes each. Returns how many bytes they were. */
static size_t put_known(const struct rewrite *rewrite, struct rewrite_points *points,
                        const uint8_t *text, size_t length, struct text_buffer *out)
{
    const uint8_t *at = text, *end = text + length;
    uint8_t *to = (uint8_t *)out->data + out->length;

    while (at < end && *at >= 0x80) {
        const struct rewrite_point *page;
        uint32_t point;
        size_t size = utf8_decode(at, end, &point);

        if (point >= 256 * REWRITE_PAGES)
            break;
        page = points->pages[point >> 8];
        if (!page)
            page = make_page(rewrite, points, point >> 8);
        if (page[point & 255].length == REWRITE_SLOW)
            break;
        memcpy(to, &page[point & 255], 16);
        to += page[point & 255].length;
        at += size;
    }
    out->length = (size_t)(to - (uint8_t *)out->data);
    return (size_t)(at - text);
}

void rewrite_bert(const struct rewrite *rewrite, struct rewrite_points *points, const uint8_t *text,
                  size_t length, struct text_buffer *out)
{
    const uint8_t *end = text + length;
    struct marks marks = {.count = 0};

    while (text < end) {
        size_t left = (size_t)(end - text), size;
        uint32_t point;

        text_buffer_reserve(out, left + MARKS * 8 + 64);
        if (*text < 0x80) {
            flush_marks(rewrite, &marks, out);
            text += put_ascii(rewrite, text, left, out);
            continue;
        }
        if (points && marks.count == 0) {
            if (left > KNOWN)
                left = KNOWN;
            text_buffer_reserve(out, left * 8 + 64);
            size = put_known(rewrite, points, text, left, out);
            text += size;
            if (size > 0)
                continue;
        }
        size = utf8_decode(text, end, &point);
        text += size;
        put_any(rewrite, point == UNICODE_INVALID ? UNICODE_REPLACEMENT : point, &marks, out);
    }
    text_buffer_reserve(out, MARKS * 8);
    flush_marks(rewrite, &marks, out);
}
