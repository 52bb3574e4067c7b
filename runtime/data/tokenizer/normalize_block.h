/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's copying of characters that stay and of ASCII white space, 64 bytes at a time
 * (engine_body.h). */
#include "normalize.h"
#include "simd.h"

#include <string.h>

/* The bits below bit 'at', which may be 64. */
static inline uint64_t below(size_t at)
{
    return at < 64 ? (UINT64_C(1) << at) - 1 : UINT64_MAX;
}

static inline size_t first_bit(uint64_t bits, size_t none)
{
    return bits && (size_t)__builtin_ctzll(bits) < none ? (size_t)__builtin_ctzll(bits) : none;
}

/* In the lowest bit: must the character be looked up, or may it join the one before it? */
static inline uint64_t trouble_of_two(const struct normalizer *normalizer, const uint8_t *text)
{
    return normalizer->trouble_two[text[0] & 0x1F] >> (text[1] & 0x3F);
}

static inline uint64_t trouble_of_three(const struct normalizer *normalizer, const uint8_t *text)
{
    return normalizer->trouble_three[(text[0] & 0x0F) << 6 | (text[1] & 0x3F)] >> (text[2] & 0x3F);
}

/* How many of the bytes before 'end', beyond ASCII, are whole characters that stay. */
static size_t check_high(const struct normalizer *normalizer, const uint8_t *text,
                         const struct text_masks *masks, size_t end)
{
    uint64_t leads = masks->two | masks->three, wrong, trouble = 0;
    uint64_t doubtful = simd_select(text, normalizer->doubtful);

    wrong = masks->tail ^ (leads << 1 | masks->three << 2);
    end = first_bit(wrong | masks->other, end);
    if (leads & below(end)) {
        size_t last = 63 - (size_t)__builtin_clzll(leads & below(end));

        if (last + 2 + (masks->three >> last & 1) > end)
            end = last;
    }
    doubtful &= below(end);
    for (uint64_t bits = masks->two & doubtful; bits; bits &= bits - 1)
        trouble |= trouble_of_two(normalizer, text + __builtin_ctzll(bits));
    for (uint64_t bits = masks->three & doubtful; bits; bits &= bits - 1)
        trouble |= trouble_of_three(normalizer, text + __builtin_ctzll(bits));
    if (trouble & 1) {
        for (uint64_t bits = leads & doubtful; bits; bits &= bits - 1) {
            size_t at = (size_t)__builtin_ctzll(bits);

            trouble = masks->three >> at & 1 ? trouble_of_three(normalizer, text + at)
                                             : trouble_of_two(normalizer, text + at);
            if (trouble & 1)
                return at;
        }
    }
    return end;
}

/* Copy bytes from 'kept', a bit for each of 64, to 'out', which has room for 128. 'from' has 128
 * bytes. Returns how many. */
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

/* One block, which another byte follows; 'out' has room for 128. '*after': does it follow a space?
 * Returns how many bytes were read; '*made' of them were written. */
static inline size_t copy_block(const struct normalizer *normalizer, const uint8_t *text,
                                uint8_t *out, unsigned *after, size_t *made)
{
    struct text_masks masks = {0};
    uint64_t dropped;
    size_t end = 64;

    *made = 0;
    simd_copy(text, out, &masks);
    for (uint64_t bits = masks.control; bits; bits &= bits - 1) {
        unsigned at = (unsigned)__builtin_ctzll(bits);

        if (normalizer->single[text[at]] != ' ') {
            end = at;
            break;
        }
        out[at] = ' ';
        masks.blank |= bits & -bits;
    }
    if (masks.high)
        end = check_high(normalizer, text, &masks, end);
    /* The character before one beyond ASCII may be joined by it. */
    if (end > 0 && text[end] >= 0x80) {
        uint64_t begins = masks.high ? ~masks.tail & below(end) : below(end);

        end = begins ? 63 - (size_t)__builtin_clzll(begins) : 0;
    }
    if (end == 0)
        return 0;
    dropped = normalizer->squeeze ? masks.blank & (masks.blank << 1 | *after) : 0;
    *after = masks.blank >> (end - 1) & 1;
    *made = end;
    if (dropped & below(end)) {
        uint8_t copy[128];

        memcpy(copy, out, 64);
        *made = copy_kept(copy, ~dropped & below(end), out);
    }
    return end;
}

static size_t copy_blocks(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                          uint8_t *out, size_t room, unsigned *after, size_t *made)
{
    size_t at = 0, size, written;

    *made = 0;
    while (length - at > 64 && room - *made >= 128) {
        size = copy_block(normalizer, text + at, out + *made, after, &written);
        at += size;
        *made += written;
        if (size < 32)
            break;
    }
    return at;
}
