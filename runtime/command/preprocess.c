#include "config.h"
#include "commands.h"
#include "part.h"
#include "preprocess.h"
#include "wiki_words.h"
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct words {
    struct option_list input, json_keys;
    int mode, append_eod, strict, overwrite, split_sentences, keep_newlines;
    const char *output_prefix, *lang;
    int64_t workers, partitions, log_interval, max_documents, max_line, shards, chunk, lease;
    struct tokenizer_config tokenizer;
    struct wiki_words wiki;
    int detokenize;
};

#define AT(field) offsetof(struct words, field)

static const struct option table[] = {
    {"Input", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"input", OPTION_LIST, AT(input), "FILE...",
     "files, globs, directories, or - for standard input; plain or .gz .xz .zst .bz2", NULL, 0, 0},
    {"json-keys", OPTION_LIST, AT(json_keys), "KEY...",
     "members to take, one output each; a.b is member b of a (default: text)", NULL, 0, 0},
    {"input-format", OPTION_CHOICE, AT(mode), "FORMAT",
     "json (default), mediawiki (a dump: recognized by itself); or text: lines, blank-lines, "
     "titles, files",
     "json|lines|blank-lines|titles|files|mediawiki", 0, 0},
    {"detokenize", OPTION_FLAG, AT(detokenize), NULL,
     "with titles: undo the spaces of wikitext-103 (1 @,@ 500 becomes 1,500)", NULL, 0, 0},
    {"max-line-bytes", OPTION_BYTES, AT(max_line), "SIZE",
     "longer documents are skipped (default: 64M)", NULL, 1024, 1 << 30},
    {"max-documents", OPTION_INT, AT(max_documents), "N", "stop after N documents", NULL, 1,
     INT64_MAX},
    {"strict", OPTION_FLAG, AT(strict), NULL, "stop at the first broken document", NULL, 0, 0},
    WIKI_OPTIONS(struct words, wiki),
    TOKENIZER_OPTIONS(struct words, tokenizer),
    {"append-eod", OPTION_FLAG, AT(append_eod), NULL, "end each document with its end token", NULL,
     0, 0},
    {"Output", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"output-prefix", OPTION_TEXT, AT(output_prefix), "PREFIX",
     "write PREFIX_KEY_document.bin and .idx", NULL, 0, 0},
    {"output-shards", OPTION_INT, AT(shards), "N",
     "write N pairs of about equal size, PREFIX_00000-of-0000N_KEY_document", NULL, 1, 100000},
    {"overwrite", OPTION_FLAG, AT(overwrite), NULL, "replace output that exists", NULL, 0, 0},
    {"Work", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"workers", OPTION_INT, AT(workers), "N",
     "threads per rank (default: the CPUs the rank may use)", NULL, 1, 4096},
    {"log-interval", OPTION_INT, AT(log_interval), "N",
     "documents between progress lines (default: 1000)", NULL, 1, INT64_MAX},
    {"chunk-bytes", OPTION_BYTES, AT(chunk), "SIZE",
     "input per piece of work (default: by the size of the input)", NULL, 1, INT64_MAX},
    {"lease", OPTION_INT, AT(lease), "SECONDS",
     "take over work that another rank makes no progress with (default: 30)", NULL, 1, 86400},
    {"partitions", OPTION_INT, AT(partitions), "N",
     "accepted; work is divided among all ranks and threads in any case", NULL, 1, 100000},
    {"split-sentences", OPTION_FLAG, AT(split_sentences), NULL,
     "refused: give lists of sentences instead", NULL, 0, 0},
    {"keep-newlines", OPTION_FLAG, AT(keep_newlines), NULL, "accepted; newlines are always kept",
     NULL, 0, 0},
    {"lang", OPTION_TEXT, AT(lang), "NAME", "accepted; only meant for --split-sentences", NULL, 0,
     0},
    {"keep-sequential-samples", OPTION_IGNORED, 0, NULL, NULL, NULL, 0, 0},
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
};

static void print_help(void)
{
    printf("Usage: megatron preprocess --input FILE... --output-prefix PREFIX [OPTION...]\n"
           "Tokenize documents into Megatron's .bin and .idx files, with all ranks of a step.\n"
           "Run again after an interruption, the same command goes on where it was.\n");
    options_print(table, stdout);
    printf("\nSee megatron-preprocess(1).\n");
}

static int check_keys(const struct option_list *keys, struct error *err)
{
    if (keys->count > PART_KEYS)
        return error_set(err, "--json-keys takes %d keys at most", PART_KEYS);
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->items[i][0] == '\0' || strchr(keys->items[i], '/'))
            return error_set(err, "--json-keys: \"%.100s\" cannot be part of a file name",
                             keys->items[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(keys->items[i], keys->items[k]) == 0)
                return error_set(err, "--json-keys: %.100s is given twice", keys->items[i]);
    }
    return 0;
}

static int check_words(const struct words *words, const struct options_result *result,
                       struct error *err)
{
    if (result->word_count > 0)
        return error_set(err, "unexpected word %.100s; files are named after --input",
                         result->words[0]);
    if (words->input.count == 0)
        return error_set(err, "--input is missing: the files to read");
    if (!words->output_prefix || !words->output_prefix[0])
        return error_set(err, "--output-prefix is missing: where to write");
    if (words->output_prefix[strlen(words->output_prefix) - 1] == '/')
        return error_set(err, "--output-prefix=%.200s is a directory; add the begin of a name",
                         words->output_prefix);
    if (words->split_sentences)
        return error_set(err, "--split-sentences is not offered: split the texts before and give "
                              "lists of sentences, which become one sequence each");
    if (words->mode != RECORD_JSON && options_given(result, "json-keys"))
        return error_set(err, "--json-keys has no meaning for text");
    if (words->mode != RECORD_PAGE && wiki_words_given(result, err) < 0)
        return -1;
    if (words->detokenize && words->mode != RECORD_TITLE)
        return error_set_code(err, ERROR_USAGE, "--detokenize requires --input-format titles");
    return check_keys(&words->json_keys, err);
}

/* Progress goes to standard error, as Megatron's does. */
static void show_progress(const char *line, int replaces)
{
    fprintf(stderr, replaces ? "\r%s\033[K" : "%s\n", line);
    fflush(stderr);
}

static int run_words(const struct words *words, struct error *err)
{
    static const char *const text[] = {"text"};
    int json_keys = words->json_keys.count > 0;
    struct preprocess_config config = {
        .inputs = words->input.items,
        .input_count = words->input.count,
        .keys = json_keys ? words->json_keys.items : text,
        .key_count = json_keys ? words->json_keys.count : 1,
        .mode = (enum record_mode)words->mode,
        .detokenize = words->detokenize,
        .output_prefix = words->output_prefix,
        .tokenizer = words->tokenizer,
        .append_eod = words->append_eod,
        .strict = words->strict,
        .overwrite = words->overwrite,
        .threads = words->workers,
        .log_interval = words->log_interval,
        .max_documents = words->max_documents,
        .max_line = words->max_line,
        .shards = words->shards,
        .chunk_bytes = words->chunk,
        .lease = words->lease,
        .progress = show_progress,
        .terminal = isatty(STDERR_FILENO),
    };
    struct world world;

    if (wiki_words_options(&words->wiki, &config.wiki, err) < 0)
        return -1;
    /* A limit on file sizes shall be an error of the write, not the end of the process. */
    signal(SIGXFSZ, SIG_IGN);
    if (world_read(&world, err) < 0)
        return -1;
    /* Under a launcher a rank ends with it; by hand the shell may go. */
    if (strcmp(world.source, "default") != 0 && world_die_with_parent(err) < 0)
        return -1;
    return preprocess(&config, &world, err);
}

static int run_preprocess(int argc, const char *const *argv, struct error *err)
{
    struct words words = {.log_interval = 1000, .max_line = 64 << 20, .shards = 1, .lease = 30,
                          .wiki = WIKI_WORDS_DEFAULT};
    struct options_result result;
    int rc = options_parse(table, &words, argc, argv, &result, err);

    if (rc == 0 && result.help)
        print_help();
    if (rc == 0 && !result.help && !options_given(&result, "input-format") &&
        !options_given(&result, "json-keys") &&
        wiki_words_detect(words.input.items, words.input.count))
        words.mode = RECORD_PAGE;
    if (rc == 0 && !result.help)
        rc = check_words(&words, &result, err) < 0 ? -1 : run_words(&words, err);
    options_result_clear(&result);
    free(words.input.items);
    free(words.json_keys.items);
    return rc;
}

const struct command command_preprocess = {
    .name = "preprocess",
    .summary = "tokenize a corpus into .bin and .idx files",
    .run = run_preprocess,
};
