/* SPDX-License-Identifier: Apache-2.0 */
/* Characters that the normalizer need not look up in its map, because what they become does not
 * depend on what follows: found out in advance, and copied several at a time. */
#include "normalize.h"
#include "unicode.h"

#include <endian.h>
#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define MARK       0x2581
#define RUN        3 /* after so many pieces of ASCII in a row, blocks of 64 bytes are tried */

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

void normalizer_find_plain(struct normalizer *normalizer)
{
    normalizer->printable = 1;
    for (unsigned byte = 0; byte < 0x80; byte++) {
        find_single(normalizer, (uint8_t)byte);
        normalizer->printable &= byte < ' ' || byte == 0x7F || normalizer->single[byte] == byte;
    }
    for (uint32_t point = 0x80; point < 0x10000; point++) {
        uint8_t text[8];
        size_t length = utf8_encode(point, text), walked;
        int found;

        if ((point >= 0xD800 && point <= 0xDFFF) || point == MARK || is_kept(normalizer, text[0]))
            continue;
        walked = normalizer_walk(normalizer, text, length, &found);
        if (found)
            continue;
        normalizer->kinds[point] |= walked < length ? NORMALIZER_STAYS : NORMALIZER_BASE;
        if (walked == length)
            find_joined(normalizer, text, length, length);
    }
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

/* The high bits of eight bytes as the bits of one. */
static inline uint64_t pack_highs(uint64_t highs)
{
    return (highs >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

/* Which of 64 bytes are spaces, control characters, and neither these nor printable ASCII: bit i is
 * byte i. */
struct block_masks {
    uint64_t space, control, other;
};

static inline struct block_masks classify_block(const uint8_t *text)
{
    struct block_masks masks = {0, 0, 0};

    for (unsigned i = 0; i < 8; i++) {
        uint64_t bytes, blank, low, low7;

        memcpy(&bytes, text + 8 * i, 8);
        bytes = le64toh(bytes);
        low7 = bytes & EACH(0x7F);
        blank = bytes ^ EACH(' ');
        blank = ~(((blank & EACH(0x7F)) + EACH(0x7F)) | blank);
        low = ~((bytes | EACH(0x80)) - EACH(' ')) & ~bytes;
        masks.space |= pack_highs(blank & EACH(0x80)) << 8 * i;
        masks.control |= pack_highs(low & EACH(0x80)) << 8 * i;
        masks.other |= pack_highs((bytes | (low7 + EACH(1))) & EACH(0x80)) << 8 * i;
    }
    return masks;
}

/* Copy bytes from 'kept', a bit for each of 64, to 'out', which has room for 128. Returns how many.
 */
static size_t copy_kept(const uint8_t *from, uint64_t kept, uint8_t *out)
{
    size_t made = 0;

    while (kept) {
        unsigned begin = (unsigned)__builtin_ctzll(kept);
        uint64_t rest = ~(kept >> begin);
        unsigned run = rest ? (unsigned)__builtin_ctzll(rest) : 64;

        memcpy(out + made, from + begin, 64);
        made += run;
        kept = begin + run < 64 ? kept & ~UINT64_C(0) << (begin + run) : 0;
    }
    return made;
}

/* Copy ASCII from the 64 bytes at 'text', which another one follows; 'out' has room for 128.
 * '*after': does it follow a space? Returns how many bytes were read, and '*made' of them were
 * written. */
static size_t copy_block(const struct normalizer *normalizer, const uint8_t *text, uint8_t *out,
                         unsigned *after, size_t *made)
{
    struct block_masks masks = classify_block(text);
    uint8_t copy[128];
    uint64_t inside = ~UINT64_C(0), dropped = 0;
    size_t size;

    memcpy(copy, text, 64);
    for (uint64_t bits = masks.control; bits; bits &= bits - 1) {
        unsigned at = (unsigned)__builtin_ctzll(bits);
        uint64_t is_space = normalizer->single[text[at]] == ' ';

        copy[at] = is_space ? ' ' : copy[at];
        masks.space |= is_space << at;
        masks.other |= (is_space ^ 1) << at;
    }
    size = masks.other ? (size_t)__builtin_ctzll(masks.other) : 64;
    size -= size > 0 && normalizer->joins[text[size]];
    if (size == 0)
        return 0;
    inside >>= 64 - size;
    if (normalizer->squeeze)
        dropped = masks.space & (masks.space << 1 | *after);
    *after = masks.space >> (size - 1) & 1;
    if ((dropped & inside) == 0) {
        memcpy(out, copy, 64);
        *made = size;
    } else {
        memset(copy + 64, 0, 64);
        *made = copy_kept(copy, ~dropped & inside, out);
    }
    return size;
}

size_t normalizing_copy(struct normalizing *state, uint8_t *out, size_t room)
{
    const struct normalizer *normalizer = state->normalizer;
    const uint8_t *text = state->text;
    size_t at = state->at, length = state->length, made = 0, size;
    unsigned squeeze = normalizer->squeeze != 0, after = 0, run = 0;

    while (at < length && room - made >= 8) {
        uint64_t bytes;
        uint8_t byte;

        if (run >= RUN && length - at > 64 && room - made >= 128) {
            size_t written = 0;

            size = copy_block(normalizer, text + at, out + made, &after, &written);
            run = size >= 32 ? RUN : 0;
            at += size;
            made += written;
            if (size > 0)
                continue;
        }
        if (text[at] >= 0x80) {
            size = copy_staying(normalizer, text + at, length - at, out + made, room - made);
            if (size == 0)
                break;
            at += size;
            made += size;
            after = run = 0;
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
                run++;
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
