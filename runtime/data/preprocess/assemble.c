/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "assemble.h"
#include "data/jobs/bytes.h"
#include "data/dataset/data_identity.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "data/dataset/idx_format.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BIN, IDX, IDENTITY };
static const char *const extensions[] = {"bin", "idx", DATA_IDENTITY_ENDING};

int output_path(const struct preprocess_config *config, size_t key, size_t shard,
                const char *extension, char *path, struct error *err)
{
    const char *prefix = config->output_prefix, *name = config->keys[key];
    const char *level = config->punkt ? "sentence" : "document";

    if (config->fairseq)
        return disk_path(path, err, "%s.%s", prefix, extension);
    if (config->shards == 1)
        return disk_path(path, err, "%s_%s_%s.%s", prefix, name, level, extension);
    return disk_path(path, err, "%s_%05zu-of-%05zu_%s_%s.%s", prefix, shard, (size_t)config->shards,
                     name, level, extension);
}

static int draft_path(const struct assembly *assembly, size_t shard, size_t key, int kind,
                      char *path, struct error *err)
{
    return disk_path(path, err, "%.4000s/out-%016" PRIx64 "-%zu-%zu.%s",
                     assembly->encode->phase->engine->directory, assembly->layout->tag, shard, key,
                     extensions[kind]);
}

static int64_t tokens_in(const struct output_layout *layout, size_t shard, size_t key)
{
    return layout->cuts[shard + 1].tokens[key] - layout->cuts[shard].tokens[key];
}

static int64_t sequences_in(const struct output_layout *layout, size_t shard, size_t key)
{
    return layout->cuts[shard + 1].sequences[key] - layout->cuts[shard].sequences[key];
}

static int64_t documents_in(const struct output_layout *layout, size_t shard)
{
    return layout->cuts[shard + 1].documents - layout->cuts[shard].documents;
}

static int64_t header_size(const struct assembly *assembly)
{
    return assembly->config->fairseq ? IDX_FAIRSEQ_SIZE : IDX_HEADER_SIZE;
}

static int64_t size_of(const struct assembly *assembly, size_t shard, size_t key, int kind)
{
    const struct output_layout *layout = assembly->layout;
    int64_t documents = assembly->config->fairseq ? 0 : documents_in(layout, shard) + 1;

    if (kind == BIN)
        return tokens_in(layout, shard, key) * (int64_t)layout->id_size;
    return header_size(assembly) +
           sequences_in(layout, shard, key) * (IDX_LENGTH_SIZE + IDX_POINTER_SIZE) +
           documents * IDX_DOCUMENT_SIZE;
}

/* The header and the first entry of the document array, which is always 0. */
static int write_header(struct assembly *assembly, size_t shard, size_t key, int fd,
                        struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    unsigned char header[IDX_HEADER_SIZE];
    uint64_t version = IDX_VERSION, sequences = (uint64_t)sequences_in(layout, shard, key),
             documents = (uint64_t)documents_in(layout, shard) + 1;
    int64_t zero = 0;
    char path[DISK_PATH];

    memcpy(header, IDX_MAGIC, IDX_MAGIC_SIZE);
    memcpy(header + IDX_VERSION_AT, &version, 8);
    header[IDX_DTYPE_AT] = layout->id_size == 2        ? IDX_U16
                           : assembly->config->fairseq ? IDX_U32
                                                       : IDX_I32;
    memcpy(header + IDX_SEQUENCES_AT, &sequences, 8);
    memcpy(header + IDX_DOCUMENTS_AT, &documents, 8);
    if (draft_path(assembly, shard, key, IDX, path, err) < 0 ||
        disk_pwrite(fd, header, (size_t)header_size(assembly), 0, path, err) < 0)
        return -1;
    if (assembly->config->fairseq)
        return 0;
    return disk_pwrite(fd, &zero, sizeof(zero),
                       IDX_HEADER_SIZE + (int64_t)sequences * (IDX_LENGTH_SIZE + IDX_POINTER_SIZE),
                       path, err);
}

static int size_file(struct assembly *assembly, size_t shard, size_t key, int kind, int fd,
                     struct error *err)
{
    int64_t size = size_of(assembly, shard, key, kind);
    char path[DISK_PATH];

    if (draft_path(assembly, shard, key, kind, path, err) < 0)
        return -1;
    /* Where the file system can reserve space, a full disk is detected here, before anything is
     * copied. */
    if (size > 0 && fallocate(fd, 0, 0, size) < 0 &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
        return error_set_errno(err, errno, "cannot allocate %lld bytes of disk space for %s",
                               (long long)size, path);
    if (ftruncate(fd, size) < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    return kind == IDX ? write_header(assembly, shard, key, fd, err) : 0;
}

/* Sync and close a file of the output. */
static int close_file(const struct assembly *assembly, int fd, int rc, struct error *err)
{
    if (rc == 0 && fsync(fd) < 0)
        rc = error_set_errno(err, errno, "cannot write the output %s to disk",
                             assembly->config->output_prefix);
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write the output %s to disk",
                             assembly->config->output_prefix);
    return rc;
}

/* Write-only: an NFS client writes back all bytes of a page that it may read, including those that
 * another node has written since. */
static int open_file(const struct assembly *assembly, size_t shard, size_t key, int kind,
                     int create, struct error *err)
{
    char path[DISK_PATH];
    int fd;

    if (draft_path(assembly, shard, key, kind, path, err) < 0)
        return -1;
    fd = open(path, O_WRONLY | create | O_CLOEXEC, 0666);
    if (fd < 0)
        error_set_errno(err, errno, "cannot open %s", path);
    return fd;
}

static int create_file(struct assembly *assembly, size_t shard, size_t key, int kind,
                       struct error *err)
{
    int fd = open_file(assembly, shard, key, kind, O_CREAT, err);

    if (fd < 0)
        return -1;
    return close_file(assembly, fd, size_file(assembly, shard, key, kind, fd, err), err);
}

/* Write the identity file of a pair, which names its tokenizer. */
static int create_identity(const struct assembly *assembly, size_t shard, size_t key,
                           struct error *err)
{
    struct data_identity identity = {assembly->made_by, assembly->config->append_eod};
    char path[DISK_PATH], text[DATA_IDENTITY_TEXT];
    size_t size = data_identity_text(&identity, size_of(assembly, shard, key, BIN),
                                     size_of(assembly, shard, key, IDX), text);

    if (draft_path(assembly, shard, key, IDENTITY, path, err) < 0)
        return -1;
    return file_write_whole(path, text, size, 0, err);
}

int assembly_create(struct assembly *assembly, struct job *job, struct error *err)
{
    for (size_t s = 0; s < assembly->layout->shards; s++)
        for (size_t k = 0; k < assembly->layout->keys; k++) {
            job_touch(job);
            if (create_file(assembly, s, k, BIN, err) < 0 ||
                create_file(assembly, s, k, IDX, err) < 0 ||
                create_identity(assembly, s, k, err) < 0)
                return -1;
        }
    return 0;
}

/* What one job copies: for each key the pair of files that it writes to, of one shard at a time;
 * and one key's data of a block that goes to that shard, with the arrays for the .idx file. */
struct copying {
    struct assembly *assembly;
    struct job *job;
    struct target {
        bool open;
        size_t shard;
        int fds[2]; /* .bin, .idx */
    } targets[PART_KEYS];
    size_t shard, key;
    const unsigned char *tokens;
    int64_t token_count, sequence_count, document_count;
    struct position begin; /* only documents and this key's counts are used */
    int32_t *lengths;
    int64_t *pointers, *documents;
    size_t capacity; /* of the arrays, in entries */
};

/* Bring to disk what was written to the files of a key. A sync may take long. */
static int close_target(struct copying *copying, size_t key, int rc, struct error *err)
{
    struct target *target = &copying->targets[key];

    for (int kind = BIN; target->open && kind <= IDX; kind++) {
        job_touch(copying->job);
        rc = close_file(copying->assembly, target->fds[kind], rc, err);
    }
    target->open = false;
    return rc;
}

/* Never creates a file: a late rank must not leave an empty file in place of a renamed one. */
static int open_target(struct copying *copying, size_t key, size_t shard, struct error *err)
{
    struct target *target = &copying->targets[key];

    if (target->open && target->shard == shard)
        return 0;
    if (close_target(copying, key, 0, err) < 0)
        return -1;
    target->fds[BIN] = open_file(copying->assembly, shard, key, BIN, 0, err);
    target->fds[IDX] =
        target->fds[BIN] < 0 ? -1 : open_file(copying->assembly, shard, key, IDX, 0, err);
    if (target->fds[BIN] >= 0 && target->fds[IDX] < 0)
        close(target->fds[BIN]);
    target->open = target->fds[IDX] >= 0;
    target->shard = shard;
    return target->open ? 0 : -1;
}

static void reserve_entries(struct copying *copying, size_t count)
{
    if (count <= copying->capacity)
        return;
    count += count / 2;
    copying->lengths = xrealloc(copying->lengths, count, sizeof(*copying->lengths));
    copying->pointers = xrealloc(copying->pointers, count, sizeof(*copying->pointers));
    copying->documents = xrealloc(copying->documents, count, sizeof(*copying->documents));
    copying->capacity = count;
}

/* Append an entry, and advance 'position' past it. */
static void add_entry(struct copying *copying, int32_t entry, const struct position *cut,
                      size_t id_size, struct position *position)
{
    size_t key = copying->key;

    if (ENTRY_TOKENS(entry) > 0) {
        copying->lengths[copying->sequence_count] = ENTRY_TOKENS(entry);
        copying->pointers[copying->sequence_count++] =
            (position->tokens[key] - cut->tokens[key]) * (int64_t)id_size;
        position->tokens[key] += ENTRY_TOKENS(entry);
        position->sequences[key]++;
    }
    if (entry & ENTRY_LAST) {
        copying->documents[copying->document_count++] =
            position->sequences[key] - cut->sequences[key];
        position->documents++;
    }
}

static int write_at(const struct copying *copying, int kind, const void *data, size_t size,
                    int64_t at, struct error *err)
{
    char path[DISK_PATH];

    if (draft_path(copying->assembly, copying->shard, copying->key, kind, path, err) < 0)
        return -1;
    return disk_pwrite(copying->targets[copying->key].fds[kind], data, size, at, path, err);
}

static int write_stretch(struct copying *copying, struct error *err)
{
    const struct output_layout *layout = copying->assembly->layout;
    size_t key = copying->key;
    const struct position *cut = &layout->cuts[copying->shard];
    int64_t sequences = sequences_in(layout, copying->shard, key);
    int64_t sequence = copying->begin.sequences[key] - cut->sequences[key];
    int64_t document = copying->begin.documents - cut->documents + 1;
    int64_t token = copying->begin.tokens[key] - cut->tokens[key];
    int64_t lengths_at = header_size(copying->assembly);
    int64_t pointers_at = lengths_at + sequences * IDX_LENGTH_SIZE;
    int64_t documents_at = pointers_at + sequences * IDX_POINTER_SIZE;

    if (open_target(copying, key, copying->shard, err) < 0 ||
        write_at(copying, BIN, copying->tokens, (size_t)copying->token_count * layout->id_size,
                 token * (int64_t)layout->id_size, err) < 0 ||
        write_at(copying, IDX, copying->lengths, (size_t)copying->sequence_count * IDX_LENGTH_SIZE,
                 lengths_at + sequence * IDX_LENGTH_SIZE, err) < 0 ||
        write_at(copying, IDX, copying->pointers,
                 (size_t)copying->sequence_count * IDX_POINTER_SIZE,
                 pointers_at + sequence * IDX_POINTER_SIZE, err) < 0)
        return -1;
    if (copying->assembly->config->fairseq)
        return 0;
    return write_at(copying, IDX, copying->documents,
                    (size_t)copying->document_count * IDX_DOCUMENT_SIZE,
                    documents_at + document * IDX_DOCUMENT_SIZE, err);
}

static size_t shard_of(const struct output_layout *layout, int64_t document)
{
    size_t shard = 0;

    while (shard < layout->shards && layout->cuts[shard + 1].documents <= document)
        shard++;
    return shard;
}

/* Copy one key of a block, and advance 'position' to its end. */
static int copy_key(struct copying *copying, size_t key, const struct part_key *data,
                    struct position *position, struct error *err)
{
    const struct output_layout *layout = copying->assembly->layout;

    reserve_entries(copying, data->entry_count);
    copying->key = key;
    copying->tokens = data->tokens;
    for (size_t at = 0; at < data->entry_count;) {
        const struct position *cut;

        copying->shard = shard_of(layout, position->documents);
        cut = &layout->cuts[copying->shard];
        if (copying->shard == layout->shards)
            break; /* beyond the maximum number of documents */
        copying->begin = *position;
        copying->sequence_count = copying->document_count = 0;
        while (at < data->entry_count && position->documents < cut[1].documents)
            add_entry(copying, data->entries[at++], cut, layout->id_size, position);
        copying->token_count = position->tokens[key] - copying->begin.tokens[key];
        if (write_stretch(copying, err) < 0)
            return -1;
        copying->tokens += (size_t)copying->token_count * layout->id_size;
    }
    return 0;
}

/* Copy the blocks of a part. Returns 0, or -1 (also if it is torn). */
static int copy_blocks(struct copying *copying, size_t chunk, struct part_reader *part, int *torn,
                       struct error *err)
{
    const struct output_layout *layout = copying->assembly->layout;
    struct position position = layout->begins[chunk], end = layout->begins[chunk + 1];
    struct part_key data[PART_KEYS];
    int rc;

    while ((rc = part_next(part, data, torn, err)) > 0) {
        int64_t documents = position.documents;

        for (size_t k = 0; k < layout->keys; k++) {
            position.documents = documents;
            if (copy_key(copying, k, &data[k], &position, err) < 0)
                return -1;
        }
    }
    if (rc == 0 && position.documents < end.documents &&
        position.documents < layout->cuts[layout->shards].documents)
        return error_set(
            err,
            "the documents of chunk %zu have changed since it was encoded; remove %s.work and run "
            "again",
            chunk, copying->assembly->config->output_prefix);
    return rc;
}

static int copy_chunk(struct copying *copying, size_t chunk, struct error *err)
{
    struct encode *encode = copying->assembly->encode;

    for (bool redone = false;; redone = true) {
        struct part_reader *part = encode_open_part(encode, copying->job, chunk, err);
        int torn = 0, rc = part ? copy_blocks(copying, chunk, part, &torn, err) : -1;

        part_close(part);
        if (!torn)
            return rc;
        if (redone)
            return error_set(err,
                             "the part of chunk %zu is damaged again; check the disk (dmesg), or "
                             "write to another file system",
                             chunk);
        if (encode_redo(encode, copying->job, chunk, err) < 0)
            return -1;
    }
}

int assembly_copy(struct assembly *assembly, struct job *job, size_t first, size_t end,
                  struct error *err)
{
    struct copying *copying = xcalloc(1, sizeof(*copying));
    int rc = 0;

    copying->assembly = assembly;
    copying->job = job;
    for (size_t chunk = first; chunk < end && rc == 0; chunk++) {
        rc = copy_chunk(copying, chunk, err);
        job_touch(job);
    }
    for (size_t k = 0; k < assembly->layout->keys; k++)
        rc = close_target(copying, k, rc, err);
    free(copying->lengths);
    free(copying->pointers);
    free(copying->documents);
    free(copying);
    return rc;
}

/* Does the final file exist at its full size? */
static bool is_final(const struct assembly *assembly, size_t shard, size_t key, int kind,
                     const char *final)
{
    struct stat status;

    return stat(final, &status) == 0 && status.st_size == size_of(assembly, shard, key, kind);
}

/* Rename the identity file, unless another rank has done it. */
static int finish_identity(struct assembly *assembly, size_t shard, size_t key, struct error *err)
{
    char draft[DISK_PATH], final[DISK_PATH];

    if (draft_path(assembly, shard, key, IDENTITY, draft, err) < 0 ||
        output_path(assembly->config, key, shard, extensions[IDENTITY], final, err) < 0)
        return -1;
    if (rename(draft, final) == 0 || errno == ENOENT)
        return 0;
    return error_set_errno(err, errno, "cannot rename %s to %s", draft, final);
}

/* Rename one file, unless it has been renamed already. */
static int finish_file(struct assembly *assembly, size_t shard, size_t key, int kind,
                       struct error *err)
{
    char draft[DISK_PATH], final[DISK_PATH], idx[DISK_PATH];

    if (draft_path(assembly, shard, key, kind, draft, err) < 0 ||
        output_path(assembly->config, key, shard, extensions[kind], final, err) < 0 ||
        output_path(assembly->config, key, shard, "idx", idx, err) < 0)
        return -1;
    /* Never leave a new .bin beside an old .idx. */
    if (kind == BIN && access(draft, F_OK) == 0)
        unlink(idx);
    if (kind == IDX && finish_identity(assembly, shard, key, err) < 0)
        return -1;
    if (rename(draft, final) == 0)
        return 0;
    if (errno == ENOENT && is_final(assembly, shard, key, kind, final))
        return 0;
    return error_set_errno(err, errno, "cannot rename %s to %s", draft, final);
}

static int finish_kind(struct assembly *assembly, int kind, struct error *err)
{
    for (size_t s = 0; s < assembly->layout->shards; s++)
        for (size_t k = 0; k < assembly->layout->keys; k++)
            if (finish_file(assembly, s, k, kind, err) < 0)
                return -1;
    return file_sync_parent(assembly->config->output_prefix, err);
}

/* The .idx files come last: if one exists, its .bin is complete. */
int assembly_finish(struct assembly *assembly, struct error *err)
{
    return finish_kind(assembly, BIN, err) < 0 ? -1 : finish_kind(assembly, IDX, err);
}
