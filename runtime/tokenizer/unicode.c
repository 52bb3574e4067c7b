/* SPDX-License-Identifier: Apache-2.0 */
#include "unicode.h"
#include "unicode_table.h"

#include <string.h>

const uint32_t unicode_limit = UNICODE_LIMIT;

size_t utf8_encode(uint32_t point, uint8_t *out)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xC0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (point & 0x3F));
    return 4;
}

int utf8_valid(const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;

    while (text < end) {
        uint64_t eight;
        uint32_t point;

        if (end - text >= 8) {
            memcpy(&eight, text, 8);
            if (!(eight & 0x8080808080808080u)) {
                text += 8;
                continue;
            }
        }
        text += utf8_decode(text, end, &point);
        if (point == UNICODE_INVALID)
            return 0;
    }
    return 1;
}
