/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that the normalizer copies several characters at a time are as if it looked up each of
 * them. */
#include "tap.h"
#include "data/tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int squeeze, prefix, suffix;
    const char *kept;
    int map;
} rows[] = {
    {"no option", 0, 0, 0, NULL, 0},
    {"spaces squeezed", 1, 0, 0, NULL, 0},
    {"spaces squeezed, space before the text", 1, NORMALIZER_PREFIX, 0, NULL, 0},
    {"space before the text", 0, NORMALIZER_PREFIX, 0, NULL, 0},
    {"spaces squeezed, space after the text", 1, NORMALIZER_PREFIX, 1, NULL, 0},
    {"a kept piece with spaces", 1, NORMALIZER_PREFIX, 0, "b  b", 0},
    {"a kept piece beyond ASCII", 1, NORMALIZER_PREFIX, 0, "\xC3\xA9 ", 0},
    {"a map", 0, 0, 0, NULL, 1},
    {"a map, spaces squeezed", 1, NORMALIZER_PREFIX, 0, NULL, 1},
    {"a map and a kept piece", 1, NORMALIZER_PREFIX, 0, "\xC3\xA9 ", 1},
    {"a kept character", 1, NORMALIZER_PREFIX, 0, "b", 0},
    {"a kept character that begins an entry of the map", 0, 0, 0, "a", 1},
    {"a kept non-ASCII character that begins an entry", 1, NORMALIZER_PREFIX, 0, "\xC3\xA9", 1},
    {"a kept character that is an entry", 0, 0, 0, "\xE3\x80\x80", 1},
    {"a kept character that joins others", 0, 0, 0, "\xCC\x82", 1},
    {"a kept piece that ends with an entry", 1, NORMALIZER_PREFIX, 0, "\xD0\xB8\n", 1},
    {"a kept line end", 1, NORMALIZER_PREFIX, 0, "\n", 1},
    {"a kept space", 1, NORMALIZER_PREFIX, 0, " ", 1},
    {"a map that joins ASCII", 0, 0, 0, NULL, 2},
    {"a map that joins ASCII, spaces squeezed", 1, NORMALIZER_PREFIX, 0, NULL, 2},
};

/* Entries of a map: letters with marks, after each of which a character may follow that joins it.
 * The last one, which joins ASCII, is in map 2 only. */
static const struct {
    const char *from, *to;
} entries[] = {
    {"a\xCC\x80", "\xC3\xA0"},
    {"\xC3\xA9\xCC\x82", "\xE1\xBA\xBF"},
    {"\xE3\x81\x8B\xE3\x82\x99", "ga"},
    {"\xE3\x80\x80", " "},
    {"\n", " "},
    {"\xC3\xA9"
     "b",
     "joined"},
};

/* A map of the entries: a darts-clone array in which each node has a block of its own. */
static int set_map(struct normalizer *normalizer, int which)
{
    enum { UNITS = 256 * 32 };
    const uint32_t free_unit = 1U << 31;
    static uint8_t data[4 + 4 * UNITS + 64];
    static uint32_t units[UNITS];
    uint32_t next = 512, size = sizeof(units), texts = 0;
    struct error err;

    /* A unit that is free has no label, not even NUL. */
    for (size_t i = 0; i < UNITS; i++)
        units[i] = free_unit;
    units[0] = 256 << 10;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]) - (which == 1); i++) {
        uint32_t base = 256, at = 0;

        for (const char *c = entries[i].from; *c; c++) {
            at = base ^ (uint8_t)*c;
            if (units[at] == free_unit) {
                units[at] = (uint8_t)*c | (at ^ next) << 10;
                next += 256;
            }
            base = at ^ units[at] >> 10;
        }
        units[at] |= 1 << 8;
        units[base] = 1U << 31 | texts;
        memcpy(data + 4 + size + texts, entries[i].to, strlen(entries[i].to) + 1);
        texts += (uint32_t)strlen(entries[i].to) + 1;
    }
    memcpy(data, &size, 4);
    memcpy(data + 4, units, size);
    return normalizer_set_map(normalizer, data, 4 + size + texts, &err);
}

/* Letters, spaces, U+2581, characters of two to four bytes, and bytes that are not UTF-8. */
static size_t make_text(char *text, size_t size, unsigned *random)
{
    static const char *const parts[] = {
        "a",
        "b",
        " ",
        "  ",
        "\n",
        "word",
        "\xE2\x96\x81",
        "\xC3\xA9",
        "\x7F",
        "\xE4\xBD\xA0",
        "\xF0\x9F\x98\x80",
        "\xFF",
        "\xE4",
        "\xC3",
        "\xE0\x83\xA9",
        "a\xCC\x80",
        "\xCC\x82",
        "\xE3\x81\x8B",
        "\xE3\x82\x99",
        "\xE3\x81\xAA",
        "\xE3\x80\x80",
        "\xD0\xB8",
        "eight by",
        " of words and more ",
        "a line of more bytes than a block has, with  two spaces,\n"
        "\n    an empty line, and the next one indented;\n  ",
        "two-blocks-of-64-bytes-without-any-space-that-could-be-dropped"
        "-or-kept,-so-that-they-are-copied-as-they-are,-up-to-here-"};
    size_t length = 0;

    while (length + 160 < size) {
        const char *part;

        *random = *random * 1103515245U + 12345U;
        part = parts[(*random >> 16) % (sizeof(parts) / sizeof(parts[0]))];
        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
    return length;
}

static size_t normalize(const struct normalizer *normalizer, const char *text, size_t length,
                        uint8_t *out)
{
    struct normalizing state;
    size_t made = 0;
    int ended = 0;

    normalizing_begin(&state, normalizer, (const uint8_t *)text, length, 1);
    while (!ended)
        made += normalizing_next(&state, out + made, 4 * NORMALIZER_LONGEST, &ended);
    return made;
}

#define SIZE 20000

/* Is a text normalized as if each of its characters were looked up? */
static int is_same(const struct normalizer *normalizer, const char *text, size_t length,
                   uint8_t *quick, size_t *quick_length)
{
    static uint8_t slow[4 * SIZE];
    struct normalizer each = *normalizer;
    size_t slow_length;

    *quick_length = normalize(&each, text, length, quick);
    memset(each.single, 0, sizeof(each.single));
    memset(each.kinds, 0, sizeof(each.kinds));
    slow_length = normalize(&each, text, length, slow);
    return *quick_length == slow_length && memcmp(quick, slow, slow_length) == 0;
}

/* Pieces of one character, as ALBERT and XLNet keep, are no reason to look up each character. */
static void test_kept(void)
{
    static const char *const kept[] = {"(", "\xE2\x80\x93"};
    struct normalizer normalizer = {.active = 1, .squeeze = 1};

    for (size_t i = 0; i < 2; i++)
        normalizer_keep(&normalizer, (const uint8_t *)kept[i], strlen(kept[i]));
    set_map(&normalizer, 1);
    normalizer_find_plain(&normalizer);
    ok(normalizer.blocks && normalizer.kinds[0x2013] == NORMALIZER_STAYS,
       "texts are copied in blocks although characters are kept");
    normalizer_clear(&normalizer);
}

int main(void)
{
    static char text[SIZE];
    static uint8_t quick[4 * SIZE];
    unsigned random = 3;
    size_t quick_length;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct normalizer normalizer = {.active = 1,
                                        .squeeze = rows[i].squeeze,
                                        .prefix = rows[i].prefix,
                                        .suffix = rows[i].suffix};
        int same = 1;

        if (rows[i].kept)
            normalizer_keep(&normalizer, (const uint8_t *)rows[i].kept, strlen(rows[i].kept));
        if (rows[i].map && set_map(&normalizer, rows[i].map) < 0)
            same = 0;
        for (size_t size = 161; size <= SIZE && same; size += size / 16 + 1) {
            struct normalizer each = normalizer;
            size_t length = make_text(text, size, &random), plain_length;

            normalizer_find_plain(&each);
            same = is_same(&each, text, length, quick, &quick_length);
            each.engine = &engine_plain;
            same &= is_same(&each, text, length, quick, &plain_length);
            same &= plain_length == quick_length;
        }
        ok(same, "%s", rows[i].name);
        normalizer_clear(&normalizer);
    }
    test_kept();
    return done_testing();
}
