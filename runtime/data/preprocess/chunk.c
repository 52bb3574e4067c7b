/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "chunk.h"
#include "base/core/log.h"
#include "document.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Text per block: small enough to stay in the L2 cache together with its tokens. */
enum { BLOCK_SIZE = 256 << 10 };
/* How many broken documents a rank reports immediately, and how much of a file may be read again to
 * determine a line number. */
enum { FAULTS_MET = 20 };
static const int64_t reread_limit = 256 << 20, reread_packed_limit = 8 << 20;

struct chunk *chunk_open(struct encode *encode, size_t number, struct error *err)
{
    const struct input_plan *plan = encode->plan;
    struct chunk *chunk = xcalloc(1, sizeof(*chunk));
    size_t first = plan->chunks[number], count = plan->chunks[number + 1] - first;
    /* Erases a progress line. */
    const char *over = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) ? "\r\033[K" : "";

    pthread_mutex_init(&chunk->write_lock, NULL);
    chunk->number = number;
    job_begin(encode->phase, number, &chunk->job);
    for (size_t i = first; i < first + count && plan->files.count <= INPUT_PLAN_NAMED_FILES; i++)
        if (plan->segments[i].begin == 0)
            printf("%sOpening %s\n", over, plan->files.items[plan->segments[i].file].path);
    fflush(stdout);
    if (job_draft(&chunk->job, "part", chunk->draft, err) < 0)
        goto fail;
    chunk->reader =
        record_reader_create(&plan->files, plan->segments + first, count, encode->config->mode,
                             BLOCK_SIZE, (size_t)encode->config->max_line);
    chunk->lines = xcalloc(count + 1, sizeof(*chunk->lines));
    chunk->part = part_create(chunk->draft, plan->identity, number, encode->config->key_count,
                              tokenizer_id_size(encode->tokenizer), err);
    if (!chunk->part)
        goto fail;
    return chunk;
fail:
    chunk_abandon(chunk);
    return NULL;
}

static void destroy(struct chunk *chunk)
{
    record_reader_destroy(chunk->reader);
    free(chunk->lines);
    pthread_mutex_destroy(&chunk->write_lock);
    free(chunk);
}

void chunk_abandon(struct chunk *chunk)
{
    if (!chunk)
        return;
    part_abandon(chunk->part);
    destroy(chunk);
}

/* Count the lines before a segment by reading the file again. */
static int64_t lines_before(const struct encode *encode, const struct segment *segment)
{
    struct segment before = {segment->file, 0, segment->begin};
    struct record_block block = {0};
    struct record_reader *reader;
    int64_t lines = 0;

    if (segment->begin == 0)
        return 0;
    reader = record_reader_create(&encode->plan->files, &before, 1, encode->config->mode,
                                  BLOCK_SIZE, (size_t)encode->config->max_line);
    while (record_reader_next(reader, &block, NULL) > 0)
        lines = block.first_line + block.lines;
    record_reader_destroy(reader);
    record_block_clear(&block);
    return lines;
}

/* Is this one of the first faults, which are reported immediately? */
static bool is_shown(struct encode *encode)
{
    int64_t shown = encode->shown++;

    /* With a limit on documents, this one may turn out not to count. */
    if (encode->config->max_documents > 0)
        return false;
    if (shown == FAULTS_MET)
        log_note("further skipped documents are not reported immediately");
    return shown < FAULTS_MET;
}

/* Report a skipped document immediately, if it is one of the first. If its line number is expensive
 * to determine, report what is known, and the number at the end. Kept pages with unclosed markup
 * are reported at the end, when the first ones of the input are known. */
static void show_fault(struct encode *encode, struct chunk *chunk, struct part_fault *fault)
{
    const struct input_plan *plan = encode->plan;
    size_t number = plan->chunks[chunk->number] + (size_t)fault->segment;
    const struct segment *segment = &plan->segments[number];
    const struct corpus_file *file = &plan->files.items[segment->file];
    char text[256], location[DISK_PATH + 160];

    if (part_fault_is_kept(fault) || !is_shown(encode))
        return;
    part_fault_text(fault, encode->config->keys, text, sizeof(text));
    if (fault->page && file->codec == CODEC_PLAIN) {
        part_fault_location(fault, file->path, segment->begin, location, sizeof(location));
        log_warning("%s: %s; skipped", location, text);
        fault->shown = 1;
        return;
    }
    if (fault->page && segment->begin > reread_packed_limit) {
        part_fault_location(fault, file->path, 0, location, sizeof(location));
        log_warning("%s, decompressed, after byte %lld: %s; skipped", location,
                    (long long)segment->begin, text);
        return;
    }
    if (segment->begin > (file->codec == CODEC_PLAIN ? reread_limit : reread_packed_limit)) {
        log_warning("%s: line %lld after byte %lld: %s; skipped", file->path,
                    (long long)fault->line + 1, (long long)segment->begin, text);
        return;
    }
    if (chunk->counted != number + 1) {
        chunk->counted_lines = lines_before(encode, segment);
        chunk->counted = number + 1;
    }
    part_fault_location(fault, file->path, chunk->counted_lines, location, sizeof(location));
    log_warning("%s: %s; skipped", location, text);
    fault->shown = 1;
}

static const char *first_path(const struct input_plan *plan, size_t chunk)
{
    return plan->files.items[plan->segments[plan->chunks[chunk]].file].path;
}

/* With a maximum number of documents, drop the faults after the last one. */
static int drop_beyond(struct encode *encode, const struct chunk *chunk, struct block *block,
                       struct error *err)
{
    int64_t wanted = encode->config->max_documents - chunk->totals.documents;
    struct part_fault last = {0};

    if (encode->config->max_documents == 0 || block->data.documents < wanted ||
        (block->listed_count == 0 && encode->config->mode != RECORD_PAGE))
        return 0;
    memset(block->faults, 0, sizeof(block->faults));
    if (document_count_block(encode->config, encode->tokenizer, &block->records, wanted,
                             block->faults, &last, err) < 0)
        return -1;
    document_drop_faults(block->listed, &block->listed_count, &last);
    return 0;
}

static void list_fault(struct encode *encode, struct chunk *chunk, struct part_fault *fault)
{
    struct part_totals *totals = &chunk->totals;
    int64_t before = totals->listed_count;

    part_fault_list(totals->listed, &totals->listed_count, fault);
    if (totals->listed_count > before)
        show_fault(encode, chunk, &totals->listed[before]);
}

static int write_block(struct encode *encode, struct chunk *chunk, struct block *block,
                       struct error *err)
{
    struct part_totals *totals = &chunk->totals;
    int64_t wanted = encode->config->max_documents;

    /* Other threads have read ahead by a random amount, but the end of the part must be
     * deterministic. */
    if (chunk->full) {
        chunk->next_write++;
        return 0;
    }
    if (drop_beyond(encode, chunk, block, err) < 0 ||
        part_append(chunk->part, &block->data, err) < 0)
        return -1;
    if (totals->documents == 0)
        totals->leading += block->leading;
    totals->documents += block->data.documents;
    totals->bytes += record_block_bytes(encode->config->mode, &block->records);
    chunk->lines[block->records.segment] = block->records.first_line + block->records.lines;
    chunk->full = wanted > 0 && totals->documents >= wanted;
    for (size_t k = 0; k < encode->config->key_count; k++) {
        const struct entry_list *entries = &block->data.entries[k];

        totals->tokens[k] += (int64_t)block->data.tokens[k].count;
        for (size_t i = 0; i < entries->count; i++)
            totals->sequences[k] += ENTRY_TOKENS(entries->items[i]) != 0;
    }
    for (int i = 0; i < FAULT_COUNT; i++)
        totals->faults[i] += block->faults[i];
    for (int64_t i = 0; i < block->listed_count; i++)
        list_fault(encode, chunk, &block->listed[i]);
    if (!totals->names[0])
        memcpy(totals->names, block->names, sizeof(totals->names));
    /* Detect a wrong key early. */
    if (chunk->number == 0 &&
        part_check_keys(encode->config->keys, first_path(encode->plan, 0), totals, 0, err) < 0)
        return -1;
    chunk->next_write++;
    job_progress(&chunk->job, block->data.documents,
                 record_block_bytes(encode->config->mode, &block->records), block->passed);
    if (encode->redoing)
        job_touch(encode->redoing);
    return 0;
}

int chunk_commit(struct encode *encode, struct chunk *chunk, struct block *block,
                 struct block **freed, struct error *err)
{
    struct block **at;
    int rc = 0;

    pthread_mutex_lock(&chunk->write_lock);
    if (block) {
        for (at = &chunk->waiting; *at && (*at)->number < block->number; at = &(*at)->next)
            ;
        block->next = *at;
        *at = block;
    }
    /* The writing thread also writes blocks that arrive in the meantime; the other threads continue
     * encoding. */
    while (rc == 0 && !chunk->writing && chunk->waiting &&
           chunk->waiting->number == chunk->next_write) {
        block = chunk->waiting;
        chunk->waiting = block->next;
        chunk->writing = 1;
        pthread_mutex_unlock(&chunk->write_lock);
        rc = write_block(encode, chunk, block, err);
        pthread_mutex_lock(&chunk->write_lock);
        chunk->writing = 0;
        block->next = *freed;
        *freed = block;
    }
    pthread_mutex_unlock(&chunk->write_lock);
    return rc;
}

void chunk_drop(struct chunk *chunk, struct block **freed)
{
    pthread_mutex_lock(&chunk->write_lock);
    while (chunk->waiting) {
        struct block *block = chunk->waiting;

        chunk->waiting = block->next;
        block->next = *freed;
        *freed = block;
    }
    pthread_mutex_unlock(&chunk->write_lock);
}

int chunk_finish(struct encode *encode, struct chunk *chunk, struct error *err)
{
    const struct input_plan *plan = encode->plan;
    size_t segments = plan->chunks[chunk->number + 1] - plan->chunks[chunk->number];
    char path[DISK_PATH];
    int rc;

    rc = part_finish(chunk->part, &chunk->totals, chunk->lines, segments, err);
    chunk->part = NULL;
    if (rc == 0)
        rc = encode_part_path(encode, chunk->number, path, err);
    if (rc == 0 && rename(chunk->draft, path) < 0)
        rc = error_set_errno(err, errno, "cannot rename %s to %s", chunk->draft, path);
    if (rc == 0)
        rc = job_done(encode->phase, &chunk->job, err);
    destroy(chunk);
    return rc;
}

int chunk_place(struct encode *encode, size_t number, const struct part_fault *place,
                struct error *err)
{
    const struct input_plan *plan = encode->plan;
    const struct segment *segment = &plan->segments[plan->chunks[number] + (size_t)place->segment];
    const struct corpus_file *file = &plan->files.items[segment->file];
    /* In a plain file the byte offset is known. */
    int64_t before =
        place->page && file->codec == CODEC_PLAIN ? segment->begin : lines_before(encode, segment);
    char location[sizeof(err->text)];

    part_fault_location(place, file->path, before, location, sizeof(location));
    return error_prefix(err, "%s", location);
}

int chunk_strict(struct encode *encode, size_t number, const struct part_fault *fault,
                 struct error *err)
{
    char text[256];

    part_fault_text(fault, encode->config->keys, text, sizeof(text));
    error_set_code(err, ERROR_USAGE, "%s", text);
    chunk_place(encode, number, fault, err);
    return error_append(err, "; drop --strict to skip what is invalid");
}
