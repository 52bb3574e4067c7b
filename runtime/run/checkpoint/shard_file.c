/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shard_file.h"
#include "lib/checksum.h"
#include "lib/file.h"
#include "base/core/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define FLUSH_BYTES \
    ((int64_t)32 << 20) /* start writeback from this many bytes on, to keep the disk busy */

static const char *const array_names[] = {"weight", "moment1", "moment2"};

struct writer {
    const char *path;
    int fd;
    unsigned char *block;
    size_t used;
    int64_t at, flushed; /* offset in the file */
    uint64_t *sums;
    int64_t sum_count;
    atomic_int_fast64_t *moved;
};

/* The header, padded to whole pages. */
static char *make_header(const struct parameters *parameters, const struct pieces *pieces,
                         int arrays, int64_t blocks, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    int64_t at = 0;
    uint64_t length;

    if (!f)
        return NULL;
    fwrite("\0\0\0\0\0\0\0\0", 1, 8, f);
    fprintf(f, "{\"__metadata__\":{\"format\":\"megatron checkpoint\"}");
    for (int a = 0; a < arrays; a++)
        for (int i = 0; i < pieces->count; i++) {
            int64_t count = pieces->list[i].count;

            fprintf(f,
                    ",\"%s/%s\":{\"dtype\":\"F32\",\"shape\":[%" PRId64
                    "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                    array_names[a], parameters->list[pieces->list[i].parameter].name, count, 4 * at,
                    4 * (at + count));
            at += count;
        }
    fprintf(f,
            ",\"checksums\":{\"dtype\":\"U64\",\"shape\":[%" PRId64 "],\"data_offsets\":[%" PRId64
            ",%" PRId64 "]}}",
            blocks, 4 * at, 4 * at + 8 * blocks);
    for (fflush(f); *size % PAGE != 0; fflush(f))
        fputc(' ', f);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    length = *size - 8;
    for (int i = 0; i < 8; i++)
        text[i] = (char)(length >> (8 * i) & 255);
    return text;
}

static void count_moved(void *context)
{
    moved_count(context);
}

static int write_bytes(struct writer *w, const void *bytes, size_t count, struct error *err)
{
    if (file_write_at(w->fd, bytes, count, w->at) < 0)
        return error_set_errno(err, errno, "cannot write %s", w->path);
    w->at += (int64_t)count;
    moved_count(w->moved);
    if (w->at - w->flushed >= FLUSH_BYTES) {
        sync_file_range(w->fd, w->flushed, w->at - w->flushed, SYNC_FILE_RANGE_WRITE);
        w->flushed = w->at;
    }
    return 0;
}

static int end_block(struct writer *w, struct error *err)
{
    size_t used = w->used;

    if (used == 0)
        return 0;
    w->sums[w->sum_count++] = checksum_of(w->block, used);
    w->used = 0;
    return write_bytes(w, w->block, used, err);
}

static int add_bytes(struct writer *w, const void *bytes, size_t count, struct error *err)
{
    for (size_t done = 0; done < count;) {
        size_t part = SHARD_BLOCK - w->used;

        /* A whole block needs no copy. */
        if (w->used == 0 && count - done >= SHARD_BLOCK) {
            w->sums[w->sum_count++] = checksum_of((const char *)bytes + done, SHARD_BLOCK);
            if (write_bytes(w, (const char *)bytes + done, SHARD_BLOCK, err) < 0)
                return -1;
            done += SHARD_BLOCK;
            continue;
        }
        part = part < count - done ? part : count - done;
        memcpy(w->block + w->used, (const char *)bytes + done, part);
        w->used += part;
        done += part;
        if (w->used == SHARD_BLOCK && end_block(w, err) < 0)
            return -1;
    }
    return 0;
}

static int write_all(struct writer *w, const char *header, size_t header_size,
                     const struct pieces *pieces, const float *const *arrays, int array_count,
                     struct index_file *file, struct error *err)
{
    struct checksum sum;

    /* Detect a full disk here rather than minutes later; not all file systems support it. */
    if (fallocate(w->fd, 0, 0, file->bytes) < 0 && (errno == ENOSPC || errno == EFBIG))
        return error_set_errno(err, errno, "%s: cannot allocate %" PRId64 " bytes", w->path,
                               file->bytes);
    if (write_bytes(w, header, header_size, err) < 0)
        return -1;
    for (int a = 0; a < array_count; a++)
        for (int i = 0; i < pieces->count; i++)
            if (add_bytes(w, arrays[a] + pieces->list[i].shard,
                          (size_t)pieces->list[i].count * sizeof(float), err) < 0)
                return -1;
    if (end_block(w, err) < 0 ||
        write_bytes(w, w->sums, (size_t)w->sum_count * sizeof(*w->sums), err) < 0)
        return -1;
    checksum_begin(&sum);
    checksum_add(&sum, header, header_size);
    checksum_add(&sum, w->sums, (size_t)w->sum_count * sizeof(*w->sums));
    file->checksum = checksum_end(&sum);
    return file_flush(w->fd, count_moved, w->moved) < 0
               ? error_set_errno(err, errno, "cannot write %s", w->path)
               : 0;
}

int shard_file_write(const char *path, const struct parameters *parameters,
                     const struct pieces *pieces, const float *const *arrays, int array_count,
                     struct index_file *file, atomic_int_fast64_t *moved, struct error *err)
{
    int64_t bytes = pieces->elements * array_count * 4, blocks = shard_blocks(bytes);
    struct writer w = {.path = path, .fd = -1, .moved = moved};
    size_t header_size;
    char *header = make_header(parameters, pieces, array_count, blocks, &header_size);
    int rc = -1;

    w.block = malloc(SHARD_BLOCK);
    w.sums = malloc((size_t)(blocks + 1) * sizeof(*w.sums));
    if (!header || !w.block || !w.sums) {
        error_set(err, "out of memory");
    } else {
        file->elements = pieces->elements;
        file->data = (int64_t)header_size;
        file->bytes = file->data + bytes + 8 * blocks;
        w.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (w.fd < 0)
            error_set_errno(err, errno, "cannot write %s", path);
        else
            rc = write_all(&w, header, header_size, pieces, arrays, array_count, file, err);
        if (w.fd >= 0 && close(w.fd) < 0 && rc == 0)
            rc = error_set_errno(err, errno, "cannot write %s", path);
    }
    free(header);
    free(w.block);
    free(w.sums);
    return rc;
}
