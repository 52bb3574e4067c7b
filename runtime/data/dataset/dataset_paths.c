/* SPDX-License-Identifier: Apache-2.0 */
/* From the options that name the data to the parts of corpora and the directories of their indices.
 */
#include "config.h"
#include "dataset_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/trusted.h"

int data_paths_read(const struct dataset_config *config, struct data_paths *paths,
                    struct error *err)
{
    /* For a wrong blend of each split, and of the data that is split. */
    static const char *const options[DATASET_SPLITS + 1] = {
        "--train-data-path", "--valid-data-path", "--test-data-path", "--data-path"};
    bool apart = false;

    for (int i = 0; i < DATASET_SPLITS; i++)
        apart |= config->split_path[i].count > 0;
    if (apart && (config->data_path.count > 0 || config->split))
        return error_set(err,
                         "%s cannot be combined with separate train, valid or test data; use "
                         "either --data-path and --split, or --train-data-path, "
                         "--valid-data-path and --test-data-path",
                         config->data_path.count > 0 ? "data for all splits" : "a data split");
    if (!apart && config->data_path.count == 0)
        return error_set(err, "no data to train on; use --data-path PREFIX, or --mock-data");
    if (!apart &&
        split_parse(config->split ? config->split : DATASET_DEFAULT_SPLIT, paths->ranges, err) < 0)
        return -1;
    for (int i = 0; i < DATASET_SPLITS; i++) {
        const struct option_list *words = apart ? &config->split_path[i] : &config->data_path;

        if (apart)
            paths->ranges[i] = (struct split_range){0, 1, 1};
        if (words->count == 0)
            continue;
        if (blend_parse(words->items, words->count, &paths->blends[i], err) < 0)
            return error_append(err, "; correct %s", options[apart ? i : DATASET_SPLITS]);
        if (paths->blends[i].weights)
            blend_normalise(paths->blends[i].weights, paths->blends[i].count);
    }
    return 0;
}

void data_paths_clear(struct data_paths *paths)
{
    for (int i = 0; i < DATASET_SPLITS; i++)
        blend_clear(&paths->blends[i]);
}

int data_paths_part(const struct indexed *corpus, enum dataset_split split, bool bert,
                    const struct split_range *range, int64_t *first, int64_t *count,
                    struct error *err)
{
    const struct indexed_info *info = indexed_info(corpus);

    if (info->sequences == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s: it contains no tokens; tokenize it again, or drop it",
                              indexed_prefix(corpus));
    split_bounds(range, bert ? info->documents : info->sequences, first, count);
    if (*count > 0 || split != DATASET_TRAIN)
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "%s: none of its %" PRId64 " %s is training data; change --split",
                          indexed_prefix(corpus), bert ? info->documents : info->sequences,
                          bert ? "documents" : "sequences");
}

void cache_own_directory(char path[PATH_MAX])
{
    const char *base = getenv("TMPDIR");
    int fd = -1;

    if (snprintf(path, PATH_MAX, "%s/megatron-cache-%ld", base && *base ? base : "/tmp",
                 (long)getuid()) >= PATH_MAX)
        path[0] = '\0';
    else if ((mkdir(path, 0700) < 0 && errno != EEXIST) ||
             (fd = trusted_directory_open(AT_FDCWD, path, TRUSTED_PRIVATE, NULL)) < 0 ||
             trusted_parents(path, NULL) < 0)
        path[0] = '\0';
    if (fd >= 0)
        close(fd);
}

struct index_place cache_place(const struct dataset_config *config, const char *own,
                               const char *prefix, char beside[PATH_MAX])
{
    struct index_place place = {.deadline = config->deadline > 0 ? config->deadline : 600};
    int count = 0;

    if (config->cache_path) {
        place.directories[0] = config->cache_path;
        return place;
    }
    if (snprintf(beside, PATH_MAX, "%s/cache/GPTDataset_indices", prefix) < PATH_MAX)
        place.directories[count++] = beside;
    if (own[0])
        place.directories[count] = own;
    return place;
}
