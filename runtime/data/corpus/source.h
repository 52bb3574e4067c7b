/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the decompressed bytes of an input file, from any position where its format allows a start.
 *
 *     source = source_open(path, codec, size, begin, end, &err);
 *     while ((got = source_read(source, buffer, sizeof(buffer), &err)) > 0)
 *         use(buffer, got);
 *     source_close(source);
 *
 * A file is cut by byte ranges on disk. A format has units that can be decompressed independently:
 * bytes of a plain file, blocks of xz and bzip2, frames of zstd, members of BGZF. The range
 * [begin, end) contains the units that begin in it, so neighboring ranges agree on the boundary
 * without communication and without an index of the file. A damaged unit that a search from the
 * boundary would skip belongs to the previous range. A source continues beyond its range, for the
 * line that crosses the boundary, and reports where its own range ended. */
#ifndef MEGATRON_CORPUS_SOURCE_H
#define MEGATRON_CORPUS_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "lib/error.h"

enum codec {
    CODEC_PLAIN,
    CODEC_GZIP,
    CODEC_XZ,
    CODEC_ZSTD,
    CODEC_BZIP2,
    CODEC_UNKNOWN, /* detected when the source is opened */
};

/* Detect the codec by the first 'size' bytes of a file. */
enum codec codec_of_bytes(const void *bytes, size_t size);

/* Fails if 'bytes', the first decompressed bytes of 'path', show an archive, a table or another
 * format that is not text. */
int source_check_format(const char *path, const void *bytes, size_t size, struct error *err);

/* Detect the codec of the file at 'path' from its first bytes. Fails if it cannot be read, is not
 * text or has a codec that this build lacks; the error names the package to install. */
int source_probe(const char *path, enum codec *codec, struct error *err);

/* Can the file be cut? Reads its structure, never all of it. */
int source_can_cut(const char *path, enum codec codec, int64_t size);

struct source;

#define SOURCE_TO_END INT64_MAX

/* Open the units that begin in [begin, end) of the file at 'path' ("-": standard input, as a whole
 * only). 'size' is the expected size of the file, or -1; it is an error if the file has changed.
 * Caller must close. */
struct source *source_open(const char *path, enum codec codec, int64_t size, int64_t begin,
                           int64_t end, struct error *err);
void source_close(struct source *source);

/* Read up to 'size' bytes. Returns their number; 0 at the end of the file, or if no unit begins in
 * the range; -1 if the file is truncated, corrupt or unreadable. */
ssize_t source_read(struct source *source, void *buffer, size_t size, struct error *err);

/* The offset, in the bytes delivered so far, of the first unit beyond the range; -1 until it is
 * reached. It is never reached in the last range of a file. */
int64_t source_boundary(const struct source *source);

/* Did a read fail because the file is truncated? */
int source_is_truncated(const struct source *source);

/* The read position on disk. */
int64_t source_position(const struct source *source);

/* Approximate memory use of the decompressor. */
size_t source_memory(const struct source *source);

#endif
