/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "bytes.h"
#include "disk.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = (bytes->size + size) * 2 + 64;
        bytes->data = xrealloc(bytes->data, bytes->capacity, 1);
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void bytes_put_u64(struct bytes *bytes, uint64_t value)
{
    bytes_put(bytes, &value, sizeof(value));
}

void bytes_put_text(struct bytes *bytes, const char *text)
{
    size_t length = text ? strlen(text) : 0;

    bytes_put_u64(bytes, length);
    bytes_put(bytes, text, length);
}

const void *bytes_take(struct bytes *bytes, size_t size)
{
    const void *at = bytes->data + bytes->at;

    if (bytes->failed || size > bytes->size - bytes->at) {
        bytes->failed = 1;
        return NULL;
    }
    bytes->at += size;
    return at;
}

uint64_t bytes_take_u64(struct bytes *bytes)
{
    uint64_t value = 0;
    const void *at = bytes_take(bytes, sizeof(value));

    if (at)
        memcpy(&value, at, sizeof(value));
    return value;
}

char *bytes_take_text(struct bytes *bytes)
{
    size_t length = bytes_take_u64(bytes);
    const char *at = bytes_take(bytes, length);
    char *text = at ? strndup(at, length) : NULL;

    if (!text)
        bytes->failed = 1;
    return text;
}

void bytes_clear(struct bytes *bytes)
{
    free(bytes->data);
    memset(bytes, 0, sizeof(*bytes));
}

/* The checksum, seeded with the magic number. */
static uint64_t seal(const struct bytes *bytes, size_t size)
{
    uint64_t magic = 0;

    memcpy(&magic, bytes->data, sizeof(magic));
    return checksum_seeded(bytes->data, size, magic);
}

void bytes_begin(struct bytes *bytes, uint64_t magic)
{
    memset(bytes, 0, sizeof(*bytes));
    bytes_put_u64(bytes, magic);
}

int bytes_save(struct bytes *bytes, const char *path, int first, struct error *err)
{
    int rc;

    if (!bytes->failed)
        bytes_put_u64(bytes, seal(bytes, bytes->size));
    if (bytes->failed)
        rc = error_set(err, "%s: out of memory", path);
    else
        rc = file_write_whole(path, bytes->data, bytes->size, first ? FILE_KEEP : 0, err);
    bytes_clear(bytes);
    return rc;
}

int bytes_load(struct bytes *bytes, uint64_t magic, const char *path, struct error *err)
{
    struct file_bytes file;
    uint64_t check;
    int rc;

    memset(bytes, 0, sizeof(*bytes));
    rc = disk_read_file(path, (size_t)1 << 32, &file, err);
    if (rc != 0)
        return rc;
    bytes->data = (unsigned char *)file.data;
    bytes->size = file.length;
    if (bytes->size >= 16) {
        bytes->size -= sizeof(check);
        memcpy(&check, bytes->data + bytes->size, sizeof(check));
        if (bytes_take_u64(bytes) == magic && check == seal(bytes, bytes->size))
            return 0;
    }
    bytes_clear(bytes);
    return 1;
}
