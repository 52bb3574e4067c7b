/* SPDX-License-Identifier: Apache-2.0 */
/* bzip2: a stream of blocks of at most 900 kB, each of which can be decoded independently but may
 * begin at any bit. A block is found by its 48-bit magic number. So any bzip2 file can be split,
 * whether it was made with one thread or many, as one stream or many, and no file needs an index.
 */
#include "config.h"
#include "bunzip.h"
#include "codec.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_MASK 0xffffffffffffull

enum {
    HEADER_SIZE = 4, /* of a stream: BZh9 */
    WINDOW = 4 * BUNZIP_PACKED
};

struct bzip2 {
    unsigned char *window; /* bytes of the file from 'window_at' on */
    size_t have;
    int64_t window_at;
    uint64_t bit; /* of the next block in the window */
    int whole;    /* from the first byte: the checksums of the streams are verified, too */
    int searched; /* the first block was found by its magic number, which may be a coincidence */
    uint32_t combined;
    int ended;
    struct bunzip_block blocks[BUNZIP_TOGETHER];
    int created, count, current;
    int verified; /* of those, the first ones that are finished already: 0 or 1 */
    size_t output_at;
};

/* Make at least 'want' bytes after the current bit available, fewer at the end of the file. */
static int fill_window(struct source *source, size_t want, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    size_t passed = bzip2->bit / 8;

    if (bzip2->have - passed >= want)
        return 0;
    memmove(bzip2->window, bzip2->window + passed, bzip2->have - passed);
    bzip2->have -= passed;
    bzip2->window_at += (int64_t)passed;
    bzip2->bit %= 8;
    while (bzip2->have < WINDOW) {
        ssize_t have = input_fill(source, 1, err);
        size_t room = WINDOW - bzip2->have;

        if (have < 0)
            return -1;
        if (have == 0)
            break;
        room = (size_t)have < room ? (size_t)have : room;
        memcpy(bzip2->window + bzip2->have, source->input.bytes + source->input.at, room);
        input_take(source, room);
        bzip2->have += room;
    }
    memset(bzip2->window + bzip2->have, 0, BUNZIP_PADDING);
    return 0;
}

static uint64_t bits_left(const struct bzip2 *bzip2)
{
    return (uint64_t)bzip2->have * 8 - bzip2->bit;
}

/* Search for a block from the current bit on. Returns 1, 0 if there is none, -1. */
static int find_block(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;

    for (;;) {
        uint64_t last;
        uint64_t window = 0;

        if (fill_window(source, BUNZIP_PACKED, err) < 0)
            return -1;
        if (bits_left(bzip2) < 48)
            return 0;
        last = (uint64_t)bzip2->have * 8 - 48;
        /* Eight positions per byte: the window has the 55 bits that they need. */
        for (uint64_t byte = bzip2->bit / 8; byte * 8 <= last; byte++) {
            if (window == 0)
                for (int i = 0; i < 7; i++)
                    window = window << 8 | bzip2->window[byte + (unsigned)i];
            else
                window = window << 8 | bzip2->window[byte + 6];
            for (int shift = 0; shift < 8; shift++)
                if ((window >> (8 - shift) & MAGIC_MASK) == BUNZIP_BLOCK_MAGIC &&
                    byte * 8 + (unsigned)shift >= bzip2->bit &&
                    byte * 8 + (unsigned)shift <= last) {
                    bzip2->bit = byte * 8 + (unsigned)shift;
                    return 1;
                }
        }
        bzip2->bit = last + 1;
    }
}

/* After the last block of a stream: its checksum, and perhaps another stream. Returns 1 if a block
 * follows, 0 at the end, -1. */
static int next_stream(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    uint32_t check;

    for (;;) {
        const unsigned char *at;

        if (bits_left(bzip2) < 80)
            return source_truncated(source, err);
        check = (uint32_t)bunzip_bits(bzip2->window, bzip2->bit + 48, 32);
        if (bzip2->whole && check != bzip2->combined)
            return source_corrupt(source, "the checksum of a bzip2 stream is wrong", err);
        bzip2->combined = 0;
        bzip2->whole = 1; /* a stream begins, or the file ends */
        bzip2->bit = (bzip2->bit + 80 + 7) / 8 * 8;
        if (fill_window(source, BUNZIP_PACKED, err) < 0)
            return -1;
        if (bits_left(bzip2) == 0)
            return 0;
        at = bzip2->window + bzip2->bit / 8;
        if (bits_left(bzip2) < HEADER_SIZE * 8)
            return source_truncated(source, err);
        if (memcmp(at, "BZh", 3) != 0 || at[3] < '1' || at[3] > '9')
            return source_corrupt(source, "the bzip2 data is followed by something else", err);
        bzip2->bit += HEADER_SIZE * 8;
        if (bits_left(bzip2) < 80)
            return source_truncated(source, err);
        if (bunzip_bits(bzip2->window, bzip2->bit, 48) != BUNZIP_END_MAGIC)
            return 1;
    }
}

/* Is there a block at the current bit? Returns 1, 0 at the end of the file, -1. */
static int at_block(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    uint64_t magic;

    if (fill_window(source, BUNZIP_PACKED, err) < 0)
        return -1;
    if (bits_left(bzip2) < 48)
        return source_truncated(source, err);
    magic = bunzip_bits(bzip2->window, bzip2->bit, 48);
    if (magic == BUNZIP_END_MAGIC)
        return next_stream(source, err);
    return magic == BUNZIP_BLOCK_MAGIC ? 1 : source_corrupt(source, "invalid bzip2 data", err);
}

/* Does a magic number follow? */
static bool is_magic(const struct bzip2 *bzip2)
{
    uint64_t magic = bits_left(bzip2) < 48 ? 0 : bunzip_bits(bzip2->window, bzip2->bit, 48);

    return magic == BUNZIP_BLOCK_MAGIC || magic == BUNZIP_END_MAGIC;
}

/* Read the block at the current bit into the next place. Returns 1, 0 if it is not one (and was
 * only found by its magic number), -1. */
static int read_block(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    struct bunzip_block *block = &bzip2->blocks[bzip2->count];
    uint64_t begin = bzip2->bit;
    enum bunzip_result rc;

    if (bzip2->count == bzip2->created) {
        if (bunzip_block_create(block) < 0)
            return error_set(err, "decompressing bzip2: out of memory");
        bzip2->created++;
        source->memory += BUNZIP_LIMIT * 6;
    }
    rc = bunzip_read(block, bzip2->window, bzip2->have, &bzip2->bit);
    if (rc == BUNZIP_OK && bzip2->searched && !is_magic(bzip2)) {
        /* Only its checksum shows whether it is a block. */
        struct bunzip_block *const one[] = {block};

        rc = bunzip_finish(one, 1) < 0 ? BUNZIP_OK : BUNZIP_CORRUPT;
        bzip2->verified = rc == BUNZIP_OK;
    }
    if (rc == BUNZIP_CORRUPT && bzip2->searched) {
        bzip2->bit = begin + 1;
        return 0;
    }
    if (rc != BUNZIP_OK)
        return rc == BUNZIP_SHORT ? source_truncated(source, err)
                                  : source_corrupt(source, "invalid bzip2 data", err);
    bzip2->combined = (bzip2->combined << 1 | bzip2->combined >> 31) ^ block->checksum;
    bzip2->count++;
    return 1;
}

/* The first block of a range. Returns 1, 0 if none begins in it, -1. */
static int first_block(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    int rc;

    do {
        rc = find_block(source, err);
        if (rc <= 0)
            return rc;
        if (bzip2->window_at * 8 + (int64_t)bzip2->bit >= source->end * 8)
            return 0;
        rc = read_block(source, err);
    } while (rc == 0);
    bzip2->searched = 0;
    return rc;
}

static int finish_blocks(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    struct bunzip_block *list[BUNZIP_TOGETHER];
    int count = 0;

    for (int i = bzip2->verified; i < bzip2->count; i++)
        list[count++] = &bzip2->blocks[i];
    if (bunzip_finish(list, count) < 0)
        return 0;
    return source_corrupt(source, "the checksum of a bzip2 block is wrong", err);
}

/* The start of the next block decides whether it is the first one after the range. */
static bool is_beyond(const struct source *source)
{
    const struct bzip2 *bzip2 = source->state;

    return source->boundary < 0 && source->size >= 0 && source->end < source->size &&
           bzip2->window_at * 8 + (int64_t)bzip2->bit >= source->end * 8;
}

/* Decode the next blocks, as many as can usefully be interleaved. */
static int next_blocks(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    int rc = 1, beyond = -1;

    bzip2->count = bzip2->current = bzip2->verified = 0;
    bzip2->output_at = 0;
    if (bzip2->searched) {
        rc = first_block(source, err);
        if (rc < 0)
            return -1;
        bzip2->ended = rc == 0;
    }
    while (!bzip2->ended && bzip2->count < BUNZIP_TOGETHER &&
           (source->boundary < 0 || bzip2->count == 0) && beyond < 0) {
        rc = at_block(source, err);
        if (rc > 0 && is_beyond(source))
            beyond = bzip2->count;
        if (rc > 0)
            rc = read_block(source, err);
        /* A truncated block is found by the range that it begins in, too. */
        if (rc < 0 && bzip2->count == 0 && beyond == 0 && source->truncated)
            source->boundary = source->delivered;
        if (rc < 0 && bzip2->count == 0)
            return -1;
        /* What was read before is good; the next call will hit the error again. */
        if (rc < 0)
            break;
        bzip2->ended = rc == 0;
    }
    if (finish_blocks(source, err) < 0)
        return -1;
    if (beyond >= 0 && beyond < bzip2->count) {
        source->boundary = source->delivered;
        for (int i = 0; i < beyond; i++)
            source->boundary += (int64_t)bzip2->blocks[i].size;
    }
    return 0;
}

static ssize_t bzip2_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    const struct bunzip_block *block;
    size_t have;

    for (;;) {
        while (bzip2->current < bzip2->count &&
               bzip2->output_at == bzip2->blocks[bzip2->current].size) {
            bzip2->current++;
            bzip2->output_at = 0;
        }
        if (bzip2->current < bzip2->count)
            break;
        if (bzip2->ended)
            return 0;
        if (next_blocks(source, err) < 0)
            return -1;
    }
    block = &bzip2->blocks[bzip2->current];
    have = block->size - bzip2->output_at;
    if (have > size)
        have = size;
    memcpy(buffer, block->output + bzip2->output_at, have);
    bzip2->output_at += have;
    return (ssize_t)have;
}

static void bzip2_finish(struct source *source)
{
    struct bzip2 *bzip2 = source->state;

    for (int i = 0; i < bzip2->created; i++)
        bunzip_block_destroy(&bzip2->blocks[i]);
    free(bzip2->window);
    free(bzip2);
}

int bzip2_start(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = xcalloc(1, sizeof(*bzip2));

    source->state = bzip2;
    source->finish = bzip2_finish;
    source->read = bzip2_read;
    bzip2->window = xmalloc(WINDOW + BUNZIP_PADDING);
    source->memory = WINDOW;
    bzip2->window_at = source->input.position;
    if (source->begin > 0) {
        bzip2->searched = 1;
        return 0;
    }
    bzip2->whole = 1;
    if (fill_window(source, HEADER_SIZE, err) < 0)
        return -1;
    if (bzip2->have < HEADER_SIZE)
        return source_truncated(source, err);
    if (memcmp(bzip2->window, "BZh", 3) != 0 || bzip2->window[3] < '1' || bzip2->window[3] > '9')
        return source_corrupt(source, "it has no bzip2 header", err);
    bzip2->bit = HEADER_SIZE * 8;
    return 0;
}
