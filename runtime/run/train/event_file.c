/* SPDX-License-Identifier: Apache-2.0 */
/* TensorBoard event files: records of (length, checksum of it, data, checksum of it), where data is
 * a protocol buffer of type Event. Only what scalars need is encoded here. */
#include "append_file.h"
#include "lib/clock.h"
#include "base/core/crc.h"
#include "event_file.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"
#include "message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct event_file {
    struct append_file *records;
};

static uint32_t masked_crc(const unsigned char *data, size_t size)
{
    uint32_t c = crc32c_of(0, data, size);

    return (c >> 15 | c << 17) + 0xA282EAD8u;
}

static void write_record(struct event_file *file, const struct message *data)
{
    struct message head = {{0}, 0}, tail = {{0}, 0};
    unsigned char record[sizeof(data->data) + 16];

    put_fixed(&head, data->size, 8);
    put_fixed(&head, masked_crc(head.data, 8), 4);
    put_fixed(&tail, masked_crc(data->data, data->size), 4);
    memcpy(record, head.data, head.size);
    memcpy(record + head.size, data->data, data->size);
    memcpy(record + head.size + data->size, tail.data, tail.size);
    append_file_add(file->records, record, head.size + data->size + tail.size);
}

struct event_file *event_file_create(const char *directory, struct error *err)
{
    struct event_file *file = xcalloc(1, sizeof(*file));
    struct message version = {{0}, 0};
    char host[128] = "host", path[1024];

    gethostname(host, sizeof(host) - 1);
    if (file_make_directories(directory, 0777) < 0) {
        error_set_errno(err, errno, "--tensorboard-dir: cannot create %s", directory);
        free(file);
        return NULL;
    }
    snprintf(path, sizeof(path), "%.800s/events.out.tfevents.%lld.%s.%d", directory,
             (long long)time(NULL), host, (int)getpid());
    file->records = append_file_open(path, 1, err);
    if (!file->records) {
        error_prefix(err, "--tensorboard-dir");
        free(file);
        return NULL;
    }
    put_double(&version, 1, clock_wall());
    put_bytes(&version, 3, "brain.Event:2", 13);
    write_record(file, &version);
    return file;
}

void event_file_scalar(struct event_file *file, const char *tag, int64_t step, double value)
{
    struct message event = {{0}, 0}, summary = {{0}, 0}, item = {{0}, 0};
    float single = (float)value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    put_bytes(&item, 1, tag, strlen(tag));
    put_varint(&item, 2 << 3 | 5);
    put_fixed(&item, bits, 4);
    put_bytes(&summary, 1, item.data, item.size);
    put_double(&event, 1, clock_wall());
    put_number(&event, 2, (uint64_t)step);
    put_bytes(&event, 5, summary.data, summary.size);
    write_record(file, &event);
}

int event_file_flush(struct event_file *file, struct error *err)
{
    return append_file_flush(file->records, err);
}

int event_file_close(struct event_file *file, struct error *err)
{
    int rc = file ? append_file_close(file->records, err) : 0;

    free(file);
    return rc;
}
