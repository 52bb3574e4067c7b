/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts by pairs of bytes; included by split_simd.h. */

#include <endian.h>
#include <string.h>

/* Where the 64 bytes of a block are cut: bit i is before byte i. */
struct cuts {
    uint64_t here, spaces;
};

static inline uint64_t load(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

/* Look up the four pairs that end in bytes[0] to bytes[3]: SPLIT_HERE in the low
 * four bits, SPLIT_SPACES in the high ones. 'even' begins one byte before 'odd'. */
static inline uint64_t test_four(const uint8_t *table, uint64_t even, uint64_t odd)
{
    return (uint64_t)table[even & 0xFFFF] | (uint64_t)table[odd & 0xFFFF] << 1 |
           (uint64_t)table[even >> 16 & 0xFFFF] << 2 | (uint64_t)table[odd >> 16 & 0xFFFF] << 3;
}

/* The low halves of eight bytes, packed. */
static inline uint64_t pack_halves(uint64_t bytes)
{
    bytes &= UINT64_C(0x0F0F0F0F0F0F0F0F);
    bytes = (bytes | bytes >> 4) & UINT64_C(0x00FF00FF00FF00FF);
    bytes = (bytes | bytes >> 8) & UINT64_C(0x0000FFFF0000FFFF);
    return (bytes | bytes >> 16) & UINT64_C(0x00000000FFFFFFFF);
}

/* The cuts of 64 bytes; the byte before them must be readable. */
static struct cuts test_block(const uint8_t *table, const uint8_t *bytes)
{
    struct cuts cuts = {0, 0};

    UNROLLED
    for (unsigned half = 0; half < 2; half++, bytes += 32) {
        uint64_t found = 0;

        UNROLLED
        for (unsigned i = 0; i < 4; i++) {
            uint64_t even = load(bytes + 8 * i - 1), odd = load(bytes + 8 * i);

            found |= test_four(table, even, odd) << 16 * i | test_four(table, even >> 32, odd >> 32)
                                                                 << (16 * i + 8);
        }
        cuts.here |= pack_halves(found) << 32 * half;
        cuts.spaces |= pack_halves(found >> 4) << 32 * half;
    }
    return cuts;
}

/* Test a block at 'at' in which the text may begin or end. After the end everything is cut. */
static struct cuts test_edge(const struct splitter *splitter, size_t at)
{
    size_t left = at < splitter->length ? splitter->length - at : 0;
    uint8_t bytes[65] = {0};
    struct cuts cuts;

    if (left > 64)
        left = 64;
    if (at > 0 && left > 0)
        bytes[0] = splitter->text[at - 1];
    if (left > 0)
        memcpy(bytes + 1, splitter->text + at, left);
    cuts = test_block(splitter->cuts, bytes + 1);
    if (at == 0) {
        cuts.here &= ~UINT64_C(1);
        cuts.spaces &= ~UINT64_C(1);
    }
    if (left < 64) {
        cuts.here |= ~UINT64_C(0) << left;
        cuts.spaces &= ~(~UINT64_C(0) << left);
    }
    return cuts;
}

static inline struct cuts test_at(const struct splitter *splitter, size_t at)
{
    return at > 0 && splitter->length - at >= 64 && at < splitter->length
               ? test_block(splitter->cuts, splitter->text + at)
               : test_edge(splitter, at);
}

/* Up to four adjacent words of one byte become one: drop the cuts that have cuts on both sides. Bit
 * i of 'after': is there a cut at i + 1? */
static inline uint64_t join_cuts(uint64_t cuts, uint64_t after)
{
    return cuts & ~(cuts << 1 & after & UINT64_C(0xEEEEEEEEEEEEEEEE));
}

static void split_cuts(struct splitter *splitter, size_t size)
{
    size_t blocks = (size + 63) / 64;
    struct cuts cuts = test_at(splitter, splitter->base);

    for (size_t block = 0; block < blocks; block++) {
        /* One block ahead: what follows the last space of this one matters. */
        struct cuts next = test_at(splitter, splitter->base + (block + 1) * 64);
        uint64_t after = (cuts.here | cuts.spaces) >> 1 | (next.here | next.spaces) << 63;

        splitter->starts[block] =
            splitter->joins ? join_cuts(cuts.here, after) : cuts.here | (cuts.spaces & ~after);
        cuts = next;
    }
    if (size & 63)
        splitter->starts[blocks - 1] &= ~(~UINT64_C(0) << (size & 63));
    split_emit(splitter, splitter->starts, size);
}
