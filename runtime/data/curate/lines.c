/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lines.h"
#include "data/jobs/disk.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* FRAME: a zstd frame of this much text is worth a thread. */
enum { FRAME = 4 << 20, PLAIN = 1 << 20, LEVEL = 3 };

struct lines {
    int fd, packed;
    char draft[DISK_PATH], path[DISK_PATH];
    char *data;
    size_t size, capacity;
    char *frame;
    size_t frame_capacity;
    int64_t total, written;
#ifdef HAVE_ZSTD
    ZSTD_CCtx *context;
#endif
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);

    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

int lines_codec(const char *path, struct error *err)
{
    static const char *const others[] = {".gz", ".xz", ".bz2", ".lz4"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (ends_with(path, others[i]))
            return error_set_code(
                err, ERROR_USAGE,
                "%s: output is written as .jsonl or .jsonl.zst, not %s; choose such a name", path,
                others[i]);
    if (!ends_with(path, ".zst"))
        return 0;
#ifdef HAVE_ZSTD
    return 1;
#else
    return error_set_code(err, ERROR_USAGE,
                          "%s: this build cannot write .zst; install libzstd-dev and configure "
                          "again",
                          path);
#endif
}

struct lines *lines_create(struct job *job, const char *name, int packed, struct error *err)
{
    struct lines *lines = xcalloc(1, sizeof(*lines));

    lines->fd = -1;
    lines->packed = packed;
    lines->capacity = packed ? FRAME : PLAIN;
    lines->data = xmalloc(lines->capacity);
#ifdef HAVE_ZSTD
    if (packed) {
        lines->frame_capacity = ZSTD_compressBound(lines->capacity);
        lines->frame = xmalloc(lines->frame_capacity);
        lines->context = ZSTD_createCCtx();
    }
    if (packed && !lines->context) {
        error_set(err, "zstd: out of memory");
        goto fail;
    }
#endif
    if (job_draft(job, name, lines->draft, err) < 0 ||
        jobs_path(job->engine, job->phase, name, job->number, lines->path, err) < 0)
        goto fail;
    lines->fd = open(lines->draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (lines->fd >= 0)
        return lines;
    error_set_errno(err, errno, "cannot create %s", lines->draft);
fail:
    lines_abandon(lines);
    return NULL;
}

static int write_out(struct lines *lines, const void *data, size_t size, struct error *err)
{
    if (disk_pwrite(lines->fd, data, size, lines->written, lines->draft, err) < 0)
        return -1;
    lines->written += (int64_t)size;
    return 0;
}

static int flush(struct lines *lines, struct error *err)
{
    size_t size = lines->size;

    lines->size = 0;
    if (size == 0)
        return 0;
#ifdef HAVE_ZSTD
    if (lines->packed) {
        size_t packed = ZSTD_compressCCtx(lines->context, lines->frame, lines->frame_capacity,
                                          lines->data, size, LEVEL);

        if (ZSTD_isError(packed))
            return error_set(
                err,
                "%s: zstd: %s; raise the memory limit of the job (sbatch --mem), and run again",
                lines->draft, ZSTD_getErrorName(packed));
        return write_out(lines, lines->frame, packed, err);
    }
#endif
    return write_out(lines, lines->data, size, err);
}

int lines_put(struct lines *lines, const void *data, size_t size, struct error *err)
{
    const char *from = data;

    lines->total += (int64_t)size;
    while (size > 0) {
        size_t room = lines->capacity - lines->size, part = size < room ? size : room;

        memcpy(lines->data + lines->size, from, part);
        lines->size += part;
        from += part;
        size -= part;
        if (lines->size == lines->capacity && flush(lines, err) < 0)
            return -1;
    }
    return 0;
}

int64_t lines_at(const struct lines *lines)
{
    return lines->total;
}

int lines_finish(struct lines *lines, int64_t *size, struct error *err)
{
    int rc = flush(lines, err);

    if (rc == 0 && fsync(lines->fd) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", lines->draft);
    if (rc == 0 && rename(lines->draft, lines->path) < 0)
        rc = error_set_errno(err, errno, "cannot rename %s", lines->draft);
    *size = lines->written;
    if (rc == 0)
        lines->draft[0] = '\0';
    lines_abandon(lines);
    return rc;
}

void lines_abandon(struct lines *lines)
{
    if (!lines)
        return;
    if (lines->fd >= 0)
        close(lines->fd);
    if (lines->fd >= 0 && lines->draft[0])
        unlink(lines->draft);
#ifdef HAVE_ZSTD
    ZSTD_freeCCtx(lines->context);
#endif
    free(lines->data);
    free(lines->frame);
    free(lines);
}
