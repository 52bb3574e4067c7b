/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, and what pre-tokenizers and trainers need to know about characters (Unicode 16.0). The
 * distribution's libraries implement older versions and differ in thousands of characters.
 *
 *     for (const uint8_t *at = text; at < end; at += size) {
 *         size = utf8_decode(at, end, &point);
 *         if (point != UNICODE_INVALID && unicode_class(point) == UNICODE_LETTER)
 *             ...
 *     }
 */
#ifndef MEGATRON_UNICODE_H
#define MEGATRON_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_SPACE };

#define UNICODE_INVALID     UINT32_MAX
#define UNICODE_REPLACEMENT 0xFFFD

/* The generated table (unicode_table.h): a code point's block, and its entry there, whose two
 * highest bits are its class and whose others number its properties (property.h). */
extern const uint16_t unicode_index[];
extern const uint16_t unicode_blocks[][128];

static inline unsigned unicode_entry(uint32_t point)
{
    return unicode_blocks[unicode_index[point >> 7]][point & 127];
}

/* The class of a code point; UNICODE_OTHER for UNICODE_INVALID. */
static inline enum unicode_class unicode_class(uint32_t point)
{
    return point > 0x10FFFF ? UNICODE_OTHER : (enum unicode_class)(unicode_entry(point) >> 14);
}

/* The script (Latin, Han, ...) of a code point up to U+10FFFF, as SentencePiece's trainer groups
 * them: Hiragana and Katakana count as Han. Other scripts have other numbers. */
enum {
    SCRIPT_COMMON,    /* digits, punctuation, symbols, and code points without a script */
    SCRIPT_INHERITED, /* marks, which have the script of the character before them */
};
uint8_t unicode_script(uint32_t point);

/* Decode the character at 'text' (at least one byte before 'end'). Returns its length; for a byte
 * that does not begin a well-formed character 1, with '*point' UNICODE_INVALID. */
static inline size_t utf8_decode(const uint8_t *text, const uint8_t *end, uint32_t *point)
{
    uint32_t lead = text[0], value;
    size_t left = (size_t)(end - text);

    if (lead < 0x80) {
        *point = lead;
        return 1;
    }
    *point = UNICODE_INVALID;
    if (lead < 0xC2 || left < 2 || (text[1] & 0xC0) != 0x80)
        return 1;
    if (lead < 0xE0) {
        *point = (lead & 0x1F) << 6 | (text[1] & 0x3F);
        return 2;
    }
    if (left < 3 || (text[2] & 0xC0) != 0x80)
        return 1;
    if (lead < 0xF0) {
        value = (lead & 0x0F) << 12 | (uint32_t)(text[1] & 0x3F) << 6 | (text[2] & 0x3F);
        if (value < 0x800 || (value >= 0xD800 && value < 0xE000))
            return 1;
        *point = value;
        return 3;
    }
    if (lead > 0xF4 || left < 4 || (text[3] & 0xC0) != 0x80)
        return 1;
    value = (lead & 0x07) << 18 | (uint32_t)(text[1] & 0x3F) << 12 |
            (uint32_t)(text[2] & 0x3F) << 6 | (text[3] & 0x3F);
    if (value < 0x10000 || value > 0x10FFFF)
        return 1;
    *point = value;
    return 4;
}

/* Write a valid code point as UTF-8 (at most 4 bytes). Returns the length. */
size_t utf8_encode(uint32_t point, uint8_t *out);

/* Is all of it well-formed? */
int utf8_valid(const uint8_t *text, size_t length);

#endif
