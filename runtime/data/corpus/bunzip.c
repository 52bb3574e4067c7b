/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "bunzip.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE = 2 << 20,
    SYMBOLS = 258,
    TABLES = 6,
    LONGEST = 20,             /* bits of a code */
    ROOT = 10,                /* bits that one table lookup resolves */
    GROUP = 50,               /* symbols for which one table is used */
    SELECTORS = 18002 + 14766 /* the maximum that the format can express */
};

struct table {
    uint16_t root[1 << ROOT]; /* symbol << 5 | length; length 0: longer than ROOT */
    uint32_t limit[LONGEST + 2];
    int32_t offset[LONGEST + 2];
    uint16_t order[SYMBOLS];
};

struct bits {
    const unsigned char *data;
    uint64_t at, end; /* in bits */
};

int bunzip_block_create(struct bunzip_block *block)
{
    size_t size = BUNZIP_LIMIT * sizeof(*block->links);

    memset(block, 0, sizeof(*block));
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    block->links = aligned_alloc(HUGE_PAGE, size);
    /* A walk goes everywhere in the links: with small pages nearly every step also misses the TLB.
     */
    if (block->links)
        madvise(block->links, size, MADV_HUGEPAGE);
    block->bytes = xmalloc(BUNZIP_LIMIT + 8);
    return block->links ? 0 : -1;
}

void bunzip_block_destroy(struct bunzip_block *block)
{
    free(block->links);
    free(block->bytes);
    free(block->output);
    memset(block, 0, sizeof(*block));
}

/* The 64 bits from bit 'bit' on, of which at least 57 are valid. */
static inline uint64_t window(const unsigned char *data, uint64_t bit)
{
    uint64_t word;

    memcpy(&word, data + bit / 8, 8);
    return __builtin_bswap64(word) << bit % 8;
}

uint64_t bunzip_bits(const unsigned char *data, uint64_t bit, int count)
{
    return window(data, bit) >> (64 - count);
}

static inline uint32_t take(struct bits *bits, int count)
{
    uint32_t value = (uint32_t)(window(bits->data, bits->at) >> (64 - count));

    bits->at += (unsigned)count;
    return value;
}

/* If decoding fails at the very end of the input, the input is truncated, not damaged: only padding
 * follows. */
static enum bunzip_result bad_bits(const struct bits *bits)
{
    return bits->at + 64 > bits->end ? BUNZIP_SHORT : BUNZIP_CORRUPT;
}

/* --- Codes ------------------------------------------------------------------------------------ */

static int make_table(struct table *table, const unsigned char *lengths, int symbols)
{
    uint32_t counts[LONGEST + 2] = {0}, code = 0, index = 0;

    for (int i = 0; i < symbols; i++)
        counts[lengths[i]]++;
    memset(table->root, 0, sizeof(table->root));
    for (int length = 1; length <= LONGEST; length++) {
        table->offset[length] = (int32_t)index - (int32_t)code;
        for (int i = 0; i < symbols; i++) {
            if (lengths[i] != length)
                continue;
            if (code >> length)
                return -1; /* more codes than possible */
            if (length <= ROOT) {
                uint32_t from = code << (ROOT - length), span = 1u << (ROOT - length);

                for (uint32_t k = 0; k < span; k++)
                    table->root[from + k] = (uint16_t)(i << 5 | length);
            }
            table->order[index++] = (uint16_t)i;
            code++;
        }
        table->limit[length] = code << (LONGEST - length); /* the first code that is longer */
        code <<= 1;
    }
    return 0;
}

/* A symbol whose code is longer than ROOT bits. Returns -1 if there is no such code. */
static int long_symbol(const struct table *table, struct bits *bits)
{
    uint32_t code = (uint32_t)(window(bits->data, bits->at) >> (64 - LONGEST));

    for (int length = ROOT + 1; length <= LONGEST; length++)
        if (code < table->limit[length]) {
            bits->at += (unsigned)length;
            return table->order[(int32_t)(code >> (LONGEST - length)) + table->offset[length]];
        }
    return -1;
}

static int read_lengths(struct bits *bits, unsigned char *lengths, int symbols)
{
    int length = (int)take(bits, 5);

    for (int i = 0; i < symbols; i++) {
        for (;;) {
            if (length < 1 || length > LONGEST || bits->at > bits->end)
                return -1;
            if (!take(bits, 1))
                break;
            length += take(bits, 1) ? -1 : 1;
        }
        lengths[i] = (unsigned char)length;
    }
    return 0;
}

struct codes {
    struct table tables[TABLES];
    unsigned char selectors[SELECTORS];
    unsigned char used[256]; /* the bytes that occur */
    int tables_count, selector_count, symbols;
};

static int read_used(struct codes *codes, struct bits *bits)
{
    uint32_t groups = take(bits, 16);
    int count = 0;

    for (int i = 0; i < 16; i++) {
        uint32_t group = groups >> (15 - i) & 1 ? take(bits, 16) : 0;

        for (int k = 0; k < 16; k++)
            if (group >> (15 - k) & 1)
                codes->used[count++] = (unsigned char)(i * 16 + k);
    }
    codes->symbols = count + 2;
    return count > 0 ? 0 : -1;
}

static int read_codes(struct codes *codes, struct bits *bits)
{
    unsigned char order[TABLES], lengths[SYMBOLS];

    if (read_used(codes, bits) < 0)
        return -1;
    codes->tables_count = (int)take(bits, 3);
    codes->selector_count = (int)take(bits, 15);
    if (codes->tables_count < 2 || codes->tables_count > TABLES || codes->selector_count < 1)
        return -1;
    for (int i = 0; i < codes->tables_count; i++)
        order[i] = (unsigned char)i;
    for (int i = 0; i < codes->selector_count; i++) {
        int place = 0;
        unsigned char table;

        if (bits->at > bits->end)
            return -1;
        while (take(bits, 1))
            if (++place >= codes->tables_count || bits->at > bits->end)
                return -1;
        table = order[place];
        memmove(order + 1, order, (size_t)place);
        order[0] = codes->selectors[i] = table;
    }
    for (int i = 0; i < codes->tables_count; i++)
        if (read_lengths(bits, lengths, codes->symbols) < 0 ||
            make_table(&codes->tables[i], lengths, codes->symbols) < 0)
            return -1;
    return 0;
}

/* --- Symbols ---------------------------------------------------------------------------------- */

/* Move the byte at 'place' to the front. */
static inline unsigned char to_front(unsigned char *list, int place)
{
    unsigned char byte = list[place];

    if (place < 16)
        for (int i = place; i > 0; i--)
            list[i] = list[i - 1];
    else
        memmove(list + 1, list, (size_t)place);
    list[0] = byte;
    return byte;
}

/* Runs of zeros are numbers in base two with the digits one and two. */
static enum bunzip_result read_symbols(struct bunzip_block *block, const struct codes *codes,
                                       struct bits *bits)
{
    unsigned char list[256];
    uint32_t counts[256] = {0}, count = 0, run = 0, weight = 1, sum = 0;
    int end = codes->symbols - 1, symbol = -1;

    memcpy(list, codes->used, 256);
    for (int group = 0; group < codes->selector_count && symbol != end; group++) {
        const struct table *table = &codes->tables[codes->selectors[group]];

        if (bits->at > bits->end)
            return BUNZIP_SHORT;
        for (int i = 0; i < GROUP; i++) {
            uint16_t entry = table->root[window(bits->data, bits->at) >> (64 - ROOT)];

            bits->at += entry & 31;
            symbol = entry ? entry >> 5 : long_symbol(table, bits);
            if (symbol < 0)
                return bad_bits(bits);
            if (symbol < 2) {
                run += weight << symbol;
                weight <<= 1;
                if (run > BUNZIP_LIMIT)
                    return bad_bits(bits);
                continue;
            }
            if (run > 0) {
                if (run > BUNZIP_LIMIT - count)
                    return bad_bits(bits);
                for (uint32_t k = 0; k < run; k++)
                    block->links[count + k] = list[0];
                count += run;
                counts[list[0]] += run;
                run = 0;
                weight = 1;
            }
            if (symbol == end)
                break;
            if (count == BUNZIP_LIMIT)
                return bad_bits(bits);
            block->links[count] = to_front(list, symbol - 1);
            counts[block->links[count++]]++;
        }
        /* The input may end inside a group: only padding follows it. */
        if (bits->at > bits->end)
            return BUNZIP_SHORT;
    }
    if (symbol != end || block->origin >= count)
        return bad_bits(bits);
    block->count = count;
    for (int i = 0; i < 256; i++) {
        uint32_t more = counts[i];

        counts[i] = sum;
        sum += more;
    }
    for (uint32_t i = 0; i < count; i++)
        block->links[counts[block->links[i] & 255]++] |= i << 8;
    return BUNZIP_OK;
}

enum bunzip_result bunzip_read(struct bunzip_block *block, const unsigned char *data, size_t size,
                               uint64_t *bit)
{
    struct bits bits = {data, *bit, (uint64_t)size * 8};
    struct codes *codes;
    enum bunzip_result rc;

    if (bits.end < *bit + 48 + 32 + 25 + 16)
        return BUNZIP_SHORT;
    if (bunzip_bits(data, *bit, 48) != BUNZIP_BLOCK_MAGIC)
        return BUNZIP_CORRUPT;
    bits.at += 48;
    block->checksum = take(&bits, 32);
    /* Randomised blocks come only from releases before 0.9.5 (1999). */
    if (take(&bits, 1))
        return BUNZIP_CORRUPT;
    block->origin = take(&bits, 24);
    codes = xmalloc(sizeof(*codes));
    rc = read_codes(codes, &bits) < 0 ? bad_bits(&bits) : read_symbols(block, codes, &bits);
    free(codes);
    if (rc == BUNZIP_OK)
        *bit = bits.at;
    return rc;
}

/* --- Output ----------------------------------------------------------------------------------- */

/* The walk back through a block. */
struct walk {
    struct bunzip_block *block;
    uint32_t at, made;
};

/* GCC does not unroll a loop with few iterations at -O2, and the state would be in memory. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 8")
#else
#define UNROLLED
#endif

/* 'steps' steps of 'count' walks, which is a constant wherever this is called. */
static inline __attribute__((always_inline)) void step_together(struct walk *walks, const int count,
                                                                uint32_t steps)
{
    const uint32_t *links[BUNZIP_TOGETHER];
    unsigned char *bytes[BUNZIP_TOGETHER];
    uint32_t at[BUNZIP_TOGETHER];

    UNROLLED
    for (int k = 0; k < count; k++) {
        links[k] = walks[k].block->links;
        bytes[k] = walks[k].block->bytes + walks[k].made;
        at[k] = walks[k].at;
    }
    for (uint32_t i = 0; i < steps; i++) {
        UNROLLED
        for (int k = 0; k < count; k++)
            at[k] = links[k][at[k]];
        UNROLLED
        for (int k = 0; k < count; k++) {
            bytes[k][i] = (unsigned char)at[k];
            at[k] >>= 8;
        }
    }
    UNROLLED
    for (int k = 0; k < count; k++) {
        walks[k].at = at[k];
        walks[k].made += steps;
    }
}

/* clang-format off */
#define STEP(n) case n: step_together(walks, n, steps); break
/* clang-format on */

static void step_walks(struct walk *walks, int count, uint32_t steps)
{
    switch (count) {
        STEP(1);
        STEP(2);
        STEP(3);
        STEP(4);
        STEP(5);
        STEP(6);
        STEP(7);
        STEP(8);
    }
}

/* Walk all blocks at once; the longer ones continue when the shortest is done. */
static void walk_blocks(struct bunzip_block *const *blocks, int count)
{
    struct walk walks[BUNZIP_TOGETHER];

    for (int k = 0; k < count; k++)
        walks[k] = (struct walk){blocks[k], blocks[k]->links[blocks[k]->origin] >> 8, 0};
    while (count > 0) {
        uint32_t steps = UINT32_MAX;
        int left = 0;

        for (int k = 0; k < count; k++) {
            uint32_t more = walks[k].block->count - walks[k].made;

            steps = more < steps ? more : steps;
        }
        step_walks(walks, count, steps);
        for (int k = 0; k < count; k++)
            if (walks[k].made < walks[k].block->count)
                walks[left++] = walks[k];
        count = left;
    }
}

/* The checksum of bzip2, eight bytes at a time. */
struct crc_tables {
    uint32_t rows[8][256];
};

static void make_crc(struct crc_tables *tables)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i << 24;

        for (int k = 0; k < 8; k++)
            value = value << 1 ^ (value >> 31 ? 0x04c11db7u : 0);
        tables->rows[0][i] = value;
    }
    for (int row = 1; row < 8; row++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = tables->rows[row - 1][i];

            tables->rows[row][i] = before << 8 ^ tables->rows[0][before >> 24];
        }
}

static uint32_t crc_of(const struct crc_tables *tables, const unsigned char *data, size_t size)
{
    uint32_t crc = UINT32_MAX;

    for (; size >= 8; size -= 8, data += 8) {
        uint32_t high = crc ^ ((uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 |
                               (uint32_t)data[2] << 8 | data[3]);

        crc = tables->rows[7][high >> 24] ^ tables->rows[6][high >> 16 & 255] ^
              tables->rows[5][high >> 8 & 255] ^ tables->rows[4][high & 255] ^
              tables->rows[3][data[4]] ^ tables->rows[2][data[5]] ^ tables->rows[1][data[6]] ^
              tables->rows[0][data[7]];
    }
    for (; size > 0; size--)
        crc = crc << 8 ^ tables->rows[0][(crc >> 24) ^ *data++];
    return ~crc;
}

/* Four equal bytes are followed by the number of further ones. */
static void expand_runs(struct bunzip_block *block)
{
    const unsigned char *at = block->bytes, *end = at + block->count;
    size_t worst = block->count + (size_t)block->count / 5 * 255 + 4096, used = 0;
    unsigned char *out;

    /* Few blocks have runs: start small. */
    if (!block->output) {
        block->capacity = BUNZIP_LIMIT + 4096;
        block->output = xmalloc(block->capacity);
    }
    out = block->output;
    while (at < end) {
        unsigned char byte = *at;

        out[used++] = byte;
        at++;
        if (end - at >= 3 && at[0] == byte && at[1] == byte && at[2] == byte) {
            size_t more = end - at > 3 ? at[3] : 0;

            memset(out + used, byte, 3 + more);
            used += 3 + more;
            at += end - at > 3 ? 4 : 3;
            /* Room for everything that follows and for one run. */
            if (block->capacity - used < (size_t)(end - at) + 512) {
                size_t room = block->capacity * 2 < worst ? block->capacity * 2 : worst;

                out = block->output = xrealloc(block->output, room, 1);
                block->capacity = room;
            }
        }
    }
    block->size = used;
}

int bunzip_finish(struct bunzip_block *const *blocks, int count)
{
    struct crc_tables tables;

    walk_blocks(blocks, count);
    make_crc(&tables);
    for (int k = 0; k < count; k++) {
        expand_runs(blocks[k]);
        if (crc_of(&tables, blocks[k]->output, blocks[k]->size) != blocks[k]->checksum)
            return k;
    }
    return -1;
}
