/* SPDX-License-Identifier: Apache-2.0 */
/* Which files hold the data of a masked language model: fairseq's directory with train, valid and
 * test, or a prefix for each split. */
#include "config.h"
#include "dataset_private.h"
#include "masked.h"
#include "vocabulary_check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The prefix of a split in 'path'; "" if it has none. Returns 0 or -1. */
static int find_prefix(const struct dataset_config *config, enum dataset_split split,
                       char path[PATH_MAX], struct error *err)
{
    const struct option_list *own = &config->split_path[split], *all = &config->data_path;
    const char *name = dataset_split_name(split);
    int length = 0, here;

    path[0] = '\0';
    if (all->count > 0 &&
        (config->split_path[0].count | config->split_path[1].count | config->split_path[2].count)) {
        return error_set(
            err, "data for all splits cannot be combined with separate train, valid or test "
                 "data; use either --data-path and --split, or --train-data-path, "
                 "--valid-data-path and --test-data-path");
    }
    if (own->count > 1 || all->count > 1)
        return error_set(err, "the data of a masked language model is one directory or prefix, not "
                              "a blend; use `megatron data merge` to join several");
    if (own->count == 1)
        length = snprintf(path, PATH_MAX, "%s", own->items[0]);
    else if (all->count == 1 && is_directory(all->items[0]))
        length = snprintf(path, PATH_MAX, "%s/%s", all->items[0], name);
    else if (all->count == 1) {
        return error_set(err,
                         "%.200s is not a directory; a masked language model reads train.bin, "
                         "valid.bin and test.bin from one; or use --train-data-path PREFIX",
                         all->items[0]);
    }
    if (length >= PATH_MAX - 4)
        return error_set(err, "the path of the %s data is too long; use a shorter one", name);
    if (length == 0 || own->count == 1 || split == DATASET_TRAIN)
        return 0;
    /* In a directory, validation and test data are optional. */
    strcpy(path + length, ".idx");
    here = access(path, F_OK) == 0 || errno != ENOENT;
    path[here ? length : 0] = '\0';
    return 0;
}

/* GPT-2's ids are other tokens of RoBERTa, whose vocabulary has more of them. Data of a causal
 * model is recognized by the end of its documents, which is a rare token of RoBERTa. */
enum { ROBERTA_VOCABULARY = 50265, GPT2_END = 50256, LOOKED_AT = 16 };

static int check_causal(const struct indexed *corpus, struct error *err)
{
    int64_t sequences = indexed_info(corpus)->sequences, ends = 0, looked = 0;

    for (; looked < LOOKED_AT && looked < sequences; looked++) {
        int64_t length = indexed_length(corpus, looked, err);
        int32_t last = -1;

        if (length < 0 ||
            (length > 0 && indexed_tokens(corpus, looked, length - 1, 1, &last, 1, err) < 0))
            return -1;
        ends += last == GPT2_END;
    }
    if (looked == 0 || ends < looked)
        return 0;
    return error_set_code(
        err, ERROR_USAGE,
        "%s.bin: its documents end with token %d, GPT-2's <|endoftext|>: the data is for "
        "a causal model; make it with `megatron preprocess --tokenizer-type FairseqBPE`",
        indexed_prefix(corpus), GPT2_END);
}

/* Data of another dict.txt or tokenizer shows in a few places of a file, before any rank starts. */
static int check_ids(const char *prefix, struct vocabulary_check *vocabulary, struct error *err)
{
    struct indexed *corpus = indexed_open(prefix, err);
    int rc = corpus ? vocabulary_check(vocabulary, corpus, err) : 0;

    if (corpus && rc == 0 && vocabulary->vocabulary == ROBERTA_VOCABULARY)
        rc = check_causal(corpus, err);
    indexed_close(corpus);
    return corpus ? rc : -1;
}

int masked_check(const struct dataset_config *config, struct error *err)
{
    struct vocabulary_check vocabulary = {
        .vocabulary = config->vocabulary, .tokenizer = config->tokenizer, .eod = -1};
    char path[PATH_MAX];

    for (int i = 0; i < DATASET_SPLITS && !config->mock; i++) {
        struct masked *masked;

        if (config->samples[i] == 0)
            continue;
        if (find_prefix(config, (enum dataset_split)i, path, err) < 0)
            return -1;
        /* Lines that are too long and the like show only when samples are made. */
        masked = path[0] ? masked_open(path, config->masked, config->sequence_length,
                                       (enum dataset_split)i, config->seed, err)
                         : NULL;
        if (path[0] && !masked)
            return -1;
        masked_close(masked);
        if (path[0] && check_ids(path, &vocabulary, err) < 0)
            return -1;
    }
    vocabulary_check_report(&vocabulary);
    return 0;
}

int masked_create(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                  struct error *err)
{
    char path[PATH_MAX] = "";

    for (int i = 0; i < DATASET_SPLITS; i++) {
        enum dataset_split split = (enum dataset_split)i;

        if (config->samples[i] == 0)
            continue;
        if (!config->mock && find_prefix(config, split, path, err) < 0)
            return -1;
        if (!config->mock && !path[0])
            continue;
        splits[i] = dataset_new(config, split, 0);
        splits[i]->samples = INT64_MAX; /* any number of epochs */
        splits[i]->masked = masked_open(config->mock ? NULL : path, config->masked,
                                        config->sequence_length, split, config->seed, err);
        if (!splits[i]->masked)
            return -1;
    }
    return 0;
}
