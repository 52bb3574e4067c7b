/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "index_file.h"
#include "indexed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/core/xmalloc.h"

enum { HEADER_SIZE = 8192, DESCRIPTION_SIZE = 7936, ALIGNMENT = 4096 };

/* The header of a file; the arrays follow, each at a multiple of ALIGNMENT. */
struct header {
    char magic[8];
    int64_t size; /* of the whole file */
    struct index_layout layout;
    char description[DESCRIPTION_SIZE];
};
_Static_assert(sizeof(struct header) <= HEADER_SIZE, "the header has a fixed size");
static const char magic[8] = "MGTINDX1";

struct index_file {
    char *path;
    int fd;
    int64_t at[INDEX_ARRAYS], size;
    struct index_layout layout;
};

struct index_writer {
    struct index_file file;
    char *description;
};

/* Compute the offsets of the arrays; -1 if the counts are impossible. */
static int place_arrays(struct index_file *file)
{
    int64_t at = HEADER_SIZE;

    for (int i = 0; i < INDEX_ARRAYS; i++) {
        int64_t width = file->layout.array[i].width, count = file->layout.array[i].count, size;

        if (width < 0 || width > 16 || count < 0 || __builtin_mul_overflow(width, count, &size) ||
            size > INT64_MAX / 8 || at > INT64_MAX / 8)
            return -1;
        file->at[i] = at;
        at += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    file->size = at;
    return 0;
}

static int write_all(const struct index_file *file, const void *data, size_t size, int64_t offset,
                     struct error *err)
{
    if (file_write_at(file->fd, data, size, offset) < 0)
        return error_set_errno(err, errno, "%s: cannot write at offset %" PRId64, file->path,
                               offset);
    return 0;
}

static int check_range(const struct index_file *file, int which, int64_t first, int64_t count,
                       struct error *err)
{
    int64_t entries = file->layout.array[which].count;

    if (first < 0 || count < 0 || first > entries || count > entries - first)
        return error_set(err,
                         "%s: %" PRId64 " elements from number %" PRId64
                         " of array %d were requested, but it has %" PRId64
                         "; the file may be damaged: remove it and run again",
                         file->path, count, first, which, entries);
    return 0;
}

int index_file_read(const struct index_file *file, int which, int64_t first, int64_t count,
                    void *out, struct error *err)
{
    int64_t width = file->layout.array[which].width;

    if (check_range(file, which, first, count, err) < 0)
        return -1;
    return dataset_read_at(file->fd, file->path, out, (size_t)(count * width),
                           file->at[which] + first * width, err);
}

const struct index_layout *index_file_layout(const struct index_file *file)
{
    return &file->layout;
}

const char *index_file_path(const struct index_file *file)
{
    return file->path;
}

void index_file_close(struct index_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file);
}

/* Does 'file' start with a header for 'description', and does its size match the header? */
static int is_whole(struct index_file *file, const struct header *header, const char *description)
{
    struct stat status;

    if (memcmp(header->magic, magic, sizeof(magic)) != 0 ||
        strncmp(header->description, description, DESCRIPTION_SIZE) != 0)
        return 0;
    file->layout = header->layout;
    return place_arrays(file) == 0 && header->size == file->size && fstat(file->fd, &status) == 0 &&
           status.st_size == file->size;
}

int index_file_open(const char *path, const char *description, struct index_file **result,
                    struct error *err)
{
    struct index_file *file = xcalloc(1, sizeof(*file));
    struct header header;
    int status = 0;

    *result = NULL;
    file->path = xstrdup(path);
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 && errno != ENOENT && errno != ENOTDIR)
        status = error_set_errno(err, errno, "%s: cannot open", path);
    else if (file->fd >= 0 && pread(file->fd, &header, sizeof(header), 0) == sizeof(header) &&
             is_whole(file, &header, description))
        *result = file;
    if (!*result)
        index_file_close(file);
    return status;
}

struct index_writer *index_writer_create(const char *path, const char *description,
                                         struct error *err)
{
    struct index_writer *writer = xcalloc(1, sizeof(*writer));

    writer->file.path = xstrdup(path);
    writer->description = xstrdup(description);
    writer->file.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->file.fd >= 0)
        return writer;
    error_set_errno(err, errno, "%s: cannot create", path);
    index_writer_destroy(writer);
    return NULL;
}

int index_writer_layout(struct index_writer *writer, const struct index_layout *layout,
                        struct error *err)
{
    writer->file.layout = *layout;
    if (place_arrays(&writer->file) < 0)
        return error_set(
            err, "%s: the index would be too large; train for fewer steps, or use less data",
            writer->file.path);
    if (ftruncate(writer->file.fd, writer->file.size) < 0)
        return error_set(err,
                         "cannot reserve %" PRId64 " bytes for %s: %s; free space, or choose "
                         "another data cache directory",
                         writer->file.size, writer->file.path, strerror(errno));
    return 0;
}

int index_writer_write(struct index_writer *writer, int which, int64_t first, int64_t count,
                       const void *data, struct error *err)
{
    int64_t width = writer->file.layout.array[which].width;

    if (check_range(&writer->file, which, first, count, err) < 0)
        return -1;
    return write_all(&writer->file, data, (size_t)(count * width),
                     writer->file.at[which] + first * width, err);
}

int index_writer_read(const struct index_writer *writer, int which, int64_t first, int64_t count,
                      void *out, struct error *err)
{
    return index_file_read(&writer->file, which, first, count, out, err);
}

int index_writer_finish(struct index_writer *writer, struct error *err)
{
    struct header header = {.size = writer->file.size, .layout = writer->file.layout};
    int status;

    memcpy(header.magic, magic, sizeof(magic));
    strncpy(header.description, writer->description, DESCRIPTION_SIZE - 1);
    status = write_all(&writer->file, &header, sizeof(header), 0, err);
    if (status == 0 && fsync(writer->file.fd) < 0)
        status = error_set_errno(err, errno, "%s: cannot sync it to disk", writer->file.path);
    return status;
}

void index_writer_destroy(struct index_writer *writer)
{
    if (!writer)
        return;
    if (writer->file.fd >= 0)
        close(writer->file.fd);
    free(writer->file.path);
    free(writer->description);
    free(writer);
}
