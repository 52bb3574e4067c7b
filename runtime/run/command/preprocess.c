/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"
#include "data/preprocess/preprocess.h"
#include "wiki_words.h"
#include "base/core/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct preprocess_options {
    struct option_list input, json_keys;
    int mode, append_eod, strict, overwrite, skip_existing, split_sentences, keep_newlines;
    const char *output_prefix, *lang, *punkt_data;
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
    {"Input", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"input", OPTION_LIST, AT(input), "FILE...",
     "input files, globs, directories, or - for standard input; may be .gz .xz .zst .bz2", NULL, 0,
     0},
    {"json-keys", OPTION_LIST, AT(json_keys), "KEY...",
     "keys to extract from JSON, one output each; a.b is key b inside a (default: text)", NULL, 0,
     0},
    {"input-format", OPTION_CHOICE, AT(mode), "FORMAT",
     "json (default), mediawiki (a dump; detected), or plain text: lines, every-line (the default "
     "of Fairseq*), blank-lines, titles, files",
     "json|lines|blank-lines|titles|files|mediawiki|every-line", 0, 0},
    {"detokenize", OPTION_FLAG, AT(detokenize), NULL,
     "with titles: undo the tokenization of wikitext-103 (1 @,@ 500 becomes 1,500)", NULL, 0, 0},
    {"max-line-bytes", OPTION_BYTES, AT(max_line), "SIZE",
     "skip documents larger than this (default: 64M)", NULL, 1024, 1 << 30},
    {"max-documents", OPTION_INT, AT(max_documents), "N", "stop after N documents", NULL, 1,
     INT64_MAX},
    {"strict", OPTION_FLAG, AT(strict), NULL,
     "stop at the first invalid document, or page with unclosed markup", NULL, 0, 0},
    WIKI_OPTIONS(struct preprocess_options, wiki),
    TOKENIZER_OPTIONS(struct preprocess_options, tokenizer),
    {"append-eod", OPTION_FLAG, AT(append_eod), NULL,
     "append an end-of-document token to each document", NULL, 0, 0},
    {"no-append-eod", OPTION_UNFLAG, AT(append_eod), NULL,
     "do not (the default; the job scripts append it); the last of the two counts", NULL, 0, 0},
    {"threshold-src", OPTION_INT, AT(dictionary.threshold), "N",
     "FairseqWords: omit words with a smaller count from a new dict.txt (default: 0)", NULL, 0,
     INT64_MAX},
    {"nwords-src", OPTION_INT, AT(dictionary.words), "N",
     "FairseqWords: maximum number of ids in a new dict.txt (default: no limit)", NULL, 5,
     INT32_MAX},
    {"padding-factor", OPTION_INT, AT(dictionary.multiple), "N",
     "FairseqWords: pad a new dict.txt to a multiple of this (default: 8)", NULL, 1, 65536},
    {"thresholdsrc", OPTION_RENAMED, 0, NULL, "threshold-src", NULL, 0, 0},
    {"nwordssrc", OPTION_RENAMED, 0, NULL, "nwords-src", NULL, 0, 0},
    {"srcdict", OPTION_RENAMED, 0, NULL, "vocab-file", NULL, 0, 0},
    {"Output", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"output-prefix", OPTION_TEXT, AT(output_prefix), "PREFIX",
     "write PREFIX_KEY_document.bin and .idx; with Fairseq*, PREFIX.bin and .idx", NULL, 0, 0},
    {"output-shards", OPTION_INT, AT(shards), "N",
     "write N file pairs of about equal size, PREFIX_00000-of-0000N_KEY_document", NULL, 1, 100000},
    {"overwrite", OPTION_FLAG, AT(overwrite), NULL, "replace existing output", NULL, 0, 0},
    {"skip-existing", OPTION_FLAG, AT(skip_existing), NULL,
     "do nothing if all output files exist, as after a restart", NULL, 0, 0},
    {"Work", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"workers", OPTION_INT, AT(workers), "N",
     "worker threads per rank (default: the CPUs available to the rank)", NULL, 1, 4096},
    {"log-interval", OPTION_INT, AT(log_interval), "N",
     "documents between progress updates (default: 1000)", NULL, 1, INT64_MAX},
    {"chunk-bytes", OPTION_BYTES, AT(chunk), "SIZE",
     "input bytes per unit of work, at least 1/32768 of the input (default: by its size)", NULL, 1,
     INT64_MAX},
    {"lease", OPTION_INT, AT(lease), "SECONDS",
     "take over work on which another rank makes no progress for this long (default: 30)", NULL, 1,
     86400},
    {"partitions", OPTION_INT, AT(partitions), "N",
     "accepted and ignored: work is always divided among all ranks and threads", NULL, 1, 100000},
    {"Sentences", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"split-sentences", OPTION_FLAG, AT(split_sentences), NULL,
     "split texts into sentences as NLTK's punkt does, each a sequence; the output is "
     "PREFIX_KEY_sentence",
     NULL, 0, 0},
    {"keep-newlines", OPTION_FLAG, AT(keep_newlines), NULL,
     "with --split-sentences: keep the white space after a sentence", NULL, 0, 0},
    {"lang", OPTION_TEXT, AT(lang), "NAME",
     "with --split-sentences: language of the texts (default: english)", NULL, 0, 0},
    {"punkt-data", OPTION_TEXT, AT(punkt_data), "DIR",
     "directory of punkt_tab or nltk_data (default: where NLTK looks, $NLTK_DATA first)", NULL, 0,
     0},
    {"nltk-rules", OPTION_CHOICE, AT(nltk), "VERSION",
     "3.8 (default), or 3.10: curly quotes and guillemets end sentences, too", "3.8|3.10", 0, 0},
    {"keep-sequential-samples", OPTION_IGNORED, 0, NULL, NULL, NULL, 0, 0},
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
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
static int set_sentences(struct preprocess_options *options, const struct options_result *result,
                         struct error *err)
{
    static const char *const others[] = {"lang", "keep-newlines", "punkt-data", "nltk-rules"};

    if (options->split_sentences && is_fairseq(options))
        return error_set(err, "--split-sentences cannot be used with Fairseq*, whose sequences are "
                              "lines; drop it");
    if (options->split_sentences)
        return punkt_find(options->punkt_data, options->lang ? options->lang : "english",
                          options->punkt, sizeof(options->punkt), err) < 0
                   ? error_prefix(err, options->punkt_data ? "--punkt-data" : "--split-sentences")
                   : 0;
    for (size_t i = 2; i < sizeof(others) / sizeof(others[0]); i++)
        if (options_given(result, others[i]))
            return error_set(err, "--%s requires --split-sentences; add it", others[i]);
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
    if (options->detokenize && options->mode != RECORD_TITLE)
        return error_set(
            err, "--detokenize requires --input-format titles; add it, or drop --detokenize");
    if (options->overwrite && options->skip_existing)
        return error_set(err, "--overwrite and --skip-existing cannot be used together; drop one");
    return check_keys(&options->json_keys, err);
}

/* Progress goes to standard error, as Megatron's does. */
static void show_progress(const char *line, int replaces)
{
    fprintf(stderr, replaces ? "\r%s\033[K" : "%s\n", line);
    fflush(stderr);
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
        .progress = show_progress,
        .terminal = isatty(STDERR_FILENO),
    };
    struct world world;
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
    /* If RLIMIT_FSIZE is exceeded, the write fails with an error instead of killing the process. */
    signal(SIGXFSZ, SIG_IGN);
    if (world_read(&world, err) < 0)
        return -1;
    /* Under a launcher, end with it; if started by hand, keep running when the shell exits. */
    if (strcmp(world.source, "default") != 0 && world_die_with_parent(err) < 0)
        return -1;
    return preprocess(&config, &world, err);
}

static int run_preprocess(void *given, const struct options_result *result, struct error *err)
{
    struct preprocess_options *options = given;

    if (!options_given(result, "input-format") && !options_given(result, "json-keys") &&
        wiki_words_detect(options->input.items, options->input.count))
        options->mode = RECORD_PAGE;
    if (check_options(options, result, err) < 0 || set_fairseq(options, result, err) < 0 ||
        set_sentences(options, result, err) < 0) {
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
