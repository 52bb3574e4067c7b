/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preprocess.h"
#include "lib/clock.h"
#include "lib/cpuset.h"
#include "data/jobs/disk.h"
#include "document.h"
#include "lib/file.h"
#include "base/core/heartbeat.h"
#include "lib/lease.h"
#include "data/jobs/input_plan.h"
#include "base/core/threads.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_SIZE = 1 << 20 };

static const double stale_seconds = 30, beat_seconds = 1;

struct counting {
    const struct preprocess_config *config;
    const struct input_plan *plan;
    pthread_mutex_t lock;
    struct word_table words; /* of all finished chunks */
};

static int count_text(struct word_table *words, const struct jsonl_text *text, struct error *err)
{
    const char *word;
    size_t at = 0, size;

    while ((size = word_next(text->data, text->size, &at, &word)) > 0)
        if (word_table_add(words, word, size, 1) == WORD_NONE)
            return error_set(err, "%zu different words: out of memory", words->count);
    return 0;
}

/* Count the words of all valid records of a block. */
static int count_block(const struct preprocess_config *config, struct document_parser *parser,
                       const struct record_block *block, struct word_table *words,
                       struct error *err)
{
    struct record_cursor cursor = {0, 0};
    struct record record;

    while (!block->too_long && record_next(config->mode, block, &cursor, &record)) {
        size_t key;

        if (document_check(config, NULL, parser, block, &record, &key) != FAULT_NONE)
            continue;
        for (size_t k = 0; k < config->key_count; k++) {
            struct jsonl_text room;
            size_t count;
            const struct jsonl_text *texts =
                document_texts(parser, config, &record, k, &count, &room);

            for (size_t i = 0; i < count; i++)
                if (count_text(words, &texts[i], err) < 0)
                    return -1;
        }
    }
    return 0;
}

static int add_words(struct counting *counting, const struct word_table *words, struct error *err)
{
    int rc = 0;

    pthread_mutex_lock(&counting->lock);
    for (size_t i = 0; i < words->count && rc == 0; i++)
        if (word_table_add(&counting->words, word_table_text(words, i), words->entries[i].length,
                           words->entries[i].count) == WORD_NONE)
            rc = error_set(err, "%zu different words: out of memory", counting->words.count);
    pthread_mutex_unlock(&counting->lock);
    return rc;
}

static int count_chunk(void *context, int64_t chunk, struct error *err)
{
    struct counting *counting = context;
    const struct preprocess_config *config = counting->config;
    const struct input_plan *plan = counting->plan;
    size_t first = plan->chunks[chunk], count = plan->chunks[chunk + 1] - first;
    struct record_reader *reader =
        record_reader_create(&plan->files, plan->segments + first, count, config->mode, BLOCK_SIZE,
                             (size_t)config->max_line);
    struct record_block block = {0};
    struct document_parser parser;
    struct word_table words = {0};
    int rc = document_parser_open(&parser, config, err) == 0 ? 1 : -1;

    while (rc > 0 && (rc = record_reader_next(reader, &block, err)) > 0)
        if (count_block(config, &parser, &block, &words, err) < 0)
            rc = -1;
    if (rc == 0)
        rc = add_words(counting, &words, err);
    word_table_clear(&words);
    record_block_clear(&block);
    document_parser_close(&parser);
    record_reader_destroy(reader);
    return rc;
}

static int count_input(const struct preprocess_config *config, struct error *err)
{
    struct input_plan plan = {0};
    struct counting counting = {.config = config, .plan = &plan};
    int threads = config->threads > 0 ? (int)config->threads : cpuset_usable();
    int rc;

    pthread_mutex_init(&counting.lock, NULL);
    rc = corpus_files_find(&plan.files, config->inputs, config->input_count, config->output_prefix,
                           err);
    if (rc == 0 && strcmp(plan.files.items[0].path, "-") == 0) {
        error_set_code(err, ERROR_USAGE,
                       "a dictionary (dict.txt) is needed, since standard input can be read only "
                       "once");
        rc = error_append(err, "; name it with --vocab-file");
    }
    if (rc == 0) {
        input_plan_cut(&plan, config->mode, config->chunk_bytes);
        rc = threads_loop(threads, (int64_t)plan.chunk_count, count_chunk, &counting, err);
    }
    if (rc == 0 && counting.words.count == 0)
        rc = error_set_code(err, ERROR_USAGE, "the input contains no words; check the input files");
    if (rc == 0)
        rc =
            fairseq_dict_write(&counting.words, &config->dictionary_rules, config->dictionary, err);
    word_table_clear(&counting.words);
    input_plan_clear(&plan);
    pthread_mutex_destroy(&counting.lock);
    return rc;
}

static int make_leased(const struct preprocess_config *config, struct lease *lease, int *made,
                       struct error *err)
{
    struct heartbeat *heartbeat = heartbeat_begin(lease, beat_seconds, NULL);
    int rc = 0;

    /* The previous holder may have finished between our check and our lease. */
    if (!disk_exists(config->dictionary)) {
        rc = count_input(config, err);
        *made = rc == 0;
    }
    heartbeat_end(heartbeat);
    lease_release(lease);
    return rc;
}

int dictionary_make(const struct preprocess_config *config, int *made, struct error *err)
{
    struct lease_watch watch = {0};
    double began = clock_now();
    char lock[DISK_PATH];
    struct lease lease;

    *made = 0;
    if (disk_path(lock, err, "%s.lock", config->dictionary) < 0)
        return -1;
    /* The lease of a dead holder expires, so this loop ends. */
    while (!disk_exists(config->dictionary)) {
        int taken = lease_take_shared(&lease, lock, stale_seconds, &watch, err);

        if (taken < 0)
            return -1;
        if (taken > 0)
            return make_leased(config, &lease, made, err);
        lease_pause(clock_now() - began);
    }
    return 0;
}
