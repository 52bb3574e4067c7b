/* SPDX-License-Identifier: Apache-2.0 */
/* zstd: one or more frames. A file with several frames (pzstd, the seekable format, files joined by
 * cat) can be cut between them. The magic number of a frame has only 32 bits, so it occurs by
 * chance once in 4 GB. A position is the start of a frame only if its chain of block headers leads
 * to another frame or to the end of the file. */
#include "codec.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define FRAME_MAGIC 0xfd2fb528u

enum { PROBE = 64 << 20, LARGEST_BLOCK = 128 << 10, WINDOW_LOG_MAX = 27 };

struct zstd {
    ZSTD_DStream *stream;
    int inside, empty;
};

static uint32_t little32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool is_skippable(uint32_t magic)
{
    return (magic & 0xfffffff0u) == 0x184d2a50u;
}

static bool begins_frame(int fd, int64_t position, int64_t size)
{
    unsigned char bytes[4];

    if (position == size)
        return true;
    if (file_read_at(fd, bytes, 4, position) != 4)
        return false;
    return little32(bytes) == FRAME_MAGIC || is_skippable(little32(bytes));
}

/* The end of the frame at 'position', or -1 if there is no frame or none that ends before
 * 'limit'. */
static int64_t frame_end(int fd, int64_t position, int64_t size, int64_t limit)
{
    static const int dictionary_sizes[] = {0, 1, 2, 4}, content_sizes[] = {0, 2, 4, 8};
    unsigned char h[8];
    int single, content;

    if (file_read_at(fd, h, 8, position) < 8)
        return -1;
    if (is_skippable(little32(h)))
        return position + 8 + little32(h + 4);
    if (little32(h) != FRAME_MAGIC || (h[4] & 0x08) != 0)
        return -1;
    single = h[4] >> 5 & 1;
    content = content_sizes[h[4] >> 6];
    if (content == 0 && single)
        content = 1;
    position += 5 + !single + dictionary_sizes[h[4] & 3] + content;
    while (position < size && position < limit) {
        unsigned char block[3];
        uint32_t header, type, length;

        if (file_read_at(fd, block, 3, position) != 3)
            return -1;
        header = (uint32_t)block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16;
        type = header >> 1 & 3;
        length = header >> 3;
        if (type == 3 || length > LARGEST_BLOCK)
            return -1;
        position += 3 + (type == 1 ? 1 : (int64_t)length);
        if (header & 1)
            return position + (h[4] & 4 ? 4 : 0);
    }
    return -1;
}

int zstd_can_cut(int fd, int64_t size)
{
    int64_t end = frame_end(fd, 0, size, PROBE);

    /* Skip leading skippable frames, which contain no data. */
    for (int i = 0; i < 4 && end > 0 && end < 64; i++)
        end = frame_end(fd, end, size, PROBE);
    return end > 0 && end < size && begins_frame(fd, end, size);
}

/* Does find_frame stop at the frame at 'position'? */
static bool may_come_first(int fd, int64_t position, int64_t size)
{
    unsigned char magic[4];
    int64_t end;

    if (file_read_at(fd, magic, 4, position) != 4 || little32(magic) != FRAME_MAGIC)
        return false;
    end = frame_end(fd, position, size, size);
    return end > 0 && begins_frame(fd, end, size);
}

static int find_frame(struct source *source, struct error *err)
{
    struct input *input = &source->input;

    while (input->position < source->end) {
        ssize_t have = input_fill(source, 4, err);
        const unsigned char *bytes = input->bytes + input->at, *next;

        if (have < 0)
            return -1;
        if (have < 4)
            return 0;
        if (little32(bytes) == FRAME_MAGIC &&
            may_come_first(input->fd, input->position, source->size))
            return input->position < source->end;
        next = memchr(bytes + 1, 0x28, (size_t)have - 1);
        input_take(source, next ? (size_t)(next - bytes) : (size_t)have);
    }
    return 0;
}

static ssize_t zstd_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct zstd *zstd = source->state;
    ZSTD_outBuffer out = {buffer, size, 0};

    if (zstd->empty)
        return 0;
    while (out.pos == 0) {
        ssize_t have = input_fill(source, 1, err);
        ZSTD_inBuffer in = {source->input.bytes + source->input.at, (size_t)(have > 0 ? have : 0),
                            0};
        size_t rc;

        if (have < 0)
            return -1;
        if (!zstd->inside && have == 0)
            return 0;
        /* A damaged frame, with which no range starts, fails here. */
        if (!zstd->inside && source->boundary < 0 && source->end < source->size &&
            source->input.position >= source->end &&
            may_come_first(source->input.fd, source->input.position, source->size))
            source->boundary = source->delivered;
        zstd->inside = 1;
        rc = ZSTD_decompressStream(zstd->stream, &out, &in);
        input_take(source, in.pos);
        if (ZSTD_isError(rc))
            return source_corrupt(source, ZSTD_getErrorName(rc), err);
        if (rc == 0)
            zstd->inside = 0;
        else if (have == 0 && out.pos == 0)
            return source_truncated(source, err);
    }
    source->memory = ZSTD_sizeof_DStream(zstd->stream);
    return (ssize_t)out.pos;
}

static void zstd_finish(struct source *source)
{
    struct zstd *zstd = source->state;

    ZSTD_freeDStream(zstd->stream);
    free(zstd);
}

int zstd_start(struct source *source, struct error *err)
{
    struct zstd *zstd = xcalloc(1, sizeof(*zstd));
    int found;

    source->state = zstd;
    source->read = zstd_read;
    source->finish = zstd_finish;
    zstd->stream = ZSTD_createDStream();
    if (!zstd->stream)
        return error_set(err, "decompressing zstd: out of memory");
    /* 128 MiB, as `zstd --long` writes; more would need memory that a rank should not use. */
    ZSTD_DCtx_setParameter(zstd->stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    if (source->begin > 0) {
        found = find_frame(source, err);
        if (found < 0)
            return -1;
        zstd->empty = !found;
    }
    return 0;
}
