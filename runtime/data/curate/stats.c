/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "stats.h"
#include "data/jobs/disk.h"
#include "base/core/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stats_run {
    const struct stats_config *config;
    struct fasttext *model;
    struct tokenizer *tokenizer;
    struct stats stats;
    char json[DISK_PATH], html[DISK_PATH];
};

/* --- One chunk -------------------------------------------------------------------------------- */

struct measuring {
    const struct stats_run *run;
    struct wordlist words;
    struct fasttext_scratch *language;
    struct encoder *encoder;
    struct token_buffer tokens;
    struct stats_lengths lengths[3]; /* characters, words, tokens */
    struct stats_language *languages;
};

static void add_length(struct stats_lengths *lengths, int64_t length)
{
    int bin = 0;

    while (bin + 1 < STATS_BINS && length >> bin > 0)
        bin++;
    if (lengths->bins[bin]++ >= 0) {
        lengths->shortest =
            lengths->shortest < 0 || length < lengths->shortest ? length : lengths->shortest;
        lengths->longest = length > lengths->longest ? length : lengths->longest;
    }
    lengths->sum += length;
}

static int64_t count_words(const struct wordlist *words)
{
    int64_t count = 0;

    for (size_t i = 0; i < words->count; i++)
        count += !(words->items[i].flags & WORD_SYMBOL);
    return count;
}

static void count_language(struct measuring *measuring, const struct document *document)
{
    const struct fasttext *model = measuring->run->model;
    size_t count = fasttext_labels(model), at = count;
    double probability;
    const char *label =
        fasttext_predict(model, measuring->language, document->text, document->size, &probability);

    /* Compared by pointer: the model owns the labels. */
    for (size_t i = 0; label && i < count; i++)
        if (fasttext_label(model, i) == label)
            at = i;
    measuring->languages[at].documents++;
    measuring->languages[at].bytes += (int64_t)document->size;
}

static int measure(void *context, const struct document *document, struct error *err)
{
    struct measuring *measuring = context;

    wordlist_find(&measuring->words, document->text, document->size, WORDS_ALL);
    add_length(&measuring->lengths[0], (int64_t)text_chars(document->text, document->size));
    add_length(&measuring->lengths[1], count_words(&measuring->words));
    if (measuring->encoder) {
        measuring->tokens.count = 0;
        if (tokenizer_encode(measuring->encoder, document->text, document->size, &measuring->tokens,
                             err) < 0)
            return error_prefix(err, "document \"%.*s\"",
                                document->size < 40 ? (int)document->size : 40, document->text);
        add_length(&measuring->lengths[2], (int64_t)measuring->tokens.count);
    }
    if (measuring->language)
        count_language(measuring, document);
    return 0;
}

static int begin_measuring(struct measuring *measuring, struct error *err)
{
    const struct stats_run *run = measuring->run;

    for (int i = 0; i < 3; i++)
        measuring->lengths[i].shortest = -1;
    if (run->tokenizer) {
        measuring->encoder = encoder_create(run->tokenizer, 0, err);
        if (!measuring->encoder)
            return -1;
    }
    if (!run->model)
        return 0;
    measuring->language = fasttext_scratch_create(run->model);
    measuring->languages = xcalloc(fasttext_labels(run->model) + 1, sizeof(*measuring->languages));
    return 0;
}

static int measure_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct measuring measuring = {.run = context};
    struct tally tally = {0};
    int rc = begin_measuring(&measuring, err);

    if (rc == 0)
        rc = documents_each(job, job->number, &tally, measure, &measuring, err);
    tally_put(&tally, result);
    bytes_put(result, measuring.lengths, sizeof(measuring.lengths));
    for (size_t i = 0;
         rc == 0 && measuring.run->model && i <= fasttext_labels(measuring.run->model); i++) {
        bytes_put_u64(result, (uint64_t)measuring.languages[i].documents);
        bytes_put_u64(result, (uint64_t)measuring.languages[i].bytes);
    }
    wordlist_clear(&measuring.words);
    fasttext_scratch_destroy(measuring.language);
    encoder_destroy(measuring.encoder);
    token_buffer_clear(&measuring.tokens);
    free(measuring.languages);
    return rc;
}

/* --- All of them ------------------------------------------------------------------------------ */

static void add_lengths(struct stats_lengths *sum, const struct stats_lengths *part)
{
    if (part->shortest >= 0 && (sum->shortest < 0 || part->shortest < sum->shortest))
        sum->shortest = part->shortest;
    sum->longest = part->longest > sum->longest ? part->longest : sum->longest;
    sum->sum += part->sum;
    for (int i = 0; i < STATS_BINS; i++)
        sum->bins[i] += part->bins[i];
}

static int by_documents(const void *a, const void *b)
{
    const struct stats_language *left = a, *right = b;

    if (left->documents != right->documents)
        return left->documents > right->documents ? -1 : 1;
    return strcmp(left->label, right->label);
}

static int add_up(struct stats_run *run, struct jobs *engine, struct error *err)
{
    struct stats *stats = &run->stats;
    size_t labels = run->model ? fasttext_labels(run->model) + 1 : 0;

    stats->chars.shortest = stats->words.shortest = stats->tokens.shortest = -1;
    stats->languages = xcalloc(labels + 1, sizeof(*stats->languages));
    for (size_t i = 0; i < labels; i++)
        stats->languages[i].label = i + 1 < labels ? fasttext_label(run->model, i) : "unknown";
    for (size_t i = 0; i < engine->plan.chunk_count; i++) {
        struct bytes bytes;
        struct stats_lengths lengths[3];
        struct tally tally;
        const void *data;

        if (jobs_result(engine, "measure", i, &bytes, err) < 0)
            return -1;
        tally_take(&tally, &bytes);
        tally_add(&stats->tally, &tally);
        data = bytes_take(&bytes, sizeof(lengths));
        if (data) {
            memcpy(lengths, data, sizeof(lengths));
            add_lengths(&stats->chars, &lengths[0]);
            add_lengths(&stats->words, &lengths[1]);
            add_lengths(&stats->tokens, &lengths[2]);
        }
        for (size_t k = 0; k < labels; k++) {
            stats->languages[k].documents += (int64_t)bytes_take_u64(&bytes);
            stats->languages[k].bytes += (int64_t)bytes_take_u64(&bytes);
        }
        bytes_clear(&bytes);
    }
    stats->language_count = labels;
    if (labels > 0)
        qsort(stats->languages, labels, sizeof(*stats->languages), by_documents);
    while (stats->language_count > 0 && stats->languages[stats->language_count - 1].documents == 0)
        stats->language_count--;
    return 0;
}

static int finish(struct jobs *engine, void *context, struct error *err)
{
    struct stats_run *run = context;

    if (documents_check(engine, &run->stats.tally, err) < 0 ||
        stats_write_json(&run->stats, run->json, err) < 0 ||
        stats_write_html(&run->stats, engine->config->inputs[0], run->html, err) < 0)
        return -1;
    documents_warn(engine, &run->stats.tally);
    stats_print(&run->stats);
    printf("Done: %s and %s\n", run->json, run->html);
    fflush(stdout);
    return 0;
}

static int find_duplicates(struct stats_run *run, struct jobs *engine, struct error *err)
{
    struct dedup_config config = {.exact = 1};
    struct dedup dedup = {.config = &config, .engine = engine};
    int rc = dedup_find(&dedup, &run->stats.duplicates, err);

    run->stats.has_duplicates = 1;
    dedup_clear(&dedup);
    return rc;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct stats_run *run = context;
    struct phase phase = {.name = "measure",
                          .count = engine->plan.chunk_count,
                          .chunks = true,
                          .context = run,
                          .job = measure_job};
    int rc = jobs_phase(engine, &phase, err);

    if (rc == 0)
        rc = add_up(run, engine, err);
    if (rc == 0 && run->config->duplicates)
        rc = find_duplicates(run, engine, err);
    run->stats.has_tokens = run->tokenizer != NULL;
    return rc == 0 ? jobs_finish(engine, finish, run, err) : rc;
}

int stats_run(struct stats_config *config, struct error *err)
{
    struct stats_run run = {.config = config};
    struct bytes identity = {0};
    int rc = disk_path(run.json, err, "%s.json", config->base.output);

    if (rc == 0)
        rc = disk_path(run.html, err, "%s.html", config->base.output);
    config->base.outputs[0] = run.json;
    config->base.outputs[1] = run.html;
    config->base.reads_twice = config->duplicates;
    if (rc == 0 && config->model) {
        run.model = fasttext_open(config->model, err);
        rc = run.model ? 0 : -1;
    }
    if (rc == 0 && config->tokenizer) {
        run.tokenizer = tokenizer_create(config->tokenizer, err);
        rc = run.tokenizer ? 0 : -1;
    }
    if (rc < 0)
        err->code = ERROR_USAGE;
    bytes_put_text(&identity, config->model);
    bytes_put_u64(&identity, (uint64_t)config->duplicates);
    if (config->tokenizer) {
        bytes_put_u64(&identity, (uint64_t)config->tokenizer->type);
        bytes_put_text(&identity, config->tokenizer->vocab_file);
        bytes_put_text(&identity, config->tokenizer->merge_file);
        bytes_put_text(&identity, config->tokenizer->model);
        bytes_put_u64(&identity, (uint64_t)config->tokenizer->vocab_size);
    }
    if (rc == 0)
        rc = jobs_run(&config->base, &identity, body, &run, err);
    bytes_clear(&identity);
    free(run.stats.languages);
    fasttext_close(run.model);
    tokenizer_destroy(run.tokenizer);
    return rc;
}
