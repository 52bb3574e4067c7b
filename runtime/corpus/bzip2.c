/* SPDX-License-Identifier: Apache-2.0 */
/* bzip2: a stream of blocks of at most 900 kB, each of which is independent but begins at any
 * bit. A block is found by its 48-bit magic number and given to libbz2 as a stream of one block: a
 * stream header, the block's bits, the end mark and the block's own checksum as the stream's. So
 * any bzip2 file can be cut, made with one thread or many, and no file needs an index. */
#include "codec.h"

#include <bzlib.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MAGIC 0x314159265359ull
#define END_MAGIC   0x177245385090ull
#define MAGIC_MASK  0xffffffffffffull
/* A block holds 900000 bytes before its run-length coding; incompressible ones grow a little. */
#define BLOCK_LIMIT  (2u << 20)
#define HEADER_SIZE  4
#define TRAILER_SIZE 11

struct bzip2 {
    unsigned char *bits; /* header, the piece of the file that holds the block, trailer */
    size_t have;         /* bytes of the file in 'piece' */
    unsigned char *piece;
    int64_t piece_at; /* position in the file of piece[0] */
    int skew;         /* the block begins this many bits into piece[0] */
    bz_stream stream;
    int decoding, ended, more;
    uint64_t window;
    char *output;
    unsigned output_size, output_at;
};

/* Read on, byte by byte, until a magic number ends at one of the last eight bits. Bytes go to the
 * piece if 'keep'. Returns 1 with '*bit' the file's bit number where the magic begins and '*magic'
 * which one it is; 0 at the end of the file; -1. */
static int find_magic(struct source *source, int keep, int64_t *bit, uint64_t *magic,
                      struct error *err)
{
    struct bzip2 *bzip2 = source->state;

    for (;;) {
        ssize_t have = input_fill(source, 1, err);
        const unsigned char *bytes = source->input.bytes + source->input.at;

        if (have <= 0)
            return (int)have;
        for (ssize_t i = 0; i < have; i++) {
            uint64_t window = bzip2->window = bzip2->window << 8 | bytes[i];

            if (keep && bzip2->have == BLOCK_LIMIT)
                return source_corrupt(source, "a bzip2 block without an end", err);
            if (keep)
                bzip2->piece[bzip2->have++] = bytes[i];
            for (int shift = 7; shift >= 0; shift--) {
                uint64_t value = window >> shift & MAGIC_MASK;

                if (value != BLOCK_MAGIC && value != END_MAGIC)
                    continue;
                *bit = (source->input.position + i + 1) * 8 - shift - 48;
                *magic = value;
                if (*bit < 0)
                    continue;
                input_take(source, (size_t)i + 1);
                return 1;
            }
        }
        input_take(source, (size_t)have);
    }
}

/* The block that begins at bit 'begin' is now the one to read: keep the bytes since there. */
static void begin_piece(struct bzip2 *bzip2, int64_t begin, int64_t position)
{
    int64_t first = begin / 8;
    size_t keep = (size_t)(position - first);

    /* The magic number spans at most seven bytes, all of them in the window. */
    for (size_t i = 0; i < keep; i++)
        bzip2->piece[i] = (unsigned char)(bzip2->window >> 8 * (keep - 1 - i));
    bzip2->have = keep;
    bzip2->piece_at = first;
    bzip2->skew = (int)(begin % 8);
}

static void put_bits(unsigned char *to, size_t at, uint64_t value, int count)
{
    for (int i = count - 1; i >= 0; i--, at++) {
        unsigned char mask = (unsigned char)(0x80 >> at % 8);

        to[at / 8] = (unsigned char)((to[at / 8] & ~mask) | (value >> i & 1 ? mask : 0));
    }
}

/* Shift the block to a byte boundary and put the end mark after its last bit. */
static size_t make_stream(struct bzip2 *bzip2, int64_t end_bit)
{
    unsigned char *to = bzip2->bits + HEADER_SIZE;
    const unsigned char *from = bzip2->piece;
    size_t length = (size_t)(end_bit - (bzip2->piece_at * 8 + bzip2->skew));
    size_t bytes = (length + 7) / 8;
    uint64_t check = 0;

    memcpy(bzip2->bits, "BZh9", HEADER_SIZE);
    for (size_t i = 0; i < bytes; i++) {
        unsigned next = i + 1 < bzip2->have ? from[i + 1] : 0;

        to[i] = (unsigned char)(from[i] << bzip2->skew | next >> (8 - bzip2->skew));
    }
    for (int i = 6; i < 10; i++)
        check = check << 8 | to[i];
    put_bits(to, length, END_MAGIC, 48);
    put_bits(to, length + 48, check, 32);
    return HEADER_SIZE + (length + 48 + 32 + 7) / 8;
}

static int decode_block(struct source *source, size_t size)
{
    struct bzip2 *bzip2 = source->state;
    unsigned length = 0;
    int rc;

    /* Runs may blow a block up to 50 times its size: grow as needed. */
    for (;;) {
        length = bzip2->output_size;
        rc = BZ2_bzBuffToBuffDecompress(bzip2->output, &length, (char *)bzip2->bits, (unsigned)size,
                                        0, 0);
        if (rc != BZ_OUTBUFF_FULL || bzip2->output_size > 100u << 20)
            break;
        free(bzip2->output);
        bzip2->output_size *= 4;
        bzip2->output = malloc(bzip2->output_size);
        if (!bzip2->output)
            return BZ_MEM_ERROR;
    }
    bzip2->stream.avail_out = length;
    bzip2->output_at = 0;
    return rc;
}

/* Decompress the current block and find the one after it. */
static int next_block(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    int64_t bit = 0;
    uint64_t magic = 0;
    int rc, found, tries = 0;

    if (source->boundary < 0 && source->end < source->size &&
        bzip2->piece_at * 8 + bzip2->skew >= source->end * 8)
        source->boundary = source->delivered;
    do {
        found = find_magic(source, 1, &bit, &magic, err);
        if (found < 0)
            return -1;
        if (found == 0)
            return tries ? source_corrupt(source, "bzip2 data", err)
                         : source_truncated(source, err);
        rc = decode_block(source, make_stream(bzip2, bit));
        /* Chance may have put a magic number into the block: then it does not end here. */
    } while (rc != BZ_OK && rc != BZ_MEM_ERROR && ++tries < 3);
    if (rc == BZ_MEM_ERROR)
        return error_set(err, "out of memory for bzip2");
    if (rc != BZ_OK)
        return source_corrupt(source, "bzip2 data", err);
    while (magic == END_MAGIC) {
        found = find_magic(source, 0, &bit, &magic, err);
        if (found < 0)
            return -1;
        if (found == 0) {
            bzip2->ended = 1;
            return 0;
        }
    }
    begin_piece(bzip2, bit, source->input.position);
    return 0;
}

static ssize_t blocks_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    unsigned have;

    while (bzip2->output_at == bzip2->stream.avail_out) {
        if (bzip2->ended)
            return 0;
        if (next_block(source, err) < 0)
            return -1;
    }
    have = bzip2->stream.avail_out - bzip2->output_at;
    if (have > size)
        have = (unsigned)size;
    memcpy(buffer, bzip2->output + bzip2->output_at, have);
    bzip2->output_at += have;
    return have;
}

static int blocks_start(struct source *source, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    uint64_t magic;
    int64_t bit;
    int found;

    source->read = blocks_read;
    bzip2->bits = malloc(HEADER_SIZE + BLOCK_LIMIT + TRAILER_SIZE);
    bzip2->piece = malloc(BLOCK_LIMIT);
    bzip2->output_size = 1 << 20;
    bzip2->output = malloc(bzip2->output_size);
    if (!bzip2->bits || !bzip2->piece || !bzip2->output)
        return error_set(err, "out of memory for bzip2");
    source->memory = 2 * BLOCK_LIMIT + (4 << 20);
    do {
        found = find_magic(source, 0, &bit, &magic, err);
        if (found < 0)
            return -1;
        if (found == 0 || bit >= source->end * 8) {
            bzip2->ended = 1;
            return 0;
        }
    } while (magic != BLOCK_MAGIC);
    begin_piece(bzip2, bit, source->input.position);
    return 0;
}

/* A whole file or a pipe: libbz2's own way, which also checks the streams' checksums. */
static ssize_t stream_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct bzip2 *bzip2 = source->state;
    bz_stream *stream = &bzip2->stream;

    if (size > 1 << 30)
        size = 1 << 30;
    stream->next_out = buffer;
    stream->avail_out = (unsigned)size;
    while (stream->avail_out == size) {
        ssize_t have = input_fill(source, 1, err);
        int rc;

        if (have < 0)
            return -1;
        if (!bzip2->decoding && have == 0)
            return 0;
        if (!bzip2->decoding && BZ2_bzDecompressInit(stream, 0, 0) != BZ_OK)
            return error_set(err, "out of memory for bzip2");
        bzip2->decoding = 1;
        if (have == 0)
            return source_truncated(source, err);
        stream->next_in = (char *)source->input.bytes + source->input.at;
        stream->avail_in = (unsigned)have;
        rc = BZ2_bzDecompress(stream);
        input_take(source, (size_t)have - stream->avail_in);
        if (rc == BZ_STREAM_END) {
            BZ2_bzDecompressEnd(stream);
            bzip2->decoding = 0;
        } else if (rc != BZ_OK) {
            return source_corrupt(source, "bzip2 data", err);
        }
    }
    return (ssize_t)(size - stream->avail_out);
}

static void bzip2_finish(struct source *source)
{
    struct bzip2 *bzip2 = source->state;

    if (!bzip2)
        return;
    if (bzip2->decoding)
        BZ2_bzDecompressEnd(&bzip2->stream);
    free(bzip2->bits);
    free(bzip2->piece);
    free(bzip2->output);
    free(bzip2);
}

int bzip2_start(struct source *source, struct error *err)
{
    source->state = calloc(1, sizeof(struct bzip2));
    source->finish = bzip2_finish;
    if (!source->state)
        return error_set(err, "out of memory for bzip2");
    source->memory = 5 << 20;
    if (source->begin > 0 || source->end < source->size)
        return blocks_start(source, err);
    source->read = stream_read;
    return 0;
}
