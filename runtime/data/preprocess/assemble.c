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
#include <sys/resource.h>
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

/* A share of the process's file descriptors: more than all copying threads use at a time. */
static size_t descriptor_limit(void)
{
    struct rlimit limit;
    size_t half = 64;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 > half)
        half = limit.rlim_cur / 2 < 1024 ? (size_t)limit.rlim_cur / 2 : 1024;
    return half;
}

void assembly_init(struct assembly *assembly)
{
    size_t count = assembly->layout->shards * assembly->layout->keys * 2;

    pthread_mutex_init(&assembly->lock, NULL);
    assembly->open_limit = descriptor_limit();
    assembly->slots = xmalloc((count + 1) * sizeof(*assembly->slots));
    assembly->open = xcalloc(assembly->open_limit, sizeof(*assembly->open));
    for (size_t i = 0; i < count; i++)
        assembly->slots[i] = -1;
}

void assembly_clear(struct assembly *assembly)
{
    for (size_t i = 0; i < assembly->open_count; i++)
        if (assembly->open[i].fd >= 0)
            close(assembly->open[i].fd);
    free(assembly->slots);
    free(assembly->open);
    pthread_mutex_destroy(&assembly->lock);
}

/* Get a free slot: a new one, or that of the least recently used file. Called with the lock held.
 * Returns NULL with 'err' set. */
static struct open_file *free_slot(struct assembly *assembly, struct error *err)
{
    struct open_file *oldest = NULL;

    for (size_t i = 0; i < assembly->open_count; i++) {
        struct open_file *file = &assembly->open[i];

        if (file->fd < 0)
            return file;
        if (file->users == 0 && (!oldest || file->used < oldest->used))
            oldest = file;
    }
    if (assembly->open_count < assembly->open_limit) {
        oldest = &assembly->open[assembly->open_count++];
        oldest->fd = -1;
        return oldest;
    }
    if (!oldest) {
        error_set(err, "too many output files are open at once; raise the limit with `ulimit -n`");
        return NULL;
    }
    /* assembly_sync will not see this file */
    if (fsync(oldest->fd) < 0) {
        error_set_errno(err, errno, "cannot write the output %s to disk",
                        assembly->config->output_prefix);
        return NULL;
    }
    close(oldest->fd);
    oldest->fd = -1;
    assembly->slots[oldest->number] = -1;
    return oldest;
}

static size_t number_of(const struct assembly *assembly, size_t shard, size_t key, int kind)
{
    return (shard * assembly->layout->keys + key) * 2 + (size_t)kind;
}

/* Open a file, or reuse its descriptor, until release_file. Returns the descriptor, or -1 with
 * 'err' set. */
static int open_file(struct assembly *assembly, size_t shard, size_t key, int kind, int create,
                     struct error *err)
{
    size_t number = number_of(assembly, shard, key, kind);
    struct open_file *file = NULL;
    char path[DISK_PATH];

    pthread_mutex_lock(&assembly->lock);
    if (assembly->slots[number] >= 0) {
        file = &assembly->open[assembly->slots[number]];
    } else if (draft_path(assembly, shard, key, kind, path, err) == 0) {
        file = free_slot(assembly, err);
        if (file) {
            *file = (struct open_file){.number = number};
            /* Write-only: an NFS client writes back all bytes of a page that it may read, including
             * those that another node has written since. */
            file->fd = open(path, O_WRONLY | create | O_CLOEXEC, 0666);
        }
        if (file && file->fd < 0) {
            error_set_errno(err, errno, "cannot open %s", path);
            file = NULL;
        }
        if (file)
            assembly->slots[number] = (int32_t)(file - assembly->open);
    }
    if (file) {
        file->users++;
        file->used = ++assembly->turn;
    }
    pthread_mutex_unlock(&assembly->lock);
    return file ? file->fd : -1;
}

static void release_file(struct assembly *assembly, size_t shard, size_t key, int kind)
{
    pthread_mutex_lock(&assembly->lock);
    assembly->open[assembly->slots[number_of(assembly, shard, key, kind)]].users--;
    pthread_mutex_unlock(&assembly->lock);
}

/* Never creates a file: a late rank must not leave an empty file in place of a renamed one. */
static int file_of(struct assembly *assembly, size_t shard, size_t key, int kind, struct error *err)
{
    return open_file(assembly, shard, key, kind, 0, err);
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

static int create_file(struct assembly *assembly, size_t shard, size_t key, int kind,
                       struct error *err)
{
    int fd = open_file(assembly, shard, key, kind, O_CREAT, err), rc;

    if (fd < 0)
        return -1;
    rc = size_file(assembly, shard, key, kind, fd, err);
    release_file(assembly, shard, key, kind);
    return rc;
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

/* One key's data of a block that goes to one shard: tokens, and the arrays for the .idx file. */
struct stretch {
    size_t shard, key;
    const unsigned char *tokens;
    int64_t token_count, sequence_count, document_count;
    struct position begin; /* only documents and this key's counts are used */
    int32_t *lengths;
    int64_t *pointers, *documents;
    size_t capacity; /* of the arrays, in entries */
};

static void reserve_entries(struct stretch *stretch, size_t count)
{
    if (count <= stretch->capacity)
        return;
    count += count / 2;
    stretch->lengths = xrealloc(stretch->lengths, count, sizeof(*stretch->lengths));
    stretch->pointers = xrealloc(stretch->pointers, count, sizeof(*stretch->pointers));
    stretch->documents = xrealloc(stretch->documents, count, sizeof(*stretch->documents));
    stretch->capacity = count;
}

/* Append an entry, and advance 'position' past it. */
static void add_entry(struct stretch *stretch, int32_t entry, const struct position *cut,
                      size_t id_size, struct position *position)
{
    size_t key = stretch->key;

    if (ENTRY_TOKENS(entry) > 0) {
        stretch->lengths[stretch->sequence_count] = ENTRY_TOKENS(entry);
        stretch->pointers[stretch->sequence_count++] =
            (position->tokens[key] - cut->tokens[key]) * (int64_t)id_size;
        position->tokens[key] += ENTRY_TOKENS(entry);
        position->sequences[key]++;
    }
    if (entry & ENTRY_LAST) {
        stretch->documents[stretch->document_count++] =
            position->sequences[key] - cut->sequences[key];
        position->documents++;
    }
}

static int write_at(struct assembly *assembly, const struct stretch *stretch, int kind,
                    const void *data, size_t size, int64_t at, struct error *err)
{
    int fd = file_of(assembly, stretch->shard, stretch->key, kind, err), rc = -1;
    char path[DISK_PATH];

    if (fd < 0)
        return -1;
    if (draft_path(assembly, stretch->shard, stretch->key, kind, path, err) == 0)
        rc = disk_pwrite(fd, data, size, at, path, err);
    release_file(assembly, stretch->shard, stretch->key, kind);
    return rc;
}

static int write_stretch(struct assembly *assembly, const struct stretch *stretch,
                         struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    const struct position *cut = &layout->cuts[stretch->shard];
    int64_t sequences = sequences_in(layout, stretch->shard, stretch->key);
    int64_t sequence = stretch->begin.sequences[stretch->key] - cut->sequences[stretch->key];
    int64_t document = stretch->begin.documents - cut->documents + 1;
    int64_t token = stretch->begin.tokens[stretch->key] - cut->tokens[stretch->key];
    int64_t lengths_at = header_size(assembly);
    int64_t pointers_at = lengths_at + sequences * IDX_LENGTH_SIZE;
    int64_t documents_at = pointers_at + sequences * IDX_POINTER_SIZE;

    if (write_at(assembly, stretch, BIN, stretch->tokens,
                 (size_t)stretch->token_count * layout->id_size, token * (int64_t)layout->id_size,
                 err) < 0 ||
        write_at(assembly, stretch, IDX, stretch->lengths,
                 (size_t)stretch->sequence_count * IDX_LENGTH_SIZE,
                 lengths_at + sequence * IDX_LENGTH_SIZE, err) < 0 ||
        write_at(assembly, stretch, IDX, stretch->pointers,
                 (size_t)stretch->sequence_count * IDX_POINTER_SIZE,
                 pointers_at + sequence * IDX_POINTER_SIZE, err) < 0)
        return -1;
    if (assembly->config->fairseq)
        return 0;
    return write_at(assembly, stretch, IDX, stretch->documents,
                    (size_t)stretch->document_count * IDX_DOCUMENT_SIZE,
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
static int copy_key(struct assembly *assembly, size_t key, const struct part_key *data,
                    struct position *position, struct stretch *stretch, struct error *err)
{
    const struct output_layout *layout = assembly->layout;

    reserve_entries(stretch, data->entry_count);
    stretch->key = key;
    stretch->tokens = data->tokens;
    for (size_t at = 0; at < data->entry_count;) {
        const struct position *cut;

        stretch->shard = shard_of(layout, position->documents);
        cut = &layout->cuts[stretch->shard];
        if (stretch->shard == layout->shards)
            break; /* beyond the maximum number of documents */
        stretch->begin = *position;
        stretch->sequence_count = stretch->document_count = 0;
        while (at < data->entry_count && position->documents < cut[1].documents)
            add_entry(stretch, data->entries[at++], cut, layout->id_size, position);
        stretch->token_count = position->tokens[key] - stretch->begin.tokens[key];
        if (write_stretch(assembly, stretch, err) < 0)
            return -1;
        stretch->tokens += (size_t)stretch->token_count * layout->id_size;
    }
    return 0;
}

/* Copy the blocks of a part. Returns 0, or -1 (also if it is torn). */
static int copy_blocks(struct assembly *assembly, size_t chunk, struct part_reader *part, int *torn,
                       struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    struct position position = layout->begins[chunk], end = layout->begins[chunk + 1];
    struct part_key data[PART_KEYS];
    struct stretch stretch = {0};
    int rc;

    while ((rc = part_next(part, data, torn, err)) > 0) {
        int64_t documents = position.documents;

        for (size_t k = 0; k < layout->keys && rc > 0; k++) {
            position.documents = documents;
            rc = copy_key(assembly, k, &data[k], &position, &stretch, err) < 0 ? -1 : 1;
        }
        if (rc < 0)
            break;
    }
    free(stretch.lengths);
    free(stretch.pointers);
    free(stretch.documents);
    if (rc == 0 && position.documents < end.documents &&
        position.documents < layout->cuts[layout->shards].documents)
        return error_set(
            err,
            "the documents of chunk %zu have changed since it was encoded; remove %s.work and run "
            "again",
            chunk, assembly->config->output_prefix);
    return rc;
}

int assembly_copy(struct assembly *assembly, struct job *job, size_t chunk, struct error *err)
{
    for (bool redone = false;; redone = true) {
        struct part_reader *part = encode_open_part(assembly->encode, job, chunk, err);
        int torn = 0, rc = part ? copy_blocks(assembly, chunk, part, &torn, err) : -1;

        part_close(part);
        if (!torn)
            return rc;
        if (redone)
            return error_set(err,
                             "the part of chunk %zu is damaged again; check the disk (dmesg), or "
                             "write to another file system",
                             chunk);
        if (encode_redo(assembly->encode, job, chunk, err) < 0)
            return -1;
    }
}

int assembly_sync(struct assembly *assembly, void (*moved)(void *context), void *context,
                  struct error *err)
{
    for (size_t i = 0; i < assembly->open_count; i++)
        if (assembly->open[i].fd >= 0 && file_flush(assembly->open[i].fd, moved, context) < 0)
            return error_set_errno(err, errno, "cannot write the output %s to disk",
                                   assembly->config->output_prefix);
    return 0;
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
