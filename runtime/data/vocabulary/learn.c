/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "learn.h"
#include "bpe_learn.h"
#include "cutter.h"
#include "data/jobs/disk.h"
#include "data/curate/documents.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "data/curate/sections.h"
#include "unigram_learn.h"
#include "write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* A histogram of word counts: bin i has the words that occur i times, the last bin all others. */
enum { HISTOGRAM = 4096 };

struct learning {
    struct learn_config *config;
    struct jobs *engine;
    size_t buckets;
    char paths[3][DISK_PATH];
};

/* --- Count: one chunk ------------------------------------------------------------------------- */

struct counting {
    struct cutter cutter;
    struct word_counts counts;
};

static int count_document(void *context, const struct document *document, struct error *err)
{
    struct counting *counting = context;

    return cutter_count(&counting->cutter, document->text, document->size, &counting->counts, err);
}

/* Write the records by bucket, and within a bucket in order of first occurrence. */
static int write_buckets(struct job *job, const struct word_counts *counts, size_t buckets,
                         struct error *err)
{
    const uint8_t *data = counts->arena.data;
    size_t size = counts->arena.size, *ends = xcalloc(buckets + 1, sizeof(*ends)), at = 0;
    struct sections sections;
    struct word_record record;
    uint8_t *sorted = xmalloc(size + 1);
    int rc;

    while (word_record_next(data, size, &at, &record))
        ends[section_of(word_record_hash(&record), buckets) + 1] += word_record_size(&record);
    for (size_t i = 0; i < buckets; i++)
        ends[i + 1] += ends[i];
    for (at = 0; word_record_next(data, size, &at, &record);) {
        size_t length = word_record_size(&record);
        size_t *end = &ends[section_of(word_record_hash(&record), buckets)];

        memcpy(sorted + *end, data + at - length, length);
        *end += length;
    }
    rc = sections_create(&sections, job, "words", buckets, err);
    if (rc < 0)
        goto out;
    for (size_t i = 0, begin = 0; rc == 0 && i < buckets; begin = ends[i], i++) {
        sections_next(&sections);
        rc = sections_put(&sections, sorted + begin, ends[i] - begin, err);
    }
    if (rc == 0) {
        sections_next(&sections);
        rc = sections_finish(&sections, err);
    }
    if (rc < 0)
        sections_abandon(&sections);
out:
    free(ends);
    free(sorted);
    return rc;
}

static int count_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct learning *learning = context;
    struct counting *counting = xcalloc(1, sizeof(*counting));
    struct tally tally = {0};
    int rc;

    rc = cutter_init(&counting->cutter, learning->config, err);
    if (rc == 0)
        rc = documents_each(job, job->number, &tally, count_document, counting, err);
    if (rc == 0)
        rc = write_buckets(job, &counting->counts, learning->buckets, err);
    tally_put(&tally, result);
    cutter_clear(&counting->cutter);
    word_counts_clear(&counting->counts);
    free(counting);
    return rc;
}

/* --- Merge: one bucket ------------------------------------------------------------------------ */

static void put_histogram(const struct word_counts *counts, struct bytes *result)
{
    uint64_t histogram[HISTOGRAM] = {0};
    struct word_record record;
    size_t at = 0;

    while (word_record_next(counts->arena.data, counts->arena.size, &at, &record))
        histogram[record.times < HISTOGRAM - 1 ? record.times : HISTOGRAM - 1]++;
    bytes_put(result, histogram, sizeof(histogram));
}

static int merge_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct word_counts counts = {0};
    int rc = 0;

    (void)context;
    for (size_t chunk = 0; rc == 0 && chunk < job->engine->plan.chunk_count; chunk++) {
        struct bytes bytes = {0};
        struct word_record record;
        size_t at = 0;

        rc = sections_read(job->engine, "count", "words", chunk, job->number, &bytes, err);
        while (rc == 0 && word_record_next(bytes.data, bytes.size, &at, &record))
            word_counts_add(&counts, record.text, record.size, record.times);
        bytes_clear(&bytes);
        job_touch(job);
    }
    put_histogram(&counts, result);
    bytes_put(result, counts.arena.data, counts.arena.size);
    word_counts_clear(&counts);
    return rc;
}

/* Sum the tallies of all chunks. */
static int sum_tally(struct jobs *engine, struct tally *sum, struct error *err)
{
    memset(sum, 0, sizeof(*sum));
    for (size_t i = 0; i < engine->plan.chunk_count; i++) {
        struct bytes bytes;
        struct tally tally;

        if (jobs_result(engine, "count", i, &bytes, err) < 0)
            return -1;
        tally_take(&tally, &bytes);
        tally_add(sum, &tally);
        bytes_clear(&bytes);
    }
    return 0;
}

/* --- Learn ------------------------------------------------------------------------------------ */

/* The fewest times a word must occur so that at most config->max_words are left. */
static int find_least(const struct learning *learning, int64_t *least, int64_t *all,
                      struct error *err)
{
    uint64_t sum[HISTOGRAM] = {0};
    int64_t left = 0;

    *all = 0;
    for (size_t bucket = 0; bucket < learning->buckets; bucket++) {
        struct bytes bytes;

        if (jobs_result(learning->engine, "merge", bucket, &bytes, err) < 0)
            return -1;
        for (int i = 0; i < HISTOGRAM; i++)
            sum[i] += bytes_take_u64(&bytes);
        bytes_clear(&bytes);
    }
    for (int i = 0; i < HISTOGRAM; i++)
        *all += (int64_t)sum[i];
    *least = HISTOGRAM - 1;
    for (left = (int64_t)sum[*least];
         *least > 1 && left + (int64_t)sum[*least - 1] <= learning->config->max_words; (*least)--)
        left += (int64_t)sum[*least - 1];
    return 0;
}

/* Report an empty lexicon: no line is a document, or all texts are empty. */
static int no_words(const struct learning *learning, struct error *err)
{
    struct tally sum;

    if (sum_tally(learning->engine, &sum, err) < 0 ||
        documents_check(learning->engine, &sum, err) < 0)
        return -1;
    return error_set_code(err, ERROR_USAGE,
                          "the input has no words; check that its files contain text");
}

static int load_lexicon(const struct learning *learning, struct lexicon *lexicon, struct error *err)
{
    int64_t least, all;
    int rc = find_least(learning, &least, &all, err);

    for (size_t bucket = 0; rc == 0 && bucket < learning->buckets; bucket++) {
        struct bytes bytes;
        struct word_record record;
        size_t at;

        rc = jobs_result(learning->engine, "merge", bucket, &bytes, err);
        if (rc < 0)
            break;
        bytes_take(&bytes, HISTOGRAM * sizeof(uint64_t));
        for (at = bytes.at; word_record_next(bytes.data, bytes.size, &at, &record);)
            if (record.times >= least)
                lexicon_add(lexicon, record.text, record.size, record.times);
        bytes_clear(&bytes);
    }
    if (rc == 0 && lexicon->count == 0)
        return no_words(learning, err);
    lexicon_sort(lexicon);
    if (rc == 0 && (int64_t)lexicon->count < all)
        log_note("learning from %zu of %" PRId64
                 " different words: those that occur at least %" PRId64 " times",
                 lexicon->count, all, least);
    return rc;
}

/* Show progress: BPE adds tokens, Unigram removes pieces. */
static void count_tokens(void *job, int64_t tokens)
{
    job_progress(job, 0, 0, tokens - ((struct job *)job)->passed);
}

static void count_pieces(void *job, int64_t pieces)
{
    (void)pieces;
    job_touch((struct job *)job);
}

static int learn_pairs(const struct learn_config *config, const struct lexicon *lexicon,
                       struct job *job, struct bytes *result, struct error *err)
{
    const struct bpe_rules rules = {
        .vocab_size = config->vocab_size,
        .min_frequency = config->min_frequency,
        .specials = config->specials,
        .special_count = config->special_count,
        .byte_level = config->type == LEARN_BPE,
        .limit_alphabet = config->limit_alphabet,
        .prefix = config->type == LEARN_WORDPIECE ? WORDPIECE_PREFIX : NULL,
        .moved = count_tokens,
        .context = job,
    };
    struct bpe_learned learned;
    int rc = bpe_learn(lexicon, &rules, &learned, err);

    if (rc == 0)
        write_put_bpe(result, &learned);
    bpe_learned_clear(&learned);
    return rc;
}

static int learn_pieces(const struct learning *learning, const struct lexicon *lexicon,
                        struct job *job, struct bytes *result, struct error *err)
{
    const struct learn_config *config = learning->config;
    const struct unigram_rules rules = {
        .vocab_size = config->vocab_size - write_unigram_fixed(config),
        .limit_alphabet = config->limit_alphabet,
        .threads = threads_count(learning->engine->threads),
        .moved = count_pieces,
        .context = job,
    };
    struct unigram_learned learned = {0};
    int rc = 0;

    if (rules.vocab_size < 1)
        rc = error_set_code(err, ERROR_USAGE,
                            "a vocabulary of %lld tokens is too small: special tokens and bytes "
                            "already take %lld; use a larger vocabulary",
                            (long long)config->vocab_size,
                            (long long)(config->vocab_size - rules.vocab_size));
    else
        rc = unigram_learn(lexicon, &rules, &learned, err);
    if (rc == 0)
        write_put_unigram(result, &learned);
    unigram_learned_clear(&learned);
    return rc;
}

static int learn_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct learning *learning = context;
    struct lexicon lexicon = {0};
    int rc = load_lexicon(learning, &lexicon, err);

    if (rc == 0)
        rc = learning->config->type == LEARN_UNIGRAM
                 ? learn_pieces(learning, &lexicon, job, result, err)
                 : learn_pairs(learning->config, &lexicon, job, result, err);
    bytes_put_u64(result, lexicon.count);
    lexicon_clear(&lexicon);
    return rc;
}

/* --- The run ---------------------------------------------------------------------------------- */

static int finish(struct jobs *engine, void *context, struct error *err)
{
    struct learning *learning = context;
    struct tally sum;
    struct bytes learned;
    int64_t tokens = 0;
    int rc;

    if (sum_tally(engine, &sum, err) < 0 || jobs_result(engine, "learn", 0, &learned, err) < 0)
        return -1;
    rc = write_files(learning->config, &learned, &tokens, err);
    bytes_clear(&learned);
    if (rc < 0)
        return -1;
    documents_warn(engine, &sum);
    printf("Done: %s\n", learning->config->base.output);
    tally_print(&sum);
    printf("  tokens:          %" PRId64 "\n", tokens);
    if (tokens < learning->config->vocab_size)
        log_warning(
            "the vocabulary has %" PRId64 " tokens instead of %" PRId64
            ": the corpus yields no more; use a larger corpus, or a lower minimum frequency",
            tokens, learning->config->vocab_size);
    fflush(stdout);
    return 0;
}

/* A bucket for about 2 GB of input: some 10 million different words at the most. */
static size_t count_buckets(const struct jobs *engine)
{
    double bytes = 0;

    for (size_t i = 0; i < engine->plan.files.count; i++) {
        const struct corpus_file *file = &engine->plan.files.items[i];

        bytes += (double)file->size * (file->codec == CODEC_PLAIN ? 1 : 4);
    }
    bytes /= 2e9;
    return bytes < 16 ? 16 : bytes > SECTIONS_MOST ? SECTIONS_MOST : (size_t)bytes;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct learning *learning = context;
    struct phase phases[] = {
        {.name = "count",
         .count = engine->plan.chunk_count,
         .chunks = true,
         .context = learning,
         .job = count_job},
        {.name = "merge", .count = count_buckets(engine), .context = learning, .job = merge_job},
        {.name = "learn",
         .count = 1,
         .job_size = learning->config->vocab_size,
         .context = learning,
         .job = learn_job},
    };
    int rc = 0;

    learning->engine = engine;
    learning->buckets = phases[1].count;
    for (size_t i = 0; rc == 0 && i < sizeof(phases) / sizeof(phases[0]); i++)
        rc = jobs_phase(engine, &phases[i], err);
    return rc == 0 ? jobs_finish(engine, finish, learning, err) : rc;
}

static void put_identity(const struct learn_config *config, struct bytes *identity)
{
    bytes_put_u64(identity, config->type);
    bytes_put_u64(identity, config->split);
    bytes_put_u64(identity, (uint64_t)config->vocab_size);
    bytes_put_u64(identity, (uint64_t)config->min_frequency);
    bytes_put_u64(identity, (uint64_t)config->limit_alphabet);
    bytes_put_u64(identity, (uint64_t)config->max_words);
    bytes_put_u64(identity, (uint64_t)config->cased);
    bytes_put_u64(identity, (uint64_t)config->split_scripts);
    for (size_t i = 0; i < config->special_count; i++)
        bytes_put_text(identity, config->specials[i]);
}

int learn_vocabulary(struct learn_config *config, struct error *err)
{
    struct learning learning = {.config = config};
    struct bytes identity = {0};
    const char *const *names = write_names(config->type);
    size_t existing = file_existing_length(config->base.output);
    int rc = 0;

    if (file_make_directories(config->base.output, 0777) < 0) {
        error_set_errno(err, errno, "cannot create directory %s", config->base.output);
        rc = file_path_error(err);
        file_remove_created(config->base.output, existing);
        return rc;
    }
    for (size_t i = 0; rc == 0 && names[i]; i++) {
        rc = disk_path(learning.paths[i], err, "%.3900s/%s", config->base.output, names[i]);
        config->base.outputs[i] = learning.paths[i];
        config->base.outputs[i + 1] = NULL;
    }
    config->base.most_chunks = SECTIONS_MOST;
    put_identity(config, &identity);
    if (rc == 0)
        rc = jobs_run(&config->base, &identity, body, &learning, err);
    bytes_clear(&identity);
    if (rc < 0)
        file_remove_created(config->base.output, existing);
    return rc;
}
