/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "bytes.h"
#include "disk.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* The capacity for 'more' further bytes. */
static size_t capacity_for(const struct bytes *bytes, size_t more)
{
    return bytes->size + more > bytes->capacity ? (bytes->size + more) * 2 + 64 : bytes->capacity;
}

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
    size_t capacity = capacity_for(bytes, size);

    if (capacity > bytes->capacity) {
        bytes->data = xrealloc(bytes->data, capacity, 1);
        bytes->capacity = capacity;
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

int bytes_reserve(struct bytes *bytes, size_t more)
{
    size_t capacity = capacity_for(bytes, more);
    unsigned char *data;

    if (capacity == bytes->capacity)
        return 0;
    data = realloc(bytes->data, capacity);
    if (!data)
        return -1;
    bytes->data = data;
    bytes->capacity = capacity;
    return 0;
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

    return at ? xstrndup(at, length) : NULL;
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

    bytes_put_u64(bytes, seal(bytes, bytes->size));
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
