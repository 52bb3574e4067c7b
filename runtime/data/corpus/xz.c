/* SPDX-License-Identifier: Apache-2.0 */
/* xz: read as a stream or, with the index at the end of the file, block by block. That is how a
 * large file made with several threads (xz -T, pixz) is cut. */
#include "codec.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"

#include <lzma.h>
#include <stdlib.h>
#include <string.h>

/* The dictionary of xz -9 is 64 MiB; nothing needs this much. */
#define MEMORY_LIMIT ((uint64_t)512 << 20)

/* The index reader needs an interface that was added in 5.4. */
#define WITH_BLOCKS (LZMA_VERSION >= 50040002)

struct xz {
    lzma_stream stream;
    int blocks; /* as listed in the index */
    int inside, ended;
#if WITH_BLOCKS
    lzma_index *index;
    lzma_index_iter iterator;
    lzma_block block;
    lzma_filter filters[LZMA_FILTERS_MAX + 1];
#endif
};

static int lzma_failed(struct source *source, lzma_ret rc, struct error *err)
{
    switch (rc) {
    case LZMA_MEM_ERROR:
        return error_set(err, "decompressing xz: out of memory");
    case LZMA_MEMLIMIT_ERROR:
        return error_set(err,
                         "%s needs more than 512 MiB to decompress; compress it with xz -9 "
                         "or less",
                         source->path);
    case LZMA_FORMAT_ERROR:
        return source_corrupt(source, "this is not xz data", err);
    case LZMA_OPTIONS_ERROR:
        return error_set(err,
                         "%s uses an xz filter that this liblzma does not support, or is corrupt; "
                         "compress it again with xz",
                         source->path);
    case LZMA_BUF_ERROR:
        return source_truncated(source, err);
    default:
        return source_corrupt(source, "invalid xz data", err);
    }
}

#if WITH_BLOCKS
static lzma_index *read_index(int fd, int64_t size)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    lzma_index *index = NULL;
    unsigned char *buffer = xmalloc(INPUT_SIZE);
    int64_t position = 0;
    lzma_ret rc = lzma_file_info_decoder(&stream, &index, MEMORY_LIMIT, (uint64_t)size);

    while (rc == LZMA_OK) {
        if (stream.avail_in == 0) {
            ssize_t count = file_read_at(fd, buffer, INPUT_SIZE, position);

            if (count <= 0)
                break;
            stream.next_in = buffer;
            stream.avail_in = (size_t)count;
            position += count;
        }
        rc = lzma_code(&stream, LZMA_RUN);
        if (rc == LZMA_SEEK_NEEDED) {
            position = (int64_t)stream.seek_pos;
            stream.avail_in = 0;
            rc = LZMA_OK;
        }
    }
    lzma_end(&stream);
    free(buffer);
    return rc == LZMA_STREAM_END ? index : NULL;
}

int xz_can_cut(int fd, int64_t size)
{
    lzma_index *index = read_index(fd, size);
    int answer = index && lzma_index_block_count(index) > 1;

    lzma_index_end(index, NULL);
    return answer;
}

static int begin_block(struct source *source, struct error *err)
{
    struct xz *xz = source->state;
    struct input *input = &source->input;
    const unsigned char *header;
    ssize_t have;
    lzma_ret rc;

    input->position = (int64_t)xz->iterator.block.compressed_file_offset;
    input->at = input->have = 0;
    input->ended = 0;
    have = input_fill(source, LZMA_BLOCK_HEADER_SIZE_MAX, err);
    if (have < 0)
        return -1;
    if (have == 0)
        return source_truncated(source, err);
    header = input->bytes;
    memset(&xz->block, 0, sizeof(xz->block));
    xz->block.check = xz->iterator.stream.flags->check;
    xz->block.filters = xz->filters;
    if (header[0] == 0)
        return source_corrupt(source, "there is no xz block at a place that its index lists", err);
    xz->block.header_size = lzma_block_header_size_decode(header[0]);
    if ((size_t)have < xz->block.header_size)
        return source_truncated(source, err);
    rc = lzma_block_header_decode(&xz->block, NULL, header);
    if (rc != LZMA_OK)
        return lzma_failed(source, rc, err);
    rc = lzma_block_compressed_size(&xz->block, xz->iterator.block.unpadded_size);
    source->memory = (size_t)lzma_raw_decoder_memusage(xz->filters);
    if (rc == LZMA_OK && source->memory > MEMORY_LIMIT)
        rc = LZMA_MEMLIMIT_ERROR;
    if (rc == LZMA_OK)
        rc = lzma_block_decoder(&xz->stream, &xz->block);
    lzma_filters_free(xz->filters, NULL);
    if (rc != LZMA_OK)
        return lzma_failed(source, rc, err);
    input_take(source, xz->block.header_size);
    xz->inside = 1;
    return 0;
}

static int next_block(struct source *source)
{
    struct xz *xz = source->state;

    if (lzma_index_iter_next(&xz->iterator, LZMA_INDEX_ITER_NONEMPTY_BLOCK)) {
        xz->ended = 1;
        return 0;
    }
    if (source->boundary < 0 && source->end < source->size &&
        (int64_t)xz->iterator.block.compressed_file_offset >= source->end)
        source->boundary = source->delivered;
    return 1;
}

/* Go to the first block that begins in the range. */
static int find_block(struct source *source, struct error *err)
{
    struct xz *xz = source->state;

    xz->index = read_index(source->input.fd, source->size);
    if (!xz->index)
        return source_corrupt(source, "its index cannot be read", err);
    xz->blocks = 1;
    lzma_index_iter_init(&xz->iterator, xz->index);
    do {
        if (lzma_index_iter_next(&xz->iterator, LZMA_INDEX_ITER_NONEMPTY_BLOCK)) {
            xz->ended = 1;
            return 0;
        }
    } while ((int64_t)xz->iterator.block.compressed_file_offset < source->begin);
    if ((int64_t)xz->iterator.block.compressed_file_offset >= source->end) {
        xz->ended = 1;
        return 0;
    }
    return begin_block(source, err);
}
#else
int xz_can_cut(int fd, int64_t size)
{
    (void)fd, (void)size;
    return 0;
}
#endif

static int advance(struct source *source, struct error *err)
{
#if WITH_BLOCKS
    struct xz *xz = source->state;

    if (xz->blocks)
        return next_block(source) ? begin_block(source, err) : 0;
#endif
    (void)err;
    ((struct xz *)source->state)->ended = 1;
    return 0;
}

static ssize_t xz_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct xz *xz = source->state;
    lzma_stream *stream = &xz->stream;

    stream->next_out = buffer;
    stream->avail_out = size;
    while (!xz->ended && stream->avail_out == size) {
        ssize_t have = input_fill(source, 1, err);
        lzma_ret rc;

        if (have < 0)
            return -1;
        stream->next_in = source->input.bytes + source->input.at;
        stream->avail_in = (size_t)have;
        rc = lzma_code(stream, have == 0 ? LZMA_FINISH : LZMA_RUN);
        input_take(source, (size_t)have - stream->avail_in);
        if (rc == LZMA_STREAM_END && stream->avail_out < size) {
            xz->inside = 0;
            break;
        }
        if (rc == LZMA_STREAM_END) {
            if (advance(source, err) < 0)
                return -1;
        } else if (rc != LZMA_OK) {
            return lzma_failed(source, rc, err);
        }
    }
    size -= stream->avail_out;
    if (!xz->blocks)
        source->memory = (size_t)lzma_memusage(stream);
    return (ssize_t)size;
}

/* If a block ends together with the reader's buffer, the next read advances, so that the boundary
 * never lies beyond the bytes delivered. */
static ssize_t xz_read_on(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct xz *xz = source->state;

    if (!xz->ended && !xz->inside && advance(source, err) < 0)
        return -1;
    return xz->ended ? 0 : xz_read(source, buffer, size, err);
}

static void xz_finish(struct source *source)
{
    struct xz *xz = source->state;

    lzma_end(&xz->stream);
#if WITH_BLOCKS
    lzma_index_end(xz->index, NULL);
#endif
    free(xz);
}

int xz_start(struct source *source, struct error *err)
{
    static const lzma_stream fresh = LZMA_STREAM_INIT;
    struct xz *xz = xcalloc(1, sizeof(*xz));
    lzma_ret rc;

    source->state = xz;
    source->read = xz_read_on;
    source->finish = xz_finish;
    xz->stream = fresh;
#if WITH_BLOCKS
    if (source->begin > 0 || source->end < source->size)
        return find_block(source, err);
#endif
    xz->inside = 1;
    rc = lzma_stream_decoder(&xz->stream, MEMORY_LIMIT, LZMA_CONCATENATED);
    return rc == LZMA_OK ? 0 : lzma_failed(source, rc, err);
}
