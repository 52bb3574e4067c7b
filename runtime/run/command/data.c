/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"
#include "data_common.h"
#include "data/dataset/data_identity.h"
#include "base/core/storage.h"
#include "data/dataset/indexed.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "data/tokenizer/tokenizer_options.h"
#include "data/dataset/vocabulary_check.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct data_options {
    int64_t document, limit;
    int ids;
    struct tokenizer_config tokenizer;
};

#define AT(field) offsetof(struct data_options, field)

static const struct option table[] = {
    HEADING("Inspect"),
    RANGE("document", document, 0, INT64_MAX, "show document N (the first is 0) as text"),
    FLAG("ids", ids, "show token ids instead of text"),
    RANGE("limit", limit, 1, INT64_MAX, "show at most N tokens (default: all)"),
    TOKENIZER_OPTIONS(tokenizer),
    {0},
};

/* Number of documents by length, in powers of two. */
struct histogram {
    int64_t counts[64];
    int64_t documents, empty, shortest, longest, tokens;
};

static void add_length(struct histogram *histogram, int64_t length)
{
    int bin = 0;

    if (histogram->documents == 0 || length < histogram->shortest)
        histogram->shortest = length;
    if (length > histogram->longest)
        histogram->longest = length;
    histogram->documents++;
    histogram->tokens += length;
    if (length == 0) {
        histogram->empty++;
        return;
    }
    while (length >> (bin + 1) > 0)
        bin++;
    histogram->counts[bin]++;
}

enum { BATCH = 65536 };

/* Documents and sequences are read in parallel, one batch of each at a time. */
struct cursor {
    const struct indexed *indexed;
    int64_t sequences, first, have; /* lengths[] starts at sequence 'first' */
    int32_t lengths[BATCH];
};

static int next_length(struct cursor *cursor, int64_t sequence, int64_t *length, struct error *err)
{
    if (sequence < cursor->first || sequence >= cursor->first + cursor->have) {
        cursor->first = sequence;
        cursor->have = cursor->sequences - sequence < BATCH ? cursor->sequences - sequence : BATCH;
        if (cursor->have <= 0)
            return error_set(
                err,
                "%s: a document refers to sequences that do not exist; the .idx file is damaged: "
                "tokenize the corpus again",
                indexed_prefix(cursor->indexed));
        if (indexed_lengths(cursor->indexed, sequence, cursor->have, cursor->lengths, err) < 0)
            return -1;
    }
    *length = cursor->lengths[sequence - cursor->first];
    return 0;
}

static int measure(const struct indexed *indexed, struct histogram *histogram, struct error *err)
{
    const struct indexed_info *info = indexed_info(indexed);
    struct cursor *cursor = xcalloc(1, sizeof(*cursor));
    int64_t *ends = xcalloc(BATCH + 1, sizeof(*ends)), sequence = 0;
    int rc = 0;

    cursor->indexed = indexed;
    cursor->sequences = info->sequences;
    for (int64_t at = 0; at < info->documents && rc == 0; at += BATCH) {
        int64_t count = info->documents - at < BATCH ? info->documents - at : BATCH;

        rc = indexed_documents(indexed, at + 1, count, ends, err);
        for (int64_t i = 0; i < count && rc == 0; i++) {
            int64_t total = 0, length = 0;

            for (; sequence < ends[i] && rc == 0; sequence++) {
                rc = next_length(cursor, sequence, &length, err);
                total += rc == 0 ? length : 0;
            }
            add_length(histogram, total);
        }
    }
    free(cursor);
    free(ends);
    return rc;
}

static void print_histogram(const struct histogram *histogram)
{
    int64_t most = 1;
    int last = -1;

    for (int i = 0; i < 64; i++)
        if (histogram->counts[i] > 0) {
            most = histogram->counts[i] > most ? histogram->counts[i] : most;
            last = i;
        }
    printf("  document lengths in tokens:\n");
    if (histogram->empty > 0)
        printf("    %20s %12" PRId64 "\n", "empty", histogram->empty);
    for (int i = 0; i <= last; i++) {
        char range[48];

        snprintf(range, sizeof(range), "%" PRId64 " - %" PRId64, (int64_t)1 << i,
                 ((int64_t)1 << i) * 2 - 1);
        printf("    %20s %12" PRId64 " %.*s\n", range, histogram->counts[i],
               (int)(histogram->counts[i] * 40 / most), "****************************************");
    }
}

static void print_identity(const struct data_identity *identity)
{
    char words[DATA_IDENTITY_WORDS];

    data_identity_words(&identity->tokenizer, words);
    printf("  tokenizer:       %s\n", words);
    if (identity->append_eod)
        printf("  end of document: %" PRId64 "\n", identity->tokenizer.eod);
    else
        printf("  end of document: none\n");
}

static int show_pair(const struct indexed *indexed, struct error *err)
{
    const struct indexed_info *info = indexed_info(indexed);
    struct histogram *histogram = xcalloc(1, sizeof(*histogram));
    struct data_identity identity;
    int known = data_identity_read(indexed, &identity, err);

    if (known < 0)
        log_warning("%s", err->text);
    if (measure(indexed, histogram, err) < 0) {
        free(histogram);
        return -1;
    }
    printf("%s\n", indexed_prefix(indexed));
    printf("  documents:       %" PRId64 "\n", info->documents);
    printf("  sequences:       %" PRId64 "\n", info->sequences);
    printf("  tokens:          %" PRId64 ", %s\n", histogram->tokens, idx_dtype_name(info->dtype));
    printf("  bytes:           %" PRId64 " in .bin, %" PRId64 " in .idx\n", info->bin_size,
           info->idx_size);
    if (known > 0)
        print_identity(&identity);
    if (info->documents > 0)
        printf("  per document:    %" PRId64 " to %" PRId64 ", %.1f on average\n",
               histogram->shortest, histogram->longest,
               (double)histogram->tokens / (double)info->documents);
    print_histogram(histogram);
    free(histogram);
    return 0;
}

static int print_tokens(const struct data_options *options, const struct tokenizer *tokenizer,
                        const int32_t *tokens, int64_t count, struct error *err)
{
    struct text_buffer text = {0};
    int64_t *ids;
    int rc = 0;

    if (options->ids) {
        for (int64_t i = 0; i < count; i++)
            printf("%s%" PRId32, i ? " " : "", tokens[i]);
        printf("\n");
        return 0;
    }
    ids = xcalloc((size_t)count, sizeof(*ids));
    for (int64_t i = 0; i < count; i++)
        ids[i] = tokens[i];
    rc = tokenizer_decode(tokenizer, ids, (size_t)count, &text, err);
    if (rc == 0) {
        fwrite(text.data, 1, text.length, stdout);
        printf("\n");
    }
    text_buffer_clear(&text);
    free(ids);
    return rc;
}

/* Ids of another tokenizer would be shown as wrong text. */
static int check_tokenizer(const struct indexed *indexed, const struct tokenizer *tokenizer,
                           struct error *err)
{
    struct vocabulary_check check = {.eod = -1};
    struct tokenizer_identity identity;
    int rc;

    tokenizer_identify(tokenizer, &identity);
    check.tokenizer = &identity;
    rc = vocabulary_check(&check, indexed, err);
    if (rc == 0)
        vocabulary_check_report(&check);
    return rc;
}

static int show_document(const struct indexed *indexed, const struct data_options *options,
                         const struct tokenizer *tokenizer, struct error *err)
{
    const struct indexed_info *info = indexed_info(indexed);
    int64_t ends[2], left = options->limit > 0 ? options->limit : INT64_MAX;

    if (tokenizer && check_tokenizer(indexed, tokenizer, err) < 0)
        return -1;
    if (info->documents == 0)
        return error_set_code(err, ERROR_USAGE, "%s has no documents; tokenize the corpus again",
                              indexed_prefix(indexed));
    if (options->document >= info->documents)
        return error_set_code(err, ERROR_USAGE,
                              "--document=%" PRId64
                              " is out of range: %s has documents 0 to %" PRId64,
                              options->document, indexed_prefix(indexed), info->documents - 1);
    if (indexed_documents(indexed, options->document, 2, ends, err) < 0)
        return -1;
    for (int64_t sequence = ends[0]; sequence < ends[1] && left > 0; sequence++) {
        int64_t length = indexed_length(indexed, sequence, err), count;
        int32_t *tokens;
        int rc;

        if (length < 0)
            return -1;
        count = length < left ? length : left;
        tokens = xcalloc((size_t)count, sizeof(*tokens));
        rc = indexed_tokens(indexed, sequence, 0, count, tokens, count, err) == count
                 ? print_tokens(options, tokenizer, tokens, count, err)
                 : -1;
        free(tokens);
        if (rc < 0)
            return -1;
        left -= count;
    }
    return 0;
}

static int inspect(const char *prefix, const struct data_options *options,
                   const struct tokenizer *tokenizer, struct error *err)
{
    struct indexed *indexed;
    int rc;

    errno = 0;
    indexed = indexed_open(prefix, err);
    if (!indexed)
        return file_path_error(err);
    rc = options->document >= 0 ? show_document(indexed, options, tokenizer, err)
                                : show_pair(indexed, err);
    indexed_close(indexed);
    return rc;
}

static int verify(const char *prefix, struct error *err)
{
    struct indexed *indexed = indexed_open(prefix, err);
    const struct indexed_info *info;
    struct data_identity identity;
    int64_t tokens, used;
    int rc;

    if (!indexed)
        return -1;
    info = indexed_info(indexed);
    rc = indexed_verify(indexed, &tokens, err);
    used = rc == 0 ? tokens * (int64_t)idx_dtype_size(info->dtype) : 0;
    if (rc == 0 && used != info->bin_size)
        rc = error_set(err,
                       "%s.bin has %" PRId64 " bytes, %" PRId64
                       " of which belong to no sequence; the .bin and .idx files do not match; "
                       "tokenize the corpus again",
                       prefix, info->bin_size, info->bin_size - used);
    if (rc == 0 && data_identity_read(indexed, &identity, err) < 0)
        rc = -1;
    if (rc == 0)
        printf("%s: intact, %" PRId64 " document%s, %" PRId64 " token%s\n", prefix, info->documents,
               info->documents == 1 ? "" : "s", tokens, tokens == 1 ? "" : "s");
    indexed_close(indexed);
    return rc;
}

/* Accept the file name with or without its suffix. */
static void strip_ending(const char *word, char *prefix, size_t size)
{
    size_t length;

    snprintf(prefix, size, "%s", word);
    length = strlen(prefix);
    if (length > 4 &&
        (strcmp(prefix + length - 4, ".idx") == 0 || strcmp(prefix + length - 4, ".bin") == 0))
        prefix[length - 4] = '\0';
}

static int check_words(const struct options_result *result, struct error *err)
{
    if (result->word_count > 0)
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "no PREFIX; name at least one file pair, without .bin or .idx");
}

/* Verify all pairs, even after one failed. */
static int run_verify(void *given, const struct options_result *result, struct error *err)
{
    size_t bad = 0, count = result->word_count;

    (void)given;
    if (check_words(result, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        char prefix[4096];

        strip_ending(result->words[i], prefix, sizeof(prefix));
        if (verify(prefix, err) == 0) {
            fflush(stdout); /* keep the order of lines when stdout and stderr go to one log */
            continue;
        }
        bad++;
        if (count > 1)
            fprintf(stderr, "megatron data: verify: %s\n", err->text);
    }
    if (bad > 0 && count > 1)
        error_set(err, "%zu of %zu are damaged or cannot be read; see above", bad, count);
    return bad > 0 ? -1 : 0;
}

static int run_inspect(void *given, const struct options_result *result, struct error *err)
{
    const struct data_options *options = given;
    struct tokenizer *tokenizer = NULL;
    int rc = check_words(result, err);

    if (rc == 0 && options->document >= 0 && !options->ids) {
        errno = 0;
        tokenizer = tokenizer_create(&options->tokenizer, err);
        if (!tokenizer)
            return file_path_error(err);
    }
    for (size_t i = 0; i < result->word_count && rc == 0; i++) {
        char prefix[4096];

        strip_ending(result->words[i], prefix, sizeof(prefix));
        rc = inspect(prefix, options, tokenizer, err);
    }
    tokenizer_destroy(tokenizer);
    return rc;
}

static const struct command data_inspect = {
    .name = "data inspect",
    .usage = "Usage: megatron data inspect PREFIX... [OPTION...]\n"
             "Describe .bin and .idx files, or show one of their documents. PREFIX is their name\n"
             "without .bin or .idx.\n",
    .options = table,
    .size = sizeof(struct data_options),
    .defaults = &(const struct data_options){.document = -1},
    .run = run_inspect,
};

static const struct command data_verify = {
    .name = "data verify",
    .usage = "Usage: megatron data verify PREFIX...\n"
             "Check .bin and .idx files. PREFIX is their name without .bin or .idx.\n",
    .options = (const struct option[]){{0}},
    .run = run_verify,
};

const struct command command_data = {
    .name = "data",
    .summary = "extract, clean, deduplicate, mix, merge, inspect and verify corpora",
    .usage =
        "Usage: megatron data inspect PREFIX... [OPTION...]\n"
        "       megatron data verify PREFIX...\n"
        "       megatron data extract|filter|dedup|decontaminate|mix|merge|stats [OPTION...]\n"
        "Inspect or verify .bin and .idx files (PREFIX is their name without .bin or .idx), or\n"
        "extract, clean, deduplicate, mix, merge and measure corpora (each action has its own\n"
        "--help).\n",
    .options = table,
    .actions = (const struct command *const[]){&data_inspect, &data_verify, &data_extract,
                                               &data_filter, &data_dedup, &data_decontaminate,
                                               &data_mix, &data_merge, &data_stats, NULL},
};
