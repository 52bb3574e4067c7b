/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "lib/checksum.h"
#include "base/core/xmalloc.h"
#include "directory.h"
#include "base/core/storage.h"
#include "shard_file.h"
#include "base/core/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough to keep a disk busy while some threads compute checksums; ranks share a node, and some
 * file systems prefer few readers. */
enum { READERS = 4, PART = 256 << 10 };

struct shard_reader {
    int fd;
    char path[PATH_MAX];
    int64_t data, elements, bytes; /* size of the arrays in bytes */
    uint64_t *sums;
};

static int read_bytes(struct shard_reader *r, void *out, size_t count, int64_t at,
                      struct error *err)
{
    ssize_t got = file_read_at(r->fd, out, count, at);
    int number = errno;

    if ((size_t)got == count)
        return 0;
    if (got < 0) {
        error_set_errno(err, number, "cannot read %s", r->path);
        return index_fault(number, err);
    }
    error_set(err, "%s is truncated", r->path);
    return index_damaged(err);
}

/* Compare header and checksums with the index. */
static int check_head(struct shard_reader *r, const struct index_file *file, int64_t blocks,
                      struct error *err)
{
    char *header = malloc((size_t)file->data + 1);
    struct checksum sum;
    int rc;

    if (!header)
        return error_set(err, "out of memory");
    rc = read_bytes(r, header, (size_t)file->data, 0, err);
    if (rc == 0)
        rc = read_bytes(r, r->sums, (size_t)blocks * sizeof(*r->sums), r->data + r->bytes, err);
    if (rc == 0) {
        checksum_begin(&sum);
        checksum_add(&sum, header, (size_t)file->data);
        checksum_add(&sum, r->sums, (size_t)blocks * sizeof(*r->sums));
        if (checksum_end(&sum) != file->checksum) {
            error_set(err, "%s is damaged: its header or its checksums changed", r->path);
            rc = index_damaged(err);
        }
    }
    free(header);
    return rc;
}

static int open_reader(struct shard_reader *r, const struct index_file *file, struct error *err)
{
    struct stat status;
    int64_t blocks = shard_blocks(r->bytes);

    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &status) < 0) {
        int number = errno;

        error_set_errno(err, number, "cannot open %s", r->path);
        return index_fault(number, err);
    }
    if (file->bytes != r->data + r->bytes + 8 * blocks || status.st_size != file->bytes) {
        error_set(err, "%s has %lld bytes, but %" PRId64 " are expected", r->path,
                  (long long)status.st_size, file->bytes);
        return index_damaged(err);
    }
    r->sums = malloc((size_t)(blocks + 1) * sizeof(*r->sums));
    if (!r->sums)
        return error_set(err, "out of memory");
    posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return check_head(r, file, blocks, err);
}

int shard_reader_open(struct shard_reader **reader, const char *directory,
                      const struct index_file *file, int arrays, struct error *err)
{
    struct shard_reader *r = *reader = xcalloc(1, sizeof(*r));

    r->fd = -1;
    r->data = file->data;
    r->elements = file->elements;
    r->bytes = file->elements * 4 * arrays;
    if (directory_path(r->path, err, "%s/%s", directory, file->name) < 0)
        return -1;
    return open_reader(r, file, err);
}

void shard_reader_close(struct shard_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r->sums);
    free(r);
}

static size_t size_of_block(const struct shard_reader *r, int64_t number)
{
    int64_t left = r->bytes - number * (int64_t)SHARD_BLOCK;

    return left < (int64_t)SHARD_BLOCK ? (size_t)left : SHARD_BLOCK;
}

/* Read a whole block to 'out'. Each part is checksummed while it is in the CPU cache. */
static int read_block(struct shard_reader *r, int64_t number, char *out, struct error *err)
{
    int64_t first = number * (int64_t)SHARD_BLOCK;
    size_t size = size_of_block(r, number);
    struct checksum sum;

    checksum_begin(&sum);
    for (size_t at = 0; at < size; at += PART) {
        size_t part = size - at < PART ? size - at : PART;
        int rc = read_bytes(r, out + at, part, r->data + first + (int64_t)at, err);

        if (rc < 0)
            return rc;
        checksum_add(&sum, out + at, part);
    }
    if (checksum_end(&sum) == r->sums[number])
        return 0;
    error_set(err, "%s is damaged between bytes %" PRId64 " and %" PRId64, r->path, r->data + first,
              r->data + first + (int64_t)size - 1);
    return index_damaged(err);
}

/* State shared by the threads. */
struct reading {
    struct shard_reader *reader;
    const struct shard_sink *sink;
    int64_t count; /* number of blocks */
    atomic_int_fast64_t next;
    atomic_int failed;
    struct {
        int rc;
        struct error err;
    } ends[READERS]; /* first error of the threads */
};

static int read_to_sink(struct reading *reading, int64_t number, char *block, struct error *err)
{
    struct shard_reader *r = reading->reader;
    const struct shard_sink *sink = reading->sink;
    int64_t first = number * (int64_t)(SHARD_BLOCK / 4);
    int64_t count = (int64_t)(size_of_block(r, number) / 4);
    float *to = NULL;
    int rc;

    if (!sink->wants(sink->context, first, count, &to))
        return 0;
    /* Prefetch what this thread is likely to read next, so that the disk stays busy while it
     * computes checksums. */
    posix_fadvise(r->fd, r->data + (number + READERS) * (int64_t)SHARD_BLOCK, SHARD_BLOCK,
                  POSIX_FADV_WILLNEED);
    rc = read_block(r, number, to ? (char *)to : block, err);
    if (rc == 0 && !to)
        sink->take(sink->context, first, count, (const float *)(const void *)block);
    return rc;
}

/* A thread: processes one block after another. */
static void read_some(void *context, int64_t thread)
{
    struct reading *reading = context;
    struct error *err = &reading->ends[thread].err;
    void *block = xmalloc(SHARD_BLOCK);
    int64_t number;
    int rc = 0;

    while (rc == 0 && !reading->failed &&
           (number = atomic_fetch_add(&reading->next, 1)) < reading->count)
        rc = read_to_sink(reading, number, block, err);
    if (rc < 0)
        reading->failed = 1;
    reading->ends[thread].rc = rc;
    free(block);
}

int shard_reader_read(struct shard_reader *r, const struct shard_sink *sink, struct error *err)
{
    struct reading reading = {.reader = r, .sink = sink, .count = shard_blocks(r->bytes)};
    int readers = reading.count < READERS ? (int)reading.count : READERS;

    if (readers > 1) {
        struct threads *threads = threads_create(readers, err);

        if (!threads)
            return -1;
        threads_run(threads, readers, read_some, &reading);
        threads_destroy(threads);
    } else {
        read_some(&reading, 0);
    }
    for (int i = 0; i < READERS; i++)
        if (reading.ends[i].rc < 0) {
            *err = reading.ends[i].err;
            return reading.ends[i].rc;
        }
    return 0;
}

static int wants_all(void *context, int64_t first, int64_t count, float **to)
{
    (void)context, (void)first, (void)count, (void)to;
    return 1;
}

static void take_none(void *context, int64_t first, int64_t count, const float *elements)
{
    (void)context, (void)first, (void)count, (void)elements;
}

int shard_reader_verify(struct shard_reader *r, struct error *err)
{
    static const struct shard_sink sink = {wants_all, take_none, NULL};

    return shard_reader_read(r, &sink, err);
}
