/* SPDX-License-Identifier: Apache-2.0 */
/* gzip: one or more members. BGZF files (bgzip, htslib) can be cut between members, because the
 * header of each contains its length. */
#include "codec.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BGZF_HEADER = 18, BGZF_CHAIN = 3 };

struct gzip {
    z_stream stream;
    int inside; /* a member has begun but not ended */
    int empty;  /* no member begins in the range */
};

/* The size of the BGZF member at 'h', or 0 if it is not one. */
static int64_t bgzf_size(const unsigned char *h)
{
    if (memcmp(h, "\x1f\x8b\x08\x04", 4) != 0 || h[10] != 6 || h[11] != 0 ||
        memcmp(h + 12, "BC\x02\x00", 4) != 0)
        return 0;
    return (int64_t)(h[16] | h[17] << 8) + 1;
}

/* Does a chain of members begin at 'position'? One header may be a coincidence, three in a row are
 * not. */
static int bgzf_chain(int fd, int64_t position, int64_t size)
{
    unsigned char header[BGZF_HEADER];

    for (int i = 0; i < BGZF_CHAIN && position < size; i++) {
        int64_t length;

        if (file_read_at(fd, header, sizeof(header), position) != (ssize_t)sizeof(header))
            return 0;
        length = bgzf_size(header);
        if (length == 0)
            return 0;
        position += length;
    }
    return position <= size;
}

int gzip_can_cut(int fd, int64_t size)
{
    return bgzf_chain(fd, 0, size);
}

/* Move to the first member that begins at or after source->begin. Returns 1, or 0 if there is
 * none. */
static int find_member(struct source *source, struct error *err)
{
    struct input *input = &source->input;

    while (input->position < source->end) {
        ssize_t have = input_fill(source, BGZF_HEADER, err);

        if (have < 0)
            return -1;
        if (have < BGZF_HEADER)
            return 0;
        if (bgzf_size(input->bytes + input->at) > 0 &&
            bgzf_chain(input->fd, input->position, source->size))
            return 1;
        input_take(source, 1);
    }
    return 0;
}

/* Is there another member? Only zeros may follow the last one (tapes, padded objects). */
static int next_member(struct source *source, struct error *err)
{
    struct input *input = &source->input;

    for (;;) {
        ssize_t have = input_fill(source, 2, err);
        const unsigned char *bytes = input->bytes + input->at;

        if (have <= 0)
            return (int)have;
        if (bytes[0] == 0) {
            input_take(source, 1);
            continue;
        }
        if (have < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b)
            return source_corrupt(source, "the gzip data is followed by something else", err);
        /* find_member skips members that are truncated or from another program; they are read
         * here. */
        if (source->boundary < 0 && source->end < source->size && input->position >= source->end &&
            bgzf_chain(input->fd, input->position, source->size))
            source->boundary = source->delivered;
        return 1;
    }
}

static ssize_t gzip_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct gzip *gzip = source->state;
    z_stream *stream = &gzip->stream;

    if (gzip->empty)
        return 0;
    if (size > 1 << 30)
        size = 1 << 30;
    stream->next_out = buffer;
    stream->avail_out = (uInt)size;
    while (stream->avail_out == size) {
        ssize_t have;
        int rc;

        if (!gzip->inside) {
            rc = next_member(source, err);
            if (rc <= 0)
                return rc;
            inflateReset(stream);
            gzip->inside = 1;
        }
        have = input_fill(source, 1, err);
        if (have < 0)
            return -1;
        stream->next_in = source->input.bytes + source->input.at;
        stream->avail_in = (uInt)have;
        rc = inflate(stream, Z_NO_FLUSH);
        input_take(source, (size_t)have - stream->avail_in);
        if (rc == Z_STREAM_END)
            gzip->inside = 0;
        else if (rc == Z_BUF_ERROR && have == 0)
            return source_truncated(source, err);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return source_corrupt(source, stream->msg ? stream->msg : "invalid gzip data", err);
    }
    return (ssize_t)(size - stream->avail_out);
}

static void gzip_finish(struct source *source)
{
    struct gzip *gzip = source->state;

    inflateEnd(&gzip->stream);
    free(gzip);
}

int gzip_start(struct source *source, struct error *err)
{
    struct gzip *gzip = xcalloc(1, sizeof(*gzip));
    int found;

    if (inflateInit2(&gzip->stream, 15 + 16) != Z_OK) {
        free(gzip);
        return error_set(err, "decompressing gzip: out of memory");
    }
    source->state = gzip;
    source->read = gzip_read;
    source->finish = gzip_finish;
    source->memory = 48 << 10;
    if (source->begin > 0) {
        found = find_member(source, err);
        if (found < 0)
            return -1;
        gzip->empty = !found;
    }
    return 0;
}
