/* SPDX-License-Identifier: Apache-2.0 */
/* Characters that the normalizer need not look up in its map, because what they become does not
 * depend on what follows: found out in advance, and copied several at a time. */
#include "normalize.h"
#include "unicode.h"

#include <endian.h>
#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define MARK       0x2581

/* Is this character a piece that is kept? '*longer': is it the start of a longer one? Those of
 * ALBERT and XLNet are characters. */
static int is_kept(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                   int *longer)
{
    uint32_t node = TRIE_ROOT;

    *longer = 0;
    for (size_t i = 0; i < length; i++) {
        node = normalizer->has_kept ? trie_step(&normalizer->kept, node, text[i]) : TRIE_NONE;
        if (node == TRIE_NONE)
            return 0;
    }
    for (unsigned next = 0; next < 256; next++)
        *longer |= trie_step(&normalizer->kept, node, (uint8_t)next) != TRIE_NONE;
    return 1;
}

/* The replacement of one byte of ASCII. */
static void find_single(struct normalizer *normalizer, uint8_t byte)
{
    size_t length = 1;
    int found, longer, kept = is_kept(normalizer, &byte, 1, &longer);
    const char *mapped = NULL;

    longer |= byte == 0;
    for (unsigned next = 0; next < 256 && !longer; next++) {
        uint8_t text[2] = {byte, (uint8_t)next};

        if (normalizer_walk(normalizer, text, 2, &found) < 2)
            continue;
        longer |= next < 0x80;
        normalizer->joins[next] = 1;
    }
    if (longer)
        return;
    if (normalizer->map && !kept)
        mapped = normalizer_look_up_first(normalizer, &byte, 1, &length);
    if (length == 1 && (!mapped || (uint8_t)*mapped < 0x7F))
        normalizer->single[byte] = mapped ? (uint8_t)*mapped : byte;
    normalizer->plain[byte] = !mapped && byte > ' ' && byte < 0x7F;
}

/* Mark the characters that entries of the map have after 'text'. 'from': where in it the character
 * that is looked for begins. */
static void find_joined(struct normalizer *normalizer, uint8_t *text, size_t from, size_t length)
{
    unsigned low = length > from ? 0x80 : 1, high = length > from ? 0xBF : 0xEF;

    for (unsigned byte = low; byte <= high; byte++) {
        uint32_t point;
        int found;

        text[length] = (uint8_t)byte;
        if (normalizer_walk(normalizer, text, length + 1, &found) <= length)
            continue;
        utf8_decode(text + from, text + length + 1, &point);
        if (point != UNICODE_INVALID)
            normalizer->kinds[point] |= NORMALIZER_JOINED;
        else if (length - from < 2)
            find_joined(normalizer, text, from, length + 1);
    }
}

/* Convert 'kinds' for the engines. Surrogates and overlong forms count as trouble. */
static void find_trouble(struct normalizer *normalizer)
{
    memset(normalizer->trouble_three, 0xFF, sizeof(normalizer->trouble_three));
    for (uint32_t point = 0x80; point < 0x10000; point++) {
        unsigned kind = normalizer->kinds[point];
        uint64_t bit = UINT64_C(1) << (point & 0x3F);
        uint64_t *bits = point < 0x800 ? &normalizer->trouble_two[point >> 6]
                                       : &normalizer->trouble_three[point >> 6];

        if (kind & (NORMALIZER_STAYS | NORMALIZER_BASE) && !(kind & NORMALIZER_JOINED))
            *bits &= ~bit;
        else
            *bits |= bit;
    }
    for (unsigned lead = 0; lead < 32; lead++)
        normalizer->doubtful[lead] = normalizer->trouble_two[lead] ? 0xFF : 0;
    for (unsigned two = 0; two < 1024; two++)
        if (normalizer->trouble_three[two])
            normalizer->doubtful[32 + two / 64] = 0xFF;
}

void normalizer_find_plain(struct normalizer *normalizer)
{
    normalizer->engine = engine_best();
    normalizer->printable = 1;
    for (unsigned byte = 0; byte < 0x80; byte++) {
        uint8_t text[8] = {(uint8_t)byte};

        find_single(normalizer, (uint8_t)byte);
        if (normalizer->map && byte > 0)
            find_joined(normalizer, text, 1, 1);
        normalizer->printable &= byte < ' ' || byte == 0x7F || normalizer->single[byte] == byte;
    }
    for (uint32_t point = 0x80; point < 0x10000; point++) {
        uint8_t text[8];
        size_t length = utf8_encode(point, text), walked;
        int found, longer;

        is_kept(normalizer, text, length, &longer);
        if ((point >= 0xD800 && point <= 0xDFFF) || point == MARK || longer)
            continue;
        walked = normalizer_walk(normalizer, text, length, &found);
        if (found)
            continue;
        normalizer->kinds[point] |= walked < length ? NORMALIZER_STAYS : NORMALIZER_BASE;
        if (walked == length)
            find_joined(normalizer, text, length, length);
    }
    find_trouble(normalizer);
    normalizer->blocks = normalizer->printable;
    for (unsigned byte = 0; byte < 0x80; byte++)
        normalizer->blocks &= !(normalizer->kinds[byte] & NORMALIZER_JOINED);
}

/* The byte that the next character becomes if it is ASCII and need not be looked up; else 0. */
static inline uint8_t next_single(const struct normalizer *normalizer, const uint8_t *text,
                                  size_t at, size_t length)
{
    uint8_t byte = normalizer->single[text[at]];

    return at + 1 < length && normalizer->joins[text[at + 1]] ? 0 : byte;
}

/* Decode a character of two or three bytes. Returns its length; 0 if it is another one. */
static inline size_t decode_short(const uint8_t *text, size_t left, uint32_t *point)
{
    if (text[0] >= 0xC2 && text[0] < 0xE0 && left >= 2 && (text[1] & 0xC0) == 0x80) {
        *point = (uint32_t)(text[0] & 0x1F) << 6 | (text[1] & 0x3F);
        return 2;
    }
    if (text[0] < 0xE0 || text[0] >= 0xF0 || left < 3 || (text[1] & 0xC0) != 0x80 ||
        (text[2] & 0xC0) != 0x80)
        return 0;
    *point = (uint32_t)(text[0] & 0x0F) << 12 | (uint32_t)(text[1] & 0x3F) << 6 | (text[2] & 0x3F);
    return *point < 0x800 ? 0 : 3;
}

/* The kind of the character at 'text', and its length. Of others than those of the table it is not
 * known what they join. */
static inline unsigned kind_of(const struct normalizer *normalizer, const uint8_t *text,
                               size_t left, size_t *size)
{
    uint32_t point;

    *size = 1;
    if (left == 0)
        return 0;
    if (text[0] < 0x80)
        return normalizer->kinds[text[0]];
    *size = decode_short(text, left, &point);
    return *size > 0 ? normalizer->kinds[point] : NORMALIZER_JOINED;
}

/* Is there a character beyond ASCII that stays? */
static inline int is_staying(const struct normalizer *normalizer, const uint8_t *text, size_t left)
{
    size_t size, next;
    unsigned kind = text[0] < 0x80 ? 0 : kind_of(normalizer, text, left, &size);

    return kind & NORMALIZER_STAYS ||
           (kind & NORMALIZER_BASE &&
            !(kind_of(normalizer, text + size, left - size, &next) & NORMALIZER_JOINED));
}

/* Copy characters beyond ASCII that stay. Returns their bytes. Four bytes are read and written at a
 * time; the last ones of a text are left to is_staying. */
static size_t copy_staying(const struct normalizer *normalizer, const uint8_t *text, size_t left,
                           uint8_t *out, size_t room)
{
    size_t at = 0, size, base = 0; /* base: the length of the last one, if it is one */
    size_t most = left < room ? left : room;

    while (at + 4 <= most) {
        uint32_t bytes, point;
        unsigned kind;

        memcpy(&bytes, text + at, 4);
        bytes = le32toh(bytes);
        if ((bytes & 0xC0E0) == 0x80C0) {
            point = (bytes & 0x1F) << 6 | (bytes >> 8 & 0x3F);
            size = 2;
        } else if ((bytes & 0xC0C0F0) == 0x8080E0) {
            point = (bytes & 0x0F) << 12 | (bytes >> 2 & 0xFC0) | (bytes >> 16 & 0x3F);
            size = 3;
            if (point < 0x800)
                break;
        } else {
            break;
        }
        /* ASCII, which would be written in two bytes here, never stays. */
        kind = normalizer->kinds[point];
        if (base > 0 && kind & NORMALIZER_JOINED)
            return at - base;
        if (!(kind & (NORMALIZER_STAYS | NORMALIZER_BASE)))
            return at;
        memcpy(out + at, text + at, 4);
        at += size;
        base = kind & NORMALIZER_BASE ? size : 0;
    }
    if (base > 0 && kind_of(normalizer, text + at, left - at, &size) & NORMALIZER_JOINED)
        return at - base;
    if (at == 0 && is_staying(normalizer, text, left)) {
        kind_of(normalizer, text, left, &at);
        memcpy(out, text, at);
    }
    return at;
}

int normalizing_skip_spaces(struct normalizing *state)
{
    const struct normalizer *normalizer = state->normalizer;

    for (; state->at < state->length; state->at++) {
        uint8_t byte = next_single(normalizer, state->text, state->at, state->length);

        if (byte != ' ')
            return byte != 0 ||
                   is_staying(normalizer, state->text + state->at, state->length - state->at);
        state->held += !state->after_space;
        state->after_space = normalizer->squeeze;
    }
    return 0;
}

/* How many of these eight bytes, from the first on, are printable ASCII; if 'squeeze', up to the
 * second one of two spaces. 'after': they come after a space. */
static inline size_t count_printable(uint64_t bytes, unsigned squeeze, unsigned after)
{
    uint64_t other = bytes ^ EACH(' ');
    uint64_t spaces = ~(((other & EACH(0x7F)) + EACH(0x7F)) | other | EACH(0x7F));
    /* Carries and borrows only reach bytes after the first that is not printable. */
    uint64_t bad = (bytes | (bytes + EACH(1)) | (bytes - EACH(0x20))) & EACH(0x80);

    if (squeeze)
        bad |= spaces & (spaces << 8 | (uint64_t)after << 7);
    return bad ? (size_t)__builtin_ctzll(bad) / 8 : 8;
}

size_t normalizing_copy(struct normalizing *state, uint8_t *out, size_t room)
{
    const struct normalizer *normalizer = state->normalizer;
    const uint8_t *text = state->text;
    size_t at = state->at, length = state->length, made = 0, size;
    unsigned squeeze = normalizer->squeeze != 0, after = 0;
    int blocks = normalizer->blocks;

    while (at < length && room - made >= 8) {
        uint64_t bytes;
        uint8_t byte;

        if (blocks && length - at > 64 && room - made >= 128) {
            size_t written;

            size = normalizer->engine->copy(normalizer, text + at, length - at, out + made,
                                            room - made, &after, &written);
            at += size;
            made += written;
            /* Character by character past the one where it ended. */
            blocks = 0;
            if (size > 0)
                continue;
        }
        if (text[at] >= 0x80) {
            size = copy_staying(normalizer, text + at, length - at, out + made, room - made);
            if (size == 0)
                break;
            at += size;
            made += size;
            after = 0;
            blocks = normalizer->blocks;
            continue;
        }
        if (normalizer->printable && length - at > 8) {
            memcpy(&bytes, text + at, 8);
            size = count_printable(le64toh(bytes), squeeze, after);
            size -= size > 0 && normalizer->joins[text[at + size]];
            if (size > 0) {
                memcpy(out + made, &bytes, 8);
                at += size;
                made += size;
                after = text[at - 1] == ' ';
                blocks = normalizer->blocks;
                continue;
            }
        }
        byte = next_single(normalizer, text, at, length);
        if (byte == 0)
            break;
        out[made] = byte;
        made += !(squeeze & after & (byte == ' '));
        after = byte == ' ';
        at++;
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
