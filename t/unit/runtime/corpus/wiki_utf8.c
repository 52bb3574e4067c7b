/* SPDX-License-Identifier: Apache-2.0 */
/* What is UTF-8, at every place of a text: as utf8_decode has it. */
#include "config.h"
#include "wiki_utf8.h"
#include "tap.h"
#include "unicode.h"

#include <stdlib.h>

static int is_valid(const char *text, size_t size)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + size;

    while (at < end) {
        uint32_t point;

        at += utf8_decode(at, end, &point);
        if (point == UNICODE_INVALID)
            return 0;
    }
    return 1;
}

/* Memory that ends with the text, for a sanitizer. */
static unsigned is_different(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    unsigned different;

    memcpy(copy + 1, text, size);
    different = wiki_is_utf8(wiki_span(copy + 1, size)) != is_valid(text, size);
    free(copy);
    return different;
}

/* Two bytes of all kinds, and a third and fourth at the edges. */
static void try_bytes(void)
{
    static const unsigned char edges[] = {0,    'a',  0x7F, 0x80, 0x8F, 0x90,
                                          0x9F, 0xA0, 0xBF, 0xC2, 0xE1};
    unsigned different = 0;

    for (unsigned first = 0x7F; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t third = 0; third < sizeof(edges); third++)
                for (size_t fourth = 0; fourth < sizeof(edges); fourth++) {
                    char text[] = {(char)first, (char)second, (char)edges[third],
                                   (char)edges[fourth]};

                    different += wiki_is_utf8(wiki_span(text, 4)) != is_valid(text, 4);
                }
    is_int(different, 0, "four bytes");
}

/* Characters, and broken ones, at all places of texts of all short lengths. */
static void try_places(void)
{
    static const char *const parts[] = {"a",
                                        "\xC3\xA9",
                                        "\xE2\x82\xAC",
                                        "\xF0\x9F\x98\x80",
                                        "\xC3",
                                        "\xE2\x82",
                                        "\xF0\x9F",
                                        "\x80",
                                        "\xED\xA0\x80",
                                        "\xE0\x9F\x80",
                                        "\xF0\x8F\x80\x80",
                                        "\xF4\x90\x80\x80",
                                        "\xF5\x80\x80\x80",
                                        "\xC0\x80",
                                        "\xF0\x9F\x98",
                                        "\xFF"};
    unsigned different = 0, tried = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t before = 0; before < 50; before++)
            for (size_t after = 0; after < 20; after++)
                for (int wide = 0; wide < 2; wide++, tried++) {
                    char text[200];
                    size_t size = 0;

                    for (size_t k = 0; k < before; k++, size += wide ? 2 : 1)
                        memcpy(text + size, wide ? "\xD0\xB0" : "x", wide ? 2 : 1);
                    memcpy(text + size, parts[i], strlen(parts[i]));
                    size += strlen(parts[i]);
                    memset(text + size, 'y', after);
                    different += is_different(text, size + after);
                }
    is_int(different, 0, "at every place");
    is_int(tried, 32000, "in 32000 texts");
}

int main(void)
{
    ok(wiki_is_utf8(wiki_span("", 0)), "nothing");
    try_bytes();
    try_places();
    return done_testing();
}
