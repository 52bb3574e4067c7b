/* SPDX-License-Identifier: Apache-2.0 */
/* Characters that the normalizer need not look up in its map, because what they become does not
 * depend on what follows: found out in advance, and copied several at a time. */
#include "normalize.h"
#include "unicode.h"

#include <endian.h>
#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define MARK       0x2581

/* Does a piece that is kept begin with this byte? */
static int is_kept(const struct normalizer *normalizer, uint8_t byte)
{
    return normalizer->has_kept && trie_step(&normalizer->kept, TRIE_ROOT, byte) != TRIE_NONE;
}

/* What one byte of ASCII becomes. */
static void find_single(struct normalizer *normalizer, uint8_t byte)
{
    size_t length = 1;
    int found, longer = byte == 0 || is_kept(normalizer, byte);
    const char *mapped = NULL;

    for (unsigned next = 0; next < 256 && !longer; next++) {
        uint8_t text[2] = {byte, (uint8_t)next};

        if (normalizer_walk(normalizer, text, 2, &found) < 2)
            continue;
        longer |= next < 0x80;
        normalizer->joins[next] = 1;
    }
    if (longer)
        return;
    if (normalizer->map)
        mapped = normalizer_look_up_first(normalizer, &byte, 1, &length);
    if (length == 1 && (!mapped || (uint8_t)*mapped < 0x7F))
        normalizer->single[byte] = mapped ? (uint8_t)*mapped : byte;
    normalizer->plain[byte] = !mapped && byte > ' ' && byte < 0x7F;
}

void normalizer_find_plain(struct normalizer *normalizer)
{
    normalizer->printable = 1;
    for (unsigned byte = 0; byte < 0x80; byte++) {
        find_single(normalizer, (uint8_t)byte);
        normalizer->printable &= byte < ' ' || byte == 0x7F || normalizer->single[byte] == byte;
    }
    for (uint32_t point = 0x80; point < 0x10000; point++) {
        uint8_t text[4];
        size_t length = utf8_encode(point, text);
        int found;

        if ((point < 0xD800 || point > 0xDFFF) && point != MARK && !is_kept(normalizer, text[0]) &&
            normalizer_walk(normalizer, text, length, &found) < length && !found)
            normalizer->stays[point >> 6] |= UINT64_C(1) << (point & 63);
    }
}

/* The byte that the next character becomes if it is ASCII and need not be looked up; else 0. */
static inline uint8_t next_single(const struct normalizer *normalizer, const uint8_t *text,
                                  size_t at, size_t length)
{
    uint8_t byte = normalizer->single[text[at]];

    return at + 1 < length && normalizer->joins[text[at + 1]] ? 0 : byte;
}

/* The length of the next character if it is beyond ASCII and stays; else 0. */
static inline size_t next_staying(const struct normalizer *normalizer, const uint8_t *text,
                                  size_t left)
{
    uint32_t point;

    if (text[0] >= 0xC2 && text[0] < 0xE0 && left >= 2 && (text[1] & 0xC0) == 0x80)
        point = (uint32_t)(text[0] & 0x1F) << 6 | (text[1] & 0x3F);
    else if (text[0] >= 0xE0 && text[0] < 0xF0 && left >= 3 && (text[1] & 0xC0) == 0x80 &&
             (text[2] & 0xC0) == 0x80)
        point =
            (uint32_t)(text[0] & 0x0F) << 12 | (uint32_t)(text[1] & 0x3F) << 6 | (text[2] & 0x3F);
    else
        return 0;
    if (!(normalizer->stays[point >> 6] >> (point & 63) & 1) || (text[0] >= 0xE0 && point < 0x800))
        return 0;
    return text[0] < 0xE0 ? 2 : 3;
}

int normalizing_skip_spaces(struct normalizing *state)
{
    const struct normalizer *normalizer = state->normalizer;

    for (; state->at < state->length; state->at++) {
        uint8_t byte = next_single(normalizer, state->text, state->at, state->length);

        if (byte != ' ')
            return byte != 0 ||
                   next_staying(normalizer, state->text + state->at, state->length - state->at) > 0;
        state->held += !state->after_space;
        state->after_space = normalizer->squeeze;
    }
    return 0;
}

/* Are these eight bytes printable ASCII? '*spaces' has the highest bit of each space set. */
static inline int is_printable(uint64_t bytes, uint64_t *spaces)
{
    uint64_t other = bytes ^ EACH(' ');

    *spaces = ~(((other & EACH(0x7F)) + EACH(0x7F)) | other | EACH(0x7F));
    return ((bytes | (bytes + EACH(1)) | (bytes - EACH(0x20))) & EACH(0x80)) == 0;
}

size_t normalizing_copy(struct normalizing *state, uint8_t *out, size_t room)
{
    const struct normalizer *normalizer = state->normalizer;
    const uint8_t *text = state->text;
    size_t at = state->at, length = state->length, made = 0, size;
    unsigned squeeze = normalizer->squeeze != 0, after = 0;

    while (at < length && room - made >= 8) {
        size_t end = length - at < 8 ? length : at + 8;
        uint64_t bytes, spaces;
        uint8_t byte = 0;

        if (text[at] >= 0x80) {
            size = next_staying(normalizer, text + at, length - at);
            if (size == 0)
                break;
            memcpy(out + made, text + at, size);
            at += size;
            made += size;
            after = 0;
            continue;
        }
        if (normalizer->printable && length - at > 8 && !normalizer->joins[text[at + 8]]) {
            memcpy(&bytes, text + at, 8);
            if (is_printable(le64toh(bytes), &spaces) &&
                !(squeeze && (spaces & (spaces << 8 | after << 7)))) {
                memcpy(out + made, &bytes, 8);
                at += 8;
                made += 8;
                after = (unsigned)(spaces >> 63);
                continue;
            }
        }
        for (; at < end; at++) {
            byte = next_single(normalizer, text, at, length);
            if (byte == 0)
                break;
            out[made] = byte;
            made += !(squeeze & after & (byte == ' '));
            after = byte == ' ';
        }
        if (at < end && text[at] < 0x80)
            break;
    }
    /* A space is held back until something follows. */
    if (squeeze && after) {
        made--;
        state->held = 1;
    }
    state->after_space = (int)(squeeze & after);
    state->at = at;
    return made;
}
