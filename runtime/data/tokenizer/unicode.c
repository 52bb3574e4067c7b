/* SPDX-License-Identifier: Apache-2.0 */
#include "unicode.h"

#include <string.h>

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

#define BLOCK  64
#define BEFORE 3 /* bytes before a block that its first characters may begin in */

/* Compilers use vectors for the loops over a block, also with -O2: its size is a multiple of
 * theirs. */

/* Does a byte of a block contradict those before it? */
static int is_broken(const uint8_t *block)
{
    uint8_t broken = 0;

    for (int i = 0; i < BLOCK; i++) {
        uint8_t byte = block[i], last = block[i - 1];
        uint8_t tail = (byte & 0xC0) == 0x80;
        uint8_t wanted = (last >= 0xC0) | (block[i - 2] >= 0xE0) | (block[i - 3] >= 0xF0);

        broken |= (uint8_t)(tail ^ wanted);
        broken |= (uint8_t)((byte == 0xC0) | (byte == 0xC1) | (byte > 0xF4));
        /* Too long, half of a surrogate pair, beyond U+10FFFF. */
        broken |= (uint8_t)(((last == 0xE0) & (byte < 0xA0)) | ((last == 0xED) & (byte > 0x9F)));
        broken |= (uint8_t)(((last == 0xF0) & (byte < 0x90)) | ((last == 0xF4) & (byte > 0x8F)));
    }
    return broken;
}

static int is_ascii(const uint8_t *block)
{
    uint8_t all = 0;

    for (int i = 0; i < BLOCK; i++)
        all |= block[i];
    return (all | block[-1] | block[-2] | block[-3]) < 0x80;
}

int utf8_valid(const uint8_t *text, size_t length)
{
    uint8_t edge[BEFORE + BLOCK];

    /* Also the zeros after the end, which the last character must not extend into. */
    for (size_t at = 0; at <= length && length > 0; at += BLOCK) {
        const uint8_t *block = text + at;

        if (at == 0 || length - at < BLOCK) {
            size_t before = at < BEFORE ? at : BEFORE;

            memset(edge, 0, sizeof(edge));
            memcpy(edge + BEFORE - before, text + at - before,
                   before + (length - at < BLOCK ? length - at : BLOCK));
            block = edge + BEFORE;
        }
        if (!is_ascii(block) && is_broken(block))
            return 0;
    }
    return 1;
}
