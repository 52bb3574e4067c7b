/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "part.h"
#include "data/jobs/bytes.h"
#include "data/jobs/disk.h"
#include "data/corpus/wiki.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_MAGIC  0x375452415047454dull /* "MEGPART7" */
#define BLOCK_MAGIC 0x314b434f4c424745ull
#define END_MAGIC   0x31444e4554524150ull
/* An upper bound for blocks, which bounds what a torn file may claim. */
#define PAYLOAD_LIMIT ((uint64_t)1 << 34)
/* The position of the first block, after magic, identity and chunk. */
#define BLOCKS_AT ((int64_t)sizeof(uint64_t[3]))

struct block_header {
    uint64_t magic, payload, checksum;
};

struct key_header {
    uint64_t tokens, entries;
};

struct part_writer {
    int fd;
    size_t keys, id_size;
    char path[DISK_PATH];
};

struct part_reader {
    int fd;
    size_t keys, id_size, segments;
    int64_t at, end; /* offsets of the next block and of the end of all blocks */
    struct part_totals totals;
    int64_t *lines;
    unsigned char *payload;
    size_t capacity;
    char path[DISK_PATH];
};

void part_fault_list(struct part_fault *listed, int64_t *count, const struct part_fault *fault)
{
    int kept = part_fault_is_kept(fault);
    int64_t room = kept ? PART_UNCLOSED : PART_INVALID;

    for (int64_t i = 0; i < *count; i++)
        room -= part_fault_is_kept(&listed[i]) == kept;
    if (room > 0)
        listed[(*count)++] = *fault;
}

void part_fault_text(const struct part_fault *fault, const char *const *keys, char *text,
                     size_t size)
{
    const char *what = document_fault_text((enum document_fault)fault->fault);
    struct wiki_unclosed unclosed = {(enum document_fault)fault->fault, 0, fault->key};

    if (part_fault_is_kept(fault))
        wiki_unclosed_text(&unclosed, text, size);
    else if (fault->fault == FAULT_KEY || fault->fault == FAULT_TYPE || fault->fault == FAULT_IDS)
        snprintf(text, size, "%s (%.100s)", what, keys[fault->key]);
    else
        snprintf(text, size, "%s", what);
}

void part_fault_location(const struct part_fault *fault, const char *path, int64_t before,
                         char *text, size_t size)
{
    long long position = (long long)(before + (int64_t)fault->line);

    if (!fault->page)
        snprintf(text, size, "%s:%lld", path, position + 1);
    else if (fault->title[0])
        snprintf(text, size, "%s: page \"%s\" at byte %lld", path, fault->title, position);
    else
        snprintf(text, size, "%s: byte %lld", path, position);
}

int part_check_keys(const char *const *keys, const char *path, const struct part_totals *totals,
                    int end, struct error *err)
{
    int64_t missing = totals->faults[FAULT_KEY], others = 0;
    size_t key = 0;

    for (int i = 0; i < FAULT_BROKEN_END; i++)
        others += i != FAULT_KEY ? totals->faults[i] : 0;
    if (end && totals->documents == 0 && totals->faults[FAULT_IDS] > 0) {
        error_set_code(err, ERROR_USAGE,
                       "%s: none of %lld texts consists of token ids, which NullTokenizer needs",
                       path, (long long)totals->faults[FAULT_IDS]);
        return error_append(
            err, "; choose a tokenizer with --tokenizer-type and the options for its files");
    }
    if (totals->leading < PART_JUDGED &&
        (!end || missing == 0 || totals->documents > 0 || others > missing))
        return 0;
    for (int64_t i = totals->listed_count; i-- > 0;)
        if (totals->listed[i].fault == FAULT_KEY)
            key = totals->listed[i].key;
    error_set_code(err, ERROR_USAGE,
                   "%s: none of %s%lld documents has the key \"%.100s\"; the first one has: %s",
                   path, totals->leading >= PART_JUDGED ? "the first " : "",
                   (long long)(totals->leading < PART_JUDGED ? missing : PART_JUDGED), keys[key],
                   totals->names);
    return error_append(err, "; name the key of the text with --json-keys");
}

struct part_writer *part_create(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                                size_t id_size, struct error *err)
{
    struct part_writer *writer = xcalloc(1, sizeof(*writer));
    uint64_t header[3] = {PART_MAGIC, identity, chunk};
    struct iovec all = {header, sizeof(header)};

    writer->keys = keys;
    writer->id_size = id_size;
    memcpy(writer->path, path, strlen(path) + 1);
    writer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        error_set_errno(err, errno, "cannot create %s", path);
        free(writer);
        return NULL;
    }
    if (disk_writev(writer->fd, &all, 1, path, err) < 0) {
        part_abandon(writer);
        return NULL;
    }
    return writer;
}

/* Two-byte tokens are padded, so that entries are aligned in memory. */
static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

int part_append(struct part_writer *writer, const struct part_data *data, struct error *err)
{
    static const char zeros[8];
    struct key_header keys[PART_KEYS];
    struct block_header header = {BLOCK_MAGIC, 0, 0};
    struct iovec parts[2 + 4 * PART_KEYS];
    int count = 2;

    for (size_t k = 0; k < writer->keys; k++) {
        size_t tokens = data->tokens[k].count * writer->id_size;
        size_t entries = data->entries[k].count * sizeof(int32_t);

        keys[k] = (struct key_header){data->tokens[k].count, data->entries[k].count};
        parts[count++] = (struct iovec){data->tokens[k].ids, tokens};
        parts[count++] = (struct iovec){(void *)zeros, padded(tokens) - tokens};
        parts[count++] = (struct iovec){data->entries[k].items, entries};
        parts[count++] = (struct iovec){(void *)zeros, padded(entries) - entries};
    }
    parts[0] = (struct iovec){&header, sizeof(header)};
    parts[1] = (struct iovec){keys, writer->keys * sizeof(keys[0])};
    for (int i = 1; i < count; i++) {
        header.payload += parts[i].iov_len;
        header.checksum = checksum_seeded(parts[i].iov_base, parts[i].iov_len, header.checksum);
    }
    return disk_writev(writer->fd, parts, count, writer->path, err);
}

void part_abandon(struct part_writer *writer)
{
    if (!writer)
        return;
    close(writer->fd);
    unlink(writer->path);
    free(writer);
}

int part_finish(struct part_writer *writer, const struct part_totals *totals, const int64_t *lines,
                size_t segments, struct error *err)
{
    struct bytes bytes = {0};
    struct iovec footer;
    int rc;

    bytes_put_u64(&bytes, (uint64_t)totals->documents);
    bytes_put_u64(&bytes, (uint64_t)totals->bytes);
    bytes_put_u64(&bytes, writer->keys);
    bytes_put(&bytes, totals->tokens, writer->keys * 8);
    bytes_put(&bytes, totals->sequences, writer->keys * 8);
    bytes_put(&bytes, totals->faults, sizeof(totals->faults));
    bytes_put_u64(&bytes, (uint64_t)totals->listed_count);
    bytes_put(&bytes, totals->listed, (size_t)totals->listed_count * sizeof(totals->listed[0]));
    bytes_put_u64(&bytes, (uint64_t)totals->leading);
    bytes_put(&bytes, totals->names, sizeof(totals->names));
    bytes_put_u64(&bytes, segments);
    bytes_put(&bytes, lines, segments * 8);
    bytes_put_u64(&bytes, checksum_seeded(bytes.data, bytes.size, 3));
    bytes_put_u64(&bytes, bytes.size);
    bytes_put_u64(&bytes, END_MAGIC);
    footer = (struct iovec){bytes.data, bytes.size};
    rc = disk_writev(writer->fd, &footer, 1, writer->path, err);
    bytes_clear(&bytes);
    if (rc < 0) {
        part_abandon(writer);
        return -1;
    }
    /* NFS sends the data here, so a full disk may show only now. */
    if (close(writer->fd) < 0) {
        rc = error_set_errno(err, errno, "cannot write %s", writer->path);
        unlink(writer->path);
    }
    free(writer);
    return rc;
}

static int take_footer(struct part_reader *reader, struct bytes *bytes)
{
    struct part_totals *totals = &reader->totals;
    const void *at;

    totals->documents = (int64_t)bytes_take_u64(bytes);
    totals->bytes = (int64_t)bytes_take_u64(bytes);
    if (bytes_take_u64(bytes) != reader->keys)
        return -1;
    if ((at = bytes_take(bytes, reader->keys * 8)))
        memcpy(totals->tokens, at, reader->keys * 8);
    if ((at = bytes_take(bytes, reader->keys * 8)))
        memcpy(totals->sequences, at, reader->keys * 8);
    if ((at = bytes_take(bytes, sizeof(totals->faults))))
        memcpy(totals->faults, at, sizeof(totals->faults));
    totals->listed_count = (int64_t)bytes_take_u64(bytes);
    if (totals->listed_count < 0 || totals->listed_count > PART_FAULTS)
        return -1;
    at = bytes_take(bytes, (size_t)totals->listed_count * sizeof(totals->listed[0]));
    if (at)
        memcpy(totals->listed, at, (size_t)totals->listed_count * sizeof(totals->listed[0]));
    totals->leading = (int64_t)bytes_take_u64(bytes);
    if ((at = bytes_take(bytes, sizeof(totals->names))))
        memcpy(totals->names, at, sizeof(totals->names));
    totals->names[sizeof(totals->names) - 1] = '\0';
    reader->segments = bytes_take_u64(bytes);
    if (bytes->failed || reader->segments > bytes->size / 8)
        return -1;
    at = bytes_take(bytes, reader->segments * 8);
    if (!at)
        return -1;
    reader->lines = xcalloc(reader->segments + 1, 8);
    memcpy(reader->lines, at, reader->segments * 8);
    return 0;
}

/* Returns 0, 1 if the part is torn, or -1. */
static int read_footer(struct part_reader *reader, uint64_t identity, uint64_t chunk,
                       struct error *err)
{
    struct stat status;
    uint64_t header[3], tail[3];
    struct bytes bytes = {0};
    int rc;

    if (fstat(reader->fd, &status) < 0)
        return error_set_errno(err, errno, "cannot read %s", reader->path);
    if (status.st_size < (off_t)(sizeof(header) + sizeof(tail)))
        return 1;
    rc = disk_pread(reader->fd, header, sizeof(header), 0, reader->path, err);
    if (rc == 0)
        rc = disk_pread(reader->fd, tail, sizeof(tail), status.st_size - (int64_t)sizeof(tail),
                        reader->path, err);
    if (rc != 0)
        return rc;
    /* tail: checksum, size of the footer including the checksum, end magic */
    if (header[0] != PART_MAGIC || header[1] != identity || header[2] != chunk ||
        tail[2] != END_MAGIC || tail[1] < 8 || tail[1] > (uint64_t)status.st_size - 40)
        return 1;
    bytes.size = tail[1] - 8;
    bytes.data = xmalloc(bytes.size + 1);
    reader->end = status.st_size - 16 - (int64_t)tail[1];
    reader->at = BLOCKS_AT;
    rc = disk_pread(reader->fd, bytes.data, bytes.size, reader->end, reader->path, err);
    if (rc == 0)
        rc = checksum_seeded(bytes.data, bytes.size, 3) != tail[0] ||
             take_footer(reader, &bytes) < 0;
    bytes_clear(&bytes);
    return rc;
}

struct part_reader *part_open(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                              size_t id_size, int *torn, struct error *err)
{
    struct part_reader *reader = xcalloc(1, sizeof(*reader));
    int rc;

    *torn = 0;
    reader->keys = keys;
    reader->id_size = id_size;
    memcpy(reader->path, path, strlen(path) + 1);
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0) {
        *torn = errno == ENOENT;
        error_set_errno(err, errno, "cannot open %s", path);
        part_close(reader);
        return NULL;
    }
    rc = read_footer(reader, identity, chunk, err);
    if (rc == 0)
        return reader;
    if (rc > 0) {
        *torn = 1;
        error_set(err, "%s is incomplete; check the disk and run again", path);
    }
    part_close(reader);
    return NULL;
}

void part_close(struct part_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->lines);
    free(reader->payload);
    free(reader);
}

const struct part_totals *part_totals(const struct part_reader *reader)
{
    return &reader->totals;
}

const int64_t *part_lines(const struct part_reader *reader, size_t *segments)
{
    *segments = reader->segments;
    return reader->lines;
}

/* Parse a payload. The checksum covers the same pieces as when it was written. */
static int take_block(struct part_reader *reader, const struct block_header *header,
                      struct part_key *keys)
{
    const unsigned char *at = reader->payload, *end = at + header->payload;
    const struct key_header *headers = (const void *)at;
    uint64_t sum;

    if (header->payload < reader->keys * sizeof(*headers))
        return -1;
    at += reader->keys * sizeof(*headers);
    sum = checksum_seeded(headers, reader->keys * sizeof(*headers), 0);
    for (size_t k = 0; k < reader->keys; k++) {
        size_t tokens, entries;

        if (headers[k].tokens > PAYLOAD_LIMIT || headers[k].entries > PAYLOAD_LIMIT)
            return -1;
        tokens = headers[k].tokens * reader->id_size;
        entries = headers[k].entries * sizeof(int32_t);
        if (padded(tokens) + padded(entries) > (size_t)(end - at))
            return -1;
        keys[k].tokens = at;
        keys[k].token_count = headers[k].tokens;
        sum = checksum_seeded(at, tokens, sum);
        sum = checksum_seeded(at + tokens, padded(tokens) - tokens, sum);
        at += padded(tokens);
        keys[k].entries = (const int32_t *)(const void *)at;
        keys[k].entry_count = headers[k].entries;
        sum = checksum_seeded(at, entries, sum);
        sum = checksum_seeded(at + entries, padded(entries) - entries, sum);
        at += padded(entries);
    }
    return at == end && sum == header->checksum ? 0 : -1;
}

static int torn_block(struct part_reader *reader, int *torn, struct error *err)
{
    *torn = 1;
    return error_set(err, "%s is damaged at byte %lld; check the disk and run again", reader->path,
                     (long long)reader->at);
}

int part_next(struct part_reader *reader, struct part_key *keys, int *torn, struct error *err)
{
    struct block_header header;
    int rc;

    *torn = 0;
    if (reader->at == reader->end)
        return 0;
    if (reader->end - reader->at < (int64_t)sizeof(header))
        return torn_block(reader, torn, err);
    rc = disk_pread(reader->fd, &header, sizeof(header), reader->at, reader->path, err);
    if (rc < 0)
        return -1;
    if (rc > 0 || header.magic != BLOCK_MAGIC ||
        header.payload > (uint64_t)(reader->end - reader->at) - sizeof(header))
        return torn_block(reader, torn, err);
    if (header.payload > reader->capacity) {
        free(reader->payload);
        reader->capacity = header.payload + header.payload / 4;
        reader->payload = malloc(reader->capacity);
        if (!reader->payload) {
            reader->capacity = 0;
            return error_set(err, "out of memory");
        }
    }
    rc = disk_pread(reader->fd, reader->payload, header.payload,
                    reader->at + (int64_t)sizeof(header), reader->path, err);
    if (rc < 0)
        return -1;
    if (rc > 0 || take_block(reader, &header, keys) < 0)
        return torn_block(reader, torn, err);
    reader->at += (int64_t)(sizeof(header) + header.payload);
    return 1;
}
