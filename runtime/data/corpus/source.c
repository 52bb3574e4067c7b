/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "codec.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *package;
    int built;
} codecs[] = {
    [CODEC_PLAIN] = {"plain", "", 1},
#ifdef HAVE_ZLIB
    [CODEC_GZIP] = {"gzip", "zlib1g-dev", 1},
#else
    [CODEC_GZIP] = {"gzip", "zlib1g-dev", 0},
#endif
#ifdef HAVE_LZMA
    [CODEC_XZ] = {"xz", "liblzma-dev", 1},
#else
    [CODEC_XZ] = {"xz", "liblzma-dev", 0},
#endif
#ifdef HAVE_ZSTD
    [CODEC_ZSTD] = {"zstd", "libzstd-dev", 1},
#else
    [CODEC_ZSTD] = {"zstd", "libzstd-dev", 0},
#endif
    [CODEC_BZIP2] = {"bzip2", "", 1},          [CODEC_UNKNOWN] = {"unknown", "", 1},
};

enum codec codec_of_bytes(const void *bytes, size_t size)
{
    static const struct {
        enum codec codec;
        const char *magic;
        size_t length;
    } rows[] = {
        {CODEC_GZIP, "\x1f\x8b\x08", 3},
        {CODEC_XZ, "\xfd\x37\x7a\x58\x5a\x00", 6},
        {CODEC_ZSTD, "\x28\xb5\x2f\xfd", 4},
        {CODEC_BZIP2, "BZh", 3},
    };
    const unsigned char *b = bytes;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (size >= rows[i].length && memcmp(bytes, rows[i].magic, rows[i].length) == 0)
            return rows[i].codec;
    /* pzstd begins its files with a skippable frame. */
    if (size >= 4 && (b[0] & 0xf0) == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18)
        return CODEC_ZSTD;
    return CODEC_PLAIN;
}

static int check_built(const char *path, enum codec codec, struct error *err)
{
    if (codecs[codec].built)
        return 0;
    return error_set(err, "%s is %s, which this build cannot read; install %s and build again",
                     path, codecs[codec].name, codecs[codec].package);
}

/* Formats that are not text, and advice. Each magic number contains a byte that cannot begin a
 * text, except that of WARC, which cannot begin a line of JSON. */
static const struct format {
    size_t place, length;
    const char *magic, *name, *remedy;
} formats[] = {
    {257, 8, "ustar\00000", "a tar archive", "unpack it first and name the files that were in it"},
    {257, 8, "ustar  \0", "a tar archive", "unpack it first and name the files that were in it"},
    {0, 5, "PAR1\x15", "a Parquet file",
     "convert it to JSON lines first, for example with pandas: read_parquet(...).to_json(..., "
     "orient='records', lines=True)"},
    {0, 8, "ARROW1\0\0", "an Arrow file",
     "convert it to JSON lines first, for example with Hugging Face datasets: "
     "Dataset.from_file(...).to_json(...)"},
    {0, 4, "\xff\xff\xff\xff", "an Arrow stream",
     "convert it to JSON lines first, for example with Hugging Face datasets: "
     "Dataset.from_file(...).to_json(...)"},
    {0, 7, "WARC/1.", "a WARC archive of web pages",
     "extract the text of its pages to JSON lines first"},
};

int source_check_format(const char *path, const void *bytes, size_t size, struct error *err)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const struct format *format = &formats[i];

        if (size >= format->place + format->length &&
            memcmp((const char *)bytes + format->place, format->magic, format->length) == 0)
            return error_set_code(err, ERROR_USAGE, "%s is %s; %s",
                                  strcmp(path, "-") == 0 ? "standard input" : path, format->name,
                                  format->remedy);
    }
    return 0;
}

int source_probe(const char *path, enum codec *codec, struct error *err)
{
    unsigned char bytes[512];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count;

    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    count = file_read_at(fd, bytes, sizeof(bytes), 0);
    close(fd);
    if (count < 0)
        return error_set_errno(err, errno, "cannot read %s", path);
    *codec = codec_of_bytes(bytes, (size_t)count);
    if (source_check_format(path, bytes, (size_t)count, err) < 0)
        return -1;
    return check_built(path, *codec, err);
}

int source_can_cut(const char *path, enum codec codec, int64_t size)
{
    int fd, answer = 0;

    (void)size; /* unused in builds without codecs */
    if (codec == CODEC_PLAIN || codec == CODEC_BZIP2)
        return 1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
#ifdef HAVE_ZLIB
    if (codec == CODEC_GZIP)
        answer = gzip_can_cut(fd, size);
#endif
#ifdef HAVE_LZMA
    if (codec == CODEC_XZ)
        answer = xz_can_cut(fd, size);
#endif
#ifdef HAVE_ZSTD
    if (codec == CODEC_ZSTD)
        answer = zstd_can_cut(fd, size);
#endif
    close(fd);
    return answer;
}

ssize_t input_fill(struct source *source, size_t want, struct error *err)
{
    struct input *input = &source->input;

    if (input->have - input->at >= want)
        return (ssize_t)(input->have - input->at);
    if (input->at > 0) {
        memmove(input->bytes, input->bytes + input->at, input->have - input->at);
        input->have -= input->at;
        input->at = 0;
    }
    while (input->have < want && !input->ended) {
        unsigned char *to = input->bytes + input->have;
        size_t room = INPUT_SIZE - input->have;
        ssize_t count = input->seekable
                            ? pread(input->fd, to, room, input->position + (int64_t)input->have)
                            : read(input->fd, to, room);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(err, errno, "cannot read %s", source->path);
        if (count == 0)
            input->ended = 1;
        input->have += (size_t)count;
    }
    return (ssize_t)input->have;
}

void input_take(struct source *source, size_t count)
{
    source->input.at += count;
    source->input.position += (int64_t)count;
}

int source_truncated(struct source *source, struct error *err)
{
    source->truncated = 1;
    return error_set(
        err, "%s is truncated: it ends at byte %lld in the middle of its data; copy it again",
        source->path, (long long)source->input.position);
}

int source_corrupt(const struct source *source, const char *what, struct error *err)
{
    return error_set(err, "%s is corrupt near byte %lld: %s; copy it again", source->path,
                     (long long)source->input.position, what);
}

static ssize_t plain_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    struct input *input = &source->input;
    size_t kept = input->have - input->at;

    if (kept > 0) {
        if (kept > size)
            kept = size;
        memcpy(buffer, input->bytes + input->at, kept);
        input_take(source, kept);
        return (ssize_t)kept;
    }
    for (;;) {
        ssize_t count = input->seekable ? pread(input->fd, buffer, size, input->position)
                                        : read(input->fd, buffer, size);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(err, errno, "cannot read %s", source->path);
        if (count == 0 && source->size >= 0 && input->position < source->size)
            return error_set(
                err, "%s was truncated while it was read; run again when nothing else writes to it",
                source->path);
        input->position += count;
        return count;
    }
}

static int plain_start(struct source *source)
{
    source->read = plain_read;
    if (source->end < source->size)
        source->boundary = source->end - source->begin;
    return 0;
}

static int start_codec(struct source *source, enum codec codec, struct error *err)
{
    if (check_built(source->path, codec, err) < 0)
        return -1;
    switch (codec) {
#ifdef HAVE_ZLIB
    case CODEC_GZIP:
        return gzip_start(source, err);
#endif
#ifdef HAVE_LZMA
    case CODEC_XZ:
        return xz_start(source, err);
#endif
#ifdef HAVE_ZSTD
    case CODEC_ZSTD:
        return zstd_start(source, err);
#endif
    case CODEC_BZIP2:
        return bzip2_start(source, err);
    default:
        return plain_start(source);
    }
}

static int open_file(struct source *source, int64_t size, struct error *err)
{
    struct stat status;

    if (strcmp(source->path, "-") == 0) {
        source->input.fd = STDIN_FILENO;
        source->size = -1;
        return 0;
    }
    source->input.seekable = 1;
    source->input.fd = open(source->path, O_RDONLY | O_CLOEXEC);
    if (source->input.fd < 0 || fstat(source->input.fd, &status) < 0)
        return error_set_errno(err, errno, "cannot open %s", source->path);
    source->size = status.st_size;
    if (size >= 0 && size != source->size)
        return error_set(err,
                         "%s has changed since the run began: %lld bytes, now %lld; restore it, or "
                         "start again with another output",
                         source->path, (long long)size, (long long)source->size);
    if (source->end > source->size)
        source->end = source->size;
    return 0;
}

struct source *source_open(const char *path, enum codec codec, int64_t size, int64_t begin,
                           int64_t end, struct error *err)
{
    struct source *source = xcalloc(1, sizeof(*source));

    source->input.fd = -1;
    source->boundary = -1;
    source->begin = begin;
    source->end = end;
    source->input.position = begin;
    source->input.bytes = xmalloc(INPUT_SIZE);
    source->path = xstrdup(path);
    if (open_file(source, size, err) < 0)
        goto fail;
    if (codec == CODEC_UNKNOWN) {
        ssize_t count = input_fill(source, 8, err);

        if (count < 0)
            goto fail;
        codec = codec_of_bytes(source->input.bytes, (size_t)count);
    }
    if (start_codec(source, codec, err) < 0)
        goto fail;
    return source;
fail:
    source_close(source);
    return NULL;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    if (source->finish)
        source->finish(source);
    if (source->input.fd > STDIN_FILENO)
        close(source->input.fd);
    free(source->input.bytes);
    free(source->path);
    free(source);
}

ssize_t source_read(struct source *source, void *buffer, size_t size, struct error *err)
{
    ssize_t count = source->read(source, buffer, size, err);

    if (count > 0)
        source->delivered += count;
    return count;
}

int64_t source_boundary(const struct source *source)
{
    return source->boundary;
}

int64_t source_position(const struct source *source)
{
    return source->input.position;
}

int source_is_truncated(const struct source *source)
{
    return source->truncated;
}

size_t source_memory(const struct source *source)
{
    return source->memory + INPUT_SIZE;
}
