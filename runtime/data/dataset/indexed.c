/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "indexed.h"
#include "base/core/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/core/xmalloc.h"

struct file {
    char *path;
    int fd;
    int64_t size;
};

struct indexed {
    char *prefix;
    struct file idx, bin;
    size_t token_size;
    struct indexed_info info;
};

/* `megatron preprocess` appends a key to its prefix: name the dataset that is probably meant. */
static void propose_prefix(const char *prefix, struct error *err)
{
    struct stat status;
    char *pattern;
    glob_t found = {0};
    int directory = stat(prefix, &status) == 0 && S_ISDIR(status.st_mode);

    if (strpbrk(prefix, "*?["))
        return;
    pattern = xasprintf(directory ? "%s/*.idx" : "%s_*.idx", prefix);
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
        const char *first = found.gl_pathv[0];

        error_append(err, "; did you mean %.*s?", (int)strlen(first) - 4, first);
    }
    globfree(&found);
    free(pattern);
}

static int open_file(struct file *file, const char *prefix, const char *suffix, int64_t *time,
                     struct error *err)
{
    struct stat status;

    file->path = xasprintf("%s%s", prefix, suffix);
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0) {
        size_t length = strlen(prefix);
        int number = errno, whole = length > 4 && (strcmp(prefix + length - 4, ".bin") == 0 ||
                                                   strcmp(prefix + length - 4, ".idx") == 0);

        error_set_errno(err, number, "%s: cannot open", file->path);
        if (whole)
            error_append(err, "; give the prefix without .bin or .idx");
        else if (number == ENOENT)
            propose_prefix(prefix, err);
        errno = number;
        return -1;
    }
    if (fstat(file->fd, &status) < 0)
        return error_set_errno(err, errno, "%s: cannot read its size", file->path);
    if (!S_ISREG(status.st_mode))
        return error_set(err, "%s is not a regular file; give the prefix of a .bin and .idx file",
                         file->path);
    file->size = status.st_size;
    if (time)
        *time = status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec;
    return 0;
}

static void close_file(struct file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
}

int dataset_read_at(int fd, const char *path, void *out, size_t size, int64_t offset,
                    struct error *err)
{
    ssize_t got = file_read_at(fd, out, size, offset);

    if (got < 0)
        return error_set_errno(err, errno, "%s: cannot read at offset %" PRId64, path, offset);
    if ((size_t)got < size)
        return error_set(err,
                         "%s: unexpected end at offset %" PRId64
                         ", %zu more bytes expected; it was truncated after it was opened: run "
                         "again when nothing else writes to it",
                         path, offset + got, size - (size_t)got);
    return 0;
}

static uint64_t get_u64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static int64_t lengths_at(const struct indexed *d)
{
    return d->info.fairseq ? IDX_FAIRSEQ_SIZE : IDX_HEADER_SIZE;
}

static int64_t pointers_at(const struct indexed *d)
{
    return lengths_at(d) + d->info.sequences * IDX_LENGTH_SIZE;
}

static int64_t documents_at(const struct indexed *d)
{
    return pointers_at(d) + d->info.sequences * IDX_POINTER_SIZE;
}

#define AGAIN "; copy the file again, or run `megatron preprocess` again"

static int check_counts(struct indexed *d, uint64_t sequences, uint64_t entries, struct error *err)
{
    /* With these bounds no sum or product below can overflow. */
    const uint64_t limit = INT64_MAX / 64;
    uint64_t size;

    if (sequences > limit)
        return error_set(err,
                         "%s: offset %d: damaged: the header claims %" PRIu64 " sequences" AGAIN,
                         d->idx.path, IDX_SEQUENCES_AT, sequences);
    if (entries > limit || entries == 0)
        return error_set(err,
                         "%s: offset %d: damaged: the header claims %" PRIu64
                         " entries in the document array" AGAIN,
                         d->idx.path, IDX_DOCUMENTS_AT, entries);
    size = IDX_HEADER_SIZE + sequences * (IDX_LENGTH_SIZE + IDX_POINTER_SIZE) +
           entries * IDX_DOCUMENT_SIZE;
    if ((uint64_t)d->idx.size != size && (uint64_t)d->idx.size != size + sequences)
        return error_set(err,
                         "%s: %" PRIu64 " sequences and %" PRIu64 " document entries need %" PRIu64
                         " bytes, the file has %" PRId64
                         "; it is %s: copy the file again, or run `megatron preprocess` again",
                         d->idx.path, sequences, entries, size, d->idx.size,
                         (uint64_t)d->idx.size < size ? "truncated" : "damaged");
    d->info.multimodal = sequences > 0 && (uint64_t)d->idx.size == size + sequences;
    d->info.sequences = (int64_t)sequences;
    d->info.documents = (int64_t)entries - 1;
    return 0;
}

/* Does the size of the file say that it is fairseq's? Megatron's are larger by the document array,
 * which has at least one entry, and its count. */
static int is_fairseq(const struct indexed *d, uint64_t sequences)
{
    return sequences <= INT64_MAX / 64 &&
           (uint64_t)d->idx.size ==
               IDX_FAIRSEQ_SIZE + sequences * (IDX_LENGTH_SIZE + IDX_POINTER_SIZE);
}

static int read_header(struct indexed *d, struct error *err)
{
    unsigned char header[IDX_HEADER_SIZE];
    size_t size = d->idx.size == IDX_FAIRSEQ_SIZE ? IDX_FAIRSEQ_SIZE : IDX_HEADER_SIZE;

    if (d->idx.size < (int64_t)size)
        return error_set(
            err, "%s has %" PRId64 " bytes, less than the header of %d; it is truncated" AGAIN,
            d->idx.path, d->idx.size, IDX_HEADER_SIZE);
    if (dataset_read_at(d->idx.fd, d->idx.path, header, size, 0, err) < 0)
        return -1;
    if (memcmp(header, IDX_MAGIC, IDX_MAGIC_SIZE) != 0)
        return error_set(err,
                         "%s: offset 0: not an index of tokens (it must begin with MMIDIDX); give "
                         "the prefix of a .bin and .idx file",
                         d->idx.path);
    if (get_u64(header + IDX_VERSION_AT) != IDX_VERSION)
        return error_set(err,
                         "%s: index version %" PRIu64
                         " is not supported, only %d; tokenize the corpus again",
                         d->idx.path, get_u64(header + IDX_VERSION_AT), IDX_VERSION);
    d->info.dtype = header[IDX_DTYPE_AT];
    d->token_size = idx_dtype_size(header[IDX_DTYPE_AT]);
    if (d->token_size == 0)
        return error_set(err, "%s: offset %d: token type %d is unknown; expected 1 to 10" AGAIN,
                         d->idx.path, IDX_DTYPE_AT, header[IDX_DTYPE_AT]);
    if (d->info.dtype == IDX_F32 || d->info.dtype == IDX_F64)
        return error_set(err, "%s: offset %d: token type %d (%s) cannot hold tokens" AGAIN,
                         d->idx.path, IDX_DTYPE_AT, d->info.dtype, idx_dtype_name(d->info.dtype));
    d->info.fairseq = is_fairseq(d, get_u64(header + IDX_SEQUENCES_AT));
    if (d->info.fairseq) {
        d->info.sequences = d->info.documents = (int64_t)get_u64(header + IDX_SEQUENCES_AT);
        return 0;
    }
    if (size < IDX_HEADER_SIZE)
        return error_set(err, "%s has %zu bytes and claims sequences; it is truncated" AGAIN,
                         d->idx.path, size);
    return check_counts(d, get_u64(header + IDX_SEQUENCES_AT), get_u64(header + IDX_DOCUMENTS_AT),
                        err);
}

/* Is 'sequence', of 'length' tokens at byte 'pointer', inside the .bin file? */
static int check_sequence(const struct indexed *d, int64_t sequence, int64_t pointer,
                          int64_t length, struct error *err)
{
    if (length < 0)
        return error_set(err,
                         "%s: offset %" PRId64 ": sequence %" PRId64 " has length %" PRId64
                         "; the file is damaged" AGAIN,
                         d->idx.path, lengths_at(d) + sequence * IDX_LENGTH_SIZE, sequence, length);
    if (pointer < 0 || pointer > d->bin.size ||
        length * (int64_t)d->token_size > d->bin.size - pointer)
        return error_set(err,
                         "%s: offset %" PRId64 ": sequence %" PRId64 " of %" PRId64
                         " tokens at byte %" PRId64 " is not within the %" PRId64
                         " bytes of %s" AGAIN,
                         d->idx.path, pointers_at(d) + sequence * IDX_POINTER_SIZE, sequence,
                         length, pointer, d->bin.size, d->bin.path);
    return 0;
}

/* Are entries [first, first + count) of a file's 'entries' entries there? */
static int check_range(const struct file *file, const char *what, int64_t entries, int64_t first,
                       int64_t count, struct error *err)
{
    if (first >= 0 && count >= 0 && first <= entries && count <= entries - first)
        return 0;
    return error_set(
        err, "%s: %" PRId64 " %s from number %" PRId64 " were requested, but it has %" PRId64 AGAIN,
        file->path, count, what, first, entries);
}

static int read_array(const struct indexed *d, const char *what, int64_t at, size_t entry_size,
                      int64_t entries, int64_t first, int64_t count, void *out, struct error *err)
{
    if (check_range(&d->idx, what, entries, first, count, err) < 0)
        return -1;
    return dataset_read_at(d->idx.fd, d->idx.path, out, (size_t)count * entry_size,
                           at + first * (int64_t)entry_size, err);
}

/* Byte offsets of sequences, which are checked when they are used. */
static int read_pointers(const struct indexed *indexed, int64_t first, int64_t count, int64_t *out,
                         struct error *err)
{
    return read_array(indexed, "pointers", pointers_at(indexed), IDX_POINTER_SIZE,
                      indexed->info.sequences, first, count, out, err);
}

static int check_ends(const struct indexed *d, struct error *err)
{
    int64_t n = d->info.sequences, m = d->info.documents, first, last, pointer;
    int32_t length;

    if (indexed_documents(d, 0, 1, &first, err) < 0 || indexed_documents(d, m, 1, &last, err) < 0)
        return -1;
    if (first != 0)
        return error_set(err,
                         "%s: offset %" PRId64 ": the first document begins at sequence %" PRId64
                         ", not 0" AGAIN,
                         d->idx.path, documents_at(d), first);
    if (last != n)
        return error_set(err,
                         "%s: offset %" PRId64 ": the last document ends at sequence %" PRId64
                         " of %" PRId64 AGAIN,
                         d->idx.path, documents_at(d) + m * IDX_DOCUMENT_SIZE, last, n);
    if (n == 0)
        return 0;
    if (indexed_lengths(d, n - 1, 1, &length, err) < 0 ||
        read_pointers(d, n - 1, 1, &pointer, err) < 0)
        return -1;
    return check_sequence(d, n - 1, pointer, length, err);
}

struct indexed *indexed_open(const char *prefix, struct error *err)
{
    struct indexed *d = xcalloc(1, sizeof(*d));

    d->idx.fd = d->bin.fd = -1;
    d->prefix = xstrdup(prefix);
    if (open_file(&d->idx, prefix, ".idx", &d->info.idx_time, err) < 0 ||
        open_file(&d->bin, prefix, ".bin", NULL, err) < 0)
        goto fail;
    d->info.idx_size = d->idx.size;
    d->info.bin_size = d->bin.size;
    if (read_header(d, err) < 0 || check_ends(d, err) < 0)
        goto fail;
    /* Samples are spread over the whole file: readahead would only fill the page cache. */
    posix_fadvise(d->bin.fd, 0, 0, POSIX_FADV_RANDOM);
    return d;
fail:
    indexed_close(d);
    return NULL;
}

void indexed_close(struct indexed *indexed)
{
    if (!indexed)
        return;
    close_file(&indexed->idx);
    close_file(&indexed->bin);
    free(indexed->prefix);
    free(indexed);
}

const struct indexed_info *indexed_info(const struct indexed *indexed)
{
    return &indexed->info;
}

const char *indexed_prefix(const struct indexed *indexed)
{
    return indexed->prefix;
}

int indexed_lengths(const struct indexed *indexed, int64_t first, int64_t count, int32_t *out,
                    struct error *err)
{
    int32_t signs = 0;

    if (read_array(indexed, "lengths", lengths_at(indexed), IDX_LENGTH_SIZE,
                   indexed->info.sequences, first, count, out, err) < 0)
        return -1;
    for (int64_t i = 0; i < count; i++)
        signs |= out[i];
    for (int64_t i = 0; i < count && signs < 0; i++)
        if (out[i] < 0)
            return check_sequence(indexed, first + i, 0, out[i], err);
    return 0;
}

int indexed_documents(const struct indexed *indexed, int64_t first, int64_t count, int64_t *out,
                      struct error *err)
{
    if (indexed->info.fairseq) {
        if (check_range(&indexed->idx, "document entries", indexed->info.sequences + 1, first,
                        count, err) < 0)
            return -1;
        for (int64_t i = 0; i < count; i++)
            out[i] = first + i;
        return 0;
    }
    if (read_array(indexed, "document entries", documents_at(indexed), IDX_DOCUMENT_SIZE,
                   indexed->info.documents + 1, first, count, out, err) < 0)
        return -1;
    for (int64_t i = 0, before = 0; i < count; before = out[i++])
        if (out[i] < before || out[i] > indexed->info.sequences)
            return error_set(
                err,
                "%s: offset %" PRId64 ": document %" PRId64 " begins at sequence %" PRId64
                "; expected %" PRId64 " to %" PRId64 AGAIN,
                indexed->idx.path, documents_at(indexed) + (first + i) * IDX_DOCUMENT_SIZE,
                first + i, out[i], before, indexed->info.sequences);
    return 0;
}

int64_t indexed_length(const struct indexed *indexed, int64_t sequence, struct error *err)
{
    int32_t length;

    return indexed_lengths(indexed, sequence, 1, &length, err) < 0 ? -1 : length;
}

/* A token of any type. As unsigned numbers, those of 8 bytes only have a wider range that no token
 * uses. */
static inline int64_t token_at(const unsigned char *raw, enum idx_dtype dtype)
{
    union {
        uint16_t u16;
        uint32_t u32;
        int64_t i64;
    } wide;

    switch (dtype) {
    case IDX_U8:
        return raw[0];
    case IDX_I8:
        return (int8_t)raw[0];
    case IDX_U16:
    case IDX_I16:
        memcpy(&wide, raw, 2);
        return dtype == IDX_U16 ? wide.u16 : (int16_t)wide.u16;
    case IDX_U32:
    case IDX_I32:
        memcpy(&wide, raw, 4);
        return dtype == IDX_U32 ? (int64_t)wide.u32 : (int32_t)wide.u32;
    default:
        memcpy(&wide, raw, 8);
        return wide.i64;
    }
}

/* Tokens narrower than int32 are read into the end of the buffer and widened from the front: writes
 * never overtake reads. Wider ones go through a block. */
static int read_tokens(const struct indexed *d, int64_t byte, int32_t *out, int64_t count,
                       struct error *err)
{
    enum idx_dtype dtype = d->info.dtype;
    int64_t size = (int64_t)d->token_size, block[512];

    while (count > 0) {
        int64_t take = size == 8 && count > 512 ? 512 : count;
        unsigned char *raw =
            size == 8 ? (unsigned char *)block : (unsigned char *)(out + take) - take * size;

        if (dataset_read_at(d->bin.fd, d->bin.path, raw, (size_t)(take * size), byte, err) < 0)
            return -1;
        for (int64_t i = 0; i < take && dtype != IDX_I32; i++) {
            int64_t token = token_at(raw + i * size, dtype);

            if (token < INT32_MIN || token > INT32_MAX)
                return error_set(err,
                                 "%s: offset %" PRId64 ": token %" PRId64 " is out of range" AGAIN,
                                 d->bin.path, byte + i * size, token);
            out[i] = (int32_t)token;
        }
        out += take;
        count -= take;
        byte += take * size;
    }
    return 0;
}

int64_t indexed_tokens(const struct indexed *indexed, int64_t sequence, int64_t offset,
                       int64_t count, int32_t *out, int64_t capacity, struct error *err)
{
    int64_t pointer;
    int32_t length;

    if (indexed_lengths(indexed, sequence, 1, &length, err) < 0 ||
        read_pointers(indexed, sequence, 1, &pointer, err) < 0 ||
        check_sequence(indexed, sequence, pointer, length, err) < 0)
        return -1;
    if (offset < 0 || offset > length || count > length - offset)
        return error_set(err,
                         "%s: %" PRId64 " tokens from number %" PRId64 " of sequence %" PRId64
                         " were requested, but it has %" PRId32 AGAIN,
                         indexed->idx.path, count, offset, sequence, length);
    if (count < 0)
        count = length - offset < capacity ? length - offset : capacity;
    if (count > capacity)
        return error_bug(err, "%s: %" PRId64 " tokens requested into a buffer for %" PRId64,
                         indexed->idx.path, count, capacity);
    pointer += offset * (int64_t)indexed->token_size;
    return read_tokens(indexed, pointer, out, count, err) < 0 ? -1 : count;
}

int indexed_stream(const struct indexed *indexed, int64_t first, int64_t count, int32_t *out,
                   struct error *err)
{
    int64_t size = (int64_t)indexed->token_size, total = indexed->bin.size / size;

    if (check_range(&indexed->bin, "tokens", total, first, count, err) < 0)
        return -1;
    return read_tokens(indexed, first * size, out, count, err);
}

enum { VERIFY_BLOCK = 65536 };

static int verify_sequences(const struct indexed *d, int32_t *lengths, int64_t *entries,
                            int64_t *tokens, struct error *err)
{
    int64_t n = d->info.sequences, expected = 0, total = 0;

    for (int64_t first = 0; first < n; first += VERIFY_BLOCK) {
        int64_t count = n - first < VERIFY_BLOCK ? n - first : VERIFY_BLOCK;

        if (indexed_lengths(d, first, count, lengths, err) < 0 ||
            read_pointers(d, first, count, entries, err) < 0)
            return -1;
        for (int64_t i = 0; i < count; i++) {
            if (check_sequence(d, first + i, entries[i], lengths[i], err) < 0)
                return -1;
            if (entries[i] != expected)
                return error_set(err,
                                 "%s: offset %" PRId64 ": sequence %" PRId64
                                 " begins at byte %" PRId64
                                 ", the one before it ends at %" PRId64 AGAIN,
                                 d->idx.path, pointers_at(d) + (first + i) * IDX_POINTER_SIZE,
                                 first + i, entries[i], expected);
            expected += lengths[i] * (int64_t)d->token_size;
            total += lengths[i];
        }
    }
    if (expected != d->bin.size)
        return error_set(
            err, "%s: the sequences of %s end at byte %" PRId64 ", the file at %" PRId64 AGAIN,
            d->bin.path, d->idx.path, expected, d->bin.size);
    if (tokens)
        *tokens = total;
    return 0;
}

/* indexed_documents compares the entries of a call: each block begins with the last entry of the
 * one before it. */
static int verify_documents(const struct indexed *d, int64_t *entries, struct error *err)
{
    int64_t m = d->info.documents + 1;

    for (int64_t first = 0; first < m; first += VERIFY_BLOCK - 1)
        if (indexed_documents(d, first, m - first < VERIFY_BLOCK ? m - first : VERIFY_BLOCK,
                              entries, err) < 0)
            return -1;
    return 0;
}

int indexed_verify(const struct indexed *indexed, int64_t *tokens, struct error *err)
{
    int32_t *lengths = xmalloc(VERIFY_BLOCK * sizeof(*lengths));
    int64_t *entries = xmalloc(VERIFY_BLOCK * sizeof(*entries));
    int result = verify_sequences(indexed, lengths, entries, tokens, err);

    if (result == 0)
        result = verify_documents(indexed, entries, err);
    free(lengths);
    free(entries);
    return result;
}
