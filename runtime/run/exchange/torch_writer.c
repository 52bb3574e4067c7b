/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/crc.h"
#include "base/core/xmalloc.h"
#include "lib/file.h"
#include "torch_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Data starts at multiples of this, so that it can be mapped; FILLER names the extra field. */
enum { ALIGNMENT = 64, FILLER = 0x4246, HEADER_MOST = 256 };

/* --- Records ---------------------------------------------------------------------------------- */

static size_t put(unsigned char *out, size_t at, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        out[at + (size_t)i] = (unsigned char)(number >> (8 * i));
    return at + (size_t)size;
}

static int write_bytes(struct torch_writer *w, const void *bytes, size_t size, struct error *err)
{
    if (file_write_at(w->fd, bytes, size, w->at) < 0)
        return error_set_errno(err, errno, "cannot write %s", w->path);
    w->at += (int64_t)size;
    return 0;
}

/* The entry of a member in the list at the end. Its sizes are always in the ZIP64 field. */
static void list_member(struct torch_writer *w, const char *name, uint64_t at, uint64_t size,
                        uint32_t crc)
{
    unsigned char entry[HEADER_MOST];
    size_t n = put(entry, 0, 0x02014b50, 4), length = strlen(name);

    n = put(entry, n, 45 | 45 << 16, 4); /* versions */
    n = put(entry, n, 0, 4);             /* flags, method */
    n = put(entry, n, 0, 4);             /* time */
    n = put(entry, n, crc, 4);
    n = put(entry, n, UINT64_MAX, 8); /* sizes */
    n = put(entry, n, length, 2);
    n = put(entry, n, 28, 2); /* extra fields */
    n = put(entry, n, 0, 8);  /* comment, disk, attributes */
    n = put(entry, n, 0, 2);
    n = put(entry, n, UINT32_MAX, 4); /* offset */
    memcpy(entry + n, name, length);
    n = put(entry, n + length, 1 | 24 << 16, 4);
    n = put(entry, n, size, 8);
    n = put(entry, n, size, 8);
    n = put(entry, n, at, 8);
    w->count++;
    if (w->size + n > w->room) {
        w->room = 2 * w->room + n + 1024;
        w->list = xrealloc(w->list, w->room, 1);
    }
    memcpy(w->list + w->size, entry, n);
    w->size += n;
}

static int write_member(struct torch_writer *w, const char *name, const void *bytes, size_t size,
                        struct error *err)
{
    unsigned char header[HEADER_MOST + ALIGNMENT] = {0};
    uint64_t at = (uint64_t)(w->at - w->begin);
    uint32_t crc = crc32_of(0, bytes, size);
    size_t length = strlen(name), n = put(header, 0, 0x04034b50, 4), fill;

    fill = (ALIGNMENT - (at + 30 + length + 20 + 4) % ALIGNMENT) % ALIGNMENT;
    n = put(header, n, 45, 2);
    n = put(header, n, 0, 4); /* flags, method */
    n = put(header, n, 0, 4); /* time */
    n = put(header, n, crc, 4);
    n = put(header, n, UINT64_MAX, 8); /* sizes */
    n = put(header, n, length, 2);
    n = put(header, n, 20 + 4 + fill, 2);
    memcpy(header + n, name, length);
    n = put(header, n + length, 1 | 16 << 16, 4);
    n = put(header, n, size, 8);
    n = put(header, n, size, 8);
    n = put(header, n, FILLER | (uint64_t)fill << 16, 4) + fill;
    if (write_bytes(w, header, n, err) < 0 || write_bytes(w, bytes, size, err) < 0)
        return -1;
    list_member(w, name, at, size, crc);
    return 0;
}

/* --- Archives --------------------------------------------------------------------------------- */

int torch_writer_begin(struct torch_writer *w, int fd, const char *path, int64_t at,
                       const struct pickle_writer *pickle, struct error *err)
{
    memset(w, 0, sizeof(*w));
    w->fd = fd;
    w->path = path;
    w->begin = w->at = at;
    if (write_member(w, "archive/data.pkl", pickle->bytes, pickle->size, err) < 0)
        return -1;
    return write_member(w, "archive/byteorder", "little", 6, err);
}

int torch_writer_add(struct torch_writer *w, const void *bytes, size_t size, struct error *err)
{
    char name[64];

    snprintf(name, sizeof(name), "archive/data/%" PRId64, w->storages++);
    return write_member(w, name, bytes, size, err);
}

int torch_writer_end(struct torch_writer *w, struct error *err)
{
    unsigned char end[HEADER_MOST];
    uint64_t list, end64;
    size_t n;

    if (write_member(w, "archive/version", "3\n", 2, err) < 0)
        return -1;
    list = (uint64_t)(w->at - w->begin);
    if (write_bytes(w, w->list, w->size, err) < 0)
        return -1;
    end64 = list + w->size;
    n = put(end, 0, 0x06064b50, 4);
    n = put(end, n, 44, 8);
    n = put(end, n, 45 | 45 << 16, 4);
    n = put(end, n, 0, 8); /* disks */
    n = put(end, n, w->count, 8);
    n = put(end, n, w->count, 8);
    n = put(end, n, w->size, 8);
    n = put(end, n, list, 8);
    n = put(end, n, 0x07064b50, 4);
    n = put(end, n, 0, 4);
    n = put(end, n, end64, 8);
    n = put(end, n, 1, 4);
    n = put(end, n, 0x06054b50, 4);
    n = put(end, n, 0, 4); /* disks */
    n = put(end, n, UINT32_MAX, 4);
    n = put(end, n, UINT64_MAX, 8);
    n = put(end, n, 0, 2); /* comment */
    return write_bytes(w, end, n, err);
}

void torch_writer_clear(struct torch_writer *w)
{
    free(w->list);
    memset(w, 0, sizeof(*w));
}

/* --- Values ----------------------------------------------------------------------------------- */

void torch_put_type(struct pickle_writer *p, enum device_type type)
{
    pickle_put_global(p, "torch",
                      type == TYPE_BF16   ? "bfloat16"
                      : type == TYPE_FP16 ? "float16"
                                          : "float32");
}

void torch_put_tensor(struct pickle_writer *p, int64_t number, enum device_type type,
                      const int64_t *shape, int dimensions)
{
    int64_t stride[8] = {0}, elements = 1;
    char key[32];

    for (int i = dimensions - 1; i >= 0; i--) {
        stride[i] = elements;
        elements *= shape[i];
    }
    snprintf(key, sizeof(key), "%" PRId64, number);
    pickle_put_global(p, "torch._utils", "_rebuild_tensor_v2");
    pickle_put(p, "((");
    pickle_put_text(p, NULL, "storage");
    pickle_put_global(p, "torch",
                      type == TYPE_BF16   ? "BFloat16Storage"
                      : type == TYPE_FP16 ? "HalfStorage"
                                          : "FloatStorage");
    pickle_put_text(p, NULL, key);
    pickle_put_integer(p, "cpu", elements);
    pickle_put(p, "tQ");
    pickle_put_integer(p, NULL, 0);
    pickle_put_tuple(p, shape, dimensions);
    pickle_put_tuple(p, stride, dimensions);
    pickle_put_bool(p, NULL, 0);
    pickle_put_global(p, "collections", "OrderedDict");
    pickle_put(p, ")RtR");
}
