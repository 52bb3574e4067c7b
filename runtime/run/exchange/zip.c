/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/crc.h"
#include "base/core/xmalloc.h"
#include "zip.h"

#include <stdlib.h>
#include <string.h>

/* Records and their fixed sizes. */
enum {
    LOCAL = 0x04034b50,
    LOCAL_SIZE = 30,
    ENTRY = 0x02014b50,
    ENTRY_SIZE = 46,
    END = 0x06054b50,
    END_SIZE = 22,
    END64 = 0x06064b50,
    END64_SIZE = 56,
    LOCATOR = 0x07064b50,
    LOCATOR_SIZE = 20,
    COMMENT_MOST = 65535,
    EXTRA_64 = 1,
};

struct zip {
    const unsigned char *bytes;
    size_t size;
    struct zip_member *members; /* by name */
    size_t count;
};

/* Where the list of members is. */
struct listing {
    uint64_t at, size, count;
};

static uint64_t number(const unsigned char *at, int size)
{
    uint64_t value = 0;

    for (int i = 0; i < size; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

int zip_is(const void *bytes, size_t size)
{
    return size >= END_SIZE && (number(bytes, 4) == LOCAL || number(bytes, 4) == END);
}

/* The record at the end, which may be followed by a comment. */
static const unsigned char *find_end(const struct zip *z)
{
    for (size_t back = END_SIZE; back <= z->size && back <= END_SIZE + COMMENT_MOST; back++) {
        const unsigned char *at = z->bytes + z->size - back;

        if (number(at, 4) == END && number(at + 20, 2) == back - END_SIZE)
            return at;
    }
    return NULL;
}

/* The ZIP64 record before it, for many or large members. */
static int read_end64(const struct zip *z, const unsigned char *end, struct listing *list,
                      struct error *err)
{
    uint64_t before = (uint64_t)(end - z->bytes), at;
    const unsigned char *end64;

    if (before < LOCATOR_SIZE || number(end - LOCATOR_SIZE, 4) != LOCATOR)
        return 0;
    at = number(end - LOCATOR_SIZE + 8, 8);
    if (before < LOCATOR_SIZE + END64_SIZE || at > before - LOCATOR_SIZE - END64_SIZE)
        return error_set(err, "the end of the zip archive is damaged; copy the file again");
    end64 = z->bytes + at;
    if (number(end64, 4) != END64 || number(end64 + 16, 4) != 0 || number(end64 + 20, 4) != 0)
        return error_set(err, "the end of the zip archive is damaged; copy the file again");
    *list = (struct listing){number(end64 + 48, 8), number(end64 + 40, 8), number(end64 + 32, 8)};
    return 0;
}

static int read_end(const struct zip *z, struct listing *list, struct error *err)
{
    const unsigned char *end = find_end(z);

    if (!end)
        return error_set(
            err, "it is not a complete zip archive: its end is missing; copy the file again");
    if (number(end + 4, 2) != 0 || number(end + 6, 2) != 0)
        return error_set(
            err, "it is part of a multi-file archive; save the checkpoint with torch.save again");
    *list = (struct listing){number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
    if (read_end64(z, end, list, err) < 0)
        return -1;
    if (list->at > z->size || list->size > z->size - list->at ||
        list->count > list->size / ENTRY_SIZE)
        return error_set(err,
                         "the list of members is outside the zip archive; copy the file again");
    return 0;
}

/* Sizes that do not fit into 32 bits are in an extra field, in this order, if needed. */
static int read_extra(const unsigned char *extra, size_t length, uint64_t *const values[3])
{
    static const uint64_t full = 0xFFFFFFFF;

    while (length >= 4) {
        size_t size = (size_t)number(extra + 2, 2), used = 0;

        if (size > length - 4)
            return -1;
        for (int i = 0; i < 3 && number(extra, 2) == EXTRA_64; i++) {
            if (*values[i] != full)
                continue;
            if (used + 8 > size)
                return -1;
            *values[i] = number(extra + 4 + used, 8);
            used += 8;
        }
        extra += 4 + size;
        length -= 4 + size;
    }
    return 0;
}

/* Find its data, using its own header. */
static int find_data(const struct zip *z, uint64_t at, uint64_t limit, struct zip_member *member)
{
    const unsigned char *local;
    uint64_t name, extra, left;

    if (at > limit || limit - at < LOCAL_SIZE || number(z->bytes + at, 4) != LOCAL)
        return -1;
    local = z->bytes + at;
    name = number(local + 26, 2);
    extra = number(local + 28, 2);
    left = limit - at - LOCAL_SIZE;
    if (name != member->length || name > left || extra > left - name ||
        member->size > left - name - extra ||
        memcmp(local + LOCAL_SIZE, member->name, member->length) != 0)
        return -1;
    member->data = local + LOCAL_SIZE + name + extra;
    return 0;
}

/* Read the entry at 'at', of at most 'left' bytes; returns its size, or -1. */
static int64_t read_entry(struct zip *z, const struct listing *list, const unsigned char *at,
                          uint64_t left, struct error *err)
{
    struct zip_member *member = &z->members[z->count];
    uint64_t packed, size, local, length, extra, comment;
    uint64_t *const values[3] = {&size, &packed, &local};

    if (left < ENTRY_SIZE || number(at, 4) != ENTRY)
        return error_set(err,
                         "the list of members of the zip archive is damaged; copy the file again");
    packed = number(at + 20, 4);
    size = number(at + 24, 4);
    local = number(at + 42, 4);
    length = number(at + 28, 2);
    extra = number(at + 30, 2);
    comment = number(at + 32, 2);
    if (length + extra + comment > left - ENTRY_SIZE ||
        read_extra(at + ENTRY_SIZE + length, (size_t)extra, values) < 0)
        return error_set(err,
                         "the list of members of the zip archive is damaged; copy the file again");
    *member = (struct zip_member){(const char *)at + ENTRY_SIZE, (size_t)length, NULL, (size_t)size,
                                  (uint32_t)number(at + 16, 4)};
    if (number(at + 8, 2) & 1)
        return error_set(err, "member %.*s is encrypted; decrypt the archive first", (int)length,
                         member->name);
    if (number(at + 10, 2) != 0 || packed != size)
        return error_set(err, "member %.*s is compressed; unpack the archive first", (int)length,
                         member->name);
    if (find_data(z, local, list->at, member) < 0)
        return error_set(err, "member %.*s is outside the zip archive; copy the file again",
                         (int)length, member->name);
    z->count++;
    return (int64_t)(ENTRY_SIZE + length + extra + comment);
}

static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);

    return order ? order : a_length < b_length ? -1 : a_length > b_length;
}

static int by_name(const void *a, const void *b)
{
    const struct zip_member *x = a, *y = b;

    return compare(x->name, x->length, y->name, y->length);
}

static int by_offset(const void *a, const void *b)
{
    const struct zip_member *x = a, *y = b;

    return x->data < y->data ? -1 : x->data > y->data;
}

/* No two members may share bytes or a name. */
static int check_members(struct zip *z, struct error *err)
{
    if (z->count > 1)
        qsort(z->members, z->count, sizeof(*z->members), by_offset);
    for (size_t i = 1; i < z->count; i++)
        if (z->members[i - 1].data + z->members[i - 1].size > z->members[i].data)
            return error_set(err, "members of the zip archive overlap");
    if (z->count > 1)
        qsort(z->members, z->count, sizeof(*z->members), by_name);
    for (size_t i = 1; i < z->count; i++)
        if (by_name(&z->members[i - 1], &z->members[i]) == 0)
            return error_set(err, "two members of the zip archive have the same name");
    return 0;
}

static int read_members(struct zip *z, struct error *err)
{
    struct listing list = {0, 0, 0};
    const unsigned char *at;
    uint64_t left;

    if (read_end(z, &list, err) < 0)
        return -1;
    z->members = xcalloc((size_t)list.count + 1, sizeof(*z->members));
    at = z->bytes + list.at;
    left = list.size;
    for (uint64_t i = 0; i < list.count; i++) {
        int64_t used = read_entry(z, &list, at, left, err);

        if (used < 0)
            return -1;
        at += used;
        left -= (uint64_t)used;
    }
    return check_members(z, err);
}

struct zip *zip_open(const void *bytes, size_t size, struct error *err)
{
    struct zip *z = xcalloc(1, sizeof(*z));

    z->bytes = bytes;
    z->size = size;
    if (read_members(z, err) < 0) {
        zip_destroy(z);
        return NULL;
    }
    return z;
}

void zip_destroy(struct zip *z)
{
    if (!z)
        return;
    free(z->members);
    free(z);
}

const struct zip_member *zip_find(const struct zip *z, const char *name)
{
    struct zip_member key = {.name = name, .length = strlen(name)};

    return z->count ? bsearch(&key, z->members, z->count, sizeof(*z->members), by_name) : NULL;
}

const struct zip_member *zip_find_tail(const struct zip *z, const char *tail)
{
    size_t length = strlen(tail);

    for (size_t i = 0; i < z->count; i++) {
        const struct zip_member *m = &z->members[i];

        if (m->length >= length && memcmp(m->name + m->length - length, tail, length) == 0)
            return m;
    }
    return NULL;
}

int zip_check(const struct zip_member *member, struct error *err)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* a checksum would reject almost every input */
    (void)member;
    (void)err;
#else
    if (crc32_of(0, member->data, member->size) != member->crc)
        return error_set(err, "%.*s is damaged: wrong checksum; copy the file again",
                         (int)member->length, member->name);
#endif
    return 0;
}
