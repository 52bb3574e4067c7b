/* Bytes of an input file, decompressed, from any place where its format allows a start.
 *
 * A file is cut by byte ranges of what lies on disk. A format has units that can be decompressed on
 * their own: bytes of a plain file, blocks of xz and bzip2, frames of zstd, members of BGZF. The
 * range [begin, end) stands for the units that begin in it, so that neighbours agree on the cut
 * without talking to each other and without an index of the file. A unit that a search from the cut
 * would pass over, because it is damaged, belongs to the range before. A source goes on beyond its
 * range, for the line that straddles the cut, and says where its own part ended. */
#ifndef MEGATRON_CORPUS_SOURCE_H
#define MEGATRON_CORPUS_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "error.h"

enum codec {
    CODEC_PLAIN,
    CODEC_GZIP,
    CODEC_XZ,
    CODEC_ZSTD,
    CODEC_BZIP2,
    CODEC_UNKNOWN, /* found out by the first bytes when the source is opened */
};

/* "plain", "gzip", "xz", ... */
const char *codec_name(enum codec codec);

/* Is the codec part of this build? */
int codec_built(enum codec codec);

/* The codec that 'size' first bytes of a file show. */
enum codec codec_of_bytes(const void *bytes, size_t size);

/* Fails where 'bytes', the first of the file at 'path' when decompressed, are those of a tar
 * archive: its headers would pass for text, and what follows each on its line would be lost. */
int source_check_tar(const char *path, const void *bytes, size_t size, struct error *err);

/* Look at the first bytes of the file at 'path'. Fails where it cannot be read, where it is a tar
 * archive, or where its codec is not in this build; the error names the package to build with. */
int source_probe(const char *path, enum codec *codec, struct error *err);

/* Can the file be started in its middle? Looks at its structure, never at all of it. */
int source_can_cut(const char *path, enum codec codec, int64_t size);

struct source;

#define SOURCE_TO_END INT64_MAX

/* Open the units that begin in [begin, end) of the file at 'path' ("-": standard input, only as a
 * whole). 'size' is the file's expected size, -1 if unknown: a file that has changed since is an
 * error. Caller must close. */
struct source *source_open(const char *path, enum codec codec, int64_t size, int64_t begin,
                           int64_t end, struct error *err);
void source_close(struct source *source);

/* Read up to 'size' bytes. Returns how many; 0 at the end of the file, or at once where no unit
 * begins in the range; -1 on error: the file is truncated, corrupt or unreadable. */
ssize_t source_read(struct source *source, void *buffer, size_t size, struct error *err);

/* Where in the bytes delivered since the open the first unit beyond the range begins; -1 as long as
 * it has not been reached. Never reached in the last range of a file. */
int64_t source_boundary(const struct source *source);

/* Did a read fail because the file ends in the middle of its data? */
int source_is_truncated(const struct source *source);

/* How far into the file on disk it has read. */
int64_t source_position(const struct source *source);

/* Bytes of memory that the decompressor holds, about. */
size_t source_memory(const struct source *source);

#endif
