/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/option_rows.h"
#include "base/core/list.h"
#include "data/curate/tools.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merge_options {
    struct option_list input;
    const char *output, *json_progress;
    int overwrite;
    int64_t workers, lease;
};

#define AT(field) offsetof(struct merge_options, field)

static const struct option table[] = {
    HEADING("Input and output"),
    VALUES("input", input, "PREFIX...",
           "pairs without .bin and .idx, in this order; a directory is all pairs in it, by name"),
    TEXT("output-prefix", output, "PREFIX", "write PREFIX.bin and PREFIX.idx"),
    FLAG("overwrite", overwrite, "replace output that exists"),
    HEADING("Work"),
    RANGE("workers", workers, 1, 4096, "threads per rank (default: the CPUs the rank may use)"),
    NUMBER("lease", lease, "SECONDS", 1, 86400,
           "take over work that another rank makes no progress with"),
    TEXT("json-progress", json_progress, "FILE",
         "write progress to FILE, a JSON object per second"),
    {0},
};

/* Prefixes, as they are found; owned. */
struct prefixes {
    char **items;
    size_t count, room;
};

static void add_prefix(struct prefixes *prefixes, const char *directory, const char *name,
                       size_t length)
{
    *list_add(prefixes) =
        xasprintf("%s%s%.*s", directory, directory[0] ? "/" : "", (int)length, name);
}

static int is_ending(const char *name, size_t length)
{
    return length > 4 &&
           (strcmp(name + length - 4, ".idx") == 0 || strcmp(name + length - 4, ".bin") == 0);
}

static int is_idx(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return is_ending(entry->d_name, length) && entry->d_name[length - 3] == 'i';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_directory(struct prefixes *prefixes, const char *path, struct error *err)
{
    struct dirent **names;
    int count = scandir(path, &names, is_idx, by_bytes);

    if (count < 0)
        return error_set_errno(err, errno, "cannot read directory %s", path);
    for (int i = 0; i < count; i++) {
        add_prefix(prefixes, path, names[i]->d_name, strlen(names[i]->d_name) - 4);
        free(names[i]);
    }
    free(names);
    if (count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s contains no .idx file; name a directory of .bin and .idx pairs",
                              path);
    return 0;
}

static int is_pair(const char *word)
{
    char idx[PATH_MAX];

    return snprintf(idx, sizeof(idx), "%s.idx", word) < (int)sizeof(idx) && access(idx, F_OK) == 0;
}

static int find_prefixes(struct prefixes *prefixes, const struct option_list *input,
                         struct error *err)
{
    for (size_t i = 0; i < input->count; i++) {
        const char *word = input->items[i];
        size_t length = strlen(word);
        struct stat status;

        /* Beside PREFIX.idx, a directory PREFIX is its cache of sample indices. */
        if (is_pair(word) || stat(word, &status) < 0 || !S_ISDIR(status.st_mode))
            add_prefix(prefixes, "", word, is_ending(word, length) ? length - 4 : length);
        else if (add_directory(prefixes, word, err) < 0)
            return -1;
    }
    return 0;
}

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct merge_options *words = context;
    struct prefixes prefixes = {0};
    struct merge_config config = {.base = {.command = "merge",
                                           .output = words->output,
                                           .overwrite = words->overwrite,
                                           .workers = words->workers,
                                           .lease = words->lease,
                                           .json_progress = words->json_progress}};
    int rc;

    (void)result;
    if (words->input.count == 0)
        return error_set_code(err, ERROR_USAGE, "--input is required: the pairs to merge");
    if (data_check_prefix(words->output, err) < 0)
        return -1;
    rc = find_prefixes(&prefixes, &words->input, err);
    config.prefixes = (const char *const *)prefixes.items;
    config.count = prefixes.count;
    if (rc == 0)
        rc = merge_run(&config, err);
    for (size_t i = 0; i < prefixes.count; i++)
        free(prefixes.items[i]);
    free(prefixes.items);
    return rc;
}

const struct command data_merge = {
    .name = "data merge",
    .usage = "Usage: megatron data merge --input PREFIX... --output-prefix PREFIX [OPTION...]\n"
             "Merge pairs of .bin and .idx files, as Megatron's merge_datasets.py does.\n",
    .options = table,
    .size = sizeof(struct merge_options),
    .defaults = &(const struct merge_options){.lease = 30},
    .unexpected = "use --input to name pairs",
    .run = run,
};
