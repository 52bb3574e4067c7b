/* SPDX-License-Identifier: Apache-2.0 */
/* utf8_valid against utf8_decode, at every position of a text. */
#include "tap.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

static int decodes(const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;

    while (at < end) {
        uint32_t point;

        at += utf8_decode(at, end, &point);
        if (point == UNICODE_INVALID)
            return 0;
    }
    return 1;
}

/* Memory that ends with the text, for a sanitizer. */
static unsigned is_different(const uint8_t *text, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    unsigned different;

    memcpy(copy + 1, text, size);
    different = utf8_valid(copy + 1, size) != decodes(text, size);
    free(copy);
    return different;
}

/* Two bytes of all kinds, and a third and fourth at the edges. */
static void try_bytes(void)
{
    static const uint8_t edges[] = {0, 'a', 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xE1};
    unsigned different = 0;

    for (unsigned first = 0x7F; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t third = 0; third < sizeof(edges); third++)
                for (size_t fourth = 0; fourth < sizeof(edges); fourth++) {
                    uint8_t text[] = {(uint8_t)first, (uint8_t)second, edges[third], edges[fourth]};

                    different += utf8_valid(text, 4) != decodes(text, 4);
                }
    is_int(different, 0, "four bytes");
}

/* Valid and broken characters at all positions in texts of up to five blocks. */
static void try_positions(void)
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
    unsigned different = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t before = 0; before < 140; before++)
            for (size_t after = 0; after < 20; after++)
                for (int wide = 0; wide < 2; wide++) {
                    uint8_t text[320];
                    size_t size = 0;

                    for (size_t k = 0; k < before; k++, size += wide ? 2 : 1)
                        memcpy(text + size, wide ? "\xD0\xB0" : "x", wide ? 2 : 1);
                    memcpy(text + size, parts[i], strlen(parts[i]));
                    size += strlen(parts[i]);
                    memset(text + size, 'y', after);
                    different += is_different(text, size + after);
                }
    is_int(different, 0, "a character at every position");
}

int main(void)
{
    ok(utf8_valid((const uint8_t *)"", 0), "an empty text");
    try_bytes();
    try_positions();
    return done_testing();
}
