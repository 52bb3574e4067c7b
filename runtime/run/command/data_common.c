/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"
#include "data/curate/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_output(const char *option, const char *path, struct error *err)
{
    if (path[0] == '\0' || path[strlen(path) - 1] == '/')
        return error_set_code(err, ERROR_USAGE, "%s=%.200s: name a file, .jsonl or .jsonl.zst",
                              option, path);
    return lines_codec(path, err) < 0 ? -1 : 0;
}

int data_words_check(const struct data_words *words, struct error *err)
{
    if (words->input.count == 0)
        return error_set_code(err, ERROR_USAGE, "--input is required: the files to read");
    return 0;
}

int data_words_take(const struct data_words *words, const char *command, struct jobs_config *config,
                    struct error *err)
{
    size_t outputs = 0;

    if (data_words_check(words, err) < 0)
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
        .json_progress = words->json_progress,
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

int data_check_prefix(const char *prefix, struct error *err)
{
    if (prefix && prefix[0] && prefix[strlen(prefix) - 1] != '/')
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "--output-prefix is required: a path and the beginning of a file name");
}
