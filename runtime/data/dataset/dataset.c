/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "dataset_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bert.h"
#include "blend.h"
#include "masked.h"
#include "base/core/threads.h"
#include "lib/trusted.h"
#include "vocabulary_check.h"

/* For a wrong blend of each split, and of the data that is split. */
static const char *const blend_options[DATASET_SPLITS + 1] = {
    "--train-data-path", "--valid-data-path", "--test-data-path", "--data-path"};

const char *dataset_split_name(enum dataset_split split)
{
    static const char *const names[DATASET_SPLITS] = {"train", "valid", "test"};

    return names[split];
}

const char *dataset_split_words(enum dataset_split split)
{
    static const char *const words[DATASET_SPLITS] = {"training", "validation", "test"};

    return words[split];
}

/* One member of one split: a corpus to open and an index to get. */
struct task {
    struct dataset *dataset;
    struct blend_member *member;
    const char *prefix;
    double weight; /* the user's, normalized; 0: none were given */
    const struct split_range *range;
    int64_t first, count; /* its part of the corpus: sequences, or documents for BERT */
    int64_t samples;      /* to take from it; negative: one epoch */
    int is_empty;         /* too small for a sample */
};

struct builder {
    const struct dataset_config *config;
    struct dataset **splits;
    struct split_range ranges[DATASET_SPLITS];
    struct blend blends[DATASET_SPLITS]; /* for each split; all the same if one corpus is split */
    struct task *tasks;
    size_t task_count;
    int threads; /* for each task */
    double deadline;
    char own_cache[PATH_MAX]; /* in the temporary directory; "" if there is none */
};

/* A directory in TMPDIR, else /tmp, that belongs to this user and that nobody else can write to. */
static void find_own_cache(char path[PATH_MAX])
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

/* The directories in which to cache indices of 'prefix'. */
static int cache_directories(const struct builder *builder, const char *prefix,
                             char beside[PATH_MAX], const char *directories[2])
{
    int count = 0;

    if (builder->config->cache_path) {
        directories[count++] = builder->config->cache_path;
        return count;
    }
    if (snprintf(beside, PATH_MAX, "%s/cache/GPTDataset_indices", prefix) < PATH_MAX)
        directories[count++] = beside;
    if (builder->own_cache[0])
        directories[count++] = builder->own_cache;
    return count;
}

/* Find the part of a corpus that 'range' gives to 'split'. Training data must have one. */
static int find_part(const struct indexed *corpus, enum dataset_split split, int bert,
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
    error_set_code(err, ERROR_USAGE, "%s: none of its %" PRId64 " %s is training data",
                   indexed_prefix(corpus), bert ? info->documents : info->sequences,
                   bert ? "documents" : "sequences");
    return error_append(err, "; change --split");
}

/* Have 'count' sequences more than 'most' tokens? Returns 1, 0 or -1. */
static int has_more(const struct indexed *corpus, int64_t first, int64_t count, int64_t most,
                    struct error *err)
{
    enum { PIECE = 4096 };
    int32_t lengths[PIECE];
    int64_t tokens = 0;

    for (int64_t done = 0; done < count && tokens <= most; done += PIECE) {
        int64_t part = count - done < PIECE ? count - done : PIECE;

        if (indexed_lengths(corpus, first + done, part, lengths, err) < 0)
            return -1;
        for (int64_t i = 0; i < part; i++)
            tokens += lengths[i];
    }
    return tokens > most;
}

/* Open a member, and see whether its part has a sample. Fewer tokens than one sample are enough if
 * they may be repeated. */
static int open_member(void *arg, int64_t i, struct error *err)
{
    const struct builder *builder = arg;
    struct task *task = &builder->tasks[i];
    const struct dataset *dataset = task->dataset;
    int more;

    task->member->corpus = indexed_open(task->prefix, err);
    if (!task->member->corpus || find_part(task->member->corpus, dataset->split, dataset->bert,
                                           task->range, &task->first, &task->count, err) < 0)
        return -1;
    task->is_empty = task->count == 0;
    if (dataset->bert || dataset->split == DATASET_TRAIN)
        return 0;
    more = has_more(task->member->corpus, task->first, task->count,
                    task->samples < 0 ? dataset->sequence_length : 0, err);
    task->is_empty = more == 0;
    return more < 0 ? -1 : 0;
}

static int build_member(void *arg, int64_t i, struct error *err)
{
    const struct builder *builder = arg;
    const struct task *task = &builder->tasks[i];
    const char *split = dataset_split_name(task->dataset->split), *directories[2];
    struct gpt_request request = {
        .corpus = task->member->corpus,
        .first = task->first,
        .count = task->count,
        .sequence_length = task->dataset->sequence_length,
        .samples = task->samples,
        .seed = builder->config->seed,
    };
    char beside[PATH_MAX];
    int count = cache_directories(builder, task->prefix, beside, directories);

    if (task->dataset->bert)
        task->member->index =
            bert_index_get(request.corpus, request.first, request.count,
                           &task->dataset->bert_config, request.sequence_length, task->samples,
                           request.seed, split, directories, count, builder->deadline, err);
    else
        task->member->index = gpt_index_get(&request, split, directories, count, builder->deadline,
                                            builder->threads, err);
    return task->member->index ? 0 : -1;
}

struct dataset *dataset_new(const struct dataset_config *config, enum dataset_split split,
                            size_t members, struct error *err)
{
    struct dataset *dataset = calloc(1, sizeof(*dataset));

    if (!dataset ||
        (members > 0 && !(dataset->members = calloc(members, sizeof(*dataset->members))))) {
        free(dataset);
        error_set(err, "%s data: out of memory", dataset_split_name(split));
        return NULL;
    }
    dataset->split = split;
    dataset->member_count = members;
    dataset->sequence_length = config->sequence_length;
    dataset->vocabulary = config->vocabulary;
    dataset->eod = config->eod;
    dataset->eod_mask_loss = config->eod_mask_loss;
    dataset->reset_position_ids = config->reset_position_ids;
    dataset->reset_attention_mask = config->reset_attention_mask;
    dataset->seed = config->seed;
    dataset->bert = config->masked && config->masked->bert;
    if (dataset->bert)
        dataset->bert_config = *config->masked;
    return dataset;
}

/* A blend whose only member is used directly. Megatron treats the options differently here: one
 * weighted prefix is a blend with --data-path, but not with --train-data-path. */
static int is_single(const struct builder *builder, enum dataset_split split)
{
    const struct blend *blend = &builder->blends[split];

    return blend->count == 1 && (!blend->weights || builder->config->split_path[split].count > 0);
}

/* Samples to take from a member of 'weight'; negative: one epoch. */
static int64_t samples_of(const struct builder *builder, enum dataset_split split, double weight)
{
    int64_t wanted = builder->config->samples[split];

    if (is_single(builder, split))
        return wanted;
    return builder->blends[split].weights ? blend_with_surplus(wanted, weight) : -1;
}

static int plan_split(struct builder *builder, enum dataset_split split, struct error *err)
{
    const struct blend *blend = &builder->blends[split];
    int64_t wanted = builder->config->samples[split];
    struct dataset *dataset;

    if (wanted == 0 || blend->count == 0 || !builder->ranges[split].present)
        return 0;
    if (wanted < 0 && blend->weights && !is_single(builder, split))
        return error_set_code(
            err, ERROR_USAGE,
            "%s data: a blend with weights never ends, so all of it cannot be used; "
            "drop the weights, or name one corpus",
            dataset_split_name(split));
    dataset = builder->splits[split] = dataset_new(builder->config, split, blend->count, err);
    if (!dataset)
        return -1;
    for (size_t i = 0; i < blend->count; i++) {
        struct task *task = &builder->tasks[builder->task_count++];

        task->dataset = dataset;
        task->member = &dataset->members[i];
        task->prefix = blend->prefixes[i];
        task->range = &builder->ranges[split];
        task->weight = blend->weights ? blend->weights[i] : 0;
        task->samples = samples_of(builder, split, task->weight);
    }
    return 0;
}

static void note_left_out(struct dataset *dataset, const char *prefix)
{
    size_t used = strlen(dataset->left_out_names), room = sizeof(dataset->left_out_names) - used;

    dataset->left_out++;
    if (strlen(prefix) + 6 < room)
        snprintf(dataset->left_out_names + used, room, "%s%s", used ? ", " : "", prefix);
    else if (used < 3 || strcmp(dataset->left_out_names + used - 3, "...") != 0)
        snprintf(dataset->left_out_names + used, room, "%s...", used ? ", " : "");
}

/* Leave out the members whose part has no sample: a small corpus of a blend has no validation data,
 * and that is no reason not to train on it. The others share its weight. */
static void leave_out_empty(struct builder *builder)
{
    size_t kept = 0;

    for (int i = 0; i < DATASET_SPLITS; i++)
        if (builder->splits[i])
            builder->splits[i]->member_count = builder->blends[i].count = 0;
    for (size_t i = 0; i < builder->task_count; i++) {
        struct task task = builder->tasks[i];
        struct blend *blend = &builder->blends[task.dataset->split];
        struct blend_member member = *task.member;

        *task.member = (struct blend_member){0};
        if (task.is_empty) {
            indexed_close(member.corpus);
            note_left_out(task.dataset, task.prefix);
            continue;
        }
        task.member = &task.dataset->members[task.dataset->member_count++];
        *task.member = member;
        blend->prefixes[blend->count] = task.prefix;
        if (blend->weights)
            blend->weights[blend->count] = task.weight;
        blend->count++;
        builder->tasks[kept++] = task;
    }
    builder->task_count = kept;
}

/* The others' weights and numbers of samples. */
static void plan_samples(struct builder *builder)
{
    int64_t place[DATASET_SPLITS] = {0};

    for (int i = 0; i < DATASET_SPLITS; i++)
        if (builder->splits[i] && builder->splits[i]->left_out > 0 && builder->blends[i].weights)
            blend_normalise(builder->blends[i].weights, builder->blends[i].count);
    for (size_t i = 0; i < builder->task_count; i++) {
        struct task *task = &builder->tasks[i];
        enum dataset_split split = task->dataset->split;
        int64_t number = place[split]++;

        if (builder->blends[split].weights)
            task->weight = builder->blends[split].weights[number];
        task->samples = samples_of(builder, split, task->weight);
    }
}

int64_t dataset_part_samples(const struct dataset *dataset, size_t i)
{
    const struct index_file *index = dataset->members[i].index;

    return dataset->bert ? bert_index_samples(index) : gpt_index_samples(index);
}

static int blend_split(struct builder *builder, enum dataset_split split, struct error *err)
{
    struct dataset *dataset = builder->splits[split];
    const struct blend *blend = &builder->blends[split];
    const char *directories[2];
    char beside[PATH_MAX];
    int count;

    if (!dataset)
        return 0;
    if (dataset->member_count == 0 && builder->config->split_path[split].count > 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s: shorter than one sample of %s data; use more data",
                              dataset->left_out_names, dataset_split_words(split));
    if (dataset->member_count == 0) {
        dataset_destroy(dataset);
        builder->splits[split] = NULL;
        return 0;
    }
    if (is_single(builder, split)) {
        dataset->samples = dataset_part_samples(dataset, 0);
        return 0;
    }
    count = cache_directories(builder, blend->prefixes[0], beside, directories);
    return blend_index_get(dataset, blend->weights, builder->config->samples[split], directories,
                           count, builder->deadline, err);
}

/* Parse the options that name the data into blends and ranges. */
static int read_paths(struct builder *builder, struct error *err)
{
    const struct dataset_config *config = builder->config;
    int apart = 0;

    for (int i = 0; i < DATASET_SPLITS; i++)
        apart |= config->split_path[i].count > 0;
    if (apart && (config->data_path.count > 0 || config->split)) {
        error_set(err, "%s cannot be combined with separate train, valid or test data",
                  config->data_path.count > 0 ? "data for all splits" : "a data split");
        return error_append(err, "; use either --data-path and --split, or --train-data-path, "
                                 "--valid-data-path and --test-data-path");
    }
    if (!apart && config->data_path.count == 0) {
        error_set(err, "no data to train on");
        return error_append(err, "; use --data-path PREFIX, or --mock-data");
    }
    if (!apart && split_parse(config->split ? config->split : DATASET_DEFAULT_SPLIT,
                              builder->ranges, err) < 0)
        return -1;
    for (int i = 0; i < DATASET_SPLITS; i++) {
        const struct option_list *words = apart ? &config->split_path[i] : &config->data_path;

        if (apart)
            builder->ranges[i] = (struct split_range){0, 1, 1};
        if (words->count == 0)
            continue;
        if (blend_parse(words->items, words->count, &builder->blends[i], err) < 0)
            return error_append(err, "; correct %s", blend_options[apart ? i : DATASET_SPLITS]);
        if (builder->blends[i].weights)
            blend_normalise(builder->blends[i].weights, builder->blends[i].count);
    }
    return 0;
}

/* Raise the limit on open files for the data, beyond what everything else needs. */
static int allow_files(size_t tasks, struct error *err)
{
    enum { FILES_OF_TASK = 3 }; /* .bin, .idx and the index */
    struct rlimit limit;
    rlim_t wanted = tasks * FILES_OF_TASK;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    if (wanted >= limit.rlim_max)
        return error_set(err,
                         "the corpora need %zu open files, but the limit is %zu; raise the hard "
                         "limit (ulimit -Hn), or merge the files",
                         (size_t)wanted, (size_t)limit.rlim_max);
    wanted += limit.rlim_cur;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return 0;
}

static int build_all(struct builder *builder, struct error *err)
{
    int threads = index_threads(builder->config->threads), outer;
    size_t most = 0;

    for (int i = 0; i < DATASET_SPLITS; i++)
        most += builder->blends[i].count;
    builder->tasks = calloc(most, sizeof(*builder->tasks));
    if (!builder->tasks)
        return error_set(err, "%zu corpora: out of memory", most);
    for (int i = 0; i < DATASET_SPLITS; i++)
        if (plan_split(builder, (enum dataset_split)i, err) < 0)
            return -1;
    if (allow_files(builder->task_count, err) < 0)
        return -1;
    outer = builder->task_count < (size_t)threads ? (int)builder->task_count : threads;
    if (threads_loop(outer, (int64_t)builder->task_count, open_member, builder, err) < 0)
        return -1;
    leave_out_empty(builder);
    plan_samples(builder);
    outer = builder->task_count < (size_t)threads ? (int)builder->task_count : threads;
    builder->threads = outer > 0 ? (threads + outer - 1) / outer : 1;
    if (threads_loop(outer, (int64_t)builder->task_count, build_member, builder, err) < 0)
        return -1;
    for (int i = 0; i < DATASET_SPLITS; i++)
        if (blend_split(builder, (enum dataset_split)i, err) < 0)
            return -1;
    return 0;
}

static int create_mock(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                       struct error *err)
{
    enum { ONE_EPOCH = 100000 };

    if (config->vocabulary < 2 || config->eod < 0 || config->eod >= config->vocabulary) {
        error_set(err,
                  "mock data needs an end-of-document token; %" PRId32
                  " is not in a vocabulary of %" PRId64,
                  config->eod, config->vocabulary);
        return error_append(err, "; use --data-path PREFIX instead of --mock-data");
    }
    for (int i = 0; i < DATASET_SPLITS; i++) {
        if (config->samples[i] == 0)
            continue;
        splits[i] = dataset_new(config, (enum dataset_split)i, 0, err);
        if (!splits[i])
            return -1;
        splits[i]->mock = 1;
        splits[i]->samples = config->samples[i] > 0 ? config->samples[i] : ONE_EPOCH;
    }
    return 0;
}

static int create_from_files(const struct dataset_config *config,
                             struct dataset *splits[DATASET_SPLITS], struct error *err)
{
    struct builder *builder = calloc(1, sizeof(*builder));
    int status = -1;

    if (!builder)
        return error_set(err, "the data: out of memory");
    builder->config = config;
    builder->splits = splits;
    builder->deadline = config->deadline > 0 ? config->deadline : 600;
    if (!config->cache_path)
        find_own_cache(builder->own_cache);
    if (read_paths(builder, err) == 0)
        status = build_all(builder, err);
    for (int i = 0; i < DATASET_SPLITS; i++)
        blend_clear(&builder->blends[i]);
    free(builder->tasks);
    free(builder);
    return status;
}

/* The vocabulary of corpora is checked for the first split only if all splits have the same ones.
 */
static int check_blend(const struct builder *builder, enum dataset_split split,
                       struct vocabulary_check *vocabulary, struct error *err)
{
    const struct dataset_config *config = builder->config;
    const struct blend *blend = &builder->blends[split];
    int64_t first, count;

    for (size_t i = 0; i < blend->count; i++) {
        struct indexed *corpus = indexed_open(blend->prefixes[i], err);
        int rc = corpus ? find_part(corpus, split, config->masked != NULL, &builder->ranges[split],
                                    &first, &count, err)
                        : -1;

        if (rc == 0 && vocabulary)
            rc = vocabulary_check(vocabulary, corpus, err);
        indexed_close(corpus);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Is there anything to train on? */
static int check_train(const struct builder *builder, struct error *err)
{
    const struct dataset_config *config = builder->config;

    if (config->samples[DATASET_TRAIN] == 0 || builder->ranges[DATASET_TRAIN].present)
        return 0;
    error_set_code(err, ERROR_USAGE, "no training data: the split assigns none to it");
    return error_append(err, "; change --split");
}

int dataset_check(const struct dataset_config *config, struct error *err)
{
    struct builder builder = {.config = config};
    struct vocabulary_check vocabulary = {.vocabulary = config->vocabulary,
                                          .tokenizer = config->tokenizer,
                                          .eod = config->masked ? -1 : config->eod};
    int status, checked = 0;

    if (config->masked && !config->masked->bert)
        return masked_check(config, err);
    if (config->mock)
        return config->split ? split_parse(config->split, builder.ranges, err) : 0;
    status = read_paths(&builder, err);
    if (status == 0)
        status = check_train(&builder, err);
    for (int i = 0; i < DATASET_SPLITS && status == 0; i++)
        if (config->samples[i] != 0 && builder.ranges[i].present) {
            status =
                check_blend(&builder, (enum dataset_split)i,
                            config->data_path.count > 0 && checked++ ? NULL : &vocabulary, err);
        }
    if (status == 0)
        vocabulary_check_report(&vocabulary);
    for (int i = 0; i < DATASET_SPLITS; i++)
        blend_clear(&builder.blends[i]);
    return status;
}

int dataset_create(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                   struct error *err)
{
    int status;

    for (int i = 0; i < DATASET_SPLITS; i++)
        splits[i] = NULL;
    if (config->sequence_length < 1 || config->sequence_length > INT32_MAX / 8) {
        error_set(err, "a sequence length of %" PRId64 " is out of range (1 to %d)",
                  config->sequence_length, INT32_MAX / 8);
        return error_append(err, "; change --seq-length");
    }
    status = config->masked && !config->masked->bert ? masked_create(config, splits, err)
             : config->mock                          ? create_mock(config, splits, err)
                                                     : create_from_files(config, splits, err);
    for (int i = 0; i < DATASET_SPLITS && status == 0 && config->cyclic_ranks > 0; i++)
        if (splits[i] && !config->masked) {
            splits[i]->cyclic = cyclic_create(splits[i]->samples, config->cyclic_micro_batch,
                                              config->cyclic_ranks, err);
            status = splits[i]->cyclic ? 0 : -1;
        }
    for (int i = 0; i < DATASET_SPLITS && status < 0; i++) {
        dataset_destroy(splits[i]);
        splits[i] = NULL;
    }
    return status;
}

void dataset_destroy(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t i = 0; i < dataset->member_count; i++) {
        indexed_close(dataset->members[i].corpus);
        index_file_close(dataset->members[i].index);
    }
    index_file_close(dataset->blend);
    masked_close(dataset->masked);
    cyclic_destroy(dataset->cyclic);
    free(dataset->members);
    free(dataset);
}

int64_t dataset_samples(const struct dataset *dataset)
{
    return dataset->samples;
}

int64_t dataset_left_out(const struct dataset *dataset, const char **names)
{
    *names = dataset->left_out_names;
    return dataset->left_out;
}

int64_t dataset_sequence_length(const struct dataset *dataset)
{
    return dataset->sequence_length;
}

struct masked *dataset_masked(const struct dataset *dataset)
{
    return dataset->masked;
}

int dataset_find(const struct dataset *dataset, int64_t i, const struct blend_member **member,
                 int64_t *sample, struct error *err)
{
    int16_t corpus;

    *member = dataset->members;
    *sample = i;
    if (dataset->blend) {
        if (index_file_read(dataset->blend, BLEND_CORPUS, i, 1, &corpus, err) < 0 ||
            index_file_read(dataset->blend, BLEND_SAMPLE, i, 1, sample, err) < 0)
            return -1;
        if (corpus < 0 || (size_t)corpus >= dataset->member_count)
            return error_set(err,
                             "%s names corpus %d of %zu; it is damaged; remove it and run again",
                             index_file_path(dataset->blend), corpus, dataset->member_count);
        *member += corpus;
    }
    return 0;
}

static int read_text(const struct dataset *dataset, int64_t i, int32_t *text,
                     const struct blend_member **from, struct error *err)
{
    int64_t sample;

    if (dataset_find(dataset, i, from, &sample, err) < 0)
        return -1;
    return gpt_index_text((*from)->index, (*from)->corpus, dataset->sequence_length, sample, text,
                          err);
}

int dataset_text(const struct dataset *dataset, int64_t i, int32_t *text, struct error *err)
{
    const struct blend_member *member = NULL;
    const char *split = dataset_split_name(dataset->split);

    if (i < 0 || i >= dataset->samples)
        return error_bug(err,
                         "sample %" PRId64 " of the %s data does not exist; there are %" PRId64, i,
                         split, dataset->samples);
    if (dataset->mock) {
        mock_text(dataset, i, text);
        return 0;
    }
    if (read_text(dataset, i, text, &member, err) < 0)
        return error_prefix(err, "sample %" PRId64 " of the %s data", i, split);
    for (int64_t j = 0; j <= dataset->sequence_length && dataset->vocabulary > 0; j++)
        if (text[j] < 0 || text[j] >= dataset->vocabulary)
            return error_set(err,
                             "%s.bin: token %" PRId32 " in sample %" PRId64 " of the %s data is "
                             "not in the vocabulary of %" PRId64
                             "; use the tokenizer that made the data, or tokenize it again",
                             indexed_prefix(member->corpus), text[j], i, split,
                             dataset->vocabulary);
    return 0;
}
