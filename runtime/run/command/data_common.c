/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"
#include "data/curate/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void data_words_init(struct data_words *words)
{
    words->key = "text";
    words->lease = 30;
    words->max_line = 64 << 20;
}

void data_words_clear(struct data_words *words)
{
    free(words->input.items);
}

static int check_output(const char *option, const char *path, struct error *err)
{
    if (path[0] == '\0' || path[strlen(path) - 1] == '/')
        return error_set_code(err, ERROR_USAGE, "%s=%.200s: name a file, .jsonl or .jsonl.zst",
                              option, path);
    return lines_codec(path, err) < 0 ? -1 : 0;
}

int data_words_check(const struct data_words *words, const struct options_result *result,
                     struct error *err)
{
    if (result->word_count > 0)
        return error_set_code(err, ERROR_USAGE,
                              "unexpected argument %.100s; use --input to name files",
                              result->words[0]);
    if (words->input.count == 0)
        return error_set_code(err, ERROR_USAGE, "--input is required: the files to read");
    return 0;
}

int data_words_take(const struct data_words *words, const struct options_result *result,
                    const char *command, struct jobs_config *config, struct error *err)
{
    size_t outputs = 0;

    if (data_words_check(words, result, err) < 0)
        return -1;
    if (!words->output)
        return error_set_code(err, ERROR_USAGE, "--output is required: the file to write");
    if (words->key[0] == '\0')
        return error_set_code(err, ERROR_USAGE, "--key is empty; name the JSON key of the text");
    if (check_output("--output", words->output, err) < 0 ||
        (words->keep_dropped && check_output("--keep-dropped", words->keep_dropped, err) < 0))
        return -1;
    if (words->keep_dropped && (strcmp(words->keep_dropped, words->output) == 0 ||
                                file_is_same(words->keep_dropped, words->output)))
        return error_set_code(err, ERROR_USAGE,
                              "--keep-dropped and --output are the same file; choose another one");
    *config = (struct jobs_config){
        .command = command,
        .inputs = words->input.items,
        .input_count = words->input.count,
        .key = words->key,
        .output = words->output,
        .keep_dropped = words->keep_dropped,
        .strict = words->strict,
        .overwrite = words->overwrite,
        .workers = words->workers,
        .chunk_bytes = words->chunk,
        .lease = words->lease,
        .max_line = words->max_line,
    };
    config->outputs[outputs++] = words->output;
    if (words->keep_dropped)
        config->outputs[outputs++] = words->keep_dropped;
    return 0;
}

const struct data_command *data_command_find(const char *name)
{
    static const struct data_command *const commands[] = {
        &data_extract, &data_filter, &data_dedup, &data_decontaminate,
        &data_mix,     &data_merge,  &data_stats};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

int data_command_run(const struct data_command *command, int argc, const char *const *argv,
                     struct error *err)
{
    void *words = xcalloc(1, command->size);
    struct options_result result;
    int rc;

    command->init(words);
    rc = options_parse(command->table, words, argc, argv, &result, err);
    if (rc == 0 && result.help) {
        printf("Usage: megatron data %s %s\n%s\n", command->name, command->usage, command->summary);
        options_print(command->table, stdout);
        printf("\nSee megatron-data(1).\n");
    } else if (rc == 0) {
        rc = command->run(words, &result, err);
        if (rc < 0)
            error_prefix(err, "%s", command->name);
    }
    options_result_clear(&result);
    command->clear(words);
    free(words);
    return rc;
}
