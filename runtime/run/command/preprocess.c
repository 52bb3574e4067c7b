/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/option_rows.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"
#include "data/preprocess/preprocess.h"
#include "wiki_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct preprocess_options {
    struct option_list input, json_keys;
    int mode, append_eod, strict, overwrite, skip_existing, split_sentences, keep_newlines;
    const char *output_prefix, *json_progress, *lang, *punkt_data;
    int nltk;               /* --nltk-rules: 0 is 3.8, 1 is 3.10 */
    char punkt[4096 + 256]; /* directory of punkt's parameters; "" without --split-sentences */
    int64_t workers, partitions, log_interval, max_documents, max_line, shards, chunk, lease;
    struct tokenizer_config tokenizer;
    struct wiki_words wiki;
    int detokenize;
    struct fairseq_rules dictionary;
    char dict_path[4096]; /* of FairseqWords without --vocab-file */
};

#define AT(field) offsetof(struct preprocess_options, field)

static const struct option table[] = {
    HEADING("Input"),
    VALUES("input", input, "FILE...",
           "input files, globs, directories, or - for standard input; may be .gz .xz .zst .bz2"),
    VALUES("json-keys", json_keys, "KEY...",
           "keys to extract from JSON, one output each; a.b is key b inside a (default: text)"),
    WORD("input-format", mode, "FORMAT", "json|lines|blank-lines|titles|files|mediawiki|every-line",
         "json, mediawiki (a dump; detected), or plain text: lines, every-line (the default of "
         "Fairseq*), blank-lines, titles, files"),
    FLAG("detokenize", detokenize,
         "with titles: undo the tokenization of wikitext-103 (1 @,@ 500 becomes 1,500)",
         .needs = "input-format=titles"),
    BYTES("max-line-bytes", max_line, "SIZE", 1024, 1 << 30,
          "skip documents larger than this (default: 64M)"),
    RANGE("max-documents", max_documents, 1, INT64_MAX, "stop after N documents"),
    FLAG("strict", strict, "stop at the first invalid document, or page with unclosed markup"),
    WIKI_OPTIONS(wiki),
    TOKENIZER_OPTIONS(tokenizer),
    FLAG("append-eod", append_eod, "append an end-of-document token to each document"),
    UNFLAG("no-append-eod", append_eod,
           "do not (the default; the job scripts append it); the last of the two counts"),
    RANGE("threshold-src", dictionary.threshold, 0, INT64_MAX,
          "FairseqWords: omit words with a smaller count from a new dict.txt (default: 0)"),
    RANGE("nwords-src", dictionary.words, 5, INT32_MAX,
          "FairseqWords: maximum number of ids in a new dict.txt (default: no limit)"),
    RANGE("padding-factor", dictionary.multiple, 1, 65536,
          "FairseqWords: pad a new dict.txt to a multiple of this"),
    RENAMED("thresholdsrc", "threshold-src"),
    RENAMED("nwordssrc", "nwords-src"),
    RENAMED("srcdict", "vocab-file"),
    HEADING("Output"),
    TEXT("output-prefix", output_prefix, "PREFIX",
         "write PREFIX_KEY_document.bin and .idx; with Fairseq*, PREFIX.bin and .idx"),
    RANGE("output-shards", shards, 1, 100000,
          "write N file pairs of about equal size, PREFIX_00000-of-0000N_KEY_document"),
    FLAG("overwrite", overwrite, "replace existing output", .refuses = "skip-existing"),
    FLAG("skip-existing", skip_existing,
         "do nothing if all output files exist, as after a restart"),
    HEADING("Work"),
    RANGE("workers", workers, 1, 4096,
          "worker threads per rank (default: the CPUs available to the rank)"),
    RANGE("log-interval", log_interval, 1, INT64_MAX, "documents between progress updates"),
    BYTES("chunk-bytes", chunk, "SIZE", 1, INT64_MAX,
          "input bytes per unit of work, at least 1/32768 of the input (default: by its size)"),
    NUMBER("lease", lease, "SECONDS", 1, 86400,
           "take over work on which another rank makes no progress for this long"),
    TEXT("json-progress", json_progress, "FILE",
         "write progress to FILE, a JSON object per second"),
    RANGE("partitions", partitions, 1, 100000,
          "accepted and ignored: work is always divided among all ranks and threads"),
    HEADING("Sentences"),
    FLAG("split-sentences", split_sentences,
         "split texts into sentences as NLTK's punkt does, each a sequence; the output is "
         "PREFIX_KEY_sentence"),
    FLAG("keep-newlines", keep_newlines,
         "with --split-sentences: keep the white space after a sentence"),
    TEXT("lang", lang, "NAME", "with --split-sentences: language of the texts (default: english)"),
    TEXT("punkt-data", punkt_data, "DIR",
         "directory of punkt_tab or nltk_data (default: where NLTK looks, $NLTK_DATA first)",
         .needs = "split-sentences"),
    WORD("nltk-rules", nltk, "VERSION", "3.8|3.10",
         "3.8, or 3.10: curly quotes and guillemets end sentences, too",
         .needs = "split-sentences"),
    IGNORED("keep-sequential-samples", NULL),
    {0},
};

static int check_keys(const struct option_list *keys, struct error *err)
{
    if (keys->count > PART_KEYS)
        return error_set(
            err, "--json-keys takes at most %d keys; name fewer, and run again for the others",
            PART_KEYS);
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->items[i][0] == '\0' || strchr(keys->items[i], '/'))
            return error_set(
                err, "--json-keys: \"%.100s\" cannot be used in a file name; rename the key",
                keys->items[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(keys->items[i], keys->items[k]) == 0)
                return error_set(err, "--json-keys: %.100s is given twice; drop one",
                                 keys->items[i]);
    }
    return 0;
}

static int is_fairseq(const struct preprocess_options *options)
{
    return options->tokenizer.type == TOKENIZER_FAIRSEQ_WORDS ||
           options->tokenizer.type == TOKENIZER_FAIRSEQ_BPE;
}

/* fairseq's files: one pair, every line a sequence that ends with </s>. */
static int set_fairseq(struct preprocess_options *options, const struct options_result *result,
                       struct error *err)
{
    const char *prefix = options->output_prefix, *slash = prefix ? strrchr(prefix, '/') : NULL;
    int length;

    if (!is_fairseq(options))
        return 0;
    if (options->shards > 1 || options->json_keys.count > 1)
        return error_set(err, "fairseq reads one pair of files; drop --output-shards and all but "
                              "one of --json-keys");
    if (options_given(result, "no-append-eod"))
        return error_set(err, "every line of fairseq's files ends with </s>; drop --no-append-eod");
    if (!options_given(result, "input-format") && !options_given(result, "json-keys"))
        options->mode = RECORD_EVERY;
    if (options->tokenizer.type != TOKENIZER_FAIRSEQ_WORDS || options->tokenizer.vocab_file)
        return 0;
    length = snprintf(options->dict_path, sizeof(options->dict_path), "%.*sdict.txt",
                      slash ? (int)(slash - prefix) + 1 : 0, slash ? prefix : "");
    if (length >= (int)sizeof(options->dict_path))
        return error_set(err, "--output-prefix is too long; use a shorter one");
    options->tokenizer.vocab_file = options->dict_path;
    return 0;
}

/* Find punkt's parameters. */
static int set_sentences(struct preprocess_options *options, struct error *err)
{
    if (options->split_sentences && is_fairseq(options))
        return error_set(err, "--split-sentences cannot be used with Fairseq*, whose sequences are "
                              "lines; drop it");
    if (options->split_sentences)
        return punkt_find(options->punkt_data, options->lang ? options->lang : "english",
                          options->punkt, sizeof(options->punkt), err) < 0
                   ? error_prefix(err, options->punkt_data ? "--punkt-data" : "--split-sentences")
                   : 0;
    return 0;
}

static int check_options(const struct preprocess_options *options,
                         const struct options_result *result, struct error *err)
{
    if (options->input.count == 0)
        return error_set(err, "--input is required: the files to read");
    if (!options->output_prefix || !options->output_prefix[0])
        return error_set(err,
                         "--output-prefix is required: where to write the .bin and .idx files");
    if (options->output_prefix[strlen(options->output_prefix) - 1] == '/')
        return error_set(err,
                         "--output-prefix=%.200s ends in a slash; add the beginning of a file name",
                         options->output_prefix);
    if (options->mode != RECORD_JSON && options_given(result, "json-keys"))
        return error_set(
            err,
            "--json-keys cannot be used with plain-text input; drop it or use --input-format json");
    if (options->mode != RECORD_PAGE && wiki_words_given(result, err) < 0)
        return -1;
    return check_keys(&options->json_keys, err);
}

static int run(const struct preprocess_options *options, struct error *err)
{
    static const char *const text[] = {"text"};
    int json_keys = options->json_keys.count > 0;
    struct preprocess_config config = {
        .inputs = options->input.items,
        .input_count = options->input.count,
        .keys = json_keys ? options->json_keys.items : text,
        .key_count = json_keys ? options->json_keys.count : 1,
        .mode = (enum record_mode)options->mode,
        .detokenize = options->detokenize,
        .punkt = options->punkt[0] ? options->punkt : NULL,
        .punkt_options = {options->keep_newlines, options->nltk == 1},
        .output_prefix = options->output_prefix,
        .tokenizer = options->tokenizer,
        .append_eod = options->append_eod,
        .strict = options->strict,
        .overwrite = options->overwrite,
        .threads = options->workers,
        .log_interval = options->log_interval,
        .max_documents = options->max_documents,
        .max_line = options->max_line,
        .shards = options->shards,
        .chunk_bytes = options->chunk,
        .lease = options->lease,
        .json_progress = options->json_progress,
    };
    int complete;

    if (is_fairseq(options)) {
        config.fairseq = config.append_eod = 1;
        config.dictionary = options->dict_path[0] ? options->dict_path : NULL;
        config.dictionary_rules = options->dictionary;
    }
    if (wiki_words_options(&options->wiki, &config.wiki, err) < 0)
        return -1;
    complete = options->skip_existing ? preprocess_is_complete(&config, err) : 0;
    if (complete > 0)
        printf("Already complete: %s\n", config.output_prefix);
    if (complete != 0)
        return complete > 0 ? 0 : -1;
    return preprocess(&config, err);
}

static int run_preprocess(void *given, const struct options_result *result, struct error *err)
{
    struct preprocess_options *options = given;

    if (!options_given(result, "input-format") && !options_given(result, "json-keys") &&
        wiki_words_detect(options->input.items, options->input.count))
        options->mode = RECORD_PAGE;
    if (check_options(options, result, err) < 0 || set_fairseq(options, result, err) < 0 ||
        set_sentences(options, err) < 0) {
        err->code = ERROR_USAGE;
        return -1;
    }
    return run(options, err);
}

const struct command command_preprocess = {
    .name = "preprocess",
    .summary = "tokenize a corpus into .bin and .idx files",
    .usage =
        "Usage: megatron preprocess --input FILE... --output-prefix PREFIX [OPTION...]\n"
        "Tokenize documents into Megatron's .bin and .idx files, using all ranks of the job step.\n"
        "After an interruption, run the same command again: it continues where it stopped.\n",
    .options = table,
    .size = sizeof(struct preprocess_options),
    .defaults = &(const struct preprocess_options){.log_interval = 1000,
                                                   .max_line = 64 << 20,
                                                   .shards = 1,
                                                   .lease = 30,
                                                   .dictionary = {.multiple = 8},
                                                   .wiki = WIKI_WORDS_DEFAULT},
    .unexpected = "use --input to name files",
    .run = run_preprocess,
};
