/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "documents.h"
#include "base/core/log.h"
#include "data/corpus/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_SIZE = 256 << 10, LONG_LINE = 1 << 20 };

void tally_put(const struct tally *tally, struct bytes *bytes)
{
    bytes_put(bytes, tally, sizeof(*tally));
}

void tally_take(struct tally *tally, struct bytes *bytes)
{
    const void *data = bytes_take(bytes, sizeof(*tally));

    memset(tally, 0, sizeof(*tally));
    if (data)
        memcpy(tally, data, sizeof(*tally));
    if (tally->listed_count < 0 || tally->listed_count > TALLY_LISTED)
        tally->listed_count = 0;
}

void tally_add(struct tally *sum, const struct tally *tally)
{
    sum->documents += tally->documents;
    sum->text_bytes += tally->text_bytes;
    sum->line_bytes += tally->line_bytes;
    for (int i = 0; i < FAULT_COUNT; i++)
        sum->faults[i] += tally->faults[i];
    for (int64_t i = 0; i < tally->listed_count && sum->listed_count < TALLY_LISTED; i++)
        sum->listed[sum->listed_count++] = tally->listed[i];
}

int64_t tally_faults(const struct tally *tally)
{
    int64_t all = 0;

    for (int i = 0; i < FAULT_COUNT; i++)
        all += tally->faults[i];
    return all;
}

/* The number of lines before 'segment' in its file; read again only if there is a fault to
 * report. */
static int64_t lines_before(const struct jobs *engine, size_t segment)
{
    const struct input_plan *plan = &engine->plan;
    size_t first = segment;
    struct record_block block = {0};
    struct record_reader *reader;
    int64_t lines = 0;

    while (first > 0 && plan->segments[first - 1].file == plan->segments[segment].file)
        first--;
    if (first == segment)
        return 0;
    reader = record_reader_create(&plan->files, plan->segments + first, segment - first,
                                  RECORD_JSON, BLOCK_SIZE, (size_t)engine->config->max_line);
    while (record_reader_next(reader, &block, NULL) > 0)
        lines += block.lines;
    record_block_clear(&block);
    record_reader_destroy(reader);
    return lines;
}

static void describe(const struct jobs *engine, const struct tally_fault *fault, char *text,
                     size_t size)
{
    const struct input_plan *plan = &engine->plan;
    const char *what = document_fault_text((enum document_fault)fault->fault);
    const char *path = plan->files.items[plan->segments[fault->segment].file].path;
    int64_t line = lines_before(engine, fault->segment) + (int64_t)fault->line + 1;

    if (fault->fault == FAULT_KEY || fault->fault == FAULT_TYPE)
        snprintf(text, size, "%.600s: line %" PRId64 ": %s (\"%.100s\")", path, line, what,
                 engine->config->key);
    else
        snprintf(text, size, "%.600s: line %" PRId64 ": %s", path, line, what);
}

int documents_check(const struct jobs *engine, const struct tally *tally, struct error *err)
{
    const struct tally_fault *first = &tally->listed[0];
    char text[1000];

    if (tally->documents > 0 || tally->listed_count == 0 ||
        first->segment >= engine->plan.segment_count)
        return 0;
    describe(engine, first, text, sizeof(text));
    if (tally_faults(tally) == 1)
        error_set_code(err, ERROR_USAGE, "the only line is not a document: %s", text);
    else
        error_set_code(err, ERROR_USAGE, "all %" PRId64 " lines are invalid; the first: %s",
                       tally_faults(tally), text);
    if (first->fault == FAULT_KEY || first->fault == FAULT_TYPE)
        return error_append(err, "; name the key of the text with --key");
    if (first->fault == FAULT_LENGTH)
        return error_append(err, "; raise --max-line-bytes");
    return error_append(err, "; every line must be a JSON object such as {\"%.100s\": \"...\"}",
                        engine->config->key);
}

void documents_warn(const struct jobs *engine, const struct tally *tally)
{
    char text[1024];

    for (int64_t i = 0; i < tally->listed_count; i++) {
        if (tally->listed[i].segment >= engine->plan.segment_count)
            continue;
        describe(engine, &tally->listed[i], text, sizeof(text));
        log_warning("%s; skipped", text);
    }
    if (tally_faults(tally) > tally->listed_count)
        log_warning("%" PRId64
                    " more broken line%s skipped and not listed; correct or remove such lines in "
                    "the input",
                    tally_faults(tally) - tally->listed_count,
                    tally_faults(tally) - tally->listed_count == 1 ? " was" : "s were");
}

const char *amount_words(double bytes, char words[AMOUNT_SIZE])
{
    const char *unit = bytes < 1e6 ? "kB" : bytes < 1e9 ? "MB" : "GB";

    snprintf(words, AMOUNT_SIZE, "%.3f %s",
             bytes / (bytes < 1e6   ? 1e3
                      : bytes < 1e9 ? 1e6
                                    : 1e9),
             unit);
    return words;
}

void tally_print(const struct tally *tally)
{
    char amount[AMOUNT_SIZE];

    printf("  documents read:  %" PRId64 " (%s of text)\n", tally->documents,
           amount_words((double)tally->text_bytes, amount));
    if (tally_faults(tally) == 0)
        return;
    printf("  broken lines:    %" PRId64 "\n", tally_faults(tally));
    for (int i = 1; i < FAULT_COUNT; i++)
        if (tally->faults[i] > 0)
            printf("    %-14" PRId64 " %s%s%s\n", tally->faults[i],
                   document_fault_text((enum document_fault)i), i == FAULT_LENGTH ? "; " : "",
                   i == FAULT_LENGTH ? "raise --max-line-bytes" : "");
}

struct walk {
    struct job *job;
    size_t chunk;
    struct tally *tally;
    struct jsonl *jsonl;
    int (*each)(void *context, const struct document *document, struct error *err);
    void *context;
};

static int note_fault(struct walk *walk, const struct record_block *block, int64_t line,
                      enum document_fault fault, struct error *err)
{
    struct jobs *engine = walk->job->engine;
    struct tally_fault place = {engine->plan.chunks[walk->chunk] + block->segment,
                                (uint64_t)(block->first_line + line), (uint64_t)fault};
    char text[1000];

    walk->tally->faults[fault]++;
    if (walk->tally->listed_count < TALLY_LISTED)
        walk->tally->listed[walk->tally->listed_count++] = place;
    if (!engine->config->strict)
        return 0;
    describe(engine, &place, text, sizeof(text));
    error_set_code(err, ERROR_USAGE, "%s", text);
    return error_append(err, "; drop --strict to skip what is invalid");
}

static int one_record(struct walk *walk, const struct record_block *block,
                      const struct record *record, struct error *err)
{
    struct document document = {.line = record->data, .line_size = record->size};
    enum document_fault fault = record->length > (size_t)walk->job->engine->config->max_line
                                    ? FAULT_LENGTH
                                    : jsonl_parse(walk->jsonl, record->data, record->size);
    const struct jsonl_text *texts;
    size_t count;
    int rc;

    if (fault == FAULT_NONE) {
        texts = jsonl_texts(walk->jsonl, 0, &count);
        if (count != 1)
            fault = FAULT_TYPE; /* lists of texts are not supported */
    }
    if (fault != FAULT_NONE)
        return note_fault(walk, block, record->line, fault, err);
    document.text = texts[0].data;
    document.size = texts[0].size;
    document.raw = texts[0].raw;
    document.raw_size = texts[0].raw_size;
    document.number = walk->tally->documents++;
    document.file = walk->job->engine->plan
                        .segments[walk->job->engine->plan.chunks[walk->chunk] + block->segment]
                        .file;
    walk->tally->text_bytes += (int64_t)document.size;
    walk->tally->line_bytes += (int64_t)record->size + 1;
    rc = walk->each(walk->context, &document, err);
    if (record->size > LONG_LINE)
        jsonl_trim(walk->jsonl);
    return rc;
}

static int one_block(struct walk *walk, const struct record_block *block, struct error *err)
{
    struct record_cursor cursor = {0, 0};
    struct record record;

    if (block->too_long)
        return note_fault(walk, block, 0, FAULT_LENGTH, err);
    while (record_next(RECORD_JSON, block, &cursor, &record))
        if (one_record(walk, block, &record, err) < 0)
            return -1;
    return 0;
}

int documents_each(struct job *job, size_t chunk, struct tally *tally,
                   int (*each)(void *context, const struct document *document, struct error *err),
                   void *context, struct error *err)
{
    const struct jobs *engine = job->engine;
    const struct input_plan *plan = &engine->plan;
    size_t first = plan->chunks[chunk], count = plan->chunks[chunk + 1] - first;
    struct walk walk = {job, chunk, tally, NULL, each, context};
    struct record_block block = {0};
    struct record_reader *reader;
    int rc = 1;

    walk.jsonl = jsonl_create(&engine->config->key, 1, err);
    reader = record_reader_create(&plan->files, plan->segments + first, count, RECORD_JSON,
                                  BLOCK_SIZE, (size_t)engine->config->max_line);
    if (!walk.jsonl)
        rc = -1;
    while (rc > 0 && (rc = record_reader_next(reader, &block, err)) > 0) {
        int64_t documents = tally->documents, bytes = tally->line_bytes;

        if (one_block(&walk, &block, err) < 0)
            rc = -1;
        job_progress(job, tally->documents - documents, tally->line_bytes - bytes,
                     record_reader_passed(reader) - job->passed);
    }
    record_block_clear(&block);
    record_reader_destroy(reader);
    jsonl_destroy(walk.jsonl);
    return rc < 0 ? -1 : 0;
}
