/* SPDX-License-Identifier: Apache-2.0 */
/* The decompressed bytes of an input file, from any position where its format allows a start.
 * A file is split by byte ranges on disk. A format has units that can be decompressed
 * independently: bytes of a plain file, blocks of xz and bzip2, frames of zstd, members of BGZF.
 * The range [begin, end) contains the units that begin in it, so neighboring ranges agree on the
 * boundary without communication and without an index of the file. A damaged unit that a search
 * from the boundary would skip belongs to the previous range. A source continues beyond its range,
 * for the line that crosses the boundary, and reports where its own range ended. */
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
    CODEC_UNKNOWN, /* detected from the first bytes when the source is opened */
};

/* The codec that 'size' first bytes of a file show. */
enum codec codec_of_bytes(const void *bytes, size_t size);

/* Fail if 'bytes', the first decompressed bytes of 'path', are those of an archive, a table or
 * another format that is not text: its headers would be taken for text, and what follows them would
 * be lost. */
int source_check_format(const char *path, const void *bytes, size_t size, struct error *err);

/* Detect the codec of the file at 'path' from its first bytes. Fails if it cannot be read, is not
 * text or has a codec that this build lacks; the error names the package to install. */
int source_probe(const char *path, enum codec *codec, struct error *err);

/* Can the file be split? Reads its structure, never all of it. */
int source_can_cut(const char *path, enum codec codec, int64_t size);

struct source;

#define SOURCE_TO_END INT64_MAX

/* Open the units that begin in [begin, end) of the file at 'path' ("-": standard input, only as a
 * whole). 'size' is the file's expected size, -1 if unknown: a file that has changed since is an
 * error. Caller must close. */
struct source *source_open(const char *path, enum codec codec, int64_t size, int64_t begin,
                           int64_t end, struct error *err);
void source_close(struct source *source);

/* Read up to 'size' bytes. Returns how many; 0 at the end of the file, or if no unit begins in the
 * range; -1 on error: the file is truncated, corrupt or unreadable. */
ssize_t source_read(struct source *source, void *buffer, size_t size, struct error *err);

/* Where in the bytes delivered since the open the first unit beyond the range begins; -1 as long as
 * it has not been reached. Never reached in the last range of a file. */
int64_t source_boundary(const struct source *source);

/* Did a read fail because the file ends in the middle of its data? */
int source_is_truncated(const struct source *source);

/* How far into the file on disk it has read. */
int64_t source_position(const struct source *source);

/* Approximate memory use of the decompressor, in bytes. */
size_t source_memory(const struct source *source);

#endif
