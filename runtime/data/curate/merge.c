/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "merge.h"
#include "lib/clock.h"
#include "data/dataset/data_identity.h"
#include "data/jobs/disk.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "data/dataset/indexed.h"
#include "base/core/log.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PIECE: bytes of a copy job. ENTRIES: .idx entries in memory at once. */
enum { PIECE = 256 << 20, BUFFER = 4 << 20, ENTRIES = 1 << 18 };

/* An input pair, and its position in the merged one. */
struct part {
    struct indexed *indexed;
    struct indexed_info info;
    char bin[DISK_PATH];
    int64_t tokens;
    int64_t sequences, documents, bytes; /* totals of the pairs before it */
};

struct merge {
    const struct merge_config *config;
    struct part *parts;
    struct part total; /* totals of all pairs */
    size_t *owners;    /* per piece: index of its pair */
    int64_t *places;   /* per piece: its offset in the pair's .bin file */
    size_t pieces;
    char paths[3][DISK_PATH], made[2][DISK_PATH]; /* .bin, .idx and .tokenizer */
    struct data_identity identity;                /* common to all pairs */
    size_t known;                                 /* number of pairs whose identity is known */
};

/* --- Which tokenizer made the pairs ----------------------------------------------------------- */

/* Token ids of two tokenizers cannot be mixed, nor two different end-of-document tokens. */
static int join_identity(struct merge *merge, const struct part *part, struct error *err)
{
    struct data_identity identity, *all = &merge->identity;
    char words[2][DATA_IDENTITY_WORDS];
    int rc = data_identity_read(part->indexed, &identity, err);

    if (rc < 0)
        log_warning("%s", err->text);
    if (rc <= 0)
        return 0;
    if (merge->known++ == 0) {
        *all = identity;
        return 0;
    }
    data_identity_words(&identity.tokenizer, words[0]);
    data_identity_words(&all->tokenizer, words[1]);
    if (!data_identity_matches(&identity.tokenizer, &all->tokenizer))
        return error_set_code(err, ERROR_USAGE,
                              "%s was made by %s, and other pairs by %s; tokenize them with one "
                              "tokenizer",
                              indexed_prefix(part->indexed), words[0], words[1]);
    if (identity.append_eod && all->append_eod && identity.tokenizer.eod != all->tokenizer.eod)
        return error_set_code(
            err, ERROR_USAGE,
            "documents of %s end with token %" PRId64
            ", and those of other pairs with token %" PRId64 "; tokenize them with one tokenizer",
            indexed_prefix(part->indexed), identity.tokenizer.eod, all->tokenizer.eod);
    /* It is unknown whether a NullTokenizer's ids come from the same tokenizer. */
    if ((identity.tokenizer.texts == 0) != (all->tokenizer.texts == 0))
        merge->known--;
    all->append_eod &= identity.append_eod;
    if (identity.tokenizer.vocab_size > all->tokenizer.vocab_size)
        all->tokenizer.vocab_size = identity.tokenizer.vocab_size;
    return 0;
}

static int join_identities(struct merge *merge, struct error *err)
{
    if (!merge->config->base.overwrite && !data_identity_may_replace(merge->paths[2])) {
        error_set_code(err, ERROR_USAGE, "%s exists, and no run has written it", merge->paths[2]);
        return error_append(err, "; use --overwrite to replace it");
    }
    for (size_t i = 0; i < merge->config->count; i++)
        if (join_identity(merge, &merge->parts[i], err) < 0)
            return -1;
    return 0;
}

/* Write the identity file beside the pair, or remove an outdated one. */
static int finish_identity(const struct merge *merge, const char *base, struct error *err)
{
    const struct part *total = &merge->total;
    char text[DATA_IDENTITY_TEXT], made[DISK_PATH];
    size_t size;

    if (merge->known < merge->config->count) {
        if (data_identity_may_replace(merge->paths[2]))
            unlink(merge->paths[2]);
        if (merge->known > 0)
            log_warning("%s will not exist: which tokenizer made the data is known for %zu of %zu "
                        "pairs only",
                        merge->paths[2], merge->known, merge->config->count);
        return 0;
    }
    size = data_identity_text(&merge->identity, total->bytes,
                              IDX_HEADER_SIZE +
                                  total->sequences * (IDX_LENGTH_SIZE + IDX_POINTER_SIZE) +
                                  (total->documents + 1) * IDX_DOCUMENT_SIZE,
                              text);
    if (disk_path(made, err, "%.3900s/out-" DATA_IDENTITY_ENDING, base) < 0 ||
        file_write_whole(made, text, size, 0, err) < 0)
        return -1;
    return rename(made, merge->paths[2]) < 0
               ? error_set_errno(err, errno, "cannot rename %s to %s", made, merge->paths[2])
               : 0;
}

static int open_parts(struct merge *merge, struct error *err)
{
    for (size_t i = 0; i < merge->config->count; i++) {
        struct part *part = &merge->parts[i];
        const char *prefix = merge->config->prefixes[i];

        errno = 0;
        part->indexed = indexed_open(prefix, err);
        if (!part->indexed)
            return file_path_error(err);
        if (disk_path(part->bin, err, "%s.bin", prefix) < 0)
            return -1;
        part->info = *indexed_info(part->indexed);
        if (file_is_same(part->bin, merge->paths[0]))
            return error_set_code(err, ERROR_USAGE,
                                  "%s is both input and output; choose another output", prefix);
        if (part->info.multimodal)
            return error_set_code(err, ERROR_USAGE,
                                  "%s is multimodal, and only texts can be merged; drop it",
                                  prefix);
        if (part->info.dtype != merge->parts[0].info.dtype)
            return error_set_code(
                err, ERROR_USAGE, "%s has %s ids and %s has %s; tokenize them with one tokenizer",
                prefix, idx_dtype_name(part->info.dtype), merge->config->prefixes[0],
                idx_dtype_name(merge->parts[0].info.dtype));
        part->sequences = merge->total.sequences;
        part->documents = merge->total.documents;
        part->bytes = merge->total.bytes;
        merge->total.sequences += part->info.sequences;
        merge->total.documents += part->info.documents;
        merge->total.bytes += part->info.bin_size;
        merge->pieces += (size_t)((part->info.bin_size + PIECE - 1) / PIECE);
    }
    return 0;
}

static void list_pieces(struct merge *merge)
{
    size_t at = 0;

    merge->owners = xcalloc(merge->pieces + 1, sizeof(*merge->owners));
    merge->places = xcalloc(merge->pieces + 1, sizeof(*merge->places));
    for (size_t i = 0; i < merge->config->count; i++)
        for (int64_t place = 0; place < merge->parts[i].info.bin_size; place += PIECE) {
            merge->owners[at] = i;
            merge->places[at++] = place;
        }
}

static int open_made(const struct merge *merge, int which, struct error *err)
{
    int fd = open(merge->made[which], O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        error_set_errno(err, errno, "cannot open %s", merge->made[which]);
    return fd;
}

static int close_made(const struct merge *merge, int which, int fd, int rc, struct error *err)
{
    if (rc == 0 && fdatasync(fd) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", merge->made[which]);
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %s", merge->made[which]);
    return rc;
}

/* --- .bin ------------------------------------------------------------------------------------- */

static int bin_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct merge *merge = context;
    const struct part *part = &merge->parts[merge->owners[job->number]];
    int64_t begin = merge->places[job->number], end = begin + PIECE;
    char *buffer = xmalloc(BUFFER);
    int from = open(part->bin, O_RDONLY | O_CLOEXEC), to = -1, rc = 0;

    bytes_put_u64(result, 1);
    if (end > part->info.bin_size)
        end = part->info.bin_size;
    if (from < 0)
        rc = error_set_errno(err, errno, "cannot open %s", part->bin);
    if (rc == 0) {
        to = open_made(merge, 0, err);
        rc = to < 0 ? -1 : 0;
    }
    for (int64_t at = begin; rc == 0 && at < end; at += BUFFER) {
        size_t size = end - at < BUFFER ? (size_t)(end - at) : BUFFER;

        rc = disk_pread(from, buffer, size, at, part->bin, err);
        if (rc > 0)
            rc = error_set(
                err, "%s was truncated while it was read; run again when nothing else writes to it",
                part->bin);
        if (rc == 0)
            rc = disk_pwrite(to, buffer, size, part->bytes + at, merge->made[0], err);
        job_touch(job);
    }
    if (to >= 0)
        rc = close_made(merge, 0, to, rc, err);
    if (from >= 0)
        close(from);
    free(buffer);
    return rc;
}

/* --- .idx ------------------------------------------------------------------------------------- */

/* Copy the lengths; each sequence begins where the previous one ends. */
static int write_sequences(const struct merge *merge, struct part *part, struct job *job, int fd,
                           int32_t *lengths, int64_t *pointers, struct error *err)
{
    int64_t pointer = part->bytes, size = (int64_t)idx_dtype_size(part->info.dtype);
    int64_t lengths_at = IDX_HEADER_SIZE, pointers_at = lengths_at + 4 * merge->total.sequences;

    part->tokens = 0;
    for (int64_t at = 0; at < part->info.sequences; at += ENTRIES) {
        int64_t count = part->info.sequences - at < ENTRIES ? part->info.sequences - at : ENTRIES;

        if (indexed_lengths(part->indexed, at, count, lengths, err) < 0)
            return -1;
        for (int64_t i = 0; i < count; i++) {
            pointers[i] = pointer;
            pointer += lengths[i] * size;
            part->tokens += lengths[i];
        }
        if (disk_pwrite(fd, lengths, (size_t)count * 4, lengths_at + 4 * (part->sequences + at),
                        merge->made[1], err) < 0 ||
            disk_pwrite(fd, pointers, (size_t)count * 8, pointers_at + 8 * (part->sequences + at),
                        merge->made[1], err) < 0)
            return -1;
        job_touch(job);
    }
    if (pointer - part->bytes != part->info.bin_size)
        return error_set(err,
                         "%s.bin has %" PRId64 " bytes, but its sequences take %" PRId64
                         ", so it cannot be merged; run `megatron data verify` on it, or tokenize "
                         "the corpus again",
                         indexed_prefix(part->indexed), part->info.bin_size, pointer - part->bytes);
    return 0;
}

/* Copy the document indices. The very first entry is 0 and is written with the header.
 * indexed_documents checks the order within a call, so each call repeats the last entry of the
 * previous one, which is not written again. */
static int write_documents(const struct merge *merge, const struct part *part, struct job *job,
                           int fd, int64_t *documents, struct error *err)
{
    int64_t documents_at = IDX_HEADER_SIZE + 12 * merge->total.sequences;

    for (int64_t at = 0; at < part->info.documents; at += ENTRIES - 1) {
        int64_t left = part->info.documents + 1 - at, count = left < ENTRIES ? left : ENTRIES;

        if (indexed_documents(part->indexed, at, count, documents, err) < 0)
            return -1;
        for (int64_t i = 0; i < count; i++)
            documents[i] += part->sequences;
        if (disk_pwrite(fd, documents + 1, (size_t)(count - 1) * 8,
                        documents_at + 8 * (part->documents + at + 1), merge->made[1], err) < 0)
            return -1;
        job_touch(job);
    }
    return 0;
}

static int write_header(const struct merge *merge, int fd, struct error *err)
{
    unsigned char header[IDX_HEADER_SIZE];
    uint64_t version = IDX_VERSION, sequences = (uint64_t)merge->total.sequences;
    uint64_t documents = (uint64_t)merge->total.documents + 1;
    int64_t zero = 0;

    memcpy(header, IDX_MAGIC, IDX_MAGIC_SIZE);
    memcpy(header + IDX_VERSION_AT, &version, 8);
    header[IDX_DTYPE_AT] = (unsigned char)merge->parts[0].info.dtype;
    memcpy(header + IDX_SEQUENCES_AT, &sequences, 8);
    memcpy(header + IDX_DOCUMENTS_AT, &documents, 8);
    if (disk_pwrite(fd, header, sizeof(header), 0, merge->made[1], err) < 0)
        return -1;
    return disk_pwrite(fd, &zero, sizeof(zero), IDX_HEADER_SIZE + 12 * merge->total.sequences,
                       merge->made[1], err);
}

/* Create both files, also if all .bin files are empty. */
static int begin_files(const struct merge *merge, int fd, struct error *err)
{
    int bin = open_made(merge, 0, err);

    if (bin < 0 || close_made(merge, 0, bin, 0, err) < 0)
        return -1;
    return write_header(merge, fd, err);
}

static int idx_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct merge *merge = context;
    struct part *part = &merge->parts[job->number];
    int32_t *lengths = xcalloc(ENTRIES, sizeof(*lengths));
    int64_t *numbers = xcalloc(ENTRIES, sizeof(*numbers));
    int fd = open_made(merge, 1, err);
    int rc = fd < 0 ? -1 : 0;

    if (rc == 0 && job->number == 0)
        rc = begin_files(merge, fd, err);
    if (rc == 0)
        rc = write_sequences(merge, part, job, fd, lengths, numbers, err);
    if (rc == 0)
        rc = write_documents(merge, part, job, fd, numbers, err);
    if (fd >= 0)
        rc = close_made(merge, 1, fd, rc, err);
    bytes_put_u64(result, (uint64_t)part->tokens);
    free(lengths);
    free(numbers);
    return rc;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int finish(struct jobs *engine, void *context, struct error *err)
{
    struct merge *merge = context;
    int64_t tokens = 0;
    double seconds;

    for (size_t i = 0; i < merge->config->count; i++) {
        struct bytes bytes;

        if (jobs_result(engine, "idx", i, &bytes, err) < 0)
            return -1;
        tokens += (int64_t)bytes_take_u64(&bytes);
        bytes_clear(&bytes);
    }
    for (int i = 0; i < 2; i++) {
        if (disk_is_gone(merge->made[i]) && disk_exists(merge->paths[i]))
            continue; /* a previous launch was killed between the two renames */
        if (i == 1 && finish_identity(merge, engine->directory, err) < 0)
            return -1;
        if (rename(merge->made[i], merge->paths[i]) < 0)
            return error_set_errno(err, errno, "cannot rename %s", merge->made[i]);
    }
    if (file_sync_parent(merge->paths[0], err) < 0)
        return -1;
    seconds = clock_now() - engine->begin + 1e-9;
    printf("Done: %s.bin and .idx\n", engine->config->output);
    printf("  merged:          %zu pairs, %" PRId64 " documents, %" PRId64 " sequences, %" PRId64
           " tokens\n",
           merge->config->count, merge->total.documents, merge->total.sequences, tokens);
    printf("  time:            %.1f s, %.1f MB/s\n", seconds,
           (double)merge->total.bytes / 1e6 / seconds);
    fflush(stdout);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct merge *merge = context;
    struct phase bin = {.name = "bin", .count = merge->pieces, .context = merge, .job = bin_job};
    struct phase idx = {
        .name = "idx", .count = merge->config->count, .context = merge, .job = idx_job};
    int rc;

    for (int i = 0; i < 2; i++)
        if (disk_path(merge->made[i], err, "%.3900s/out-%s", engine->directory, i ? "idx" : "bin") <
            0)
            return -1;
    rc = jobs_phase(engine, &idx, err);
    if (rc == 0)
        rc = jobs_phase(engine, &bin, err);
    return rc == 0 ? jobs_finish(engine, finish, merge, err) : rc;
}

int merge_run(struct merge_config *config, struct error *err)
{
    struct merge merge = {.config = config};
    static const char *const endings[] = {"bin", "idx", DATA_IDENTITY_ENDING};
    struct bytes identity = {0};
    int rc = 0;

    merge.parts = xcalloc(config->count + 1, sizeof(*merge.parts));
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = disk_path(merge.paths[i], err, "%s.%s", config->base.output, endings[i]);
    config->base.outputs[0] = merge.paths[0];
    config->base.outputs[1] = merge.paths[1];
    if (rc == 0)
        rc = open_parts(&merge, err);
    if (rc == 0)
        rc = join_identities(&merge, err);
    list_pieces(&merge);
    for (size_t i = 0; i < config->count && rc == 0; i++) {
        bytes_put_text(&identity, config->prefixes[i]);
        bytes_put_u64(&identity, (uint64_t)merge.parts[i].info.idx_time);
        bytes_put_u64(&identity, (uint64_t)merge.parts[i].info.bin_size);
    }
    if (rc == 0)
        rc = jobs_run(&config->base, &identity, body, &merge, err);
    for (size_t i = 0; i < config->count; i++)
        indexed_close(merge.parts[i].indexed);
    bytes_clear(&identity);
    free(merge.parts);
    free(merge.owners);
    free(merge.places);
    return rc;
}
