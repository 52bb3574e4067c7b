/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "decontaminate.h"
#include "kept.h"
#include "ngrams.h"
#include "data/corpus/corpus.h"
#include "base/core/list.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decontaminate {
    const struct decontaminate_config *config;
    struct ngrams ngrams;
    int64_t tests, spared;
};

/* --- Test sets -------------------------------------------------------------------------------- */

/* Add the texts of a line of a test set: all strings under the keys. Returns false if there are
 * none. */
static bool take_line(struct decontaminate *run, struct ngram_scratch *scratch,
                      struct jsonl *const *parsers, const struct record *record)
{
    bool found = false;

    if (run->config->plain_text) {
        run->tests++;
        ngrams_add(&run->ngrams, scratch, record->data, record->size);
        return true;
    }
    for (size_t k = 0; k < run->config->key_count; k++) {
        const struct jsonl_text *texts;
        size_t count = 0;

        if (jsonl_parse(parsers[k], record->data, record->size) != FAULT_NONE)
            continue;
        found = true;
        texts = jsonl_texts(parsers[k], 0, &count);
        for (size_t i = 0; i < count; i++) {
            run->tests++;
            ngrams_add(&run->ngrams, scratch, texts[i].data, texts[i].size);
        }
    }
    return found;
}

static int wrong_line(const struct decontaminate *run, const char *path, int64_t line,
                      struct error *err)
{
    error_set_code(err, ERROR_USAGE, "%s, line %" PRId64 ": no text under \"%s\"%s", path, line,
                   run->config->keys[0], run->config->key_count > 1 ? " or the other keys" : "");
    return error_append(err, "; name the keys of the test sets with --against-keys");
}

static int read_tests(struct decontaminate *run, const struct corpus_files *files,
                      struct jsonl *const *parsers, struct error *err)
{
    enum record_mode mode = run->config->plain_text ? RECORD_LINE : RECORD_JSON;
    struct ngram_scratch scratch = {0};
    struct record_block block = {0};
    int rc = 0;

    for (size_t i = 0; i < files->count && rc >= 0; i++) {
        struct segment segment = {(uint32_t)i, 0, SOURCE_TO_END};
        struct record_reader *reader = record_reader_create(files, &segment, 1, mode, 1 << 20,
                                                            (size_t)run->config->base.max_line);

        while (rc >= 0 && (rc = record_reader_next(reader, &block, err)) > 0) {
            struct record_cursor cursor = {0, 0};
            struct record record;

            while (rc >= 0 && !block.too_long && record_next(mode, &block, &cursor, &record)) {
                if (!take_line(run, &scratch, parsers, &record))
                    rc = wrong_line(run, files->items[i].path, block.first_line + record.line + 1,
                                    err);
            }
        }
        record_reader_destroy(reader);
    }
    record_block_clear(&block);
    ngram_scratch_clear(&scratch);
    return rc;
}

/* Test sets are small: every rank reads all of them. */
static int load_tests(struct decontaminate *run, struct error *err)
{
    const struct decontaminate_config *config = run->config;
    struct corpus_files files = {.items = NULL};
    struct jsonl **parsers = xcalloc(config->key_count + 1, sizeof(struct jsonl *));
    int rc = corpus_files_find(&files, config->against, config->against_count, NULL, err);

    for (size_t i = 0; rc == 0 && i < config->key_count && !config->plain_text; i++) {
        parsers[i] = jsonl_create(&config->keys[i], 1, err);
        rc = parsers[i] ? 0 : -1;
    }
    if (rc == 0)
        rc = read_tests(run, &files, parsers, err);
    if (rc == 0 && run->ngrams.count == 0) {
        error_set_code(err, ERROR_USAGE,
                       "the test sets contain no text of %" PRId64 " words or more", config->least);
        rc = error_append(err, "; choose other test sets with --against");
    }
    for (size_t i = 0; i < config->key_count; i++)
        jsonl_destroy(parsers[i]);
    free(parsers);
    corpus_files_clear(&files);
    return rc;
}

/* --- How often n-grams are in the corpus ------------------------------------------------------ */

struct counting {
    const struct decontaminate *run;
    struct ngram_scratch scratch;
    uint32_t *counts;
};

/* The offset 'chars' characters after 'at'. */
static size_t forward(const char *text, size_t size, size_t at, int64_t chars)
{
    while (at < size && chars > 0) {
        at++;
        while (at < size && ((unsigned char)text[at] & 0xC0) == 0x80)
            at++;
        chars--;
    }
    return at;
}

static int count_document(void *context, const struct document *document, struct error *err)
{
    struct counting *counting = context;
    const char *text = document->text;
    size_t size = document->size;
    struct ngram_match match;

    (void)err;
    while (ngrams_find(&counting->run->ngrams, &counting->scratch, text, size, &match)) {
        size_t next = forward(text, size, match.begin, (int64_t)match.chars + 1);

        counting->counts[match.key]++;
        text += next;
        size -= next;
    }
    return 0;
}

static int count_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct counting counting = {.run = context};
    size_t count = counting.run->ngrams.count;
    struct tally tally = {0};
    int rc;

    counting.counts = xcalloc(count + 1, sizeof(*counting.counts));
    rc = documents_each(job, job->number, &tally, count_document, &counting, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (counting.counts[i] > 0) {
            bytes_put_u64(result, i);
            bytes_put_u64(result, counting.counts[i]);
        }
    ngram_scratch_clear(&counting.scratch);
    free(counting.counts);
    return rc;
}

static int spare_frequent(struct decontaminate *run, struct jobs *engine, struct error *err)
{
    struct phase phase = {.name = "count",
                          .count = engine->plan.chunk_count,
                          .chunks = true,
                          .context = run,
                          .job = count_job};
    uint64_t *sums;
    int rc = jobs_phase(engine, &phase, err);

    if (rc != 0)
        return rc;
    sums = xcalloc(run->ngrams.count + 1, sizeof(*sums));
    run->ngrams.spared = xcalloc(run->ngrams.count + 1, 1);
    for (size_t i = 0; rc == 0 && i < engine->plan.chunk_count; i++) {
        struct bytes bytes;

        rc = jobs_result(engine, "count", i, &bytes, err);
        while (rc == 0) {
            uint64_t key = bytes_take_u64(&bytes), count = bytes_take_u64(&bytes);

            if (bytes.failed || key >= run->ngrams.count)
                break;
            sums[key] += count;
        }
        bytes_clear(&bytes);
    }
    for (size_t i = 0; rc == 0 && i < run->ngrams.count; i++) {
        run->ngrams.spared[i] = sums[i] >= (uint64_t)run->config->spare;
        run->spared += run->ngrams.spared[i];
    }
    free(sums);
    return rc;
}

/* --- Cutting ---------------------------------------------------------------------------------- */

enum outcome { KEPT_WHOLE, TRIMMED, SPLIT, CONTAMINATED, TOO_MANY, OUTCOMES };

struct piece {
    size_t begin, size;
};

struct cutting {
    const struct decontaminate *run;
    struct ngram_scratch scratch;
    struct kept kept;
    LIST(struct piece) pieces;
    int64_t outcomes[OUTCOMES];
};

static size_t backward(const char *text, size_t at, int64_t chars)
{
    while (at > 0 && chars > 0) {
        at--;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
            at--;
        chars--;
    }
    return chars > 0 ? 0 : at;
}

static bool ends_here(char c)
{
    return c == '.' || c == '!' || c == '?';
}

/* Where the text before a match ends: after the last sentence that ends before the margin. */
static size_t end_before(const char *text, size_t at, int64_t margin)
{
    size_t end = backward(text, at, margin);

    while (end > 0 && !ends_here(text[end]))
        end--;
    return end > 0 ? end + 1 : 0;
}

static size_t begin_after(const char *text, size_t size, size_t at, int64_t chars)
{
    size_t begin = forward(text, size, at, chars);

    while (begin < size && !ends_here(text[begin]))
        begin++;
    return begin + 1 < size ? begin + 1 : size;
}

static bool is_long(const struct decontaminate_config *config, const char *text, size_t size)
{
    return (int64_t)text_chars(text, size) > config->piece;
}

/* Find all pieces of a text that contain no n-gram of a test. */
static void cut(struct cutting *cutting, const char *text, size_t size)
{
    const struct decontaminate_config *config = cutting->run->config;
    struct ngram_match match;
    size_t at = 0;

    cutting->pieces.count = 0;
    while (ngrams_find(&cutting->run->ngrams, &cutting->scratch, text + at, size - at, &match)) {
        size_t end = end_before(text + at, match.begin, config->margin);
        size_t next =
            begin_after(text + at, size - at, match.begin, (int64_t)match.chars + config->margin);

        if (is_long(config, text + at, end))
            *list_add(&cutting->pieces) = (struct piece){at, end};
        at += next;
        if (!is_long(config, text + at, size - at))
            return;
    }
    *list_add(&cutting->pieces) = (struct piece){at, size - at};
}

static int drop(struct cutting *cutting, const struct document *document, enum outcome outcome,
                struct error *err)
{
    cutting->outcomes[outcome]++;
    return kept_drop(&cutting->kept, document,
                     outcome == TOO_MANY ? "too many contaminated passages" : "contaminated", NULL,
                     err);
}

static int cut_document(void *context, const struct document *document, struct error *err)
{
    struct cutting *cutting = context;
    const struct decontaminate_config *config = cutting->run->config;
    size_t count;

    if (config->rule == DECONTAMINATE_DROP) {
        struct ngram_match match;

        if (ngrams_find(&cutting->run->ngrams, &cutting->scratch, document->text, document->size,
                        &match))
            return drop(cutting, document, CONTAMINATED, err);
        cutting->outcomes[KEPT_WHOLE]++;
        return kept_keep(&cutting->kept, document, NULL, 0, NULL, err);
    }
    cut(cutting, document->text, document->size);
    count = cutting->pieces.count;
    if (count == 1 && cutting->pieces.items[0].size == document->size) {
        cutting->outcomes[KEPT_WHOLE]++;
        return kept_keep(&cutting->kept, document, NULL, 0, NULL, err);
    }
    if (count == 0 || (int64_t)count > config->pieces)
        return drop(cutting, document, count == 0 ? CONTAMINATED : TOO_MANY, err);
    cutting->outcomes[count == 1 ? TRIMMED : SPLIT]++;
    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = &cutting->pieces.items[i];

        if (kept_keep(&cutting->kept, document, document->text + piece->begin, piece->size, NULL,
                      err) < 0)
            return -1;
    }
    return 0;
}

static int cut_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct cutting cutting = {.run = context};
    struct tally tally = {0};
    int rc = kept_begin(&cutting.kept, job, err);

    if (rc == 0)
        rc = documents_each(job, job->number, &tally, cut_document, &cutting, err);
    rc = kept_end(&cutting.kept, rc, result, err);
    tally_put(&tally, result);
    bytes_put(result, cutting.outcomes, sizeof(cutting.outcomes));
    ngram_scratch_clear(&cutting.scratch);
    list_free(&cutting.pieces);
    return rc;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int finish(struct jobs *engine, void *context, struct error *err)
{
    const struct decontaminate *run = context;
    struct kept_result all = {0, 0, 0, 0};
    struct tally tally = {0};
    int64_t sums[OUTCOMES] = {0};

    if (kept_sum(engine, &all, &tally, sums, OUTCOMES, err) < 0)
        return -1;
    if (documents_check(engine, &tally, err) < 0 || kept_publish(engine, err) < 0)
        return -1;
    documents_warn(engine, &tally);
    printf("Done: %s\n", run->config->base.output);
    printf("  test sets:       %" PRId64 " texts, %zu n-grams of up to %" PRId64 " words",
           run->tests, run->ngrams.count, run->config->ngram);
    printf(run->config->spare > 0 ? ", %" PRId64 " ignored as frequent\n" : "\n", run->spared);
    tally_print(&tally);
    printf("  dropped:         %" PRId64 "\n", sums[CONTAMINATED] + sums[TOO_MANY]);
    if (sums[CONTAMINATED] > 0)
        printf("    %-14" PRId64 " contaminated\n", sums[CONTAMINATED]);
    if (sums[TOO_MANY] > 0)
        printf("    %-14" PRId64 " more than %" PRId64 " pieces\n", sums[TOO_MANY],
               run->config->pieces);
    if (run->config->rule == DECONTAMINATE_MEGATRON)
        printf("  cut:             %" PRId64 " trimmed, %" PRId64 " split into several\n",
               sums[TRIMMED], sums[SPLIT]);
    kept_print(engine, &all, &tally);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct decontaminate *run = context;
    int rc = run->config->spare > 0 ? spare_frequent(run, engine, err) : 0;

    return rc == 0 ? kept_run(engine, cut_job, finish, run, err) : rc;
}

int decontaminate_run(struct decontaminate_config *config, struct error *err)
{
    struct decontaminate run = {.config = config};
    struct bytes identity = {0};
    int rc;

    config->base.reads_twice = config->spare > 0;
    ngrams_init(&run.ngrams, (size_t)config->ngram, (size_t)config->least,
                config->rule == DECONTAMINATE_MEGATRON ? WORDS_REGEX : WORDS_ONLY);
    rc = load_tests(&run, err);
    bytes_put_u64(&identity, config->rule);
    bytes_put_u64(&identity, (uint64_t)config->ngram);
    bytes_put_u64(&identity, (uint64_t)config->least);
    bytes_put_u64(&identity, (uint64_t)config->spare);
    bytes_put_u64(&identity, (uint64_t)config->margin);
    bytes_put_u64(&identity, (uint64_t)config->piece);
    bytes_put_u64(&identity, (uint64_t)config->pieces);
    bytes_put(&identity, run.ngrams.keys, run.ngrams.count * sizeof(*run.ngrams.keys));
    if (rc == 0)
        rc = jobs_run(&config->base, &identity, body, &run, err);
    bytes_clear(&identity);
    ngrams_clear(&run.ngrams);
    return rc;
}
