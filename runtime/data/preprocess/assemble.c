/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "assemble.h"
#include "data/jobs/bytes.h"
#include "columns.h"
#include "data/dataset/data_identity.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "front.h"
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
    return disk_path(path, err, "%.4000s/out-%016" PRIx64 "-%zu-%zu.%s", assembly->work->base,
                     assembly->layout->tag, shard, key, extensions[kind]);
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
    struct stat status;
    char path[DISK_PATH];

    if (fstat(fd, &status) == 0 && kind == BIN && status.st_size == size)
        return 0;
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

/* The file of the front becomes the output. It also keeps its own name, for another layout, in case
 * this rank is killed before the layout is written. On file systems without links it is renamed. */
static int take_front(struct assembly *assembly, size_t key, struct error *err)
{
    char front[DISK_PATH], draft[DISK_PATH];

    if (front_path(assembly->work, key, front, err) < 0 ||
        draft_path(assembly, 0, key, BIN, draft, err) < 0)
        return -1;
    if (link(front, draft) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOSPC || errno == EDQUOT || rename(front, draft) < 0)
        return error_set_errno(err, errno, "cannot create %s", draft);
    return 0;
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

int assembly_create(struct assembly *assembly, struct board *claim, struct error *err)
{
    for (size_t k = 0; k < assembly->layout->keys; k++)
        if (take_front(assembly, k, err) < 0)
            return -1;
    for (size_t s = 0; s < assembly->layout->shards; s++)
        for (size_t k = 0; k < assembly->layout->keys; k++) {
            board_touch_often(assembly->work, claim, 0);
            if (create_file(assembly, s, k, BIN, err) < 0 ||
                create_file(assembly, s, k, IDX, err) < 0 ||
                create_identity(assembly, s, k, err) < 0)
                return -1;
        }
    return 0;
}

static int write_columns(struct assembly *assembly, const struct columns *columns, int bin, int idx,
                         struct error *err)
{
    const struct stretch *stretch = &columns->stretch;
    const struct output_layout *layout = assembly->layout;
    const struct position *cut = &layout->cuts[stretch->shard];
    int64_t sequences = sequences_in(layout, stretch->shard, stretch->key);
    int64_t sequence = stretch->begin.sequences[stretch->key] - cut->sequences[stretch->key];
    int64_t pointers_at = header_size(assembly) + sequences * IDX_LENGTH_SIZE;
    int64_t documents_at = pointers_at + sequences * IDX_POINTER_SIZE;
    int64_t token = stretch->begin.tokens[stretch->key] - cut->tokens[stretch->key];
    char path[DISK_PATH];

    if (draft_path(assembly, stretch->shard, stretch->key, BIN, path, err) < 0)
        return -1;
    if ((stretch->tokens &&
         disk_pwrite(bin, stretch->tokens, (size_t)stretch->token_count * layout->id_size,
                     token * (int64_t)layout->id_size, path, err) < 0) ||
        draft_path(assembly, stretch->shard, stretch->key, IDX, path, err) < 0)
        return -1;
    if (disk_pwrite(idx, columns->lengths, (size_t)stretch->sequence_count * IDX_LENGTH_SIZE,
                    header_size(assembly) + sequence * IDX_LENGTH_SIZE, path, err) < 0)
        return -1;
    if (disk_pwrite(idx, columns->pointers, (size_t)stretch->sequence_count * IDX_POINTER_SIZE,
                    pointers_at + sequence * IDX_POINTER_SIZE, path, err) < 0)
        return -1;
    if (assembly->config->fairseq)
        return 0;
    return disk_pwrite(idx, columns->documents, (size_t)stretch->document_count * IDX_DOCUMENT_SIZE,
                       documents_at +
                           (stretch->begin.documents - cut->documents + 1) * IDX_DOCUMENT_SIZE,
                       path, err);
}

/* Entries to collect before a stretch without tokens is written. */
enum { ENTRIES_AT_ONCE = 65536 };

/* Write a stretch, and begin another one. */
static int write_stretch(struct assembly *assembly, struct columns *columns, struct error *err)
{
    const struct stretch *stretch = &columns->stretch;
    int bin, idx, rc = -1;

    if (columns->count == 0)
        return 0;
    bin = file_of(assembly, stretch->shard, stretch->key, BIN, err);
    idx = bin < 0 ? -1 : file_of(assembly, stretch->shard, stretch->key, IDX, err);
    if (idx >= 0)
        rc = write_columns(assembly, columns, bin, idx, err);
    if (bin >= 0)
        release_file(assembly, stretch->shard, stretch->key, BIN);
    if (idx >= 0)
        release_file(assembly, stretch->shard, stretch->key, IDX);
    columns->count = 0;
    return rc;
}

static size_t shard_of(const struct output_layout *layout, int64_t document)
{
    size_t shard = 0;

    while (shard < layout->shards && layout->cuts[shard + 1].documents <= document)
        shard++;
    return shard;
}

/* Copy one key of a block, and advance 'position' to its end. If the tokens are already in
 * position, the entries may wait in 'columns'. */
static int copy_key(struct assembly *assembly, size_t key, const struct part_key *data,
                    struct position *position, struct columns *columns, struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    const unsigned char *tokens = data->tokens;
    size_t at = 0;

    columns_reserve(columns, data->entry_count);
    while (at < data->entry_count) {
        size_t shard = shard_of(layout, position->documents);
        const struct position *cut = &layout->cuts[shard];
        struct stretch *stretch = &columns->stretch;

        if (shard == layout->shards)
            break; /* beyond the maximum number of documents */
        if (columns->count > 0 && stretch->shard != shard &&
            write_stretch(assembly, columns, err) < 0)
            return -1;
        if (columns->count == 0)
            *stretch =
                (struct stretch){.shard = shard, .key = key, .tokens = tokens, .begin = *position};
        while (at < data->entry_count && position->documents < cut[1].documents)
            columns_add(columns, data->entries[at++], cut, layout->id_size, position);
        stretch->token_count = position->tokens[key] - stretch->begin.tokens[key];
        if (tokens)
            tokens += (size_t)stretch->token_count * layout->id_size;
        if ((tokens || columns->count >= ENTRIES_AT_ONCE) &&
            write_stretch(assembly, columns, err) < 0)
            return -1;
    }
    return 0;
}

/* Update a checksum with the tokens of one key of a block, which are in the output. */
static int sum_tokens(struct assembly *assembly, size_t key, const struct part_key *data,
                      int64_t token, uint64_t *sum, struct error *err)
{
    size_t size = data->token_count * assembly->layout->id_size;
    unsigned char *tokens;
    char path[DISK_PATH];
    int fd, rc;

    if (draft_path(assembly, 0, key, BIN, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    tokens = xmalloc(size + 1);
    rc = disk_pread(fd, tokens, size, token * (int64_t)assembly->layout->id_size, path, err);
    close(fd);
    if (rc == 0)
        *sum = checksum_seeded(tokens, size, *sum);
    free(tokens);
    return rc;
}

/* An earlier launch wrote the tokens of a chunk to their position, but its node may have crashed
 * before they were on disk: verify them. Returns 0, 1 if they are damaged, or -1. */
static int check_tokens(struct assembly *assembly, size_t chunk, struct part_reader *part,
                        struct error *err)
{
    const uint64_t *wanted = part_direct(part);
    struct position position = assembly->layout->begins[chunk];
    struct part_key keys[PART_KEYS];
    uint64_t sums[PART_KEYS] = {0};
    int torn, rc;

    while ((rc = part_next(part, keys, &torn, err)) > 0)
        for (size_t k = 0; k < assembly->layout->keys; k++) {
            rc = sum_tokens(assembly, k, &keys[k], position.tokens[k], &sums[k], err);
            if (rc != 0)
                return rc;
            position.tokens[k] += (int64_t)keys[k].token_count;
        }
    if (rc < 0)
        return torn ? 1 : -1;
    part_rewind(part);
    return memcmp(sums, wanted, assembly->layout->keys * sizeof(sums[0])) != 0;
}

/* Copy the blocks of a part. Returns 0, or -1 (also if it is torn). */
static int copy_keys(struct assembly *assembly, struct part_reader *part, struct position *position,
                     struct columns *columns, int *torn, struct error *err)
{
    size_t keys = assembly->layout->keys;
    struct part_key data[PART_KEYS];
    int rc;

    while ((rc = part_next(part, data, torn, err)) > 0) {
        int64_t documents = position->documents;

        for (size_t k = 0; k < keys; k++) {
            position->documents = documents;
            if (copy_key(assembly, k, &data[k], position, &columns[k], err) < 0)
                return -1;
        }
    }
    for (size_t k = 0; k < keys && rc == 0; k++)
        rc = write_stretch(assembly, &columns[k], err);
    return rc;
}

static int copy_blocks(struct assembly *assembly, size_t chunk, struct part_reader *part, int *torn,
                       struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    struct columns *columns = xcalloc(layout->keys, sizeof(*columns));
    struct position position = layout->begins[chunk], end = layout->begins[chunk + 1];
    int rc;

    rc = copy_keys(assembly, part, &position, columns, torn, err);
    for (size_t k = 0; k < layout->keys; k++)
        columns_clear(&columns[k]);
    free(columns);
    if (rc == 0 && position.documents < end.documents &&
        position.documents < layout->cuts[layout->shards].documents)
        return error_set(
            err,
            "the documents of chunk %zu have changed since it was encoded; remove %s and run again",
            chunk, assembly->work->root);
    return rc;
}

int assembly_copy(struct assembly *assembly, size_t chunk, struct error *err)
{
    const struct output_layout *layout = assembly->layout;
    struct job_state *job = &assembly->parts->jobs[chunk];
    char path[DISK_PATH];
    int torn, rc = -1;
    struct part_reader *part = output_layout_open_part(assembly->work, assembly->parts, chunk,
                                                       layout->keys, layout->id_size, &torn, err);

    if (part && part_direct(part) && !job->made) {
        rc = check_tokens(assembly, chunk, part, err);
        torn = rc > 0;
    } else if (part) {
        rc = 0;
    }
    if (part && rc == 0)
        rc = copy_blocks(assembly, chunk, part, &torn, err);
    part_close(part);
    if (!torn)
        return rc;
    if (work_part_path(assembly->work, chunk, job->documents, job->bytes, path, err) == 0)
        unlink(path);
    job->done = 0;
    return 1;
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

int assembly_is_finishing(struct assembly *assembly)
{
    char draft[DISK_PATH], final[DISK_PATH];
    struct error ignored;

    return draft_path(assembly, 0, 0, BIN, draft, &ignored) == 0 &&
           output_path(assembly->config, 0, 0, extensions[BIN], final, &ignored) == 0 &&
           disk_is_gone(draft) && is_final(assembly, 0, 0, BIN, final);
}
