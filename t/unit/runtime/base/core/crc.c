/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums: the check values of the catalogue of CRCs, and a text in two halves. */
#include "base/core/crc.h"
#include "tap.h"

#include <string.h>

static const struct {
    const char *text;
    uint32_t crc32, crc32c;
} cases[] = {
    {"", 0, 0},
    {"a", 0xE8B7BE43, 0xC1D04330},
    {"123456789", 0xCBF43926, 0xE3069283},
    {"The quick brown fox jumps over the lazy dog", 0x414FA339, 0x22620404},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = cases[i].text;
        size_t size = strlen(text), half = size / 2;

        ok(crc32_of(0, text, size) == cases[i].crc32, "CRC-32 of '%s'", text);
        ok(crc32c_of(0, text, size) == cases[i].crc32c, "CRC-32C of '%s'", text);
        ok(crc32_of(crc32_of(0, text, half), text + half, size - half) == cases[i].crc32,
           "CRC-32 of two halves");
        ok(crc32c_of(crc32c_of(0, text, half), text + half, size - half) == cases[i].crc32c,
           "CRC-32C of two halves");
    }
    return done_testing();
}
