/* SPDX-License-Identifier: Apache-2.0 */
/* BertNormalizer by its table of characters, and without it: the same. */
#include "data/tokenizer/rewrite.h"
#include "data/tokenizer/unicode.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static struct text_buffer fast, slow;

static int is_same(const struct rewrite *rewrite, struct rewrite_points *points,
                   const uint8_t *text, size_t length)
{
    fast.length = slow.length = 0;
    rewrite_bert(rewrite, points, text, length, &fast);
    rewrite_bert(rewrite, NULL, text, length, &slow);
    return fast.length == slow.length && memcmp(fast.data, slow.data, fast.length) == 0;
}

/* Each character alone, and around marks, of which one stays and one is not in its order. */
static unsigned count_different(const struct rewrite *rewrite, struct rewrite_points *points)
{
    unsigned different = 0;

    for (uint32_t point = 1; point < 0x10100; point++) {
        uint8_t text[32];
        size_t length = 0, size;

        if (point >= 0xD800 && point < 0xE000)
            continue;
        size = utf8_encode(point, text);
        different += !is_same(rewrite, points, text, size);
        length += utf8_encode(point, text + length);
        length += utf8_encode(0x16FF0, text + length);
        length += utf8_encode(0x0301, text + length);
        length += utf8_encode(point, text + length);
        length += utf8_encode(0x302E, text + length);
        length += utf8_encode(point, text + length);
        different += !is_same(rewrite, points, text, length);
    }
    return different;
}

static void try_settings(const struct rewrite *rewrite)
{
    struct rewrite_points points = {{NULL}};
    uint8_t *all = malloc(4 << 16);
    size_t length = 0;

    is_int(count_different(rewrite, &points), 0, "each character");
    ok(points.pages[0x04] && points.pages[0xFF], "from a table");
    for (uint32_t point = 0x80; point < 0xD800; point++)
        length += utf8_encode(point, all + length);
    ok(is_same(rewrite, &points, all, length), "all characters as one text");
    ok(is_same(rewrite, &points, all, length - 1), "with half a character at its end");
    ok(is_same(rewrite, &points, all + 1, 300), "with half a character at its begin");
    rewrite_points_clear(&points);
    free(all);
}

int main(void)
{
    for (int i = 0; i < 8; i++)
        try_settings(&(struct rewrite){.kind = REWRITE_BERT,
                                       .clean = i & 1,
                                       .chinese = i & 1,
                                       .accents = i >> 1 & 1,
                                       .lower = i >> 2 & 1});
    text_buffer_clear(&fast);
    text_buffer_clear(&slow);
    return done_testing();
}
